//! Settle: what a worker says of its delivery, in time or late (promise 4).

use alloc::format;

use recado_mutants::{Mutant, active};

use super::{evict, keep_until};
use crate::command::{Failure, Moment, Outcome, Settle};
use crate::draft::Draft;
use crate::event::{Event, LeaseState};
use crate::id::{Hash, JobId, Receipt};
use crate::rejection::{Rejection, StaleReason};
use crate::reply::{Reply, Settled, State as JobState};
use crate::state::{Job, Slot, State, domain};

pub(super) fn decide(state: &State, moment: Moment, settle: &Settle, draft: &mut Draft) -> Result<Reply, Rejection> {
    let forged = Rejection::Stale { reason: StaleReason::Forged, state: None };
    let receipt = Receipt::parse(&settle.receipt, state.secret).ok_or(forged.clone())?;
    if settle.job.is_some_and(|job| job != receipt.job) {
        return Err(forged);
    }
    let outcome = hash_of(state, &receipt, &settle.outcome);
    let settled = |repeated, visible_at, cancel_requested| {
        Ok(Reply::Settled(Settled { id: receipt.job, repeated, visible_at, cancel_requested }))
    };
    let Some(slot) = state.slot_of(receipt.job) else {
        if state.settle_of(receipt.job.seq()).is_some_and(|last| last.outcome == outcome) {
            return settled(true, None, false);
        }
        return Err(Rejection::Stale { reason: why_gone(state, &receipt), state: None });
    };
    let settled = |repeated, visible_at| settled(repeated, visible_at, state.jobs[slot].cancel_requested());
    match standing(state, slot, state.elapsed(moment.at), &receipt, &settle.outcome, outcome) {
        Standing::Repeated => settled(true, None),
        Standing::Overtaken(reason) => {
            let now = state.state_at(&state.jobs[slot], moment.at);
            Err(Rejection::Stale { reason, state: Some(now) })
        }
        Standing::Counts => {
            if let Outcome::Ack { result: Some(result) } = &settle.outcome {
                state.check_child_result(&state.jobs[slot], result.len())?;
            }
            let visible_at = settle_it(state, moment, slot, &settle.outcome, draft);
            if visible_at.is_none() {
                let is_end = draft.events.iter().any(|e| matches!(e, Event::Completed { .. } | Event::Ended { .. }));
                draft.push(Event::Settled { seq: receipt.job.seq(), at: moment.at, outcome, is_end });
            }
            settled(false, visible_at)
        }
    }
}

/// Stands for a receipt and all that was said under it: the same settle again has the same.
fn hash_of(state: &State, receipt: &Receipt, outcome: &Outcome) -> u64 {
    let hash = |parts: &[&[u8]]| state.secret.hash(domain::SETTLE, receipt.nonce, parts);
    let number = |number: Option<u64>| number.map(u64::to_be_bytes);
    let Hash(hash) = match outcome {
        Outcome::Ack { result } => hash(&[b"ack", result.as_deref().unwrap_or_default()]),
        Outcome::Fail(Failure { kind, message, retryable, retry_after_ms }) => {
            let (retry, after) = ([u8::from(*retryable)], number(*retry_after_ms));
            hash(&[
                b"fail",
                kind.as_bytes(),
                message.as_bytes(),
                &retry,
                after.as_ref().map_or(&[], <[u8; 8]>::as_slice),
            ])
        }
        Outcome::Release { delay_ms, reason } => {
            let (delay, reason) = (number(*delay_ms), reason.as_deref().unwrap_or_default());
            hash(&[b"release", delay.as_ref().map_or(&[], <[u8; 8]>::as_slice), reason.as_bytes()])
        }
        Outcome::Extend { .. } => hash(&[b"extend"]),
    };
    hash as u64
}

fn why_gone(state: &State, receipt: &Receipt) -> StaleReason {
    match state.queues.get(&receipt.queue) {
        Some(queue) if queue.record.purged_at < receipt.received_at => StaleReason::Settled,
        _ => StaleReason::Purged,
    }
}

/// Whether a settle still counts.
pub(super) enum Standing {
    Counts,
    Repeated,
    Overtaken(StaleReason),
}

