//! Enqueue: a batch of jobs for one queue, all or nothing.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

use minicbor::{Decode, Encode};
use recado_mutants::{Mutant, active};

use super::family::Entry;
use super::{find_queue, mix, still_there};
use crate::codec::DecodeError;
use crate::command::{Dedup, Enqueue, Moment, NewJob, OnDuplicate, RequestKey, When};
use crate::draft::Draft;
use crate::event::{DedupRecord, Event, JobRecord, QueueRecord, Waits};
use crate::id::{Hash, JobId};
use crate::items::ITEMS_MAX;
use crate::meta::Meta;
use crate::options::{Overrides, QueueOptions, Settings, Source};
use crate::rejection::Rejection;
use crate::reply::{Duplicate, Enqueued, Place, Reply, State as JobState};
use crate::state::{
    DedupEntry, LANES_MAX, NameOfLane, PRODUCER_IDLE_MS, PRODUCERS_MAX, QUEUES_MAX, Queue, State, domain,
};

/// How long an answer is kept for its `Idempotency-Key`.
pub(super) const REQUEST_KEPT_MS: u64 = 600_000;

/// Bad entries of a batch that a refusal names.
const BAD_ENTRIES_MAX: usize = 100;

/// The answer that an `Idempotency-Key` saved.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct SavedAnswer {
    /// The queue was created by it.
    #[n(0)]
    pub created: bool,
    /// The producer's batch was there already.
    #[n(1)]
    pub duplicate: bool,
    /// One entry a job.
    #[n(2)]
    pub jobs: Vec<Enqueued>,
}

/// Reads the bytes at the place of [`Reply::Saved`].
///
/// # Errors
/// [`DecodeError`] when the bytes are of a newer version.
pub fn decode_saved(bytes: &[u8]) -> Result<SavedAnswer, DecodeError> {
    minicbor::decode(bytes).map_err(DecodeError::from)
}

/// A job of this batch that holds a deduplication key.
#[derive(Clone, Copy)]
struct Taken<'a> {
    id: JobId,
    payload: Hash,
    lane: NameOfLane<'a>,
    state: JobState,
}

/// What earlier jobs of the same request have changed.
pub(super) struct Request<'a> {
    pub(super) state: &'a State,
    moment: Moment,
    /// Create unknown queues.
    create: bool,
    next_seq: u64,
    /// The queue of the request, then those of children and ends of batches.
    intakes: Vec<Intake<'a>>,
    /// Batches of jobs that it added to: the job that ends each, and how many jobs it has.
    pub(super) batches: BTreeMap<Hash, (JobId, usize)>,
}

/// What a new job is tied to.
#[derive(Clone, Copy, Default)]
pub(super) struct Ties {
    pub(super) parent: Option<JobId>,
    pub(super) waits: Option<Waits>,
    pub(super) dedup: Option<DedupRecord>,
    /// Sequence number of the job that it takes the place of, which is in flight.
    pub(super) behind: Option<u64>,
}

/// What a request has changed in one queue.
struct Intake<'a> {
    state: &'a State,
    /// The queue, unless this batch creates it.
    queue: Option<&'a Queue>,
    settings: Settings,
    name: &'a str,
    number: u32,
    moment: Moment,
    /// Deduplication keys taken or changed by this batch.
    taken: BTreeMap<Hash, Taken<'a>>,
    new_lanes: BTreeSet<NameOfLane<'a>>,
    new_keys: BTreeMap<u128, ()>,
    new_jobs: u64,
}

