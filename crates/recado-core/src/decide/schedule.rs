//! Schedules: what becomes of each instant at which one is due. An instant is decided once: it must be the one that
//! the schedule says is next, and with its decision another one is.

use alloc::boxed::Box;
use alloc::format;

use super::{audit, find_queue, nearest};
use crate::command::{Actor, Enqueue, FireSchedule, Moment, NewJob, PutSchedule, RunSchedule};
use crate::draft::Draft;
use crate::event::Event;
use crate::id::JobId;
use crate::options::Source;
use crate::rejection::Rejection;
use crate::reply::Reply;
use crate::schedule::{
    CatchUp, ON_TIME_MS, Occurrence, Overlap, SCHEDULE_BYTES_SUM_MAX, SCHEDULES_MAX, ScheduleRecord, Skip,
};
use crate::state::{Schedule, State};

/// The schedule with this name.
pub(crate) fn find_schedule<'a>(state: &'a State, name: &str) -> Result<&'a Schedule, Rejection> {
    let not_found = || {
        let nearest = nearest(state.schedule_names.keys(), name);
        Rejection::ScheduleNotFound { name: name.into(), nearest }
    };
    state.schedule(name).ok_or_else(not_found)
}

pub(super) fn put(state: &State, moment: Moment, put: &PutSchedule, draft: &mut Draft) -> Result<Reply, Rejection> {
    let there = state.schedule(&put.schedule);
    if !put.create {
        find_queue(state, &put.options.queue)?;
    }
    if let Some(there) = there {
        check_source(there, put.source)?;
        if there.record.options == put.options && there.record.source == put.source {
            return Ok(Reply::SchedulePut { created: false });
        }
        // What is due is decided by the definition that it is due by, and none is lost. When the first instant of the new
        // one was decided meanwhile, it is resolved again.
        let is_due = there.record.next.is_some_and(|next| next <= put.since);
        let is_decided = put.next.is_some_and(|next| next <= there.record.decided_to);
        if there.record.options != put.options && (is_due || is_decided) {
            return Err(Rejection::PreconditionFailed);
        }
    } else if state.schedules.len() >= SCHEDULES_MAX {
        return Err(Rejection::TooManySchedules { what: "definitions", limit: SCHEDULES_MAX as u64 });
    }
    let before = there.map_or(0, |there| there.text.len());
    if state.schedule_bytes() - before + put.options.text.len() > SCHEDULE_BYTES_SUM_MAX {
        return Err(Rejection::TooManySchedules { what: "bytes", limit: SCHEDULE_BYTES_SUM_MAX as u64 });
    }
    let what = if there.is_none() { "created" } else { "changed" };
    set(state, record(state, there, put), draft);
    audit(
        state,
        moment,
        &put.actor,
        "schedule-put",
        Some(&put.options.queue),
        &format!("{} {what}", put.schedule),
        draft,
    );
    Ok(Reply::SchedulePut { created: there.is_none() })
}

/// What a schedule is from now on. What it did stays; with the same definition it goes on where it was.
fn record(state: &State, there: Option<&Schedule>, put: &PutSchedule) -> ScheduleRecord {
    let options = put.options.clone();
    let (since, next) = (put.since, put.next);
    match there.map(|there| there.record.clone()) {
        Some(record) if record.options == options => ScheduleRecord { source: put.source, ..record },
        Some(record) => ScheduleRecord { source: put.source, options, since, next, ..record },
        None => ScheduleRecord {
            number: state.schedules.last_key_value().map_or(1, |(number, _)| number + 1),
            name: put.schedule.clone(),
            source: put.source,
            options,
            version: 0,
            since,
            paused: false,
            paused_reason: None,
            next,
            decided_to: 0,
            occurrences: Default::default(),
            last_job: None,
            fired: 0,
            skipped: 0,
        },
    }
}

/// Writes a schedule down that has changed; the audit entry that tells of it comes next.
fn set(state: &State, record: ScheduleRecord, draft: &mut Draft) {
    let version = state.last_number + 1;
    draft.push(Event::ScheduleSet(Box::new(ScheduleRecord { version, ..record })));
}

pub(super) fn remove(
    state: &State,
    moment: Moment,
    name: &str,
    source: Source,
    actor: &Actor,
    draft: &mut Draft,
) -> Result<Reply, Rejection> {
    let there = find_schedule(state, name)?;
    check_source(there, source)?;
    draft.push(Event::ScheduleRemoved { number: there.record.number });
    audit(state, moment, actor, "schedule-removed", Some(&there.record.options.queue), name, draft);
    Ok(Reply::Done)
}

pub(super) fn pause(
    state: &State,
    moment: Moment,
    name: &str,
    paused: bool,
    reason: Option<&str>,
    actor: &Actor,
    draft: &mut Draft,
) -> Result<Reply, Rejection> {
    let record = &find_schedule(state, name)?.record;
    // Whoever pauses what is paused, and does not say why, leaves the reason that there is.
    let paused_reason = reason.map(Box::from).or_else(|| record.paused_reason.clone()).filter(|_| paused);
    if record.paused == paused && record.paused_reason == paused_reason {
        return Ok(Reply::Done);
    }
    set(state, ScheduleRecord { paused, paused_reason, ..record.clone() }, draft);
    let action = if paused { "schedule-paused" } else { "schedule-resumed" };
    let detail = reason.map_or_else(|| name.into(), |reason| format!("{name}: {reason}"));
    audit(state, moment, actor, action, Some(&record.options.queue), &detail, draft);
    Ok(Reply::Done)
}

fn check_source(there: &Schedule, source: Source) -> Result<(), Rejection> {
    if there.record.source == Source::File && source == Source::Api {
        return Err(Rejection::ManagedByFile(there.record.name.clone()));
    }
    Ok(())
}

