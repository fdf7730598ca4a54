//! The only code that changes the state. It cannot fail, and it never decides: what an event means is
//! fixed, whatever the policy is by now.

use alloc::boxed::Box;

use crate::event::{
    AuditRecord, Death, Due, Event, Globals, JobCopy, JobRecord, Lease, LeaseState, QueueRecord, Removal, Span,
    TaskKind, TaskRecord,
};
use crate::figures::Count;
use crate::id::Hash;
use crate::items::{ItemKind, Link, short};
use crate::options::{QueueOptions, Source};
use crate::reply::State as JobState;
use crate::state::{
    AUDIT_MAX, Attempt, AuditEntry, Group, NONE, Note, ProducerEntry, Queue, RequestEntry, Slot, State, Task, Timer,
    domain, flag,
};

/// How long a finished bulk action can be looked up.
pub(crate) const TASK_KEPT_MS: u64 = 24 * 3_600_000;

/// Of so many first finished jobs a replay counts the failures that halt it.
const FIRST_FINISHED: u64 = 10;

/// Longest grace that a lease gets after a start.
const GRACE_MAX_MS: u64 = 60_000;

/// Applies a fact that stands in the batch at `position`.
pub fn apply(state: &mut State, position: u64, event: &Event) {
    match event {
        Event::GlobalsSet(globals) => globals_set(state, position, globals),
        Event::Started { at } => started(state, *at),
        Event::ClockStepped { delta_ms } => state.skew_ms = state.skew_ms.saturating_add(*delta_ms),
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
            if let Some(slot) = state.keys.find(key.0) {
                if *ended {
                    // The job that shows it may stand behind it.
                    state.mark_ended(slot);
                } else {
                    // Jobs that stand before the copy in a trimmed log did not know of the result.
                    state.restand_key(slot, NONE, false);
                }
            }
        }
        Event::KeyEnded { key, kept } => {
            if let Some(slot) = state.keys.find(key.0) {
                // The jobs that show it may stand behind this in a trimmed log.
                if *kept {
                    state.mark_ended(slot)
                } else {
                    state.end_saved(slot)
                }
                if state.keys.get(slot).is_some_and(|there| there.hash == *key) {
                    state.restand_key(slot, NONE, false);
                }
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
        Event::ProducerAdvanced { producer, queue, seq } => {
            ensure_queue(state, *queue);
            producer_advanced(state, position, (*queue, *producer), *seq);
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
        Event::Completed { seq, .. }
        | Event::Skipped { seq, .. }
        | Event::Died { seq, .. }
        | Event::Ended { seq, .. } => {
            let seq = *seq;
            apply_change(state, position, event);
            release_followers(state, seq);
        }
        Event::Removed { seqs, why } => {
            for seq in seqs {
                on(state, *seq, |state, slot| removed(state, slot, *why));
                release_followers(state, *seq);
            }
        }
        _ => apply_change(state, position, event),
    }
}

/// Whoever waits behind this job may go on. The job itself need not be known any more.
fn release_followers(state: &mut State, seq: u64) {
    for follower in state.followers.remove(&seq).unwrap_or_default() {
        on(state, follower, |state, slot| {
            if state.jobs[slot].state == JobState::Blocked {
                state.unstand(slot);
                state.jobs[slot].extra().behind = None;
                let at_once = state.jobs[slot].has(flag::AT_ONCE);
                state.jobs[slot].state = if at_once { JobState::Ready } else { JobState::Delayed };
                state.stand(slot);
            }
        });
    }
}

fn apply_change(state: &mut State, position: u64, event: &Event) {
    match event {
        Event::Completed { seq, queue, at, result, keep_until, key, key_until, task } => {
            count_for_task(state, *task, true);
            if let Some(key) = key {
                key_saved(state, position, *key, *queue, *key_until, *result);
            }
            if let Some(slot) = state.slot_of_seq(*seq) {
                completed(state, slot, *at, result.map(|span| span.at(position)), *keep_until);
            }
            if let Some(slot) = key.and_then(|key| state.keys.find(key.0)) {
                state.restand_key(slot, NONE, true);
            }
        }
        Event::Received { seq, lease, key, holds_group } => {
            state.fence = state.fence.max(lease.fence);
            if let Some(slot) = state.slot_of_seq(*seq) {
                if *holds_group {
                    let group = state.jobs[slot].group;
                    state.groups[group].holder = slot;
                }
                received(state, slot, lease);
            } else if let Some(key) = key.and_then(|key| state.keys.find(key.0)) {
                // A job that a trimmed log does not show takes the key like any other.
                state.restand_key(key, NONE, true);
            }
        }
        Event::Renewed { seq, ends_elapsed_at } => on(state, *seq, |state, slot| {
            state.unstand(slot);
            if let Some(lease) = &mut state.jobs[slot].extra().lease {
                lease.ends_elapsed_at = *ends_elapsed_at;
                lease.interrupted = false;
            }
            state.stand(slot);
        }),
        Event::Extended { seq, ends_elapsed_at, progress } => on(state, *seq, |state, slot| {
            extended(state, slot, *ends_elapsed_at, progress.map(|span| span.at(position)));
        }),
        Event::Skipped { seq, at, keep_until, task } => {
            count_for_task(state, *task, true);
            on(state, *seq, |state, slot| {
                count(state, slot, Count::Skipped, *at);
                finish(state, slot, JobState::Completed, *at, *keep_until, |job| {
                    job.set(flag::SKIPPED, true);
                    job.extra().task = None;
                });
            });
        }
        Event::Failed { seq, at, due, error, lapsed } => on(state, *seq, |state, slot| {
            take_up(state, slot);
            count(state, slot, Count::Failed, *at);
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
                count(state, slot, Count::Failed, *at);
                count(state, slot, Count::Retried, *at);
            }
            wait_again(state, slot, None, LeaseState::Lapsed, Some(error.at(position)));
        }),
        Event::Released { seq, at, until, error, uncounted } => on(state, *seq, |state, slot| {
            count(state, slot, Count::Released, *at);
            take_up(state, slot);
            let job = &mut state.jobs[slot];
            // A lapsed delivery's attempt was counted by its receive, like any other's.
            job.attempts = job.attempts.saturating_sub(1);
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
            state.jobs[slot].extra().cancel_requested = true;
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
                if job.lease().is_some_and(|lease| lease.state == LeaseState::Lapsed) {
                    set_lease_state(job, LeaseState::Replaced);
                }
                job.extra().payload = Some(payload.at(position));
            }
            let dedup = job.dedup;
            if let Some(hash) = payload_hash.filter(|_| dedup != NONE) {
                state.dedups[dedup].window.dedup.payload = hash;
            }
            state.stand(slot);
        }),
        Event::Replayed { seq, at, task, payload, ignore_key, due_at } => {
            state.line_at = state.line_at.max(*due_at);
            on(state, *seq, |state, slot| {
                count(state, slot, Count::Replayed, *at);
                replayed(state, position, slot, *due_at, *task, *payload, *ignore_key);
            });
        }
        _ => panic!("not an event of a job: {event:?}"),
    }
}

