//! What the queue must do, as plainly as it can be said: a list of jobs, maps, and scans. Written from
//! design.md and api.md. Slow, and without logs, lanes, timers or hashes.

use std::collections::BTreeMap;

pub type Key = (usize, u8);

/// A policy, as far as the model knows policies.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    pub visibility: u64,
    pub timeout: Option<u64>,
    pub attempts: u32,
    pub deliveries: u32,
    pub backoff: u64,
    pub in_flight: Option<usize>,
    pub depth: usize,
    pub ordered: bool,
    pub fair: bool,
    pub group_max: Option<usize>,
    pub on_dead_block: bool,
    pub keep: u64,
    pub key_keep: u64,
    pub max_replays: u32,
    pub dead_max: usize,
    pub fifo: bool,
    pub retention: Option<u64>,
    /// So many receives, then it goes to the other queue.
    pub redrive: Option<u32>,
}

/// Where a job is; `Waiting` is ready or delayed, by its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    Waiting,
    Blocked,
    InFlight,
    Completed,
    Dead,
    Cancelled,
    Expired,
}

/// What became of the last delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Held,
    Lapsed,
    Killed,
    Acked,
    Failed,
    Released,
    Replayed,
    KeyTaken,
    Cancelled,
    Replaced,
    Forwarded,
}

#[derive(Clone, Debug)]
pub struct Lease {
    pub delivery: usize,
    pub ends: u64,
    pub timeout: Option<u64>,
    pub visibility: u64,
    pub state: Ended,
    pub interrupted: bool,
}

#[derive(Clone, Debug)]
pub struct Job {
    pub queue: usize,
    pub number: usize,
    pub kind: u8,
    pub priority: u8,
    pub group: Option<u8>,
    pub dedup: Option<(u8, Option<u64>)>,
    pub key: Option<u8>,
    pub payload: u8,
    pub at: At,
    /// Its place in line, and its time where that is on the wall clock.
    pub place: u64,
    /// It waits for nothing but its turn.
    pub at_once: bool,
    /// Its time where that is elapsed time.
    pub due_elapsed: Option<u64>,
    pub expires: Option<u64>,
    pub behind: Option<usize>,
    pub attempts: u32,
    pub deliveries: u32,
    /// Those before the last replay.
    pub earlier: u32,
    pub replays: u32,
    pub errors: Vec<String>,
    pub lease: Option<Lease>,
    pub cancel: bool,
    pub ignore_key: bool,
    pub skipped: bool,
    pub result: Option<u8>,
    pub keep_until: u64,
    pub died_at: u64,
    /// Deduplication that lasts while it is unfinished, given up by its death.
    pub released_dedup: Option<u8>,
    pub enqueued: u64,
    pub arrived: Option<u64>,
}

impl Job {
    /// Another payload must run: nobody can ack it for the old one.
    pub fn take_payload(&mut self, payload: u8) {
        self.payload = payload;
        if let Some(lease) = self.lease.as_mut().filter(|lease| lease.state == Ended::Lapsed) {
            lease.state = Ended::Replaced;
        }
    }
}

impl Job {
    /// It waits, or waited, for an instant on the wall clock.
    pub fn has_wall_time(&self) -> bool {
        self.at == At::Waiting && !self.at_once && self.due_elapsed.is_none()
    }
}

#[derive(Clone, Debug)]
pub struct Window {
    pub job: usize,
    pub payload: u8,
    pub until: Option<u64>,
}

#[derive(Clone, Debug)]
pub struct Saved {
    pub until: u64,
    pub result: Option<u8>,
}

/// Work under a key.
#[derive(Clone, Debug)]
pub struct Guard {
    pub token: usize,
    pub ttl: u64,
    pub hold: u64,
    pub ends: u64,
    pub until: u64,
    pub job: Option<usize>,
    /// Done, and its result.
    pub done: Option<Option<u8>>,
}