pub(super) fn decide(state: &State, moment: Moment, enqueue: &Enqueue, draft: &mut Draft) -> Result<Reply, Rejection> {
    let request = enqueue.request.as_ref().map(|request| (request_hash(state, request), request.body));
    if let Some((hash, body)) = request
        && let Some(entry) = state.requests.get_by(hash.0)
        && entry.until > moment.at
    {
        return if entry.body == body { Ok(Reply::Saved(entry.answer)) } else { Err(Rejection::RequestKeyReused) };
    }
    let created = !state.names.contains_key(&enqueue.queue);
    let mut all = Request {
        state,
        moment,
        create: enqueue.create,
        next_seq: state.seq + 1,
        intakes: Vec::new(),
        batches: BTreeMap::new(),
    };
    all.open(&enqueue.queue, draft)?;
    let (queue, number) = (all.intakes[0].queue, all.intakes[0].number);
    let mut answer = SavedAnswer { created, duplicate: false, jobs: Vec::with_capacity(enqueue.jobs.len()) };
    if let Some(producer) = &enqueue.producer {
        let hash = state.hash(domain::PRODUCER, number, &producer.name);
        let known = state.producers.get_by(hash.0);
        let last = known.map_or(0, |entry| entry.seq);
        if producer.seq > last + 1 {
            return Err(Rejection::ProducerGap { name: producer.name.clone(), expected: last + 1 });
        }
        if producer.seq <= last {
            return Ok(Reply::Enqueued { created: false, duplicate: true, jobs: Vec::new() });
        }
        if let Some(queue) = queue.filter(|_| known.is_none()) {
            make_room_for_producer(state, moment, queue, draft)?;
        }
        draft.push(Event::ProducerAdvanced { producer: hash, queue: number, seq: producer.seq, at: moment.at });
    }
    all.intakes[0].check_limits(enqueue.jobs.len())?;
    let mut bad = Vec::new();
    for (index, job) in enqueue.jobs.iter().enumerate() {
        match all.add(Entry { index, intake: 0, depth: 0, parent: None }, job, draft) {
            Ok(enqueued) => answer.jobs.push(enqueued),
            Err(rejection) if rejection.is_of_entry() && bad.len() < BAD_ENTRIES_MAX => bad.push(rejection),
            Err(rejection) if bad.is_empty() => return Err(rejection),
            Err(_) => break,
        }
    }
    match bad.len() {
        0 => {}
        1 => return Err(bad.remove(0)),
        _ => return Err(Rejection::Entries(bad)),
    }
    all.intakes.iter().try_for_each(Intake::check_depth)?;
    if let Some((hash, body)) = request {
        let span = draft.put_encoded(&answer);
        let until = moment.at.saturating_add(REQUEST_KEPT_MS);
        draft.push(Event::RequestAnswered { request: hash, body, answer: span, until });
    }
    Ok(Reply::Enqueued { created: answer.created, duplicate: false, jobs: answer.jobs })
}

/// At the limit the producer that has been idle longest gives way, once nobody can still repeat its last batch.
fn make_room_for_producer(state: &State, moment: Moment, queue: &Queue, draft: &mut Draft) -> Result<(), Rejection> {
    if queue.producers < PRODUCERS_MAX {
        return Ok(());
    }
    let idlest = state.idlest_producer(queue.record.number);
    let Some(idlest) = idlest.filter(|idlest| idlest.at.saturating_add(PRODUCER_IDLE_MS) <= moment.at) else {
        let (limit, actual) = (PRODUCERS_MAX, queue.producers + 1);
        return Err(Rejection::QueueFull { queue: queue.record.name.clone(), reason: "producers", limit, actual });
    };
    draft.push(Event::ProducerForgotten { producer: idlest.hash });
    Ok(())
}

fn request_hash(state: &State, request: &RequestKey) -> Hash {
    state.hash(domain::REQUEST, 0, &request.key)
}

/// Number of the queue with this name; a fact creates it if it is unknown.
pub(super) fn find_or_create(state: &State, name: &str, create: bool, draft: &mut Draft) -> Result<u32, Rejection> {
    if let Some(number) = state.names.get(name) {
        return Ok(*number);
    }
    if !create {
        find_queue(state, name)?;
    }
    let new = draft.events.iter().filter(|event| matches!(event, Event::QueueSet(_))).count();
    let number = state.last_queue + 1 + new as u32;
    // Numbers of queues are never used again, and there are 2^28 of them.
    if state.queues.len() + new >= QUEUES_MAX || number > ITEMS_MAX {
        return Err(Rejection::TooManyQueues { limit: QUEUES_MAX as u64 });
    }
    draft.push(Event::QueueSet(Box::new(QueueRecord {
        number,
        name: name.into(),
        source: Source::Auto,
        options: QueueOptions::default(),
        revision: 1,
        paused: false,
        paused_reason: None,
        purged_at: 0,
        breaker: None,
    })));
    Ok(number)
}

impl<'a> Request<'a> {
    /// Begins to put jobs into a queue, which is made if it is unknown.
    fn open(&mut self, name: &'a str, draft: &mut Draft) -> Result<usize, Rejection> {
        let state = self.state;
        let number = find_or_create(state, name, self.create, draft)?;
        let queue = state.queues.get(&number).map(|queue| &**queue);
        queue.map_or(Ok(()), still_there)?;
        let settings = match queue {
            Some(queue) => queue.settings.clone(),
            None => QueueOptions::default().settings(&state.defaults),
        };
        self.intakes.push(Intake {
            state,
            queue,
            settings,
            name,
            number,
            moment: self.moment,
            taken: BTreeMap::new(),
            new_lanes: BTreeSet::new(),
            new_keys: BTreeMap::new(),
            new_jobs: 0,
        });
        Ok(self.intakes.len() - 1)
    }

