//! Shared limits: what queues that meet at one provider or pool may do together.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

use recado_mutants::{Mutant, active};

use crate::event::{BreakerOf, LimitRecord};
use crate::items::Link;
use crate::reply::{HeldBack, State as JobState};
use crate::state::rate::Bucket;
use crate::state::{Queue, State, Trials};

/// Shared limits of a server.
pub const LIMITS_MAX: usize = 1_000;

/// Shared limits that one queue may name.
pub const QUEUE_LIMITS_MAX: usize = 8;

/// One shared limit.
#[derive(Debug)]
pub(crate) struct Limit {
    pub(crate) record: LimitRecord,
    pub(crate) name: Arc<str>,
    pub(crate) link: Link,
    /// Numbers of the queues that name it.
    pub(crate) queues: BTreeSet<u32>,
    /// Their jobs in flight.
    pub(crate) in_flight: u64,
    pub(crate) bucket: Bucket,
    /// What its breaker counts.
    pub(crate) trials: Trials,
    /// Deliveries since this process began.
    pub(crate) deliveries: u64,
}

impl Limit {
    /// Its jobs in flight, or its tokens, let nothing out.
    fn is_spent(&self) -> bool {
        let is_at_limit = self.record.options.max_in_flight.is_some_and(|limit| self.in_flight >= u64::from(limit));
        is_at_limit || self.bucket.is_spent()
    }
}

/// Why nothing of a whole queue is handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) reason: HeldBack,
    /// Number of the shared limit that it is about.
    pub(crate) limit: Option<u32>,
}

impl State {
    /// Why nothing of the whole queue is handed out.
    pub(crate) fn hold(&self, queue: &Queue) -> Option<Hold> {
        let own = queue.held_back();
        let is_broken = own != Some(HeldBack::Paused)
            && queue.record.breaker.is_some_and(|it| self.breaks(BreakerOf::Queue(queue.record.number), it));
        if let Some(reason) = is_broken.then_some(HeldBack::BreakerOpen).or(own) {
            return Some(Hold { reason, limit: None });
        }
        // Most queues name no limit.
        let held = |number: &u32| Some(Hold { reason: self.hold_of_limit(*number)?, limit: Some(*number) });
        let holds = |number: &&u32| {
            !active(Mutant::SharedLimitHoldsOne) || self.limits[*number].queues.first() == Some(&queue.record.number)
        };
        queue.limits.iter().filter(holds).find_map(held)
    }

    /// Why nothing is handed out under a shared limit.
    pub(crate) fn hold_of_limit(&self, number: u32) -> Option<HeldBack> {
        let limit = self.limits.get(&number)?;
        if limit.record.breaker.is_some_and(|it| self.breaks(BreakerOf::Limit(number), it)) {
            return Some(HeldBack::BreakerOpen);
        }
        limit.is_spent().then_some(HeldBack::SharedLimit)
    }

    /// Queues that something under the limit may be handed out of again.
    pub(crate) fn wake_limit(&mut self, number: u32) {
        let Some(limit) = self.limits.get(&number) else { return };
        let has_ready = |queue: &&u32| self.queue(**queue).count(JobState::Ready) > 0;
        let queues: Vec<u32> = limit.queues.iter().filter(has_ready).copied().collect();
        queues.into_iter().for_each(|queue| self.wake(queue));
    }

    /// A job of the queue goes in flight.
    pub(super) fn enter_limits(&mut self, queue: u32) {
        for number in &*Arc::clone(&self.queue(queue).limits) {
            if let Some(limit) = self.limits.get_mut(number) {
                limit.in_flight += 1;
            }
        }
    }

    /// A job of the queue is in flight no more.
    pub(super) fn leave_limits(&mut self, queue: u32) {
        for number in &*Arc::clone(&self.queue(queue).limits) {
            let Some(limit) = self.limits.get_mut(number) else { continue };
            let was_spent = limit.is_spent();
            limit.in_flight -= 1;
            // It may have been the probe of a breaker.
            if was_spent && !limit.is_spent() || limit.record.breaker.is_some() {
                self.wake_limit(*number);
            }
        }
    }

    /// The queue counts under the limits that it names, as far as they are there.
    pub(crate) fn join_limits(&mut self, number: u32) {
        let queue = self.queue(number);
        let names = queue.settings.limits.iter();
        let after: Arc<[u32]> = names.filter_map(|name| self.limit_names.get(name).copied()).collect();
        if queue.limits == after {
            return;
        }
        let in_flight = queue.count(JobState::InFlight);
        let before = core::mem::replace(&mut self.queue_mut(number).limits, Arc::clone(&after));
        for limit in &*before {
            if let Some(limit) = self.limits.get_mut(limit)
                && limit.queues.remove(&number)
            {
                limit.in_flight -= in_flight;
            }
            self.wake_limit(*limit);
        }
        for limit in &*after {
            if let Some(limit) = self.limits.get_mut(limit)
                && limit.queues.insert(number)
            {
                limit.in_flight += in_flight;
            }
        }
        self.wake(number);
    }

    /// A queue without jobs goes.
    pub(crate) fn leave_all_limits(&mut self, queue: u32) {
        for limit in self.limits.values_mut() {
            limit.queues.remove(&queue);
        }
    }

    /// The queues that name a limit.
    pub(crate) fn queues_naming(&self, limit: &str) -> Vec<u32> {
        let names_it = |queue: &Queue| queue.settings.limits.iter().any(|name| &**name == limit);
        self.queues.values().filter(|queue| names_it(queue)).map(|queue| queue.record.number).collect()
    }
}
