//! The settles that ended a job, so that the same settle again is known when the job itself is gone.

use alloc::collections::BTreeSet;

use crate::items::{ItemKind, Link};
use crate::state::job::seq_key;
use crate::state::slab::{Keyed, Table};
use crate::state::{SETTLES_KEPT_MAX, State};

/// How a job was ended.
#[derive(Debug)]
pub(crate) struct SettleEntry {
    pub(crate) seq: u64,
    pub(crate) at: u64,
    /// Hash of receipt and outcome.
    pub(crate) outcome: u64,
    pub(crate) link: Link,
}

impl Keyed for SettleEntry {
    fn key(&self) -> u128 {
        seq_key(self.seq)
    }
}

/// The newest settles, by the job's number and by time.
#[derive(Debug, Default)]
pub(crate) struct Settles {
    pub(crate) table: Table<SettleEntry>,
    pub(crate) by_time: BTreeSet<(u64, u64)>,
}

impl State {
    /// The settle that ended the job with this number, if it is remembered.
    pub(crate) fn settle_of(&self, seq: u64) -> Option<&SettleEntry> {
        self.settles.table.get_by(seq_key(seq))
    }

    /// Which are the newest follows from what they carry, so it does not matter in which order a log shows them.
    pub(crate) fn remember_settle(&mut self, position: u64, seq: u64, at: u64, outcome: u64) {
        self.forget_settle(seq);
        let slot = self.settles.table.insert(SettleEntry { seq, at, outcome, link: Link::default() });
        self.settles.by_time.insert((at, seq));
        self.link_item(ItemKind::Settle, slot, position);
        if self.settles.table.len() > SETTLES_KEPT_MAX
            && let Some((_, oldest)) = self.settles.by_time.first().copied()
        {
            self.forget_settle(oldest);
        }
    }

    fn forget_settle(&mut self, seq: u64) {
        if let Some(slot) = self.settles.table.find(seq_key(seq)) {
            self.unlink_item(ItemKind::Settle, slot);
            let entry = self.settles.table.remove(slot);
            self.settles.by_time.remove(&(entry.at, entry.seq));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_remembered_in_whatever_order_a_log_shows_them() {
        let count = SETTLES_KEPT_MAX as u64 + 2;
        let (mut upward, mut downward) = (State::new(0), State::new(0));
        (0..count).for_each(|n| upward.remember_settle(n, n, 1_000 + n, n));
        (0..count).rev().for_each(|n| downward.remember_settle(count - n, n, 1_000 + n, n));
        for state in [&upward, &downward] {
            assert_eq!(state.settles.table.len(), SETTLES_KEPT_MAX);
            assert_eq!([0, 1].map(|seq| state.settle_of(seq).is_some()), [false, false]);
            assert_eq!([2, count - 1].map(|seq| state.settle_of(seq).map(|it| it.outcome)), [Some(2), Some(count - 1)]);
        }
    }
}
