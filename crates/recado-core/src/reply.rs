//! What a command answers. Bytes are named by their place; whoever delivers the answer fetches them.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use minicbor::{Decode, Encode};

use crate::event::TaskKind;
use crate::id::JobId;
use crate::schedule::Occurrence;

/// A run of bytes in the tail of one batch of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Place {
    /// Position of the batch.
    pub position: u64,
    /// First byte in the batch's tail.
    pub offset: u32,
    /// Number of bytes.
    pub length: u32,
}

/// Where a job is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(index_only)]
pub enum State {
    /// Can be received.
    #[n(0)]
    Ready,
    /// Waits for its time.
    #[n(1)]
    Delayed,
    /// Waits for other jobs: its children, or the one that holds its deduplication key.
    #[n(2)]
    Blocked,
    /// With a worker.
    #[n(3)]
    InFlight,
    /// Done.
    #[n(4)]
    Completed,
    /// In the dead-letter queue.
    #[n(5)]
    Dead,
    /// Stopped by an operator.
    #[n(6)]
    Cancelled,
    /// Too late.
    #[n(7)]
    Expired,
}

impl State {
    /// All states, in the order of their life.
    pub const ALL: [Self; 8] = [
        Self::Ready,
        Self::Delayed,
        Self::Blocked,
        Self::InFlight,
        Self::Completed,
        Self::Dead,
        Self::Cancelled,
        Self::Expired,
    ];

    /// The word on the wire.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Delayed => "delayed",
            Self::Blocked => "blocked",
            Self::InFlight => "inFlight",
            Self::Completed => "completed",
            Self::Dead => "dead",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
        }
    }

    /// Nothing can happen to the job any more but being forgotten.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Cancelled | Self::Expired)
    }

    /// Waits to be received.
    #[must_use]
    pub fn is_waiting(self) -> bool {
        matches!(self, Self::Ready | Self::Delayed | Self::Blocked)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Why a ready job is not handed out. A reason shown to people, not a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // the words say it
pub enum HeldBack {
    Paused,
    QueueInFlightLimit,
    GroupInFlightLimit,
    GroupOrder,
    QueueRateLimit,
    GroupRateLimit,
    SharedLimit,
    BreakerOpen,
    IdempotencyKeyInFlight,
    DedupKeyInFlight,
    ChildrenPending,
    NoCapableWorker,
    NoWorker,
}

impl HeldBack {
    /// The word on the wire.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Paused => "paused",
            Self::QueueInFlightLimit => "queue-in-flight-limit",
            Self::GroupInFlightLimit => "group-in-flight-limit",
            Self::GroupOrder => "group-order",
            Self::QueueRateLimit => "queue-rate-limit",
            Self::GroupRateLimit => "group-rate-limit",
            Self::SharedLimit => "shared-limit",
            Self::BreakerOpen => "breaker-open",
            Self::IdempotencyKeyInFlight => "idempotency-key-in-flight",
            Self::DedupKeyInFlight => "dedup-key-in-flight",
            Self::ChildrenPending => "children-pending",
            Self::NoCapableWorker => "no-capable-worker",
            Self::NoWorker => "no-worker",
        }
    }
}

