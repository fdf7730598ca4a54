//! Circuit breakers of queues and shared limits. A closed one counts how attempts end; when too many fail it opens, and
//! nothing is handed out, so that no attempt is used up. After its cool-down it is half open: one job at a time is
//! handed out as a probe, until one ends well, which closes it, or badly, which opens it again.
//!
//! The window is one of elapsed time: a step of the wall clock neither empties it nor keeps it from filling.
//!
//! Where a breaker is stands in the record of its owner, as do its moves in the log: it survives a restart. What it
//! counts while closed follows from events, and is counted anew from those that the log still shows.

use recado_mutants::{Mutant, active};

use crate::event::{BreakerOf, BreakerRecord, BreakerState};
use crate::figures::Recent;
use crate::options::BreakerOptions;
use crate::query::BreakerView;
use crate::reply::State as JobState;
use crate::state::{State, Timer};

const SLOTS: usize = 10;

/// How attempts ended within the window.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trials {
    ended: Recent<SLOTS>,
    failed: Recent<SLOTS>,
    /// How often the breaker opened since this process began.
    pub(crate) opened: u64,
    /// How often it closed.
    pub(crate) closed: u64,
}

impl Trials {
    fn slot(options: BreakerOptions, at: u64) -> u64 {
        at / (options.window_ms / SLOTS as u64).max(1)
    }

    fn add(&mut self, options: BreakerOptions, at: u64, is_failure: bool) {
        let slot = Self::slot(options, at);
        // Another window has other slots, and a trimmed log may not show the step that set the time: what is not
        // counted by this measure says nothing, and must not hide what is.
        if self.ended.is_past(slot) {
            self.clear();
        }
        self.ended.add(slot, 1);
        self.failed.add(slot, u32::from(is_failure));
    }

    /// Attempts that ended, and how many of them failed.
    fn counts(&self, options: BreakerOptions, at: u64) -> (u64, u64) {
        let slot = Self::slot(options, at);
        (self.ended.sum(slot), self.failed.sum(slot))
    }

    fn are_too_bad(&self, options: BreakerOptions, at: u64) -> bool {
        let (ended, failed) = self.counts(options, at);
        ended >= u64::from(options.min_jobs) && failed * 1_000 >= ended * u64::from(options.failure_milli)
    }

    /// Totals count from the start of this process.
    pub(crate) fn forget_totals(&mut self) {
        (self.opened, self.closed) = (0, 0);
    }

    fn clear(&mut self) {
        (self.ended, self.failed) = Default::default();
    }
}

impl State {
    fn breaker(&self, of: BreakerOf) -> Option<(Option<BreakerOptions>, Option<BreakerRecord>, &Trials)> {
        match of {
            BreakerOf::Queue(number) => {
                let queue = self.queues.get(&number)?;
                Some((queue.settings.breaker, queue.record.breaker, &queue.trials))
            }
            BreakerOf::Limit(number) => {
                let limit = self.limits.get(&number)?;
                Some((limit.record.options.breaker, limit.record.breaker, &limit.trials))
            }
        }
    }

    fn breaker_mut(&mut self, of: BreakerOf) -> Option<(&mut Option<BreakerRecord>, &mut Trials)> {
        match of {
            BreakerOf::Queue(number) => {
                let queue = self.queues.get_mut(&number)?;
                Some((&mut queue.record.breaker, &mut queue.trials))
            }
            BreakerOf::Limit(number) => {
                let limit = self.limits.get_mut(&number)?;
                Some((&mut limit.record.breaker, &mut limit.trials))
            }
        }
    }

    /// Whether a breaker lets nothing out.
    pub(crate) fn breaks(&self, of: BreakerOf, breaker: BreakerRecord) -> bool {
        let is_its = |queue: u32| match of {
            BreakerOf::Queue(number) => queue == number,
            BreakerOf::Limit(number) => self.queue(queue).limits.contains(&number),
        };
        let is_out = |seq: u64| {
            let probe = self.slot_of_seq(seq).map(|slot| &self.jobs[slot]);
            probe.is_some_and(|job| job.state == JobState::InFlight && is_its(job.queue))
        };
        let is_forgotten = || breaker.since < self.started_at && active(Mutant::BreakersForgottenByRestart);
        match breaker.state {
            BreakerState::Closed => false,
            _ if is_forgotten() => false,
            BreakerState::Open => !active(Mutant::BreakerLetsOut),
            BreakerState::HalfOpen => breaker.probe.is_some_and(is_out) && !active(Mutant::BreakerTwoProbes),
        }
    }

    /// Owners of the breakers that look at a queue's jobs.
    fn breakers_of(&self, queue: u32) -> impl Iterator<Item = BreakerOf> + use<> {
        let limits = self.queue(queue).limits.clone();
        let limits = (0..limits.len()).map(move |at| BreakerOf::Limit(limits[at]));
        core::iter::once(BreakerOf::Queue(queue)).chain(limits)
    }

