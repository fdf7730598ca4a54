//! What a worker holds: deliveries, their leases, and what became of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use recado_core::{JobId, Outcome, Settle};
use tokio::time::Instant;

use super::ctx::Ctx;
use crate::delivery::Delivery;

/// How long a job is still hidden from others, on the clock here.
pub(super) struct Lease {
    pub(super) ends: Instant,
    /// The same on the server's clock, in milliseconds: the two clocks meet here.
    visible_at: u64,
    length: Duration,
    /// When the next extend is due.
    pub(super) extend_at: Instant,
}

/// Progress of a job is sent at most so often.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);
/// Shortest time between two extends of a job.
const EXTEND_EVERY_MIN: Duration = Duration::from_millis(20);

impl Lease {
    fn new(delivery: &Delivery, now: Instant) -> Self {
        let length = delivery.visible_for;
        let (ends, visible_at) = (now + length, delivery.visible_at);
        let mut lease = Self { ends, visible_at, length, extend_at: now };
        lease.sent(now);
        lease
    }

    /// An extend is on its way: the next is due in a third of the lease, whatever becomes of this one.
    pub(super) fn sent(&mut self, now: Instant) {
        self.extend_at = now + (self.length / 3).max(EXTEND_EVERY_MIN);
    }

    /// An extend was granted: its queue may have another timeout by now than at the hand-out.
    fn extended(&mut self, visible_at: u64, now: Instant) {
        (self.ends, self.visible_at) = (self.here(visible_at), visible_at);
        self.length = self.ends.saturating_duration_since(now);
        self.sent(now);
    }

    /// An instant of the server's clock on the clock here.
    pub(super) fn here(&self, at: u64) -> Instant {
        match at.checked_sub(self.visible_at) {
            Some(later) => self.ends + Duration::from_millis(later),
            None => self.ends.checked_sub(Duration::from_millis(self.visible_at - at)).unwrap_or(self.ends),
        }
    }
}

/// Where a delivery is.
pub(super) enum Stage {
    /// For a free place, since then.
    Waits(Instant),
    /// With its handler.
    Runs(Ctx),
    /// What is to be settled; it may be on its way.
    Ended(Outcome),
}

/// One delivery.
pub(super) struct Held {
    pub(super) delivery: Arc<Delivery>,
    pub(super) lease: Lease,
    pub(super) stage: Stage,
    /// The job went on without this delivery: no heartbeat helps any more.
    pub(super) is_lost: bool,
    /// Its end cannot be taken now, as while the disk is full: it is held until it can.
    pub(super) is_put_off: bool,
    /// What its handler last said, as JSON text, until the queue has it.
    progress: Option<Vec<u8>>,
    /// It is on its way.
    is_progress_sent: bool,
}

impl Held {
    pub(super) fn new(delivery: Delivery, now: Instant) -> Self {
        let lease = Lease::new(&delivery, now);
        Self {
            delivery: Arc::new(delivery),
            lease,
            stage: Stage::Waits(now),
            is_lost: false,
            is_put_off: false,
            progress: None,
            is_progress_sent: false,
        }
    }

    /// Still needs its lease, and has it.
    pub(super) fn is_live(&self) -> bool {
        !self.is_lost && (self.is_put_off || !matches!(self.stage, Stage::Ended(_)))
    }

    fn settle(&self, outcome: Outcome) -> Settle {
        Settle { job: Some(self.delivery.id), receipt: self.delivery.receipt.clone(), outcome }
    }

    /// The settle of its end; `None` while it has none.
    pub(super) fn end(&self) -> Option<Settle> {
        match &self.stage {
            Stage::Ended(outcome) => Some(self.settle(outcome.clone())),
            _ => None,
        }
    }

    /// What its end takes in a request, in bytes, more or less.
    pub(super) fn end_bytes(&self) -> usize {
        match &self.stage {
            Stage::Ended(Outcome::Ack { result }) => result.as_ref().map_or(0, Vec::len),
            _ => 0,
        }
    }

