//! What is due: one function does one thing of it and says whether there is more.

use alloc::boxed::Box;

use super::hand_off::HandOffTo;
use crate::command::{Failure, Moment};
use crate::draft::Draft;
use crate::event::{BreakerState, Event, LeaseState, Removal};
use crate::items::whole;
use crate::meta::ErrorEntry;
use crate::options::OnDead;
use crate::reply::State as JobState;
use crate::state::{NONE, Slot, State, Timer};

/// Finished jobs that one step forgets.
const FORGOTTEN_MAX: usize = 100;

/// How often the end of a saved result is looked at, past its time, that a job still needs.
const KEY_KEPT_MS: u64 = 3_600_000;

/// Decides one thing that is due; false when nothing is.
pub(super) fn step(state: &State, moment: Moment, draft: &mut Draft) -> bool {
    let at = moment.at;
    if move_breaker(state, at, draft) {
        return true;
    }
    if let Some(key) = state.to_skip.first() {
        skip_one(state, at, *key, draft);
        return true;
    }
    if let Some(parent) = state.to_unblock.first() {
        super::family::unblock(state, moment, *parent, draft);
        return true;
    }
    if let Some(slot) = state.stale_notes.first() {
        let note = &state.notes[*slot];
        draft.push(Event::Noted { queue: note.queue, fingerprint: note.fingerprint, note: Box::default() });
        return true;
    }
    if let Some(slot) = state.unused_keys.first() {
        draft.push(Event::KeyEnded { key: state.keys[*slot].hash, kept: false });
        return true;
    }
    if let Some(number) = state.overfull.first() {
        forget_surplus(state, *number, draft);
        return true;
    }
    if state.is_short_of_memory() && state.keeps_finished() {
        forget(state, u64::MAX, u64::MAX, draft);
        return true;
    }
    if state.has_tasks_to_forget()
        && let Some(task) = state.tasks.keys().find(|task| !state.running.contains(task))
    {
        draft.push(Event::TaskForgotten { task: *task });
        return true;
    }
    let Some(timer) = state.first_due(at) else { return false };
    match timer {
        // State::advance sees to these.
        Timer::Due(_)
        | Timer::Hold(_)
        | Timer::Rate(_)
        | Timer::LimitRate(_)
        | Timer::GroupRate(_)
        | Timer::GroupRest(_) => {}
        Timer::Breaker(of) => {
            draft.push(Event::BreakerMoved { of, to: BreakerState::HalfOpen, at, ends_elapsed_at: 0 });
        }
        Timer::Lease(slot) => lease_ended(state, moment, slot, draft),
        Timer::Expiry(slot) => super::cancel::expired(state, slot, at, draft),
        Timer::Age(number) => retention_ended(state, number, at, draft),
        Timer::Keep(_) => forget(state, at, u64::MAX, draft),
        Timer::Key(slot) => {
            let key = &state.keys[slot];
            draft.push(if state.carriers(key) == 0 {
                Event::KeyEnded { key: key.hash, kept: !key.jobs.is_empty() }
            } else {
                Event::KeyKept { key: key.hash, until: at.saturating_add(KEY_KEPT_MS) }
            });
        }
        Timer::Dedup(slot) => draft.push(Event::DedupEnded { hash: state.dedups[slot].hash }),
        Timer::Request(slot) => draft.push(Event::RequestEnded { request: state.requests[slot].hash }),
        Timer::Guard(slot) => draft.push(Event::GuardEnded { key: state.guards[slot].record.key }),
        Timer::Task(task) => draft.push(Event::TaskForgotten { task: whole(task, state.last_number) }),
    }
    true
}

/// A circuit breaker that is to move does so; false when none is.
pub(crate) fn move_breaker(state: &State, at: u64, draft: &mut Draft) -> bool {
    let Some((of, to, ends_elapsed_at)) = state.breaker_to_move(at) else { return false };
    draft.push(Event::BreakerMoved { of, to, at, ends_elapsed_at });
    true
}

/// The oldest job of a queue is older than its retention, in flight or not.
fn retention_ended(state: &State, number: u32, at: u64, draft: &mut Draft) {
    let oldest = state.queue(number).by_age.first().and_then(|(_, seq)| state.slot_of_seq(*seq));
    let Some(slot) = oldest else { panic!("a queue with a retention to end has a job") };
    super::cancel::expired(state, slot, at, draft);
}

/// The oldest finished jobs of a queue go, of those that are more than it keeps.
fn forget_surplus(state: &State, number: u32, draft: &mut Draft) {
    let queue = state.queue(number);
    let surplus = usize::try_from(queue.finished.len() as u64 - queue.settings.kept_max()).unwrap_or(FORGOTTEN_MAX);
    let slots = queue.finished.values().take(surplus.min(FORGOTTEN_MAX));
    let seqs = slots.map(|slot| state.jobs[*slot].id.seq()).collect();
    draft.push(Event::Removed { seqs, why: Removal::Forgotten });
}

