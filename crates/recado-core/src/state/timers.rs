//! What becomes due, on two time lines: the wall clock, and elapsed time, which a step of the wall clock
//! does not move.

use alloc::collections::BTreeSet;

use crate::state::slab::Slot;
use crate::state::{JobState, State};

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
    /// A finished task to forget.
    Task(u32),
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    pub(crate) wall: BTreeSet<(u64, Timer)>,
    pub(crate) elapsed: BTreeSet<(u64, Timer)>,
}

impl Timers {
    fn line(&mut self, is_elapsed: bool) -> &mut BTreeSet<(u64, Timer)> {
        if is_elapsed { &mut self.elapsed } else { &mut self.wall }
    }

    pub(crate) fn set(&mut self, is_elapsed: bool, at: u64, timer: Timer) {
        let is_new = self.line(is_elapsed).insert((at, timer));
        debug_assert!(is_new, "{timer:?} is set once");
    }

    pub(crate) fn clear(&mut self, is_elapsed: bool, at: u64, timer: Timer) {
        let was_there = self.line(is_elapsed).remove(&(at, timer));
        debug_assert!(was_there, "{timer:?} was set");
    }
}

impl State {
    /// The instant at which [`crate::Command::Tick`] has something to do.
    #[must_use]
    pub fn next_due(&self, now: u64) -> Option<u64> {
        if !self.to_skip.is_empty() || !self.stale_notes.is_empty() || !self.unused_keys.is_empty() {
            return Some(now);
        }
        let wall = self.timers.wall.first().map(|(at, _)| *at);
        let elapsed = self.timers.elapsed.first().map(|(at, _)| self.wall(*at));
        wall.into_iter().chain(elapsed).min()
    }

    /// The first timer that is due at `now`.
    pub(crate) fn first_due(&self, now: u64) -> Option<Timer> {
        let due = |set: &BTreeSet<(u64, Timer)>, now| set.first().filter(|(at, _)| *at <= now).map(|(_, timer)| *timer);
        due(&self.timers.wall, now).or_else(|| due(&self.timers.elapsed, self.elapsed(now)))
    }

    /// Makes delayed jobs ready whose time has come, at most `max`. This is no fact of its own: it follows
    /// from the time, and the place in line does not depend on when it is noticed. Returns how many.
    pub fn advance(&mut self, now: u64, max: usize) -> usize {
        let mut moved = 0;
        while moved < max {
            let elapsed = self.elapsed(now);
            let wall = self.timers.wall.first().copied().filter(|(at, _)| *at <= now);
            let due = wall.filter(|(_, timer)| matches!(timer, Timer::Due(_))).or_else(|| {
                let first = self.timers.elapsed.first().copied().filter(|(at, _)| *at <= elapsed);
                first.filter(|(_, timer)| matches!(timer, Timer::Due(_)))
            });
            let Some((_, Timer::Due(slot))) = due else { break };
            self.unstand(slot);
            self.jobs[slot].state = JobState::Ready;
            self.stand(slot);
            moved += 1;
        }
        moved
    }
}