fn on(state: &mut State, seq: u64, act: impl FnOnce(&mut State, Slot)) {
    if let Some(slot) = state.slot_of_seq(seq) {
        act(state, slot);
    }
}

fn count(state: &mut State, slot: Slot, what: Count, at: u64) {
    let queue = state.jobs[slot].queue;
    state.queue_mut(queue).figures.count(what, at);
}

fn globals_set(state: &mut State, position: u64, globals: &Globals) {
    if state.secret != globals.secret {
        state.secret = globals.secret;
        state.hash_anew();
    }
    state.seq = state.seq.max(globals.seq);
    state.last_queue = state.last_queue.max(globals.queue);
    state.last_number = state.last_number.max(globals.number);
    state.fence = state.fence.max(globals.fence);
    state.line_at = state.line_at.max(globals.line_at);
    state.skew_ms = globals.skew_ms;
    if state.defaults != globals.defaults {
        state.defaults = globals.defaults.clone();
        let numbers: alloc::vec::Vec<u32> = state.queues.keys().copied().collect();
        numbers.into_iter().for_each(|number| resolve_settings(state, number));
    }
    state.link_item(ItemKind::Globals, 0, position);
}

fn started(state: &mut State, at: u64) {
    state.started_at = at;
    let elapsed_at = state.elapsed(at);
    let in_flight = state.queues.values().flat_map(|queue| queue.in_flight.values().copied());
    for slot in in_flight.collect::<alloc::vec::Vec<_>>() {
        state.unstand(slot);
        let extra = state.jobs[slot].extra();
        if let Some(lease) = &mut extra.lease {
            let ends = lease.timeout_elapsed_at.map_or(lease.ends_elapsed_at, |t| t.min(lease.ends_elapsed_at));
            let grace_ends = elapsed_at.saturating_add(lease.visibility_ms.min(GRACE_MAX_MS));
            // Once its end has fallen into down time, a second start does not make it a lease that was let lapse.
            lease.interrupted |= ends <= elapsed_at;
            lease.ends_elapsed_at = lease.ends_elapsed_at.max(grace_ends);
            lease.timeout_elapsed_at = lease.timeout_elapsed_at.map(|t| t.max(grace_ends));
        }
        state.stand(slot);
    }
    for queue in state.queues.values_mut() {
        queue.figures.forget_totals();
    }
    // How far a purge or delete is was written in numbers of lanes and groups, which are others now. What it
    // has done is gone, so it begins again; the rest of its cursors are places in time.
    for task in
        state.tasks.values_mut().filter(|task| matches!(task.record.kind, TaskKind::Purge | TaskKind::DeleteQueue))
    {
        task.record.cursor = Default::default();
    }
    // The last dead job of a note may have gone before what is left of the log; one that comes takes it back.
    let stale = state.notes.iter().filter(|(_, note)| {
        !state.queues.get(&note.queue).is_some_and(|queue| queue.fingerprints.contains_key(&note.fingerprint))
    });
    let stale: alloc::vec::Vec<Slot> = stale.map(|(slot, _)| slot).collect();
    state.stale_notes.extend(stale);
}