#[derive(Clone, Debug)]
pub struct Queue {
    pub policy: Policy,
    pub paused: bool,
    pub holders: BTreeMap<u8, Vec<usize>>,
    pub producers: BTreeMap<u8, u64>,
    pub was_purged: bool,
}

/// Jobs that a job waits for.
#[derive(Clone, Debug)]
pub struct Family {
    pub continues: bool,
    /// Queue and id of the batch that they are.
    pub batch: Option<Key>,
    /// Each with how it ended, and its result.
    pub children: BTreeMap<usize, (Option<&'static str>, Option<u8>)>,
}

impl Family {
    pub fn failed(&self) -> usize {
        self.children.values().filter(|(end, _)| end.is_some_and(|end| end != "completed")).count()
    }

    pub fn pending(&self) -> usize {
        self.children.values().filter(|(end, _)| end.is_none()).count()
    }

    fn is_lost(&self) -> bool {
        !self.continues && self.failed() > 0
    }
}

/// See the module.
#[derive(Default)]
pub struct Model {
    pub families: BTreeMap<usize, Family>,
    pub now: u64,
    pub skew: i64,
    pub line: u64,
    pub queues: BTreeMap<usize, Queue>,
    /// Jobs that are there, by number.
    pub jobs: BTreeMap<usize, Job>,
    pub windows: BTreeMap<Key, Window>,
    pub saved: BTreeMap<Key, Saved>,
    pub deliveries: usize,
    pub guards: BTreeMap<Key, Guard>,
}

impl Model {
    pub fn elapsed(&self) -> u64 {
        self.now.saturating_add_signed(-self.skew)
    }

    fn is_due(&self, job: &Job) -> bool {
        job.at == At::Waiting
            && match job.due_elapsed {
                Some(due) => due <= self.elapsed(),
                None => job.at_once || job.place <= self.now,
            }
    }

    /// The word for where a job is.
    pub fn state(&self, number: usize) -> &'static str {
        let job = &self.jobs[&number];
        match job.at {
            At::Waiting if self.is_due(job) => "ready",
            At::Waiting => "delayed",
            At::Blocked => "blocked",
            At::InFlight => "inFlight",
            At::Completed => "completed",
            At::Dead => "dead",
            At::Cancelled => "cancelled",
            At::Expired => "expired",
        }
    }

    pub fn is_waiting(&self, number: usize) -> bool {
        matches!(self.jobs[&number].at, At::Waiting | At::Blocked)
    }

    fn key(job: &Job) -> Option<Key> {
        job.key.map(|key| (job.queue, key))
    }

    /// Numbers of the jobs of a queue for which something holds.
    pub fn find(&self, queue: usize, holds: impl Fn(&Job) -> bool) -> Vec<usize> {
        self.jobs.values().filter(|job| job.queue == queue && holds(job)).map(|job| job.number).collect()
    }

    fn all(&self, holds: impl Fn(&Job) -> bool) -> Vec<usize> {
        self.jobs.values().filter(|job| holds(job)).map(|job| job.number).collect()
    }

    fn is_completed(&self, key: Key) -> bool {
        self.saved.contains_key(&key)
    }

    fn in_flight_with(&self, key: Key) -> Option<usize> {
        self.all(|job| Self::key(job) == Some(key) && job.at == At::InFlight).first().copied()
    }

    fn is_held_by_key(&self, job: &Job) -> bool {
        Self::key(job).is_some_and(|key| {
            (self.is_completed(key) && !job.ignore_key) || self.in_flight_with(key).is_some_and(|n| n != job.number)
        })
    }

    /// Everything that is due happens.
    pub fn tick(&mut self) {
        while self.pending().is_some() {}
    }