    /// Where jobs of the named queue are put, or of this one.
    pub(super) fn intake_of(
        &mut self,
        name: Option<&'a str>,
        this: usize,
        draft: &mut Draft,
    ) -> Result<usize, Rejection> {
        let Some(name) = name else { return Ok(this) };
        if let Some(at) = self.intakes.iter().position(|intake| intake.name == name) {
            return Ok(at);
        }
        let at = self.open(name, draft)?;
        self.intakes[at].check_limits(1)?;
        Ok(at)
    }

    /// Stands for the id of a batch of the queue.
    pub(super) fn batch_hash(&self, intake: usize, id: &str) -> Hash {
        self.state.hash(domain::BATCH, self.intakes[intake].number, id)
    }

    /// Writes down a job, without what it is tied to.
    pub(super) fn put(
        &mut self,
        intake: usize,
        index: usize,
        job: &'a NewJob,
        ties: Ties,
        draft: &mut Draft,
    ) -> Result<Enqueued, Rejection> {
        self.intakes[intake].add(index, job, ties, &mut self.next_seq, draft)
    }
}

impl<'a> Intake<'a> {
    fn full(&self, reason: &'static str, limit: u64, actual: u64) -> Rejection {
        Rejection::QueueFull { queue: self.name.into(), reason, limit, actual }
    }

    fn check_limits(&self, jobs: usize) -> Result<(), Rejection> {
        let dead = self.queue.map_or(0, |queue| queue.count(JobState::Dead));
        if dead >= self.settings.dead_max {
            return Err(self.full("dead-letter-max", self.settings.dead_max, dead));
        }
        // A batch larger than the whole queue is refused before anything is looked up for it.
        if jobs as u64 > self.settings.max_depth {
            return Err(self.full("max-depth", self.settings.max_depth, jobs as u64));
        }
        let limit = self.state.memory_limit_bytes;
        if self.state.is_short_of_memory() && !active(Mutant::MemoryUnlimited) {
            return Err(Rejection::OutOfMemory { limit });
        }
        Ok(())
    }

    fn check_depth(&self) -> Result<(), Rejection> {
        let depth = self.queue.map_or(0, Queue::depth) + self.new_jobs;
        let limit = self.settings.max_depth;
        let is_one_more = depth == limit + 1 && active(Mutant::DepthOffByOne);
        if self.new_jobs > 0 && depth > limit && !is_one_more {
            return Err(self.full("max-depth", self.settings.max_depth, depth));
        }
        Ok(())
    }

    fn add(
        &mut self,
        index: usize,
        job: &'a NewJob,
        ties: Ties,
        next_seq: &mut u64,
        draft: &mut Draft,
    ) -> Result<Enqueued, Rejection> {
        let (limit, actual) = (self.settings.payload_max_bytes, job.payload.len() as u64);
        let is_one_more = actual == limit + 1 && active(Mutant::PayloadLimitOffByOne);
        if actual > limit && !is_one_more {
            let pointer = "/payload".into();
            return Err(Rejection::PayloadTooLarge { queue: self.name.into(), index, pointer, limit, actual });
        }
        if self.settings.ordered && job.priority != 0 {
            return Err(Rejection::Invalid {
                index,
                pointer: "/priority".into(),
                message: format!("queue `{}` is ordered by group; leave priority out", self.name),
            });
        }
        let Some(dedup) = &job.dedup else {
            return self.put_in(job, ties, next_seq, draft).map(Enqueued::new);
        };
        self.add_deduplicated(index, job, dedup, ties, next_seq, draft)
    }