fn queue_set(state: &mut State, position: u64, record: &QueueRecord) {
    let number = record.number;
    state.last_queue = state.last_queue.max(number);
    ensure_queue(state, number);
    state.unlink_item(ItemKind::Queue, number);
    let queue = state.queue_mut(number);
    queue.record = record.clone();
    queue.name = (*record.name).into();
    state.names.insert(record.name.clone(), number);
    resolve_settings(state, number);
    state.link_item(ItemKind::Queue, number, position);
    state.wake(number);
}

/// A queue that an event is about. In a trimmed log the queue's own record may stand behind events about
/// its jobs (a pause writes it anew); until then they stand in a queue without a name.
fn ensure_queue(state: &mut State, number: u32) {
    if !state.queues.contains_key(&number) {
        let record = QueueRecord {
            number,
            name: Box::default(),
            source: Source::Auto,
            options: QueueOptions::default(),
            revision: 0,
            paused: false,
            paused_reason: None,
            purged_at: 0,
        };
        let hash = state.secret.hash(domain::GROUP, u64::from(number), &[]);
        let no_group = state.groups.insert(Group::new(hash, number));
        let settings = record.options.settings(&state.defaults);
        let queue = Queue {
            record,
            name: "".into(),
            settings,
            link: Link::default(),
            lanes: Default::default(),
            lane_by_hash: Default::default(),
            open_lanes: Default::default(),
            next_turn: 0,
            no_group,
            delayed: Default::default(),
            aside: Default::default(),
            workers: Default::default(),
            in_flight: Default::default(),
            dead: Default::default(),
            finished: Default::default(),
            counts: Default::default(),
            held_by_key: 0,
            held_by_group_limit: 0,
            held_by_group_order: 0,
            fingerprints: Default::default(),
            fingerprints_by_size: Default::default(),
            keys: 0,
            producers: 0,
            dedups: 0,
            notes: 0,
            figures: Default::default(),
            is_going: false,
        };
        state.queues.insert(number, Box::new(queue));
    }
}

