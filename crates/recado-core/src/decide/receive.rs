//! Receive: which job is handed out next.

use alloc::boxed::Box;
use alloc::vec::Vec;

use recado_mutants::{Mutant, active};

use super::enqueue::find_or_create;
use super::hand_off::HandOffTo;
use super::{find_queue, mix};
use crate::command::{Moment, Receive, TypeRange};
use crate::draft::Draft;
use crate::event::{Event, Lease, LeaseState};
use crate::id::Hash;
use crate::options::Visibility;
use crate::rejection::Rejection;
use crate::reply::{HeldBack, Reply, State as JobState};
use crate::state::presence::accepts;
use crate::state::standing::first_visible;
use crate::state::{Hold, Queue, Slot, Spot, State, domain};

/// How long a receive with the same `attemptId` gets the same answer.
const ATTEMPT_KEPT_MS: u64 = 300_000;

/// Creates unknown queues, and picks one job; the answer names none: the caller reads the delivery after
/// the facts are applied.
pub(super) fn decide(state: &State, moment: Moment, receive: &Receive, draft: &mut Draft) -> Result<Reply, Rejection> {
    let created = create(state, receive, draft)?;
    if !created && let Some(slot) = choose(state, moment, receive, &sources(state, receive)?) {
        hand_out(state, moment, receive, slot, draft);
    }
    Ok(Reply::Received { created, jobs: Vec::new(), empty_because: None, limit: None, repeated: false })
}

/// Creates the first unknown queue; false when there is none.
pub(crate) fn create(state: &State, receive: &Receive, draft: &mut Draft) -> Result<bool, Rejection> {
    let unknown = receive.queues.iter().find(|(name, _)| !state.names.contains_key(name));
    unknown.map(|(name, _)| find_or_create(state, name, receive.create, draft)).transpose().map(|made| made.is_some())
}

/// Numbers of the queues with their weights.
pub(crate) fn sources(state: &State, receive: &Receive) -> Result<Vec<(u32, u32)>, Rejection> {
    let number = |(name, weight): &(Box<str>, u32)| Ok(((*weight).max(1), find_queue(state, name)?.record.number));
    receive.queues.iter().map(number).collect()
}

/// The job to hand out next, without handing it out.
pub(crate) fn choose(state: &State, moment: Moment, receive: &Receive, sources: &[(u32, u32)]) -> Option<Slot> {
    let types = receive.types.as_deref();
    let next = |number: u32| {
        let queue = state.queue(number);
        state.next_job(queue, types).map(|(spot, lane)| state.job_at(queue, spot, lane))
    };
    if receive.strict || sources.len() == 1 {
        return sources.iter().find_map(|(_, number)| next(*number));
    }
    let mut left = sources.to_vec();
    let mut step = 0;
    while !left.is_empty() {
        let (_, number) = left.remove(weighted(&left, mix(moment.entropy, step)));
        if let Some(slot) = next(number) {
            return Some(slot);
        }
        step += 1;
    }
    None
}

/// The next job of the group of `slot`, which was just handed out, for a receive that takes more of one group: none
/// that comes before it is out.
pub(crate) fn next_of_group(state: &State, slot: Slot) -> Option<Slot> {
    let job = &state.jobs[slot];
    let queue = state.queue(job.queue);
    if queue.settings.fifo.is_none()
        || job.group == queue.no_group
        || state.hold(queue).is_some()
        || state.is_group_at_limit(job.group)
        || state.is_group_spent(job.group)
    {
        return None;
    }
    let group = &state.groups[job.group];
    let place = |slot: &Slot| state.jobs[*slot].place();
    // A retry has another instant than the others. So what was handed out before comes before what was not, whatever
    // stands where.
    let held = group.holders.iter().copied().filter(|holder| place(holder) > job.place()).min_by_key(place);
    let next = match held {
        Some(holder) => Some(holder).filter(|holder| state.jobs[*holder].state == JobState::Ready),
        None => {
            let line = Spot::first_of(job.group)..=Spot::last_of(job.group);
            let lanes = group.lanes.iter().map(|part| &queue.lane(part.lane).ready);
            let heads = lanes.filter_map(|ready| ready.range(line.clone()).find(|(_, it)| !group.holders.contains(it)));
            heads.min_by_key(|(spot, _)| **spot).map(|(_, slot)| *slot)
        }
    };
    next.filter(|next| !state.is_held_by_key(&state.jobs[*next]))
}

