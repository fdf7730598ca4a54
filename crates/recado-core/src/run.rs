//! Decide and apply, step by step: what the shard, recovery's caller and the simulator call.

use alloc::vec::Vec;

use recado_mutants::{Mutant, active};

use crate::apply::apply;
use crate::codec::encode;
use crate::command::{Cancel, CancelTarget, Command, Moment, Receive};
use crate::decide::{self, TaskStepDecision, decide, mix};
use crate::draft::Draft;
use crate::event::{AuditRecord, Event, LeaseState};
use crate::figures::Count;
use crate::id::Receipt;
use crate::rejection::Rejection;
use crate::reply::{Cancelled, Delivered, Reply};
use crate::schedule::{Occurrence, Skip};
use crate::state::{Hold, Slot, State};

/// Expired jobs, met on the way, that one receive ends at most.
pub const EXPIRED_MAX: usize = 250;

/// Things that one [`Command::Tick`] does at most.
pub const TICK_STEPS_MAX: usize = 1_000;
/// What one of them takes at most, in bytes: a list of 100 forgotten jobs, or an error with a long worker's name.
pub const TICK_STEP_BYTES_MAX: usize = 1_024;

/// Jobs that one call makes ready at most.
const ADVANCE_MAX: usize = 1_000;

/// Runs a command: decides each step and applies its facts before the next. The draft grows by what was
/// decided; a rejected command leaves no trace in state or draft.
///
/// # Errors
/// A [`Rejection`] when nothing was done.
pub fn run(state: &mut State, moment: Moment, command: &Command, draft: &mut Draft) -> Result<Reply, Rejection> {
    match command {
        Command::Receive(receive) => run_receive(state, moment, receive, draft),
        Command::Tick => run_tick(state, moment, draft),
        Command::Cancel(cancel) => run_cancel(state, moment, cancel, draft),
        Command::StepTask { task, jobs, unpatchable, cursor, last } => {
            let mut rest = jobs.iter();
            let mut step =
                TaskStepDecision { task: *task, job: None, unpatchable: *unpatchable, cursor: *cursor, last: false };
            loop {
                step.job = rest.next().map(|(seq, payload)| (*seq, payload.as_deref()));
                step.last = *last && rest.len() == 0;
                let reply = step_with(state, draft, |state, draft| decide::step_task(state, moment, step, draft))?;
                if rest.len() == 0 {
                    return Ok(reply);
                }
                step.unpatchable = 0;
            }
        }
        Command::Copy(plans) => {
            for plan in plans {
                step_with(state, draft, |state, draft| {
                    decide::copy(state, plan, draft);
                    Ok(())
                })?;
            }
            Ok(Reply::Done)
        }
        Command::Enqueue(enqueue) => {
            let reply = step(state, moment, command, draft);
            state.note_memory(matches!(reply, Err(Rejection::OutOfMemory { .. })));
            let reply = reply?;
            if let Reply::Enqueued { jobs, .. } = &reply
                && let Some(number) = state.queue_number(&enqueue.queue)
            {
                // No fact is written for a duplicate, so it is counted here.
                for _ in jobs.iter().filter(|job| job.duplicate.is_some()) {
                    state.queue_mut(number).figures.count(Count::Deduplicated, moment.at);
                }
            }
            Ok(reply)
        }
        Command::FireSchedule(_) | Command::RunSchedule(_) => {
            let reply = step(state, moment, command, draft)?;
            if let Reply::Occurred {
                occurrence: Some(Occurrence { skip: Some(Skip::Deduplicated), job: Some(job), .. }),
                ..
            } = &reply
                && let Some(slot) = state.slot_of(*job)
            {
                let queue = state.jobs[slot].queue;
                state.queue_mut(queue).figures.count(Count::Deduplicated, moment.at);
            }
            Ok(reply)
        }
        Command::Settle(_) => {
            let reply = step(state, moment, command, draft)?;
            // Before anything else is handed out, and so that a receive which settles first finds whom that let go.
            if let Reply::Settled(settled) = &reply {
                let child = settled.id.seq();
                step_with(state, draft, |state, draft| {
                    decide::let_go(state, moment, child, draft);
                    Ok(())
                })?;
            }
            while step_with(state, draft, |state, draft| Ok(decide::move_breaker(state, moment.at, draft)))? {}
            Ok(reply)
        }
        _ => step(state, moment, command, draft),
    }
}

/// One decision of a whole command, with its facts applied and encoded.
fn step(state: &mut State, moment: Moment, command: &Command, draft: &mut Draft) -> Result<Reply, Rejection> {
    step_with(state, draft, |state, draft| decide(state, moment, command, draft))
}

fn step_with<T>(
    state: &mut State,
    draft: &mut Draft,
    decide: impl FnOnce(&State, &mut Draft) -> Result<T, Rejection>,
) -> Result<T, Rejection> {
    let tail = draft.tail.len();
    let decided = decide(state, draft);
    if decided.is_err() {
        draft.events.clear();
        draft.tail.truncate(tail);
    }
    commit(state, draft);
    decided
}

fn commit(state: &mut State, draft: &mut Draft) {
    let mut events = core::mem::take(&mut draft.events);
    for event in events.drain(..) {
        draft.only_receives &= may_be_lost(&event);
        encode(&event, &mut draft.head);
        apply(state, draft.position, event);
    }
    draft.events = events;
}

