//! Rate limits: buckets of tokens, one for each delivery, refilled evenly on elapsed time.
//!
//! That a token is there again is no fact: it follows from the time, and [`State::advance`] notices it at that
//! instant, not before. A bucket begins full with its limit and empty with a service, whatever it was before: what
//! was handed out in the moment before a power loss may be forgotten. Buckets of groups are known only while they
//! are not full, by the name of the group, which may come and go meanwhile.

use alloc::sync::Arc;
use alloc::vec::Vec;

use recado_mutants::{Mutant, active};

use crate::id::Hash;
use crate::options::RateLimit;
use crate::state::slab::{Keyed, Slot, Table};
use crate::state::{Queue, State, Timer};

const NS_PER_MS: u128 = 1_000_000;

/// Tokens, as the instant at which all of them are there again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bucket {
    /// It is full from then on, in nanoseconds of elapsed time.
    full_at_ns: u128,
    /// A token was last taken then.
    taken_at: u64,
    /// No token is there before this instant, and it was not noticed to have passed.
    spent_until: Option<u64>,
}

impl RateLimit {
    /// Time between two tokens.
    fn interval_ns(self) -> u128 {
        (u128::from(self.per_ms) * NS_PER_MS).div_ceil(u128::from(self.jobs.max(1)))
    }

    /// Time that an empty bucket needs.
    fn fill_ns(self) -> u128 {
        self.interval_ns() * u128::from(self.burst)
    }
}

impl Bucket {
    pub(crate) fn is_spent(&self) -> bool {
        self.spent_until.is_some()
    }

    fn take(&mut self, rate: RateLimit, at: u64) {
        let now = u128::from(at) * NS_PER_MS;
        // A token that came within this millisecond was taken as soon as it could be: the next one is not later for that.
        let is_prompt = now < self.full_at_ns + NS_PER_MS;
        self.full_at_ns = if is_prompt { self.full_at_ns } else { now } + rate.interval_ns();
        self.taken_at = at;
        let next = self.next_token_at(rate);
        self.spent_until = (next > at).then_some(next);
    }

    /// The instant has come at which there is one again.
    fn has_token(&mut self) {
        self.spent_until = None;
        if active(Mutant::RateRefilledAtOnce) {
            self.full_at_ns = 0;
        }
    }

    fn empty(&mut self, rate: RateLimit, at: u64) {
        (self.full_at_ns, self.taken_at) = (u128::from(at) * NS_PER_MS + rate.fill_ns(), at);
        self.spent_until = Some(self.next_token_at(rate));
    }

    /// As it is with a new service.
    fn begin(&mut self, rate: RateLimit, at: u64) {
        if active(Mutant::RateFullAfterRestart) {
            *self = Self::default();
        } else {
            self.empty(rate, at);
        }
    }

    /// Another limit holds: its bucket begins full, but if the one before was in use, empty as of then.
    fn change(&mut self, before: Option<RateLimit>, after: Option<RateLimit>) {
        match after {
            Some(rate) if before.is_some() && self.taken_at > 0 => self.empty(rate, self.taken_at),
            _ if before.is_some() && after.is_some() => {}
            _ => *self = Self::default(),
        }
    }

    fn next_token_at(&self, rate: RateLimit) -> u64 {
        let ns = self.full_at_ns.saturating_sub(rate.fill_ns() - rate.interval_ns());
        u64::try_from(ns.div_ceil(NS_PER_MS)).unwrap_or(u64::MAX)
    }

    fn full_at(&self) -> u64 {
        u64::try_from(self.full_at_ns.div_ceil(NS_PER_MS)).unwrap_or(u64::MAX)
    }

    /// Tokens that are there.
    pub(crate) fn available(&self, rate: RateLimit, at: u64) -> u32 {
        let missing = self.full_at_ns.saturating_sub(u128::from(at) * NS_PER_MS).div_ceil(rate.interval_ns().max(1));
        rate.burst.saturating_sub(u32::try_from(missing).unwrap_or(u32::MAX))
    }
}

/// The bucket of a group.
#[derive(Debug)]
pub(crate) struct GroupRate {
    hash: Hash,
    bucket: Bucket,
}