    /// Does one thing that is due; `None` when nothing is.
    fn pending(&mut self) -> Option<()> {
        let (now, elapsed) = (self.now, self.elapsed());
        let skip = |job: &Job| {
            job.at == At::Waiting && !job.ignore_key && Self::key(job).is_some_and(|key| self.is_completed(key))
        };
        if let Some(number) = self.all(skip).first().copied() {
            let result = self.saved[&Self::key(&self.jobs[&number])?].result;
            let job = self.job(number);
            (job.skipped, job.result) = (true, result);
            self.finish(number, At::Completed, None);
            return Some(());
        }
        let settled = |(number, family): (&usize, &Family)| {
            let is_settled = family.pending() == 0 || family.is_lost();
            (is_settled && self.jobs[number].at == At::Blocked).then_some((*number, family.is_lost()))
        };
        if let Some((number, is_lost)) = self.families.iter().find_map(settled) {
            self.unblock(number, is_lost);
            return Some(());
        }
        let late = |job: &Job| {
            let is_late = matches!(job.at, At::Waiting | At::Blocked) && job.expires.is_some_and(|it| it <= now);
            job.expires.filter(|_| is_late)
        };
        let late = self.jobs.values().filter_map(|job| Some((late(job)?, 0, job.number))).min();
        let aged = |job: &Job| {
            let policy = &self.queues[&job.queue].policy;
            let since = job.arrived.filter(|_| policy.fifo).unwrap_or(job.enqueued);
            let is_unfinished = matches!(job.at, At::Waiting | At::Blocked | At::InFlight);
            policy.retention.map(|retention| since + retention).filter(|ends| is_unfinished && *ends <= now)
        };
        let oldest = self.jobs.values().filter_map(|job| Some((aged(job)?, 1 + job.queue, job.number))).min();
        // Whose time was over first ends first: another job may wait for it.
        if let Some((_, _, number)) = late.into_iter().chain(oldest).min() {
            self.end(number, At::Expired, "expired", Ended::Cancelled);
            return Some(());
        }
        let over = self.saved.iter().find(|(key, saved)| {
            let carries = |job: &&Job| {
                Self::key(job) == Some(**key) && !matches!(job.at, At::Completed | At::Cancelled | At::Expired)
            };
            saved.until <= now && !self.jobs.values().any(|job| carries(&job))
        });
        if let Some(key) = over.map(|(key, _)| *key) {
            self.saved.remove(&key);
            return Some(());
        }
        let ended = |job: &Job| {
            let lease = job.lease.as_ref().filter(|_| job.at == At::InFlight)?;
            let ends = lease.timeout.map_or(lease.ends, |at| at.min(lease.ends));
            (ends <= elapsed).then_some((ends, job.number))
        };
        // In the order of their ends: one may be handed off to where another one's key still is.
        if let Some((_, number)) = self.jobs.values().filter_map(ended).min() {
            self.lease_ended(number);
            return Some(());
        }
        let is_old = |job: &Job| job.keep_until <= now || self.policy(job.number).keep == 0;
        let old = |job: &Job| matches!(job.at, At::Completed | At::Cancelled | At::Expired) && is_old(job);
        if let Some(number) = self.all(old).first().copied() {
            self.jobs.remove(&number);
            return Some(());
        }
        let closed = self.windows.iter().find(|(_, window)| window.until.is_some_and(|until| until <= now));
        if let Some(key) = closed.map(|(key, _)| *key) {
            self.windows.remove(&key);
            return Some(());
        }
        let is_over = |guard: &Guard| match guard.job {
            Some(job) => !self.jobs.contains_key(&job),
            None => guard.until <= now && (guard.done.is_some() || guard.ends <= elapsed),
        };
        if let Some(key) = self.guards.iter().find(|(_, guard)| is_over(guard)).map(|(key, _)| *key) {
            self.guards.remove(&key);
            return Some(());
        }
        None
    }

    pub fn job(&mut self, number: usize) -> &mut Job {
        self.jobs.get_mut(&number).expect("the job is there")
    }

