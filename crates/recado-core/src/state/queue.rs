//! A queue: its policy, its lanes, its groups, and its jobs by state.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::event::QueueRecord;
use crate::figures::Figures;
use crate::id::{Hash, JobId};
use crate::items::Link;
use crate::options::Settings;
use crate::reply::State;
use crate::state::slab::{Keyed, Slot};
use crate::state::{Bucket, GroupRest, Trials};

/// Lanes a queue may have; see [`Lane`].
pub const LANES_MAX: usize = 1_024;

/// A place in line: group, due instant and sequence number in one ordered number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(Rust, packed(8))] // Like JobId.
pub(crate) struct Spot(pub(crate) u128);

const LOW_48: u64 = (1 << 48) - 1;

impl Spot {
    pub(crate) fn new(group: Slot, due_at: u64, seq: u64) -> Self {
        Self(u128::from(group) << 96 | u128::from(due_at & LOW_48) << 48 | u128::from(seq & LOW_48))
    }

    pub(crate) fn first_of(group: Slot) -> Self {
        Self::new(group, 0, 0)
    }

    pub(crate) fn last_of(group: Slot) -> Self {
        Self::new(group, LOW_48, LOW_48)
    }

    pub(crate) fn group(self) -> Slot {
        (self.0 >> 96) as Slot
    }

    /// Due instant and sequence number, without the group.
    pub(crate) fn order(self) -> u128 {
        self.0 & ((1 << 96) - 1)
    }

    pub(crate) fn due_at(self) -> u64 {
        (self.0 >> 48) as u64 & LOW_48
    }
}

/// What the jobs of a lane have in common; a finished job keeps it when it leaves its lane.
#[derive(Debug)]
pub(crate) struct LaneName {
    pub(crate) kind: Arc<str>,
    pub(crate) schema_version: u32,
    pub(crate) priority: u8,
}

/// Type, schema version and priority.
pub(crate) type NameOfLane<'a> = (&'a str, u32, u8);

impl LaneName {
    pub(crate) fn parts(&self) -> NameOfLane<'_> {
        (&self.kind, self.schema_version, self.priority)
    }
}

/// The lane of a finished job.
pub(crate) const NO_LANE: u16 = u16::MAX;

/// Ready jobs of one priority, type and schema version.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) name: Arc<LaneName>,
    /// Unfinished and dead jobs that name this lane; at 0 the lane goes.
    pub(crate) jobs: u32,
    pub(crate) ready: BTreeMap<Spot, Slot>,
    /// Place of its type's timing among the queue's figures.
    pub(crate) timing: usize,
    /// Groups that may give a job now: rank (turn, or the head's place) and group.
    pub(crate) ring: BTreeSet<(u128, Slot)>,
}

/// A group's part in one lane.
#[derive(Debug)]
pub(crate) struct GroupLane {
    pub(crate) lane: u16,
    pub(crate) ready: u32,
    /// Its rank in the lane's ring, when it is in it.
    pub(crate) rank: Option<u128>,
}

/// Jobs that belong together; the jobs of a queue without a group are one group too.
#[derive(Debug)]
pub(crate) struct Group {
    /// Hash of queue and group; of the queue alone for jobs without one.
    pub(crate) hash: Hash,
    pub(crate) queue: u32,
    /// Jobs in any state that name this group; at 0 the group goes.
    pub(crate) jobs: u32,
    pub(crate) in_flight: u32,
    pub(crate) turn: u64,
    /// Jobs that were received while the queue was ordered, until they have ended or died: one, or of a FIFO
    /// queue a few.
    pub(crate) holders: Vec<Slot>,
    pub(crate) lanes: Vec<GroupLane>,
    /// Ready jobs that the group itself holds back, as last told to the queue.
    pub(crate) held: (GroupHold, u32),
}

/// Why a group holds jobs back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum GroupHold {
    #[default]
    Nothing,
    Limit,
    Order,
    Rate,
}

impl Group {
    pub(crate) fn new(hash: Hash, queue: u32) -> Self {
        Self {
            hash,
            queue,
            jobs: 0,
            in_flight: 0,
            turn: 0,
            holders: Vec::new(),
            lanes: Vec::new(),
            held: (GroupHold::Nothing, 0),
        }
    }

