//! What the state knows of a job: numbers, links and places, no text of its producer's.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::event::{Death, Lease};
use crate::id::JobId;
use crate::items::Link;
use crate::options::Overrides;
use crate::reply::{Place, State};
use crate::state::queue::LaneName;
use crate::state::slab::{Keyed, NONE, Slot, spread};

/// Errors kept from the beginning and from the end of a job's history.
pub(crate) const ERRORS_FIRST: usize = 10;
/// See [`ERRORS_FIRST`].
pub(crate) const ERRORS_LAST: usize = 10;

/// Bits of [`Job::flags`].
pub(crate) mod flag {
    /// Waits for no time: `due_at` is only its place in line. Kept for what is blocked.
    pub(crate) const AT_ONCE: u8 = 1;
    /// Runs although its idempotency key has completed.
    pub(crate) const IGNORE_KEY: u8 = 2;
    /// Ready, but its idempotency key is in flight or has completed.
    pub(crate) const KEY_HELD: u8 = 4;
    /// Completed by the result its idempotency key saved.
    pub(crate) const SKIPPED: u8 = 8;
}

/// One job. A plain waiting one has no `extra`; its memory is this struct, a slot in the index of
/// sequence numbers and an entry in its lane.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) id: JobId,
    /// Position of the oldest record it needs, and its neighbours in that order.
    pub(crate) link: Link,
    /// When it was or will be due, as its last event said; decides its place among the ready.
    pub(crate) due_at: u64,
    pub(crate) body_position: u64,
    pub(crate) body_offset: u32,
    pub(crate) payload_bytes: u32,
    pub(crate) meta_bytes: u32,
    pub(crate) queue: u32,
    pub(crate) group: Slot,
    pub(crate) dedup: Slot,
    pub(crate) key: Slot,
    pub(crate) business: Slot,
    pub(crate) attempts: u16,
    /// Since it was enqueued or last replayed.
    pub(crate) deliveries: u16,
    pub(crate) replays: u16,
    pub(crate) lane: u16,
    pub(crate) state: State,
    pub(crate) flags: u8,
    pub(crate) extra: Option<Box<Extra>>,
}

/// What most waiting jobs do not have.
#[derive(Debug, Default)]
pub(crate) struct Extra {
    pub(crate) overrides: Option<Box<Overrides>>,
    pub(crate) expires_at: Option<u64>,
    pub(crate) lease: Option<Lease>,
    pub(crate) errors: Vec<Place>,
    pub(crate) error_count: u32,
    pub(crate) result: Option<Place>,
    pub(crate) progress: Option<Place>,
    /// A later payload than the one it was enqueued with.
    pub(crate) payload: Option<Place>,
    pub(crate) cancel_requested: bool,
    pub(crate) ended_at: u64,
    /// Finished: what its lane was called.
    pub(crate) lane: Option<Box<LaneName>>,
    /// Finished: when it is forgotten.
    pub(crate) keep_until: u64,
    pub(crate) death: Option<Death>,
    pub(crate) task: Option<u64>,
    /// The deduplication key that its death released.
    pub(crate) released_dedup: Option<crate::event::DedupRecord>,
    /// Delayed: when it is due, where that is measured as elapsed time (backoff, snooze).
    pub(crate) due_elapsed_at: Option<u64>,
    /// Hand-outs before it was last replayed.
    pub(crate) earlier_deliveries: u32,
    /// The job it is blocked behind.
    pub(crate) behind: Option<u64>,
}

/// What a job that carries an idempotency key has to do with the end of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum KeyRole {
    /// It is skipped when the key has completed.
    Waits,
    /// It runs, is dead or blocked, or runs whatever the key has done.
    Other,
}

impl Extra {
    /// The job has ended or died: nobody works on it, and no error comes any more but by a late settle.
    pub(crate) fn shrink(&mut self) {
        if let Some(lease) = &mut self.lease {
            lease.worker = None;
        }
        self.errors.shrink_to_fit();
    }
}

impl Job {
    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    pub(crate) fn set(&mut self, flag: u8, on: bool) {
        if on {
            self.flags |= flag;
        } else {
            self.flags &= !flag;
        }
    }