/// A job as an answer shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobView {
    /// Its id; the instant of its enqueue is in it.
    pub id: JobId,
    /// Name of its queue.
    pub queue: Arc<str>,
    /// Its type.
    pub kind: Arc<str>,
    /// Version of its payload's schema.
    pub schema_version: u32,
    /// Its state.
    pub state: State,
    /// Higher first.
    pub priority: u8,
    /// Attempts that count.
    pub attempts: u32,
    /// Hand-outs.
    pub deliveries: u32,
    /// Attempts it has.
    pub max_attempts: u32,
    /// How often it was replayed.
    pub replays: u32,
    /// When it was or will be due.
    pub run_at: u64,
    /// Why it is not handed out.
    pub held_back: Option<HeldBack>,
    /// JSON text.
    pub payload: Place,
    /// An encoded [`crate::Meta`]: headers and keys as they were given.
    pub meta: Place,
    /// Encoded [`crate::ErrorEntry`]s, the first and the last ten.
    pub errors: Vec<Place>,
    /// JSON text.
    pub result: Option<Place>,
    /// JSON text.
    pub progress: Option<Place>,
    /// A cancel waits for its worker.
    pub cancel_requested: bool,
    /// When its present delivery becomes visible again, in flight only.
    pub visible_at: Option<u64>,
    /// When it ended or died.
    pub ended_at: Option<u64>,
    /// Group of alike failures, dead only.
    pub fingerprint: Option<u64>,
    /// When it was first handed out.
    pub first_received_at: Option<u64>,
    /// The queue that handed it off to this one, while that is there.
    pub handed_off_by: Option<Arc<str>>,
    /// The job that waits for this one, or waited, while that has not ended.
    pub parent: Option<JobId>,
    /// The jobs that it waits for, or waited.
    pub children: Option<Box<ChildrenView>>,
}

/// The children of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildrenView {
    /// How many there are.
    pub total: u32,
    /// How many have not ended.
    pub pending: u32,
    /// How many have completed.
    pub completed: u32,
    /// How many have ended otherwise.
    pub failed: u32,
    /// Each, where the job itself was asked for or is delivered, and has not ended; none of a batch.
    pub jobs: Vec<ChildView>,
}

/// A child as its parent knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildView {
    /// Its id.
    pub id: JobId,
    /// The state that it is or ended in; `purged` is one of these.
    pub state: &'static str,
    /// JSON text.
    pub result: Option<Place>,
}

/// A delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// The job.
    pub job: JobView,
    /// Proof of this delivery.
    pub receipt: crate::id::Receipt,
    /// When it becomes visible again.
    pub visible_at: u64,
    /// When the attempt must end, if it must.
    pub timeout_at: Option<u64>,
    /// Grows with each delivery of any job of this shard.
    pub fencing_token: u64,
}

/// One job of an enqueue.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Enqueued {
    /// The new job, or the one that was there.
    #[n(0)]
    pub id: JobId,
    /// Set when the job was there already.
    #[n(1)]
    pub duplicate: Option<Duplicate>,
    /// The in-flight job it waits behind (`onDuplicate: replace`).
    #[n(2)]
    pub queued_behind: Option<JobId>,
    /// Its children, in order; none when the job was there already.
    #[n(3)]
    #[cbor(default)]
    pub children: Vec<Enqueued>,
}

/// The job that was there already.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Duplicate {
    /// The payloads are equal.
    #[n(0)]
    pub same_payload: bool,
    /// Its state; `None` when it is gone and only the key is kept.
    #[n(1)]
    pub state: Option<State>,
    /// Where its result is, as position, offset and length.
    #[n(2)]
    pub result: Option<(u64, u32, u32)>,
}

/// What became of a settle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// The job.
    pub id: JobId,
    /// The same settle was taken before.
    pub repeated: bool,
    /// After an extend.
    pub visible_at: Option<u64>,
    /// Its cancel was asked for.
    pub cancel_requested: bool,
}

/// What became of one cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// It will not run.
    Done(JobId),
    /// Its worker is told; an ack still completes it.
    Requested(JobId),
    /// It had ended.
    Refused(JobId, State),
    /// It is not there.
    Gone(JobId),
}

/// Where a bulk action is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum TaskState {
    /// At work.
    #[n(0)]
    Running,
    /// Done.
    #[n(1)]
    Completed,
    /// Stopped by its own failures.
    #[n(2)]
    Halted,
    /// Stopped by an operator.
    #[n(3)]
    Cancelled,
}