    fn add_deduplicated(
        &mut self,
        index: usize,
        job: &'a NewJob,
        dedup: &Dedup,
        ties: Ties,
        next_seq: &mut u64,
        draft: &mut Draft,
    ) -> Result<Enqueued, Rejection> {
        let state = self.state;
        let payload = state.secret.hash(domain::PAYLOAD, u64::from(self.number), &[&job.payload]);
        let record = DedupRecord {
            hash: self.dedup_hash(job, &dedup.key),
            payload,
            until: dedup.for_ms.map(|ms| self.moment.at.saturating_add(ms)),
        };
        let duplicate = |id, same_payload, state, result| Enqueued {
            duplicate: Some(Duplicate { same_payload, state, result }),
            ..Enqueued::new(id)
        };
        if let Some(first) = self.taken.get(&record.hash).copied() {
            let id = first.id;
            if dedup.on_duplicate == OnDuplicate::Conflict && first.payload != payload {
                return Err(Rejection::DuplicateConflict { index, id });
            }
            if dedup.on_duplicate == OnDuplicate::Replace {
                // The job was made or changed by this very batch: the later entry changes it like any waiting job.
                let state = self.replace(index, record.hash, first, job, payload, draft)?;
                return Ok(duplicate(id, first.payload == payload, Some(state), None));
            }
            return Ok(duplicate(id, first.payload == payload, Some(first.state), None));
        }
        let slot = state.dedups.find(record.hash.0);
        let at = self.moment.at - u64::from(active(Mutant::DedupWindowTooLong));
        let open = slot
            .map(|slot| (slot, &state.dedups[slot]))
            .filter(|(_, entry)| entry.until().is_none_or(|until| until > at));
        let Some((slot, entry)) = open else {
            return self.put_in(job, Ties { dedup: Some(record), ..ties }, next_seq, draft).map(Enqueued::new);
        };
        let id = state.dedup_window(slot).id;
        let same_payload = entry.payload == payload;
        let holder = entry.job.map(|slot| &state.jobs[slot]);
        let holder_state = holder.map(|holder| state.state_at(holder, self.moment.at));
        let result = holder.and_then(|holder| state.result_of(holder)).map(|p| (p.position, p.offset, p.length));
        match (dedup.on_duplicate, holder_state) {
            (OnDuplicate::Conflict, _) if !same_payload => return Err(Rejection::DuplicateConflict { index, id }),
            (OnDuplicate::Replace, Some(before)) if before.is_waiting() => {
                let lane = holder.map_or((&*job.kind, job.schema_version, job.priority), |holder| {
                    state.queue(self.number).lane(holder.lane).name.parts()
                });
                let waiting = Taken { id, payload, lane, state: before };
                let state = self.replace(index, record.hash, waiting, job, payload, draft)?;
                return Ok(duplicate(id, same_payload, Some(state), result));
            }
            (OnDuplicate::Replace, Some(JobState::InFlight)) => {
                let ties = Ties { dedup: Some(record), behind: Some(id.seq()), ..ties };
                let new = self.put_in(job, ties, next_seq, draft)?;
                return Ok(Enqueued { queued_behind: Some(id), ..Enqueued::new(new) });
            }
            _ => {}
        }
        Ok(duplicate(id, same_payload, holder_state, result))
    }

    /// Where keys are unique in a group, one that was taken while they were unique in the queue still stops others.
    fn dedup_hash(&self, job: &NewJob, key: &str) -> Hash {
        let in_queue = self.state.dedup_hash(self.number, key, None);
        let is_open = |entry: &DedupEntry| entry.until().is_none_or(|until| until > self.moment.at);
        let is_taken = || self.state.dedups.get_by(in_queue.0).is_some_and(is_open);
        match &self.settings.fifo {
            Some(fifo) if fifo.dedup_in_group && !is_taken() => {
                self.state.dedup_hash(self.number, key, job.group.as_deref())
            }
            _ => in_queue,
        }
    }

    /// A waiting job takes payload and time of a later one; entries behind it in this batch meet it as it will be. What
    /// the payload was checked by stays what it was.
    fn replace(
        &mut self,
        index: usize,
        key: Hash,
        waiting: Taken<'a>,
        job: &NewJob,
        payload: Hash,
        draft: &mut Draft,
    ) -> Result<JobState, Rejection> {
        let (kind, version, priority) = waiting.lane;
        if (kind, version) != (&*job.kind, job.schema_version) {
            let pointer = if kind == &*job.kind { "/schemaVersion" } else { "/type" };
            let message = format!(
                "job {} holds this deduplication key with type `{kind}` version {version}: `replace` gives it another \
                 payload and time, not another type; cancel it first",
                waiting.id
            );
            return Err(Rejection::Invalid { index, pointer: pointer.into(), message });
        }
        let due_at = self.due_at(job);
        let span = draft.put(&job.payload);
        draft.push(Event::Patched {
            seq: waiting.id.seq(),
            priority,
            due_at: Some(due_at),
            payload: Some(span),
            payload_hash: Some(payload),
        });
        let state = if waiting.state == JobState::Blocked { waiting.state } else { self.first_state(due_at) };
        self.taken.insert(key, Taken { payload, state, ..waiting });
        Ok(state)
    }

    /// Where a job that waits for nothing but its time begins.
    fn first_state(&self, due_at: u64) -> JobState {
        if due_at > self.moment.at { JobState::Delayed } else { JobState::Ready }
    }