impl Keyed for GroupRate {
    fn key(&self) -> u128 {
        self.hash.0
    }
}

impl GroupRate {
    /// When it gives again, or is forgotten.
    fn changes_at(&self) -> u64 {
        self.bucket.spent_until.unwrap_or_else(|| self.bucket.full_at())
    }
}

/// Groups of a queue rest for one interval after a start: nobody knows any more which of them were handed out last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupRest {
    /// Buckets that are not known are full from then on, in nanoseconds of elapsed time.
    full_at_ns: u128,
    /// Until then no group gives.
    pub(crate) until: Option<u64>,
}

/// Whether a group of a queue with a rate limit for groups has no token.
pub(super) fn is_spent(queue: &Queue, rates: &Table<GroupRate>, group: Hash) -> bool {
    queue.group_rest.until.is_some() || rates.find(group.0).is_some_and(|it| rates[it].bucket.is_spent())
}

impl State {
    fn move_rate_timer(&mut self, timer: Timer, before: Option<u64>, after: Option<u64>) {
        if before != after {
            before.into_iter().for_each(|at| self.timers.clear(true, at, timer));
            after.into_iter().for_each(|at| self.timers.set(true, at, timer));
        }
    }

    fn change_queue_bucket(&mut self, number: u32, change: impl FnOnce(&mut Bucket)) {
        let bucket = &mut self.queue_mut(number).bucket;
        let before = bucket.spent_until;
        change(bucket);
        let after = bucket.spent_until;
        self.move_rate_timer(Timer::Rate(number), before, after);
    }

    pub(super) fn change_limit_bucket(&mut self, number: u32, change: impl FnOnce(&mut Bucket)) {
        let Some(limit) = self.limits.get_mut(&number) else { return };
        let before = limit.bucket.spent_until;
        change(&mut limit.bucket);
        let after = limit.bucket.spent_until;
        self.move_rate_timer(Timer::LimitRate(number), before, after);
    }

    /// A job that stands nowhere is handed out: a token of its queue, its group and its shared limits each.
    pub(crate) fn take_tokens(&mut self, slot: Slot, at: u64) {
        let at = self.elapsed(at);
        let (number, group) = (self.jobs[slot].queue, self.jobs[slot].group);
        let queue = self.queue(number);
        let (rate, group_rate, no_group) = (queue.settings.rate, queue.settings.group_rate, queue.no_group);
        for limit in &*Arc::clone(&queue.limits) {
            let limit = *limit;
            let Some(it) = self.limits.get_mut(&limit) else { continue };
            if active(Mutant::SharedRateCountsOne) && it.queues.first() != Some(&number) {
                continue;
            }
            it.deliveries += 1;
            if let Some(rate) = it.record.options.rate {
                self.change_limit_bucket(limit, |bucket| bucket.take(rate, at));
            }
        }
        if let Some(rate) = rate {
            self.change_queue_bucket(number, |bucket| bucket.take(rate, at));
        }
        if let Some(rate) = group_rate.filter(|_| group != no_group) {
            let (hash, rest) = (self.groups[group].hash, self.queue(number).group_rest);
            let new = || GroupRate { hash, bucket: Bucket { full_at_ns: rest.full_at_ns, ..Bucket::default() } };
            let (it, is_new) = self.group_rates.find_or_insert(hash.0, new);
            let before = (!is_new).then(|| self.group_rates[it].changes_at());
            self.group_rates[it].bucket.take(rate, at);
            let after = self.group_rates[it].changes_at();
            self.move_rate_timer(Timer::GroupRate(it), before, Some(after));
        }
    }

    /// Whether the rate limit of a group's queue holds the group back.
    pub(crate) fn is_group_spent(&self, group: Slot) -> bool {
        let group = &self.groups[group];
        let queue = self.queue(group.queue);
        let is_named = group.hash != self.groups[queue.no_group].hash;
        queue.settings.group_rate.is_some() && is_named && is_spent(queue, &self.group_rates, group.hash)
    }

    /// A token of a queue is there again.
    pub(super) fn refill_queue(&mut self, number: u32) {
        self.change_queue_bucket(number, Bucket::has_token);
        self.wake(number);
    }