pub(super) fn standing(
    state: &State,
    slot: Slot,
    elapsed_at: u64,
    receipt: &Receipt,
    outcome: &Outcome,
    hash: u64,
) -> Standing {
    let job = &state.jobs[slot];
    let is_last = |fence: u64| fence == receipt.fence || active(Mutant::LateSettleAccepted);
    let last = job.last_delivery().filter(|last| is_last(last.fence));
    let Some((last, lease_state)) = last.zip(state.lease_state(job)) else {
        return Standing::Overtaken(StaleReason::ReceivedAgain);
    };
    let timeout_elapsed_at = job.lease().and_then(|lease| lease.timeout_elapsed_at);
    let ended = match job.state {
        JobState::Cancelled => Some(StaleReason::Cancelled),
        JobState::Expired => Some(StaleReason::Expired),
        JobState::Dead => Some(StaleReason::Dead),
        _ => None,
    };
    let is_extend = matches!(outcome, Outcome::Extend { .. });
    let is_fifo = state.queue(job.queue).settings.fifo.is_some() && !active(Mutant::FifoLateSettleAccepted);
    let is_over = || job.lease().is_some_and(|lease| lease.ends_elapsed_at <= elapsed_at);
    match lease_state {
        // The service takes no late settle of a FIFO queue's message.
        LeaseState::Held | LeaseState::Lapsed if is_fifo && ended.is_none() && is_over() => {
            Standing::Overtaken(StaleReason::Lapsed)
        }
        LeaseState::Held => Standing::Counts,
        LeaseState::Lapsed => match ended {
            Some(reason) => Standing::Overtaken(reason),
            // No extend goes beyond the timeout that ended the attempt.
            None if is_extend && timeout_elapsed_at.is_some_and(|at| at <= elapsed_at) => {
                Standing::Overtaken(StaleReason::Settled)
            }
            None if job.state == JobState::Completed => Standing::Overtaken(StaleReason::KeyTaken),
            None if state.is_held_by_key(job) => Standing::Overtaken(StaleReason::KeyTaken),
            None => Standing::Counts,
        },
        LeaseState::Killed => match outcome {
            Outcome::Ack { .. } | Outcome::Fail(_) if !state.is_held_by_key(job) => Standing::Counts,
            Outcome::Ack { .. } | Outcome::Fail(_) => Standing::Overtaken(StaleReason::KeyTaken),
            Outcome::Release { .. } | Outcome::Extend { .. } => Standing::Overtaken(StaleReason::Dead),
        },
        LeaseState::Acked | LeaseState::Failed | LeaseState::Released if last.outcome == Some(hash) => {
            Standing::Repeated
        }
        LeaseState::Acked | LeaseState::Failed | LeaseState::Released => {
            Standing::Overtaken(ended.unwrap_or(StaleReason::Settled))
        }
        LeaseState::Replayed => Standing::Overtaken(StaleReason::Replayed),
        LeaseState::Forwarded => Standing::Overtaken(StaleReason::Forwarded),
        LeaseState::KeyTaken => Standing::Overtaken(StaleReason::KeyTaken),
        LeaseState::Replaced => Standing::Overtaken(StaleReason::Replaced),
        LeaseState::Cancelled => Standing::Overtaken(ended.unwrap_or(StaleReason::Cancelled)),
    }
}

/// Writes down a settle that counts. Answers when an extended delivery becomes visible again.
fn settle_it(state: &State, moment: Moment, slot: Slot, outcome: &Outcome, draft: &mut Draft) -> Option<u64> {
    match outcome {
        Outcome::Ack { result } => ack(state, moment.at, slot, result.as_deref(), draft),
        Outcome::Fail(failure) => {
            let killed = state.jobs[slot].lease().is_some_and(|lease| lease.state == LeaseState::Killed);
            if killed {
                die_anew(state, moment.at, slot, failure, draft);
            } else {
                state.fail(slot, moment.at, failure, LeaseState::Failed, moment.entropy, draft);
            }
        }
        Outcome::Release { delay_ms, reason } => release(state, moment.at, slot, *delay_ms, reason.as_deref(), draft),
        Outcome::Extend { visibility_ms, progress } => {
            return Some(extend(state, moment.at, slot, *visibility_ms, progress.as_deref(), draft));
        }
    }
    None
}

