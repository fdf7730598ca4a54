//! Where a job stands: [`State::stand`] puts it where its fields say, [`State::unstand`] takes it out.
//! Every change of a job's fields happens between the two.
//!
//! A ready job stands in one lane, ordered by group, due instant and sequence number. A lane's *ring*
//! holds the groups that may give a job now, by rank: the group's turn in fair queues, its head's place
//! otherwise. A group that is at its limit, or that a job of an ordered queue holds, is in no ring.
//! Who waits for an idempotency key stands aside; see [`crate::state::held`].

use core::cmp::Reverse;

use crate::reply::State as JobState;
use crate::state::queue::{GroupHold, GroupLane, Spot};
use crate::state::rate::is_spent;
use crate::state::slab::{NONE, Slot, Table};
use crate::state::{Job, State, Timer, flag};

impl State {
    /// Puts a job where its fields say.
    pub(crate) fn stand(&mut self, slot: Slot) {
        self.moves += 1;
        self.weigh_job(slot);
        let job = &self.jobs[slot];
        if job.business != NONE {
            self.businesses[job.business].jobs.stand(slot, job);
        }
        if job.key != NONE {
            self.keys[job.key].jobs.stand(slot, job);
        }
        let (number, seq, state) = (job.queue, job.id.seq(), job.state);
        match state {
            JobState::Ready => self.stand_ready(slot),
            JobState::Delayed => {
                let (due_at, (is_elapsed, timer_at)) = (job.due_at, job.due_timer());
                self.timers.set(is_elapsed, timer_at, Timer::Due(slot));
                self.queue_mut(number).delayed.insert(Spot::new(0, due_at, seq), slot);
            }
            JobState::Blocked => {
                let spot = Spot::new(job.group, job.due_at, seq);
                self.queue_mut(number).aside.insert(spot, slot);
                self.note_parent(number, seq, true);
            }
            JobState::InFlight => self.stand_in_flight(slot),
            JobState::Dead => self.stand_dead(slot),
            JobState::Completed | JobState::Cancelled | JobState::Expired => {
                let (ended_at, keep_until) = (job.ended_at(), job.keep_until());
                self.timers.set(false, keep_until, Timer::Keep(slot));
                self.queue_mut(number).finished.insert(Spot::new(0, ended_at, seq), slot);
                self.note_finished(number);
            }
        }
        if state.is_waiting()
            && let Some(expires_at) = self.jobs[slot].expires_at()
        {
            self.timers.set(false, expires_at, Timer::Expiry(slot));
        }
        if self.is_to_skip(slot) {
            self.to_skip.insert(self.jobs[slot].key);
        }
        self.queue_mut(number).counts[state as usize] += 1;
        self.change_age(slot, true);
        let group = self.jobs[slot].group;
        if self.groups[group].holders.contains(&slot) {
            // Whether the group gives depends on where its holder stands.
            self.refresh(group);
        }
    }

    /// Takes a job out of where it stands.
    pub(crate) fn unstand(&mut self, slot: Slot) {
        self.moves += 1;
        self.unweigh_job(slot);
        let job = &self.jobs[slot];
        if job.business != NONE {
            self.businesses[job.business].jobs.unstand(job);
        }
        if job.key != NONE {
            self.keys[job.key].jobs.unstand(job);
        }
        let (number, seq, state) = (job.queue, job.id.seq(), job.state);
        match state {
            JobState::Ready => self.unstand_ready(slot),
            JobState::Delayed => {
                let (due_at, (is_elapsed, timer_at)) = (job.due_at, job.due_timer());
                self.timers.clear(is_elapsed, timer_at, Timer::Due(slot));
                self.queue_mut(number).delayed.remove(&Spot::new(0, due_at, seq));
            }
            JobState::Blocked => {
                let spot = Spot::new(job.group, job.due_at, seq);
                self.queue_mut(number).aside.remove(&spot);
                self.note_parent(number, seq, false);
            }
            JobState::InFlight => self.unstand_in_flight(slot),
            JobState::Dead => self.unstand_dead(slot),
            JobState::Completed | JobState::Cancelled | JobState::Expired => {
                let (ended_at, keep_until) = (job.ended_at(), job.keep_until());
                self.timers.clear(false, keep_until, Timer::Keep(slot));
                self.queue_mut(number).finished.remove(&Spot::new(0, ended_at, seq));
                self.note_finished(number);
            }
        }
        if state.is_waiting()
            && let Some(expires_at) = self.jobs[slot].expires_at()
        {
            self.timers.clear(false, expires_at, Timer::Expiry(slot));
        }
        if self.is_to_skip(slot) {
            self.tidy_skips(slot);
        }
        self.queue_mut(number).counts[state as usize] -= 1;
        self.change_age(slot, false);
    }

