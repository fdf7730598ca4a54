//! What becomes due, on two time lines: the wall clock, and elapsed time, which a step of the wall clock
//! does not move.

use alloc::collections::BTreeSet;

use recado_mutants::{Mutant, active};

use crate::event::BreakerOf;
use crate::reply::State as JobState;
use crate::state::State;
use crate::state::slab::Slot;

/// Something that becomes due. Jobs are named by slot: a timer is removed with what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// A delayed job.
    Due(Slot),
    /// A delivery: its visibility timeout or the timeout of its attempt, whichever is first.
    Lease(Slot),
    /// A job that expires unless received.
    Expiry(Slot),
    /// A finished job to forget.
    Keep(Slot),
    /// A saved result.
    Key(Slot),
    /// A deduplication window.
    Dedup(Slot),
    /// An answered request.
    Request(Slot),
    /// A guard to forget.
    Guard(Slot),
    /// The hold of a guard.
    Hold(Slot),
    /// A finished task to forget.
    Task(u32),
    /// The retention of a queue, by its number.
    Age(u32),
    /// The cool-down of a circuit breaker.
    Breaker(BreakerOf),
    /// The next token of a queue's rate limit.
    Rate(u32),
    /// The next token of a shared limit, by its number.
    LimitRate(u32),
    /// The next token of a group, or the last.
    GroupRate(Slot),
    /// The rest of a queue's groups after a start.
    GroupRest(u32),
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    pub(crate) wall: BTreeSet<(u64, Timer)>,
    pub(crate) elapsed: BTreeSet<(u64, Timer)>,
    /// [`Timer::Due`] stands apart: a receive makes delayed jobs ready whatever else is due. So do [`Timer::Hold`] and
    /// the tokens of rate limits: none of them is a fact.
    delayed_wall: BTreeSet<(u64, Timer)>,
    delayed_elapsed: BTreeSet<(u64, Timer)>,
    /// [`Timer::Keep`] too: where memory is short, finished jobs go before their time.
    pub(crate) keep: BTreeSet<(u64, Timer)>,
}

impl Timer {
    /// It makes no fact: [`State::advance`] sees to it.
    fn is_of_time_alone(self) -> bool {
        use Timer::{Due, GroupRate, GroupRest, Hold, LimitRate, Rate};
        matches!(self, Due(_) | Hold(_) | Rate(_) | LimitRate(_) | GroupRate(_) | GroupRest(_))
    }
}

impl Timers {
    fn line(&mut self, is_elapsed: bool, timer: Timer) -> &mut BTreeSet<(u64, Timer)> {
        if matches!(timer, Timer::Keep(_)) {
            return &mut self.keep;
        }
        match (timer.is_of_time_alone(), is_elapsed) {
            (false, false) => &mut self.wall,
            (false, true) => &mut self.elapsed,
            (true, false) => &mut self.delayed_wall,
            (true, true) => &mut self.delayed_elapsed,
        }
    }

    /// All timers of a time line, for checks.
    pub(crate) fn all(&self, is_elapsed: bool) -> BTreeSet<(u64, Timer)> {
        let (some, more) =
            if is_elapsed { (&self.elapsed, &self.delayed_elapsed) } else { (&self.wall, &self.delayed_wall) };
        let kept = self.keep.iter().filter(|_| !is_elapsed);
        some.union(more).chain(kept).copied().collect()
    }

    pub(crate) fn set(&mut self, is_elapsed: bool, at: u64, timer: Timer) {
        let is_new = self.line(is_elapsed, timer).insert((at, timer));
        debug_assert!(is_new, "{timer:?} is set once");
    }

    pub(crate) fn clear(&mut self, is_elapsed: bool, at: u64, timer: Timer) {
        let was_there = self.line(is_elapsed, timer).remove(&(at, timer));
        debug_assert!(was_there, "{timer:?} was set");
    }
}

impl State {
    /// The instant at which [`crate::Command::Tick`] has something to do.
    #[must_use]
    pub fn next_due(&self, now: u64) -> Option<u64> {
        let is_short = self.is_short_of_memory() && self.keeps_finished();
        let is_tidy = self.to_skip.is_empty()
            && self.to_unblock.is_empty()
            && self.stale_notes.is_empty()
            && self.unused_keys.is_empty()
            && self.overfull.is_empty()
            && self.to_move.is_empty();
        if !is_tidy || is_short || self.has_tasks_to_forget() {
            return Some(now);
        }
        let timers = &self.timers;
        let delayed = timers.delayed_wall.first().filter(|_| !active(Mutant::TimerNeverArmed));
        let wall = [timers.wall.first(), timers.keep.first(), delayed].into_iter().flatten().map(|(at, _)| *at);
        let elapsed = [timers.elapsed.first(), timers.delayed_elapsed.first()].into_iter().flatten();
        wall.chain(elapsed.map(|(at, _)| self.wall(*at))).min()
    }

    /// Finished jobs are kept for lookups: [`crate::Command::Forget`] has something to do.
    #[must_use]
    pub fn keeps_finished(&self) -> bool {
        !self.timers.keep.is_empty()
    }

    /// Keeps `overfull` true after the finished jobs of a queue, or how many it keeps, have changed.
    pub(crate) fn note_finished(&mut self, number: u32) {
        let queue = self.queue(number);
        if queue.finished.len() as u64 > queue.settings.kept_max() {
            self.overfull.insert(number);
        } else {
            self.overfull.remove(&number);
        }
    }

    /// The first timer that is due at `now` and makes a fact.
    pub(crate) fn first_due(&self, now: u64) -> Option<Timer> {
        let due = |set: &BTreeSet<(u64, Timer)>, now| set.first().filter(|(at, _)| *at <= now).map(|(_, timer)| *timer);
        let kept = self.timers.keep.first().filter(|(at, _)| *at <= now).map(|(_, timer)| *timer);
        due(&self.timers.wall, now).or(kept).or_else(|| due(&self.timers.elapsed, self.elapsed(now)))
    }

    /// Makes delayed jobs ready whose time has come, lets holds of guards lapse, and fills buckets, at most `max`. This is no fact of
    /// its own: it follows from the time, and the place in line does not depend on when it is noticed. Returns how
    /// many.
    pub fn advance(&mut self, now: u64, max: usize) -> usize {
        let mut moved = 0;
        while moved < max {
            let elapsed = self.elapsed(now);
            let wall = self.timers.delayed_wall.first().filter(|(at, _)| *at <= now);
            let due = wall.or_else(|| self.timers.delayed_elapsed.first().filter(|(at, _)| *at <= elapsed));
            match due {
                Some((_, Timer::Due(slot))) => {
                    let slot = *slot;
                    self.unstand(slot);
                    self.jobs[slot].state = JobState::Ready;
                    self.stand(slot);
                }
                Some((_, Timer::Hold(slot))) => self.lapse_guard(*slot),
                Some((_, Timer::Rate(queue))) => self.refill_queue(*queue),
                Some((_, Timer::LimitRate(limit))) => self.refill_limit(*limit),
                Some((_, Timer::GroupRate(group))) => self.refill_group(*group),
                Some((_, Timer::GroupRest(queue))) => self.end_group_rest(*queue),
                _ => break,
            }
            moved += 1;
        }
        moved
    }
}
