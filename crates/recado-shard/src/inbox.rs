//! The only way into the writer: a bounded lane for requests and one for its own affairs.
//!
//! The second lane holds jobs to be given back (never more than there are in flight) and bytes that
//! were fetched (never more than were asked for), so it needs no bound of its own and is open while
//! the first one is full.

use std::hint;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use recado_core::{Answer, Command, JobId, JobView, NewTask, Query, Rejection, Reply, Settle, Settled, TaskView};
use tokio::sync::oneshot;

use crate::error::Error;
use crate::feed::Listener;
use crate::tasks::Patched;
use crate::trim::Fetched;
use crate::waiters::ReceiveRequest;

/// Where an answer goes.
pub(crate) type Promise<T> = oneshot::Sender<Result<T, Error>>;

/// What became of the entries of a settle.
pub(crate) type Outcomes = Vec<Result<Settled, Rejection>>;

/// What callers ask.
pub(crate) enum Request {
    Command(Arc<Command>, Promise<Reply>),
    Query(Query, Promise<Answer>),
    Settle(SettleRequest),
    Receive(Box<ReceiveRequest>),
    WaitJob {
        id: JobId,
        wait: Duration,
        promise: Promise<JobView>,
    },
    RunTask(NewTask, Promise<TaskView>),
    WaitTask(u64, Promise<TaskView>),
    /// To all jobs, or to one.
    Listen(Option<JobId>, Promise<Box<Listener>>),
}

/// Entries not yet decided stand in reverse, so that the next one is popped.
pub(crate) struct SettleRequest {
    pub(crate) entries: Vec<Settle>,
    pub(crate) done: Outcomes,
    pub(crate) promise: Promise<Outcomes>,
}

/// What the shard tells itself.
pub(crate) enum Internal {
    GiveBack {
        job: JobId,
        nonce: u64,
        delay_ms: Option<u64>,
    },
    Copies(Fetched),
    Patched(Box<Patched>),
    /// A listener has left.
    Unlisten(Option<JobId>),
}

/// Wakes the writer's thread, once there is one.
#[derive(Clone, Default)]
pub(crate) struct Bell(Arc<Rope>);

#[derive(Default)]
struct Rope {
    thread: OnceLock<Thread>,
    is_rung: AtomicBool,
}

impl Bell {
    /// Costs two atomic swaps while the thread runs and a system call only when it is parked.
    pub(crate) fn ring(&self) {
        self.0.is_rung.store(true, Ordering::Release);
        if let Some(thread) = self.0.thread.get() {
            thread.unpark();
        }
    }

    /// The calling thread is the one to wake.
    pub(crate) fn is_mine(&self) {
        assert!(self.0.thread.set(thread::current()).is_ok(), "a shard has one writer");
    }

    /// Sleeps until it rings, `limit` at most; a ring since the last sleep ends it at once. The thread rests only after
    /// `awake`, since to be woken takes a while. Returns how long it was until the bell rang.
    pub(crate) fn sleep(&self, awake: Duration, limit: Duration) -> Option<Duration> {
        let began = Instant::now();
        loop {
            if self.0.is_rung.swap(false, Ordering::Acquire) {
                return Some(began.elapsed());
            }
            match began.elapsed() {
                waited if waited >= limit => return None,
                waited if waited < awake => hint::spin_loop(),
                // It returns at once if a ring was met awake.
                waited => thread::park_timeout(limit - waited),
            }
        }
    }
}

/// Whether requests are taken.
#[derive(Clone)]
pub(crate) enum Gate {
    Open,
    Stopping,
    Failed(Arc<str>),
}

impl Gate {
    /// What to answer instead of taking a request.
    pub(crate) fn refusal(&self) -> Option<Error> {
        match self {
            Self::Open => None,
            Self::Stopping => Some(Error::Stopping),
            Self::Failed(reason) => Some(Error::LogFailed { reason: Arc::clone(reason) }),
        }
    }
}

struct Lanes {
    gate: Gate,
    requests: Vec<Request>,
    internal: Vec<Internal>,
    /// Requests that have come in since the start.
    arrived: u64,
    /// Requests that the writer has taken and not yet decided.
    backlog: usize,
    /// Requests decided per second, as last measured; 0 is unknown.
    per_second: u64,
}

pub(crate) struct Inbox {
    lanes: Mutex<Lanes>,
    bell: Bell,
    requests_max: usize,
}