    pub(super) fn count_ready(&mut self, group: Slot, lane: u16, by: i32) {
        let lanes = &mut self.groups[group].lanes;
        match lanes.iter_mut().find(|part| part.lane == lane) {
            Some(part) => part.ready = part.ready.saturating_add_signed(by),
            None => lanes.push(GroupLane { lane, ready: by.unsigned_abs(), rank: None }),
        }
    }

    /// Whether a job that came to stand at `spot` leaves what its group gives as it was: it is behind another one
    /// that the group gives anyhow.
    pub(super) fn changes_nothing(&self, group: Slot, lane: u16, spot: Spot) -> bool {
        let group = &self.groups[group];
        let rank = group.lanes.iter().find(|part| part.lane == lane).and_then(|part| part.rank);
        let is_behind = |rank| self.queue(group.queue).settings.fair || rank < spot.order();
        group.held.0 == GroupHold::Nothing && rank.is_some_and(is_behind)
    }

    /// As [`State::refresh`], after one more or one less of a group's jobs is in flight, or its turn was taken.
    fn refresh_in_flight(&mut self, slot: Slot) {
        let queue = self.queue(self.groups[slot].queue);
        let rules = &queue.settings;
        let is_limited = rules.ordered || rules.group_max_in_flight.is_some() || rules.group_rate.is_some();
        if queue.settings.fair || is_limited && slot != queue.no_group {
            self.refresh(slot);
        }
    }

    fn stand_in_flight(&mut self, slot: Slot) {
        let job = &self.jobs[slot];
        let (number, group, key, seq, id) = (job.queue, job.group, job.key, job.id.seq(), job.id);
        let Some(lease) = job.lease() else { panic!("an in-flight job has a lease") };
        let ends_elapsed_at = lease.timeout_elapsed_at.map_or(lease.ends_elapsed_at, |t| t.min(lease.ends_elapsed_at));
        let (received_at, fence) = (lease.received_at, lease.fence);
        let mark = job.cancel_requested().then(|| lease.worker.as_deref().map(|worker| self.worker_hash(worker)));
        self.timers.set(true, ends_elapsed_at, Timer::Lease(slot));
        self.in_flight += 1;
        if let Some(Some(worker)) = mark {
            self.cancel_marks.insert((worker, id));
        }
        let Self { jobs, queues, .. } = self;
        let Some(queue) = queues.get_mut(&number) else { panic!("queue {number} is not there") };
        queue.in_flight.insert(Spot::new(0, received_at, seq), slot);
        let worker = jobs[slot].worker();
        match queue.workers.get_mut(worker) {
            Some(jobs) => *jobs += 1,
            None => drop(queue.workers.insert(worker.into(), 1)),
        }
        if !queue.limits.is_empty() {
            self.enter_limits(number);
        }
        self.groups[group].in_flight += 1;
        self.refresh_in_flight(group);
        if key != NONE {
            self.change_key(key, |key| {
                key.in_flight = slot;
                key.fence = key.fence.max(fence);
            });
        }
    }

    fn unstand_in_flight(&mut self, slot: Slot) {
        let job = &self.jobs[slot];
        let (number, group, key, seq, id) = (job.queue, job.group, job.key, job.id.seq(), job.id);
        let Some(lease) = job.lease() else { panic!("an in-flight job has a lease") };
        let ends_elapsed_at = lease.timeout_elapsed_at.map_or(lease.ends_elapsed_at, |t| t.min(lease.ends_elapsed_at));
        let received_at = lease.received_at;
        if job.cancel_requested()
            && let Some(worker) = lease.worker.as_deref()
        {
            let mark = (self.worker_hash(worker), id);
            self.cancel_marks.remove(&mark);
        }
        self.timers.clear(true, ends_elapsed_at, Timer::Lease(slot));
        self.in_flight -= 1;
        let Self { jobs, queues, .. } = self;
        let Some(queue) = queues.get_mut(&number) else { panic!("queue {number} is not there") };
        queue.in_flight.remove(&Spot::new(0, received_at, seq));
        let worker = jobs[slot].worker();
        if let Some(jobs) = queue.workers.get_mut(worker) {
            *jobs -= 1;
            if *jobs == 0 {
                queue.workers.remove(worker);
            }
        }
        if !queue.limits.is_empty() {
            self.leave_limits(number);
        }
        self.groups[group].in_flight -= 1;
        self.refresh_in_flight(group);
        self.wake(number);
        if key != NONE {
            self.change_key(key, |key| key.in_flight = NONE);
        }
    }

