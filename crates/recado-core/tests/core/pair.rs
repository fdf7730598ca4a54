//! Core and model side by side: one operation on both, replies and jobs compared.

use std::collections::{BTreeMap, BTreeSet};

use recado_core::{
    Backoff, BackoffCurve, Command, DeadLetterOptions, Dedup, Enqueue, Failure, Fifo, GroupOptions, IdempotencyOptions,
    Jitter, JobId, JobState, KeepOptions, NewJob, OnDead, OnDuplicate, Outcome, Producer, Query, QueueOptions, Receive,
    Redrive, Rejection, Reply, Settle, SqsQueue, TypeRange, Visibility, When,
};

use crate::model::{At, Ended, Job, Model, Policy, Queue, Window};
use crate::ops::{Dice, Op, Say, Spec};
use crate::world::World;

pub const QUEUES: [&str; 2] = ["first", "second"];
pub const KINDS: [&str; 3] = ["mail", "image", "report"];
const GROUPS: [&str; 3] = ["a", "b", "c"];

/// The policy with this number; 0 is that of queues nobody configured.
pub fn policy(number: usize) -> Policy {
    let mut dice = Dice(number as u64 * 77 + 5);
    if number == 0 {
        dice.0 = 0;
    }
    let mut pick = |chances: u64| number != 0 && dice.one_in(chances);
    Policy {
        visibility: if pick(2) { 3_000 } else { 30_000 },
        timeout: pick(4).then_some(2_000),
        attempts: if pick(2) { 2 } else { 3 },
        deliveries: if pick(3) { 4 } else { 30 },
        backoff: if pick(2) { 1_500 } else { 5_000 },
        in_flight: pick(4).then_some(3),
        depth: if pick(5) { 6 } else { 1_000 },
        ordered: pick(2),
        fair: !pick(2),
        group_max: pick(4).then_some(2),
        on_dead_block: pick(3),
        keep: if pick(4) { 0 } else { 60_000 },
        key_keep: if pick(2) { 10_000 } else { 3_000_000 },
        max_replays: if pick(2) { 1 } else { 3 },
        dead_max: if pick(5) { 2 } else { 1_000 },
        fifo: pick(4),
        retention: pick(4).then_some(20_000),
        redrive: pick(3).then_some(2),
    }
}

pub fn options(policy: &Policy) -> QueueOptions {
    QueueOptions {
        visibility: Some(Visibility::Fixed(policy.visibility)),
        timeout_ms: policy.timeout,
        max_attempts: Some(policy.attempts),
        max_deliveries: Some(policy.deliveries),
        backoff: Some(Backoff { curve: BackoffCurve::Fixed { base_ms: policy.backoff }, jitter: Jitter::None }),
        max_in_flight: policy.in_flight.map(|limit| limit as u32),
        max_depth: Some(policy.depth as u64),
        groups: Some(GroupOptions {
            ordered: Some(policy.ordered && !policy.fifo),
            fair: Some(policy.fair),
            max_in_flight: policy.group_max.map(|limit| limit as u32),
            on_dead: policy.on_dead_block.then_some(OnDead::Block),
        }),
        keep_completed: Some(KeepOptions { for_ms: Some(policy.keep), max: None }),
        idempotency: Some(IdempotencyOptions { keep_ms: Some(policy.key_keep), ..Default::default() }),
        dead_letter: Some(DeadLetterOptions {
            max_replays: Some(policy.max_replays),
            max: Some(policy.dead_max as u64),
            ..Default::default()
        }),
        ..QueueOptions::default()
    }
}

/// What SQS adds to a queue by this policy.
pub fn sqs(queue: usize, policy: &Policy) -> SqsQueue {
    let target = QUEUES[1 - queue].into();
    SqsQueue {
        fifo: policy.fifo.then_some(Fifo { dedup_in_group: false }),
        retention_ms: policy.retention,
        redrive: policy.redrive.map(|max_receives| Redrive { target, max_receives }),
        edge: Vec::new(),
    }
}

