//! The only code that changes the state. It cannot fail, and it never decides: what an event means is
//! fixed, whatever the policy is by now.

mod guard;
mod hand_off;
mod hook;
mod job;
mod keys;
mod limit;
mod operator;
mod queue;
mod schedule;
mod schema;
mod service;

use recado_mutants::{Mutant, active};

use crate::event::{ChildEnd, Event, LeaseState};
use crate::figures::Count;
use crate::items::ItemKind;
use crate::reply::State as JobState;
use crate::state::{ChildResult, NONE, Slot, State, Timer, flag};
use guard::{guard_ended, guard_set};
use hand_off::handed_off;
use hook::{hook_removed, hook_set};
use job::{
    completed, count_for_task, died, end_attempt, enqueued, extended, finish, job_copied, received, removed, replayed,
    set_lease_state, take_up, unblocked, wait_again,
};
use keys::{key_saved, producer_advanced, request_answered};
use limit::{limit_removed, limit_set};
use operator::{audited, forget_task, noted, task_ended, task_set};
use queue::{ensure_queue, queue_deleted, queue_set};
use schedule::{occurred, schedule_removed, schedule_set};
use schema::{schema_removed, schema_set};
use service::{globals_set, started};

pub(crate) use operator::TASK_KEPT_MS;

/// Applies a fact that stands in the batch at `position`.
pub fn apply(state: &mut State, position: u64, event: Event) {
    if state.listening.is_on() {
        state.note_news(&event);
    }
    match event {
        // By far most facts about what is in flight: the lease goes into the state as it is.
        Event::Received { seq, lease, key, holds_group } => {
            state.fence = state.fence.max(lease.fence);
            if let Some(slot) = state.slot_of_seq(seq) {
                if holds_group {
                    state.hold_group(slot);
                }
                received(state, slot, lease);
            } else if let Some(key) = key.and_then(|key| state.keys.find(key.0)) {
                // A job that a trimmed log does not show takes the key like any other.
                let fence = &mut state.keys[key].fence;
                *fence = lease.fence.max(*fence);
            }
        }
        event => apply_by_ref(state, position, &event),
    }
}