    /// A job was handed out: where a breaker is half open, it is the probe.
    pub(crate) fn note_probe(&mut self, queue: u32, seq: u64) {
        for of in self.breakers_of(queue) {
            if let Some((Some(record), _)) = self.breaker_mut(of)
                && record.state == BreakerState::HalfOpen
            {
                record.probe = Some(seq);
            }
        }
    }

    /// An attempt ended.
    pub(crate) fn note_outcome(&mut self, queue: u32, seq: u64, at: u64, is_failure: bool) {
        let at = self.elapsed(at);
        for of in self.breakers_of(queue) {
            let Some((Some(options), record, _)) = self.breaker(of) else { continue };
            let to = match record.map_or(BreakerState::Closed, |record| record.state) {
                BreakerState::Closed => {
                    let Some((_, trials)) = self.breaker_mut(of) else { continue };
                    trials.add(options, at, is_failure);
                    if !is_failure || !trials.are_too_bad(options, at) {
                        continue;
                    }
                    BreakerState::Open
                }
                BreakerState::HalfOpen if record.is_some_and(|record| record.probe == Some(seq)) => {
                    if is_failure {
                        BreakerState::Open
                    } else {
                        BreakerState::Closed
                    }
                }
                BreakerState::Open | BreakerState::HalfOpen => continue,
            };
            self.to_move.insert(of, to);
        }
    }

    /// The move of a breaker that is due, with the end of its cool-down.
    pub(crate) fn breaker_to_move(&self, at: u64) -> Option<(BreakerOf, BreakerState, u64)> {
        let (of, to) = self.to_move.first_key_value()?;
        let (options, ..) = self.breaker(*of)?;
        let options = options.filter(|_| !active(Mutant::BreakerNeverCools));
        let cool_down_ms = options.map_or(0, |options| options.cool_down_ms);
        Some((*of, *to, self.elapsed(at).saturating_add(cool_down_ms)))
    }

    /// A breaker opened, closed, or is half open.
    pub(crate) fn move_breaker(&mut self, of: BreakerOf, to: BreakerState, at: u64, ends_elapsed_at: u64) {
        self.to_move.remove(&of);
        self.disarm_breaker(of);
        let Some((record, trials)) = self.breaker_mut(of) else { return };
        *record = Some(BreakerRecord { state: to, since: at, ends_elapsed_at, probe: None });
        trials.clear();
        match to {
            BreakerState::Open => trials.opened += 1,
            BreakerState::Closed => trials.closed += 1,
            BreakerState::HalfOpen => {}
        }
        self.arm_breaker(of);
        self.breaker_news.push((of, to));
        self.wake_breaker(of);
    }

    fn wake_breaker(&mut self, of: BreakerOf) {
        match of {
            BreakerOf::Queue(number) => self.wake(number),
            BreakerOf::Limit(number) => self.wake_limit(number),
        }
    }

    /// Its cool-down has no end any more: the owner's record is about to be replaced, or to go.
    pub(crate) fn disarm_breaker(&mut self, of: BreakerOf) {
        if let Some(at) = self.cools_until(of) {
            self.timers.clear(true, at, Timer::Breaker(of));
        }
    }

    /// The owner's record was replaced.
    pub(crate) fn arm_breaker(&mut self, of: BreakerOf) {
        if let Some(at) = self.cools_until(of) {
            self.timers.set(true, at, Timer::Breaker(of));
        }
    }

    /// A breaker that is not set is closed.
    pub(crate) fn settle_breaker(&mut self, of: BreakerOf) {
        let Some((options, record, _)) = self.breaker(of) else { return };
        if options.is_none() {
            self.to_move.remove(&of);
            if record.is_some() {
                self.disarm_breaker(of);
                if let Some((record, _)) = self.breaker_mut(of) {
                    *record = None;
                }
                self.wake_breaker(of);
            }
        }
    }

    /// End of the cool-down of an open breaker, on elapsed time.
    pub(super) fn cools_until(&self, of: BreakerOf) -> Option<u64> {
        let (_, record, _) = self.breaker(of)?;
        record.filter(|record| record.state == BreakerState::Open).map(|record| record.ends_elapsed_at)
    }

    /// A breaker as answers show it; `None` is off.
    pub(crate) fn breaker_view(&self, of: BreakerOf, now: u64) -> Option<BreakerView> {
        let (options, record, trials) = self.breaker(of)?;
        let options = options?;
        let (jobs, failures) = trials.counts(options, self.elapsed(now));
        let state = record.map_or(BreakerState::Closed, |record| record.state);
        Some(BreakerView {
            state,
            since: record.map(|record| record.since),
            until: self.cools_until(of).map(|at| self.wall(at)),
            jobs,
            failures,
            opened: trials.opened,
            closed: trials.closed,
        })
    }
}