    pub(crate) fn ready(&self) -> u32 {
        self.lanes.iter().map(|lane| lane.ready).sum()
    }
}

impl Keyed for Group {
    fn key(&self) -> u128 {
        self.hash.0
    }
}

/// Dead jobs with one fingerprint.
#[derive(Debug)]
pub(crate) struct Fingerprint {
    pub(crate) kind: Arc<str>,
    pub(crate) jobs: BTreeSet<(u64, Slot)>,
}

/// One queue.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) record: QueueRecord,
    pub(crate) name: Arc<str>,
    pub(crate) settings: Settings,
    pub(crate) link: Link,
    pub(crate) lanes: Vec<Option<Lane>>,
    /// Numbers of the lanes in the order of their names.
    pub(crate) lanes_by_name: Vec<u16>,
    /// Where the newest job stands, most likely that of the next one too.
    pub(crate) newest_lane: u16,
    /// Lanes with a group that may give a job, highest priority first.
    pub(crate) open_lanes: BTreeSet<(u8, u16)>,
    pub(crate) next_turn: u64,
    /// Group of the jobs without a group.
    pub(crate) no_group: Slot,
    /// By due instant.
    pub(crate) delayed: BTreeMap<Spot, Slot>,
    /// Ready but out of its lane because of its idempotency key, and blocked.
    pub(crate) aside: BTreeMap<Spot, Slot>,
    /// In-flight jobs of each worker; those that gave no name are under the empty one.
    pub(crate) workers: BTreeMap<Box<str>, u64>,
    /// By the instant of the receive.
    pub(crate) in_flight: BTreeMap<Spot, Slot>,
    /// By the instant of death.
    pub(crate) dead: BTreeMap<Spot, Slot>,
    /// Completed, cancelled and expired, by the instant of their end.
    pub(crate) finished: BTreeMap<Spot, Slot>,
    pub(crate) counts: [u64; State::ALL.len()],
    pub(crate) held_by_key: u64,
    pub(crate) held_by_group_limit: u64,
    pub(crate) held_by_group_order: u64,
    pub(crate) held_by_group_rate: u64,
    /// Blocked jobs that wait for children.
    pub(crate) parents: u64,
    pub(crate) fingerprints: BTreeMap<u64, Fingerprint>,
    /// The same, largest first.
    pub(crate) fingerprints_by_size: BTreeSet<(Reverse<usize>, u64)>,
    /// Idempotency keys it holds.
    pub(crate) keys: u64,
    /// Producers that have numbered batches for it.
    pub(crate) producers: u64,
    /// Deduplication keys it holds.
    pub(crate) dedups: u64,
    /// Notes on its dead jobs.
    pub(crate) notes: u64,
    /// Guards under its keys.
    pub(crate) guards: u64,
    /// Where a retention ends jobs: the unfinished ones by the instant from which it counts, and number.
    pub(crate) by_age: BTreeSet<(u64, u64)>,
    /// Numbers of the shared limits that it names.
    pub(crate) limits: Arc<[u32]>,
    /// Tokens of its rate limit.
    pub(crate) bucket: Bucket,
    /// What its breaker counts.
    pub(crate) trials: Trials,
    /// Rest of its groups after a start.
    pub(crate) group_rest: GroupRest,
    /// Its deliveries are counted: it has a rate limit or breaker, or names a shared limit.
    pub(crate) is_metered: bool,
    pub(crate) figures: Figures,
    /// A forced delete is at work: nothing is handed out or taken in.
    pub(crate) is_going: bool,
}

impl Queue {
    pub(crate) fn count(&self, state: State) -> u64 {
        self.counts[state as usize]
    }

    /// It hands off to the queue of this name.
    pub(crate) fn redrives_to(&self, target: &str) -> bool {
        self.settings.redrive.as_ref().is_some_and(|redrive| &*redrive.target == target)
    }

    /// When the retention ends its oldest job.
    pub(crate) fn retention_ends_at(&self) -> Option<u64> {
        let (since, _) = self.by_age.first()?;
        Some(since.saturating_add(self.settings.retention_ms?))
    }

