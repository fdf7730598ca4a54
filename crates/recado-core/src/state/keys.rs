//! Everything that is found by the hash of a string: idempotency keys, deduplication, business ids,
//! producers, HTTP requests.

use crate::event::DedupWindow;
use crate::id::Hash;
use crate::items::Link;
use crate::reply::Place;
use crate::state::slab::{Keyed, NONE, Slot};

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
    pub(crate) const LANE: u8 = 9;
    pub(crate) const WORKER: u8 = 10;
    pub(crate) const SETTLE: u8 = 11;
}

/// An idempotency key: its jobs, who of them runs, and what the first success saved.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) hash: Hash,
    pub(crate) queue: u32,
    /// Jobs that carry it, finished ones too while they are kept; see [`crate::state::State::jobs_of_key`].
    pub(crate) jobs: u32,
    pub(crate) in_flight: Slot,
    /// Jobs that carry it and are unfinished or dead.
    pub(crate) carriers: u32,
    pub(crate) saved: Option<alloc::boxed::Box<Saved>>,
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
        Self { hash, queue, jobs: 0, in_flight: NONE, carriers: 0, saved: None }
    }

    pub(crate) fn has_completed(&self) -> bool {
        self.saved.as_ref().is_some_and(|saved| !saved.ended)
    }
}

/// Who holds a deduplication key.
#[derive(Debug)]
pub(crate) struct DedupEntry {
    pub(crate) window: DedupWindow,
    /// The holder while it is in the table.
    pub(crate) job: Slot,
    /// Windows outlive their job and are items of their own.
    pub(crate) link: Link,
}

/// Jobs about one business object, over all queues.
#[derive(Debug)]
pub(crate) struct Business {
    pub(crate) hash: Hash,
    /// How many; see [`crate::state::State::business_jobs`].
    pub(crate) jobs: u32,
}

/// A producer's numbering in one queue.
#[derive(Debug)]
pub(crate) struct ProducerEntry {
    pub(crate) hash: Hash,
    pub(crate) queue: u32,
    pub(crate) seq: u64,
    pub(crate) link: Link,
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
    DedupEntry: self => self.window.dedup.hash;
    Business: self => self.hash;
    ProducerEntry: self => self.hash;
    RequestEntry: self => self.hash;
}
