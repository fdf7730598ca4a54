//! Everything the shard knows, derived from the log alone.

mod age;
mod breaker;
mod check;
mod digest;
mod family;
mod guard;
mod held;
mod hook;
mod job;
mod keys;
mod limit;
pub(crate) mod members;
pub(crate) mod presence;
mod queue;
mod rate;
mod schedule;
mod schema;
mod settles;
pub(crate) mod slab;
pub(crate) mod standing;
mod table;
mod timers;
mod view;
mod weight;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::event::{BreakerOf, BreakerState};
use crate::id::{Hash, JobId, Secret};
use crate::items::{Link, Order};
use crate::news::Listening;
use crate::options::QueueOptions;
use crate::reply::JobView;

pub(crate) use breaker::Trials;
pub use family::{BATCH_JOBS_MAX, CHILD_DEPTH_MAX, CHILD_RESULTS_BYTES_MAX, CHILDREN_MAX};
pub(crate) use family::{Child, ChildResult, Family};
pub(crate) use guard::Guard;
pub use hook::HOOKS_MAX;
pub(crate) use hook::Hook;
pub(crate) use job::{Delivery, Errors, Extra, Job, KeyRole, Rare, flag, seq_key};
pub(crate) use keys::{Business, DedupEntry, Key, ProducerEntry, RequestEntry, Saved, Window, domain};
pub(crate) use limit::{Hold, Limit};
pub use limit::{LIMITS_MAX, QUEUE_LIMITS_MAX};
pub use presence::Presence;
pub use queue::LANES_MAX;
pub(crate) use queue::{
    Attempt, AuditEntry, Fingerprint, Group, Lane, LaneName, NO_LANE, NameOfLane, Note, Queue, Spot, Task,
};
pub(crate) use rate::{Bucket, GroupRate, GroupRest};
pub(crate) use schedule::Schedule;
pub(crate) use schema::Schema;
pub use schema::{SCHEMA_BYTES_SUM_MAX, SCHEMAS_MAX};
pub(crate) use settles::{SettleEntry, Settles};
pub(crate) use slab::{NONE, Slot, Table};
pub(crate) use timers::{Timer, Timers};
pub(crate) use weight::Weight;
pub use weight::{JOB_BYTES, JOB_GROWTH_BYTES_MAX, QUEUE_BYTES};

/// Queues a shard may hold.
pub const QUEUES_MAX: usize = 10_000;

/// Producers that a queue knows. Under this limit their numbers are kept as long as the queue.
pub const PRODUCERS_MAX: u64 = 100_000;

/// At the limit a new producer takes the place of the one that has been idle longest, if that is so for at least this
/// long: nobody still repeats a batch then.
pub const PRODUCER_IDLE_MS: u64 = 7 * 86_400_000;

/// Bulk actions that may be at work.
pub const TASKS_RUNNING_MAX: usize = 1_000;

/// Finished bulk actions that can be looked up.
pub const TASKS_KEPT_MAX: usize = 1_000;

/// Operators' actions that are remembered.
pub const AUDIT_MAX: u64 = 10_000;

/// Settles that ended a job and are remembered when the job is gone.
pub(crate) const SETTLES_KEPT_MAX: usize = 100_000;

/// The state of one shard.
#[derive(Debug)]
pub struct State {
    pub(crate) shard: u16,
    pub(crate) secret: Secret,
    pub(crate) seq: u64,
    pub(crate) last_queue: u32,
    pub(crate) last_number: u64,
    pub(crate) fence: u64,
    pub(crate) skew_ms: i64,
    /// The fencing token that was given last before the wall clock was stepped.
    pub(crate) stepped_fence: u64,
    pub(crate) started_at: u64,
    /// The last place in line that was given to a job without delay; the next one goes behind it.
    pub(crate) line_at: u64,
    pub(crate) defaults: QueueOptions,
    pub(crate) globals_link: Link,
    pub(crate) order: Order,

    pub(crate) queues: BTreeMap<u32, Box<Queue>>,
    pub(crate) names: BTreeMap<Box<str>, u32>,
    pub(crate) jobs: Table<Job>,
    pub(crate) groups: Table<Group>,
    pub(crate) keys: Table<Key>,
    pub(crate) dedups: Table<DedupEntry>,
    pub(crate) businesses: Table<Business>,
    pub(crate) producers: Table<ProducerEntry>,
    /// Producers by queue and the time of their last batch.
    pub(crate) idle_producers: BTreeSet<(u32, u64, Slot)>,
    pub(crate) requests: Table<RequestEntry>,
    pub(crate) guards: Table<Guard>,
    /// Guards by the sequence number of the job they belong to.
    pub(crate) job_guards: BTreeSet<(u64, Slot)>,
    pub(crate) open_guards: u64,
    pub(crate) notes: Table<Note>,
    pub(crate) settles: Settles,
    /// Schemas by their number.
    pub(crate) schemas: BTreeMap<u32, Schema>,
    /// Shared limits by their number.
    pub(crate) limits: BTreeMap<u32, Limit>,
    pub(crate) limit_names: BTreeMap<Box<str>, u32>,
    /// Schedules by their number.
    pub(crate) schedules: BTreeMap<u32, Schedule>,
    pub(crate) schedule_names: BTreeMap<Box<str>, u32>,
    /// Inbound webhooks by their number.
    pub(crate) hooks: BTreeMap<u32, Hook>,
    pub(crate) hook_names: BTreeMap<Box<str>, u32>,
    /// Breakers that are to move at once.
    pub(crate) to_move: BTreeMap<BreakerOf, BreakerState>,
    /// See [`State::take_breaker_news`].
    pub(crate) breaker_news: Vec<(BreakerOf, BreakerState)>,
    /// What somebody wants to know.
    pub(crate) listening: Listening,
    /// Buckets of groups that are not full.
    pub(crate) group_rates: Table<GroupRate>,
    pub(crate) tasks: BTreeMap<u64, Task>,
    /// Tasks that are at work.
    pub(crate) running: BTreeSet<u64>,
    pub(crate) audit: BTreeMap<u64, AuditEntry>,
    pub(crate) attempts: BTreeMap<Hash, Attempt>,

