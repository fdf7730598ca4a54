//! Joins state and log: decides into the batch under construction, submits it, and lets answers leave.
//!
//! What is applied here runs ahead of the log and cannot be undone, so room in the batch and in the log
//! is claimed before anything is decided, and any failure of the log is final.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use recado_core::{Answer, Command, Draft, Moment, Presence, Query, Rejection, Reply, State};
use recado_log::{Batch, Class, Limits, Log, Urgency};
use recado_mutants::{Mutant, active};

use crate::clock::{Entropy, Now, stepped_back};
use crate::error::Error;
use crate::parked::{Outgoing, Parked};
use crate::shared::Shared;
use crate::space::{self, OWN_BYTES_MAX};
use crate::status::CommitTimes;

/// A batch of this size is submitted although more requests wait, in bytes.
const BATCH_BYTES_TARGET: usize = 256 * 1024;
/// Kept free in each batch for what stands before its events.
const BATCH_HEAD_BYTES: usize = 64;
/// Space that is not there for so long, on a disk that is not full, is not waited for any more.
const STARVED_MAX: Duration = Duration::from_secs(1);

/// Of a unit of the log, what is kept for operators beside what is kept for open ends.
const OPERATORS_SHARE: u64 = 8;

/// Whether there is room for what a command may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    Yes,
    /// The log is behind: keep the request and try again.
    Later,
    /// The log has been behind for too long: refuse.
    Slow,
    /// Storage is short: refuse.
    Full,
}

struct Submitted {
    position: u64,
    at: Duration,
    /// Requests that had come in by then.
    arrived: u64,
}

pub(crate) struct Writer {
    pub(crate) log: Box<dyn Log>,
    pub(crate) state: State,
    pub(crate) presence: Presence,
    pub(crate) shared: Arc<Shared>,
    pub(crate) limits: Limits,
    pub(crate) commit_times: CommitTimes,
    unit_bytes: u64,
    /// Bytes handed to the log since it was opened.
    pub(crate) appended_bytes: u64,
    entropy: Box<dyn Entropy>,
    draft: Draft,
    /// Wall clock of the draft's newest decision.
    decided_at: u64,
    parked: Parked,
    submitted: VecDeque<Submitted>,
    /// Nothing came in while the last batch was committed: whoever asks waits for each answer.
    is_quiet: bool,
    newest: u64,
    committed: u64,
    /// The oldest lazy batch whose sync has not been asked for.
    lazy: Option<u64>,
    starved_since: Option<Duration>,
    /// Room made sure of for the next command.
    claimed: usize,
}

impl Writer {
    pub(crate) fn new(
        log: Box<dyn Log>,
        state: State,
        shared: Arc<Shared>,
        entropy: Box<dyn Entropy>,
        newest: u64,
    ) -> Self {
        let (limits, unit_bytes) = (log.limits(), log.usage().unit_bytes);
        let draft = Draft::new(log.next().0);
        Self {
            log,
            state,
            presence: Presence::default(),
            shared,
            limits,
            unit_bytes,
            commit_times: CommitTimes::default(),
            appended_bytes: 0,
            entropy,
            draft,
            decided_at: 0,
            parked: Parked::default(),
            submitted: VecDeque::new(),
            is_quiet: false,
            newest,
            committed: newest,
            lazy: None,
            starved_since: None,
            claimed: 0,
        }
    }

    /// Begins the service; the last batch in the log was made then.
    pub(crate) fn start(&mut self, now: Now, last_at: u64, secret: (u64, u64)) {
        // First, as what a start gives to leases is counted from the clock that is right.
        let step = stepped_back(now, last_at).map(|delta_ms| Command::StepClock { delta_ms });
        for command in step.into_iter().chain([Command::Start { secret, served_until: last_at }]) {
            // An open log has room for the start of its service.
            self.claimed = OWN_BYTES_MAX;
            if let Err(rejection) = self.run(now, &command) {
                unreachable!("a start is never refused: {rejection}");
            }
        }
    }

    /// Largest command, in bytes of its bound.
    pub(crate) fn command_bytes_max(&self) -> usize {
        self.limits.batch_bytes_max - BATCH_HEAD_BYTES
    }