/// Settings follow from options; jobs stand anew where the rules of groups changed.
fn resolve_settings(state: &mut State, number: u32) {
    let settings = state.queue(number).record.options.settings(&state.defaults);
    let before = core::mem::replace(&mut state.queue_mut(number).settings, settings);
    state.wake(number);
    let after = &state.queue(number).settings;
    let rules = |s: &crate::options::Settings| (s.ordered, s.fair, s.group_max_in_flight);
    if rules(&before) == rules(after) {
        return;
    }
    let in_lines = state.queue(number).lanes().flat_map(|(_, lane)| lane.ready.values().copied());
    let mut ready: alloc::vec::Vec<Slot> = in_lines.collect();
    // Groups without a job in line are in no ring, whatever the rules are.
    let groups: alloc::collections::BTreeSet<Slot> = ready.iter().map(|slot| state.jobs[*slot].group).collect();
    let aside = state.queue(number).aside.values().copied();
    ready.extend(aside.filter(|slot| state.jobs[*slot].state == JobState::Ready));
    groups.into_iter().for_each(|group| state.refresh(group));
    for slot in ready {
        state.unstand(slot);
        state.stand(slot);
    }
}

fn queue_deleted(state: &mut State, number: u32) {
    let Some(queue) = state.queues.get(&number) else { return };
    let jobs = queue.lanes().count();
    // As many as there are, and not a look at those of other queues behind them.
    let [producers_left, dedups_left, keys_left, notes_left] =
        [queue.producers, queue.dedups, queue.keys, queue.notes].map(|count| count as usize);
    assert_eq!(jobs, 0, "a queue is deleted when its last job is gone");
    state.unlink_item(ItemKind::Queue, number);
    let producers =
        state.producers.iter().filter(|(_, p)| p.queue == number).map(|(slot, _)| slot).take(producers_left);
    for slot in producers.collect::<alloc::vec::Vec<_>>() {
        state.unlink_item(ItemKind::Producer, slot);
        state.producers.remove(slot);
    }
    let dedups = state.dedups.iter().filter(|(_, d)| d.window.queue == number).map(|(slot, _)| slot).take(dedups_left);
    for slot in dedups.collect::<alloc::vec::Vec<_>>() {
        state.drop_dedup(slot);
    }
    let keys = state.keys.iter().filter(|(_, key)| key.queue == number).map(|(slot, _)| slot).take(keys_left);
    for slot in keys.collect::<alloc::vec::Vec<_>>() {
        state.end_saved(slot);
    }
    let notes = state.notes.iter().filter(|(_, note)| note.queue == number).map(|(slot, _)| slot).take(notes_left);
    for slot in notes.collect::<alloc::vec::Vec<_>>() {
        drop_note(state, slot);
    }
    // Whoever waits for its jobs waits in vain.
    state.wake(number);
    if let Some(queue) = state.queues.remove(&number) {
        state.names.remove(&queue.record.name);
        state.groups.remove(queue.no_group);
    }
}

fn enqueued(state: &mut State, position: u64, record: &JobRecord) {
    ensure_queue(state, record.queue);
    if record.at_once {
        state.line_at = state.line_at.max(record.due_at);
    }
    let at = record.id.enqueued_at();
    let slot = state.tie_job(position, record.clone());
    // The job before it is unfinished, even where a trimmed log has not shown it yet; its end releases this one.
    state.jobs[slot].state = match record.behind {
        Some(_) => JobState::Blocked,
        None if record.at_once || record.due_at <= at => JobState::Ready,
        None => JobState::Delayed,
    };
    if let Some(seq) = record.behind {
        state.followers.entry(seq).or_default().push(record.id.seq());
    }
    count(state, slot, Count::Enqueued, at);
    state.stand(slot);
}

/// Fields of a copied job that only some jobs have.
fn set_copied_extra(job: &mut crate::state::Job, position: u64, copy: &JobCopy) {
    let has_more = copy.lease.is_some()
        || copy.error_count > 0
        || copy.result.is_some()
        || copy.progress.is_some()
        || copy.death.is_some()
        || copy.task.is_some()
        || copy.released_dedup.is_some()
        || copy.state.is_final();
    if has_more {
        let extra = job.extra();
        extra.lease.clone_from(&copy.lease);
        extra.errors = copy.errors.iter().map(|span| span.at(position)).collect();
        extra.error_count = copy.error_count;
        extra.result = copy.result.map(|span| span.at(position));
        extra.progress = copy.progress.map(|span| span.at(position));
        extra.cancel_requested = copy.cancel_requested;
        extra.ended_at = copy.ended_at;
        extra.keep_until = copy.keep_until;
        extra.death.clone_from(&copy.death);
        extra.task = copy.task;
        extra.released_dedup = copy.released_dedup;
    }
}