    pub fn policy(&self, number: usize) -> &Policy {
        &self.queues[&self.jobs[&number].queue].policy
    }

    fn lease_ended(&mut self, number: usize) {
        let elapsed = self.elapsed();
        let job = &self.jobs[&number];
        let lease = job.lease.clone().expect("in flight");
        if lease.timeout.is_some_and(|at| at <= elapsed) && !lease.interrupted {
            self.fail(number, "timeout", true, None, Ended::Lapsed);
            return;
        }
        let kind = if lease.interrupted { "interrupted" } else { "visibility-timeout" };
        let is_cancelled = job.cancel;
        let is_dead = if lease.interrupted { self.is_delivered_out(number) } else { self.is_spent(number) };
        self.job(number).errors.push(kind.into());
        if is_cancelled {
            self.finish(number, At::Cancelled, Some(Ended::Cancelled));
        } else if let Some(target) = self.redrive_target(number).filter(|_| is_dead) {
            self.hand_off(number, target);
        } else if is_dead {
            self.die(number, Ended::Killed);
        } else {
            let job = self.job(number);
            job.attempts -= u32::from(lease.interrupted);
            job.at = At::Waiting;
            job.at_once = true;
            job.due_elapsed = None;
            self.set_lease(number, Ended::Lapsed);
        }
    }

    fn set_lease(&mut self, number: usize, state: Ended) {
        if let Some(lease) = &mut self.job(number).lease {
            lease.state = state;
        }
    }

    fn is_delivered_out(&self, number: usize) -> bool {
        self.jobs[&number].deliveries >= self.policy(number).deliveries
    }

    fn is_spent(&self, number: usize) -> bool {
        self.jobs[&number].attempts >= self.policy(number).attempts || self.is_delivered_out(number)
    }

    /// A settle of a delivery that was taken for interrupted uses its attempt after all.
    fn take_up(&mut self, number: usize) {
        let job = self.job(number);
        if job.lease.as_ref().is_some_and(|lease| lease.interrupted && lease.state == Ended::Lapsed) {
            job.attempts += 1;
        }
    }

    pub fn fail(&mut self, number: usize, kind: &str, retryable: bool, after: Option<u64>, lease: Ended) {
        self.take_up(number);
        let is_dead = !retryable || self.is_spent(number);
        let target = if is_dead { self.redrive_target(number) } else { self.redrive_due(number) };
        let backoff = self.policy(number).backoff;
        let (now, elapsed) = (self.now, self.elapsed());
        let job = self.job(number);
        job.errors.push(kind.into());
        if job.cancel {
            let lease = if lease == Ended::Lapsed { Ended::Cancelled } else { lease };
            self.finish(number, At::Cancelled, Some(lease));
        } else if let Some(target) = target {
            self.hand_off(number, target);
        } else if is_dead {
            self.die(number, if lease == Ended::Lapsed { Ended::Killed } else { lease });
        } else {
            let wait = after.unwrap_or(backoff);
            job.at = At::Waiting;
            (job.place, job.due_elapsed, job.at_once) = (now + wait, Some(elapsed + wait), false);
            self.set_lease(number, lease);
        }
    }

    /// The other queue, where the policy hands off to it and it is there.
    fn redrive_target(&self, number: usize) -> Option<usize> {
        let other = 1 - self.jobs[&number].queue;
        self.policy(number).redrive.map(|_| other).filter(|other| self.queues.contains_key(other))
    }

    /// As above, once the job was received often enough.
    pub fn redrive_due(&self, number: usize) -> Option<usize> {
        let is_due = |max: &u32| self.jobs[&number].deliveries >= *max;
        self.policy(number).redrive.filter(is_due).and_then(|_| self.redrive_target(number))
    }