fn apply_by_ref(state: &mut State, position: u64, event: &Event) {
    match event {
        Event::GlobalsSet(globals) => globals_set(state, position, globals),
        Event::Started { at, served_elapsed_at } => started(state, *at, *served_elapsed_at),
        Event::ClockStepped { delta_ms } => {
            state.skew_ms = state.skew_ms.saturating_add(*delta_ms);
            state.stepped_fence = state.fence;
        }
        Event::QueueSet(record) => queue_set(state, position, record),
        Event::QueueDeleted { queue } => queue_deleted(state, *queue),
        Event::QueuePurged { queue, at } => {
            if let Some(queue) = state.queues.get_mut(queue) {
                queue.record.purged_at = queue.record.purged_at.max(*at);
            }
        }
        Event::Enqueued(record) => enqueued(state, position, record),
        Event::JobCopied(copy) => job_copied(state, position, copy),
        Event::KeySaved { key, queue, until, result, ended } => {
            key_saved(state, position, *key, *queue, *until, *result);
            if let Some(slot) = state.keys.find(key.0).filter(|_| *ended) {
                // The job that shows it may stand behind it.
                state.mark_ended(slot);
            }
        }
        Event::KeyEnded { key, kept } => {
            if let Some(slot) = state.keys.find(key.0) {
                // The jobs that show it may stand behind this in a trimmed log.
                if *kept { state.mark_ended(slot) } else { state.end_saved(slot) }
            }
        }
        Event::DedupSet(window) => {
            ensure_queue(state, window.queue);
            state.set_dedup(position, **window);
        }
        Event::DedupEnded { hash } => {
            if let Some(slot) = state.dedups.find(hash.0) {
                state.drop_dedup(slot);
            }
        }
        Event::ProducerAdvanced { producer, queue, seq, at } => {
            ensure_queue(state, *queue);
            producer_advanced(state, position, (*queue, *producer), *seq, *at);
        }
        Event::ProducerForgotten { producer } => {
            if let Some(slot) = state.producers.find(producer.0) {
                state.drop_producer(slot);
            }
        }
        Event::RequestAnswered { request, body, answer, until } => {
            request_answered(state, position, (*request, *body), *answer, *until);
        }
        Event::RequestEnded { request } => {
            if let Some(slot) = state.requests.find(request.0) {
                state.timers.clear(false, state.requests[slot].until, Timer::Request(slot));
                state.unlink_item(ItemKind::Request, slot);
                state.requests.remove(slot);
            }
        }
        Event::TaskSet(record) => task_set(state, position, record),
        Event::TaskAdvanced { task, cursor, counts } => {
            if let Some(task) = state.tasks.get_mut(task) {
                let record = &mut task.record;
                record.cursor = *cursor;
                // Successes and failures are counted by the jobs themselves.
                let before = core::mem::replace(&mut record.counts, *counts);
                record.counts.succeeded = before.succeeded;
                record.counts.failed = before.failed;
                record.counts.failed_early = before.failed_early;
            }
        }
        Event::TaskEnded { task, state: how, at } => task_ended(state, *task, *how, *at),
        Event::TaskForgotten { task } => forget_task(state, *task),
        Event::Audited(record) => audited(state, position, record),
        Event::KeyKept { key, until } => {
            if let Some(slot) = state.keys.find(key.0) {
                state.keep_saved(slot, *until);
            }
        }
        Event::GuardSet(record) => guard_set(state, position, record),
        Event::GuardEnded { key } => guard_ended(state, *key),
        Event::SchemaSet(record) => schema_set(state, position, record),
        Event::SchemaRemoved { number } => schema_removed(state, *number),
        Event::LimitSet(record) => limit_set(state, position, record),
        Event::LimitRemoved { number } => limit_removed(state, *number),
        Event::ScheduleSet(record) => schedule_set(state, position, record),
        Event::ScheduleRemoved { number } => schedule_removed(state, *number),
        Event::Occurred { schedule, occurrence, next } => occurred(state, *schedule, *occurrence, *next),
        Event::HookSet(record) => hook_set(state, position, record),
        Event::HookRemoved { number } => hook_removed(state, *number),
        Event::BreakerMoved { of, to, at, ends_elapsed_at } => state.move_breaker(*of, *to, *at, *ends_elapsed_at),
        Event::Noted { queue, fingerprint, note } => noted(state, position, *queue, *fingerprint, note),
        Event::FiguresSaved { queue, figures } => {
            if let Some(queue) = state.queues.get_mut(queue) {
                queue.figures.restore(figures);
            }
        }
        _ => apply_to_job(state, position, event),
    }
}

/// Facts about one job; nothing happens to one that is not there, but for what the fact carries itself.
fn apply_to_job(state: &mut State, position: u64, event: &Event) {
    match event {
        Event::Completed { seq, keep_until, .. }
        | Event::Skipped { seq, keep_until, .. }
        | Event::Ended { seq, keep_until, .. } => {
            apply_change(state, position, event);
            let (end, result) = end_of(position, event);
            state.report(*seq, end, result);
            release_followers(state, *seq);
            if keep_until.is_none() {
                state.drop_guards_of_job(*seq);
            }
        }
        Event::Died { seq, .. } => {
            apply_change(state, position, event);
            state.report(*seq, ChildEnd::Dead, ChildResult::None);
            release_followers(state, *seq);
        }
        Event::HandedOff(it) => {
            state.drop_guards_of_job(it.seq);
            count_for_task(state, it.task, false);
            state.line_at = state.line_at.max(it.due_at);
            state.seq = state.seq.max(it.id.seq());
            on(state, it.seq, |state, slot| handed_off(state, position, slot, it));
            state.report(it.seq, ChildEnd::Dead, ChildResult::None);
            release_followers(state, it.seq);
        }
        Event::Removed { seqs, why } => {
            for seq in seqs {
                on(state, *seq, |state, slot| removed(state, slot, *why));
                state.report(*seq, ChildEnd::Purged, ChildResult::None);
                release_followers(state, *seq);
                state.drop_guards_of_job(*seq);
            }
        }
        _ => apply_change(state, position, event),
    }
}

