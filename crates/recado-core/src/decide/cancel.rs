//! Cancel and change jobs.

use alloc::format;
use alloc::vec::Vec;

use super::retry::entry;
use super::{evict, keep_until};
use crate::command::{Failure, Moment, Patch, When};
use crate::draft::Draft;
use crate::event::{Event, LeaseState};
use crate::id::JobId;
use crate::meta::ErrorEntry;
use crate::rejection::Rejection;
use crate::reply::{Cancelled, Reply, State as JobState};
use crate::state::members::Members;
use crate::state::{LANES_MAX, NONE, Slot, State, domain};

/// Jobs of a business object that one command cancels; who wants all of them gone asks again until fewer
/// are answered.
pub const CANCELLED_MAX: usize = 1_000;

/// Ids of jobs about a business object that a cancel would change, newest first.
pub(crate) fn ids_of(state: &State, business_id: &str) -> Vec<JobId> {
    let hash = state.hash(domain::BUSINESS, 0, business_id);
    let Some(business) = state.businesses.find(hash.0) else { return Vec::new() };
    let ids = |slot: &Slot| state.jobs[*slot].id;
    match &state.businesses[business].jobs {
        Members::None => Vec::new(),
        Members::One(slot) => {
            Some(slot).filter(|slot| state.jobs[**slot].can_be_cancelled()).map(ids).into_iter().collect()
        }
        Members::Many(crowd) => crowd.lines.0.values().rev().map(ids).take(CANCELLED_MAX).collect(),
    }
}

pub(crate) fn cancel(state: &State, at: u64, id: JobId, reason: Option<&str>, draft: &mut Draft) -> Cancelled {
    let Some(slot) = state.slot_of(id) else { return Cancelled::Gone(id) };
    let job = &state.jobs[slot];
    match job.state {
        JobState::Ready | JobState::Delayed | JobState::Blocked => {
            cancelled(state, slot, at, LeaseState::Cancelled, reason.unwrap_or("cancelled while it waited"), draft);
            Cancelled::Done(id)
        }
        JobState::InFlight => {
            if !job.cancel_requested() {
                draft.push(Event::CancelRequested { seq: id.seq() });
            }
            Cancelled::Requested(id)
        }
        JobState::Cancelled => Cancelled::Done(id),
        ended @ (JobState::Completed | JobState::Dead | JobState::Expired) => Cancelled::Refused(id, ended),
    }
}

/// A job is cancelled. `lease` is what its last delivery ended as: a settle can be repeated.
pub(super) fn cancelled(state: &State, slot: Slot, at: u64, lease: LeaseState, why: &str, draft: &mut Draft) {
    let error = entry(&state.jobs[slot], at, &final_failure("cancelled", why));
    end(state, slot, at, JobState::Cancelled, lease, &error, draft);
}

/// A job was not received within its time, or not done within the retention of its queue.
pub(super) fn expired(state: &State, slot: Slot, at: u64, draft: &mut Draft) {
    let retention = state.queue(state.jobs[slot].queue).settings.retention_ms;
    let is_old = retention.is_some_and(|ms| state.retained_since(&state.jobs[slot]).saturating_add(ms) <= at);
    let why = if is_old { "older than the retention of its queue" } else { "not received within expiresAfter" };
    let error = entry(&state.jobs[slot], at, &final_failure("expired", why));
    end(state, slot, at, JobState::Expired, LeaseState::Cancelled, &error, draft);
}

fn final_failure(kind: &str, message: &str) -> Failure {
    Failure { kind: kind.into(), message: message.into(), ..Failure::default() }
}

/// A job is cancelled or has expired, for what `error` says.
pub(super) fn end(
    state: &State,
    slot: Slot,
    at: u64,
    how: JobState,
    lease: LeaseState,
    error: &ErrorEntry,
    draft: &mut Draft,
) {
    let job = &state.jobs[slot];
    let queue = state.queue(job.queue);
    let keep_until = keep_until(queue, at);
    if keep_until.is_some() {
        evict(queue, state, draft);
    }
    let error = Some(draft.put_encoded(error));
    draft.push(Event::Ended { seq: job.id.seq(), at, state: how, keep_until, error, lease });
}

pub(super) fn patch(state: &State, moment: Moment, patch: &Patch, draft: &mut Draft) -> Result<Reply, Rejection> {
    let slot = state.slot_of(patch.job).ok_or(Rejection::JobGone(patch.job))?;
    let job = &state.jobs[slot];
    let now = state.state_at(job, moment.at);
    if !now.is_waiting() {
        return Err(Rejection::JobNotWaiting { id: job.id, state: now });
    }
    let queue = state.queue(job.queue);
    let lane = queue.lane(job.lane);
    let priority = patch.priority.unwrap_or(lane.name.priority);
    if queue.settings.ordered && priority != 0 {
        let message = format!("queue `{}` is ordered by group; leave priority out", queue.name);
        return Err(Rejection::Invalid { index: 0, pointer: "/priority".into(), message });
    }
    let is_known = queue.find_lane((&lane.name.kind, lane.name.schema_version, priority)).is_ok();
    if !is_known && queue.lane_count() >= LANES_MAX {
        let (limit, actual) = (LANES_MAX as u64, LANES_MAX as u64 + 1);
        return Err(Rejection::QueueFull { queue: (*queue.name).into(), reason: "lanes", limit, actual });
    }
    if let Some(payload) = &patch.payload
        && payload.len() as u64 > queue.settings.payload_max_bytes
    {
        let (limit, actual) = (queue.settings.payload_max_bytes, payload.len() as u64);
        return Err(Rejection::PayloadTooLarge {
            queue: (*queue.name).into(),
            index: 0,
            pointer: "/payload".into(),
            limit,
            actual,
        });
    }
    let due_at = patch.when.map(|when| match when {
        When::Now => moment.at,
        When::After(ms) => moment.at.saturating_add(ms),
        When::At(at) => at.max(moment.at),
    });
    let hash = |payload: &Vec<u8>| state.secret.hash(domain::PAYLOAD, u64::from(job.queue), &[payload]);
    let span = patch.payload.as_ref().map(|payload| draft.put(payload));
    draft.push(Event::Patched {
        seq: job.id.seq(),
        priority,
        due_at,
        payload: span,
        payload_hash: patch.payload.as_ref().filter(|_| job.dedup != NONE).map(hash),
    });
    Ok(Reply::Done)
}
