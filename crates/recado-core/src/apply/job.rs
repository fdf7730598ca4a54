//! Facts about one job: how it comes, what becomes of its deliveries, how it ends.

use alloc::boxed::Box;

use recado_mutants::{Mutant, active};

use super::queue::ensure_queue;
use super::{count, count_failed, note_outcome, on};
use crate::event::{Death, Due, JobCopy, JobRecord, Lease, LeaseState, Removal, Span};
use crate::figures::Count;
use crate::id::Hash;
use crate::reply::State as JobState;
use crate::state::{Attempt, Delivery, Errors, Job, NONE, Rare, Slot, State, flag};

/// Of so many first finished jobs a replay counts the failures that halt it.
const FIRST_FINISHED: u64 = 10;

pub(super) fn enqueued(state: &mut State, position: u64, record: &JobRecord) {
    ensure_queue(state, record.queue);
    if record.at_once {
        state.line_at = state.line_at.max(record.due_at);
    }
    let at = record.id.enqueued_at();
    let slot = state.tie_job(position, record);
    // The job before it is unfinished, even where a trimmed log has not shown it yet; its end releases this one.
    state.jobs[slot].state = match record.behind {
        _ if record.waits.is_some() => JobState::Blocked,
        Some(_) => JobState::Blocked,
        None if record.at_once || record.due_at <= at => JobState::Ready,
        None => JobState::Delayed,
    };
    if let Some(waits) = record.waits {
        state.found_family(record.id.seq(), waits);
    }
    if let Some(parent) = record.parent {
        state.adopt(parent.seq(), record.id);
    }
    if let Some(seq) = record.behind {
        state.followers.entry(seq).or_default().push(record.id.seq());
    }
    count(state, slot, Count::Enqueued, at);
    state.stand(slot);
}

/// Fields of a copied job that only some jobs have.
pub(super) fn set_copied_extra(job: &mut Job, position: u64, copy: &JobCopy) {
    if let Some(lease) = &copy.lease {
        job.extra().delivery = Delivery::Of(Box::new(lease.clone()));
    }
    if copy.error_count > 0 {
        let places = copy.errors.iter().map(|span| span.at(position)).collect();
        job.extra().errors = Some(Box::new(Errors { places, count: copy.error_count }));
    }
    if copy.ended_at > 0 || copy.state.is_final() || copy.state == JobState::Dead {
        let extra = job.extra();
        extra.result = copy.result.map(|span| span.at(position));
        extra.ended_at = copy.ended_at;
        extra.keep_until = copy.keep_until;
        extra.death = copy.death.clone().map(Box::new);
    }
    if copy.first_received_at > 0 {
        job.extra().first_received_at = copy.first_received_at;
    }
    let rare = Rare {
        progress: copy.progress.map(|span| span.at(position)),
        payload: None,
        cancel_requested: copy.cancel_requested,
        task: copy.task,
        released_dedup: copy.released_dedup,
        earlier_deliveries: copy.earlier_deliveries,
        behind: copy.record.behind,
        arrival: copy.arrival,
    };
    if rare != Rare::default() {
        *job.make_rare() = rare;
    }
    if copy.state.is_final() || copy.state == JobState::Dead {
        job.shrink();
    }
}

/// The job is there already, as the copy says, but for where its bytes are. All that has happened to it since
/// its own record is in the log, so this is what a copy finds wherever the job is known; only what other
/// jobs did to its lease may be missing. It keeps its place: freeing space must not change whose turn it is.
pub(super) fn is_as_copied(state: &State, slot: Slot, copy: &JobCopy) -> bool {
    let job = &state.jobs[slot];
    let priority = state.lane_name(job).priority;
    let ends = |lease: &Lease| (lease.nonce, lease.ends_elapsed_at, lease.timeout_elapsed_at);
    job.state == copy.state
        && (job.due_at, priority) == (copy.record.due_at, copy.record.priority)
        && job.lease_to_copy().as_ref().map(ends) == copy.lease.as_ref().map(ends)
        && (job.ended_at(), job.keep_until(), job.death()) == (copy.ended_at, copy.keep_until, copy.death.as_ref())
        && job.cancel_requested() == copy.cancel_requested
        && job.has(flag::IGNORE_KEY) == copy.ignore_key
        && (job.dedup != NONE) == copy.record.dedup.is_some()
        && state.groups[job.group].holders.contains(&slot) == copy.holds_group
        && (job.queue, job.arrival()) == (copy.record.queue, copy.arrival)
}

