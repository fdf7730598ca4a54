//! What must hold of the structures at the tip of the log, for tests: what one structure says of a job, all
//! others say too. Everything is counted anew from the jobs.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::apply::TASK_KEPT_MS;
use crate::event::{BreakerOf, ChildEnd};
use crate::items::ItemKind;
use crate::reply::State as JobState;
use crate::state::age::is_unfinished;
use crate::state::held::KeyLines;
use crate::state::members::{Lines, Members};
use crate::state::queue::GroupHold;
use crate::state::slab::{NONE, Slot};
use crate::state::standing::first_visible;
use crate::state::{Group, Job, Key, NO_LANE, Queue, Spot, State, Timer, flag};

impl State {
    /// Panics when one structure says something else than another.
    #[doc(hidden)]
    pub fn check(&self) {
        for queue in self.queues.values() {
            self.check_queue(queue);
            self.check_lanes(queue);
            self.check_dead(queue);
        }
        let in_flight: u64 = self.queues.values().map(|queue| queue.count(JobState::InFlight)).sum();
        assert_eq!(self.in_flight, in_flight, "jobs in flight over all queues");
        let aging: usize = self.queues.values().map(|queue| queue.by_age.len()).sum();
        assert_eq!(self.aging, aging, "jobs that a retention may end");
        for (slot, job) in self.jobs.iter() {
            self.check_job(slot, job);
            self.check_growth(job);
        }
        for (slot, group) in self.groups.iter() {
            self.check_group(slot, group);
        }
        self.check_names();
        self.check_keys();
        self.check_waits();
        self.check_families();
        self.check_guards();
        self.check_limits();
        self.check_schedules();
        self.check_timers();
        self.check_items();
    }