/// Core and model side by side.
pub struct Pair {
    pub world: World,
    pub model: Model,
    /// Ids of jobs by the model's number, and back.
    pub ids: Vec<JobId>,
    pub numbers: BTreeMap<JobId, usize>,
    /// Deliveries by the model's number: job, receipt, nonce.
    pub deliveries: Vec<(usize, String, u64)>,
    /// Tokens of guards by the model's number: queue, key, token.
    pub tokens: Vec<(usize, u8, Box<str>)>,
    /// Jobs that a receive has met and found gone to the other queue.
    met: BTreeSet<usize>,
    /// What the settle said that ended a delivery, and whether the job ended with it.
    said: BTreeMap<usize, (Say, bool)>,
}

impl Pair {
    pub fn new(seed: u64) -> Self {
        let mut world = World::new(seed);
        world.task_chunk = usize::MAX;
        world.run(&Command::SetDefaults(options(&policy(0)))).unwrap();
        let model = Model { now: world.now, ..Model::default() };
        Self {
            world,
            model,
            ids: Vec::new(),
            numbers: BTreeMap::new(),
            deliveries: Vec::new(),
            met: BTreeSet::new(),
            said: BTreeMap::new(),
            tokens: Vec::new(),
        }
    }

    fn tick(&mut self) {
        self.model.now = self.world.now;
        self.world.tick();
        self.model.tick();
    }

    pub fn nth_job(&self, back: usize) -> Option<usize> {
        let len = self.ids.len();
        (len > 0).then(|| len - 1 - back % len)
    }

    pub fn nth_delivery(&self, back: usize) -> Option<usize> {
        let len = self.deliveries.len();
        (len > 0).then(|| len - 1 - back % len)
    }

    /// One operation on both.
    pub fn act(&mut self, op: &Op) {
        self.tick();
        match op {
            Op::Enqueue { queue, jobs, producer } => self.enqueue(*queue, jobs, *producer),
            Op::Family { queue, parent, children, continues } => self.family(*queue, parent, children, *continues),
            Op::Batch { queue, id, jobs, last } => self.batch(*queue, *id, jobs, last.as_ref()),
            Op::Receive { queue, max, kinds, visibility } => self.receive(*queue, *max, *kinds, *visibility),
            Op::Settle { delivery, say } => self.settle(*delivery, *say),
            Op::GiveBack { delivery } => self.give_back(*delivery),
            Op::Begin { queue, key, ttl, hold, job, delivery } => {
                self.begin(*queue, *key, (*ttl, *hold), *job, *delivery);
            }
            Op::UseGuard { token, say } => self.use_guard(*token, *say),
            Op::Cancel { job } => self.cancel(*job),
            Op::Patch { job, priority, delay, payload } => self.patch(*job, *priority, *delay, *payload),
            Op::Configure { queue, policy } => self.configure(*queue, *policy),
            Op::Pause { queue, paused } => self.pause(*queue, *paused),
            Op::Purge { queue, ready, delayed, blocked } => self.purge(*queue, [*ready, *delayed, *blocked]),
            Op::Replay { queue, which, ignore_key, force } => self.replay(*queue, *which, *ignore_key, *force),
            Op::Discard { queue, which } => self.discard(*queue, *which),
            Op::Delete { queue, force } => self.delete(*queue, *force),
            Op::Wait(ms) => self.world.now += ms,
            // A job that was due and is not any more is ready until the process ends; nobody relies on that.
            Op::StepClock(ms) if *ms < 0 && self.model.jobs.values().any(|job| job.has_wall_time()) => {}
            Op::StepClock(ms) => {
                self.world.now = self.world.now.saturating_add_signed(*ms);
                self.world.run(&Command::StepClock { delta_ms: *ms }).unwrap();
                self.model.skew += ms;
            }
            Op::Restart { down } => {
                self.world.restart(*down);
                self.model.restart(*down);
            }
            Op::Close => self.world.close(),
            Op::Swap => {
                self.world.check_replay();
                self.world.swap();
            }
            Op::Copy(max) => {
                self.world.copy(*max);
                self.world.trim();
            }
            Op::CopyAll => self.world.copy_all(),
        }
        self.tick();
        self.compare();
    }

