//! Jobs that have a name in common: an idempotency key, a business object. Nearly always it is one job alone,
//! so only several pay for being in order.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

use crate::state::Job;
use crate::state::slab::{Slot, Table};

/// The jobs of one name.
#[derive(Debug, Default)]
pub(crate) enum Members<L> {
    #[default]
    None,
    One(Slot),
    Many(Box<Crowd<L>>),
}

/// Several jobs of one name.
#[derive(Debug, Default)]
pub(crate) struct Crowd<L> {
    /// By sequence number, finished ones too while they are kept.
    pub(crate) all: BTreeMap<u64, Slot>,
    /// Those that stand, by what matters to the name.
    pub(crate) lines: L,
}

/// Orders of the jobs of one name that stand.
pub(crate) trait Lines: Default {
    /// What a job takes in them.
    const ENTRY_BYTES: usize;
    fn insert(&mut self, slot: Slot, job: &Job);
    fn remove(&mut self, job: &Job);
}

impl<L: Lines> Members<L> {
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Self::None)
    }

    /// A job that does not stand yet joins; all others stand.
    pub(crate) fn join(&mut self, slot: Slot, jobs: &Table<Job>) {
        match self {
            Self::None => *self = Self::One(slot),
            Self::One(first) => {
                let mut crowd = Crowd::<L>::default();
                crowd.lines.insert(*first, &jobs[*first]);
                crowd.all = [*first, slot].into_iter().map(|slot| (jobs[slot].id.seq(), slot)).collect();
                *self = Self::Many(Box::new(crowd));
            }
            Self::Many(crowd) => drop(crowd.all.insert(jobs[slot].id.seq(), slot)),
        }
    }

    /// A job that does not stand any more leaves.
    pub(crate) fn leave(&mut self, job: &Job) {
        match self {
            Self::None => panic!("{} is of this name", job.id),
            Self::One(_) => *self = Self::None,
            Self::Many(crowd) => {
                crowd.all.remove(&job.id.seq());
                if let (1, Some(last)) = (crowd.all.len(), crowd.all.values().next()) {
                    *self = Self::One(*last);
                }
            }
        }
    }

    /// What a crowd takes in memory beyond the name itself.
    pub(crate) fn bytes(&self) -> u64 {
        let Self::Many(crowd) = self else { return 0 };
        // A node of a tree has room for 11 entries, and is half empty where the tree grows at its end.
        let entries = if crowd.all.len() <= 11 { 11 } else { 2 * crowd.all.len() };
        (size_of::<Crowd<L>>() + entries * (size_of::<(u64, Slot)>() + L::ENTRY_BYTES)) as u64
    }

    pub(crate) fn stand(&mut self, slot: Slot, job: &Job) {
        if let Self::Many(crowd) = self {
            crowd.lines.insert(slot, job);
        }
    }

    pub(crate) fn unstand(&mut self, job: &Job) {
        if let Self::Many(crowd) = self {
            crowd.lines.remove(job);
        }
    }

    /// Those with a sequence number above this one, oldest first.
    pub(crate) fn oldest_first(&self, above: u64, jobs: &Table<Job>) -> impl Iterator<Item = (u64, Slot)> {
        let only = match self {
            Self::One(slot) => Some((jobs[*slot].id.seq(), *slot)).filter(|(seq, _)| *seq > above),
            _ => None,
        };
        let many = match self {
            Self::Many(crowd) => Some(crowd.all.range(above.saturating_add(1)..).map(|(seq, slot)| (*seq, *slot))),
            _ => None,
        };
        only.into_iter().chain(many.into_iter().flatten())
    }

    /// Those with a sequence number below this one, newest first.
    pub(crate) fn newest_first(&self, below: u64, jobs: &Table<Job>) -> impl Iterator<Item = (u64, Slot)> {
        let only = match self {
            Self::One(slot) => Some((jobs[*slot].id.seq(), *slot)).filter(|(seq, _)| *seq < below),
            _ => None,
        };
        let many = match self {
            Self::Many(crowd) => Some(crowd.all.range(..below).rev().map(|(seq, slot)| (*seq, *slot))),
            _ => None,
        };
        only.into_iter().chain(many.into_iter().flatten())
    }
}