fn ack(state: &State, at: u64, slot: Slot, result: Option<&[u8]>, draft: &mut Draft) {
    let job = &state.jobs[slot];
    let queue = state.queue(job.queue);
    let keep_until = keep_until(queue, at);
    if keep_until.is_some() {
        evict(queue, state, draft);
    }
    let result = result.map(|bytes| draft.put(bytes));
    let is_late = job.lease().is_some_and(|lease| matches!(lease.state, LeaseState::Lapsed | LeaseState::Killed));
    let error = is_late.then(|| {
        let message = "the ack came after the delivery had timed out, and counts";
        let late = Failure { kind: "late-ack".into(), message: message.into(), ..Failure::default() };
        draft.put_encoded(&super::retry::entry(job, at, &late))
    });
    draft.push(Event::Completed {
        seq: job.id.seq(),
        queue: job.queue,
        at,
        result,
        keep_until,
        key: state.key_of(job).map(|key| key.hash),
        key_until: at.saturating_add(queue.settings.key_keep_ms),
        task: job.task(),
        error,
    });
}

/// The worker's own account of a death that the server knew only as a timeout.
fn die_anew(state: &State, at: u64, slot: Slot, failure: &Failure, draft: &mut Draft) {
    let job = &state.jobs[slot];
    let error = super::retry::entry(job, at, failure);
    let span = draft.put_encoded(&error);
    draft.push(Event::Died {
        seq: job.id.seq(),
        at,
        error: Some(span),
        death: state.death(job, &error),
        lease: LeaseState::Failed,
        blocks_group: state.groups[job.group].holders.contains(&slot),
        task: job.task(),
    });
}

fn release(state: &State, at: u64, slot: Slot, delay_ms: Option<u64>, reason: Option<&str>, draft: &mut Draft) {
    let job = &state.jobs[slot];
    if job.cancel_requested() {
        let why = reason.unwrap_or("cancelled while in flight, then released");
        super::cancel::cancelled(state, slot, at, LeaseState::Released, why, draft);
        return;
    }
    let kind = if delay_ms.is_some() { "snoozed" } else { "released" };
    let failure = |kind: &str, message: &str| Failure {
        kind: kind.into(),
        message: message.into(),
        retryable: true,
        retry_after_ms: None,
    };
    let (has_reason, reason) = (reason.is_some(), reason.unwrap_or_default());
    if state.is_delivered_out(job) {
        let why = if has_reason { format!("{kind}: {reason}") } else { kind.into() };
        let failure = failure("max-deliveries", &super::retry::delivered_out(job, &why));
        state.fail(slot, at, &failure, LeaseState::Released, 0, draft);
        return;
    }
    let failure = failure(kind, reason);
    let error = (delay_ms.is_some() || has_reason).then(|| super::retry::entry(job, at, &failure));
    let error = error.map(|error| draft.put_encoded(&error));
    draft.push(Event::Released {
        seq: job.id.seq(),
        at,
        until: delay_ms.filter(|ms| *ms > 0).map(|ms| state.due_after(at, ms)),
        error,
        uncounted: false,
    });
}

fn extend(
    state: &State,
    at: u64,
    slot: Slot,
    visibility_ms: Option<u64>,
    progress: Option<&[u8]>,
    draft: &mut Draft,
) -> u64 {
    let ends_elapsed_at = state.elapsed(at).saturating_add(state.visibility_ms(slot, visibility_ms));
    let limit = state.jobs[slot].lease().and_then(|lease| lease.timeout_elapsed_at);
    let ends_elapsed_at = limit.map_or(ends_elapsed_at, |limit| limit.min(ends_elapsed_at));
    let progress = progress.map(|bytes| draft.put(bytes));
    draft.push(Event::Extended { seq: state.jobs[slot].id.seq(), ends_elapsed_at, progress });
    state.wall(ends_elapsed_at)
}

/// The answer of a receive did not reach its worker: as if it had not happened.
pub(super) fn give_back(
    state: &State,
    moment: Moment,
    job: JobId,
    nonce: u64,
    delay_ms: Option<u64>,
    draft: &mut Draft,
) {
    let Some(slot) = state.slot_of(job) else { return };
    let is_held = |job: &Job| job.lease().is_some_and(|lease| lease.nonce == nonce && lease.state == LeaseState::Held);
    let job = &state.jobs[slot];
    if !is_held(job) {
        return;
    }
    if job.cancel_requested() {
        let why = "cancelled before its delivery arrived";
        super::cancel::cancelled(state, slot, moment.at, LeaseState::Cancelled, why, draft);
        return;
    }
    let until = delay_ms.filter(|ms| *ms > 0).map(|ms| state.due_after(moment.at, ms));
    draft.push(Event::Released { seq: job.id.seq(), at: moment.at, until, error: None, uncounted: true });
}