/// How a job ended for good, and what its parent may read.
fn end_of(position: u64, event: &Event) -> (ChildEnd, ChildResult) {
    match event {
        Event::Completed { result: Some(span), .. } => (ChildEnd::Completed, ChildResult::Own(span.at(position))),
        Event::Skipped { key: Some(key), .. } => (ChildEnd::Completed, ChildResult::Saved(*key)),
        Event::Ended { state: JobState::Expired, .. } => (ChildEnd::Expired, ChildResult::None),
        Event::Ended { .. } => (ChildEnd::Cancelled, ChildResult::None),
        _ => (ChildEnd::Completed, ChildResult::None),
    }
}

/// Whoever waits behind this job may go on. The job itself need not be known any more.
fn release_followers(state: &mut State, seq: u64) {
    for follower in state.followers.remove(&seq).unwrap_or_default() {
        on(state, follower, |state, slot| {
            if state.jobs[slot].state == JobState::Blocked {
                state.unstand(slot);
                if let Some(rare) = state.jobs[slot].rare_mut() {
                    rare.behind = None;
                }
                let at_once = state.jobs[slot].has(flag::AT_ONCE);
                state.jobs[slot].state = if at_once { JobState::Ready } else { JobState::Delayed };
                state.stand(slot);
            }
        });
    }
}