fn weighted(left: &[(u32, u32)], entropy: u64) -> usize {
    let total: u64 = left.iter().map(|(weight, _)| u64::from(*weight)).sum();
    let mut at = ((u128::from(entropy) * u128::from(total)) >> 64) as u64;
    for (index, (weight, _)) in left.iter().enumerate() {
        match at.checked_sub(u64::from(*weight)) {
            Some(rest) => at = rest,
            None => return index,
        }
    }
    left.len() - 1
}

impl Queue {
    /// Group and lane of the next job that a worker with these types may have, if the queue hands out any.
    fn next_job(&self, types: Option<&[TypeRange]>) -> Option<(Spot, u16)> {
        let mut best: Option<(u8, u128, Spot, u16)> = None;
        for (priority, number) in &self.open_lanes {
            if best.is_some_and(|(best, ..)| best < *priority) {
                break;
            }
            let lane = self.lane(*number);
            if !accepts(types, &lane.name.kind, lane.name.schema_version) {
                continue;
            }
            let Some((rank, group)) = lane.ring.first() else { continue };
            let Some((head, _)) = lane.ready.range(Spot::first_of(*group)..=Spot::last_of(*group)).next() else {
                panic!("a group in a ring has a ready job");
            };
            let found = (*priority, *rank, *head, *number);
            if best.is_none_or(|best| (found.0, found.1, found.2.order()) < (best.0, best.1, best.2.order())) {
                best = Some(found);
            }
        }
        best.map(|(_, _, spot, lane)| (spot, lane))
    }

    /// Why no job is handed out though the queue would.
    fn empty_because(&self) -> Option<HeldBack> {
        let reasons = [
            (!self.open_lanes.is_empty(), HeldBack::NoCapableWorker),
            (self.held_by_group_limit > 0, HeldBack::GroupInFlightLimit),
            (self.held_by_group_rate > 0, HeldBack::GroupRateLimit),
            (self.held_by_group_order > 0, HeldBack::GroupOrder),
            (self.held_by_key > 0, HeldBack::IdempotencyKeyInFlight),
        ];
        reasons.into_iter().find(|(holds, _)| *holds).map(|(_, reason)| reason)
    }
}

impl State {
    /// Group and lane of the next job of a queue that a worker with these types may have.
    fn next_job(&self, queue: &Queue, types: Option<&[TypeRange]>) -> Option<(Spot, u16)> {
        if self.hold(queue).is_some() { None } else { queue.next_job(types) }
    }

    /// Why nothing is handed out though jobs are waiting.
    pub(crate) fn empty_because(&self, queue: &Queue) -> Option<Hold> {
        let of = |reason: HeldBack| Hold { reason, limit: None };
        if queue.count(JobState::Ready) == 0 {
            let why = if queue.parents > 0 { HeldBack::ChildrenPending } else { HeldBack::DedupKeyInFlight };
            return (queue.count(JobState::Blocked) > 0).then_some(of(why));
        }
        self.hold(queue).or_else(|| queue.empty_because().map(of))
    }

    /// The job at a place; an ordered group gives its holder first, whatever stands before it.
    pub(crate) fn job_at(&self, queue: &Queue, spot: Spot, lane: u16) -> Slot {
        let group = &self.groups[spot.group()];
        let orders = queue.settings.ordered && spot.group() != queue.no_group;
        if orders && let Some(holder) = first_visible(&group.holders, &self.jobs) {
            return holder;
        }
        match queue.lane(lane).ready.get(&spot) {
            Some(slot) => *slot,
            None => panic!("a place in line has a job"),
        }
    }

    /// Whether this receive would be given a job now.
    #[must_use]
    pub fn could_receive(&self, receive: &Receive) -> bool {
        let types = receive.types.as_deref();
        let queues = receive.queues.iter().filter_map(|(name, _)| self.names.get(name));
        queues.map(|number| self.queue(*number)).any(|queue| self.next_job(queue, types).is_some())
    }