    /// Bytes that `class` may still add behind what is being built.
    pub(crate) fn spare(&self, class: Class) -> u64 {
        self.log.room(class).saturating_sub((self.draft.len_bytes() + BATCH_HEAD_BYTES) as u64)
    }

    /// Makes sure that `bytes` fit in the batch and in the log.
    pub(crate) fn claim(&mut self, now: Now, class: Class, bytes: usize) -> Result<Room, recado_log::Error> {
        self.claim_keeping(now, class, bytes, 0)
    }

    /// As [`Writer::claim`], with `kept` left behind it.
    fn claim_keeping(&mut self, now: Now, class: Class, bytes: usize, kept: u64) -> Result<Room, recado_log::Error> {
        assert!(bytes <= self.command_bytes_max(), "too large a command is refused before");
        if self.draft.len_bytes() + bytes > self.command_bytes_max() && !self.submit(now)? {
            return Ok(Room::Later);
        }
        if self.spare(class) >= (bytes as u64).saturating_add(kept) {
            self.starved_since = None;
            self.claimed = bytes;
            return Ok(Room::Yes);
        }
        // A log that is only slow to prepare its next part is waited for, but not for ever.
        let since = *self.starved_since.get_or_insert(now.elapsed);
        Ok(if self.log.is_short_of_space() {
            Room::Full
        } else if now.elapsed.saturating_sub(since) > STARVED_MAX {
            Room::Slow
        } else {
            Room::Later
        })
    }

    /// As [`Writer::claim`], for what is not an end: ends must find room whatever this takes.
    pub(crate) fn claim_beside(&mut self, now: Now, class: Class, bytes: usize) -> Result<Room, recado_log::Error> {
        let kept = match class {
            Class::Produce => 0, // the log sees to it
            Class::Settle | Class::Copy => space::to_end(self.open_ends()),
        };
        self.claim_keeping(now, class, bytes, kept)
    }

    /// The next claim waits for space, not for the log's window.
    pub(crate) fn is_starved(&self) -> bool {
        self.starved_since.is_some()
    }

    /// Deliveries and guards whose end must find room.
    fn open_ends(&self) -> u64 {
        self.state.in_flight() + self.state.open_guards()
    }

    /// Why there is no room for what must leave room for all open ends.
    pub(crate) fn refusal(&self) -> Error {
        if self.log.is_short_of_space() { Error::FULL } else { Error::SLOW }
    }

    /// Jobs that may be handed out so that each can still be settled, and each guard that is begun completed.
    pub(crate) fn may_hand_out(&self) -> usize {
        space::hand_out(self.spare(Class::Settle), self.open_ends())
    }

    pub(crate) fn run(&mut self, now: Now, command: &Command) -> Result<Reply, Rejection> {
        if self.draft.is_empty() {
            // Only now is it certain where the batch will stand.
            self.draft.position = self.log.next().0;
        }
        self.decided_at = now.wall;
        let moment = Moment { at: now.wall, entropy: self.entropy.next() };
        let (before, claimed) = (self.draft.len_bytes(), mem::take(&mut self.claimed));
        self.draft.bytes_max = before + claimed;
        let reply = recado_core::run(&mut self.state, moment, command, &mut self.draft);
        self.reserve();
        let bytes = self.draft.len_bytes();
        // Only a full disk would show it otherwise: there the log refuses what was already decided.
        debug_assert!(bytes - before <= claimed, "{} bytes: {command:?}", bytes - before);
        assert!(bytes <= self.command_bytes_max(), "a batch of {bytes} bytes outgrew its bound by {command:?}");
        reply
    }

    /// Keeps room for all open ends from producers, and some for operators.
    fn reserve(&mut self) {
        let operators = self.unit_bytes / OPERATORS_SHARE;
        self.log.reserve(space::to_end(self.open_ends()) + operators);
    }

    pub(crate) fn answer(&self, now: Now, query: &Query) -> Result<Answer, Rejection> {
        recado_core::answer(&self.state, &self.presence, now.wall, query)
    }