    fn jobs_in<'a>(&'a self, queue: &'a Queue) -> impl Iterator<Item = (Slot, &'a Job)> {
        self.jobs.iter().filter(|(_, job)| job.queue == queue.record.number)
    }

    /// A ready job that stands aside, not in its lane.
    fn is_aside(&self, job: &Job) -> bool {
        let is_alike = |other: &Job| {
            (other.key, other.state, other.lane, other.group) == (job.key, job.state, job.lane, job.group)
                && other.has(flag::IGNORE_KEY) == job.has(flag::IGNORE_KEY)
                && (other.due_at, other.id.seq()) < (job.due_at, job.id.seq())
        };
        !self.waits_in_line(job) && (self.is_held_by_key(job) || self.jobs.iter().any(|(_, other)| is_alike(other)))
    }

    fn check_queue(&self, queue: &Queue) {
        let name = &queue.name;
        let mut counts = [0u64; JobState::ALL.len()];
        let mut workers: BTreeMap<_, u64> = BTreeMap::new();
        let (mut held, mut parents) = ([0u64; 4], 0);
        for (_, job) in self.jobs_in(queue) {
            parents += u64::from(job.state == JobState::Blocked && self.families.contains_key(&job.id.seq()));
            counts[job.state as usize] += 1;
            held[0] += u64::from(job.state == JobState::Ready && self.is_held_by_key(job));
            if let Some(lease) = job.lease().filter(|_| job.state == JobState::InFlight) {
                *workers.entry(lease.worker.clone().unwrap_or_default()).or_default() += 1;
            }
        }
        for (_, group) in self.groups.iter().filter(|(_, group)| group.queue == queue.record.number) {
            held[1] += if group.held.0 == GroupHold::Limit { u64::from(group.held.1) } else { 0 };
            held[2] += if group.held.0 == GroupHold::Order { u64::from(group.held.1) } else { 0 };
            held[3] += if group.held.0 == GroupHold::Rate { u64::from(group.held.1) } else { 0 };
        }
        assert_eq!(queue.counts, counts, "jobs of `{name}` by state");
        assert_eq!(queue.parents, parents, "jobs of `{name}` that wait for children");
        assert_eq!(queue.workers, workers, "jobs of `{name}` by worker");
        let of_groups = [queue.held_by_group_limit, queue.held_by_group_order, queue.held_by_group_rate];
        assert_eq!((queue.held_by_key, &of_groups[..]), (held[0], &held[1..]), "held in `{name}`");
        let in_lanes: usize = queue.lanes().map(|(_, lane)| lane.ready.len()).sum();
        let count = |states: &[JobState]| states.iter().map(|state| queue.count(*state)).sum::<u64>();
        let lines = [in_lanes + queue.aside.len(), queue.delayed.len(), queue.in_flight.len(), queue.dead.len()];
        let ended = queue.finished.len() as u64;
        let expected: [&[JobState]; 4] =
            [&[JobState::Ready, JobState::Blocked], &[JobState::Delayed], &[JobState::InFlight], &[JobState::Dead]];
        assert_eq!(lines.map(|line| line as u64), expected.map(count), "lines of `{name}`");
        assert_eq!(ended, count(&[JobState::Completed, JobState::Cancelled, JobState::Expired]), "ended of `{name}`");
        let keys = self.keys.iter().filter(|(_, key)| key.queue == queue.record.number).count();
        assert_eq!(queue.keys, keys as u64, "keys of `{name}`");
        let producers = self.producers.iter().filter(|(_, producer)| producer.queue == queue.record.number).count();
        assert_eq!(queue.producers, producers as u64, "producers of `{name}`");
        let idle = self.idle_producers.range((queue.record.number, 0, 0)..=(queue.record.number, u64::MAX, Slot::MAX));
        let is_its = |(number, at, slot): &(u32, u64, Slot)| {
            self.producers.get(*slot).is_some_and(|producer| producer.queue == *number && producer.at == *at)
        };
        assert!(idle.clone().all(is_its) && idle.count() == producers, "producers of `{name}` by idleness");
        let dedups =
            self.dedups.iter().filter(|(slot, _)| self.dedup_window(*slot).queue == queue.record.number).count();
        let notes = self.notes.iter().filter(|(_, note)| note.queue == queue.record.number).count();
        assert_eq!((queue.dedups, queue.notes), (dedups as u64, notes as u64), "keys and notes of `{name}`");
        let retains = queue.settings.retention_ms.is_some();
        let aging = self.jobs_in(queue).filter(|(_, job)| retains && is_unfinished(job));
        let by_age = aging.map(|(_, job)| (self.retained_since(job), job.id.seq())).collect();
        assert_eq!(queue.by_age, by_age, "jobs of `{name}` by age");
        let is_overfull = self.overfull.contains(&queue.record.number);
        assert_eq!(is_overfull, ended > queue.settings.kept_max(), "`{name}` keeps more than it may");
    }

    fn check_lanes(&self, queue: &Queue) {
        let mut by_name = BTreeMap::new();
        let mut open = BTreeSet::new();
        for (number, lane) in queue.lanes() {
            let jobs = self.jobs_in(queue).filter(|(_, job)| job.lane == number).count();
            assert!(jobs > 0 && jobs == lane.jobs as usize, "lane {number} has {jobs} jobs, not {}", lane.jobs);
            by_name.insert(lane.name.parts(), number);
            if !lane.ring.is_empty() {
                open.insert((u8::MAX - lane.name.priority, number));
            }
            let groups = self.groups.iter().flat_map(|(slot, group)| group.lanes.iter().map(move |part| (slot, part)));
            let here =
                groups.filter(|(slot, part)| self.groups[*slot].queue == queue.record.number && part.lane == number);
            let ring = here.filter_map(|(slot, part)| Some((part.rank?, slot))).collect::<BTreeSet<_>>();
            assert_eq!(lane.ring, ring, "ring of lane {number}");
        }
        let by_name: Vec<u16> = by_name.into_values().collect();
        assert_eq!((&queue.lanes_by_name, &queue.open_lanes), (&by_name, &open), "lanes of `{}`", queue.name);
    }

    fn check_dead(&self, queue: &Queue) {
        let mut groups: BTreeMap<u64, BTreeSet<(u64, Slot)>> = BTreeMap::new();
        for (slot, job) in self.jobs_in(queue).filter(|(_, job)| job.state == JobState::Dead) {
            let fingerprint = job.death().map_or(0, |death| death.fingerprint);
            groups.entry(fingerprint).or_default().insert((job.ended_at(), slot));
        }
        let sizes: BTreeSet<_> = groups.iter().map(|(print, jobs)| (Reverse(jobs.len()), *print)).collect();
        assert_eq!(queue.fingerprints_by_size, sizes, "fingerprints of `{}` by size", queue.name);
        let there: BTreeMap<_, _> =
            queue.fingerprints.iter().map(|(print, group)| (*print, group.jobs.clone())).collect();
        assert_eq!(there, groups, "fingerprints of `{}`", queue.name);
    }

    fn check_job(&self, slot: Slot, job: &Job) {
        let id = job.id;
        let Some(queue) = self.queues.get(&job.queue) else { panic!("{id} is in a queue that is gone") };
        let seq = id.seq();
        let (line, spot) = match job.state {
            JobState::Ready if self.is_aside(job) => (&queue.aside, Spot::new(job.group, job.due_at, seq)),
            JobState::Ready => (&queue.lane(job.lane).ready, Spot::new(job.group, job.due_at, seq)),
            JobState::Delayed => (&queue.delayed, Spot::new(0, job.due_at, seq)),
            JobState::Blocked => (&queue.aside, Spot::new(job.group, job.due_at, seq)),
            JobState::InFlight => {
                (&queue.in_flight, Spot::new(0, job.lease().map_or(0, |lease| lease.received_at), seq))
            }
            JobState::Dead => (&queue.dead, Spot::new(0, job.ended_at(), seq)),
            JobState::Completed | JobState::Cancelled | JobState::Expired => {
                (&queue.finished, Spot::new(0, job.ended_at(), seq))
            }
        };
        assert_eq!(line.get(&spot), Some(&slot), "{id} is {} and stands there", job.state);
        assert_eq!(job.lane == NO_LANE, job.state.is_final(), "{id} is in a lane until it has ended");
        assert_eq!(self.slot_of_seq(seq), Some(slot), "{id} is found");
        assert!(self.seq >= seq, "the numbers of jobs are behind {id}");
        let group = &self.groups[job.group];
        assert_eq!(group.queue, job.queue, "{id} is in a group of its queue");
        if job.dedup != NONE {
            assert_eq!(self.dedups[job.dedup].job, Some(slot), "{id} holds its deduplication key");
        }
        let oldest = job.places().map(|place| place.position).min();
        assert!(oldest >= Some(job.link.base), "{id} needs what stands before its base {}", job.link.base);
    }

    fn check_group(&self, slot: Slot, group: &Group) {
        let Some(queue) = self.queues.get(&group.queue) else { panic!("group {slot} is of a queue that is gone") };
        let is_grouped = slot != queue.no_group;
        let jobs: Vec<(Slot, &Job)> = self.jobs.iter().filter(|(_, job)| job.group == slot).collect();
        let in_flight = jobs.iter().filter(|(_, job)| job.state == JobState::InFlight).count();
        assert_eq!((group.jobs, group.in_flight), (jobs.len() as u32, in_flight as u32), "jobs of group {slot}");
        assert!(group.jobs > 0 || !is_grouped, "group {slot} is used");
        let mut ready: BTreeMap<u16, Vec<Slot>> = BTreeMap::new();
        for (job, at) in jobs.iter().filter(|(_, job)| job.state == JobState::Ready && !self.is_aside(job)) {
            ready.entry(at.lane).or_default().push(*job);
        }
        let parts: BTreeMap<u16, usize> = group.lanes.iter().map(|part| (part.lane, part.ready as usize)).collect();
        let expected: BTreeMap<u16, usize> = ready.iter().map(|(lane, jobs)| (*lane, jobs.len())).collect();
        assert_eq!(parts, expected, "ready jobs of group {slot} by lane");
        for holder in &group.holders {
            let holder = self.jobs.get(*holder);
            assert!(holder.is_some_and(|job| job.group == slot && !job.state.is_final()), "holder of group {slot}");
        }
        let limit = queue.settings.group_max_in_flight.filter(|_| is_grouped);
        let is_at_limit = limit.is_some_and(|limit| group.in_flight >= limit);
        let is_spent = self.is_group_spent(slot);
        let orders = queue.settings.ordered && is_grouped;
        let total = group.ready();
        let giver = self.giver(group, &ready);
        for part in &group.lanes {
            let gives =
                !is_at_limit && !is_spent && (!orders || giver.is_some_and(|job| self.jobs[job].lane == part.lane));
            assert_eq!(part.rank.is_some(), gives, "group {slot} gives from lane {}", part.lane);
            let order = |job: Slot| Spot::new(slot, self.jobs[job].due_at, self.jobs[job].id.seq()).order();
            let head = if orders { giver.map(order) } else { ready[&part.lane].iter().map(|job| order(*job)).min() };
            let rank = if queue.settings.fair { Some(u128::from(group.turn)) } else { head };
            assert_eq!(part.rank, rank.filter(|_| gives), "rank of group {slot} in lane {}", part.lane);
        }
        let held = match orders {
            _ if is_at_limit => (GroupHold::Limit, total),
            _ if is_spent => (GroupHold::Rate, total),
            true => (GroupHold::Order, total - u32::from(giver.is_some())),
            false => (GroupHold::Nothing, 0),
        };
        // Nothing held by order is nothing held.
        assert_eq!(group.held.1, held.1, "held by group {slot}");
        assert!(held.1 == 0 || group.held.0 == held.0, "group {slot} holds for {:?}", held.0);
    }

    /// The job that an ordered group may give.
    fn giver(&self, group: &Group, ready: &BTreeMap<u16, Vec<Slot>>) -> Option<Slot> {
        let place = |slot: &Slot| (self.jobs[*slot].due_at, self.jobs[*slot].id.seq());
        let first = ready.values().flatten().copied().min_by_key(place);
        let next = if group.holders.is_empty() { first } else { first_visible(&group.holders, &self.jobs) };
        let is_fifo = self.queue(group.queue).settings.fifo.is_some();
        next.filter(|slot| {
            let job = &self.jobs[*slot];
            (group.in_flight == 0 || is_fifo) && job.state == JobState::Ready && !self.is_held_by_key(job)
        })
    }

    fn check_names(&self) {
        let names: BTreeMap<_, _> = self.queues.values().map(|q| (q.record.name.clone(), q.record.number)).collect();
        assert_eq!(self.names, names, "queues by name");
        assert_eq!(self.queues.len(), names.len(), "names are unique");
        for queue in self.queues.values() {
            assert!(!queue.name.is_empty(), "queue {} has shown its record", queue.record.number);
            assert_eq!(*queue.record.name, *queue.name, "name of queue {}", queue.record.number);
            assert_eq!(queue.settings, queue.record.options.settings(&self.defaults), "settings of `{}`", queue.name);
        }
    }

    fn check_keys(&self) {
        let mut of_key: BTreeMap<Slot, BTreeMap<u64, Slot>> = BTreeMap::new();
        let mut of_business: BTreeMap<Slot, BTreeMap<u64, Slot>> = BTreeMap::new();
        for (slot, job) in self.jobs.iter() {
            of_key.entry(job.key).or_default().insert(job.id.seq(), slot);
            of_business.entry(job.business).or_default().insert(job.id.seq(), slot);
        }
        let mut to_skip = BTreeSet::new();
        for (slot, key) in self.keys.iter() {
            let jobs = of_key.remove(&slot).unwrap_or_default();
            self.check_key(slot, key, &jobs);
            if jobs.values().any(|job| self.is_to_skip(*job)) {
                to_skip.insert(slot);
            }
        }
        assert_eq!(self.to_skip, to_skip, "keys with jobs to skip");
        let unused = self.keys.iter().filter(|(_, key)| key.jobs.is_empty() && !key.has_completed());
        assert_eq!(self.unused_keys, unused.map(|(slot, _)| slot).collect(), "keys that nothing needs");
        for (slot, business) in self.businesses.iter() {
            let jobs = of_business.remove(&slot).unwrap_or_default();
            let listed: BTreeMap<u64, Slot> = business.jobs.newest_first(u64::MAX, &self.jobs).collect();
            assert!(!jobs.is_empty() && jobs == listed, "jobs of business object {slot}");
            let Members::Many(crowd) = &business.jobs else { continue };
            let open = jobs.into_iter().filter(|(_, job)| self.jobs[*job].can_be_cancelled());
            assert_eq!(crowd.lines.0, open.collect(), "jobs of business object {slot} that can be cancelled");
        }
        for (slot, entry) in self.dedups.iter() {
            let is_held = |job: Slot| self.jobs.get(job).is_some_and(|job| job.dedup == slot);
            assert!(entry.job.is_none_or(is_held), "holder of {:?}", entry.hash);
            assert!(entry.job.is_some() || entry.window.is_some(), "{:?} stops somebody", entry.hash);
        }
    }

    fn check_key(&self, slot: Slot, key: &Key, jobs: &BTreeMap<u64, Slot>) {
        let listed: BTreeMap<u64, Slot> = key.jobs.newest_first(u64::MAX, &self.jobs).collect();
        assert_eq!(&listed, jobs, "jobs of key {slot}");
        let mut out = jobs.values().copied().filter(|job| self.jobs[*job].state == JobState::InFlight);
        assert_eq!(key.in_flight, out.next().unwrap_or(NONE), "in-flight job of key {slot}");
        assert_eq!(out.next(), None, "two jobs of key {slot} are in flight");
        assert!(!jobs.is_empty() || key.saved.is_some(), "key {slot} is needed");
        if let Members::Many(crowd) = &key.jobs {
            let mut lines = KeyLines::default();
            jobs.values().for_each(|job| lines.insert(*job, &self.jobs[*job]));
            assert_eq!(crowd.lines.carriers, lines.carriers, "unfinished and dead jobs of key {slot}");
            assert_eq!((&crowd.lines.ready, crowd.lines.obeying), (&lines.ready, lines.obeying), "ready of key {slot}");
        }
    }

    fn check_guards(&self) {
        let mut job_guards = BTreeSet::new();
        let mut by_queue: BTreeMap<u32, u64> = self.queues.keys().map(|number| (*number, 0)).collect();
        for (slot, guard) in self.guards.iter() {
            *by_queue.entry(guard.record.queue).or_default() += 1;
            job_guards.extend(guard.record.job.map(|seq| (seq, slot)));
            let job = guard.record.job.map(|seq| self.slot_of_seq(seq).map(|slot| self.jobs[slot].queue));
            assert!(job.is_none_or(|queue| queue == Some(guard.record.queue)), "the job of {:?}", guard.record);
        }
        assert_eq!(self.job_guards, job_guards, "guards by job");
        let counted: BTreeMap<u32, u64> = self.queues.values().map(|q| (q.record.number, q.guards)).collect();
        assert_eq!(counted, by_queue, "guards by queue");
        let held = self.guards.iter().filter(|(_, guard)| guard.is_held());
        let open = held.filter(|(_, guard)| guard.record.done.is_none()).count();
        assert_eq!(self.open_guards, open as u64, "guards that are held");
    }

    fn check_limits(&self) {
        let names: BTreeMap<_, _> = self.limits.iter().map(|(number, it)| (it.record.name.clone(), *number)).collect();
        assert_eq!(self.limit_names, names, "limits by name");
        for (number, limit) in &self.limits {
            let name = &limit.record.name;
            let queues: BTreeSet<u32> = self.queues_naming(name).into_iter().collect();
            let in_flight: u64 = queues.iter().map(|queue| self.queue(*queue).count(JobState::InFlight)).sum();
            assert_eq!((&limit.queues, limit.in_flight), (&queues, in_flight), "queues and jobs of limit `{name}`");
            assert!(queues.iter().all(|queue| self.queue(*queue).limits.contains(number)), "queues know `{name}`");
        }
    }

    fn check_waits(&self) {
        let mut marks = BTreeSet::new();
        for (_, job) in self.jobs.iter() {
            if job.state == JobState::Blocked && !self.families.contains_key(&job.id.seq()) {
                let behind = job.rare().and_then(|rare| rare.behind);
                let followers = behind.and_then(|seq| self.followers.get(&seq));
                let there = followers.map_or(0, |all| all.iter().filter(|seq| **seq == job.id.seq()).count());
                assert_eq!(there, 1, "{} waits behind {behind:?}", job.id);
                let is_there = behind.and_then(|seq| self.slot_of_seq(seq)).map(|slot| &self.jobs[slot]);
                let is_unfinished = is_there.is_some_and(|job| !job.state.is_final() && job.state != JobState::Dead);
                assert!(is_unfinished, "{} waits behind an unfinished job", job.id);
            }
            if job.state == JobState::InFlight && job.cancel_requested() {
                let worker = job.lease().and_then(|lease| lease.worker.as_deref());
                marks.extend(worker.map(|worker| (self.worker_hash(worker), job.id)));
            }
        }
        assert_eq!(self.cancel_marks, marks, "cancels that workers have to hear of");
        for slot in &self.stale_notes {
            let note = &self.notes[*slot];
            let queue = self.queue(note.queue);
            assert!(!queue.fingerprints.contains_key(&note.fingerprint), "a note is stale without dead jobs");
        }
    }

    fn check_families(&self) {
        let (mut parents, mut batches, mut to_unblock) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        for (seq, family) in &self.families {
            let parent = self.slot_of_seq(*seq).map(|slot| &self.jobs[slot]);
            let Some(parent) = parent else { panic!("children of job {seq}, which is gone") };
            for child in &family.children {
                parents.insert(child.id.seq(), *seq);
                // An end that nobody reported would keep the parent waiting for ever.
                let is_there = self.slot_of(child.id).map(|slot| &self.jobs[slot]);
                let is_unfinished = is_there.is_some_and(is_unfinished);
                assert!(child.end.is_some() || is_unfinished, "{} of {} has ended", child.id, parent.id);
            }
            if parent.state.is_final() {
                assert!(family.children.is_empty() && family.result_bytes == 0, "{} reads no results", parent.id);
                continue;
            }
            assert!(family.children.is_sorted_by_key(|child| child.id.seq()), "children of {}", parent.id);
            let ends = || family.children.iter().filter_map(|child| child.end);
            let failed = ends().filter(|end| *end != ChildEnd::Completed).count();
            let counted = (family.children.len() as u32, ends().count() as u32, failed as u32);
            assert_eq!((family.total, family.ended, family.failed), counted, "children of {}", parent.id);
            let bytes: u64 = family.places().map(|place| u64::from(place.length)).sum();
            assert_eq!(family.result_bytes, bytes, "results for {}", parent.id);
            if parent.state == JobState::Blocked {
                batches.extend(family.waits.batch.map(|batch| (batch, *seq)));
                to_unblock.extend((family.ended == family.total || family.is_lost()).then_some(*seq));
            }
        }
        assert_eq!(self.parents, parents, "parents by child");
        assert_eq!(self.batches, batches, "open batches");
        assert_eq!(self.to_unblock, to_unblock, "jobs that need not wait for children");
    }

    fn check_timers(&self) {
        let mut wall: Vec<(u64, Timer)> = Vec::new();
        let mut elapsed: Vec<(u64, Timer)> = Vec::new();
        for (slot, job) in self.jobs.iter() {
            if job.state == JobState::Delayed {
                let (is_elapsed, at) = job.due_timer();
                if is_elapsed { &mut elapsed } else { &mut wall }.push((at, Timer::Due(slot)));
            }
            if job.state.is_waiting() {
                wall.extend(job.expires_at().map(|at| (at, Timer::Expiry(slot))));
            }
            if job.state.is_final() {
                wall.push((job.keep_until(), Timer::Keep(slot)));
            }
            if let Some(lease) = job.lease().filter(|_| job.state == JobState::InFlight) {
                let ends = lease.timeout_elapsed_at.unwrap_or(u64::MAX).min(lease.ends_elapsed_at);
                elapsed.push((ends, Timer::Lease(slot)));
            }
        }
        let ages = self.queues.values();
        wall.extend(ages.filter_map(|queue| Some((queue.retention_ends_at()?, Timer::Age(queue.record.number)))));
        let saved = self.keys.iter().filter_map(|(slot, key)| Some((slot, key.saved.as_ref()?)));
        wall.extend(saved.filter(|(_, saved)| !saved.ended).map(|(slot, saved)| (saved.look_at, Timer::Key(slot))));
        let windows = self.dedups.iter().filter_map(|(slot, entry)| Some((entry.until()?, slot)));
        wall.extend(windows.map(|(until, slot)| (until, Timer::Dedup(slot))));
        wall.extend(self.requests.iter().map(|(slot, request)| (request.until, Timer::Request(slot))));
        let unheld = self.guards.iter().filter(|(_, guard)| !guard.is_held());
        wall.extend(unheld.filter_map(|(slot, guard)| Some((guard.end()?, Timer::Guard(slot)))));
        let ended =
            self.tasks.values().filter_map(|task| Some((task.record.ended_at?, crate::items::short(task.record.id))));
        wall.extend(ended.map(|(at, id)| (at + TASK_KEPT_MS, Timer::Task(id))));
        assert_eq!(self.timers.all(false), wall.into_iter().collect(), "timers on the wall clock");
        let held = self.guards.iter().filter(|(_, guard)| guard.is_held());
        elapsed.extend(held.map(|(slot, guard)| (guard.record.ends_elapsed_at, Timer::Hold(slot))));
        elapsed.extend(self.rate_timers());
        let owners = self.queues.keys().map(|number| BreakerOf::Queue(*number));
        let owners = owners.chain(self.limits.keys().map(|number| BreakerOf::Limit(*number)));
        elapsed.extend(owners.filter_map(|of| Some((self.cools_until(of)?, Timer::Breaker(of)))));
        assert_eq!(self.timers.all(true), elapsed.into_iter().collect(), "timers of elapsed time");
    }

    fn check_items(&self) {
        let mut expected: BTreeSet<(u32, u32)> = BTreeSet::new();
        let mut expect = |kind: ItemKind, numbers: &mut dyn Iterator<Item = u32>| {
            expected.extend(numbers.map(|number| (kind as u32, number)));
        };
        let has_started = self.globals_link.base != u64::MAX;
        expect(ItemKind::Globals, &mut has_started.then_some(0).into_iter());
        expect(ItemKind::Queue, &mut self.queues.keys().copied());
        expect(ItemKind::Job, &mut self.jobs.iter().map(|(slot, _)| slot));
        expect(ItemKind::Saved, &mut self.keys.iter().filter(|(_, key)| key.saved.is_some()).map(|(slot, _)| slot));
        let windows = self.dedups.iter().filter(|(_, entry)| entry.window.is_some());
        expect(ItemKind::Dedup, &mut windows.map(|(slot, _)| slot));
        expect(ItemKind::Producer, &mut self.producers.iter().map(|(slot, _)| slot));
        expect(ItemKind::Request, &mut self.requests.iter().map(|(slot, _)| slot));
        expect(ItemKind::Guard, &mut self.guards.iter().map(|(slot, _)| slot));
        expect(ItemKind::Schema, &mut self.schemas.keys().copied());
        expect(ItemKind::Limit, &mut self.limits.keys().copied());
        expect(ItemKind::Schedule, &mut self.schedules.keys().copied());
        expect(ItemKind::Hook, &mut self.hooks.keys().copied());
        expect(ItemKind::Task, &mut self.tasks.keys().map(|id| crate::items::short(*id)));
        expect(ItemKind::Audit, &mut self.audit.keys().map(|id| crate::items::short(*id)));
        expect(ItemKind::Note, &mut self.notes.iter().map(|(slot, _)| slot));
        expect(ItemKind::Settle, &mut self.settles.table.iter().map(|(slot, _)| slot));
        let by_time = self.settles.table.iter().map(|(_, settle)| (settle.at, settle.seq)).collect();
        assert_eq!(self.settles.by_time, by_time, "settles by time");
        let linked = self.items_in_order();
        assert!(linked.is_sorted_by_key(|(.., base)| *base), "items are in the order of their bases");
        let count = linked.len();
        let linked: BTreeSet<(u32, u32)> = linked.into_iter().map(|(kind, number, _)| (kind as u32, number)).collect();
        assert_eq!((count, linked), (expected.len(), expected), "items in the list");
        assert_eq!(self.weight, self.counted_weight(), "what the items cost");
    }
}