    pub(crate) fn extra(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }

    pub(crate) fn lease(&self) -> Option<&Lease> {
        self.extra.as_ref()?.lease.as_ref()
    }

    /// Its last delivery lapsed while the server was down, and its attempt was given back.
    pub(crate) fn was_interrupted(&self) -> bool {
        self.lease().is_some_and(|lease| lease.interrupted && lease.state == crate::event::LeaseState::Lapsed)
    }

    pub(crate) fn overrides(&self) -> Option<&Overrides> {
        self.extra.as_ref()?.overrides.as_deref()
    }

    /// The timer of a delayed job: whether it is on the elapsed time line, and when.
    pub(crate) fn due_timer(&self) -> (bool, u64) {
        let elapsed_at = self.extra.as_ref().and_then(|extra| extra.due_elapsed_at);
        elapsed_at.map_or((false, self.due_at), |at| (true, at))
    }

    pub(crate) fn set_due(&mut self, due_at: u64, due_elapsed_at: Option<u64>) {
        self.due_at = due_at;
        if due_elapsed_at.is_some() || self.extra.is_some() {
            self.extra().due_elapsed_at = due_elapsed_at;
        }
    }

    pub(crate) fn expires_at(&self) -> Option<u64> {
        self.extra.as_ref()?.expires_at
    }

    pub(crate) fn death(&self) -> Option<&Death> {
        self.extra.as_ref()?.death.as_ref()
    }

    /// The replay that put it back and that has not counted its end yet.
    pub(crate) fn task(&self) -> Option<u64> {
        self.extra.as_ref()?.task
    }

    pub(crate) fn cancel_requested(&self) -> bool {
        self.extra.as_ref().is_some_and(|extra| extra.cancel_requested)
    }

    pub(crate) fn ended_at(&self) -> u64 {
        self.extra.as_ref().map_or(0, |extra| extra.ended_at)
    }

    pub(crate) fn keep_until(&self) -> u64 {
        self.extra.as_ref().map_or(0, |extra| extra.keep_until)
    }

    pub(crate) fn payload(&self) -> Place {
        let first = Place { position: self.body_position, offset: self.body_offset, length: self.payload_bytes };
        self.extra.as_ref().and_then(|extra| extra.payload).unwrap_or(first)
    }

    /// The meta stands right behind the payload it was enqueued with.
    pub(crate) fn meta(&self) -> Place {
        Place { position: self.body_position, offset: self.body_offset + self.payload_bytes, length: self.meta_bytes }
    }

    pub(crate) fn add_error(&mut self, place: Place) {
        let extra = self.extra();
        extra.error_count += 1;
        if extra.errors.len() == ERRORS_FIRST + ERRORS_LAST {
            extra.errors.remove(ERRORS_FIRST);
        }
        extra.errors.push(place);
    }

    /// Its key's role for it, unless it has ended.
    pub(crate) fn key_role(&self) -> Option<KeyRole> {
        let waits = matches!(self.state, State::Ready | State::Delayed) && !self.has(flag::IGNORE_KEY);
        let role = if waits { KeyRole::Waits } else { KeyRole::Other };
        (self.key != NONE && !self.state.is_final()).then_some(role)
    }

    /// A cancel would change it.
    pub(crate) fn can_be_cancelled(&self) -> bool {
        self.state.is_waiting() || self.state == State::InFlight && !self.cancel_requested()
    }

    /// All hand-outs.
    pub(crate) fn all_deliveries(&self) -> u32 {
        self.earlier_deliveries().saturating_add(u32::from(self.deliveries))
    }

    pub(crate) fn earlier_deliveries(&self) -> u32 {
        self.extra.as_ref().map_or(0, |extra| extra.earlier_deliveries)
    }

    pub(crate) fn carries_key(&self) -> bool {
        self.key != NONE
    }
}

impl Keyed for Job {
    // The sequence number is unique and in the id; the table compares whole keys.
    fn key(&self) -> u128 {
        seq_key(self.id.seq())
    }
}

/// The key of a job in its table.
pub(crate) fn seq_key(seq: u64) -> u128 {
    u128::from(seq) << 64 | u128::from(spread(seq))
}