    /// Blocked jobs by the sequence number of the job they wait behind.
    pub(crate) followers: BTreeMap<u64, Vec<u64>>,
    /// What jobs know of their children, by the parent's sequence number.
    pub(crate) families: BTreeMap<u64, Box<Family>>,
    /// Sequence numbers of parents by those of their children.
    pub(crate) parents: BTreeMap<u64, u64>,
    /// Jobs that end open batches, by the hash of queue and id.
    pub(crate) batches: BTreeMap<Hash, u64>,
    /// Blocked jobs that need not wait for their children any more.
    pub(crate) to_unblock: BTreeSet<u64>,
    pub(crate) timers: Timers,
    /// Completed keys with ready jobs that must be skipped.
    pub(crate) to_skip: BTreeSet<Slot>,
    /// Ended keys whose last job went before what is left of the log, or is still to be shown by it.
    pub(crate) unused_keys: BTreeSet<Slot>,
    /// Queues that keep more finished jobs than they may.
    pub(crate) overfull: BTreeSet<u32>,
    /// Notes whose group may have no dead job left.
    pub(crate) stale_notes: BTreeSet<Slot>,
    /// In-flight jobs whose cancel was asked for, by their worker.
    pub(crate) cancel_marks: BTreeSet<(u128, JobId)>,
    /// Queues in which something may have become receivable.
    pub(crate) wakes: Vec<u32>,
    /// Jobs that ended since they were last asked for.
    pub(crate) ended: Vec<(JobId, Option<Box<JobView>>)>,
    /// Jobs whose end somebody waits for.
    pub(crate) watched: BTreeSet<JobId>,
    /// Workers with news about a cancel.
    pub(crate) cancel_news: Vec<u128>,
    /// See [`State::moves`].
    moves: u64,
    /// See [`State::config_version`].
    config_version: u64,
    /// Jobs that a retention may end, over all queues.
    pub(crate) aging: usize,
    /// What all items cost, in the log and in memory.
    pub(crate) weight: Weight,
    /// Jobs in flight, over all queues.
    in_flight: u64,
    pub(crate) memory_limit_bytes: u64,
    /// See [`State::is_short_of_memory`].
    pub(crate) refuses_for_memory: bool,
}

impl State {
    /// An empty shard.
    #[must_use]
    pub fn new(shard: u16) -> Self {
        Self {
            shard,
            secret: Secret::default(),
            seq: 0,
            last_queue: 0,
            last_number: 0,
            fence: 0,
            skew_ms: 0,
            stepped_fence: 0,
            started_at: 0,
            line_at: 0,
            defaults: QueueOptions::default(),
            globals_link: Link::default(),
            order: Order::default(),
            queues: BTreeMap::new(),
            names: BTreeMap::new(),
            jobs: Table::default(),
            groups: Table::default(),
            keys: Table::default(),
            dedups: Table::default(),
            businesses: Table::default(),
            producers: Table::default(),
            idle_producers: BTreeSet::new(),
            requests: Table::default(),
            guards: Table::default(),
            job_guards: BTreeSet::new(),
            open_guards: 0,
            notes: Table::default(),
            settles: Settles::default(),
            schemas: BTreeMap::new(),
            limits: BTreeMap::new(),
            limit_names: BTreeMap::new(),
            schedules: BTreeMap::new(),
            schedule_names: BTreeMap::new(),
            hooks: BTreeMap::new(),
            hook_names: BTreeMap::new(),
            group_rates: Table::default(),
            to_move: BTreeMap::new(),
            breaker_news: Vec::new(),
            listening: Listening::default(),
            tasks: BTreeMap::new(),
            running: BTreeSet::new(),
            audit: BTreeMap::new(),
            attempts: BTreeMap::new(),
            followers: BTreeMap::new(),
            families: BTreeMap::new(),
            parents: BTreeMap::new(),
            batches: BTreeMap::new(),
            to_unblock: BTreeSet::new(),
            timers: Timers::default(),
            to_skip: BTreeSet::new(),
            unused_keys: BTreeSet::new(),
            overfull: BTreeSet::new(),
            stale_notes: BTreeSet::new(),
            cancel_marks: BTreeSet::new(),
            wakes: Vec::new(),
            ended: Vec::new(),
            watched: BTreeSet::new(),
            cancel_news: Vec::new(),
            moves: 0,
            config_version: 0,
            aging: 0,
            weight: Weight::default(),
            in_flight: 0,
            memory_limit_bytes: u64::MAX,
            refuses_for_memory: false,
        }
    }