    /// A job goes to another queue.
    pub fn hand_off(&mut self, number: usize, to: usize) {
        let place = self.now.max(self.line);
        self.line = place;
        self.let_group_go(number);
        self.give_up_window(number);
        self.release_followers(number);
        self.report(number, "dead", None);
        self.set_lease(number, Ended::Forwarded);
        self.guards.retain(|_, guard| guard.job != Some(number));
        let now = self.now;
        let job = self.job(number);
        (job.queue, job.at, job.place, job.at_once, job.due_elapsed) = (to, At::Waiting, place, true, None);
        job.earlier += job.deliveries;
        (job.attempts, job.deliveries, job.cancel) = (0, 0, false);
        (job.dedup, job.released_dedup, job.behind, job.arrived) = (None, None, None, Some(now));
    }

    fn die(&mut self, number: usize, lease: Ended) {
        let now = self.now;
        let blocks = self.policy(number).on_dead_block;
        self.set_lease(number, lease);
        let job = self.job(number);
        (job.at, job.died_at) = (At::Dead, now);
        job.released_dedup = job.dedup.filter(|(_, until)| until.is_none()).map(|(key, _)| key);
        if !self.holds_window(number) {
            self.job(number).released_dedup = None;
        }
        if !blocks {
            self.let_group_go(number);
        }
        self.give_up_window(number);
        self.release_followers(number);
        self.report(number, "dead", None);
    }

    fn holds_window(&self, number: usize) -> bool {
        let job = &self.jobs[&number];
        let window = job.dedup.and_then(|(key, _)| self.windows.get(&(job.queue, key)));
        window.is_some_and(|window| window.job == number)
    }

    /// A key that lasts as long as its job is unfinished.
    fn give_up_window(&mut self, number: usize) {
        let job = &self.jobs[&number];
        if let Some((key, _)) = job.dedup {
            let key = (job.queue, key);
            if self.windows.get(&key).is_some_and(|window| window.job == number && window.until.is_none()) {
                self.windows.remove(&key);
            }
        }
    }

    fn let_group_go(&mut self, number: usize) {
        let queue = self.jobs[&number].queue;
        let holders = &mut self.queues.get_mut(&queue).expect("there").holders;
        holders.values_mut().for_each(|holders| holders.retain(|holder| *holder != number));
    }

    /// Its children have ended, or one of them is its end.
    fn unblock(&mut self, number: usize, is_lost: bool) {
        let (now, place) = (self.now, self.now.max(self.line));
        let job = self.job(number);
        if is_lost {
            job.errors.push("child-dead".into());
            self.die(number, Ended::Failed);
            return;
        }
        job.at = At::Waiting;
        if job.at_once || job.place <= now {
            (job.place, job.at_once) = (place, true);
            self.line = place;
        }
    }

    /// Who waits for the job knows how it ended; a death may be taken back.
    fn report(&mut self, number: usize, end: &'static str, result: Option<u8>) {
        for family in self.families.values_mut() {
            let Some(child) = family.children.get_mut(&number) else { continue };
            if child.0.is_none() || (child.0 == Some("dead") && end == "completed") {
                *child = (Some(end), result.filter(|_| family.batch.is_none()));
            }
        }
    }

    /// The job that ends an open batch.
    pub fn end_of_batch(&self, batch: Key) -> Option<usize> {
        let is_open = |number: &usize| self.jobs[number].at == At::Blocked;
        self.families.iter().find(|(number, it)| it.batch == Some(batch) && is_open(number)).map(|(number, _)| *number)
    }

    fn release_followers(&mut self, number: usize) {
        for follower in self.all(|job| job.at == At::Blocked && job.behind == Some(number)) {
            self.job(follower).at = At::Waiting;
        }
    }

    /// A job ends for good without being done.
    pub fn end(&mut self, number: usize, at: At, kind: &str, lease: Ended) {
        self.job(number).errors.push(kind.into());
        self.finish(number, at, Some(lease));
    }