    fn stand_dead(&mut self, slot: Slot) {
        let job = &self.jobs[slot];
        let (number, lane, died_at, seq) = (job.queue, job.lane, job.ended_at(), job.id.seq());
        let Some(fingerprint) = job.death().map(|death| death.fingerprint) else { panic!("a dead job has a death") };
        let queue = self.queue_mut(number);
        queue.dead.insert(Spot::new(0, died_at, seq), slot);
        let kind = queue.lane(lane).name.kind.clone();
        let group = queue.fingerprints.entry(fingerprint);
        let group = group.or_insert_with(|| crate::state::Fingerprint { kind, jobs: Default::default() });
        queue.fingerprints_by_size.remove(&(Reverse(group.jobs.len()), fingerprint));
        group.jobs.insert((died_at, slot));
        queue.fingerprints_by_size.insert((Reverse(group.jobs.len()), fingerprint));
        if let Some(note) = self.notes.find(note_key(number, fingerprint)) {
            self.stale_notes.remove(&note);
        }
    }

    fn unstand_dead(&mut self, slot: Slot) {
        let job = &self.jobs[slot];
        let (number, died_at, seq) = (job.queue, job.ended_at(), job.id.seq());
        let Some(fingerprint) = job.death().map(|death| death.fingerprint) else { panic!("a dead job has a death") };
        let queue = self.queue_mut(number);
        queue.dead.remove(&Spot::new(0, died_at, seq));
        let Some(group) = queue.fingerprints.get_mut(&fingerprint) else { panic!("a dead job is in its group") };
        queue.fingerprints_by_size.remove(&(Reverse(group.jobs.len()), fingerprint));
        group.jobs.remove(&(died_at, slot));
        if !group.jobs.is_empty() {
            queue.fingerprints_by_size.insert((Reverse(group.jobs.len()), fingerprint));
        } else {
            queue.fingerprints.remove(&fingerprint);
            if let Some(note) = self.notes.find(note_key(number, fingerprint)) {
                self.stale_notes.insert(note);
            }
        }
    }

    /// Whether the in-flight limit of a group's queue holds the group back.
    pub(crate) fn is_group_at_limit(&self, slot: Slot) -> bool {
        let group = &self.groups[slot];
        let queue = self.queue(group.queue);
        slot != queue.no_group && queue.settings.group_max_in_flight.is_some_and(|limit| group.in_flight >= limit)
    }

    /// Ends the hold of a job on its ordered group.
    pub(crate) fn release_group(&mut self, slot: Slot) {
        let group = self.jobs[slot].group;
        let holders = &mut self.groups[group].holders;
        if let Some(at) = holders.iter().position(|holder| *holder == slot) {
            holders.swap_remove(at);
            self.refresh(group);
            self.wake(self.jobs[slot].queue);
        }
    }

    /// A job holds its ordered group, beside those that do already.
    pub(crate) fn hold_group(&mut self, slot: Slot) {
        let holders = &mut self.groups[self.jobs[slot].group].holders;
        if !holders.contains(&slot) {
            holders.push(slot);
        }
    }

    /// Takes the group's turn: it goes behind all others, as of the next [`State::refresh`].
    pub(crate) fn take_turn(&mut self, group: Slot) {
        let queue = self.queue_mut(self.groups[group].queue);
        queue.next_turn += 1;
        let turn = queue.next_turn;
        self.groups[group].turn = turn;
    }

