//! The only code that chooses. It reads the state, writes facts into the draft, and changes nothing.
//!
//! A command that acts on many things is decided in steps, one thing a call: [`crate::run`] applies the
//! facts of one step before it asks for the next.

mod cancel;
mod copy;
mod due;
mod enqueue;
mod family;
mod guard;
mod hand_off;
mod hook;
mod limit;
mod operate;
mod receive;
mod retry;
mod schedule;
mod schema;
mod settle;
mod start;
mod tasks;

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::command::{Actor, CancelTarget, Command, Moment};
use crate::draft::Draft;
use crate::event::{AuditRecord, Event};
use crate::rejection::Rejection;
use crate::reply::Reply;
use crate::state::{Queue, State};

pub use cancel::CANCELLED_MAX;
pub(crate) use cancel::{cancel, ids_of};
pub(crate) use copy::copy;
pub(crate) use due::move_breaker;
pub use enqueue::{SavedAnswer, decode_saved};
pub(crate) use family::let_go;
pub(crate) use receive::{choose, create, hand_out, next_of_group, renew, repeated, sources};
pub(crate) use schedule::find_schedule;
pub use tasks::TaskStep;
pub(crate) use tasks::{TaskStepDecision, step as step_task};

/// Decides one step of a command: [`Command::Receive`] picks one job, [`Command::Tick`] does one thing
/// that is due; of [`Command::Cancel`], [`Command::StepTask`] and [`Command::Copy`] the first entry is done.
///
/// # Errors
/// A [`Rejection`] when the command cannot be done; the draft may hold facts then that must be dropped.
pub fn decide(state: &State, moment: Moment, command: &Command, draft: &mut Draft) -> Result<Reply, Rejection> {
    match command {
        Command::Start { secret, served_until } => Ok(start::start(state, moment, *secret, *served_until, draft)),
        Command::StepClock { delta_ms } => {
            draft.push(Event::ClockStepped { delta_ms: *delta_ms });
            Ok(Reply::Done)
        }
        Command::Tick => Ok(Reply::Ticked { more: due::step(state, moment, draft) }),
        Command::Forget { bytes } => {
            due::forget(state, u64::MAX, *bytes, draft);
            Ok(Reply::Done)
        }
        Command::Enqueue(enqueue) => enqueue::decide(state, moment, enqueue, draft),
        Command::Receive(receive) => receive::decide(state, moment, receive, draft),
        Command::GiveBack { job, nonce, delay_ms } => {
            settle::give_back(state, moment, *job, *nonce, *delay_ms, draft);
            Ok(Reply::Done)
        }
        Command::Settle(settle) => settle::decide(state, moment, settle, draft),
        Command::Cancel(cancel) => {
            let CancelTarget::Ids(ids) = &cancel.target else { return Ok(Reply::Cancelled(Vec::new())) };
            let first = ids.first().map(|id| cancel::cancel(state, moment.at, *id, cancel.reason.as_deref(), draft));
            Ok(Reply::Cancelled(first.into_iter().collect()))
        }
        Command::Patch(patch) => cancel::patch(state, moment, patch, draft),
        Command::Configure(configure) => operate::configure(state, moment, configure, draft),
        Command::PutSchema(put) => schema::put(state, moment, put, draft),
        Command::RemoveSchema { kind, version, source, actor } => {
            schema::remove(state, moment, (kind, *version), *source, actor, draft)
        }
        Command::PutLimit(put) => limit::put(state, moment, put, draft),
        Command::RemoveLimit { limit, source, actor } => limit::remove(state, moment, limit, *source, actor, draft),
        Command::PutSchedule(put) => schedule::put(state, moment, put, draft),
        Command::RemoveSchedule { schedule, source, actor } => {
            schedule::remove(state, moment, schedule, *source, actor, draft)
        }
        Command::PauseSchedule { schedule, paused, reason, actor } => {
            schedule::pause(state, moment, schedule, *paused, reason.as_deref(), actor, draft)
        }
        Command::FireSchedule(fire) => schedule::fire(state, moment, fire, draft),
        Command::RunSchedule(run) => schedule::run(state, moment, run, draft),
        Command::PutHook(put) => hook::put(state, moment, put, draft),
        Command::RemoveHook { hook, source, actor } => hook::remove(state, moment, hook, *source, actor, draft),
        Command::SetDefaults(defaults) => {
            operate::set_defaults(state, defaults, draft);
            Ok(Reply::Done)
        }
        Command::DeleteQueue { queue, force, condition, actor } => {
            operate::delete(state, moment, queue, *force, condition, actor, draft)
        }
        Command::SetPaused { queue, paused, reason, actor } => {
            operate::set_paused(state, moment, queue, *paused, reason.as_deref(), actor, draft)
        }
        Command::StartTask(task) => tasks::start(state, moment, task, draft),
        Command::StepTask { task, jobs, unpatchable, cursor, last } => {
            let job = jobs.first().map(|(seq, payload)| (*seq, payload.as_deref()));
            let last = *last && jobs.len() <= 1;
            let step = TaskStepDecision { task: *task, job, unpatchable: *unpatchable, cursor: *cursor, last };
            tasks::step(state, moment, step, draft)
        }
        Command::CancelTask { task, actor } => tasks::cancel(state, moment, *task, actor, draft),
        Command::Acknowledge { queue, fingerprint, note, actor } => {
            operate::acknowledge(state, moment, queue, *fingerprint, note, actor, draft)
        }
        Command::Copy(plans) => {
            if let Some(plan) = plans.first() {
                copy::copy(state, plan, draft);
            }
            Ok(Reply::Done)
        }
        Command::GuardBegin(begin) => guard::begin(state, moment, begin, draft),
        Command::GuardUse(wanted) => guard::act(state, moment, wanted, draft),
        Command::SaveFigures { after } => Ok(operate::save_figures(state, *after, draft)),
    }
}