const RETRY_AFTER_MIN: Duration = Duration::from_millis(100);
const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);

impl Inbox {
    pub(crate) fn new(requests_max: usize, bell: Bell) -> Self {
        let lanes = Lanes {
            gate: Gate::Open,
            requests: Vec::new(),
            internal: Vec::new(),
            arrived: 0,
            backlog: 0,
            per_second: 0,
        };
        Self { lanes: Mutex::new(lanes), bell, requests_max }
    }

    fn lock(&self) -> MutexGuard<'_, Lanes> {
        // Nothing below panics between two changes that belong together.
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, request: Request) -> Result<(), Error> {
        self.push_up_to(self.requests_max, request)
    }

    /// Goes on with what was begun: that there is no room for more is no answer to it. There are never more of these
    /// than there were requests that were taken.
    pub(crate) fn push_further(&self, request: Request) -> Result<(), Error> {
        self.push_up_to(usize::MAX, request)
    }

    fn push_up_to(&self, requests_max: usize, request: Request) -> Result<(), Error> {
        let mut lanes = self.lock();
        if let Some(refusal) = lanes.gate.refusal() {
            return Err(refusal);
        }
        let waiting = lanes.requests.len() + lanes.backlog;
        if waiting >= requests_max {
            return Err(Error::Overloaded { retry_after: retry_after(waiting, lanes.per_second) });
        }
        lanes.requests.push(request);
        lanes.arrived += 1;
        drop(lanes);
        self.bell.ring();
        Ok(())
    }

    /// Dropped when the writer has failed: nobody is left to act on it.
    pub(crate) fn push_internal(&self, internal: impl IntoIterator<Item = Internal>) {
        let mut lanes = self.lock();
        if matches!(lanes.gate, Gate::Failed(_)) {
            return;
        }
        lanes.internal.extend(internal);
        drop(lanes);
        self.bell.ring();
    }

    /// Moves what has come in to the writer, which says how much it still has from before.
    pub(crate) fn take(&self, requests: &mut Vec<Request>, internal: &mut Vec<Internal>, backlog: usize) -> Gate {
        assert!(requests.is_empty() && internal.is_empty(), "what was taken before is decided first");
        let mut lanes = self.lock();
        mem::swap(&mut lanes.requests, requests);
        mem::swap(&mut lanes.internal, internal);
        lanes.backlog = backlog + requests.len();
        lanes.gate.clone()
    }

    pub(crate) fn set_backlog(&self, backlog: usize) {
        self.lock().backlog = backlog;
    }

    pub(crate) fn set_rate(&self, per_second: u64) {
        self.lock().per_second = per_second;
    }

    pub(crate) fn close(&self, gate: Gate) {
        let mut lanes = self.lock();
        if !matches!(lanes.gate, Gate::Failed(_)) {
            lanes.gate = gate;
        }
        drop(lanes);
        self.bell.ring();
    }

    pub(crate) fn gate(&self) -> Gate {
        self.lock().gate.clone()
    }

    /// How many requests have come in, and whether any is still to be decided.
    pub(crate) fn arrived(&self) -> (u64, bool) {
        let lanes = self.lock();
        (lanes.arrived, !lanes.requests.is_empty() || lanes.backlog > 0)
    }

    /// Requests waiting, and how many may.
    pub(crate) fn fill(&self) -> (usize, usize) {
        let lanes = self.lock();
        (lanes.requests.len() + lanes.backlog, self.requests_max)
    }
}

fn retry_after(waiting: usize, per_second: u64) -> Duration {
    if per_second == 0 {
        return Duration::from_secs(1);
    }
    let millis = (waiting as u64).saturating_mul(1000) / per_second;
    Duration::from_millis(millis).clamp(RETRY_AFTER_MIN, RETRY_AFTER_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Longer than any machine needs to run a thread.
    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_ring_before_the_sleep_or_in_it_ends_it() {
        for awake in [Duration::ZERO, LONG] {
            let bell = Bell::default();
            bell.is_mine();
            bell.ring();
            assert!(bell.sleep(awake, LONG).is_some_and(|after| after < LONG), "rung before");
            let ringer = bell.clone();
            let ring = thread::spawn(move || ringer.ring());
            assert!(bell.sleep(awake, LONG).is_some_and(|after| after < LONG), "rung meanwhile");
            ring.join().unwrap();
            assert_eq!(bell.sleep(awake, Duration::from_millis(1)), None, "nobody rang");
        }
    }
}
