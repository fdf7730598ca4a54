//! What everything costs: in the log, so that trimming knows how small the log can become, and in memory, so
//! that it stays below its limit.
//!
//! Both are sums that are kept up to date. An item counts from the moment it is linked until it is unlinked; a
//! job counts while it stands, for its fields change only while it does not.

use crate::event::{Death, Lease, QueueRecord, TaskRecord};
use crate::items::{ItemKind, whole};
use crate::options::BackoffCurve;
use crate::query::RETRY_AFTER_MS;
use crate::reply::Place;
use crate::state::job::{ERRORS_FIRST, ERRORS_LAST};
use crate::state::slab::Slot;
use crate::state::{
    AuditEntry, Business, Child, DedupEntry, Delivery, Errors, Extra, Family, Group, GroupRate, Guard, Hook, Job, Key,
    Limit, Note, ProducerEntry, Queue, Rare, RequestEntry, Saved, Schedule, Schema, SettleEntry, State, TASKS_KEPT_MAX,
    Task, Window,
};

/// What a job or a record of texts costs in the log without its bytes.
const ITEM_BYTES: u64 = 160;

/// What an item costs in the log that is little more than a hash or two.
const HASH_BYTES: u64 = 80;

/// What a remembered settle costs in the log: four numbers.
const SETTLE_BYTES: u64 = 40;

/// Numbers of a last delivery in the log.
const LEASE_BYTES: u64 = 80;

/// A child in the log's copy of its parent, with the place of its result.
const CHILD_BYTES: u64 = 48;

/// Numbers of a place in the log: offset and length.
const SPAN_BYTES: u64 = 12;

/// Options of a job or queue in the log, all set, without their texts and lists.
const OPTIONS_BYTES: u64 = 128;

/// An occurrence of a schedule in the log, without its job and the end of what it stands for.
const OCCURRENCE_BYTES: u64 = 26;

/// A job's id in the log.
const ID_BYTES: u64 = 18;

/// A place of a list or filter in the log: a number of any size.
const NUMBER_BYTES: u64 = 9;

/// A plain waiting job in memory, with its places in the index of numbers and in its lane.
pub const JOB_BYTES: usize = 170;

/// What a job that is handed out, fails, is replayed and dies takes in memory beyond that, at most: without its texts
/// (who has it, the kind of its last error) and options of its own.
pub const JOB_GROWTH_BYTES_MAX: usize = TIMER_BYTES
    + boxed::<Extra>()
    + boxed::<Errors>()
    + (ERRORS_FIRST + ERRORS_LAST).next_power_of_two() * size_of::<Place>()
    + boxed::<Lease>()
    + boxed::<Death>()
    + boxed::<Rare>();

/// A queue in memory, without its texts.
pub const QUEUE_BYTES: usize = size_of::<Queue>() + FIGURES_BYTES;

/// An entry's place in the index of its table.
const INDEX_BYTES: usize = 12;

/// A timer in memory.
const TIMER_BYTES: usize = 40;

/// A group's places in lanes and rings, and in the index.
const GROUP_BYTES: usize = 200;

/// A receive that can be repeated.
const ATTEMPT_BYTES: usize = 160;

/// One part in so many of the memory budget is free again before producers are let in.
const MEMORY_RELIEF: u64 = 16;

/// Rolling figures of a queue.
const FIGURES_BYTES: usize = 4_096;

/// Bytes in the log, and bytes in memory; for a job those beyond a plain waiting one's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Weight {
    pub(crate) log_bytes: u64,
    pub(crate) memory_bytes: u64,
}

impl Weight {
    fn log(log_bytes: u64) -> Self {
        Self { log_bytes, memory_bytes: 0 }
    }

    /// Something of this size in memory besides.
    fn of_size(self, bytes: usize) -> Self {
        Self { memory_bytes: self.memory_bytes + bytes as u64, ..self }
    }

    /// Something that is in the log as it is in memory.
    fn both(bytes: u64) -> Self {
        Self { log_bytes: ITEM_BYTES + bytes, memory_bytes: bytes }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.log_bytes += other.log_bytes;
        self.memory_bytes += other.memory_bytes;
    }

    pub(crate) fn take(&mut self, other: Self) {
        self.log_bytes -= other.log_bytes;
        self.memory_bytes -= other.memory_bytes;
    }
}

