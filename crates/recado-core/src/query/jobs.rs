//! Jobs: one, those of a queue, those of a business object.
//!
//! One line drives a list. A key or a business object that was given drives, newest first; else the lines of
//! the wanted states, one part after the other. The other conditions filter what the walk meets. A page goes on
//! behind the last place that the page before looked at, so jobs that stay where they are are neither skipped
//! nor shown twice, whatever comes and goes.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BinaryHeap};
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::ops::Bound;

use super::cursor::{Mark, Walk};
use super::{Answer, Answered, JobsQuery, Page};
use crate::decide::find_queue;
use crate::id::{Hash, JobId};
use crate::rejection::Rejection;
use crate::reply::{JobView, State as JobState};
use crate::state::members::{Lines, Members};
use crate::state::{Job, Lane, NONE, Presence, Queue, Slot, Spot, State, domain};

/// Parts of the list of a queue: the ready by priority, 255 first, as 0 to 255; then these.
const PART_ASIDE: u32 = 256;
const PART_DELAYED: u32 = 257;
const PART_IN_FLIGHT: u32 = 258;
const PART_DEAD: u32 = 259;
const PART_FINISHED: u32 = 260;

pub(super) fn one(state: &State, presence: &Presence, now: u64, id: JobId) -> Answered {
    let slot = state.slot_of(id).ok_or(Rejection::JobGone(id))?;
    let children = state.children_view(&state.jobs[slot], true, now);
    Ok(Answer::Job(Box::new(JobView { children, ..state.view(slot, Some(presence), now) })))
}

pub(super) fn of_business(state: &State, presence: &Presence, now: u64, id: &str, page: &Page) -> Answered {
    let below = page.mark()?.map_or(u64::MAX, |mark| mark.spot as u64);
    let mut walk = Walk::new(page);
    if let Some(business) = state.businesses.find(state.hash(domain::BUSINESS, 0, id).0) {
        let mut newest_first = state.businesses[business].jobs.newest_first(below, &state.jobs);
        let _ = newest_first.all(|(seq, slot)| walk.look(Mark::at(u128::from(seq)), || Some(slot)));
    }
    Ok(jobs(state, presence, now, walk))
}

pub(super) fn of_queue(state: &State, presence: &Presence, now: u64, query: &JobsQuery) -> Answered {
    let queue = find_queue(state, &query.queue)?;
    let from = query.page.mark()?;
    let mut walk = Walk::new(&query.page);
    if let Some(wanted) = Wanted::of(state, queue, query, now) {
        let mut list = List { state, queue, wanted: &wanted, from, walk: &mut walk };
        if let Some(business) = wanted.business {
            list.newest_first(&state.businesses[business].jobs);
        } else if let Some(key) = wanted.key {
            list.newest_first(&state.keys[key].jobs);
        } else if let Some(hash) = wanted.dedup {
            list.of_dedup(hash);
        } else {
            list.by_state();
        }
    }
    Ok(jobs(state, presence, now, walk))
}

fn jobs(state: &State, presence: &Presence, now: u64, walk: Walk<Slot>) -> Answer {
    let (slots, cursor) = walk.end();
    Answer::Jobs { jobs: slots.into_iter().map(|slot| state.view(slot, Some(presence), now)).collect(), cursor }
}

/// The conditions of a query, with keys as what stands for them in the state.
struct Wanted<'a> {
    query: &'a JobsQuery,
    now: u64,
    group: Option<Slot>,
    business: Option<Slot>,
    key: Option<Slot>,
    dedup: Option<Hash>,
}

impl<'a> Wanted<'a> {
    /// `None` when no job can be meant, because none has the group or key.
    fn of(state: &State, queue: &Queue, query: &'a JobsQuery, now: u64) -> Option<Self> {
        let number = queue.record.number;
        let mut wanted = Self { query, now, group: None, business: None, key: None, dedup: None };
        if let Some(group) = &query.group {
            wanted.group = Some(state.groups.find(state.hash(domain::GROUP, number, group).0)?);
        }
        if let Some(id) = &query.business_id {
            wanted.business = Some(state.businesses.find(state.hash(domain::BUSINESS, 0, id).0)?);
        }
        if let Some(key) = &query.idempotency_key {
            wanted.key = Some(state.keys.find(state.hash(domain::KEY, number, key).0)?);
        }
        let in_group = queue.settings.fifo.is_some_and(|fifo| fifo.dedup_in_group);
        let group = query.group.as_deref().filter(|_| in_group);
        wanted.dedup = query.dedup_key.as_ref().map(|key| state.dedup_hash(number, key, group));
        Some(wanted)
    }