/// A bulk action as an answer shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskView {
    /// Its number.
    pub id: u64,
    /// What it does.
    pub kind: TaskKind,
    /// Its queue.
    pub queue: Arc<str>,
    /// Where it is.
    pub state: TaskState,
    /// When it was started.
    pub started_at: u64,
    /// When it ended.
    pub ended_at: Option<u64>,
    /// Jobs it was meant for.
    pub matched: u64,
    /// Jobs it acted on.
    pub acted: u64,
    /// Replayed jobs that completed since.
    pub succeeded: u64,
    /// Replayed jobs that died again since.
    pub failed: u64,
    /// Jobs it passed over: `max-replays`, `conflict`, `not-dead`, `not-found`.
    pub skipped: Vec<(Box<str>, u64)>,
    /// Where jobs are moved to, if not where they came from.
    pub destination: Option<Box<str>>,
    /// At most so fast.
    pub rate: Option<crate::command::Rate>,
}

/// What a begin found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begun {
    /// Nothing: the work is the asker's.
    New {
        /// Proves it.
        token: Box<str>,
    },
    /// The work is done.
    Done {
        /// JSON text.
        result: Option<Place>,
    },
    /// Somebody is at it.
    Processing {
        /// When the next begin may take it over.
        until: u64,
    },
}

/// The answer to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Nothing to say.
    Done,
    /// To [`crate::Command::Tick`].
    Ticked {
        /// More is due already: tick again.
        more: bool,
    },
    /// To [`crate::Command::SaveFigures`].
    FiguresSaved {
        /// Go on after this queue.
        next: Option<u32>,
    },
    /// To [`crate::Command::Enqueue`].
    Enqueued {
        /// The queue was created by it.
        created: bool,
        /// The producer's batch was there already.
        duplicate: bool,
        /// One entry a job, in order.
        jobs: Vec<Enqueued>,
    },
    /// To [`crate::Command::Enqueue`] with an `Idempotency-Key` seen before: the saved answer, which
    /// [`crate::decode_saved`] reads.
    Saved(Place),
    /// To [`crate::Command::Receive`].
    Received {
        /// A queue was created by it.
        created: bool,
        /// The jobs.
        jobs: Vec<Delivered>,
        /// When empty: why, if jobs are waiting.
        empty_because: Option<HeldBack>,
        /// The shared limit that this is about.
        limit: Option<Arc<str>>,
        /// An earlier receive with the same `attemptId` handed these jobs out already.
        repeated: bool,
    },
    /// To [`crate::Command::Settle`].
    Settled(Settled),
    /// To [`crate::Command::Cancel`].
    Cancelled(Vec<Cancelled>),
    /// To [`crate::Command::Configure`].
    Configured {
        /// The queue is new.
        created: bool,
        /// Revision of its configuration.
        revision: u64,
    },
    /// To [`crate::Command::PutSchema`].
    SchemaPut {
        /// The version had none.
        created: bool,
    },
    /// To [`crate::Command::PutLimit`].
    LimitPut {
        /// There was none of that name.
        created: bool,
    },
    /// To [`crate::Command::PutSchedule`].
    SchedulePut {
        /// There was none of that name.
        created: bool,
    },
    /// To [`crate::Command::FireSchedule`] and [`crate::Command::RunSchedule`].
    Occurred {
        /// What became of the instant; `None`: the schedule is not what the command was about any more.
        occurrence: Option<Occurrence>,
        /// The instant that is decided next.
        next: Option<u64>,
    },
    /// To [`crate::Command::PutHook`].
    HookPut {
        /// There was none of that name.
        created: bool,
    },
    /// To [`crate::Command::GuardBegin`].
    Begun(Begun),
    /// To [`crate::Command::GuardUse`].
    Guarded {
        /// It was so before.
        repeated: bool,
        /// After an extend: for so long others wait.
        until: Option<u64>,
    },
    /// To [`crate::Command::StartTask`], [`crate::Command::StepTask`], [`crate::Command::CancelTask`],
    /// and to a forced [`crate::Command::DeleteQueue`].
    Task(TaskView),
}