fn at(place: Place) -> u64 {
    SPAN_BYTES + u64::from(place.length)
}

fn text(text: Option<&str>) -> u64 {
    text.map_or(0, |text| text.len() as u64)
}

fn delays(curve: Option<&BackoffCurve>) -> u64 {
    match curve {
        Some(BackoffCurve::List { delays_ms }) => NUMBER_BYTES * delays_ms.len() as u64,
        _ => 0,
    }
}

fn job(job: &Job) -> Weight {
    let mut weight = Weight::log(ITEM_BYTES + at(job.payload()) + at(job.meta()));
    if job.expires_at().is_some() {
        weight = weight.of_size(TIMER_BYTES);
    }
    if let Some(it) = &job.extra {
        weight.add(extra(it));
    }
    weight
}

fn extra(extra: &Extra) -> Weight {
    let mut weight = Weight::default().of_size(boxed::<Extra>());
    let results = extra.result.into_iter().chain(extra.rare.as_ref().and_then(|rare| rare.progress));
    weight.log_bytes += results.map(at).sum::<u64>();
    if let Some(errors) = &extra.errors {
        weight.log_bytes += errors.places.iter().map(|place| at(*place)).sum::<u64>();
        weight = weight.of_size(boxed::<Errors>() + errors.places.capacity() * size_of::<Place>());
    }
    weight.add(match &extra.delivery {
        Delivery::None => Weight::default(),
        Delivery::Over(_) => Weight::log(LEASE_BYTES),
        Delivery::Of(lease) => {
            let worker = text(lease.worker.as_deref());
            Weight::log(LEASE_BYTES + worker).of_size(boxed::<Lease>() + worker as usize)
        }
    });
    if let Some(own) = &extra.overrides {
        let list = delays(own.backoff.as_ref().map(|backoff| &backoff.curve));
        weight.add(Weight::log(OPTIONS_BYTES + list).of_size(size_of_val(&**own) + list as usize));
    }
    if let Some(death) = &extra.death {
        let kind = death.error_kind.len();
        weight.add(Weight::log(NUMBER_BYTES + kind as u64).of_size(boxed::<Death>() + kind));
    }
    if extra.rare.is_some() {
        weight = weight.of_size(boxed::<Rare>());
    }
    weight
}

/// Something on the heap, with what the allocator keeps of it.
const fn boxed<T>() -> usize {
    size_of::<T>() + 8
}

fn queue(record: &QueueRecord) -> Weight {
    let options = &record.options;
    let dead_letter = options.dead_letter.as_ref().map_or(0, |dead| dead.text_bytes() as u64);
    let texts = text(options.owner.as_deref()) + dead_letter + text(record.paused_reason.as_deref());
    let list = delays(options.backoff.as_ref().map(|backoff| &backoff.curve));
    let sqs = options.sqs.as_ref().map_or(0, |sqs| {
        let target = sqs.redrive.as_ref().map_or(0, |redrive| redrive.target.len());
        (size_of_val(&**sqs) + sqs.edge.len() + target) as u64
    });
    let allow = options.payload.as_ref().map_or(0, |payload| payload.text_bytes() as u64);
    let limits = options.limit_bytes() as u64;
    Weight::both(OPTIONS_BYTES + record.name.len() as u64 + texts + list + allow + limits + sqs)
}

fn task(record: &TaskRecord, patch: Option<Place>) -> Weight {
    let select = &record.select;
    let texts = [&select.kind, &select.error_kind, &record.actor, &record.reason, &record.destination];
    let texts: u64 = texts.into_iter().map(|it| text(it.as_deref())).sum();
    let seqs = select.seqs.as_ref().map_or(0, |seqs| seqs.len() as u64);
    let mut weight = Weight::both(OPTIONS_BYTES + texts + NUMBER_BYTES * seqs);
    weight.add(Weight::log(patch.map_or(0, at)));
    weight
}

fn family(family: &Family) -> Weight {
    let children = family.children.len();
    let log_bytes = HASH_BYTES + CHILD_BYTES * children as u64 + family.result_bytes;
    let memory = family.children.capacity() * size_of::<Child>() + (children + 1) * TIMER_BYTES;
    Weight::log(log_bytes).of_size(boxed::<Family>() + memory)
}