    fn state(&self, state: JobState) -> bool {
        self.query.states.is_empty() || self.query.states.contains(&state)
    }

    fn kind(&self, kind: &str) -> bool {
        self.query.kind.as_deref().is_none_or(|wanted| wanted == kind)
    }

    fn job(&self, state: &State, queue: &Queue, job: &Job) -> bool {
        let query = self.query;
        let now = state.state_at(job, self.now);
        // Texts of errors are not in the state; the kind of the last one is kept with a death.
        let is_of_error = |kind: &str| job.death().is_some_and(|death| *death.error_kind == *kind);
        let at = if now == JobState::Dead { job.ended_at() } else { job.id.enqueued_at() };
        job.queue == queue.record.number
            && self.state(now)
            && self.kind(&state.lane_name(job).kind)
            && self.group.is_none_or(|group| job.group == group)
            && self.business.is_none_or(|business| job.business == business)
            && self.key.is_none_or(|key| job.key == key)
            && self.dedup.is_none_or(|hash| has_dedup(state, job, hash))
            && query.error_kind.as_deref().is_none_or(is_of_error)
            && query.before.is_none_or(|before| at < before)
            && query.after.is_none_or(|after| at > after)
    }
}

/// The job holds this deduplication key, or held it until its death.
fn has_dedup(state: &State, job: &Job, hash: Hash) -> bool {
    let held = (job.dedup != NONE).then(|| state.dedups[job.dedup].hash);
    let released = job.rare().and_then(|rare| rare.released_dedup);
    held.or(released.map(|dedup| dedup.hash)) == Some(hash)
}

struct List<'a> {
    state: &'a State,
    queue: &'a Queue,
    wanted: &'a Wanted<'a>,
    from: Option<Mark>,
    walk: &'a mut Walk<Slot>,
}