    /// A job ends for good.
    pub fn finish(&mut self, number: usize, at: At, lease: Option<Ended>) {
        let keep = self.policy(number).keep;
        let now = self.now;
        if let Some(lease) = lease {
            self.set_lease(number, lease);
        }
        let job = self.job(number);
        (job.at, job.keep_until, job.cancel) = (at, now + keep, false);
        let result = job.result;
        self.let_group_go(number);
        self.give_up_window(number);
        self.release_followers(number);
        let end = match at {
            At::Cancelled => "cancelled",
            At::Expired => "expired",
            _ => "completed",
        };
        self.report(number, end, result);
        self.families.remove(&number);
        if keep == 0 {
            self.jobs.remove(&number);
        }
    }

    /// A job goes without a trace.
    pub fn remove(&mut self, number: usize) {
        self.let_group_go(number);
        self.give_up_window(number);
        self.release_followers(number);
        self.report(number, "purged", None);
        self.families.remove(&number);
        self.jobs.remove(&number);
    }

    /// The deliveries of the key's other jobs that lapsed are overtaken.
    fn overtake(&mut self, number: usize) {
        let Some(key) = Self::key(&self.jobs[&number]) else { return };
        for other in self.all(|job| Self::key(job) == Some(key) && job.number != number) {
            if let Some(lease) = &mut self.job(other).lease
                && matches!(lease.state, Ended::Lapsed | Ended::Killed)
            {
                lease.state = Ended::KeyTaken;
            }
        }
    }

    /// Jobs one of which a receive must be given now; none: it must be given nothing.
    pub fn candidates(&self, queue: usize, kinds: Option<u8>) -> Vec<usize> {
        let Some(there) = self.queues.get(&queue) else { return Vec::new() };
        let policy = &there.policy;
        let out = self.find(queue, |job| job.at == At::InFlight);
        if there.paused || policy.in_flight.is_some_and(|limit| out.len() >= limit) {
            return Vec::new();
        }
        let place = |number: &usize| (self.jobs[number].place, *number);
        let mut groups: Vec<Option<u8>> = self.find(queue, |_| true).iter().map(|n| self.jobs[n].group).collect();
        groups.sort_unstable();
        groups.dedup();
        let mut heads: Vec<usize> = Vec::new();
        for group in groups {
            let in_group = out.iter().filter(|number| self.jobs[*number].group == group).count();
            let mut ready = self.find(queue, |job| job.group == group && self.is_due(job));
            if let Some(name) = group {
                if policy.group_max.is_some_and(|limit| in_group >= limit) {
                    continue;
                }
                if policy.ordered {
                    ready.sort_unstable_by_key(place);
                    let holders = there.holders.get(&name).into_iter().flatten().copied();
                    let head = holders.min_by_key(place).or(ready.first().copied());
                    ready.retain(|number| (in_group == 0 || policy.fifo) && Some(*number) == head);
                }
            }
            ready.retain(|number| !self.is_held_by_key(&self.jobs[number]));
            ready.retain(|number| kinds.is_none_or(|kinds| kinds & 1 << self.jobs[number].kind != 0));
            // One head a priority: which priority counts is decided over all groups.
            let highest = ready.iter().map(|number| self.jobs[number].priority).max();
            ready.retain(|number| Some(self.jobs[number].priority) == highest);
            heads.extend(ready.into_iter().min_by_key(place));
        }
        let highest = heads.iter().map(|number| self.jobs[number].priority).max();
        heads.retain(|number| Some(self.jobs[number].priority) == highest);
        if !policy.fair {
            heads.sort_unstable_by_key(place);
            heads.truncate(1);
        }
        heads
    }