    fn compare(&mut self) {
        for number in 0..self.ids.len() {
            let view = match self.world.ask(&Query::Job(self.ids[number])) {
                Ok(recado_core::Answer::Job(view)) => view,
                Ok(other) => panic!("not a job: {other:?}"),
                Err(_) => {
                    assert!(!self.model.jobs.contains_key(&number), "job {number} is gone");
                    continue;
                }
            };
            let Some(job) = self.model.jobs.get(&number) else { panic!("job {number} is still {}", view.state) };
            assert_eq!(*view.queue, *QUEUES[job.queue], "queue of job {number}");
            let core = (view.state.word(), view.attempts, view.deliveries, view.replays, view.priority);
            let model =
                (self.model.state(number), job.attempts, job.earlier + job.deliveries, job.replays, job.priority);
            assert_eq!(core, model, "job {number}: core, model");
            let due = job.due_elapsed.map_or(job.place, |due| due.saturating_add_signed(self.model.skew));
            if view.state == JobState::Delayed {
                assert_eq!(view.run_at, due, "job {number} is due");
            }
            assert_eq!(view.cancel_requested, job.cancel && job.at == At::InFlight, "cancel of job {number}");
            let (payload, result) = (job.payload, job.result.filter(|_| !job.skipped));
            let (errors, is_skipped) = (job.errors.clone(), job.skipped);
            assert_eq!(self.world.bytes(view.payload), [payload], "payload of job {number}");
            if !is_skipped {
                let shown = view.result.map(|place| self.world.bytes(place));
                assert_eq!(shown, result.map(|result| vec![result]), "result of job {number}");
            }
            let entries: Vec<Box<str>> = view.errors.iter().map(|place| self.error(*place)).collect();
            assert_eq!(entries.len(), errors.len().min(20), "errors of job {number}");
            assert_eq!(entries.last().map(|kind| &**kind), errors.last().map(|kind| &**kind), "job {number}");
            self.compare_family(number, &view);
        }
    }

    fn error(&mut self, place: recado_core::Place) -> Box<str> {
        recado_core::ErrorEntry::from_bytes(&self.world.bytes(place)).unwrap().kind
    }

    pub fn ensure(&mut self, queue: usize) {
        let queues = &mut self.model.queues;
        queues.entry(queue).or_insert_with(|| Queue {
            policy: policy(0),
            paused: false,
            holders: BTreeMap::new(),
            producers: BTreeMap::new(),
            was_purged: false,
        });
    }

    fn enqueue(&mut self, queue: usize, specs: &[Spec], producer: Option<(u8, i64)>) {
        let producers = self.model.queues.get(&queue).map(|queue| queue.producers.clone()).unwrap_or_default();
        let producer = producer.map(|(name, step)| {
            let last = producers.get(&name).copied().unwrap_or(0);
            (name, last, last.saturating_add_signed(step).max(1))
        });
        let command = Command::Enqueue(Enqueue {
            queue: QUEUES[queue].into(),
            create: true,
            jobs: specs.iter().map(|spec| self.new_job(spec)).collect(),
            producer: producer.map(|(name, _, seq)| Producer { name: format!("p{name}").into(), seq }),
            request: None,
        });
        self.enqueue_it(queue, specs, producer, &command);
    }

    pub fn new_job(&self, spec: &Spec) -> NewJob {
        let now = self.world.now;
        NewJob {
            kind: KINDS[usize::from(spec.kind)].into(),
            schema_version: 1,
            payload: vec![spec.payload],
            priority: spec.priority,
            group: spec.group.map(|group| GROUPS[usize::from(group)].into()),
            dedup: spec.dedup.map(|(key, for_ms, mode)| Dedup {
                key: format!("d{key}").into(),
                for_ms,
                on_duplicate: [OnDuplicate::Keep, OnDuplicate::Replace, OnDuplicate::Conflict][usize::from(mode)],
            }),
            idempotency_key: spec.key.map(|key| format!("k{key}").into()),
            when: match (spec.delay, spec.at) {
                (Some(ms), _) => When::After(ms),
                (_, Some(offset)) => When::At(now.saturating_add_signed(offset)),
                _ => When::Now,
            },
            expires_after_ms: spec.expires,
            ..NewJob::default()
        }
    }

