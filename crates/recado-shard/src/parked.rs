//! Answers that wait for the log, strictly in order.
//!
//! An answer carries the newest position that was submitted when it was decided (a batch still being
//! built counts with the position it will get) and leaves when that is committed. The one exception:
//! the answer to a receive in a batch of receives only leaves when that batch is written and all before
//! it is committed; losing such a receive in a power failure is harmless.

use std::collections::VecDeque;
use std::sync::Arc;

use recado_core::{Answer, Delivered, HeldBack, JobId, JobView, Reply, TaskView};
use recado_mutants::{Mutant, active};

use crate::error::Error;
use crate::feed::Listener;
use crate::guard::DeliveryGuard;
use crate::inbox::{Outcomes, Promise};
use crate::shared::Shared;

/// A receive as decided: bytes are not filled in yet.
#[derive(Default)]
pub(crate) struct Decided {
    pub(crate) settled: Outcomes,
    pub(crate) created: bool,
    pub(crate) jobs: Vec<Delivered>,
    pub(crate) cancel_requested: Vec<JobId>,
    pub(crate) empty_because: Option<HeldBack>,
    /// The shared limit that this is about.
    pub(crate) limit: Option<Arc<str>>,
    /// These jobs were handed out before: whoever has them already must not lose them by this answer.
    pub(crate) repeated: bool,
}

/// An answer and who gets it.
pub(crate) enum Outgoing {
    Reply(Promise<Reply>, Result<Reply, Error>),
    Answer(Promise<Answer>, Result<Answer, Error>),
    Settled(Promise<Outcomes>, Outcomes),
    Received(Promise<(Decided, DeliveryGuard)>, Result<Decided, Error>),
    Job(Promise<JobView>, Result<JobView, Error>),
    Task(Promise<TaskView>, Result<TaskView, Error>),
    Listening(Promise<Box<Listener>>, Result<Box<Listener>, Error>),
}

impl Outgoing {
    /// Whoever asked may be gone; only a delivery has to be undone then, which its guard does.
    pub(crate) fn send(self, shared: &Arc<Shared>) {
        match self {
            Self::Reply(promise, reply) => drop(promise.send(reply)),
            Self::Answer(promise, answer) => drop(promise.send(answer)),
            Self::Settled(promise, outcomes) => drop(promise.send(Ok(outcomes))),
            Self::Job(promise, job) => drop(promise.send(job)),
            Self::Task(promise, task) => drop(promise.send(task)),
            Self::Listening(promise, listener) => drop(promise.send(listener)),
            Self::Received(promise, decided) => drop(promise.send(decided.map(|decided| {
                let held = if decided.repeated { &[][..] } else { &decided.jobs };
                let guard = DeliveryGuard::new(shared, held);
                (decided, guard)
            }))),
        }
    }

    pub(crate) fn fail(self, error: Error) {
        match self {
            Self::Reply(promise, _) => drop(promise.send(Err(error))),
            Self::Answer(promise, _) => drop(promise.send(Err(error))),
            Self::Settled(promise, _) => drop(promise.send(Err(error))),
            Self::Received(promise, _) => drop(promise.send(Err(error))),
            Self::Job(promise, _) => drop(promise.send(Err(error))),
            Self::Task(promise, _) => drop(promise.send(Err(error))),
            Self::Listening(promise, _) => drop(promise.send(Err(error))),
        }
    }

    fn is_receive(&self) -> bool {
        matches!(self, Self::Received(..))
    }
}

struct Entry {
    position: u64,
    /// Set for a receive in a batch of receives only: the batch before it.
    lazy_after: Option<u64>,
    outgoing: Outgoing,
}

impl Entry {
    fn may_leave(&self, committed: u64, written: u64) -> bool {
        committed >= self.position
            || self.lazy_after.is_some_and(|before| written >= self.position && committed >= before)
    }

    /// What has to be committed for it to leave.
    fn needs(&self) -> u64 {
        self.lazy_after.unwrap_or(self.position)
    }
}

/// The answers in the order of their decisions.
#[derive(Default)]
pub(crate) struct Parked {
    entries: VecDeque<Entry>,
}

impl Parked {
    pub(crate) fn push(&mut self, position: u64, outgoing: Outgoing) {
        let last = self.entries.back().map_or(0, |entry| entry.position);
        assert!(position >= last, "positions are parked in order: {position} after {last}");
        self.entries.push_back(Entry { position, lazy_after: None, outgoing });
    }

    /// The batch at `position`, of receives only, was submitted lazily behind `before`.
    pub(crate) fn mark_lazy(&mut self, position: u64, before: u64) {
        for entry in self.entries.iter_mut().rev().take_while(|entry| entry.position == position) {
            if entry.outgoing.is_receive() {
                entry.lazy_after = Some(before);
            }
        }
    }

    /// The newest position that some answer waits to see committed.
    pub(crate) fn needs(&self, from: u64) -> u64 {
        // Within one batch only receives are lazy, so the newest need is not always the last entry's.
        let newest = self.entries.iter().rev().take_while(|entry| entry.position >= from);
        newest.map(Entry::needs).max().unwrap_or(0)
    }

    /// Sends what may leave; nothing overtakes.
    pub(crate) fn release(&mut self, committed: u64, written: u64, shared: &Arc<Shared>) {
        let may_leave = |entry: &Entry| entry.may_leave(committed, written) || active(Mutant::ReplyBeforeSync);
        while self.entries.front().is_some_and(may_leave) {
            if let Some(entry) = self.entries.pop_front() {
                entry.outgoing.send(shared);
            }
        }
    }

    pub(crate) fn fail_all(&mut self, error: &Error) {
        for entry in self.entries.drain(..) {
            entry.outgoing.fail(error.clone());
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    fn receive() -> Outgoing {
        Outgoing::Received(oneshot::channel().0, Ok(Decided::default()))
    }

    fn read() -> Outgoing {
        Outgoing::Reply(oneshot::channel().0, Ok(Reply::Done))
    }

    /// The file log never shows the difference: it writes a batch only after the sync before it.
    #[test]
    fn a_lazy_receive_needs_its_batch_written_and_all_before_it_committed() {
        let mut parked = Parked::default();
        parked.push(10, read());
        parked.push(20, receive());
        parked.push(20, read());
        parked.mark_lazy(20, 10);
        let may_leave = |index: usize, committed, written| parked.entries[index].may_leave(committed, written);
        assert!(!may_leave(1, 9, 20), "the batch before it is not durable");
        assert!(!may_leave(1, 10, 19), "its own batch is not written");
        assert!(may_leave(1, 10, 20));
        assert!(!may_leave(2, 10, 20), "a read in the same batch is no receive");
        assert!(may_leave(2, 20, 20));
        assert!(!may_leave(0, 9, 20));
    }

    #[test]
    fn only_what_a_lazy_batch_holds_up_hurries_it() {
        let mut parked = Parked::default();
        parked.push(20, receive());
        parked.mark_lazy(20, 10);
        assert!(parked.needs(20) < 20, "the receive itself can wait");
        parked.push(30, receive());
        parked.mark_lazy(30, 20);
        assert_eq!(parked.needs(20), 20, "the next one needs the first to be durable");
        parked.push(30, read());
        parked.push(30, receive());
        assert_eq!(parked.needs(20), 30);
    }
}