fn schedule(schedule: &Schedule) -> Weight {
    let (record, definition) = (&schedule.record, schedule.text.len());
    let kept = record.occurrences.iter();
    let kept: u64 = kept
        .map(|it| {
            OCCURRENCE_BYTES + u64::from(it.before.is_some()) * NUMBER_BYTES + u64::from(it.job.is_some()) * ID_BYTES
        })
        .sum();
    let mut weight = Weight::both(OPTIONS_BYTES + record.text_bytes() as u64);
    weight.add(Weight::log(kept));
    weight.of_size(boxed::<Schedule>() + INDEX_BYTES + definition + size_of_val(&*record.occurrences))
}

impl State {
    pub(crate) fn weigh_family(&mut self, it: &Family) {
        self.weight.add(family(it));
    }

    pub(crate) fn unweigh_family(&mut self, it: &Family) {
        self.weight.take(family(it));
    }

    /// What an item costs. A job is counted where it stands, not where it is linked.
    fn weight(&self, kind: ItemKind, number: u32) -> Weight {
        match kind {
            ItemKind::Job => Weight::default(),
            ItemKind::Globals => Weight::log(ITEM_BYTES),
            ItemKind::Dedup => Weight::log(ITEM_BYTES).of_size(boxed::<Window>() + TIMER_BYTES),
            ItemKind::Producer => {
                Weight::log(HASH_BYTES).of_size(size_of::<ProducerEntry>() + INDEX_BYTES + TIMER_BYTES)
            }
            ItemKind::Queue => queue(&self.queue(number).record).of_size(QUEUE_BYTES),
            ItemKind::Saved => {
                let result = self.keys[number].saved.as_ref().and_then(|saved| saved.result);
                Weight::log(HASH_BYTES + result.map_or(0, at)).of_size(size_of::<Saved>() + TIMER_BYTES)
            }
            ItemKind::Settle => Weight::log(SETTLE_BYTES).of_size(size_of::<SettleEntry>() + INDEX_BYTES + TIMER_BYTES),
            ItemKind::Request => {
                let weight = Weight::log(HASH_BYTES + at(self.requests[number].answer));
                weight.of_size(size_of::<RequestEntry>() + INDEX_BYTES + TIMER_BYTES)
            }
            ItemKind::Guard => {
                let weight = Weight::log(ITEM_BYTES + self.guards[number].result.map_or(0, at));
                weight.of_size(size_of::<Guard>() + INDEX_BYTES + 2 * TIMER_BYTES)
            }
            ItemKind::Task => {
                let it = &self.tasks[&whole(number, self.last_number)];
                task(&it.record, it.patch).of_size(size_of::<Task>() + TIMER_BYTES)
            }
            ItemKind::Audit => {
                let record = &self.audit[&whole(number, self.last_number)].record;
                let texts = text(record.actor.as_deref()) + text(record.queue.as_deref());
                let texts = texts + (record.action.len() + record.detail.len()) as u64;
                Weight::both(texts).of_size(size_of::<AuditEntry>())
            }
            ItemKind::Schema => {
                let record = &self.schemas[&number].record;
                Weight::both((record.kind.len() + record.text.len()) as u64).of_size(boxed::<Schema>() + TIMER_BYTES)
            }
            ItemKind::Limit => {
                let name = self.limits[&number].record.name.len() as u64;
                Weight::both(OPTIONS_BYTES + name).of_size(boxed::<Limit>())
            }
            ItemKind::Schedule => schedule(&self.schedules[&number]),
            ItemKind::Hook => {
                let record = &self.hooks[&number].record;
                Weight::both((record.name.len() + record.text.len()) as u64).of_size(boxed::<Hook>() + TIMER_BYTES)
            }
            ItemKind::Note => {
                Weight::both(self.notes[number].text.len() as u64).of_size(size_of::<Note>() + INDEX_BYTES)
            }
        }
    }

    pub(crate) fn weigh_item(&mut self, kind: ItemKind, number: u32) {
        let weight = self.weight(kind, number);
        self.weight.add(weight);
    }

    pub(crate) fn unweigh_item(&mut self, kind: ItemKind, number: u32) {
        let weight = self.weight(kind, number);
        self.weight.take(weight);
    }

    pub(crate) fn weigh_job(&mut self, slot: Slot) {
        self.weight.add(job(&self.jobs[slot]));
    }