    fn enqueue_it(&mut self, queue: usize, specs: &[Spec], producer: Option<(u8, u64, u64)>, command: &Command) {
        let reply = self.world.run(command);
        let expected = self.expect_enqueue(queue, specs, producer);
        match (reply, expected) {
            (Ok(Reply::Enqueued { duplicate, jobs, .. }), Ok(expected)) => {
                assert_eq!(duplicate, expected.is_empty(), "a producer's batch that was there");
                assert_eq!(jobs.len(), expected.len(), "one entry a job");
                for (shown, expected) in jobs.iter().zip(expected) {
                    if !expected.is_duplicate {
                        assert_eq!(self.ids.len(), expected.number, "numbers follow");
                        self.ids.push(shown.id);
                        self.numbers.insert(shown.id, expected.number);
                    }
                    assert_eq!(self.numbers[&shown.id], expected.number, "the job");
                    let shown = (shown.duplicate.as_ref(), shown.queued_behind.map(|id| self.numbers[&id]));
                    assert_eq!(shown.1, expected.behind, "behind");
                    assert_eq!(shown.0.is_some(), expected.is_duplicate, "duplicate");
                    if let Some(duplicate) = shown.0 {
                        assert_eq!(duplicate.same_payload, expected.is_same, "same payload");
                        assert_eq!(duplicate.state.map(|state| state.word()), expected.state, "state of the first");
                    }
                }
            }
            (Err(rejection), Err(word)) => assert_eq!(refusal(&rejection), word),
            (reply, expected) => panic!("core: {reply:?}\nmodel: {expected:?}"),
        }
    }
}

/// What an entry of an enqueue must say.
#[derive(Debug)]
pub struct Expected {
    pub number: usize,
    pub is_duplicate: bool,
    is_same: bool,
    state: Option<&'static str>,
    behind: Option<usize>,
}

pub fn refusal(rejection: &Rejection) -> &'static str {
    match rejection {
        Rejection::QueueFull { reason, .. } => reason,
        Rejection::Entries(all) => refusal(&all[0]),
        Rejection::Invalid { .. } => "invalid",
        Rejection::DuplicateConflict { .. } => "conflict",
        Rejection::ProducerGap { .. } => "gap",
        Rejection::QueueNotFound { .. } => "not-found",
        Rejection::QueueNotEmpty { .. } => "not-empty",
        Rejection::JobGone(_) => "gone",
        Rejection::JobNotWaiting { .. } => "not-waiting",
        Rejection::Stale { reason, .. } | Rejection::TokenOutdated { reason } => reason.word(),
        other => panic!("not a refusal that is drawn: {other:?}"),
    }
}