pub(super) fn job_copied(state: &mut State, position: u64, copy: &JobCopy) {
    ensure_queue(state, copy.record.queue);
    if let Some(slot) = state.slot_of_seq(copy.record.id.seq()).filter(|slot| is_as_copied(state, *slot, copy)) {
        state.unweigh_job(slot);
        state.move_job(slot, position, &copy.record);
        set_copied_extra(&mut state.jobs[slot], position, copy);
        state.weigh_job(slot);
        state.set_family(position, copy.record.id.seq(), copy.family.as_deref());
        return;
    }
    on(state, copy.record.id.seq(), |state, slot| {
        state.unstand(slot);
        state.release_group(slot);
        state.untie_job(slot);
    });
    let slot = state.tie_job(position, &copy.record);
    state.set_family(position, copy.record.id.seq(), copy.family.as_deref());
    let job = &mut state.jobs[slot];
    job.state = copy.state;
    job.attempts = copy.attempts as u16;
    job.deliveries = copy.deliveries as u16;
    job.replays = copy.replays as u16;
    job.set_due(copy.record.due_at, copy.due_elapsed_at);
    job.set(flag::IGNORE_KEY, copy.ignore_key);
    job.set(flag::SKIPPED, copy.skipped);
    set_copied_extra(job, position, copy);
    if copy.state.is_final() {
        state.leave_lane(slot);
    }
    if let Some(seq) = copy.record.behind.filter(|_| copy.state == JobState::Blocked) {
        let followers = state.followers.entry(seq).or_default();
        if !followers.contains(&copy.record.id.seq()) {
            followers.push(copy.record.id.seq());
        }
    }
    state.stand(slot);
    if copy.holds_group {
        let group = state.jobs[slot].group;
        state.hold_group(slot);
        state.refresh(group);
    }
    if copy.state == JobState::InFlight
        && let Some(lease) = &copy.lease
    {
        state.fence = state.fence.max(lease.fence);
        remember_attempt(state, slot, lease.attempt, lease.received_at);
    }
}

pub(super) fn received(state: &mut State, slot: Slot, lease: Box<Lease>) {
    let (at, attempt) = (lease.received_at, lease.attempt);
    state.unstand(slot);
    let job = &mut state.jobs[slot];
    job.state = JobState::InFlight;
    job.attempts = job.attempts.saturating_add(1);
    job.deliveries = job.deliveries.saturating_add(1);
    let (group, waited_ms, number) = (job.group, at.saturating_sub(job.due_at), job.queue);
    let extra = job.extra();
    extra.delivery = Delivery::Of(lease);
    extra.due_elapsed_at = None;
    if extra.first_received_at == 0 {
        extra.first_received_at = at;
    }
    job.set_progress(None);
    if state.queue(number).is_metered {
        state.take_tokens(slot, at);
        state.note_probe(number, state.jobs[slot].id.seq());
    }
    state.take_turn(group);
    state.stand(slot);
    remember_attempt(state, slot, attempt, at);
    let figures = &mut state.queue_mut(number).figures;
    figures.count(Count::Received, at);
    figures.wait.add(at, waited_ms);
}

fn remember_attempt(state: &mut State, slot: Slot, attempt: Option<Hash>, received_at: u64) {
    if let Some(hash) = attempt {
        let id = state.jobs[slot].id;
        let attempt = state.attempts.entry(hash).or_insert_with(|| Attempt { jobs: Default::default(), received_at });
        // The jobs of one receive have its instant in common; a copy may show one of an earlier receive.
        if received_at > attempt.received_at {
            *attempt = Attempt { jobs: Default::default(), received_at };
        }
        if received_at < attempt.received_at {
            return;
        }
        if !attempt.jobs.contains(&id) {
            attempt.jobs.push(id);
        }
    }
}

/// A settle or extend of one of its jobs ends the repeatability of a receive.
pub(super) fn forget_attempt(state: &mut State, slot: Slot) {
    let Some(hash) = state.jobs[slot].lease().and_then(|lease| lease.attempt) else { return };
    let id = state.jobs[slot].id;
    let is_of_it = |attempt: &Attempt| attempt.jobs.contains(&id);
    let attempt = if state.attempts.get(&hash).is_some_and(is_of_it) { state.attempts.remove(&hash) } else { None };
    // A copy of another of its jobs must not make it repeatable again.
    for id in attempt.map(|attempt| attempt.jobs).unwrap_or_default() {
        if let Some(lease) = state.slot_of(id).and_then(|slot| state.jobs[slot].lease_mut()) {
            lease.attempt = None;
        }
    }
}