    pub(crate) fn unweigh_job(&mut self, slot: Slot) {
        self.weight.take(job(&self.jobs[slot]));
    }

    /// What [`State::weight`] must be, counted anew.
    pub(crate) fn counted_weight(&self) -> Weight {
        let mut sum = Weight::default();
        self.jobs.iter().for_each(|(_, it)| sum.add(job(it)));
        self.families.values().for_each(|it| sum.add(family(it)));
        sum.memory_bytes += self.keys.iter().map(|(_, key)| key.jobs.bytes()).sum::<u64>();
        sum.memory_bytes += self.businesses.iter().map(|(_, business)| business.jobs.bytes()).sum::<u64>();
        self.items_in_order().into_iter().for_each(|(kind, number, _)| sum.add(self.weight(kind, number)));
        sum
    }

    /// A job never takes more than it may grow by.
    pub(crate) fn check_growth(&self, it: &Job) {
        let texts = it.lease().and_then(|lease| lease.worker.as_deref()).map_or(0, str::len)
            + it.death().map_or(0, |death| death.error_kind.len());
        let own = it
            .overrides()
            .map_or(0, |own| size_of_val(own) as u64 + delays(own.backoff.as_ref().map(|backoff| &backoff.curve)));
        let most = JOB_GROWTH_BYTES_MAX as u64 + texts as u64 + own;
        assert!(job(it).memory_bytes <= most, "{} takes more memory than a job may", it.id);
    }

    /// Bytes that the live items need in the log.
    #[must_use]
    pub fn live_bytes(&self) -> u64 {
        self.weight.log_bytes
    }

    /// Bytes of memory that everything takes, by the sizes of what there is and the usual slack of maps.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let entries = [
            (self.jobs.len(), JOB_BYTES),
            (self.groups.len(), GROUP_BYTES + size_of::<Group>()),
            (self.keys.len(), INDEX_BYTES + size_of::<Key>()),
            (self.dedups.len(), INDEX_BYTES + size_of::<DedupEntry>()),
            (self.businesses.len(), INDEX_BYTES + size_of::<Business>()),
            (self.attempts.len(), ATTEMPT_BYTES),
            (self.aging, TIMER_BYTES),
            (self.group_rates.len(), INDEX_BYTES + size_of::<GroupRate>() + TIMER_BYTES),
        ];
        let entries: usize = entries.into_iter().map(|(count, bytes)| count * bytes).sum();
        self.weight.memory_bytes + entries as u64
    }

    /// At its limit: producers are refused, and finished jobs go before their time. Once somebody was refused that goes
    /// on until a part of the budget is free again, so that producers are not let in one by one.
    pub(crate) fn is_short_of_memory(&self) -> bool {
        let mark = if self.refuses_for_memory { self.memory_low_mark() } else { self.memory_limit_bytes };
        self.memory_bytes() >= mark
    }

    fn memory_low_mark(&self) -> u64 {
        self.memory_limit_bytes - self.memory_limit_bytes / MEMORY_RELIEF
    }

    /// Somebody was refused for memory, or was not.
    pub(crate) fn note_memory(&mut self, refused: bool) {
        self.refuses_for_memory = refused;
    }

    /// When a producer that was refused for memory should come back, in milliseconds, by the jobs of all queues that
    /// were completed within the last minute; `None` when there was none.
    #[must_use]
    pub fn memory_retry_after_ms(&self, now: u64) -> Option<u64> {
        let completed: u64 = self.queues.values().map(|queue| queue.figures.completed_in_a_minute(now)).sum();
        let (memory, over) = (self.memory_bytes().max(1), self.memory_bytes().saturating_sub(self.memory_low_mark()));
        let jobs = (self.jobs.len() as u128 * u128::from(over)).div_ceil(u128::from(memory)).max(1);
        let wait_ms = u64::try_from(jobs * 60_000 / u128::from(completed.max(1))).unwrap_or(u64::MAX);
        (completed > 0).then(|| wait_ms.clamp(RETRY_AFTER_MS.0, RETRY_AFTER_MS.1))
    }

    /// There are more finished bulk actions than are kept.
    pub(crate) fn has_tasks_to_forget(&self) -> bool {
        self.tasks.len() > self.running.len() + TASKS_KEPT_MAX
    }
}