    /// Keeps an answer until all it was decided on is committed.
    pub(crate) fn park(&mut self, outgoing: Outgoing) {
        if active(Mutant::DuplicateBeforeOriginal) && self.draft.is_empty() {
            return outgoing.send(&self.shared);
        }
        self.parked.push(self.newest_position(), outgoing);
    }

    /// What has been decided so far is committed when this position is.
    pub(crate) fn newest_position(&self) -> u64 {
        if self.draft.is_empty() { self.newest } else { self.draft.position }
    }

    pub(crate) fn is_batch_full(&self) -> bool {
        self.draft.len_bytes() >= BATCH_BYTES_TARGET
    }

    /// Nothing came in while the last batch was committed.
    pub(crate) fn is_quiet(&self) -> bool {
        self.is_quiet
    }

    /// There is more to decide without anyone asking: it need not wait while what was decided is committed.
    pub(crate) fn goes_on(&mut self) {
        self.is_quiet = false;
    }

    /// Hands the batch to the log unless its window is full; true when nothing is left to submit.
    pub(crate) fn submit(&mut self, now: Now) -> Result<bool, recado_log::Error> {
        if self.draft.is_empty() {
            return Ok(true);
        }
        if self.submitted.len() >= self.limits.window {
            self.deliver(now)?;
            if self.submitted.len() >= self.limits.window {
                return Ok(false);
            }
        }
        let (position, lazy) = (self.draft.position, self.draft.only_receives());
        let (head, tail) = self.draft.take(self.decided_at);
        let (head, tail) = (Bytes::from(head), Bytes::from(tail));
        self.appended_bytes += (head.len() + tail.len()) as u64;
        self.shared.cache.put_written(position, tail.clone());
        let (arrived, has_more) = self.shared.inbox.arrived();
        let urgency = if lazy {
            Urgency::Lazy
        } else if self.is_quiet && self.submitted.is_empty() && !has_more {
            Urgency::Alone
        } else {
            Urgency::Now
        };
        let given = self.log.submit(Batch { head, tail }, urgency)?;
        assert_eq!(given.0, position, "the state points into this batch: it must stand where the log said");
        if lazy {
            self.parked.mark_lazy(position, self.newest);
            self.lazy.get_or_insert(position);
        } else {
            self.lazy = None;
        }
        assert!(position > self.newest, "positions grow");
        self.newest = position;
        self.submitted.push_back(Submitted { position, at: now.elapsed, arrived });
        Ok(true)
    }

    /// Lets answers leave whose batches are safe, and hurries a lazy batch that one waits for.
    pub(crate) fn deliver(&mut self, now: Now) -> Result<(), recado_log::Error> {
        let written = self.log.written().0;
        self.committed = self.log.committed()?.0;
        while let Some(oldest) = self.submitted.front().filter(|oldest| oldest.position <= self.committed) {
            self.commit_times.add(now.elapsed.saturating_sub(oldest.at));
            self.is_quiet = self.shared.inbox.arrived().0 == oldest.arrived;
            self.submitted.pop_front();
        }
        self.parked.release(self.committed, written, &self.shared);
        if let Some(lazy) = self.lazy {
            if lazy <= self.committed {
                self.lazy = None;
            } else if self.parked.needs(lazy) >= lazy {
                self.flush();
            }
        }
        Ok(())
    }

    pub(crate) fn flush(&mut self) {
        self.log.flush();
        self.lazy = None;
    }

    /// Newest position handed to the log; `None` while more is decided than that.
    pub(crate) fn settled_position(&self) -> Option<u64> {
        self.draft.is_empty().then_some(self.newest)
    }

    pub(crate) fn committed(&self) -> u64 {
        self.committed
    }

    /// Nothing waits for the log.
    pub(crate) fn is_idle(&self) -> bool {
        self.draft.is_empty() && self.submitted.is_empty() && self.parked.is_empty()
    }

    pub(crate) fn draft_bytes(&self) -> usize {
        self.draft.len_bytes()
    }

    pub(crate) fn has_draft(&self) -> bool {
        !self.draft.is_empty()
    }

    pub(crate) fn fail_all(&mut self, error: &Error) {
        self.parked.fail_all(error);
    }
}