    /// What `maxDepth` counts.
    pub(crate) fn depth(&self) -> u64 {
        [State::Ready, State::Delayed, State::Blocked, State::InFlight].into_iter().map(|s| self.count(s)).sum()
    }

    pub(crate) fn jobs(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub(crate) fn lane(&self, lane: u16) -> &Lane {
        match self.lanes.get(usize::from(lane)) {
            Some(Some(lane)) => lane,
            _ => panic!("lane {lane} of queue {} is not there", self.record.number),
        }
    }

    pub(crate) fn lane_mut(&mut self, lane: u16) -> &mut Lane {
        match self.lanes.get_mut(usize::from(lane)) {
            Some(Some(lane)) => lane,
            _ => panic!("lane {lane} of queue {} is not there", self.record.number),
        }
    }

    pub(crate) fn lanes(&self) -> impl Iterator<Item = (u16, &Lane)> {
        let numbered = self.lanes.iter().enumerate();
        numbered.filter_map(|(number, lane)| Some((number as u16, lane.as_ref()?)))
    }

    pub(crate) fn lane_count(&self) -> usize {
        self.lanes_by_name.len()
    }

    /// Number of the lane with this name, or its place among the names.
    pub(crate) fn find_lane(&self, name: NameOfLane<'_>) -> Result<u16, usize> {
        let newest = self.lanes.get(usize::from(self.newest_lane)).and_then(Option::as_ref);
        if newest.is_some_and(|lane| lane.name.parts() == name) {
            return Ok(self.newest_lane);
        }
        let place = self.lanes_by_name.binary_search_by(|number| self.lane(*number).name.parts().cmp(&name));
        place.map(|place| self.lanes_by_name[place])
    }

    /// One job more names the lane, which is made if need be.
    pub(crate) fn enter_lane(&mut self, name: NameOfLane<'_>) -> u16 {
        let number = self.find_lane(name).unwrap_or_else(|place| self.open_lane(place, name));
        self.lane_mut(number).jobs += 1;
        self.newest_lane = number;
        number
    }

    fn open_lane(&mut self, place: usize, (kind, schema_version, priority): NameOfLane<'_>) -> u16 {
        let name = Arc::new(LaneName { kind: kind.into(), schema_version, priority });
        let is_used = |place: usize| self.lanes.iter().flatten().any(|lane| lane.timing == place);
        let timing = self.figures.timing_of(kind, is_used);
        let lane = Some(Lane { name, jobs: 0, ready: BTreeMap::new(), timing, ring: BTreeSet::new() });
        let number = self.lanes.iter().position(Option::is_none).unwrap_or(self.lanes.len());
        match self.lanes.get_mut(number) {
            Some(free) => *free = lane,
            None => self.lanes.push(lane),
        }
        let number = u16::try_from(number).unwrap_or_else(|_| panic!("a queue has at most {LANES_MAX} lanes"));
        self.lanes_by_name.insert(place, number);
        number
    }

    /// One job less names the lane.
    pub(crate) fn leave_lane(&mut self, number: u16) {
        let lane = self.lane_mut(number);
        lane.jobs -= 1;
        if lane.jobs == 0 {
            assert!(lane.ready.is_empty() && lane.ring.is_empty(), "an unused lane is empty");
            self.lanes_by_name.retain(|there| *there != number);
            self.lanes[usize::from(number)] = None;
        }
    }
}

/// A bulk action.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) record: crate::event::TaskRecord,
    pub(crate) patch: Option<crate::reply::Place>,
    pub(crate) link: Link,
}

/// An operator's action.
#[derive(Debug)]
pub(crate) struct AuditEntry {
    pub(crate) record: crate::event::AuditRecord,
    pub(crate) link: Link,
}

/// A note on a group of dead jobs.
#[derive(Debug)]
pub(crate) struct Note {
    pub(crate) queue: u32,
    pub(crate) fingerprint: u64,
    pub(crate) text: Box<str>,
    pub(crate) link: Link,
}

impl Keyed for Note {
    fn key(&self) -> u128 {
        crate::state::standing::note_key(self.queue, self.fingerprint)
    }
}

/// Jobs handed out to one `attemptId`.
#[derive(Debug, Default)]
pub(crate) struct Attempt {
    pub(crate) jobs: Vec<JobId>,
    pub(crate) received_at: u64,
}
