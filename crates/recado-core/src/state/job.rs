//! What the state knows of a job: numbers, links and places, no text of its producer's.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::num::NonZeroU64;

use crate::event::{Arrival, Death, DedupRecord, Lease, LeaseState};
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
    /// Completed by the result its idempotency key saved.
    pub(crate) const SKIPPED: u8 = 4;
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
    /// See [`Job::expires_at`].
    pub(crate) expires_at_or_never: u64,
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

/// [`Job::expires_at_or_never`] of a job that does not expire.
pub(crate) const NEVER: u64 = u64::MAX;

/// What a plain waiting job does not have.
#[derive(Debug, Default)]
pub(crate) struct Extra {
    pub(crate) delivery: Delivery,
    pub(crate) result: Option<Place>,
    /// Delayed: when it is due, where that is measured as elapsed time (backoff, snooze).
    pub(crate) due_elapsed_at: Option<NonZeroU64>,
    pub(crate) ended_at: u64,
    /// When it was first handed out; 0 if never.
    pub(crate) first_received_at: u64,
    /// Finished: when it is forgotten.
    pub(crate) keep_until: u64,
    pub(crate) errors: Option<Box<Errors>>,
    pub(crate) death: Option<Box<Death>>,
    /// Finished: what its lane was called.
    pub(crate) lane: Option<Arc<LaneName>>,
    pub(crate) overrides: Option<Box<Overrides>>,
    pub(crate) rare: Option<Box<Rare>>,
}

/// The last delivery.
#[derive(Debug, Default)]
pub(crate) enum Delivery {
    #[default]
    None,
    Of(Box<Lease>),
    /// The job has ended: only a settle that is repeated asks for it.
    Over(Last),
}

/// What is left to know of a delivery. No fencing token is given twice, so it tells which one it was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Last {
    pub(crate) fence: u64,
    pub(crate) state: LeaseState,
    /// See [`Lease::outcome`].
    pub(crate) outcome: Option<u64>,
}

/// What failed.
#[derive(Debug, Default)]
pub(crate) struct Errors {
    /// The first and the last.
    pub(crate) places: Vec<Place>,
    /// How many there were.
    pub(crate) count: u32,
}

/// What hardly any job has.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Rare {
    pub(crate) progress: Option<Place>,
    /// A later payload than the one it was enqueued with.
    pub(crate) payload: Option<Place>,
    pub(crate) cancel_requested: bool,
    /// The replay that put it back and that has not counted its end yet.
    pub(crate) task: Option<u64>,
    /// The deduplication key that its death released.
    pub(crate) released_dedup: Option<DedupRecord>,
    /// Hand-outs before it was last replayed or handed off.
    pub(crate) earlier_deliveries: u32,
    /// The job it is blocked behind.
    pub(crate) behind: Option<u64>,
    /// How it came from another queue.
    pub(crate) arrival: Option<Arrival>,
}

/// What a job that carries an idempotency key has to do with the end of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum KeyRole {
    /// It is skipped when the key has completed.
    Waits,
    /// It runs, is dead or blocked, or runs whatever the key has done.
    Other,
}