    /// Puts a group into the rings it belongs into, after anything about it has changed.
    pub(crate) fn refresh(&mut self, slot: Slot) {
        let number = self.groups[slot].queue;
        let Some(queue) = self.queues.get_mut(&number) else { panic!("queue {number} is not there") };
        let group = &mut self.groups[slot];
        let orders = queue.settings.ordered && slot != queue.no_group;
        let limit = if slot == queue.no_group { None } else { queue.settings.group_max_in_flight };
        let is_at_limit = limit.is_some_and(|limit| group.in_flight >= limit);
        let is_spent = queue.settings.group_rate.is_some()
            && slot != queue.no_group
            && is_spent(queue, &self.group_rates, group.hash);
        let ready = group.ready();
        if ready > 0 && group.lanes.iter().all(|part| part.rank.is_none()) {
            // A group that (re)enters goes behind those that wait already.
            queue.next_turn += 1;
            group.turn = queue.next_turn;
        }
        let keys = &self.keys;
        let is_held = |job: &Job| job.key != NONE && keys[job.key].holds(job.has(flag::IGNORE_KEY));
        // An ordered group gives one job: its first holder if that is visible again, else its head unless one is
        // out. In a FIFO queue others, behind it, may still be out.
        let is_free = group.in_flight == 0 || queue.settings.fifo.is_some();
        let only = orders.then(|| {
            if !group.holders.is_empty() {
                let holder = &self.jobs[first_visible(&group.holders, &self.jobs)?];
                let gives = !is_held(holder) && is_free;
                return gives.then(|| (holder.lane, Spot::new(slot, holder.due_at, holder.id.seq())));
            }
            let heads = group.lanes.iter().filter_map(|part| {
                let mut range = queue.lane(part.lane).ready.range(Spot::first_of(slot)..=Spot::last_of(slot));
                range.next().map(|(spot, job)| (*spot, part.lane, *job))
            });
            let (spot, lane, job) = heads.min()?;
            (is_free && !is_held(&self.jobs[job])).then_some((lane, spot))
        });
        let fair = queue.settings.fair;
        let mut gives_more = false;
        for part in &mut group.lanes {
            let gives = !is_at_limit
                && !is_spent
                && part.ready > 0
                && only.is_none_or(|only| only.is_some_and(|(lane, _)| lane == part.lane));
            let rank = gives.then(|| match (fair, only.flatten()) {
                (true, _) => Some(u128::from(group.turn)),
                (false, Some((_, spot))) => Some(spot.order()),
                (false, None) => {
                    let ready = &queue.lane(part.lane).ready;
                    let head = ready.range(Spot::first_of(slot)..=Spot::last_of(slot)).next();
                    head.map(|(spot, _)| spot.order())
                }
            });
            let rank = rank.flatten();
            if rank != part.rank {
                let before = part.rank.take();
                part.rank = rank;
                gives_more |= rank.is_some();
                queue.move_in_ring(part.lane, slot, before, rank);
            }
        }
        group.lanes.retain(|part| part.ready > 0);
        let held = match &only {
            _ if is_at_limit => (GroupHold::Limit, ready),
            _ if is_spent => (GroupHold::Rate, ready),
            Some(None) => (GroupHold::Order, ready),
            Some(Some(_)) => (GroupHold::Order, ready.saturating_sub(1)),
            None => (GroupHold::Nothing, 0),
        };
        let before = core::mem::replace(&mut group.held, held);
        queue.count_group_hold(before, held);
        // Whatever let the group give a job: its new head may be one that somebody waits for.
        if gives_more {
            self.wake(number);
        }
    }
}

impl crate::state::Queue {
    fn move_in_ring(&mut self, number: u16, group: Slot, before: Option<u128>, after: Option<u128>) {
        let lane = self.lane_mut(number);
        if let Some(rank) = before {
            lane.ring.remove(&(rank, group));
        }
        if let Some(rank) = after {
            lane.ring.insert((rank, group));
        }
        let (is_open, priority) = (!lane.ring.is_empty(), u8::MAX - lane.name.priority);
        if is_open {
            self.open_lanes.insert((priority, number));
        } else {
            self.open_lanes.remove(&(priority, number));
        }
    }

    fn count_group_hold(&mut self, before: (GroupHold, u32), after: (GroupHold, u32)) {
        for ((hold, jobs), adds) in [(before, false), (after, true)] {
            let count = match hold {
                GroupHold::Nothing => continue,
                GroupHold::Limit => &mut self.held_by_group_limit,
                GroupHold::Order => &mut self.held_by_group_order,
                GroupHold::Rate => &mut self.held_by_group_rate,
            };
            *count = if adds { *count + u64::from(jobs) } else { *count - u64::from(jobs) };
        }
    }
}

/// The first of the jobs that hold a group, if it can be received again.
pub(crate) fn first_visible(holders: &[Slot], jobs: &Table<Job>) -> Option<Slot> {
    let first = holders.iter().copied().min_by_key(|slot| jobs[*slot].place())?;
    (jobs[first].state == JobState::Ready).then_some(first)
}

/// The key of a note in its table.
pub(crate) fn note_key(queue: u32, fingerprint: u64) -> u128 {
    u128::from(queue) << 64 | u128::from(fingerprint)
}