    /// Its handler has said how far it is.
    pub(super) fn said(&mut self, progress: Vec<u8>, now: Instant) {
        (self.progress, self.is_progress_sent) = (Some(progress), false);
        self.lease.extend_at = self.lease.extend_at.min(now + PROGRESS_EVERY);
    }

    /// A heartbeat was granted. What its handler has said since is due as soon as before.
    pub(super) fn extended(&mut self, visible_at: u64, now: Instant) {
        self.progress.take_if(|_| self.is_progress_sent);
        let said = self.progress.is_some().then_some(self.lease.extend_at);
        self.lease.extended(visible_at, now);
        self.lease.extend_at = said.map_or(self.lease.extend_at, |at| at.min(self.lease.extend_at));
    }

    /// A heartbeat.
    pub(super) fn extend(&mut self, visibility_ms: Option<u64>, now: Instant) -> Settle {
        self.lease.sent(now);
        self.is_progress_sent = self.progress.is_some();
        self.settle(Outcome::Extend { visibility_ms, progress: self.progress.clone() })
    }

    /// A heartbeat was not answered: it is made again then, if none is due before.
    pub(super) fn extend_again(&mut self, at: Instant) {
        self.is_progress_sent = false;
        self.lease.extend_at = self.lease.extend_at.min(at);
    }
}

/// All deliveries of a worker, by a number of its own.
#[derive(Default)]
pub(super) struct Book {
    pub(super) held: BTreeMap<u64, Held>,
    last: u64,
    /// No extend is due before then.
    check_at: Option<Instant>,
}

impl Book {
    pub(super) fn add(&mut self, delivery: Delivery, now: Instant) -> u64 {
        self.last += 1;
        let held = Held::new(delivery, now);
        self.hasten(held.lease.extend_at);
        self.held.insert(self.last, held);
        self.last
    }

    /// An extend may be due as early as then.
    pub(super) fn hasten(&mut self, at: Instant) {
        self.check_at = Some(self.check_at.map_or(at, |check_at| check_at.min(at)));
    }

    /// Time left of the lease that ends first, of those that are not lost.
    pub(super) fn shortest_left(&self, now: Instant) -> Duration {
        let ends = self.held.values().filter(|held| !held.is_lost).map(|held| held.lease.ends).min();
        ends.map_or(Duration::MAX, |ends| ends.saturating_duration_since(now))
    }

    pub(super) fn of_job(&mut self, id: JobId) -> Option<(u64, &mut Held)> {
        self.held.iter_mut().find(|(_, held)| held.delivery.id == id).map(|(key, held)| (*key, held))
    }

    /// When to look for extends that are due; there may be none then.
    pub(super) fn next_extend(&self) -> Option<Instant> {
        self.check_at
    }