/// The job is there already, as the copy says, but for where its bytes are. All that has happened to it since
/// its own record is in the log, so this is what a copy finds wherever the job is known; only what other
/// jobs did to its lease may be missing. It keeps its place: freeing space must not change whose turn it is.
fn is_as_copied(state: &State, slot: Slot, copy: &JobCopy) -> bool {
    let job = &state.jobs[slot];
    let lane = state.queue(job.queue).lane(job.lane);
    let ends = |lease: Option<&Lease>| lease.map(|l| (l.nonce, l.ends_elapsed_at, l.timeout_elapsed_at));
    job.state == copy.state
        && (job.due_at, lane.priority) == (copy.record.due_at, copy.record.priority)
        && ends(job.lease()) == ends(copy.lease.as_ref())
        && (job.ended_at(), job.keep_until(), job.death()) == (copy.ended_at, copy.keep_until, copy.death.as_ref())
        && job.cancel_requested() == copy.cancel_requested
        && job.has(flag::IGNORE_KEY) == copy.ignore_key
        && (job.dedup != NONE) == copy.record.dedup.is_some()
        && (state.groups[job.group].holder == slot) == copy.holds_group
}

fn job_copied(state: &mut State, position: u64, copy: &JobCopy) {
    ensure_queue(state, copy.record.queue);
    if let Some(slot) = state.slot_of_seq(copy.record.id.seq()).filter(|slot| is_as_copied(state, *slot, copy)) {
        state.unweigh_job(slot);
        state.move_job(slot, position, &copy.record);
        set_copied_extra(&mut state.jobs[slot], position, copy);
        state.weigh_job(slot);
        return;
    }
    on(state, copy.record.id.seq(), |state, slot| {
        state.unstand(slot);
        state.release_group(slot);
        state.untie_job(slot);
    });
    let slot = state.tie_job(position, copy.record.clone());
    let was_carrier = state.jobs[slot].carries_key() && copy.state.is_final();
    if was_carrier {
        let key = state.jobs[slot].key;
        state.keys[key].carriers -= 1;
    }
    let job = &mut state.jobs[slot];
    job.state = copy.state;
    job.attempts = copy.attempts as u16;
    job.deliveries = copy.deliveries as u16;
    job.replays = copy.replays as u16;
    job.set_due(copy.record.due_at, copy.due_elapsed_at);
    job.set(flag::IGNORE_KEY, copy.ignore_key);
    job.set(flag::SKIPPED, copy.skipped);
    set_copied_extra(job, position, copy);
    if let Some(seq) = copy.record.behind.filter(|_| copy.state == JobState::Blocked) {
        let followers = state.followers.entry(seq).or_default();
        if !followers.contains(&copy.record.id.seq()) {
            followers.push(copy.record.id.seq());
        }
    }
    state.stand(slot);
    if copy.holds_group {
        let group = state.jobs[slot].group;
        state.groups[group].holder = slot;
        state.refresh(group);
    }
    if copy.state == JobState::InFlight
        && let Some(lease) = &copy.lease
    {
        state.fence = state.fence.max(lease.fence);
        remember_attempt(state, slot, lease);
    }
}

fn received(state: &mut State, slot: Slot, lease: &Lease) {
    let at = lease.received_at;
    state.unstand(slot);
    let job = &mut state.jobs[slot];
    job.state = JobState::InFlight;
    job.attempts = job.attempts.saturating_add(1);
    job.deliveries = job.deliveries.saturating_add(1);
    let (group, waited_ms, number) = (job.group, at.saturating_sub(job.due_at), job.queue);
    let extra = job.extra();
    extra.lease = Some(lease.clone());
    extra.progress = None;
    extra.due_elapsed_at = None;
    state.take_turn(group);
    state.stand(slot);
    remember_attempt(state, slot, lease);
    let figures = &mut state.queue_mut(number).figures;
    figures.count(Count::Received, at);
    figures.wait.add(at, waited_ms);
}

