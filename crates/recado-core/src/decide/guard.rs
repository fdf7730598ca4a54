//! Guards: work under a key that one holder at a time does, and that is done once.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use recado_mutants::{Mutant, active};

use super::find_queue;
use super::settle::{Standing, standing};
use crate::command::{GuardAction, GuardBegin, GuardUse, Moment, Outcome};
use crate::draft::Draft;
use crate::event::{Event, GuardRecord, LeaseState};
use crate::id::{Hash, JobId, Receipt, Secret};
use crate::rejection::{Rejection, StaleReason};
use crate::reply::{Begun, Reply};
use crate::state::{Guard, Queue, Slot, State, domain};

pub(super) fn begin(state: &State, moment: Moment, begin: &GuardBegin, draft: &mut Draft) -> Result<Reply, Rejection> {
    let queue = find_queue(state, &begin.queue)?;
    if queue.is_going {
        return Err(Rejection::QueueFull { queue: begin.queue.clone(), reason: "being-deleted", limit: 0, actual: 0 });
    }
    let number = queue.record.number;
    let job = begin.job.map(|id| find_job(state, number, id)).transpose()?;
    if let (Some(slot), Some(receipt)) = (job, &begin.receipt)
        && !active(Mutant::GuardReceiptUnchecked)
    {
        check_receipt(state, moment, slot, receipt)?;
    }
    let key = state.hash(domain::GUARD, number, &begin.key);
    let attempt_id = begin.attempt_id.as_deref().filter(|_| !active(Mutant::GuardAttemptForgotten));
    let attempt = attempt_id.map(|id| state.hash(domain::GUARD_ATTEMPT, number, id).0 as u64);
    let (mut nonce, elapsed) = (moment.entropy, state.elapsed(moment.at));
    let mut ends_elapsed_at = elapsed.saturating_add(begin.hold_ms);
    match find(state, key, moment.at) {
        Some(guard) if guard.record.done.is_some() => return Ok(Reply::Begun(Begun::Done { result: guard.result })),
        Some(guard) if attempt.is_some() && attempt == guard.record.attempt => {
            // Its holder counts from this answer; one that comes late takes nothing from what was extended since.
            nonce = guard.record.nonce;
            ends_elapsed_at = ends_elapsed_at.max(guard.record.ends_elapsed_at);
        }
        Some(guard) if guard.holds(elapsed) && !active(Mutant::GuardHeldByTwo) => {
            return Ok(Reply::Begun(Begun::Processing { until: state.wall(guard.record.ends_elapsed_at) }));
        }
        _ => {}
    }
    if state.guards.find(key.0).is_none() {
        check_room(state, queue)?;
    }
    draft.push(Event::GuardSet(Box::new(GuardRecord {
        key,
        queue: number,
        nonce,
        hold_ms: begin.hold_ms,
        ends_elapsed_at,
        ttl_ms: begin.ttl_ms,
        until: moment.at.saturating_add(begin.ttl_ms.max(begin.hold_ms)),
        job: job.map(|slot| state.jobs[slot].id.seq()),
        done: None,
        result: None,
        attempt,
    })));
    Ok(Reply::Begun(Begun::New { token: token(state.secret, key, nonce) }))
}

/// An event touches one queue, so the job is one of the guard's.
fn find_job(state: &State, queue: u32, id: JobId) -> Result<Slot, Rejection> {
    let slot = state.slot_of(id).ok_or(Rejection::JobGone(id))?;
    if state.jobs[slot].queue != queue {
        let its = &state.queue(state.jobs[slot].queue).name;
        let message = format!("the job is in queue `{its}`: begin there");
        return Err(Rejection::Invalid { index: 0, pointer: "/job".into(), message });
    }
    Ok(slot)
}

/// Only who has the job now may begin: a late settle may still count, new work may not be started on it.
fn check_receipt(state: &State, moment: Moment, slot: Slot, receipt: &str) -> Result<(), Rejection> {
    let job = &state.jobs[slot];
    let stale = |reason, state| Err(Rejection::Stale { reason, state });
    let Some(receipt) = Receipt::parse(receipt, state.secret).filter(|receipt| receipt.job == job.id) else {
        return stale(StaleReason::Forged, None);
    };
    let extend = Outcome::Extend { visibility_ms: None, progress: None };
    let reason = match standing(state, slot, state.elapsed(moment.at), &receipt, &extend, 0) {
        Standing::Overtaken(reason) => reason,
        _ if job.lease().is_some_and(|lease| lease.state == LeaseState::Held) => return Ok(()),
        _ => StaleReason::Lapsed,
    };
    stale(reason, Some(state.state_at(job, moment.at)))
}

