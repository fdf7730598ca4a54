//! The retention of a queue: its unfinished jobs by age. Only queues that have one pay for the order.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::reply::State as JobState;
use crate::state::slab::Slot;
use crate::state::{Job, State, Timer};

impl State {
    /// Puts a job that begins to stand, or one that stops to, into or out of its queue's order by age.
    pub(super) fn change_age(&mut self, slot: Slot, stands: bool) {
        let job = &self.jobs[slot];
        let number = job.queue;
        if self.queue(number).settings.retention_ms.is_none() || !is_unfinished(job) {
            return;
        }
        let entry = (self.retained_since(job), job.id.seq());
        let before = self.queue(number).retention_ends_at();
        if stands {
            self.aging += usize::from(self.queue_mut(number).by_age.insert(entry));
        } else {
            self.aging -= usize::from(self.queue_mut(number).by_age.remove(&entry));
        }
        self.move_age_timer(number, before);
    }

    /// A job keeps its age when it is handed off, but in a FIFO queue it begins anew.
    pub(crate) fn retained_since(&self, job: &Job) -> u64 {
        let enqueued_at = job.id.enqueued_at();
        let is_fifo = self.queue(job.queue).settings.fifo.is_some();
        job.arrival().filter(|_| is_fifo).map_or(enqueued_at, |arrival| arrival.at)
    }

    pub(crate) fn move_age_timer(&mut self, number: u32, before: Option<u64>) {
        let after = self.queue(number).retention_ends_at();
        if before != after {
            before.into_iter().for_each(|at| self.timers.clear(false, at, Timer::Age(number)));
            after.into_iter().for_each(|at| self.timers.set(false, at, Timer::Age(number)));
        }
    }

    /// All of a queue's jobs anew, after its retention came or went.
    pub(crate) fn order_by_age(&mut self, number: u32) {
        let queue = self.queue(number);
        let in_lanes = queue.lanes().flat_map(|(_, lane)| lane.ready.values());
        let others = queue.aside.values().chain(queue.delayed.values()).chain(queue.in_flight.values());
        let jobs: Vec<Slot> = in_lanes.chain(others).copied().collect();
        let entry = |slot: &Slot| (self.retained_since(&self.jobs[*slot]), self.jobs[*slot].id.seq());
        let retains = queue.settings.retention_ms.is_some();
        let by_age: BTreeSet<(u64, u64)> = jobs.iter().filter(|_| retains).map(entry).collect();
        self.aging += by_age.len();
        let before = core::mem::replace(&mut self.queue_mut(number).by_age, by_age);
        self.aging -= before.len();
    }
}

pub(super) fn is_unfinished(job: &Job) -> bool {
    job.state.is_waiting() || job.state == JobState::InFlight
}
