//! Why a command changed nothing. A client's mistake or a limit, never a failure of the environment.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use thiserror::Error;

use crate::id::JobId;
use crate::reply::State as JobState;

/// A closed list with stable codes; the edges turn each into its own protocol's form.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Rejection {
    /// No such queue.
    #[error("queue `{name}` does not exist")]
    QueueNotFound {
        /// What was asked for.
        name: Box<str>,
        /// The nearest name there is.
        nearest: Option<Box<str>>,
    },
    /// The id was never given out by this server.
    #[error("no job has this id")]
    JobNotFound,
    /// The id is well formed, the job is not there (any more).
    #[error("job {0} is gone")]
    JobGone(JobId),
    /// No such bulk action.
    #[error("no such replay")]
    TaskNotFound,
    /// Jobs are moved only from queues that others hand off to.
    #[error("no queue hands off to `{0}`: set it as the target of a redrive policy first")]
    NotATarget(Box<str>),
    /// One move a queue.
    #[error("jobs of `{0}` are being moved already: wait for the end, or cancel that")]
    MoveRunning(Box<str>),
    /// No such group of dead jobs.
    #[error("no dead job has this fingerprint")]
    FingerprintNotFound,
    /// A limit of the queue.
    #[error("queue `{queue}` is full: {reason} {actual} of {limit}")]
    QueueFull {
        /// The queue.
        queue: Box<str>,
        /// `max-depth`, `dead-letter-max`, `idempotency-max`, `lanes`, `guards`, ...
        reason: &'static str,
        /// The limit.
        limit: u64,
        /// What it would have been.
        actual: u64,
    },
    /// Too many queues.
    #[error("this server holds {limit} queues already; delete one first")]
    TooManyQueues {
        /// The limit.
        limit: u64,
    },
    /// The memory budget is used up.
    #[error("the memory budget of {limit} bytes is used up; let consumers catch up")]
    OutOfMemory {
        /// The budget in bytes.
        limit: u64,
    },
    /// A payload is over the queue's limit.
    #[error("the payload has {actual} bytes; queue `{queue}` takes {limit}")]
    PayloadTooLarge {
        /// The queue.
        queue: Box<str>,
        /// Place in the batch.
        index: usize,
        /// RFC 6901, from the job.
        pointer: Cow<'static, str>,
        /// The limit in bytes.
        limit: u64,
        /// Its size in bytes.
        actual: u64,
    },
    /// A field does not go with the queue's configuration.
    #[error("{message}")]
    Invalid {
        /// Place in the batch.
        index: usize,
        /// RFC 6901, from the job.
        pointer: Cow<'static, str>,
        /// What is wrong and what to do.
        message: String,
    },
    /// `onDuplicate: conflict` met another payload.
    #[error("job {id} holds this deduplication key with another payload")]
    DuplicateConflict {
        /// Place in the batch.
        index: usize,
        /// The job that holds the key.
        id: JobId,
    },
    /// Several entries of a batch are refused, each for one of the three reasons above.
    #[error("{}, and {} more entries are refused", _0[0], _0.len() - 1)]
    Entries(Vec<Self>),
    /// A producer skipped a number.
    #[error("producer `{name}` is at {expected}: send that batch first")]
    ProducerGap {
        /// The producer.
        name: Box<str>,
        /// The number that comes next.
        expected: u64,
    },
    /// An `Idempotency-Key` came again with another request.
    #[error("this Idempotency-Key was used for another request within the last 10 minutes")]
    RequestKeyReused,
    /// The job is not waiting.
    #[error("job {id} is {state}: only a waiting job can be changed")]
    JobNotWaiting {
        /// The job.
        id: JobId,
        /// Its state.
        state: JobState,
    },
    /// The queue has jobs.
    #[error("queue `{queue}` holds {jobs} jobs; empty it or delete it by force")]
    QueueNotEmpty {
        /// The queue.
        queue: Box<str>,
        /// How many.
        jobs: u64,
    },
    /// Jobs were checked by the schema that is there.
    #[error(
        "{jobs} jobs of `{kind}` version {version} were checked by another schema; put this one under a new version"
    )]
    SchemaInUse {
        /// The type.
        kind: Box<str>,
        /// The version.
        version: u32,
        /// Unfinished and dead jobs of it.
        jobs: u64,
    },
    /// The version has no schema.
    #[error("`{kind}` version {version} has no schema")]
    SchemaNotFound {
        /// The type.
        kind: Box<str>,
        /// The version.
        version: u32,
    },
    /// Too many schemas, or too many bytes of them.
    #[error("this server holds {limit} {what} of schemas already; remove one first")]
    TooManySchemas {
        /// `versions` or `bytes`.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// No such shared limit.
    #[error("there is no limit `{name}`")]
    LimitNotFound {
        /// What was asked for.
        name: Box<str>,
        /// The nearest name there is.
        nearest: Option<Box<str>>,
    },
    /// Queues name the shared limit.
    #[error("{queues} queues name the limit `{name}`; take it out of their options first")]
    LimitInUse {
        /// The limit.
        name: Box<str>,
        /// How many.
        queues: u64,
    },
    /// Too many shared limits.
    #[error("this server holds {limit} shared limits already; remove one first")]
    TooManyLimits {
        /// The limit.
        limit: u64,
    },
    /// No such schedule.
    #[error("there is no schedule `{name}`")]
    ScheduleNotFound {
        /// What was asked for.
        name: Box<str>,
        /// The nearest name there is.
        nearest: Option<Box<str>>,
    },
    /// Too many schedules, or too many bytes of them.
    #[error("this server holds {limit} {what} of schedules already; remove one first")]
    TooManySchedules {
        /// `definitions` or `bytes`.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// A schedule puts jobs in the queue.
    #[error("the schedule `{schedule}` puts jobs in queue `{queue}`; remove it first, or delete the queue by force")]
    QueueScheduled {
        /// The queue.
        queue: Box<str>,
        /// One of its schedules.
        schedule: Box<str>,
    },
    /// No such inbound webhook.
    #[error("there is no hook `{name}`")]
    HookNotFound {
        /// What was asked for.
        name: Box<str>,
        /// The nearest name there is.
        nearest: Option<Box<str>>,
    },
    /// Too many inbound webhooks.
    #[error("this server holds {limit} hooks already; remove one first")]
    TooManyHooks {
        /// The limit.
        limit: u64,
    },
    /// The configuration file names the queue, type, limit or schedule.
    #[error("`{0}` is managed by the configuration file; change it there")]
    ManagedByFile(Box<str>),
    /// If-Match did not match.
    #[error("If-Match does not name the configuration that is there, or If-None-Match does; read it again")]
    PreconditionFailed,
    /// A settle that changes nothing.
    #[error("the receipt is stale: {reason}")]
    Stale {
        /// What overtook it.
        reason: StaleReason,
        /// State of the job now; `None` when it is gone.
        state: Option<JobState>,
    },
    /// A token that proves nothing any more.
    #[error("the token is outdated ({reason}): begin again before you go on")]
    TokenOutdated {
        /// What overtook it.
        reason: StaleReason,
    },
    /// A result that cannot be taken now; the receipt stays good.
    #[error("storage is short: a result may have {limit} bytes now, this one has {actual}")]
    ResultTooLargeNow {
        /// The limit in bytes.
        limit: u64,
        /// Its size in bytes.
        actual: u64,
    },
    /// A result that its parent cannot keep beside those of its other children; the receipt stays good.
    #[error(
        "the results that the children of job {parent} leave it would have {actual} bytes, of {limit} together: ack with \
         a smaller one, and keep the rest elsewhere"
    )]
    ChildResultsTooLarge {
        /// The job that waits for this one.
        parent: JobId,
        /// The limit in bytes.
        limit: u64,
        /// What it would have been.
        actual: u64,
    },
    /// There is no room for this entry of a settle now, though there was for those before it.
    #[error("there is no room to write this one now: settle it again, its receipt stays good")]
    NoRoomNow {
        /// The disk is full, not only slow.
        is_full: bool,
    },
}

