//! Everything that is found by the hash of a string: idempotency keys, deduplication, business ids,
//! producers, HTTP requests.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

use crate::event::DedupRecord;
use crate::id::{Hash, JobId};
use crate::items::{ItemKind, Link};
use crate::reply::Place;
use crate::state::held::KeyLines;
use crate::state::members::{Lines, Members};
use crate::state::slab::{Keyed, NONE, Slot};
use crate::state::{Job, State};

/// Domains keep hashes of different uses apart.
pub(crate) mod domain {
    pub(crate) const GROUP: u8 = 1;
    pub(crate) const DEDUP: u8 = 2;
    pub(crate) const KEY: u8 = 3;
    pub(crate) const BUSINESS: u8 = 4;
    pub(crate) const PRODUCER: u8 = 5;
    pub(crate) const REQUEST: u8 = 6;
    pub(crate) const PAYLOAD: u8 = 7;
    pub(crate) const ATTEMPT: u8 = 8;
    pub(crate) const WORKER: u8 = 10;
    pub(crate) const SETTLE: u8 = 11;
    pub(crate) const GUARD: u8 = 12;
    pub(crate) const GUARD_TOKEN: u8 = 13;
    pub(crate) const GUARD_RESULT: u8 = 14;
    pub(crate) const GUARD_ATTEMPT: u8 = 15;
    pub(crate) const BATCH: u8 = 16;
}

/// An idempotency key: its jobs, who of them runs, and what the first success saved.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) hash: Hash,
    pub(crate) queue: u32,
    pub(crate) in_flight: Slot,
    /// Fencing token of the newest delivery of any of its jobs. It overtakes lapsed deliveries of the others.
    pub(crate) fence: u64,
    pub(crate) jobs: Members<KeyLines>,
    pub(crate) saved: Option<Box<Saved>>,
}

/// The result a key saved.
#[derive(Debug)]
pub(crate) struct Saved {
    pub(crate) link: Link,
    pub(crate) until: u64,
    /// When its end is looked at: later than `until` while a job that carries the key is unfinished or dead.
    pub(crate) look_at: u64,
    pub(crate) result: Option<Place>,
    /// It stops no job any more; kept only for the answers of completed jobs.
    pub(crate) ended: bool,
}

impl Key {
    pub(crate) fn new(hash: Hash, queue: u32) -> Self {
        Self { hash, queue, in_flight: NONE, fence: 0, jobs: Members::None, saved: None }
    }

    pub(crate) fn has_completed(&self) -> bool {
        self.saved.as_ref().is_some_and(|saved| !saved.ended)
    }

    /// Whether its ready jobs are held back: all of them, or but for those that ignore what it has completed.
    pub(crate) fn holds(&self, ignores: bool) -> bool {
        self.in_flight != NONE || (self.has_completed() && !ignores)
    }
}

/// Who holds a deduplication key: a job, an open window, or both.
#[derive(Debug)]
pub(crate) struct DedupEntry {
    pub(crate) hash: Hash,
    /// Hash of the payload.
    pub(crate) payload: Hash,
    /// The holder while it is in the table.
    pub(crate) job: Option<Slot>,
    pub(crate) window: Option<Box<Window>>,
}

/// A time for which a deduplication key stops others. It outlives its job and is an item of its own.
#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) queue: u32,
    pub(crate) id: JobId,
    pub(crate) until: u64,
    pub(crate) link: Link,
}

impl DedupEntry {
    pub(crate) fn until(&self) -> Option<u64> {
        self.window.as_ref().map(|window| window.until)
    }

    pub(crate) fn record(&self) -> DedupRecord {
        DedupRecord { hash: self.hash, payload: self.payload, until: self.until() }
    }
}

/// Jobs about one business object, over all queues.
#[derive(Debug)]
pub(crate) struct Business {
    pub(crate) hash: Hash,
    pub(crate) jobs: Members<OpenJobs>,
}

/// Of the jobs of a business object those that a cancel would change, by sequence number.
#[derive(Debug, Default)]
pub(crate) struct OpenJobs(pub(crate) BTreeMap<u64, Slot>);

impl Lines for OpenJobs {
    const ENTRY_BYTES: usize = size_of::<(u64, Slot)>();

    fn insert(&mut self, slot: Slot, job: &Job) {
        if job.can_be_cancelled() {
            self.0.insert(job.id.seq(), slot);
        }
    }

    fn remove(&mut self, job: &Job) {
        self.0.remove(&job.id.seq());
    }
}

/// A producer's numbering in one queue.
#[derive(Debug)]
pub(crate) struct ProducerEntry {
    pub(crate) hash: Hash,
    pub(crate) queue: u32,
    pub(crate) seq: u64,
    /// When its last batch was taken.
    pub(crate) at: u64,
    pub(crate) link: Link,
}

impl State {
    /// The hash of a deduplication key in its queue, or in a group of it. A purge of a FIFO queue makes all keys that
    /// were taken before it others, which are forgotten when their windows end.
    pub(crate) fn dedup_hash(&self, number: u32, key: &str, group: Option<&str>) -> Hash {
        let queue = self.queues.get(&number).filter(|queue| queue.settings.fifo.is_some());
        let purged_at = queue.map_or(0, |queue| queue.record.purged_at);
        if purged_at == 0 && group.is_none() {
            return self.hash(domain::DEDUP, number, key);
        }
        let parts = [key.as_bytes(), group.unwrap_or_default().as_bytes(), &purged_at.to_be_bytes()];
        self.secret.hash(domain::DEDUP, u64::from(number), &parts)
    }

    /// The producer of a queue that has been idle longest.
    pub(crate) fn idlest_producer(&self, queue: u32) -> Option<&ProducerEntry> {
        let (_, _, slot) = self.idle_producers.range((queue, 0, 0)..).next().filter(|(its, ..)| *its == queue)?;
        Some(&self.producers[*slot])
    }

    /// The producer's numbering is forgotten.
    pub(crate) fn drop_producer(&mut self, slot: Slot) {
        self.unlink_item(ItemKind::Producer, slot);
        let producer = self.producers.remove(slot);
        self.idle_producers.remove(&(producer.queue, producer.at, slot));
        self.queue_mut(producer.queue).producers -= 1;
    }
}

/// An answered HTTP request.
#[derive(Debug)]
pub(crate) struct RequestEntry {
    pub(crate) hash: Hash,
    pub(crate) body: Hash,
    pub(crate) answer: Place,
    pub(crate) until: u64,
    pub(crate) link: Link,
}

macro_rules! keyed {
    ($($type:ty: $self:ident => $hash:expr;)*) => {$(
        impl Keyed for $type {
            fn key(&$self) -> u128 { $hash.0 }
        }
    )*};
}
keyed! {
    Key: self => self.hash;
    DedupEntry: self => self.hash;
    Business: self => self.hash;
    ProducerEntry: self => self.hash;
    RequestEntry: self => self.hash;
}
