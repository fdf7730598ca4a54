//! A job as answers show it.

use core::cmp::Ordering;

use recado_mutants::{Mutant, active};

use crate::event::LeaseState;
use crate::id::Receipt;
use crate::query::Stats;
use crate::reply::{Delivered, HeldBack, JobView, Place, State as JobState};
use crate::state::presence::Presence;
use crate::state::slab::Slot;
use crate::state::standing::first_visible;
use crate::state::{Job, Queue, State, flag};

impl State {
    /// The job, at `now`.
    pub(crate) fn view(&self, slot: Slot, presence: Option<&Presence>, now: u64) -> JobView {
        let job = &self.jobs[slot];
        let queue = self.queue(job.queue);
        let lane = self.lane_name(job);
        let state = self.state_at(job, now);
        let due_at = if state == JobState::Delayed { self.due_at(job) } else { job.due_at };
        let ended = state.is_final() || state == JobState::Dead;
        let lease = job.lease().filter(|_| state == JobState::InFlight);
        JobView {
            id: job.id,
            queue: queue.name.clone(),
            kind: lane.kind.clone(),
            schema_version: lane.schema_version,
            state,
            priority: lane.priority,
            attempts: u32::from(job.attempts),
            deliveries: job.all_deliveries(),
            max_attempts: self.max_attempts(job),
            replays: u32::from(job.replays),
            run_at: due_at,
            held_back: self.held_back(slot, presence, now),
            payload: job.payload(),
            meta: job.meta(),
            errors: job.errors().to_vec(),
            result: self.result_of(job),
            progress: job.progress(),
            cancel_requested: job.cancel_requested(),
            visible_at: lease.map(|lease| self.wall(lease.ends_elapsed_at)),
            ended_at: ended.then(|| job.ended_at()),
            fingerprint: job.death().filter(|_| state == JobState::Dead).map(|death| death.fingerprint),
            first_received_at: Some(job.first_received_at()).filter(|at| *at > 0),
            parent: self.parent_of(job),
            children: self.children_view(job, false, now),
            handed_off_by: job.arrival().and_then(|arrival| Some(self.queues.get(&arrival.from)?.name.clone())),
        }
    }

    /// The state at `now`: a delayed job whose time has come is ready whether or not it was noticed yet.
    pub(crate) fn state_at(&self, job: &Job, now: u64) -> JobState {
        if job.state == JobState::Delayed && self.due_at(job) <= now { JobState::Ready } else { job.state }
    }

    /// When a delayed job is due, on the wall clock as it is now.
    fn due_at(&self, job: &Job) -> u64 {
        let (is_elapsed, at) = job.due_timer();
        if is_elapsed { self.wall(at) } else { at }
    }

    /// Its own result, or the one its idempotency key saved.
    pub(crate) fn result_of(&self, job: &Job) -> Option<Place> {
        if job.has(flag::SKIPPED) {
            return self.key_of(job)?.saved.as_ref()?.result;
        }
        job.result()
    }

    pub(crate) fn max_attempts(&self, job: &Job) -> u32 {
        let own = job.overrides().and_then(|own| own.max_attempts);
        own.unwrap_or(self.queue(job.queue).settings.max_attempts)
    }

    /// The delivery at hand.
    pub(crate) fn delivered(&self, slot: Slot, now: u64) -> Delivered {
        let job = &self.jobs[slot];
        let Some(lease) = job.lease().filter(|lease| lease.state == LeaseState::Held) else {
            panic!("a delivered job has a lease")
        };
        Delivered {
            job: JobView { children: self.children_view(job, true, now), ..self.view(slot, None, now) },
            receipt: Receipt {
                job: job.id,
                queue: job.queue,
                fence: lease.fence,
                received_at: lease.received_at,
                nonce: lease.nonce,
            },
            visible_at: self.wall(lease.ends_elapsed_at),
            timeout_at: lease.timeout_elapsed_at.map(|at| self.wall(at)),
            fencing_token: lease.fence,
        }
    }

    fn held_back(&self, slot: Slot, presence: Option<&Presence>, now: u64) -> Option<HeldBack> {
        let job = &self.jobs[slot];
        match job.state {
            JobState::Blocked if self.families.contains_key(&job.id.seq()) => return Some(HeldBack::ChildrenPending),
            JobState::Blocked => return Some(HeldBack::DedupKeyInFlight),
            JobState::Ready => {}
            _ => return None,
        }
        let queue = self.queue(job.queue);
        if let Some(hold) = self.hold(queue) {
            return Some(hold.reason);
        }
        if self.is_held_by_key(job) {
            return Some(HeldBack::IdempotencyKeyInFlight);
        }
        let group = &self.groups[job.group];
        let is_grouped = job.group != queue.no_group;
        if self.is_group_at_limit(job.group) {
            return Some(HeldBack::GroupInFlightLimit);
        }
        if self.is_group_spent(job.group) {
            return Some(HeldBack::GroupRateLimit);
        }
        if is_grouped && queue.settings.ordered {
            let gives = group.lanes.iter().find(|part| part.rank.is_some());
            let is_head = gives.is_some_and(|part| {
                part.lane == job.lane
                    && match first_visible(&group.holders, &self.jobs) {
                        Some(first) => first == slot,
                        None => group.holders.is_empty() && self.is_first_of_group(queue, job, slot),
                    }
            });
            if !is_head {
                return Some(HeldBack::GroupOrder);
            }
        }
        let lane = queue.lane(job.lane);
        match presence.map(|presence| presence.capable(job.queue, &lane.name.kind, lane.name.schema_version, now)) {
            Some((false, _)) => Some(HeldBack::NoWorker),
            Some((true, false)) => Some(HeldBack::NoCapableWorker),
            _ => None,
        }
    }

    fn is_first_of_group(&self, queue: &Queue, job: &Job, slot: Slot) -> bool {
        use crate::state::Spot;
        let ready = &queue.lane(job.lane).ready;
        let first = ready.range(Spot::first_of(job.group)..=Spot::last_of(job.group)).next();
        first.is_some_and(|(_, first)| *first == slot)
    }
}

impl State {
    /// Milliseconds between two completions of a queue, as measured; tells a refused producer when to come back.
    #[must_use]
    pub fn drain_interval_ms(&self, queue: &str) -> Option<u64> {
        self.queue(self.queue_number(queue)?).figures.drain_interval_ms()
    }
}

impl Queue {
    /// Why the queue itself hands out nothing; [`State::hold`] also asks its shared limits.
    pub(crate) fn held_back(&self) -> Option<HeldBack> {
        if self.record.paused || self.is_going {
            return Some(HeldBack::Paused);
        }
        let count = self.count(JobState::InFlight);
        let is_at_limit = |limit: u32| match count.cmp(&u64::from(limit)) {
            Ordering::Less => false,
            Ordering::Equal => !active(Mutant::InFlightOffByOne),
            Ordering::Greater => true,
        };
        if self.settings.max_in_flight.is_some_and(is_at_limit) {
            return Some(HeldBack::QueueInFlightLimit);
        }
        self.bucket.is_spent().then_some(HeldBack::QueueRateLimit)
    }
}

impl Stats {
    /// What `maxDepth` counts.
    #[must_use]
    pub fn depth(&self) -> u64 {
        self.ready + self.delayed + self.blocked + self.in_flight
    }
}