    fn due_at(&self, job: &NewJob) -> u64 {
        let at = self.moment.at;
        match job.when {
            When::Now => at,
            When::After(ms) => at.saturating_add(ms),
            When::At(instant) => instant.max(at),
        }
    }

    /// Writes down a new job.
    fn put_in(
        &mut self,
        job: &'a NewJob,
        ties: Ties,
        next_seq: &mut u64,
        draft: &mut Draft,
    ) -> Result<JobId, Rejection> {
        let Ties { parent, waits, dedup, behind } = ties;
        let (state, at) = (self.state, self.moment.at);
        let lane = (&*job.kind, job.schema_version, job.priority);
        let kind = self.kind_of(lane)?;
        let key = job.idempotency_key.as_ref().map(|key| state.hash(domain::KEY, self.number, key));
        if let Some(key) = key {
            self.check_key(key)?;
            state.end_if_over(key, at, draft);
        }
        let id = JobId::new(at, state.shard, *next_seq, mix(self.moment.entropy, *next_seq));
        *next_seq += 1;
        self.new_jobs += 1;
        if let Some(dedup) = &dedup {
            let waits = behind.is_some() || waits.is_some();
            let state = if waits { JobState::Blocked } else { self.first_state(self.due_at(job)) };
            let taken = Taken { id, payload: dedup.payload, lane, state };
            self.taken.insert(dedup.hash, taken);
        }
        let meta = Meta {
            headers: job.headers.clone().map(Into::into),
            business_id: job.business_id.clone(),
            group: job.group.clone(),
            dedup_key: job.dedup.as_ref().map(|dedup| dedup.key.clone()),
            idempotency_key: job.idempotency_key.clone(),
        };
        let at_once = self.due_at(job) <= at;
        let payload = draft.put(&job.payload);
        let meta = draft.put_encoded(&meta);
        let overrides = (job.overrides != Overrides::default()).then(|| Box::new(job.overrides.clone()));
        draft.push(Event::Enqueued(JobRecord {
            id,
            queue: self.number,
            kind,
            schema_version: job.schema_version,
            priority: job.priority,
            due_at: if at_once { at.max(state.line_at) } else { self.due_at(job) },
            payload,
            meta,
            group: job.group.as_ref().map(|group| state.hash(domain::GROUP, self.number, group)),
            dedup,
            key,
            business: job.business_id.as_ref().map(|id| state.hash(domain::BUSINESS, 0, id)),
            overrides,
            expires_at: job.expires_after_ms.map(|ms| at.saturating_add(ms)),
            behind,
            at_once,
            parent,
            waits,
        }));
        Ok(id)
    }

    /// The name of a lane's type, shared with the lane if it is there already.
    fn kind_of(&mut self, lane: NameOfLane<'a>) -> Result<Arc<str>, Rejection> {
        if let Some(queue) = self.queue
            && let Ok(number) = queue.find_lane(lane)
        {
            return Ok(Arc::clone(&queue.lane(number).name.kind));
        }
        self.new_lanes.insert(lane);
        let lanes = self.queue.map_or(0, Queue::lane_count) + self.new_lanes.len();
        if lanes > LANES_MAX {
            return Err(self.full("lanes", LANES_MAX as u64, lanes as u64));
        }
        Ok(lane.0.into())
    }

    fn check_key(&mut self, key: Hash) -> Result<(), Rejection> {
        if self.state.keys.find(key.0).is_some() {
            return Ok(());
        }
        self.new_keys.insert(key.0, ());
        let keys = self.queue.map_or(0, |queue| queue.keys) + self.new_keys.len() as u64;
        if keys > self.settings.key_max {
            return Err(self.full("idempotency-max", self.settings.key_max, keys));
        }
        Ok(())
    }
}

impl State {
    /// A saved result whose time is over, and that no job needs, must not meet a job that comes.
    pub(super) fn end_if_over(&self, hash: Hash, at: u64, draft: &mut Draft) {
        let Some(key) = self.keys.get_by(hash.0) else { return };
        let is_over = key.saved.as_ref().is_some_and(|saved| !saved.ended && saved.until <= at);
        let event = Event::KeyEnded { key: hash, kept: !key.jobs.is_empty() };
        if is_over && self.carriers(key) == 0 && !draft.events.contains(&event) {
            draft.push(event);
        }
    }
}

impl Enqueued {
    fn new(id: JobId) -> Self {
        Self { id, duplicate: None, queued_behind: None, children: Vec::new() }
    }

    /// Where the result of the job that was there already is.
    #[must_use]
    pub fn result(&self) -> Option<Place> {
        let (position, offset, length) = self.duplicate.as_ref()?.result?;
        Some(Place { position, offset, length })
    }
}