fn check_room(state: &State, queue: &Queue) -> Result<(), Rejection> {
    let limit = queue.settings.key_max;
    if queue.guards >= limit {
        let (queue_name, actual) = (queue.record.name.clone(), queue.guards + 1);
        return Err(Rejection::QueueFull { queue: queue_name, reason: "guards", limit, actual });
    }
    if state.is_short_of_memory() {
        return Err(Rejection::OutOfMemory { limit: state.memory_limit_bytes });
    }
    Ok(())
}

pub(super) fn act(state: &State, moment: Moment, wanted: &GuardUse, draft: &mut Draft) -> Result<Reply, Rejection> {
    let number = find_queue(state, &wanted.queue)?.record.number;
    let key = state.hash(domain::GUARD, number, &wanted.key);
    let outdated = |reason| Err(Rejection::TokenOutdated { reason });
    let answer = |repeated, until| Ok(Reply::Guarded { repeated, until });
    let Some(nonce) = nonce_of(state.secret, key, &wanted.token) else { return outdated(StaleReason::Forged) };
    let Some(guard) = find(state, key, moment.at) else {
        // What an abort is for is so already, whoever or whatever did it.
        return if wanted.action == GuardAction::Abort { answer(true, None) } else { outdated(StaleReason::Expired) };
    };
    if guard.record.nonce != nonce && !active(Mutant::GuardTokenUnchecked) {
        return outdated(StaleReason::KeyTaken);
    }
    if let Some(done) = guard.record.done {
        let is_same =
            matches!(&wanted.action, GuardAction::Complete { result } if done == hash_of(state, nonce, result));
        return if is_same { answer(true, None) } else { outdated(StaleReason::Settled) };
    }
    match &wanted.action {
        GuardAction::Complete { result } => {
            let done = Some(hash_of(state, nonce, result));
            let result = result.as_deref().map(|bytes| draft.put(bytes));
            let until = moment.at.saturating_add(guard.record.ttl_ms);
            draft.push(Event::GuardSet(Box::new(GuardRecord { until, done, result, ..guard.record })));
            answer(false, None)
        }
        GuardAction::Abort => {
            draft.push(Event::GuardEnded { key });
            answer(false, None)
        }
        GuardAction::Extend { hold_ms } => {
            let ends_elapsed_at = state.elapsed(moment.at).saturating_add(*hold_ms);
            let until = guard.record.until.max(moment.at.saturating_add(*hold_ms));
            let record = GuardRecord { hold_ms: *hold_ms, ends_elapsed_at, until, ..guard.record };
            draft.push(Event::GuardSet(Box::new(record)));
            answer(false, Some(state.wall(ends_elapsed_at)))
        }
    }
}

/// Stands for what the work ended with: the same again has the same.
fn hash_of(state: &State, nonce: u64, result: &Option<Vec<u8>>) -> u64 {
    state.secret.hash(domain::GUARD_RESULT, nonce, &[result.as_deref().unwrap_or_default()]).0 as u64
}

fn find(state: &State, key: Hash, at: u64) -> Option<&Guard> {
    state.guards.get_by(key.0).filter(|guard| !guard.is_over(at, state.elapsed(at)))
}

/// The nonce of a begin with a message authentication code: a token that was overtaken is told apart from one
/// of another key without remembering it. 32 hex digits.
fn token(secret: Secret, key: Hash, nonce: u64) -> Box<str> {
    let code = secret.hash(domain::GUARD_TOKEN, nonce, &[&key.0.to_be_bytes()]).0 as u64;
    format!("{nonce:016x}{code:016x}").into()
}

fn nonce_of(secret: Secret, key: Hash, text: &str) -> Option<u64> {
    let nonce = u64::from_str_radix(text.get(..16)?, 16).ok()?;
    (*token(secret, key, nonce) == *text).then_some(nonce)
}