fn remember_attempt(state: &mut State, slot: Slot, lease: &Lease) {
    if let Some(hash) = lease.attempt {
        let id = state.jobs[slot].id;
        let attempt = state
            .attempts
            .entry(hash.0)
            .or_insert_with(|| Attempt { jobs: Default::default(), received_at: lease.received_at });
        // The jobs of one receive have its instant in common; a copy may show one of an earlier receive.
        if lease.received_at > attempt.received_at {
            *attempt = Attempt { jobs: Default::default(), received_at: lease.received_at };
        }
        if lease.received_at < attempt.received_at {
            return;
        }
        if !attempt.jobs.contains(&id) {
            attempt.jobs.push(id);
        }
    }
}

/// A settle or extend of one of its jobs ends the repeatability of a receive.
fn forget_attempt(state: &mut State, slot: Slot) {
    let Some(hash) = state.jobs[slot].lease().and_then(|lease| lease.attempt) else { return };
    let id = state.jobs[slot].id;
    let is_of_it = |attempt: &Attempt| attempt.jobs.contains(&id);
    let attempt = if state.attempts.get(&hash.0).is_some_and(is_of_it) { state.attempts.remove(&hash.0) } else { None };
    // A copy of another of its jobs must not make it repeatable again.
    for id in attempt.map(|attempt| attempt.jobs).unwrap_or_default() {
        let job = state.slot_of(id).map(|slot| &mut state.jobs[slot]);
        if let Some(lease) = job.and_then(|job| job.extra.as_mut()?.lease.as_mut()) {
            lease.attempt = None;
        }
    }
}

fn extended(state: &mut State, slot: Slot, ends_elapsed_at: u64, progress: Option<crate::reply::Place>) {
    take_up(state, slot);
    let at = state.wall(ends_elapsed_at);
    count(state, slot, Count::Extended, at);
    forget_attempt(state, slot);
    state.unstand(slot);
    let job = &mut state.jobs[slot];
    job.state = JobState::InFlight;
    let extra = job.extra();
    extra.due_elapsed_at = None;
    if progress.is_some() {
        extra.progress = progress;
    }
    if let Some(lease) = &mut extra.lease {
        lease.ends_elapsed_at = ends_elapsed_at;
        lease.state = LeaseState::Held;
        lease.interrupted = false;
    }
    state.stand(slot);
}

/// How long the attempt took, for the histogram.
fn end_attempt(state: &mut State, slot: Slot, at: u64) {
    let job = &state.jobs[slot];
    let Some(received_at) = job.lease().map(|lease| lease.received_at) else { return };
    let number = job.queue;
    state.queue_mut(number).figures.processing.add(at, at.saturating_sub(received_at));
}

fn set_lease_state(job: &mut crate::state::Job, to: LeaseState) {
    if let Some(lease) = job.extra.as_mut().and_then(|extra| extra.lease.as_mut()) {
        lease.state = to;
    }
}

/// A settle of a delivery whose end fell into down time: the attempt that was given back is used after all.
fn take_up(state: &mut State, slot: Slot) {
    let job = &mut state.jobs[slot];
    if job.was_interrupted() {
        job.attempts = job.attempts.saturating_add(1);
    }
}

/// Back to waiting: in the old place, or delayed.
fn wait_again(
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
    state.stand(slot);
}

fn completed(state: &mut State, slot: Slot, at: u64, result: Option<crate::reply::Place>, keep_until: Option<u64>) {
    take_up(state, slot);
    count(state, slot, Count::Completed, at);
    end_attempt(state, slot, at);
    finish(state, slot, JobState::Completed, at, keep_until, |job| {
        set_lease_state(job, LeaseState::Acked);
        job.extra().result = result;
    });
}

/// Ends a job for good; without `keep_until` it is gone at once.
fn finish(
    state: &mut State,
    slot: Slot,
    how: JobState,
    at: u64,
    keep_until: Option<u64>,
    change: impl FnOnce(&mut crate::state::Job),
) {
    forget_attempt(state, slot);
    state.unstand(slot);
    state.release_group(slot);
    state.release_dedup(slot);
    state.ended.push(state.jobs[slot].id);
    let job = &mut state.jobs[slot];
    change(job);
    job.state = how;
    let key = job.key;
    let extra = job.extra();
    extra.shrink();
    extra.task = None;
    extra.ended_at = at;
    extra.keep_until = keep_until.unwrap_or(at);
    extra.death = None;
    extra.cancel_requested = false;
    if key != NONE {
        state.keys[key].carriers -= 1;
    }
    if keep_until.is_some() {
        state.stand(slot);
    } else {
        state.untie_job(slot);
    }
}