    /// A token of a shared limit is there again.
    pub(super) fn refill_limit(&mut self, number: u32) {
        self.change_limit_bucket(number, Bucket::has_token);
        self.wake_limit(number);
    }

    /// A token of a group is there again, or all are.
    pub(super) fn refill_group(&mut self, it: Slot) {
        let (hash, before) = (self.group_rates[it].hash, self.group_rates[it].changes_at());
        let bucket = &mut self.group_rates[it].bucket;
        if bucket.is_spent() && bucket.full_at() > before && !active(Mutant::GroupRateForgotten) {
            bucket.has_token();
            let after = bucket.full_at();
            self.move_rate_timer(Timer::GroupRate(it), Some(before), Some(after));
        } else {
            self.forget_group_rate(it);
        }
        if let Some(group) = self.groups.find(hash.0) {
            self.refresh(group);
        }
    }

    fn forget_group_rate(&mut self, it: Slot) {
        let at = self.group_rates[it].changes_at();
        self.timers.clear(true, at, Timer::GroupRate(it));
        self.group_rates.remove(it);
    }

    /// All groups of a queue have their first token after a start.
    pub(super) fn end_group_rest(&mut self, number: u32) {
        self.set_group_rest(number, None);
    }

    fn set_group_rest(&mut self, number: u32, until: Option<u64>) {
        let before = core::mem::replace(&mut self.queue_mut(number).group_rest.until, until);
        self.move_rate_timer(Timer::GroupRest(number), before, until);
        let groups = self.groups.iter().filter(|(_, group)| group.queue == number && group.ready() > 0);
        for group in groups.map(|(slot, _)| slot).collect::<Vec<_>>() {
            self.refresh(group);
        }
    }

    /// All buckets are empty: a service begins.
    pub(crate) fn empty_buckets(&mut self, at: u64) {
        let at = self.elapsed(at);
        for it in self.group_rates.iter().map(|(slot, _)| slot).collect::<Vec<_>>() {
            self.forget_group_rate(it);
        }
        for number in self.queues.keys().copied().collect::<Vec<_>>() {
            let settings = &self.queue(number).settings;
            let (rate, group_rate) = (settings.rate, settings.group_rate);
            if let Some(rate) = rate {
                self.change_queue_bucket(number, |bucket| bucket.begin(rate, at));
            }
            if let Some(rate) = group_rate {
                let mut bucket = Bucket::default();
                bucket.empty(rate, at);
                self.queue_mut(number).group_rest.full_at_ns = bucket.full_at_ns;
                self.set_group_rest(number, bucket.spent_until);
            }
        }
        for number in self.limits.keys().copied().collect::<Vec<_>>() {
            if let Some(rate) = self.limits[&number].record.options.rate {
                self.change_limit_bucket(number, |bucket| bucket.begin(rate, at));
            }
        }
    }

    /// Other rate limits hold for a queue; its groups are to be looked at anew.
    pub(crate) fn change_rates(&mut self, number: u32, before: [Option<RateLimit>; 2]) {
        let settings = &self.queue(number).settings;
        let [rate, group_rate] = [settings.rate, settings.group_rate];
        if before[0] != rate {
            self.change_queue_bucket(number, |bucket| bucket.change(before[0], rate));
        }
        if before[1] != group_rate {
            let it = |hash: Hash| self.group_rates.find(hash.0);
            let groups = self.groups.iter().filter(|(_, group)| group.queue == number);
            for it in groups.filter_map(|(_, group)| it(group.hash)).collect::<Vec<_>>() {
                let at = self.group_rates[it].changes_at();
                self.group_rates[it].bucket.change(before[1], group_rate);
                let after = self.group_rates[it].changes_at();
                self.move_rate_timer(Timer::GroupRate(it), Some(at), Some(after));
            }
            if group_rate.is_none() {
                let until = self.queue(number).group_rest.until;
                self.move_rate_timer(Timer::GroupRest(number), until, None);
                self.queue_mut(number).group_rest = GroupRest::default();
            }
        }
    }