    /// What a receive that takes more of a group must be given after this job.
    pub fn next_of_group(&self, last: usize) -> Option<usize> {
        let job = &self.jobs[&last];
        let there = &self.queues[&job.queue];
        let out = self.find(job.queue, |job| job.at == At::InFlight);
        if !there.policy.fifo || job.group.is_none() || there.policy.in_flight.is_some_and(|limit| out.len() >= limit) {
            return None;
        }
        let place = |number: &usize| (self.jobs[number].place, *number);
        let ready = self.find(job.queue, |other| other.group == job.group && self.is_due(other));
        let in_group = out.iter().filter(|number| self.jobs[*number].group == job.group).count();
        if there.policy.group_max.is_some_and(|limit| in_group >= limit) {
            return None;
        }
        let holders = there.holders.get(&job.group?)?;
        let held = holders.iter().copied().filter(|number| place(number) > place(&last)).min_by_key(place);
        let next = match held {
            Some(number) => self.is_due(&self.jobs[&number]).then_some(number)?,
            None => ready.into_iter().filter(|number| !holders.contains(number)).min_by_key(place)?,
        };
        (!self.is_held_by_key(&self.jobs[&next])).then_some(next)
    }

    /// A job goes to a worker. Answers with its delivery.
    pub fn hand_out(&mut self, number: usize, visibility: Option<u64>) -> usize {
        let delivery = self.deliveries;
        self.deliveries += 1;
        let elapsed = self.elapsed();
        let policy = self.policy(number).clone();
        let visibility = visibility.unwrap_or(policy.visibility);
        let timeout = policy.timeout.map(|ms| elapsed + ms);
        let ends = timeout.map_or(elapsed + visibility, |at| at.min(elapsed + visibility));
        let job = self.job(number);
        job.at = At::InFlight;
        job.attempts += 1;
        job.deliveries += 1;
        job.due_elapsed = None;
        let (state, interrupted) = (Ended::Held, false);
        job.lease = Some(Lease { delivery, ends, timeout, visibility, state, interrupted });
        let (queue, group) = (job.queue, job.group);
        if policy.ordered
            && let Some(group) = group
        {
            let holders = self.queues.get_mut(&queue).expect("there").holders.entry(group).or_default();
            if !holders.contains(&number) {
                holders.push(number);
            }
        }
        self.overtake(number);
        delivery
    }

    /// A job is done.
    pub fn complete(&mut self, number: usize, result: Option<u8>) {
        self.take_up(number);
        let until = self.now + self.policy(number).key_keep;
        let job = self.job(number);
        job.result = result;
        if job.lease.as_ref().is_some_and(|lease| matches!(lease.state, Ended::Lapsed | Ended::Killed)) {
            job.errors.push("late-ack".into());
        }
        if let Some(key) = Self::key(&self.jobs[&number]) {
            self.saved.insert(key, Saved { until, result });
            self.overtake(number);
        }
        self.finish(number, At::Completed, Some(Ended::Acked));
    }

    pub fn release(&mut self, number: usize, delay: Option<u64>) {
        if self.jobs[&number].cancel {
            self.end(number, At::Cancelled, "cancelled", Ended::Released);
        } else if self.is_delivered_out(number) {
            self.fail(number, "max-deliveries", true, None, Ended::Released);
        } else {
            self.take_up(number);
            let (now, elapsed) = (self.now, self.elapsed());
            let job = self.job(number);
            job.attempts -= 1;
            job.at = At::Waiting;
            match delay {
                Some(wait) => {
                    job.errors.push("snoozed".into());
                    (job.place, job.due_elapsed, job.at_once) = (now + wait, Some(elapsed + wait), false);
                }
                None => (job.at_once, job.due_elapsed) = (true, None),
            }
            self.set_lease(number, Ended::Released);
        }
    }

    /// Answers when it becomes visible again.
    pub fn extend(&mut self, number: usize, visibility: Option<u64>) -> u64 {
        self.take_up(number);
        let elapsed = self.elapsed();
        let visibility = visibility.unwrap_or(self.policy(number).visibility);
        let job = self.job(number);
        (job.at, job.due_elapsed) = (At::InFlight, None);
        let lease = job.lease.as_mut().expect("delivered");
        lease.ends = lease.timeout.map_or(elapsed + visibility, |at| at.min(elapsed + visibility));
        (lease.state, lease.interrupted) = (Ended::Held, false);
        let ends = lease.ends;
        self.overtake(number);
        ends.saturating_add_signed(self.skew)
    }