impl Rejection {
    /// It is about one entry of a batch.
    pub(crate) fn is_of_entry(&self) -> bool {
        matches!(self, Self::PayloadTooLarge { .. } | Self::Invalid { .. } | Self::DuplicateConflict { .. })
    }

    /// It is about something within a job of its request.
    pub(crate) fn within(mut self, path: &str) -> Self {
        if let Self::PayloadTooLarge { pointer, .. } | Self::Invalid { pointer, .. } = &mut self {
            *pointer = format!("{path}{pointer}").into();
        }
        self
    }
}

/// What overtook a receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StaleReason {
    /// Another delivery.
    ReceivedAgain,
    /// Another outcome under the same receipt.
    Settled,
    /// The job died otherwise.
    Dead,
    /// An operator.
    Cancelled,
    /// `expiresAfter`.
    Expired,
    /// A purge.
    Purged,
    /// A replay.
    Replayed,
    /// A hand-off to another queue.
    Forwarded,
    /// Another job with its idempotency key; of a token: another begin.
    KeyTaken,
    /// The visibility timeout.
    Lapsed,
    /// The job was given another payload.
    Replaced,
    /// This server did not make it, or not for this job.
    Forged,
}

impl StaleReason {
    /// The word on the wire.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::ReceivedAgain => "received-again",
            Self::Settled => "settled",
            Self::Dead => "dead",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
            Self::Purged => "purged",
            Self::Replayed => "replayed",
            Self::Forwarded => "forwarded",
            Self::KeyTaken => "key-taken",
            Self::Lapsed => "visibility-timeout",
            Self::Replaced => "replaced",
            Self::Forged => "forged",
        }
    }
}

impl core::fmt::Display for StaleReason {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.word())
    }
}