    /// Heartbeats of all whose time has come or comes soon, if one's has come.
    pub(super) fn due_extends(&mut self, visibility_ms: Option<u64>, now: Instant, max: usize) -> Vec<(u64, Settle)> {
        if self.check_at.is_none_or(|at| at > now) {
            return Vec::new();
        }
        let next = |held: &BTreeMap<u64, Held>| {
            held.values().filter(|held| held.is_live()).map(|held| held.lease.extend_at).min()
        };
        let is_due = |held: &Held| held.is_live() && held.lease.extend_at <= now + held.lease.length / 6;
        let has_come = next(&self.held).is_some_and(|at| at <= now);
        let due = self.held.iter_mut().filter(|(_, held)| has_come && is_due(held)).take(max);
        let extends = due.map(|(key, held)| (*key, held.extend(visibility_ms, now))).collect();
        self.check_at = next(&self.held);
        extends
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use bytes::Bytes;

    pub(in crate::worker) fn delivery(visible_for: Duration) -> Delivery {
        Delivery {
            id: JobId::default(),
            queue: "q".into(),
            kind: "t".into(),
            schema_version: 1,
            payload: Bytes::from_static(b"{}"),
            headers: Bytes::from_static(b"{}"),
            business_id: None,
            group: None,
            idempotency_key: None,
            attempt: 1,
            max_attempts: 5,
            deliveries: 1,
            last_error: None,
            progress: None,
            receipt: "r".into(),
            fencing_token: 1,
            visible_at: 1_000_000,
            visible_for,
            timeout_at: None,
            children: Vec::new(),
        }
    }

    #[test]
    fn extends_are_due_at_a_third_of_the_lease_and_go_together() {
        let (now, lease) = (Instant::now(), Duration::from_secs(30));
        let mut book = Book::default();
        book.add(delivery(lease), now);
        book.add(delivery(lease), now + Duration::from_secs(4));
        book.add(delivery(lease), now + Duration::from_secs(9));
        assert!(book.due_extends(None, now + Duration::from_secs(9), 100).is_empty());
        let due = book.due_extends(None, now + Duration::from_secs(10), 100);
        assert_eq!(due.iter().map(|(key, _)| *key).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(book.next_extend(), Some(now + Duration::from_secs(19)));
    }

    #[test]
    fn the_clocks_meet_at_the_end_of_the_lease() {
        let now = Instant::now();
        let mut lease = Lease::new(&delivery(Duration::from_secs(30)), now);
        lease.extended(1_010_000, now + Duration::from_secs(10));
        assert_eq!(lease.ends, now + Duration::from_secs(40));
        assert_eq!(lease.here(1_012_000), now + Duration::from_secs(42));
        assert_eq!(lease.here(1_000_000), now + Duration::from_secs(30));
    }

    #[test]
    fn heartbeats_follow_the_lease_that_was_last_granted() {
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        for (length, granted) in [(600 * second, 30 * second), (Duration::from_millis(60), 30 * second)] {
            let mut book = Book::default();
            let key = book.add(delivery(length), now);
            let sent = now + length / 3;
            assert_eq!(book.due_extends(None, sent, 100).len(), 1);
            let held = book.held.get_mut(&key).unwrap();
            let visible_at = 1_000_000 - (length - length / 3).as_millis() as u64 + granted.as_millis() as u64;
            held.extended(visible_at, sent);
            assert_eq!((held.lease.ends, held.lease.extend_at), (sent + granted, sent + granted / 3));
            let extend_at = held.lease.extend_at;
            book.hasten(extend_at);
            assert!(book.due_extends(None, sent + granted / 4, 100).is_empty());
            assert_eq!(book.due_extends(None, sent + granted / 3, 100).len(), 1);
        }
    }

    #[test]
    fn what_was_said_while_a_heartbeat_was_under_way_is_not_late() {
        let now = Instant::now();
        let mut held = Held::new(delivery(Duration::from_secs(30)), now);
        held.said(b"0.4".to_vec(), now);
        held.extend(None, now);
        held.said(b"0.5".to_vec(), now);
        held.extended(1_000_000, now);
        assert_eq!(held.lease.extend_at, now + PROGRESS_EVERY);
        let Outcome::Extend { progress, .. } = held.extend(None, now).outcome else { panic!("no heartbeat") };
        assert_eq!(progress.as_deref(), Some(&b"0.5"[..]));
    }

    #[test]
    fn a_heartbeat_that_was_not_answered_is_made_again_with_what_it_said() {
        let now = Instant::now();
        let mut held = Held::new(delivery(Duration::from_secs(30)), now);
        held.said(b"0.5".to_vec(), now);
        let sent = held.extend(None, now);
        held.extend_again(now);
        assert_eq!(held.lease.extend_at, now);
        assert_eq!(held.extend(None, now), sent);
        held.extended(1_000_000, now);
        let Outcome::Extend { progress, .. } = held.extend(None, now).outcome else { panic!("no heartbeat") };
        assert_eq!(progress, None, "the queue has it");
    }
}
