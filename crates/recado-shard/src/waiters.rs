//! Workers that wait for jobs: long polls, first come first served in each queue.
//!
//! They are woken by what happened (a job became receivable, a cancel was asked for, the wait is over)
//! and never look by themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use recado_core::{JobId, Receive, Settle};

use crate::error::Error;
use crate::guard::DeliveryGuard;
use crate::inbox::{Outcomes, Promise};
use crate::parked::Decided;

/// Long polls that may wait at one time.
pub(crate) const WAITERS_MAX: usize = 65_536;
/// Workers of which is remembered what they were told.
const TOLD_MAX: usize = 65_536;

/// A receive on its way.
pub(crate) struct ReceiveRequest {
    pub(crate) receive: Receive,
    /// Still to be settled, in reverse.
    pub(crate) settle: Vec<Settle>,
    pub(crate) settled: Outcomes,
    pub(crate) wait: Duration,
    pub(crate) created: bool,
    pub(crate) promise: Promise<(Decided, DeliveryGuard)>,
}

/// A waiter, or one taken out of line for an attempt.
pub(crate) struct Waiter {
    pub(crate) request: Box<ReceiveRequest>,
    pub(crate) queues: Vec<u32>,
    /// Hash of its worker's name.
    pub(crate) worker: Option<u128>,
    pub(crate) deadline: Duration,
}

#[derive(Default)]
pub(crate) struct Waiters {
    /// Grows: the order of arrival.
    next: u64,
    by_id: BTreeMap<u64, Waiter>,
    by_queue: BTreeMap<u32, BTreeSet<u64>>,
    by_deadline: BTreeSet<(Duration, u64)>,
    by_worker: BTreeMap<u128, BTreeSet<u64>>,
    /// Queues in which something may have become receivable, by who is first in their line: where queues share a
    /// limit, it goes to whoever has waited longest.
    woken: BTreeSet<(u64, u32)>,
    /// What each worker was told about cancelled jobs: the same again is no reason to wake it.
    told: BTreeMap<u128, Vec<JobId>>,
    /// Workers one of whose jobs was asked to be cancelled since they were looked at.
    news: BTreeSet<u128>,
}

impl Waiters {
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(crate) fn add(&mut self, waiter: Waiter) {
        self.next += 1;
        self.put_back(self.next, waiter);
    }

    /// Takes one out for an attempt; [`Waiters::put_back`] keeps its place in line.
    pub(crate) fn take(&mut self, id: u64) -> Option<Waiter> {
        let waiter = self.by_id.remove(&id)?;
        self.by_deadline.remove(&(waiter.deadline, id));
        for queue in &waiter.queues {
            remove_from(&mut self.by_queue, queue, id);
        }
        if let Some(worker) = &waiter.worker {
            remove_from(&mut self.by_worker, worker, id);
        }
        Some(waiter)
    }

    pub(crate) fn put_back(&mut self, id: u64, waiter: Waiter) {
        self.by_deadline.insert((waiter.deadline, id));
        for queue in &waiter.queues {
            self.by_queue.entry(*queue).or_default().insert(id);
        }
        if let Some(worker) = waiter.worker {
            self.by_worker.entry(worker).or_default().insert(id);
        }
        self.by_id.insert(id, waiter);
    }

    pub(crate) fn receive(&self, id: u64) -> Option<&Receive> {
        self.by_id.get(&id).map(|waiter| &waiter.request.receive)
    }

    pub(crate) fn wake(&mut self, queues: impl IntoIterator<Item = u32>) {
        for queue in queues {
            if let Some(first) = self.by_queue.get(&queue).and_then(BTreeSet::first) {
                self.woken.insert((*first, queue));
            }
        }
    }

    /// The queue to be served next, with its place among the woken.
    pub(crate) fn woken(&self) -> Option<(u64, u32)> {
        self.woken.first().copied()
    }

    pub(crate) fn is_served(&mut self, woken: (u64, u32)) {
        self.woken.remove(&woken);
    }

    /// The first one in line of a queue behind `after`.
    pub(crate) fn next_in(&self, queue: u32, after: u64) -> Option<u64> {
        self.by_queue.get(&queue)?.range(after + 1..).next().copied()
    }

    pub(crate) fn add_news(&mut self, workers: impl IntoIterator<Item = u128>) {
        for worker in workers {
            if self.by_worker.contains_key(&worker) {
                self.news.insert(worker);
            }
        }
    }

    /// The first waiter of a worker with news.
    pub(crate) fn take_news(&mut self) -> Option<(u64, Waiter)> {
        while let Some(worker) = self.news.pop_first() {
            let first = self.by_worker.get(&worker).and_then(|ids| ids.first().copied());
            if let Some(id) = first
                && let Some(waiter) = self.take(id)
            {
                return Some((id, waiter));
            }
        }
        None
    }

    /// The waiter of this worker with this `attemptId`.
    pub(crate) fn take_same(&mut self, worker: u128, attempt: &str) -> Option<Waiter> {
        let mut ids = self.by_worker.get(&worker)?.iter().copied();
        let is_same = |id: &u64| self.receive(*id).is_some_and(|own| own.attempt_id.as_deref() == Some(attempt));
        let id = ids.find(is_same)?;
        self.take(id)
    }

    /// The wait that ends first.
    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        self.by_deadline.first().map(|(deadline, _)| *deadline)
    }

    pub(crate) fn take_overdue(&mut self, now: Duration) -> Option<(u64, Waiter)> {
        let (_, id) = self.by_deadline.first().copied().filter(|(deadline, _)| *deadline <= now)?;
        self.take(id).map(|waiter| (id, waiter))
    }

    pub(crate) fn take_any(&mut self) -> Option<Waiter> {
        let id = *self.by_id.keys().next()?;
        self.take(id)
    }

    /// Those whose callers are gone.
    pub(crate) fn take_closed(&mut self) -> Vec<Waiter> {
        let is_closed = |waiter: &Waiter| waiter.request.promise.is_closed();
        let closed: Vec<u64> = self.by_id.iter().filter(|(_, waiter)| is_closed(waiter)).map(|(id, _)| *id).collect();
        closed.into_iter().filter_map(|id| self.take(id)).collect()
    }

    /// Whether `cancelled` has anything that the worker has not been told.
    pub(crate) fn is_news(&self, worker: u128, cancelled: &[JobId]) -> bool {
        let told = self.told.get(&worker).map_or(&[][..], Vec::as_slice);
        cancelled.iter().any(|id| !told.contains(id))
    }

    pub(crate) fn tell(&mut self, worker: u128, cancelled: &[JobId]) {
        if cancelled.is_empty() {
            self.told.remove(&worker);
            return;
        }
        if self.told.len() >= TOLD_MAX {
            // Workers that went away are forgotten with the rest; who is there is told once more.
            self.told.clear();
        }
        self.told.insert(worker, cancelled.to_vec());
    }

    pub(crate) fn fail_all(&mut self, error: &Error) {
        while let Some(waiter) = self.take_any() {
            drop(waiter.request.promise.send(Err(error.clone())));
        }
    }
}

fn remove_from<K: Ord + Clone>(index: &mut BTreeMap<K, BTreeSet<u64>>, key: &K, id: u64) {
    if let Some(ids) = index.get_mut(key) {
        ids.remove(&id);
        if ids.is_empty() {
            index.remove(key);
        }
    }
}