fn apply_change(state: &mut State, position: u64, event: &Event) {
    match event {
        Event::Completed { seq, queue, at, result, keep_until, key, key_until, task, error } => {
            count_for_task(state, *task, true);
            if let Some(key) = key {
                key_saved(state, position, *key, *queue, *key_until, *result);
            }
            if let Some(slot) = state.slot_of_seq(*seq) {
                let [result, error] = [result, error].map(|span| span.map(|span| span.at(position)));
                completed(state, slot, *at, result, error, *keep_until);
            }
        }
        Event::Renewed { seq, ends_elapsed_at } => on(state, *seq, |state, slot| {
            state.unstand(slot);
            if let Some(lease) = state.jobs[slot].lease_mut() {
                lease.ends_elapsed_at = *ends_elapsed_at;
                lease.interrupted = false;
            }
            state.stand(slot);
        }),
        Event::Extended { seq, ends_elapsed_at, progress } => on(state, *seq, |state, slot| {
            extended(state, slot, *ends_elapsed_at, progress.map(|span| span.at(position)));
        }),
        Event::Skipped { seq, at, keep_until, task, .. } => {
            count_for_task(state, *task, true);
            on(state, *seq, |state, slot| {
                count(state, slot, Count::Skipped, *at);
                finish(state, slot, JobState::Completed, *at, *keep_until, |job| {
                    job.set(flag::SKIPPED, true);
                });
            });
        }
        Event::Failed { seq, at, due, error, lapsed } => on(state, *seq, |state, slot| {
            take_up(state, slot);
            count_failed(state, slot, *at);
            count(state, slot, Count::Retried, *at);
            end_attempt(state, slot, *at);
            let lease = if *lapsed { LeaseState::Lapsed } else { LeaseState::Failed };
            wait_again(state, slot, Some(*due), lease, Some(error.at(position)));
        }),
        Event::Lapsed { seq, at, error, interrupted } => on(state, *seq, |state, slot| {
            if *interrupted {
                let job = &mut state.jobs[slot];
                job.attempts = job.attempts.saturating_sub(1);
            } else {
                count(state, slot, Count::VisibilityTimeout, *at);
                count_failed(state, slot, *at);
                count(state, slot, Count::Retried, *at);
            }
            wait_again(state, slot, None, LeaseState::Lapsed, Some(error.at(position)));
        }),
        Event::Released { seq, at, until, error, uncounted } => on(state, *seq, |state, slot| {
            count(state, slot, Count::Released, *at);
            take_up(state, slot);
            let job = &mut state.jobs[slot];
            // A lapsed delivery's attempt was counted by its receive, like any other's.
            job.attempts = job.attempts.saturating_sub(u16::from(!active(Mutant::ReleaseUsesAttempt)));
            job.deliveries = job.deliveries.saturating_sub(u16::from(*uncounted));
            wait_again(state, slot, *until, LeaseState::Released, error.map(|span| span.at(position)));
        }),
        Event::Died { seq, at, error, death, lease, blocks_group, task } => {
            count_for_task(state, *task, false);
            on(state, *seq, |state, slot| {
                died(state, slot, *at, error.map(|span| span.at(position)), death, *lease, *blocks_group);
            });
        }
        Event::CancelRequested { seq } => on(state, *seq, |state, slot| {
            state.unstand(slot);
            state.jobs[slot].make_rare().cancel_requested = true;
            let worker = state.jobs[slot].lease().and_then(|lease| lease.worker.as_deref());
            if let Some(worker) = worker.map(|worker| state.worker_hash(worker)) {
                state.cancel_news.push(worker);
            }
            state.stand(slot);
        }),
        Event::Ended { seq, at, state: how, keep_until, error, lease } => on(state, *seq, |state, slot| {
            let what = if *how == JobState::Expired { Count::Expired } else { Count::Cancelled };
            count(state, slot, what, *at);
            let error = error.map(|span| span.at(position));
            finish(state, slot, *how, *at, *keep_until, |job| {
                if let Some(place) = error {
                    job.add_error(place);
                }
                set_lease_state(job, *lease);
            });
        }),
        Event::Patched { seq, priority, due_at, payload, payload_hash } => on(state, *seq, |state, slot| {
            state.unstand(slot);
            state.change_priority(slot, *priority);
            let lapsed = state.lease_state(&state.jobs[slot]) == Some(LeaseState::Lapsed);
            let job = &mut state.jobs[slot];
            if let Some(due_at) = due_at {
                job.set_due(*due_at, None);
                job.set(flag::AT_ONCE, false);
                if job.state != JobState::Blocked {
                    job.state = JobState::Delayed;
                }
            }
            if let Some(payload) = payload {
                // A late ack would be about the old payload: the new one must run.
                if lapsed {
                    set_lease_state(job, LeaseState::Replaced);
                }
                job.make_rare().payload = Some(payload.at(position));
            }
            let dedup = job.dedup;
            if let Some(hash) = payload_hash.filter(|_| dedup != NONE) {
                state.dedups[dedup].payload = hash;
            }
            state.stand(slot);
        }),
        Event::Settled { seq, at, outcome, is_end } => {
            on(state, *seq, |state, slot| state.jobs[slot].set_outcome(*outcome));
            if *is_end {
                state.remember_settle(position, *seq, *at, *outcome);
            }
        }
        Event::Replayed { seq, at, task, payload, ignore_key, due_at } => {
            state.line_at = state.line_at.max(*due_at);
            on(state, *seq, |state, slot| {
                count(state, slot, Count::Replayed, *at);
                replayed(state, position, slot, *due_at, *task, *payload, *ignore_key);
            });
        }
        Event::Unblocked { seq, due_at } => {
            state.line_at = state.line_at.max(due_at.unwrap_or(0));
            on(state, *seq, |state, slot| unblocked(state, slot, *due_at));
        }
        _ => panic!("not an event of a job: {event:?}"),
    }
}

fn on(state: &mut State, seq: u64, act: impl FnOnce(&mut State, Slot)) {
    if let Some(slot) = state.slot_of_seq(seq) {
        act(state, slot);
    }
}

/// An attempt ended badly.
fn count_failed(state: &mut State, slot: Slot, at: u64) {
    count(state, slot, Count::Failed, at);
    note_outcome(state, slot, at, true);
}

/// Tells the breakers that look at the job's queue.
fn note_outcome(state: &mut State, slot: Slot, at: u64, is_failure: bool) {
    let (queue, seq) = (state.jobs[slot].queue, state.jobs[slot].id.seq());
    if state.queue(queue).is_metered {
        state.note_outcome(queue, seq, at, is_failure);
    }
}

fn count(state: &mut State, slot: Slot, what: Count, at: u64) {
    let queue = state.jobs[slot].queue;
    state.queue_mut(queue).figures.count(what, at);
}