impl Pair {
    /// The model's enqueue: all of it or nothing.
    fn expect_enqueue(
        &mut self,
        queue: usize,
        specs: &[Spec],
        producer: Option<(u8, u64, u64)>,
    ) -> Result<Vec<Expected>, &'static str> {
        let is_new = !self.model.queues.contains_key(&queue);
        let kept = (self.model.jobs.clone(), self.model.windows.clone(), self.model.line);
        self.ensure(queue);
        let done = self.expect_batch(queue, specs, producer);
        if done.is_err() {
            (self.model.jobs, self.model.windows, self.model.line) = kept;
            if is_new {
                self.model.queues.remove(&queue);
            }
        }
        done
    }

    fn expect_batch(
        &mut self,
        queue: usize,
        specs: &[Spec],
        producer: Option<(u8, u64, u64)>,
    ) -> Result<Vec<Expected>, &'static str> {
        if let Some((_, last, seq)) = producer {
            if seq > last + 1 {
                return Err("gap");
            }
            if seq <= last {
                return Ok(Vec::new());
            }
        }
        let policy = self.model.queues[&queue].policy.clone();
        if self.model.find(queue, |job| job.at == At::Dead).len() >= policy.dead_max {
            return Err("dead-letter-max");
        }
        if specs.len() > policy.depth {
            return Err("max-depth");
        }
        let mut entries = Vec::new();
        for spec in specs {
            if policy.ordered && spec.priority != 0 {
                return Err("invalid");
            }
            let next = self.ids.len() + entries.iter().filter(|entry: &&Expected| !entry.is_duplicate).count();
            entries.push(self.expect_one(queue, spec, next)?);
        }
        let depth = self.model.find(queue, |job| matches!(job.at, At::Waiting | At::Blocked | At::InFlight)).len();
        if depth > policy.depth && entries.iter().any(|entry| !entry.is_duplicate) {
            return Err("max-depth");
        }
        if let Some((name, _, seq)) = producer {
            self.model.queues.get_mut(&queue).unwrap().producers.insert(name, seq);
        }
        Ok(entries)
    }

    pub fn expect_one(&mut self, queue: usize, spec: &Spec, next: usize) -> Result<Expected, &'static str> {
        let now = self.model.now;
        let due = match (spec.delay, spec.at) {
            (Some(ms), _) => now + ms,
            (_, Some(offset)) => now.saturating_add_signed(offset).max(now),
            _ => now,
        };
        let mut behind = None;
        let window = spec.dedup.and_then(|(key, ..)| self.model.windows.get(&(queue, key)).cloned());
        if let (Some(window), Some((key, _, mode))) = (window, spec.dedup) {
            let is_same = window.payload == spec.payload;
            let holds = |job: &&Job| job.queue == queue && job.dedup.is_some_and(|(held, _)| held == key);
            let holder = self.model.jobs.get(&window.job).filter(holds).map(|_| window.job);
            if mode == 2 && !is_same {
                return Err("conflict");
            }
            match holder {
                Some(number) if mode == 1 && self.model.jobs[&number].at == At::InFlight => behind = Some(number),
                holder => {
                    if let Some(number) = holder.filter(|number| mode == 1 && self.model.is_waiting(*number)) {
                        let job = self.model.job(number);
                        if job.kind != spec.kind {
                            return Err("invalid");
                        }
                        job.take_payload(spec.payload);
                        (job.place, job.due_elapsed, job.at_once) = (due, None, false);
                        self.model.windows.get_mut(&(queue, key)).unwrap().payload = spec.payload;
                    }
                    let state = holder.map(|number| self.model.state(number));
                    return Ok(Expected { number: window.job, is_duplicate: true, is_same, state, behind: None });
                }
            }
        }
        let at_once = due <= now;
        let place = if at_once { now.max(self.model.line) } else { due };
        if at_once {
            self.model.line = place;
        }
        if let Some((key, until, _)) = spec.dedup {
            let window = Window { job: next, payload: spec.payload, until: until.map(|ms| now + ms) };
            self.model.windows.insert((queue, key), window);
        }
        self.model.jobs.insert(
            next,
            Job {
                queue,
                number: next,
                kind: spec.kind,
                priority: spec.priority,
                group: spec.group,
                dedup: spec.dedup.map(|(key, until, _)| (key, until)),
                key: spec.key,
                payload: spec.payload,
                at: if behind.is_some() { At::Blocked } else { At::Waiting },
                place,
                at_once,
                due_elapsed: None,
                expires: spec.expires.map(|ms| now + ms),
                behind,
                attempts: 0,
                deliveries: 0,
                earlier: 0,
                replays: 0,
                errors: Vec::new(),
                lease: None,
                cancel: false,
                ignore_key: false,
                skipped: false,
                result: None,
                keep_until: 0,
                died_at: 0,
                released_dedup: None,
                enqueued: now,
                arrived: None,
            },
        );
        Ok(Expected { number: next, is_duplicate: false, is_same: false, state: None, behind })
    }

    fn receive(&mut self, queue: usize, max: usize, kinds: Option<u8>, visibility: Option<u64>) {
        let types = kinds.map(|kinds| {
            let declared = (0..3).filter(|kind| kinds & 1 << kind != 0);
            declared.map(|kind| TypeRange { kind: KINDS[kind].into(), from: 1, to: 9 }).collect()
        });
        let receive = Receive {
            queues: vec![(QUEUES[queue].into(), 1)],
            create: true,
            max,
            max_bytes: u64::MAX,
            visibility_ms: visibility,
            types,
            worker: Some("w".into()),
            by_group: max == 3,
            ..Receive::default()
        };
        self.ensure(queue);
        let Ok(Reply::Received { jobs, empty_because, .. }) = self.world.run(&Command::Receive(receive)) else {
            panic!("a receive is not refused");
        };
        let mut last = None;
        for given in &jobs {
            let number = self.numbers[&given.job.id];
            let group_of = last.filter(|_| max == 3);
            let candidates = self.candidates(queue, kinds, group_of, Some(number));
            last = Some(number);
            assert!(candidates.contains(&number), "job {number} was given, not one of {candidates:?}");
            let delivery = self.model.hand_out(number, visibility);
            assert_eq!(delivery, self.deliveries.len());
            self.deliveries.push((number, given.receipt.text(self.world.state.secret()), given.receipt.nonce));
            let lease = self.model.jobs[&number].lease.as_ref().unwrap();
            let visible_at = lease.ends.saturating_add_signed(self.model.skew);
            assert_eq!(given.visible_at, visible_at, "when job {number} is visible again");
        }
        let group_of = last.filter(|_| max == 3);
        let left = self.candidates(queue, kinds, group_of, None);
        // Where limits let nothing more be met now, it was met before; and behind one that was met so, another.
        let met = std::mem::take(&mut self.met).into_iter().chain(self.model.find(queue, |_| true));
        for number in met.collect::<Vec<_>>() {
            let is_here = self.model.jobs[&number].queue == queue;
            if is_here && self.model.redrive_due(number).is_some() && self.is_gone(number) {
                self.model.hand_off(number, 1 - queue);
            }
        }
        if jobs.len() < max {
            assert_eq!(left, [] as [usize; 0], "could have been given as well");
        }
        let ready = self
            .model
            .find(queue, |_| true)
            .into_iter()
            .any(|number| matches!(self.model.state(number), "ready" | "blocked"));
        assert_eq!(empty_because.is_some(), jobs.is_empty() && ready, "why nothing was given");
    }

    /// Jobs of which a receive must be given one next: after a job of a group the next of that group, if there is one.
    /// What was received too often has gone to the other queue when it was met, at the latest before `given`.
    fn candidates(
        &mut self,
        queue: usize,
        kinds: Option<u8>,
        group_of: Option<usize>,
        given: Option<usize>,
    ) -> Vec<usize> {
        loop {
            let next = group_of.and_then(|last| self.model.next_of_group(last)).map(|next| vec![next]);
            let met = next.unwrap_or_else(|| self.model.candidates(queue, kinds));
            let is_met = |number: &&usize| self.model.redrive_due(**number).is_some() && self.is_gone(**number);
            let gone: Vec<usize> = met.iter().filter(is_met).copied().collect();
            let can_wait = given.is_some_and(|given| met.contains(&given));
            self.met.extend(&gone);
            // Who stood before `given` in its group was met before it; others may have been met later.
            let group = |number: usize| self.model.jobs[&number].group;
            let before = gone.iter().find(|number| given.is_some_and(|given| group(given) == group(**number)));
            let Some(number) = before.or(gone.first()).filter(|_| !can_wait) else { return met };
            self.model.hand_off(*number, 1 - queue);
        }
    }

    /// The core has it in another queue.
    fn is_gone(&self, number: usize) -> bool {
        match self.world.ask(&Query::Job(self.ids[number])) {
            Ok(recado_core::Answer::Job(view)) => *view.queue != *QUEUES[self.model.jobs[&number].queue],
            other => panic!("not a job: {other:?}"),
        }
    }

    fn settle(&mut self, back: usize, say: Say) {
        let Some(delivery) = self.nth_delivery(back) else { return };
        let (number, receipt, _) = self.deliveries[delivery].clone();
        let (outcome, as_ended) = match say {
            Say::Ack(result) => (Outcome::Ack { result: result.map(|byte| vec![byte]) }, Ended::Acked),
            Say::Fail { retryable, after } => {
                let (kind, message) = ("boom".into(), "text".into());
                (Outcome::Fail(Failure { kind, message, retryable, retry_after_ms: after }), Ended::Failed)
            }
            Say::Release(delay_ms) => (Outcome::Release { delay_ms, reason: None }, Ended::Released),
            Say::Extend(visibility_ms) => (Outcome::Extend { visibility_ms, progress: None }, Ended::Held),
        };
        let job = Some(self.ids[number]);
        let reply = self.world.run(&Command::Settle(Settle { job, receipt: receipt.into(), outcome }));
        if !self.model.jobs.contains_key(&number) {
            let was_ended_so = self.said.get(&delivery) == Some(&(say, true));
            match reply {
                Ok(Reply::Settled(settled)) => assert!(was_ended_so && settled.repeated, "{settled:?}"),
                Ok(reply) => panic!("not an answer to a settle: {reply:?}"),
                Err(rejection) => assert!(!was_ended_so && ["settled", "purged"].contains(&refusal(&rejection))),
            }
            return;
        }
        let is_same = self.said.get(&delivery).is_some_and(|(said, _)| *said == say);
        let standing = self.model.standing(number, delivery, as_ended, is_same);
        match (reply, standing) {
            (Ok(Reply::Settled(settled)), Ok(counts)) => {
                let is_cancelled = self.model.jobs[&number].cancel;
                assert_eq!(
                    (settled.repeated, settled.cancel_requested),
                    (!counts, is_cancelled),
                    "repeated, cancelled"
                );
                if counts {
                    let visible_at = self.expect_settle(number, say);
                    assert_eq!(settled.visible_at, visible_at, "visible");
                    if visible_at.is_none() {
                        let job = self.model.jobs.get(&number);
                        let is_end = job.is_none_or(|job| matches!(job.at, At::Completed | At::Cancelled));
                        self.said.insert(delivery, (say, is_end));
                    }
                }
            }
            (Err(rejection), Err(reason)) => assert_eq!(refusal(&rejection), reason),
            (reply, standing) => panic!("core: {reply:?}\nmodel: {standing:?} {:?}", self.model.jobs[&number]),
        }
    }

    fn expect_settle(&mut self, number: usize, say: Say) -> Option<u64> {
        let is_killed = self.model.jobs[&number].at == At::Dead;
        match say {
            Say::Ack(result) => self.model.complete(number, result),
            Say::Fail { .. } if is_killed => {
                let now = self.model.now;
                let job = self.model.job(number);
                job.errors.push("boom".into());
                job.died_at = now;
                job.lease.as_mut().unwrap().state = Ended::Failed;
            }
            Say::Fail { retryable, after } => self.model.fail(number, "boom", retryable, after, Ended::Failed),
            Say::Release(delay) => self.model.release(number, delay),
            Say::Extend(visibility) => return Some(self.model.extend(number, visibility)),
        }
        None
    }

    fn give_back(&mut self, back: usize) {
        let Some(delivery) = self.nth_delivery(back) else { return };
        let (number, _, nonce) = self.deliveries[delivery].clone();
        self.world.run(&Command::GiveBack { job: self.ids[number], nonce, delay_ms: None }).unwrap();
        let held = |job: &&Job| {
            job.lease.as_ref().is_some_and(|lease| lease.delivery == delivery && lease.state == Ended::Held)
        };
        let Some(job) = self.model.jobs.get(&number).filter(held) else { return };
        if job.cancel {
            self.model.end(number, At::Cancelled, "cancelled", Ended::Cancelled);
        } else {
            let job = self.model.job(number);
            (job.attempts, job.deliveries) = (job.attempts - 1, job.deliveries - 1);
            (job.at, job.at_once, job.due_elapsed) = (At::Waiting, true, None);
            job.lease.as_mut().unwrap().state = Ended::Released;
        }
    }
}