/// A fact that a power failure may take without harm.
fn may_be_lost(event: &Event) -> bool {
    match event {
        Event::Received { .. } | Event::Renewed { .. } => true,
        Event::Completed { .. } | Event::Failed { .. } | Event::Released { .. } | Event::Settled { .. } => {
            active(Mutant::SettleSyncedLate)
        }
        _ => false,
    }
}

fn run_tick(state: &mut State, moment: Moment, draft: &mut Draft) -> Result<Reply, Rejection> {
    let mut left = ADVANCE_MAX;
    for _ in 0..TICK_STEPS_MAX {
        left -= state.advance(moment.at, left);
        if left == 0 || draft.len_bytes().saturating_add(TICK_STEP_BYTES_MAX) > draft.bytes_max {
            break;
        }
        if step(state, moment, &Command::Tick, draft)? == (Reply::Ticked { more: false }) {
            return Ok(Reply::Ticked { more: false });
        }
    }
    Ok(Reply::Ticked { more: true })
}

fn run_receive(state: &mut State, moment: Moment, receive: &Receive, draft: &mut Draft) -> Result<Reply, Rejection> {
    state.advance(moment.at, ADVANCE_MAX);
    let mut created = false;
    let mut jobs: Vec<Delivered> = Vec::new();
    if let Some(slots) = decide::repeated(state, moment, receive) {
        for slot in slots {
            decide::renew(state, moment, receive, slot, draft);
            commit(state, draft);
            jobs.push(state.delivered(slot, moment.at));
        }
        return Ok(Reply::Received { created, jobs, empty_because: None, limit: None, repeated: true });
    }
    while step_with(state, draft, |state, draft| decide::create(state, receive, draft))? {
        created = true;
    }
    let sources = decide::sources(state, receive)?;
    let mut bytes: u64 = 0;
    let mut last = None;
    for turn in 0..(receive.max + EXPIRED_MAX) as u64 {
        let moment = Moment { entropy: mix(moment.entropy, turn), ..moment };
        if jobs.len() == receive.max {
            break;
        }
        let same_group = last.filter(|_| receive.by_group).and_then(|last| decide::next_of_group(state, last));
        let Some(slot) = same_group.or_else(|| decide::choose(state, moment, receive, &sources)) else { break };
        let job = &state.jobs[slot];
        let with_it = bytes + u64::from(job.payload().length) + state.child_result_bytes(job);
        if !jobs.is_empty() && with_it > receive.max_bytes {
            break;
        }
        let fence = state.fence;
        decide::hand_out(state, moment, receive, slot, draft);
        commit(state, draft);
        if state.fence > fence {
            bytes = with_it;
            last = Some(slot);
            jobs.push(state.delivered(slot, moment.at));
        }
    }
    let hold = if jobs.is_empty() { why_empty(state, receive) } else { None };
    let limit = hold.and_then(|hold| state.limits.get(&hold.limit?)).map(|limit| limit.name.clone());
    Ok(Reply::Received { created, jobs, empty_because: hold.map(|hold| hold.reason), limit, repeated: false })
}

fn why_empty(state: &State, receive: &Receive) -> Option<Hold> {
    let queues = receive.queues.iter().filter_map(|(name, _)| state.queue_number(name));
    queues.filter_map(|number| state.empty_because(state.queue(number))).next()
}

fn run_cancel(state: &mut State, moment: Moment, cancel: &Cancel, draft: &mut Draft) -> Result<Reply, Rejection> {
    let (ids, is_bulk) = match &cancel.target {
        CancelTarget::Ids(ids) => (ids.clone(), ids.len() > 1 || cancel.reason.is_some()),
        CancelTarget::BusinessId(id) => (decide::ids_of(state, id), true),
    };
    let mut all: Vec<Cancelled> = Vec::with_capacity(ids.len());
    for id in ids {
        let reason = cancel.reason.as_deref();
        all.push(step_with(state, draft, |state, draft| Ok(decide::cancel(state, moment.at, id, reason, draft)))?);
    }
    let done = all.iter().filter(|one| matches!(one, Cancelled::Done(_) | Cancelled::Requested(_))).count();
    if is_bulk && done > 0 {
        draft.push(Event::Audited(alloc::boxed::Box::new(AuditRecord {
            id: state.last_number + 1,
            at: moment.at,
            actor: cancel.actor.0.clone(),
            action: "cancelled".into(),
            queue: None,
            detail: alloc::format!("{done} jobs: {}", cancel.reason.as_deref().unwrap_or("no reason given")).into(),
        })));
        commit(state, draft);
    }
    Ok(Reply::Cancelled(all))
}

impl State {
    /// The worker and queue of the delivery that this receipt proves, while it is in flight.
    #[must_use]
    pub fn holder_of(&self, receipt: &str) -> Option<(u32, &str)> {
        let receipt = Receipt::parse(receipt, self.secret)?;
        let slot: Slot = self.slot_of(receipt.job)?;
        let lease = self.jobs[slot].lease().filter(|lease| lease.state == LeaseState::Held)?;
        Some((self.jobs[slot].queue, lease.worker.as_deref()?))
    }
}