impl Delivery {
    pub(crate) fn lease_mut(&mut self) -> Option<&mut Lease> {
        match self {
            Self::Of(lease) => Some(lease),
            _ => None,
        }
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

    pub(crate) fn make_rare(&mut self) -> &mut Rare {
        self.extra().rare.get_or_insert_default()
    }

    /// For what goes back to its default: nothing is made for it.
    pub(crate) fn rare_mut(&mut self) -> Option<&mut Rare> {
        self.extra.as_mut()?.rare.as_deref_mut()
    }

    pub(crate) fn rare(&self) -> Option<&Rare> {
        self.extra.as_ref()?.rare.as_deref()
    }

    pub(crate) fn set_progress(&mut self, progress: Option<Place>) {
        if progress.is_some() || self.progress().is_some() {
            self.make_rare().progress = progress;
        }
    }

    pub(crate) fn progress(&self) -> Option<Place> {
        self.rare()?.progress
    }

    /// The last delivery, unless the job has ended.
    pub(crate) fn lease(&self) -> Option<&Lease> {
        match &self.extra.as_ref()?.delivery {
            Delivery::Of(lease) => Some(lease),
            _ => None,
        }
    }

    pub(crate) fn lease_mut(&mut self) -> Option<&mut Lease> {
        self.extra.as_mut()?.delivery.lease_mut()
    }

    /// Who has it in flight; empty for one that gave no name.
    pub(crate) fn worker(&self) -> &str {
        self.lease().and_then(|lease| lease.worker.as_deref()).unwrap_or_default()
    }

    /// The last delivery for [`crate::event::JobCopy`]; of one that is over only what is left of it.
    pub(crate) fn lease_to_copy(&self) -> Option<Lease> {
        match &self.extra.as_ref()?.delivery {
            Delivery::None => None,
            Delivery::Of(lease) => Some((**lease).clone()),
            Delivery::Over(last) => Some(Lease {
                nonce: 0,
                fence: last.fence,
                received_at: 0,
                ends_elapsed_at: 0,
                timeout_elapsed_at: None,
                visibility_ms: 0,
                worker: None,
                attempt: None,
                state: last.state,
                interrupted: false,
                outcome: last.outcome,
            }),
        }
    }

    pub(crate) fn last_delivery(&self) -> Option<Last> {
        match &self.extra.as_ref()?.delivery {
            Delivery::None => None,
            Delivery::Of(lease) => Some(Last { fence: lease.fence, state: lease.state, outcome: lease.outcome }),
            Delivery::Over(last) => Some(*last),
        }
    }

    pub(crate) fn set_outcome(&mut self, outcome: u64) {
        match self.extra.as_mut().map(|extra| &mut extra.delivery) {
            Some(Delivery::Of(lease)) => lease.outcome = Some(outcome),
            Some(Delivery::Over(last)) => last.outcome = Some(outcome),
            Some(Delivery::None) | None => {}
        }
    }

    /// Its last delivery lapsed while the server was down, and its attempt was given back.
    pub(crate) fn was_interrupted(&self) -> bool {
        self.lease().is_some_and(|lease| lease.interrupted && lease.state == LeaseState::Lapsed)
    }

    pub(crate) fn overrides(&self) -> Option<&Overrides> {
        self.extra.as_ref()?.overrides.as_deref()
    }

    /// The timer of a delayed job: whether it is on the elapsed time line, and when.
    pub(crate) fn due_timer(&self) -> (bool, u64) {
        self.due_elapsed_at().map_or((false, self.due_at), |at| (true, at))
    }

    pub(crate) fn due_elapsed_at(&self) -> Option<u64> {
        self.extra.as_ref()?.due_elapsed_at.map(NonZeroU64::get)
    }

    pub(crate) fn set_due(&mut self, due_at: u64, due_elapsed_at: Option<u64>) {
        self.due_at = due_at;
        if due_elapsed_at.is_some() || self.extra.is_some() {
            self.extra().due_elapsed_at = due_elapsed_at.and_then(NonZeroU64::new);
        }
    }

    /// Gone unless received by then.
    pub(crate) fn expires_at(&self) -> Option<u64> {
        (self.expires_at_or_never != NEVER).then_some(self.expires_at_or_never)
    }

    pub(crate) fn death(&self) -> Option<&Death> {
        self.extra.as_ref()?.death.as_deref()
    }

    pub(crate) fn task(&self) -> Option<u64> {
        self.rare()?.task
    }

    pub(crate) fn cancel_requested(&self) -> bool {
        self.rare().is_some_and(|rare| rare.cancel_requested)
    }

    pub(crate) fn result(&self) -> Option<Place> {
        self.extra.as_ref()?.result
    }

    pub(crate) fn ended_at(&self) -> u64 {
        self.extra.as_ref().map_or(0, |extra| extra.ended_at)
    }

    pub(crate) fn keep_until(&self) -> u64 {
        self.extra.as_ref().map_or(0, |extra| extra.keep_until)
    }

    pub(crate) fn payload(&self) -> Place {
        let first = Place { position: self.body_position, offset: self.body_offset, length: self.payload_bytes };
        self.rare().and_then(|rare| rare.payload).unwrap_or(first)
    }

    /// The meta stands right behind the payload it was enqueued with.
    pub(crate) fn meta(&self) -> Place {
        Place { position: self.body_position, offset: self.body_offset + self.payload_bytes, length: self.meta_bytes }
    }

    /// Errors that are kept.
    pub(crate) fn errors(&self) -> &[Place] {
        self.extra.as_ref().and_then(|extra| extra.errors.as_ref()).map_or(&[], |errors| &errors.places)
    }

    pub(crate) fn error_count(&self) -> u32 {
        self.extra.as_ref().and_then(|extra| extra.errors.as_ref()).map_or(0, |errors| errors.count)
    }

    pub(crate) fn add_error(&mut self, place: Place) {
        let errors = self.extra().errors.get_or_insert_default();
        errors.count += 1;
        if errors.places.len() == ERRORS_FIRST + ERRORS_LAST {
            errors.places.remove(ERRORS_FIRST);
        }
        errors.places.push(place);
    }

    /// What it needs from the log, in the order of [`crate::event::JobCopy`].
    pub(crate) fn places(&self) -> impl Iterator<Item = Place> {
        let always = [self.payload(), self.meta()].into_iter();
        always.chain(self.errors().iter().copied()).chain(self.result()).chain(self.progress())
    }

    /// The job has ended or died: nobody works on it, and no error comes any more but by a late settle.
    pub(crate) fn shrink(&mut self) {
        let is_final = self.state.is_final();
        let Some(extra) = &mut self.extra else { return };
        if let Delivery::Of(lease) = &mut extra.delivery {
            lease.worker = None;
            if is_final {
                let Lease { fence, state, outcome, .. } = **lease;
                extra.delivery = Delivery::Over(Last { fence, state, outcome });
            }
        }
        if let Some(errors) = &mut extra.errors {
            errors.places.shrink_to_fit();
        }
        extra.rare.take_if(|rare| **rare == Rare::default());
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
        self.rare().map_or(0, |rare| rare.earlier_deliveries)
    }

    pub(crate) fn arrival(&self) -> Option<Arrival> {
        self.rare()?.arrival
    }

    pub(crate) fn first_received_at(&self) -> u64 {
        self.extra.as_ref().map_or(0, |extra| extra.first_received_at)
    }

    /// Its place among the jobs of its group.
    pub(crate) fn place(&self) -> (u64, u64) {
        (self.due_at, self.id.seq())
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