/// The queue with this name.
pub(crate) fn find_queue<'a>(state: &'a State, name: &str) -> Result<&'a Queue, Rejection> {
    match state.names.get(name) {
        Some(number) => Ok(state.queue(*number)),
        None => Err(Rejection::QueueNotFound { name: name.into(), nearest: nearest(state.names.keys(), name) }),
    }
}

/// Nothing is begun in a queue that is being deleted.
fn still_there(queue: &Queue) -> Result<(), Rejection> {
    if queue.is_going {
        let (queue, reason) = ((*queue.name).into(), "being-deleted");
        return Err(Rejection::QueueFull { queue, reason, limit: 0, actual: 0 });
    }
    Ok(())
}

/// The existing name that a mistyped one is nearest to, if it is near at all.
fn nearest<'a>(names: impl Iterator<Item = &'a Box<str>>, name: &str) -> Option<Box<str>> {
    let near = |other: &str| (distance(name.as_bytes(), other.as_bytes()), other.len());
    let best = names.filter(|other| other.len().abs_diff(name.len()) <= NEAR).min_by_key(|o| near(o))?;
    // Where half of a short name differs, another was meant.
    let edits_max = NEAR.min(name.len().max(best.len()) / 2);
    (near(best).0 <= edits_max).then(|| best.clone())
}

/// Edits at which a long name counts as mistyped.
const NEAR: usize = 3;

/// Levenshtein distance.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut row: alloc::vec::Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = core::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}

/// The end of a finished job's time in the table; `None` when the queue keeps none.
fn keep_until(queue: &Queue, at: u64) -> Option<u64> {
    let settings = &queue.settings;
    (settings.kept_max() > 0).then(|| at.saturating_add(settings.keep_for_ms))
}

/// Makes room for one more finished job: the oldest goes. Where more than that are too many, since the limit was
/// lowered, the others go by and by.
fn evict(queue: &Queue, state: &State, draft: &mut Draft) {
    if queue.finished.len() as u64 >= queue.settings.kept_max()
        && let Some(slot) = queue.finished.values().next()
    {
        let seq = state.jobs[*slot].id.seq();
        draft.push(Event::Removed { seqs: alloc::vec![seq], why: crate::event::Removal::Forgotten });
    }
}

/// Records an operator's action.
fn audit(
    state: &State,
    moment: Moment,
    actor: &Actor,
    action: &str,
    queue: Option<&str>,
    detail: &str,
    draft: &mut Draft,
) {
    let pending = draft.events.iter().filter(|event| matches!(event, Event::Audited(_) | Event::TaskSet(_))).count();
    draft.push(Event::Audited(Box::new(AuditRecord {
        id: state.last_number + pending as u64 + 1,
        at: moment.at,
        actor: actor.0.clone(),
        action: action.into(),
        queue: queue.map(Into::into),
        detail: detail.into(),
    })));
}

/// A further random number from the same entropy (SplitMix64).
pub(crate) fn mix(entropy: u64, step: u64) -> u64 {
    let mut z = entropy.wrapping_add(step.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