    /// Whether a settle of this delivery still counts: `Ok(true)` does, `Ok(false)` repeats.
    /// `is_same`: it says what the settle said that ended this delivery.
    pub fn standing(
        &self,
        number: usize,
        delivery: usize,
        outcome: Ended,
        is_same: bool,
    ) -> Result<bool, &'static str> {
        let job = &self.jobs[&number];
        let lease = job.lease.as_ref().filter(|lease| lease.delivery == delivery).ok_or("received-again")?;
        let ended = match job.at {
            At::Cancelled => Some("cancelled"),
            At::Expired => Some("expired"),
            At::Dead => Some("dead"),
            _ => None,
        };
        let is_taken = self.is_held_by_key(job);
        let is_fifo = self.queues[&job.queue].policy.fifo;
        match lease.state {
            Ended::Held | Ended::Lapsed if is_fifo && ended.is_none() && lease.ends <= self.elapsed() => {
                Err("visibility-timeout")
            }
            Ended::Held => Ok(true),
            Ended::Lapsed => match ended {
                Some(reason) => Err(reason),
                None if outcome == Ended::Held && lease.timeout.is_some_and(|at| at <= self.elapsed()) => {
                    Err("settled")
                }
                None if is_taken || job.at == At::Completed => Err("key-taken"),
                None => Ok(true),
            },
            Ended::Killed if !matches!(outcome, Ended::Acked | Ended::Failed) => Err("dead"),
            Ended::Killed if is_taken => Err("key-taken"),
            Ended::Killed => Ok(true),
            Ended::Replayed => Err("replayed"),
            Ended::KeyTaken => Err("key-taken"),
            Ended::Replaced => Err("replaced"),
            Ended::Forwarded => Err("forwarded"),
            Ended::Cancelled => Err(ended.unwrap_or("cancelled")),
            Ended::Acked | Ended::Failed | Ended::Released if is_same => Ok(false),
            Ended::Acked | Ended::Failed | Ended::Released => Err(ended.unwrap_or("settled")),
        }
    }

    /// A dead job goes back to its queue.
    pub fn replay(&mut self, number: usize, ignore_key: bool) {
        let place = self.now.max(self.line);
        self.line = place;
        self.let_group_go(number);
        let job = self.job(number);
        (job.at, job.place, job.at_once, job.due_elapsed) = (At::Waiting, place, true, None);
        job.earlier += job.deliveries;
        (job.attempts, job.deliveries, job.cancel, job.ignore_key) = (0, 0, false, ignore_key);
        job.replays += 1;
        let (queue, payload) = (job.queue, job.payload);
        if let Some(key) = job.released_dedup.take() {
            self.windows.insert((queue, key), Window { job: number, payload, until: None });
        }
        self.set_lease(number, Ended::Replayed);
    }

    /// The process was started again, `down` later.
    pub fn restart(&mut self, down: u64) {
        let served = self.elapsed();
        self.now += down;
        let elapsed = self.elapsed();
        for number in self.all(|job| job.at == At::InFlight) {
            let lease = self.job(number).lease.as_mut().expect("in flight");
            let ends = lease.timeout.map_or(lease.ends, |at| at.min(lease.ends));
            let grace = elapsed + lease.visibility.min(60_000);
            lease.interrupted |= ends <= elapsed;
            lease.ends = lease.ends.max(grace);
            lease.timeout = lease.timeout.map(|at| at.max(grace));
        }
        for guard in self.guards.values_mut().filter(|guard| guard.done.is_none() && guard.ends > served) {
            guard.ends = guard.ends.max(elapsed + guard.hold.min(60_000));
        }
    }
}