/// An occurrence that makes no job for a reason of time: up to when it stands for others, why, and which one is next.
struct Missed {
    before: Option<u64>,
    skip: Skip,
    next: Option<u64>,
}

pub(super) fn fire(state: &State, moment: Moment, fire: &FireSchedule, draft: &mut Draft) -> Result<Reply, Rejection> {
    let there = state.schedule(&fire.schedule).filter(|there| there.record.version == fire.version);
    let Some(schedule) = there.filter(|there| there.record.next == Some(fire.at)) else {
        return Ok(Reply::Occurred { occurrence: None, next: there.and_then(|there| there.record.next) });
    };
    let occurrence = Occurrence { at: fire.at, ..empty(schedule) };
    if let Some(Missed { before, skip, next }) = missed(&schedule.record, moment.at, fire) {
        return Ok(occur(schedule, Occurrence { before, skip: Some(skip), ..occurrence }, next, draft));
    }
    let next = fire.following.filter(|following| *following > fire.at);
    let unfinished = state.unfinished_job(schedule).filter(|_| schedule.record.options.overlap == Overlap::Skip);
    if unfinished.is_some() {
        let overlap = Occurrence { skip: Some(Skip::Overlap), job: unfinished, ..occurrence };
        return Ok(occur(schedule, overlap, next, draft));
    }
    let mark = draft.mark();
    let made = match &fire.job {
        Ok(job) => make(state, moment, schedule, job, fire.create, draft).map_err(|rejection| skip_of(&rejection)),
        Err(skip) => Err(*skip),
    };
    let (skip, job) = match made {
        Ok(made) => made,
        Err(skip) => {
            draft.back_to(mark);
            (Some(skip), None)
        }
    };
    Ok(occur(schedule, Occurrence { skip, job, ..occurrence }, next, draft))
}

pub(super) fn run(state: &State, moment: Moment, run: &RunSchedule, draft: &mut Draft) -> Result<Reply, Rejection> {
    let schedule = find_schedule(state, &run.schedule)?;
    let next = schedule.record.next;
    if schedule.record.version != run.version {
        return Ok(Reply::Occurred { occurrence: None, next });
    }
    let (skip, job) = make(state, moment, schedule, &run.job, run.create, draft)?;
    let occurrence = Occurrence { at: moment.at, skip, job, manual: true, ..empty(schedule) };
    let queue = &schedule.record.options.queue;
    audit(state, moment, &run.actor, "schedule-run", Some(queue), &run.schedule, draft);
    Ok(occur(schedule, occurrence, next, draft))
}

/// The next occurrence of a schedule, of which nothing is known yet.
fn empty(schedule: &Schedule) -> Occurrence {
    Occurrence { number: schedule.record.count() + 1, at: 0, before: None, skip: None, job: None, manual: false }
}

fn occur(schedule: &Schedule, occurrence: Occurrence, next: Option<u64>, draft: &mut Draft) -> Reply {
    draft.push(Event::Occurred { schedule: schedule.record.number, occurrence, next });
    Reply::Occurred { occurrence: Some(occurrence), next }
}

/// Whether an instant that is due makes no job because of when it is decided. Several that make none for one reason are
/// one entry.
fn missed(record: &ScheduleRecord, now: u64, fire: &FireSchedule) -> Option<Missed> {
    let later = |at: &u64| *at > fire.at;
    let following = fire.following.filter(later);
    let up_to = |next: Option<u64>, skip| Missed { before: next.filter(|_| next != following), skip, next };
    // The latest instant that is due is decided by itself.
    let latest = Some(fire.latest).filter(later);
    let late_ms = now.saturating_sub(fire.at);
    if record.paused {
        return Some(up_to(latest.or(following), Skip::Paused));
    }
    if late_ms > record.options.catch_up_window_ms.max(ON_TIME_MS) {
        return Some(up_to(fire.in_window.filter(later).or(following), Skip::CatchUpWindow));
    }
    match record.options.catch_up {
        CatchUp::One if latest.is_some() => Some(up_to(latest, Skip::CatchUp)),
        CatchUp::None if late_ms > ON_TIME_MS => Some(up_to(latest.or(following), Skip::CatchUp)),
        CatchUp::One | CatchUp::None | CatchUp::All => None,
    }
}

/// Enqueues the job of an occurrence: the job, and whether it was there already.
fn make(
    state: &State,
    moment: Moment,
    schedule: &Schedule,
    job: &NewJob,
    create: bool,
    draft: &mut Draft,
) -> Result<(Option<Skip>, Option<JobId>), Rejection> {
    let queue = schedule.record.options.queue.clone();
    let enqueue = Enqueue { queue, create, jobs: alloc::vec![job.clone()], producer: None, request: None };
    match super::enqueue::decide(state, moment, &enqueue, draft)? {
        Reply::Enqueued { jobs, .. } => {
            let made = jobs.first();
            let is_there = made.is_some_and(|made| made.duplicate.is_some());
            Ok((is_there.then_some(Skip::Deduplicated), made.map(|made| made.id)))
        }
        other => panic!("an enqueue without a request answers enqueued, not {other:?}"),
    }
}

/// A refusal of the queue as the reason of an occurrence.
fn skip_of(rejection: &Rejection) -> Skip {
    match rejection {
        Rejection::QueueNotFound { .. } => Skip::NotFound,
        Rejection::QueueFull { .. } | Rejection::TooManyQueues { .. } => Skip::QueueFull,
        Rejection::OutOfMemory { .. } => Skip::Overloaded,
        Rejection::PayloadTooLarge { .. } => Skip::PayloadTooLarge,
        Rejection::DuplicateConflict { .. } => Skip::DuplicateConflict,
        _ => Skip::Invalid,
    }
}