    /// The key of all hashes, for receipts.
    #[must_use]
    pub fn secret(&self) -> Secret {
        self.secret
    }

    /// Number of the queue with this name.
    #[must_use]
    pub fn queue_number(&self, name: &str) -> Option<u32> {
        self.names.get(name).copied()
    }

    /// Name of a queue.
    #[must_use]
    pub fn queue_name(&self, number: u32) -> Option<&str> {
        self.queues.get(&number).map(|queue| &*queue.name)
    }

    /// Grows whenever a queue comes, goes or is configured, or a schema, schedule or inbound webhook does: what was read of
    /// it before may be outdated then.
    #[must_use]
    pub fn config_version(&self) -> u64 {
        self.config_version
    }

    pub(crate) fn count_config_change(&mut self) {
        self.config_version += 1;
    }

    /// Jobs in flight, over all queues.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Above so many bytes producers are refused.
    pub fn set_memory_limit(&mut self, bytes: u64) {
        self.memory_limit_bytes = bytes;
    }

    /// Queues in which something may have become receivable since the last call.
    pub fn take_wakes(&mut self) -> Vec<u32> {
        let mut wakes = core::mem::take(&mut self.wakes);
        wakes.sort_unstable();
        wakes.dedup();
        wakes
    }

    /// Jobs that completed, died, were cancelled or expired since the last call; one that was watched and is gone, as it
    /// was in the end.
    pub fn take_ended(&mut self) -> Vec<(JobId, Option<Box<JobView>>)> {
        core::mem::take(&mut self.ended)
    }

    /// Somebody waits for the end of a job, or nobody does any more.
    pub fn set_watched(&mut self, job: JobId, is_watched: bool) {
        if is_watched {
            self.watched.insert(job);
        } else {
            self.watched.remove(&job);
        }
    }

    /// Hashes (see [`State::worker_hash`]) of workers one of whose jobs was asked to be cancelled.
    pub fn take_cancel_news(&mut self) -> Vec<u128> {
        core::mem::take(&mut self.cancel_news)
    }

    /// Stands for a worker's name in [`State::take_cancel_news`].
    #[must_use]
    pub fn worker_hash(&self, worker: &str) -> u128 {
        self.hash(domain::WORKER, 0, worker).0
    }

    /// How often a job was put somewhere or taken away: a measure of work for tests that it is bounded.
    #[doc(hidden)]
    #[must_use]
    pub fn moves(&self) -> u64 {
        self.moves
    }

    /// The hash of a name within a queue. A job that is handed off takes its group along: see [`State::rehash`].
    pub(crate) fn hash(&self, domain: u8, number: u32, text: &str) -> Hash {
        let Hash(name) = self.secret.hash(domain, 0, &[text.as_bytes()]);
        Hash(name ^ self.scope(domain, number))
    }

    /// The hash of the same name in another queue.
    pub(crate) fn rehash(&self, domain: u8, hash: Hash, from: u32, to: u32) -> Hash {
        Hash(hash.0 ^ self.scope(domain, from) ^ self.scope(domain, to))
    }

    fn scope(&self, domain: u8, number: u32) -> u128 {
        self.secret.hash(domain, u64::from(number), &[]).0
    }

    /// The wall clock read as elapsed time.
    pub(crate) fn elapsed(&self, at: u64) -> u64 {
        at.saturating_add_signed(self.skew_ms.saturating_neg())
    }

    /// An elapsed instant read on the wall clock.
    pub(crate) fn wall(&self, elapsed_at: u64) -> u64 {
        elapsed_at.saturating_add_signed(self.skew_ms)
    }

    pub(crate) fn queue(&self, number: u32) -> &Queue {
        match self.queues.get(&number) {
            Some(queue) => queue,
            None => panic!("queue {number} is not there"),
        }
    }

    pub(crate) fn queue_mut(&mut self, number: u32) -> &mut Queue {
        match self.queues.get_mut(&number) {
            Some(queue) => queue,
            None => panic!("queue {number} is not there"),
        }
    }

    pub(crate) fn slot_of_seq(&self, seq: u64) -> Option<Slot> {
        self.jobs.find(seq_key(seq))
    }

    pub(crate) fn slot_of(&self, id: JobId) -> Option<Slot> {
        self.slot_of_seq(id.seq()).filter(|slot| self.jobs[*slot].id == id)
    }

    pub(crate) fn key_of(&self, job: &Job) -> Option<&Key> {
        job.carries_key().then(|| &self.keys[job.key])
    }

    pub(crate) fn wake(&mut self, queue: u32) {
        if self.wakes.last() != Some(&queue) {
            self.wakes.push(queue);
        }
    }
}
