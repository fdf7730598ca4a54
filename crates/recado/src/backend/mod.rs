//! Where the queue is. Both sides take the core's commands and give the same answers; what differs between
//! an embedded queue and a server ends here.

mod embedded;
mod guard;
mod remote;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use recado_contract::problem::Problem;
use recado_core::{JobId, JobState, NewJob, Receive, Settle};

use crate::delivery::{ChildCounts, Delivery, JobFailure};
use crate::error::Error;

pub(crate) use embedded::Embedded;
pub use embedded::OpenOptions;
#[cfg(feature = "testing")]
pub(crate) use embedded::shard_options;
pub use remote::ConnectOptions;
pub(crate) use remote::Remote;

/// An embedded queue or a server.
pub(crate) enum Backend {
    Embedded(Embedded),
    Remote(Remote),
}

/// One job of an enqueue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) id: JobId,
    pub(crate) deduplicated: bool,
    pub(crate) children: Vec<Placed>,
}

/// What became of a settle that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settled {
    /// It counted before.
    pub(crate) repeated: bool,
    /// After an extend, on the server's clock.
    pub(crate) visible_at: Option<u64>,
}

/// One entry a settle, in order, and the jobs of which a cancel was asked for.
#[derive(Debug, Default)]
pub(crate) struct SettleAnswer {
    pub(crate) settled: Vec<Result<Settled, Problem>>,
    pub(crate) cancel_requested: Vec<JobId>,
}

/// The answer to a receive.
#[derive(Debug, Default)]
pub(crate) struct Received {
    pub(crate) jobs: Vec<Delivery>,
    pub(crate) answer: SettleAnswer,
}

/// How long a receive may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// It waits so long for a job.
    pub(crate) wait: Duration,
    /// An answer of a server that takes longer than this, the wait included, is given up.
    pub(crate) answer: Duration,
}

/// Longest time for an answer that waits for nothing.
pub(crate) const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);

/// A job as it is now.
#[derive(Clone, Debug)]
pub(crate) struct JobNow {
    pub(crate) id: JobId,
    pub(crate) queue: Arc<str>,
    pub(crate) kind: Arc<str>,
    pub(crate) schema_version: u32,
    pub(crate) state: Box<str>,
    pub(crate) attempts: u32,
    pub(crate) deliveries: u32,
    pub(crate) held_back: Option<Box<str>>,
    pub(crate) payload: Bytes,
    pub(crate) errors: Vec<JobFailure>,
    pub(crate) result: Option<Bytes>,
    pub(crate) progress: Option<Bytes>,
    pub(crate) children: Option<ChildCounts>,
}

macro_rules! either {
    ($self:ident, $backend:ident => $call:expr) => {
        match $self {
            Self::Embedded($backend) => $call.await,
            Self::Remote($backend) => $call.await,
        }
    };
}

impl Backend {
    /// Puts jobs in a queue. With `whole` they are in together or not at all; otherwise there is one.
    /// Entries are `None` where a repeat found the job there and its id was in an answer that got lost.
    pub(crate) async fn enqueue(&self, queue: &str, jobs: Vec<NewJob>) -> Result<Vec<Option<Placed>>, Error> {
        either!(self, backend => backend.enqueue(queue, jobs))
    }

    /// Settles `settle`, then takes jobs, waiting for the first. Dropped before it is ready it hands nothing out
    /// over an embedded queue; over a server [`Backend::reclaim`] finds what was handed out.
    pub(crate) async fn receive(
        &self,
        receive: &Receive,
        settle: Vec<Settle>,
        times: Times,
    ) -> Result<Received, Error> {
        either!(self, backend => backend.receive(receive, settle, times))
    }

    /// What a receive that was dropped has handed out, which nobody knows of.
    pub(crate) async fn reclaim(&self, receive: &Receive) -> Result<Vec<Delivery>, Error> {
        match self {
            Self::Embedded(_) => Ok(Vec::new()),
            Self::Remote(remote) => remote.reclaim(receive).await,
        }
    }

    /// An answer of a server that takes longer than `answer` is given up.
    pub(crate) async fn settle(&self, settle: Vec<Settle>, answer: Duration) -> Result<SettleAnswer, Error> {
        match self {
            Self::Embedded(embedded) => embedded.settle(settle).await,
            Self::Remote(remote) => remote.settle(settle, answer).await,
        }
    }

    /// The job, as it is when it has ended or after `wait`.
    pub(crate) async fn job(&self, id: JobId, wait: Duration) -> Result<JobNow, Error> {
        either!(self, backend => backend.job(id, wait))
    }

    /// Jobs of a queue in these states, or in any without one, at most 1,000.
    pub(crate) async fn jobs(&self, queue: &str, kind: &str, states: &[JobState]) -> Result<Vec<JobNow>, Error> {
        either!(self, backend => backend.jobs(queue, kind, states))
    }

    /// Stops a job; one in flight is marked and its worker told.
    pub(crate) async fn cancel(&self, id: JobId, reason: Option<&str>) -> Result<(), Error> {
        either!(self, backend => backend.cancel(id, reason))
    }

    /// Ends it: what was answered is durable.
    pub(crate) async fn close(&self) -> Result<(), Error> {
        match self {
            Self::Embedded(embedded) => embedded.close().await,
            Self::Remote(_) => Ok(()),
        }
    }
}
