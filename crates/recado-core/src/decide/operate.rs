//! What operators do to a queue.

use alloc::boxed::Box;
use alloc::format;

use super::{audit, find_queue, still_there, tasks};
use crate::command::{Actor, Condition, Configure, Moment};
use crate::draft::Draft;
use crate::event::{Event, QueueRecord};
use crate::items::ITEMS_MAX;
use crate::options::{QueueOptions, Source};
use crate::rejection::Rejection;
use crate::reply::Reply;
use crate::state::{QUEUES_MAX, State};

pub(super) fn configure(
    state: &State,
    moment: Moment,
    configure: &Configure,
    draft: &mut Draft,
) -> Result<Reply, Rejection> {
    let queue = state.names.get(&configure.queue).map(|number| state.queue(*number));
    let revision = queue.map(|queue| queue.record.revision);
    if !configure.condition.holds(revision) {
        return Err(Rejection::PreconditionFailed);
    }
    super::limit::check(state, &configure.options)?;
    let (Some(queue), Some(revision)) = (queue, revision) else {
        if state.queues.len() >= QUEUES_MAX || state.last_queue >= ITEMS_MAX {
            return Err(Rejection::TooManyQueues { limit: QUEUES_MAX as u64 });
        }
        draft.push(Event::QueueSet(Box::new(QueueRecord {
            number: state.last_queue + 1,
            name: configure.queue.clone(),
            source: configure.source,
            options: configure.options.clone(),
            revision: 1,
            paused: false,
            paused_reason: None,
            purged_at: 0,
            breaker: None,
        })));
        audit(state, moment, &configure.actor, "queue-configured", Some(&configure.queue), "created", draft);
        return Ok(Reply::Configured { created: true, revision: 1 });
    };
    still_there(queue)?;
    if queue.record.source == Source::File && configure.source == Source::Api {
        return Err(Rejection::ManagedByFile(configure.queue.clone()));
    }
    let mut options = configure.options.clone();
    options.sqs = options.sqs.or_else(|| queue.record.options.sqs.clone());
    if queue.record.options == options && queue.record.source == configure.source {
        return Ok(Reply::Configured { created: false, revision });
    }
    draft.push(Event::QueueSet(Box::new(QueueRecord {
        source: configure.source,
        options,
        revision: revision + 1,
        ..queue.record.clone()
    })));
    audit(state, moment, &configure.actor, "queue-configured", Some(&configure.queue), "changed", draft);
    Ok(Reply::Configured { created: false, revision: revision + 1 })
}

/// Facts about figures that one command writes, in bytes.
const FIGURES_BYTES_MAX: usize = 32 * 1024;

/// Writes the rolling figures of queues with a number above `after`, as many as fit.
pub(super) fn save_figures(state: &State, after: Option<u32>, draft: &mut Draft) -> Reply {
    use core::ops::Bound::{Excluded, Unbounded};
    let mut bytes = 0;
    for (number, queue) in state.queues.range((after.map_or(Unbounded, Excluded), Unbounded)) {
        let Some(figures) = queue.figures.save() else { continue };
        bytes += figures.encoded_bytes_max();
        if bytes > FIGURES_BYTES_MAX && !draft.events.is_empty() {
            return Reply::FiguresSaved { next: Some(number - 1) };
        }
        draft.push(Event::FiguresSaved { queue: *number, figures: Box::new(figures) });
    }
    Reply::FiguresSaved { next: None }
}

pub(super) fn set_defaults(state: &State, defaults: &QueueOptions, draft: &mut Draft) {
    if state.defaults != *defaults {
        let globals = crate::event::Globals { defaults: defaults.clone(), ..state.globals() };
        draft.push(Event::GlobalsSet(Box::new(globals)));
    }
}

pub(super) fn set_paused(
    state: &State,
    moment: Moment,
    name: &str,
    paused: bool,
    reason: Option<&str>,
    actor: &Actor,
    draft: &mut Draft,
) -> Result<Reply, Rejection> {
    let queue = find_queue(state, name)?;
    still_there(queue)?;
    let paused_reason = reason.filter(|_| paused).map(Box::from);
    if queue.record.paused == paused && queue.record.paused_reason == paused_reason {
        return Ok(Reply::Done);
    }
    let action = if paused { "queue-paused" } else { "queue-resumed" };
    draft.push(Event::QueueSet(Box::new(QueueRecord { paused, paused_reason, ..queue.record.clone() })));
    audit(state, moment, actor, action, Some(name), reason.unwrap_or_default(), draft);
    Ok(Reply::Done)
}

pub(super) fn delete(
    state: &State,
    moment: Moment,
    name: &str,
    force: bool,
    condition: &Condition,
    actor: &Actor,
    draft: &mut Draft,
) -> Result<Reply, Rejection> {
    let queue = find_queue(state, name)?;
    if !condition.holds(Some(queue.record.revision)) {
        return Err(Rejection::PreconditionFailed);
    }
    if queue.record.source == Source::File {
        return Err(Rejection::ManagedByFile(name.into()));
    }
    let schedule = state.schedules.values().find(|schedule| *schedule.record.options.queue == *name);
    if let Some(schedule) = schedule.filter(|_| !force) {
        return Err(Rejection::QueueScheduled { queue: name.into(), schedule: schedule.record.name.clone() });
    }
    if queue.jobs() == 0 {
        let number = queue.record.number;
        audit(state, moment, actor, "queue-deleted", Some(name), "empty", draft);
        draft.push(Event::QueueDeleted { queue: number });
        return Ok(Reply::Done);
    }
    // Finished jobs that are only kept for lookups do not make a queue busy.
    let jobs = queue.jobs() - queue.finished.len() as u64;
    if jobs > 0 && !force {
        return Err(Rejection::QueueNotEmpty { queue: name.into(), jobs });
    }
    tasks::start_delete(state, moment, queue, actor, draft)
}

pub(super) fn acknowledge(
    state: &State,
    moment: Moment,
    name: &str,
    fingerprint: u64,
    note: &str,
    actor: &Actor,
    draft: &mut Draft,
) -> Result<Reply, Rejection> {
    let queue = find_queue(state, name)?;
    still_there(queue)?;
    if !queue.fingerprints.contains_key(&fingerprint) {
        return Err(Rejection::FingerprintNotFound);
    }
    draft.push(Event::Noted { queue: queue.record.number, fingerprint, note: note.into() });
    audit(state, moment, actor, "acknowledged", Some(name), &format!("{fingerprint:016x}: {note}"), draft);
    Ok(Reply::Done)
}
