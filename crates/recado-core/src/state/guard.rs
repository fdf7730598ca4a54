//! Guards: a key under which one holder at a time works, and the result that the work ended with.
//!
//! A guard belongs to a job and goes with it, or has a time of its own. That its hold has lapsed is no fact: it
//! follows from the time, and only another `begin` takes the key. Until then room in the log is kept for its end, and
//! the guard is not forgotten, whatever the wall clock says.

use crate::event::GuardRecord;
use crate::items::{ItemKind, Link};
use crate::reply::Place;
use crate::state::slab::{Keyed, Slot};
use crate::state::{State, Timer};

/// One guard.
#[derive(Debug)]
pub(crate) struct Guard {
    pub(crate) record: GuardRecord,
    /// Where [`GuardRecord::result`] is.
    pub(crate) result: Option<Place>,
    pub(crate) link: Link,
    /// Its hold was not seen to lapse.
    is_held: bool,
}

impl Guard {
    /// Its time is over, whether or not that was noticed.
    pub(crate) fn is_over(&self, at: u64, elapsed_at: u64) -> bool {
        self.end().is_some_and(|end| end <= at) && !self.holds(elapsed_at)
    }

    /// It has a holder whose deadline is still to come, whether or not it was noticed when that is not so.
    pub(crate) fn holds(&self, elapsed_at: u64) -> bool {
        self.record.done.is_none() && self.record.ends_elapsed_at > elapsed_at
    }

    pub(crate) fn is_held(&self) -> bool {
        self.is_held
    }

    /// When it is forgotten; one that belongs to a job has no end of its own.
    pub(crate) fn end(&self) -> Option<u64> {
        self.record.job.is_none().then_some(self.record.until)
    }
}

impl Keyed for Guard {
    fn key(&self) -> u128 {
        self.record.key.0
    }
}

impl State {
    /// Guards with a holder whose time has not passed: each may be ended any moment.
    #[must_use]
    pub fn open_guards(&self) -> u64 {
        self.open_guards
    }

    /// The guard is as `record` says, which stands whole in the batch at `position`.
    pub(crate) fn set_guard(&mut self, position: u64, record: GuardRecord) {
        if let Some(slot) = self.guards.find(record.key.0) {
            self.drop_guard(slot);
        }
        self.queue_mut(record.queue).guards += 1;
        let result = record.result.map(|span| span.at(position));
        let slot = self.guards.insert(Guard { record, result, link: Link::default(), is_held: false });
        if let Some(seq) = record.job {
            self.job_guards.insert((seq, slot));
        }
        self.time_guard(slot, true);
        if record.done.is_none() {
            self.hold_guard(slot, record.ends_elapsed_at);
        }
        self.link_item(ItemKind::Guard, slot, position);
    }

    /// The guard is forgotten.
    pub(crate) fn drop_guard(&mut self, slot: Slot) {
        self.lapse_guard(slot);
        self.time_guard(slot, false);
        self.unlink_item(ItemKind::Guard, slot);
        let guard = self.guards.remove(slot);
        self.queue_mut(guard.record.queue).guards -= 1;
        if let Some(seq) = guard.record.job {
            self.job_guards.remove(&(seq, slot));
        }
    }

    /// What is held is not to be forgotten, so that its timer waits for the end of the hold.
    fn time_guard(&mut self, slot: Slot, is_timed: bool) {
        let Some(end) = self.guards[slot].end() else { return };
        if is_timed {
            self.timers.set(false, end, Timer::Guard(slot));
        } else {
            self.timers.clear(false, end, Timer::Guard(slot));
        }
    }

    /// The guard is held until then, whatever it was before.
    pub(crate) fn hold_guard(&mut self, slot: Slot, ends_elapsed_at: u64) {
        self.lapse_guard(slot);
        self.time_guard(slot, false);
        let guard = &mut self.guards[slot];
        guard.record.ends_elapsed_at = ends_elapsed_at;
        guard.is_held = true;
        self.open_guards += 1;
        self.timers.set(true, ends_elapsed_at, Timer::Hold(slot));
    }

    /// Its hold has lapsed, or ended otherwise.
    pub(crate) fn lapse_guard(&mut self, slot: Slot) {
        let guard = &mut self.guards[slot];
        if core::mem::take(&mut guard.is_held) {
            self.open_guards -= 1;
            self.timers.clear(true, guard.record.ends_elapsed_at, Timer::Hold(slot));
            self.time_guard(slot, true);
        }
    }

    /// A job is gone. It need not be known any more: its guards may stand further on in a trimmed log.
    pub(crate) fn drop_guards_of_job(&mut self, seq: u64) {
        while let Some((_, slot)) = self.job_guards.range((seq, 0)..=(seq, Slot::MAX)).next() {
            let slot = *slot;
            self.drop_guard(slot);
        }
    }
}