fn died(
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
        count(state, slot, Count::Failed, at);
        if lease == LeaseState::Killed {
            count(state, slot, Count::VisibilityTimeout, at);
        } else {
            end_attempt(state, slot, at);
        }
    }
    forget_attempt(state, slot);
    state.unstand(slot);
    if !blocks_group {
        state.release_group(slot);
    }
    let dedup = state.jobs[slot].dedup;
    if dedup != NONE && state.dedups[dedup].window.dedup.until.is_none() {
        state.jobs[slot].extra().released_dedup = Some(state.dedups[dedup].window.dedup);
    }
    state.release_dedup(slot);
    state.ended.push(state.jobs[slot].id);
    let job = &mut state.jobs[slot];
    job.state = JobState::Dead;
    set_lease_state(job, lease);
    if let Some(place) = error {
        job.add_error(place);
    }
    let extra = job.extra();
    extra.shrink();
    extra.task = None;
    extra.ended_at = at;
    extra.death = Some(death.clone());
    state.stand(slot);
}

/// The event carries the task, for the job may be one that a trimmed log does not show.
fn count_for_task(state: &mut State, task: Option<u64>, succeeded: bool) {
    if let Some(task) = task.and_then(|task| state.tasks.get_mut(&task)) {
        let counts = &mut task.record.counts;
        if !succeeded && counts.succeeded + counts.failed < FIRST_FINISHED {
            counts.failed_early += 1;
        }
        *if succeeded { &mut counts.succeeded } else { &mut counts.failed } += 1;
    }
}

fn replayed(
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
    if let Some(dedup) = state.jobs[slot].extra().released_dedup.take() {
        state.hold_dedup(position, slot, dedup);
    }
    let job = &mut state.jobs[slot];
    job.state = JobState::Ready;
    job.set_due(due_at, None);
    job.attempts = 0;
    job.deliveries = 0;
    job.replays = job.replays.saturating_add(1);
    job.set(flag::IGNORE_KEY, ignore_key);
    set_lease_state(job, LeaseState::Replayed);
    let extra = job.extra();
    extra.death = None;
    extra.cancel_requested = false;
    extra.task = Some(task);
    if let Some(payload) = payload {
        extra.payload = Some(payload.at(position));
    }
    state.stand(slot);
}

fn removed(state: &mut State, slot: Slot, why: Removal) {
    let (number, was_final) = (state.jobs[slot].queue, state.jobs[slot].state.is_final());
    forget_attempt(state, slot);
    state.unstand(slot);
    state.release_group(slot);
    if why == Removal::Discarded {
        let at = state.jobs[slot].ended_at();
        state.queue_mut(number).figures.count(Count::Discarded, at);
    }
    if !was_final {
        state.ended.push(state.jobs[slot].id);
    }
    state.untie_job(slot);
    state.wake(number);
}

fn key_saved(state: &mut State, position: u64, hash: Hash, queue: u32, until: u64, result: Option<Span>) {
    ensure_queue(state, queue);
    let slot = state.find_or_make_key(queue, hash);
    state.save_result(position, slot, until, result.map(|span| span.at(position)));
}

fn producer_advanced(state: &mut State, position: u64, (queue, hash): (u32, Hash), seq: u64) {
    let slot = match state.producers.find(hash.0) {
        Some(slot) => slot,
        None => {
            state.queue_mut(queue).producers += 1;
            state.producers.insert(ProducerEntry { hash, queue, seq: 0, link: Link::default() })
        }
    };
    state.producers[slot].seq = seq;
    state.link_item(ItemKind::Producer, slot, position);
}