pub(super) fn extended(state: &mut State, slot: Slot, ends_elapsed_at: u64, progress: Option<crate::reply::Place>) {
    take_up(state, slot);
    let at = state.wall(ends_elapsed_at);
    count(state, slot, Count::Extended, at);
    forget_attempt(state, slot);
    state.unstand(slot);
    let job = &mut state.jobs[slot];
    job.state = JobState::InFlight;
    job.extra().due_elapsed_at = None;
    if progress.is_some() {
        job.set_progress(progress);
    }
    if let Some(lease) = job.lease_mut() {
        lease.ends_elapsed_at = ends_elapsed_at;
        lease.state = LeaseState::Held;
        lease.interrupted = false;
    }
    state.stand(slot);
}

/// How long the attempt took, for the histogram.
pub(super) fn end_attempt(state: &mut State, slot: Slot, at: u64) {
    let job = &state.jobs[slot];
    let Some(received_at) = job.lease().map(|lease| lease.received_at) else { return };
    let number = job.queue;
    state.queue_mut(number).figures.processing.add(at, at.saturating_sub(received_at));
}

/// How long the job took, for what `auto` means for its type.
fn note_timing(state: &mut State, slot: Slot, at: u64) {
    let job = &state.jobs[slot];
    // What spans a step of the wall clock tells nothing.
    let lease = job.lease().filter(|lease| lease.fence > state.stepped_fence);
    let Some(took_ms) = lease.map(|lease| at.saturating_sub(lease.received_at)) else { return };
    let (number, lane) = (job.queue, job.lane);
    let queue = state.queue_mut(number);
    let timing = queue.lane(lane).timing;
    queue.figures.timings[timing].add(at, took_ms);
}

pub(super) fn set_lease_state(job: &mut Job, to: LeaseState) {
    if let Some(lease) = job.lease_mut() {
        lease.state = to;
    }
}

/// A settle of a delivery whose end fell into down time: the attempt that was given back is used after all.
pub(super) fn take_up(state: &mut State, slot: Slot) {
    let job = &mut state.jobs[slot];
    if job.was_interrupted() {
        job.attempts = job.attempts.saturating_add(1);
    }
}

/// Back to waiting: in the old place, or delayed.
pub(super) fn wait_again(
    state: &mut State,
    slot: Slot,
    until: Option<Due>,
    lease: LeaseState,
    error: Option<crate::reply::Place>,
) {
    forget_attempt(state, slot);
    state.unstand(slot);
    let job = &mut state.jobs[slot];
    set_lease_state(job, lease);
    if let Some(place) = error {
        job.add_error(place);
    }
    match until {
        Some(due) => {
            job.state = JobState::Delayed;
            job.set_due(due.at, Some(due.elapsed_at));
        }
        None => job.state = JobState::Ready,
    }
    if active(Mutant::GroupFreedByRetry) {
        state.release_group(slot);
    }
    state.stand(slot);
}

pub(super) fn completed(
    state: &mut State,
    slot: Slot,
    at: u64,
    result: Option<crate::reply::Place>,
    error: Option<crate::reply::Place>,
    keep_until: Option<u64>,
) {
    take_up(state, slot);
    count(state, slot, Count::Completed, at);
    note_outcome(state, slot, at, false);
    note_timing(state, slot, at);
    end_attempt(state, slot, at);
    finish(state, slot, JobState::Completed, at, keep_until, |job| {
        set_lease_state(job, LeaseState::Acked);
        job.extra().result = result;
        error.into_iter().for_each(|place| job.add_error(place));
    });
}

/// A blocked job goes on: to the end of the line, or to wait for its time.
pub(super) fn unblocked(state: &mut State, slot: Slot, due_at: Option<u64>) {
    state.unstand(slot);
    let job = &mut state.jobs[slot];
    match due_at {
        Some(due_at) => {
            job.state = JobState::Ready;
            job.set_due(due_at, None);
            job.set(flag::AT_ONCE, true);
        }
        None => job.state = JobState::Delayed,
    }
    state.stand(slot);
}