/// The finished jobs whose time is over first go, of those whose time is over at `at`, until their payloads come to
/// `bytes`.
pub(super) fn forget(state: &State, at: u64, bytes: u64, draft: &mut Draft) {
    let due = state.timers.keep.iter().take_while(|(due, _)| *due <= at).take(FORGOTTEN_MAX);
    let jobs = due.filter_map(|(_, timer)| match timer {
        Timer::Keep(slot) => Some(&state.jobs[*slot]),
        _ => None,
    });
    let mut before = 0;
    let jobs = jobs.take_while(|job| {
        let is_wanted = before < bytes;
        before += u64::from(job.payload().length);
        is_wanted
    });
    draft.push(Event::Removed { seqs: jobs.map(|job| job.id.seq()).collect(), why: Removal::Forgotten });
}

/// A waiting job whose idempotency key has completed is completed by what the key saved.
fn skip_one(state: &State, at: u64, key: Slot, draft: &mut Draft) {
    let Some(slot) = state.first_to_skip(&state.keys[key], NONE) else {
        panic!("a key to skip for has a waiting job");
    };
    let job = &state.jobs[slot];
    let queue = state.queue(job.queue);
    let keep_until = super::keep_until(queue, at);
    if keep_until.is_some() {
        super::evict(queue, state, draft);
    }
    let seq = job.id.seq();
    let key = state.parents.contains_key(&seq).then(|| state.keys[key].hash);
    draft.push(Event::Skipped { seq, at, keep_until, task: job.task(), key });
}

fn lease_ended(state: &State, moment: Moment, slot: Slot, draft: &mut Draft) {
    let at = moment.at;
    let job = &state.jobs[slot];
    let Some(lease) = job.lease() else { panic!("an in-flight job has a lease") };
    let is_timeout = lease.timeout_elapsed_at.is_some_and(|timeout| timeout <= state.elapsed(at));
    let failure = |kind: &str, message: &str| Failure {
        kind: kind.into(),
        message: message.into(),
        retryable: true,
        retry_after_ms: None,
    };
    if is_timeout && !lease.interrupted {
        let failure = failure("timeout", "the attempt ran longer than its timeout");
        state.fail(slot, at, &failure, LeaseState::Lapsed, moment.entropy, draft);
        return;
    }
    let failure = if lease.interrupted {
        failure("interrupted", "the visibility timeout passed while the server was down")
    } else {
        failure("visibility-timeout", "the visibility timeout passed without a settle")
    };
    let is_dead = if lease.interrupted { state.is_delivered_out(job) } else { state.is_spent(job) };
    let mut error = super::retry::entry(job, at, &failure);
    state.say_delivered_out(job, &mut error);
    if job.cancel_requested() {
        super::cancel::end(state, slot, at, JobState::Cancelled, LeaseState::Cancelled, &error, draft);
        return;
    }
    let span = draft.put_encoded(&error);
    let seq = job.id.seq();
    if is_dead && let Some(queue) = state.redrive_target(job) {
        state.hand_off(slot, at, HandOffTo { queue, id: job.id, error: Some(span) }, draft);
        return;
    }
    draft.push(if is_dead {
        killed(state, slot, at, &error, span)
    } else {
        Event::Lapsed { seq, at, error: span, interrupted: lease.interrupted }
    });
}

fn killed(state: &State, slot: Slot, at: u64, error: &ErrorEntry, span: crate::event::Span) -> Event {
    let job = &state.jobs[slot];
    Event::Died {
        seq: job.id.seq(),
        at,
        error: Some(span),
        death: state.death(job, error),
        lease: LeaseState::Killed,
        blocks_group: state.queue(job.queue).settings.on_dead == OnDead::Block,
        task: job.task(),
    }
}

impl State {
    /// A ready or delayed job that its completed key lets not run.
    pub(crate) fn is_to_skip(&self, slot: Slot) -> bool {
        use crate::state::flag;
        let job = &self.jobs[slot];
        matches!(job.state, JobState::Ready | JobState::Delayed)
            && !job.has(flag::IGNORE_KEY)
            && self.key_of(job).is_some_and(crate::state::Key::has_completed)
    }

    /// Keeps `to_skip` true after a job has left where it stood.
    pub(crate) fn tidy_skips(&mut self, slot: Slot) {
        let key = self.jobs[slot].key;
        if self.first_to_skip(&self.keys[key], slot).is_none() {
            self.to_skip.remove(&key);
        }
    }
}