impl List<'_> {
    /// False ends the page.
    fn look(&mut self, part: u32, spot: u128, slot: Slot) -> bool {
        let is_meant = || self.wanted.job(self.state, self.queue, &self.state.jobs[slot]).then_some(slot);
        self.walk.look(Mark { part, spot }, is_meant)
    }

    /// The place in `part` that the page before ended at.
    fn last_in(&self, part: u32) -> Option<Spot> {
        self.from.filter(|mark| mark.part == part).map(|mark| Spot(mark.spot))
    }

    fn newest_first<L: Lines>(&mut self, members: &Members<L>) {
        let below = self.from.map_or(u64::MAX, |mark| mark.spot as u64);
        let _ = members.newest_first(below, &self.state.jobs).all(|(seq, slot)| self.look(0, u128::from(seq), slot));
    }

    /// The one job that holds the key, and the dead that gave it up. Of others the state knows no key.
    fn of_dedup(&mut self, hash: Hash) {
        let holder = self.state.dedups.get_by(hash.0).and_then(|entry| entry.job).unwrap_or(NONE);
        if holder != NONE && self.from.is_none() && !self.look(0, 0, holder) {
            return;
        }
        if self.wanted.state(JobState::Dead) {
            self.dead(holder);
        }
    }

    fn by_state(&mut self) {
        let from = self.from.map_or(0, |mark| mark.part);
        let wants = |state| self.wanted.state(state);
        let [ready, blocked, delayed] = [JobState::Ready, JobState::Blocked, JobState::Delayed].map(wants);
        let [in_flight, dead] = [JobState::InFlight, JobState::Dead].map(wants);
        let finished = JobState::ALL.into_iter().any(|state| state.is_final() && wants(state));
        if ready && from < PART_ASIDE && !self.ready(from) {
            return;
        }
        if (ready || blocked) && from <= PART_ASIDE {
            let range = self.range(PART_ASIDE);
            if !self.upward(PART_ASIDE, &self.queue.aside, range) {
                return;
            }
        }
        if (delayed || ready) && from <= PART_DELAYED {
            let after = self.last_in(PART_DELAYED).map_or(Bound::Unbounded, Bound::Excluded);
            // Without the delayed only those are meant whose time has come: they count as ready.
            let end = if delayed { Bound::Unbounded } else { Bound::Included(Spot::new(0, self.wanted.now, u64::MAX)) };
            if !is_empty(after, end) && !self.upward(PART_DELAYED, &self.queue.delayed, (after, end)) {
                return;
            }
        }
        if in_flight && from <= PART_IN_FLIGHT {
            let after = self.last_in(PART_IN_FLIGHT).map_or(Bound::Unbounded, Bound::Excluded);
            if !self.upward(PART_IN_FLIGHT, &self.queue.in_flight, (after, Bound::Unbounded)) {
                return;
            }
        }
        if dead && from <= PART_DEAD && !self.dead(NONE) {
            return;
        }
        if finished && from <= PART_FINISHED {
            let before = self.last_in(PART_FINISHED).map_or(Bound::Unbounded, Bound::Excluded);
            self.downward(PART_FINISHED, &self.queue.finished, (Bound::Unbounded, before), NONE);
        }
    }

    /// The ready in the order of their delivery: priorities downward, the lanes of each merged. Groups come one
    /// after the other: their turns change with every receive, and a cursor must not depend on them.
    fn ready(&mut self, from: u32) -> bool {
        let mut by_priority: BTreeMap<u32, Vec<&Lane>> = BTreeMap::new();
        for (_, lane) in self.queue.lanes().filter(|(_, lane)| self.wanted.kind(&lane.name.kind)) {
            by_priority.entry(u32::from(u8::MAX - lane.name.priority)).or_default().push(lane);
        }
        by_priority.range(from..).all(|(part, lanes)| self.merged(*part, lanes))
    }

    fn merged(&mut self, part: u32, lanes: &[&Lane]) -> bool {
        let range = self.range(part);
        if is_empty(range.0, range.1) {
            return true;
        }
        let mut lines: Vec<_> = lanes.iter().map(|lane| lane.ready.range(range)).collect();
        let mut heads = BinaryHeap::with_capacity(lines.len());
        for (line, jobs) in lines.iter_mut().enumerate() {
            heads.extend(jobs.next().map(|(spot, slot)| Reverse((*spot, line, *slot))));
        }
        while let Some(Reverse((spot, line, slot))) = heads.pop() {
            if !self.look(part, spot.0, slot) {
                return false;
            }
            heads.extend(lines[line].next().map(|(spot, slot)| Reverse((*spot, line, *slot))));
        }
        true
    }

    /// What is left of a line that is ordered by group first.
    fn range(&self, part: u32) -> (Bound<Spot>, Bound<Spot>) {
        let after = self.last_in(part).map_or(Bound::Unbounded, Bound::Excluded);
        match self.wanted.group {
            None => (after, Bound::Unbounded),
            Some(group) => {
                let first = Bound::Included(Spot::first_of(group));
                let is_behind = self.last_in(part).is_some_and(|last| last >= Spot::first_of(group));
                (if is_behind { after } else { first }, Bound::Included(Spot::last_of(group)))
            }
        }
    }

    fn upward(&mut self, part: u32, line: &BTreeMap<Spot, Slot>, range: (Bound<Spot>, Bound<Spot>)) -> bool {
        is_empty(range.0, range.1) || line.range(range).all(|(spot, slot)| self.look(part, spot.0, *slot))
    }

    fn downward(
        &mut self,
        part: u32,
        line: &BTreeMap<Spot, Slot>,
        range: (Bound<Spot>, Bound<Spot>),
        except: Slot,
    ) -> bool {
        let mut newest_first = if is_empty(range.0, range.1) { None } else { Some(line.range(range).rev()) };
        newest_first
            .iter_mut()
            .flatten()
            .filter(|(_, slot)| **slot != except)
            .all(|(spot, slot)| self.look(part, spot.0, *slot))
    }

    /// The dead, newest first, by the instant of their death.
    fn dead(&mut self, except: Slot) -> bool {
        let query = self.wanted.query;
        let before = query.before.map(|before| Spot::new(0, before, 0));
        let end = before.into_iter().chain(self.last_in(PART_DEAD)).min().map_or(Bound::Unbounded, Bound::Excluded);
        let start = query.after.map_or(Bound::Unbounded, |after| Bound::Included(Spot::new(0, after, 0)));
        self.downward(PART_DEAD, &self.queue.dead, (start, end), except)
    }
}

/// A map refuses a range whose end is before its start; here that is just a range without jobs.
fn is_empty(start: Bound<Spot>, end: Bound<Spot>) -> bool {
    match (start, end) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(start), Bound::Included(end)) => start > end,
        (Bound::Included(start) | Bound::Excluded(start), Bound::Included(end) | Bound::Excluded(end)) => start >= end,
    }
}