    /// The hash of a receive's `attemptId`.
    pub(crate) fn attempt_hash(&self, receive: &Receive) -> Option<Hash> {
        let id = receive.attempt_id.as_ref()?;
        let (name, _) = receive.queues.first()?;
        let number = self.names.get(name)?;
        Some(self.hash(domain::ATTEMPT, *number, id))
    }

    /// How long a delivery of this job is hidden, in milliseconds.
    pub(crate) fn visibility_ms(&self, slot: Slot, asked_ms: Option<u64>) -> u64 {
        let job = &self.jobs[slot];
        let own = job.overrides().and_then(|own| own.visibility);
        let chosen = || {
            let queue = self.queue(job.queue);
            match own.unwrap_or(queue.settings.visibility) {
                Visibility::Fixed(ms) => ms,
                Visibility::Auto => queue.figures.timings[queue.lane(job.lane).timing].auto_ms(),
            }
        };
        asked_ms.unwrap_or_else(chosen)
    }
}

/// Hands a chosen job out, ends it when its time is over, or hands it off when it was received too often.
pub(crate) fn hand_out(state: &State, moment: Moment, receive: &Receive, slot: Slot, draft: &mut Draft) {
    let job = &state.jobs[slot];
    if job.expires_at().is_some_and(|at| at <= moment.at) {
        super::cancel::expired(state, slot, moment.at, draft);
        return;
    }
    if let Some(target) = state.redrive_due(job) {
        state.hand_off(slot, moment.at, HandOffTo { queue: target, id: job.id, error: None }, draft);
        return;
    }
    let elapsed_at = state.elapsed(moment.at);
    let visibility_ms = state.visibility_ms(slot, receive.visibility_ms);
    let own = job.overrides().and_then(|own| own.timeout_ms);
    let queue = state.queue(job.queue);
    let timeout_ms = own.or(queue.settings.timeout_ms);
    let timeout_elapsed_at = timeout_ms.map(|ms| elapsed_at.saturating_add(ms));
    let ends_elapsed_at = match job.lease() {
        Some(old) if active(Mutant::ExpiredLeaseHandedOut) && old.state == LeaseState::Lapsed => old.ends_elapsed_at,
        _ => elapsed_at.saturating_add(visibility_ms),
    };
    draft.push(Event::Received {
        seq: job.id.seq(),
        lease: Box::new(Lease {
            nonce: mix(moment.entropy, job.id.seq()),
            fence: state.fence + 1,
            received_at: moment.at,
            ends_elapsed_at: timeout_elapsed_at.map_or(ends_elapsed_at, |t| t.min(ends_elapsed_at)),
            timeout_elapsed_at,
            visibility_ms,
            worker: receive.worker.clone(),
            attempt: state.attempt_hash(receive),
            state: LeaseState::Held,
            interrupted: false,
            outcome: None,
        }),
        key: state.key_of(job).map(|key| key.hash),
        holds_group: queue.settings.ordered && job.group != queue.no_group,
    });
}

/// The jobs of an earlier receive with the same `attemptId`, if they can still be answered.
pub(crate) fn repeated(state: &State, moment: Moment, receive: &Receive) -> Option<Vec<Slot>> {
    let attempt = state.attempts.get(&state.attempt_hash(receive)?)?;
    if moment.at >= attempt.received_at.saturating_add(ATTEMPT_KEPT_MS) || active(Mutant::AttemptForgotten) {
        return None;
    }
    let slots: Option<Vec<Slot>> = attempt.jobs.iter().map(|id| state.slot_of(*id)).collect();
    slots.filter(|slots| slots.iter().all(|slot| state.jobs[*slot].state == JobState::InFlight))
}

/// Renews the timeout of a delivery that is answered again.
pub(crate) fn renew(state: &State, moment: Moment, receive: &Receive, slot: Slot, draft: &mut Draft) {
    let Some(lease) = state.jobs[slot].lease() else { return };
    let visibility_ms = state.visibility_ms(slot, receive.visibility_ms);
    let ends_elapsed_at = state.elapsed(moment.at).saturating_add(visibility_ms);
    let ends_elapsed_at = lease.timeout_elapsed_at.map_or(ends_elapsed_at, |t| t.min(ends_elapsed_at));
    draft.push(Event::Renewed { seq: state.jobs[slot].id.seq(), ends_elapsed_at });
}
