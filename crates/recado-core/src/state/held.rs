//! Jobs that wait for an idempotency key.
//!
//! Of the ready jobs of a key that stand in one lane and one group only the first stands in line, and only
//! while the key is free for it; the others wait aside. So a key that is taken or freed moves as many jobs as
//! there are lanes and groups with jobs of it, however many jobs there are. In an ordered group all stand in
//! line, and the group waits while its head is held.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Bound;

use crate::event::LeaseState;
use crate::reply::State as JobState;
use crate::state::job::Last;
use crate::state::members::{Lines, Members};
use crate::state::slab::{NONE, Slot};
use crate::state::{Job, Key, KeyRole, Spot, State, flag};

/// Place of a ready job among those of its key: whether it ignores what the key has completed, lane, and
/// place in line.
type Place = (bool, u16, Spot);

/// Several jobs of one key.
#[derive(Debug, Default)]
pub(crate) struct KeyLines {
    /// Unfinished and dead ones, by sequence number: first those that a completed key skips.
    pub(crate) carriers: BTreeMap<(KeyRole, u64), Slot>,
    pub(crate) ready: BTreeMap<Place, Slot>,
    /// How many of those do not ignore what the key has completed.
    pub(crate) obeying: u32,
}

fn place(job: &Job) -> Place {
    (job.has(flag::IGNORE_KEY), job.lane, Spot::new(job.group, job.due_at, job.id.seq()))
}

impl Lines for KeyLines {
    const ENTRY_BYTES: usize = size_of::<((KeyRole, u64), Slot)>() + size_of::<(Place, Slot)>();

    fn insert(&mut self, slot: Slot, job: &Job) {
        if let Some(role) = job.key_role() {
            self.carriers.insert((role, job.id.seq()), slot);
        }
        if job.state == JobState::Ready {
            self.ready.insert(place(job), slot);
            self.obeying += u32::from(!job.has(flag::IGNORE_KEY));
        }
    }

    fn remove(&mut self, job: &Job) {
        if let Some(role) = job.key_role() {
            self.carriers.remove(&(role, job.id.seq()));
        }
        if job.state == JobState::Ready {
            self.ready.remove(&place(job));
            self.obeying -= u32::from(!job.has(flag::IGNORE_KEY));
        }
    }
}

impl KeyLines {
    /// The first two of the ready jobs that share lane and group with this one.
    fn first_two(&self, job: &Job) -> [Option<Slot>; 2] {
        let (ignores, lane, _) = place(job);
        let (first, last) = (Spot::first_of(job.group), Spot::last_of(job.group));
        let mut line = self.ready.range((ignores, lane, first)..=(ignores, lane, last)).map(|(_, slot)| *slot);
        [line.next(), line.next()]
    }

    /// The first ready job of each lane and group, in the order in which they were due.
    fn heads(&self, ignores: bool) -> Vec<Slot> {
        let mut heads = Vec::new();
        let mut after = Bound::Included((ignores, 0, Spot::first_of(0)));
        while let Some((&(its, lane, spot), slot)) = self.ready.range((after, Bound::Unbounded)).next()
            && its == ignores
        {
            heads.push((spot.order(), *slot));
            after = Bound::Excluded((its, lane, Spot::last_of(spot.group())));
        }
        heads.sort_unstable();
        heads.into_iter().map(|(_, slot)| slot).collect()
    }
}

impl State {
    /// Whether the job's idempotency key keeps it from running.
    pub(crate) fn is_held_by_key(&self, job: &Job) -> bool {
        self.key_of(job).is_some_and(|key| key.holds(job.has(flag::IGNORE_KEY)))
    }

    /// Whether a ready job waits in line while it is held: a group that orders its jobs waits with it.
    pub(super) fn waits_in_line(&self, job: &Job) -> bool {
        let queue = self.queue(job.queue);
        job.key == NONE || queue.settings.ordered && job.group != queue.no_group
    }

    /// What became of the last delivery. One that lapsed is over once the key was taken by a later one.
    pub(crate) fn lease_state(&self, job: &Job) -> Option<LeaseState> {
        let Last { fence, state, .. } = job.last_delivery()?;
        let may_be_late = matches!(state, LeaseState::Lapsed | LeaseState::Killed);
        let is_overtaken = may_be_late && self.key_of(job).is_some_and(|key| key.fence > fence);
        Some(if is_overtaken { LeaseState::KeyTaken } else { state })
    }

    /// Jobs that carry a key, unfinished or dead.
    pub(crate) fn carriers(&self, key: &Key) -> usize {
        match &key.jobs {
            Members::None => 0,
            Members::One(slot) => usize::from(!self.jobs[*slot].state.is_final()),
            Members::Many(crowd) => crowd.lines.carriers.len(),
        }
    }

    /// The oldest job that a completed key skips, but for `except`.
    pub(crate) fn first_to_skip(&self, key: &Key, except: Slot) -> Option<Slot> {
        let first = match &key.jobs {
            Members::None => None,
            Members::One(slot) => Some(*slot).filter(|slot| self.jobs[*slot].key_role() == Some(KeyRole::Waits)),
            Members::Many(crowd) => {
                let waiting = (KeyRole::Waits, 0)..=(KeyRole::Waits, u64::MAX);
                crowd.lines.carriers.range(waiting).next().map(|(_, slot)| *slot)
            }
        };
        first.filter(|slot| *slot != except)
    }