fn request_answered(state: &mut State, position: u64, (request, body): (Hash, Hash), answer: Span, until: u64) {
    if let Some(slot) = state.requests.find(request.0) {
        state.timers.clear(false, state.requests[slot].until, Timer::Request(slot));
        state.unlink_item(ItemKind::Request, slot);
        state.requests.remove(slot);
    }
    let slot = state.requests.insert(RequestEntry {
        hash: request,
        body,
        answer: answer.at(position),
        until,
        link: Link::default(),
    });
    state.timers.set(false, until, Timer::Request(slot));
    state.link_item(ItemKind::Request, slot, position);
}

fn task_set(state: &mut State, position: u64, record: &TaskRecord) {
    let number = short(record.id);
    state.last_number = state.last_number.max(record.id);
    if state.tasks.contains_key(&record.id) {
        forget_task(state, record.id);
    }
    if record.kind == TaskKind::DeleteQueue && record.state == crate::reply::TaskState::Running {
        ensure_queue(state, record.queue);
        state.queue_mut(record.queue).is_going = true;
    }
    let patch = record.patch.map(|span| span.at(position));
    state.tasks.insert(record.id, Task { record: record.clone(), patch, link: Link::default() });
    if let Some(ended_at) = record.ended_at {
        state.timers.set(false, ended_at + TASK_KEPT_MS, Timer::Task(number));
    }
    if record.state == crate::reply::TaskState::Running {
        state.running.insert(record.id);
    }
    state.link_item(ItemKind::Task, number, position);
}

fn task_ended(state: &mut State, task: u64, how: crate::reply::TaskState, at: u64) {
    if !state.tasks.contains_key(&task) {
        return;
    }
    let number = short(task);
    state.unweigh_item(ItemKind::Task, number);
    let Some(task) = state.tasks.get_mut(&task) else { return };
    // What it was meant for is not needed any more; what it did is in its figures.
    task.record.select.seqs = None;
    task.patch = None;
    task.record.state = how;
    state.running.remove(&task.record.id);
    if task.record.ended_at.replace(at).is_none() {
        state.timers.set(false, at + TASK_KEPT_MS, Timer::Task(number));
    }
    if task.record.kind == TaskKind::DeleteQueue
        && let Some(queue) = state.queues.get_mut(&task.record.queue)
    {
        // A delete that was stopped gives the queue back; one that is done removes it next.
        queue.is_going = false;
        let number = queue.record.number;
        state.wake(number);
    }
    state.weigh_item(ItemKind::Task, number);
}

fn forget_task(state: &mut State, task: u64) {
    if let Some(record) = state.tasks.get(&task).map(|task| &task.record) {
        if let Some(ended_at) = record.ended_at {
            state.timers.clear(false, ended_at + TASK_KEPT_MS, Timer::Task(short(task)));
        }
        state.unlink_item(ItemKind::Task, short(task));
        state.tasks.remove(&task);
        state.running.remove(&task);
    }
}

fn audited(state: &mut State, position: u64, record: &AuditRecord) {
    state.last_number = state.last_number.max(record.id);
    if state.audit.contains_key(&record.id) {
        // A copy: the entry leaves its place in the list before it is replaced.
        state.unlink_item(ItemKind::Audit, short(record.id));
    }
    state.audit.insert(record.id, AuditEntry { record: record.clone(), link: Link::default() });
    state.link_item(ItemKind::Audit, short(record.id), position);
    while state.audit.len() as u64 > AUDIT_MAX
        && let Some(oldest) = state.audit.keys().next().copied()
    {
        state.unlink_item(ItemKind::Audit, short(oldest));
        state.audit.remove(&oldest);
    }
}

fn noted(state: &mut State, position: u64, queue: u32, fingerprint: u64, text: &str) {
    let note = Note { queue, fingerprint, text: text.into(), link: Link::default() };
    let key = crate::state::slab::Keyed::key(&note);
    if let Some(slot) = state.notes.find(key) {
        drop_note(state, slot);
    }
    if !text.is_empty() {
        ensure_queue(state, queue);
        state.queue_mut(queue).notes += 1;
        let slot = state.notes.insert(note);
        state.link_item(ItemKind::Note, slot, position);
    }
}

fn drop_note(state: &mut State, slot: Slot) {
    state.unlink_item(ItemKind::Note, slot);
    state.stale_notes.remove(&slot);
    let note = state.notes.remove(slot);
    state.queue_mut(note.queue).notes -= 1;
}