    /// Another rate limit holds for a shared limit.
    pub(crate) fn change_limit_rate(&mut self, number: u32, before: Option<RateLimit>) {
        let after = self.limits[&number].record.options.rate;
        if before != after {
            self.change_limit_bucket(number, |bucket| bucket.change(before, after));
        }
    }

    /// The shared limit goes.
    pub(crate) fn forget_limit_rate(&mut self, number: u32) {
        self.change_limit_bucket(number, |bucket| *bucket = Bucket::default());
    }

    /// The queue goes.
    pub(crate) fn forget_rates(&mut self, number: u32) {
        self.change_queue_bucket(number, |bucket| *bucket = Bucket::default());
        let until = self.queue(number).group_rest.until;
        self.move_rate_timer(Timer::GroupRest(number), until, None);
        self.queue_mut(number).group_rest = GroupRest::default();
    }

    /// Timers that the buckets must have, for checks.
    pub(super) fn rate_timers(&self) -> Vec<(u64, Timer)> {
        let queues = self.queues.iter().flat_map(|(number, queue)| {
            let rate = queue.bucket.spent_until.map(|at| (at, Timer::Rate(*number)));
            rate.into_iter().chain(queue.group_rest.until.map(|at| (at, Timer::GroupRest(*number))))
        });
        let limits = self.limits.iter();
        let limits = limits.filter_map(|(number, it)| Some((it.bucket.spent_until?, Timer::LimitRate(*number))));
        let groups = self.group_rates.iter().map(|(slot, it)| (it.changes_at(), Timer::GroupRate(slot)));
        queues.chain(limits).chain(groups).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: u64 = 1_700_000_000_000;

    /// How many are taken in each of the next milliseconds if somebody always wants one.
    fn taken(bucket: &mut Bucket, rate: RateLimit, from: u64, to: u64) -> Vec<u64> {
        let mut all = Vec::new();
        for at in from..to {
            if bucket.spent_until.is_some_and(|until| until <= at) {
                bucket.spent_until = None;
            }
            while !bucket.is_spent() {
                assert!(bucket.available(rate, at) > 0, "a token is there when it is taken");
                bucket.take(rate, at);
                all.push(at - from);
            }
            assert_eq!(bucket.available(rate, at), 0, "none is left");
        }
        all
    }

    #[test]
    fn a_full_bucket_gives_its_burst_and_then_one_an_interval() {
        let rate = RateLimit { jobs: 10, per_ms: 100, burst: 3 };
        assert_eq!(taken(&mut Bucket::default(), rate, T, T + 35), [0, 0, 0, 10, 20, 30]);
        let single = RateLimit { jobs: 3, per_ms: 10, burst: 1 };
        assert_eq!(taken(&mut Bucket::default(), single, T, T + 15), [0, 4, 7, 11, 14]);
        let fast = RateLimit { jobs: 5_000, per_ms: 1_000, burst: 1 };
        let all = taken(&mut Bucket::default(), fast, T, T + 1_000).len();
        assert!((4_990..=5_000).contains(&all), "{all} in a second");
    }

    #[test]
    fn an_empty_bucket_gives_no_burst() {
        let rate = RateLimit { jobs: 10, per_ms: 100, burst: 3 };
        let mut bucket = Bucket::default();
        bucket.empty(rate, T);
        assert_eq!(taken(&mut bucket, rate, T, T + 35), [10, 20, 30]);
        assert_eq!(bucket.available(rate, T + 59), 2);
        assert_eq!(bucket.available(rate, T + 60), 3);
    }

    #[test]
    fn a_changed_limit_holds_from_the_last_token_on() {
        let (slow, fast) =
            (RateLimit { jobs: 1, per_ms: 3_600_000, burst: 10 }, RateLimit { jobs: 1, per_ms: 10, burst: 2 });
        let mut bucket = Bucket::default();
        (0..10).for_each(|_| bucket.take(slow, T));
        bucket.change(Some(slow), Some(fast));
        assert_eq!(taken(&mut bucket, fast, T, T + 25), [10, 20]);
        bucket.change(Some(fast), None);
        assert_eq!(bucket, Bucket::default());
    }
}