    /// Changes a key. Where it becomes free or stops being so, its ready jobs enter or leave their lanes.
    pub(crate) fn change_key(&mut self, slot: Slot, change: impl FnOnce(&mut Key)) {
        let key = &mut self.keys[slot];
        let before = [false, true].map(|ignores| key.holds(ignores));
        change(key);
        let after = [false, true].map(|ignores| key.holds(ignores));
        for ignores in [false, true] {
            let holds = after[usize::from(ignores)];
            if before[usize::from(ignores)] != holds {
                self.turn_key(slot, ignores, holds);
            }
        }
        self.look_for_skips(slot);
    }

    /// Jobs that were held while the key was in flight stay held when it completes, and are to be skipped.
    pub(crate) fn look_for_skips(&mut self, slot: Slot) {
        let key = &self.keys[slot];
        if key.has_completed() && self.first_to_skip(key, NONE).is_some() {
            self.to_skip.insert(slot);
        }
    }

    fn turn_key(&mut self, slot: Slot, ignores: bool, holds: bool) {
        let key = &self.keys[slot];
        let number = key.queue;
        let is_one = |job: &Job| job.state == JobState::Ready && job.has(flag::IGNORE_KEY) == ignores;
        let (heads, count) = match &key.jobs {
            Members::Many(crowd) => {
                let obeying = crowd.lines.obeying as usize;
                let count = if ignores { crowd.lines.ready.len() - obeying } else { obeying };
                (crowd.lines.heads(ignores), count)
            }
            Members::One(only) if is_one(&self.jobs[*only]) => (alloc::vec![*only], 1),
            _ => return,
        };
        let held = &mut self.queue_mut(number).held_by_key;
        *held = if holds { *held + count as u64 } else { *held - count as u64 };
        for job in heads {
            if self.waits_in_line(&self.jobs[job]) {
                self.refresh(self.jobs[job].group);
            } else if holds {
                self.step_aside(job);
            } else {
                self.step_in(job);
            }
        }
        self.wake(number);
    }

    /// Puts a ready job in its lane or aside; whom it overtakes in the line of its key steps aside.
    pub(super) fn stand_ready(&mut self, slot: Slot) {
        let job = &self.jobs[slot];
        let (held, number) = (self.is_held_by_key(job), job.queue);
        let (first, second) = match self.key_of(job).map(|key| &key.jobs) {
            Some(Members::Many(crowd)) if !self.waits_in_line(job) => crowd.lines.first_two(job).into(),
            _ => (Some(slot), None),
        };
        if self.waits_in_line(job) || !held && first == Some(slot) {
            self.step_in(slot);
            if let Some(second) = second {
                self.step_aside(second);
            }
        } else {
            self.step_aside(slot);
        }
        self.queue_mut(number).held_by_key += u64::from(held);
        self.wake(number);
    }

    /// Takes a ready job out of its lane or from aside; the next in the line of its key comes forward.
    pub(super) fn unstand_ready(&mut self, slot: Slot) {
        let job = &self.jobs[slot];
        let (held, number, group, lane) = (self.is_held_by_key(job), job.queue, job.group, job.lane);
        let spot = Spot::new(group, job.due_at, job.id.seq());
        let next = match self.key_of(job).map(|key| &key.jobs) {
            Some(Members::Many(crowd)) if !held && !self.waits_in_line(job) => crowd.lines.first_two(job)[0],
            _ => None,
        };
        let queue = self.queue_mut(number);
        queue.held_by_key -= u64::from(held);
        if queue.lane_mut(lane).ready.remove(&spot).is_some() {
            self.count_ready(group, lane, -1);
        } else {
            queue.aside.remove(&spot);
        }
        if let Some(next) = next {
            self.step_in(next);
        }
        self.refresh(group);
    }

    /// Into its lane, unless it is there already.
    fn step_in(&mut self, slot: Slot) {
        self.moves += 1;
        let job = &self.jobs[slot];
        let (number, group, lane, is_of_key) = (job.queue, job.group, job.lane, job.carries_key());
        let spot = Spot::new(group, job.due_at, job.id.seq());
        let queue = self.queue_mut(number);
        if is_of_key {
            queue.aside.remove(&spot);
        }
        if queue.lane_mut(lane).ready.insert(spot, slot).is_none() {
            self.count_ready(group, lane, 1);
        }
        if !self.changes_nothing(group, lane, spot) {
            self.refresh(group);
        }
    }

    /// Out of its lane, unless it is aside already.
    fn step_aside(&mut self, slot: Slot) {
        self.moves += 1;
        let job = &self.jobs[slot];
        let (number, group, lane) = (job.queue, job.group, job.lane);
        let spot = Spot::new(group, job.due_at, job.id.seq());
        let queue = self.queue_mut(number);
        queue.aside.insert(spot, slot);
        if queue.lane_mut(lane).ready.remove(&spot).is_some() {
            self.count_ready(group, lane, -1);
        }
        self.refresh(group);
    }
}
