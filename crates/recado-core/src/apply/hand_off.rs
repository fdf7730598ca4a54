//! A job goes to another queue.

use super::job::{forget_attempt, set_lease_state};
use super::queue::ensure_queue;
use super::{count, note_outcome};
use crate::event::{Arrival, HandOff, LeaseState};
use crate::figures::Count;
use crate::reply::State as JobState;
use crate::state::{Delivery, Slot, State, flag};

pub(super) fn handed_off(state: &mut State, position: u64, slot: Slot, it: &HandOff) {
    let from = state.jobs[slot].queue;
    ensure_queue(state, it.to);
    count(state, slot, Count::Forwarded, it.at);
    if it.error.is_some() {
        note_outcome(state, slot, it.at, true);
    }
    forget_attempt(state, slot);
    state.unstand(slot);
    state.release_group(slot);
    state.rehome_job(slot, it);
    let earlier_deliveries = state.jobs[slot].all_deliveries();
    let is_new = it.id.seq() != it.seq;
    if is_new {
        // A new job has no children.
        state.drop_family(it.seq);
    }
    let job = &mut state.jobs[slot];
    job.state = JobState::Ready;
    job.set_due(it.due_at, None);
    job.set(flag::AT_ONCE, true);
    (job.attempts, job.deliveries) = (0, 0);
    set_lease_state(job, LeaseState::Forwarded);
    if let Some(place) = it.error.map(|span| span.at(position)) {
        job.add_error(place);
    }
    let extra = job.extra();
    extra.death = None;
    if is_new {
        extra.delivery = Delivery::None;
        extra.first_received_at = 0;
        job.replays = 0;
    }
    let rare = job.make_rare();
    rare.earlier_deliveries = if is_new { 0 } else { earlier_deliveries };
    rare.arrival = (!is_new).then_some(Arrival { from, at: it.at });
    rare.cancel_requested = false;
    (rare.task, rare.behind, rare.released_dedup) = (None, None, None);
    count(state, slot, Count::Arrived, it.at);
    state.stand(slot);
}