/// Ends a job for good; without `keep_until` it is gone at once.
pub(super) fn finish(
    state: &mut State,
    slot: Slot,
    how: JobState,
    at: u64,
    keep_until: Option<u64>,
    change: impl FnOnce(&mut Job),
) {
    forget_attempt(state, slot);
    state.unstand(slot);
    state.release_group(slot);
    state.release_dedup(slot);
    state.leave_lane(slot);
    let job = &mut state.jobs[slot];
    change(job);
    job.state = how;
    let extra = job.extra();
    extra.ended_at = at;
    extra.keep_until = keep_until.unwrap_or(at);
    extra.death = None;
    if let Some(rare) = job.rare_mut() {
        rare.task = None;
        rare.cancel_requested = false;
    }
    job.shrink();
    let id = job.id;
    if keep_until.is_some() {
        state.close_family(id.seq());
        state.ended.push((id, None));
        state.stand(slot);
    } else {
        let last = state.watched.contains(&id).then(|| Box::new(state.view(slot, None, at)));
        state.ended.push((id, last));
        state.untie_job(slot);
    }
}

pub(super) fn died(
    state: &mut State,
    slot: Slot,
    at: u64,
    error: Option<crate::reply::Place>,
    death: &Death,
    lease: LeaseState,
    blocks_group: bool,
) {
    take_up(state, slot);
    // A late failure of a delivery whose timeout killed the job only adds what the worker says.
    if state.jobs[slot].state != JobState::Dead {
        count(state, slot, Count::Dead, at);
        // Who dies for a child was not tried.
        let was_tried = state.jobs[slot].state != JobState::Blocked;
        if was_tried {
            count_failed(state, slot, at);
        }
        if lease == LeaseState::Killed {
            count(state, slot, Count::VisibilityTimeout, at);
        } else if was_tried {
            end_attempt(state, slot, at);
        }
    }
    forget_attempt(state, slot);
    state.unstand(slot);
    if !blocks_group {
        state.release_group(slot);
    }
    let dedup = state.jobs[slot].dedup;
    if dedup != NONE && state.dedups[dedup].window.is_none() {
        state.jobs[slot].make_rare().released_dedup = Some(state.dedups[dedup].record());
    }
    state.release_dedup(slot);
    state.ended.push((state.jobs[slot].id, None));
    let job = &mut state.jobs[slot];
    job.state = JobState::Dead;
    set_lease_state(job, lease);
    if let Some(place) = error {
        job.add_error(place);
    }
    let extra = job.extra();
    extra.ended_at = at;
    extra.death = Some(Box::new(death.clone()));
    if let Some(rare) = job.rare_mut() {
        rare.task = None;
    }
    job.shrink();
    state.stand(slot);
}

/// The event carries the task, for the job may be one that a trimmed log does not show.
pub(super) fn count_for_task(state: &mut State, task: Option<u64>, succeeded: bool) {
    if let Some(task) = task.and_then(|task| state.tasks.get_mut(&task)) {
        let counts = &mut task.record.counts;
        if !succeeded && counts.succeeded + counts.failed < FIRST_FINISHED {
            counts.failed_early += 1;
        }
        *if succeeded { &mut counts.succeeded } else { &mut counts.failed } += 1;
    }
}

pub(super) fn replayed(
    state: &mut State,
    position: u64,
    slot: Slot,
    due_at: u64,
    task: u64,
    payload: Option<Span>,
    ignore_key: bool,
) {
    state.unstand(slot);
    state.release_group(slot);
    if let Some(dedup) = state.jobs[slot].rare_mut().and_then(|rare| rare.released_dedup.take()) {
        state.hold_dedup(position, slot, dedup);
    }
    let job = &mut state.jobs[slot];
    job.state = JobState::Ready;
    job.set_due(due_at, None);
    if !active(Mutant::AttemptsKeptOnReplay) {
        job.attempts = 0;
    }
    let earlier_deliveries = job.all_deliveries();
    job.deliveries = 0;
    job.replays = job.replays.saturating_add(1);
    job.set(flag::IGNORE_KEY, ignore_key);
    set_lease_state(job, LeaseState::Replayed);
    job.extra().death = None;
    let rare = job.make_rare();
    rare.earlier_deliveries = earlier_deliveries;
    rare.cancel_requested = false;
    rare.task = Some(task);
    if let Some(payload) = payload {
        rare.payload = Some(payload.at(position));
    }
    state.stand(slot);
}

pub(super) fn removed(state: &mut State, slot: Slot, why: Removal) {
    let (number, was_final) = (state.jobs[slot].queue, state.jobs[slot].state.is_final());
    forget_attempt(state, slot);
    state.unstand(slot);
    state.release_group(slot);
    if why == Removal::Discarded {
        let at = state.jobs[slot].ended_at();
        state.queue_mut(number).figures.count(Count::Discarded, at);
    }
    if !was_final {
        state.ended.push((state.jobs[slot].id, None));
    }
    state.untie_job(slot);
    state.wake(number);
}
