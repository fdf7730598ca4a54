//! What clients saw, and what was done to the servers meanwhile: all that the checkers look at.

use std::fmt;

use recado_core::{Cancelled, JobId, JobState, Rejection};
use recado_shard::Once;

use crate::script::{Fault, Micros, Request};

/// One thing that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// When.
    pub at: Micros,
    /// To which server it happened.
    pub server: usize,
    /// What.
    pub what: Event,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A client sent a request.
    Sent {
        /// Names the request.
        op: usize,
        /// The request.
        request: Request,
        /// How often it may arrive.
        copies: usize,
    },
    /// An answer arrived. A request that arrived twice may be answered twice; none may arrive at all.
    Answered {
        /// Names the request.
        op: usize,
        /// The answer.
        answer: Answer,
    },
    /// A server saw the connection break before these jobs were delivered.
    Undelivered {
        /// Names the request.
        op: usize,
        /// The jobs.
        jobs: Vec<JobId>,
    },
    /// A client gave up waiting: what it would have been given goes back.
    HungUp {
        /// Names the request.
        op: usize,
    },
    /// Something broke.
    Fault(Fault),
    /// The process died: by a fault, or because its disk failed.
    Died,
    /// It is in service.
    Started,
    /// It could not start.
    NotStarted {
        /// Why.
        reason: String,
        /// Its log is damaged, it says.
        is_corrupt: bool,
    },
    /// From here on nothing breaks, and everything that waits is worked off.
    Calm,
    /// Everything is worked off; what is listed from here on is how it ended.
    Drained,
    /// Sizes of an idle server at the end.
    Sizes {
        /// The log.
        log_bytes: u64,
        /// Live items in it.
        live_bytes: u64,
        /// A segment.
        unit_bytes: u64,
        /// The state.
        memory_bytes: u64,
        /// The state when it was largest.
        memory_max_bytes: u64,
        /// All files.
        disk_bytes: u64,
        /// Jobs and answers whose bytes could not be read.
        unreadable: u64,
    },
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// To an enqueue.
    Enqueued {
        /// The producer's batch was there already.
        duplicate: bool,
        /// It was answered before under its `Idempotency-Key`.
        saved: bool,
        /// One entry a job.
        jobs: Vec<Made>,
    },
    /// To a receive.
    Received(Vec<Delivery>),
    /// To a settle that counted, or repeats one that did.
    Settled {
        /// It was taken before.
        repeated: bool,
    },
    /// To the begin of work under a key.
    Begun(Once),
    /// To its end.
    Guarded {
        /// It was so before.
        repeated: bool,
    },
    /// To a cancel.
    Cancelled(Cancelled),
    /// To a look.
    Job {
        /// Its state.
        state: JobState,
    },
    /// To a bulk action that has ended.
    Acted(u64),
    /// To a list.
    Jobs(Vec<Listed>),
    /// Done.
    Done,
    /// The server refused it: nothing was changed.
    Refused(Rejection),
    /// Nothing was done: no process, or none that takes requests, or no space.
    Unavailable(&'static str),
    /// Nobody knows.
    Unknown,
}

/// One job of an enqueue.
#[derive(Clone, Debug, PartialEq)]
pub struct Made {
    /// The new job, or the one that was there.
    pub id: JobId,
    /// It was there.
    pub is_duplicate: bool,
    /// The job it waits behind.
    pub behind: Option<JobId>,
}

/// A job in a worker's hands.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivery {
    /// The job.
    pub id: JobId,
    /// What its payload says it is; `None` when that is not what was enqueued.
    pub tag: Option<u32>,
    /// The replay that last changed it.
    pub round: Option<u32>,
    /// Fencing token.
    pub fence: u64,
    /// When it was handed out, on the server's wall clock.
    pub received_at: u64,
    /// The receipt.
    pub receipt: Box<str>,
    /// Attempts that count, this one included.
    pub attempts: u32,
    /// Hand-outs, this one included.
    pub deliveries: u32,
    /// Attempts it has.
    pub max_attempts: u32,
    /// Times it was replayed.
    pub replays: u32,
    /// Higher first.
    pub priority: u8,
    /// When it becomes visible again, on the server's wall clock.
    pub visible_at: u64,
}

/// A job in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// The job.
    pub id: JobId,
    /// What its payload says it is; `None` when that is not what was enqueued.
    pub tag: Option<u32>,
    /// The replay that last changed it.
    pub round: Option<u32>,
    /// Its state.
    pub state: JobState,
    /// How long it could have been received already.
    pub ready_for_ms: Option<u64>,
    /// Attempts that count.
    pub attempts: u32,
    /// Attempts it has.
    pub max_attempts: u32,
    /// Hand-outs.
    pub deliveries: u32,
    /// Times it was replayed.
    pub replays: u32,
    /// Errors that are kept.
    pub errors: usize,
    /// Kind of the last one.
    pub last_error: Option<Box<str>>,
    /// Its result.
    pub result: Option<Box<str>>,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>11.3} ms  server {}  ", self.at as f64 / 1_000.0, self.server)?;
        match &self.what {
            Event::Sent { op, request, .. } => write!(f, "#{op} sends {request:?}"),
            Event::Answered { op, answer } => write!(f, "#{op} is answered {answer:?}"),
            Event::Undelivered { op, jobs } => write!(f, "#{op} gives back {jobs:?}"),
            what => write!(f, "{what:?}"),
        }
    }
}
