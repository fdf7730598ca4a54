//! Facts. What an event means never changes; a new meaning is a new kind with a new number.
//!
//! After a trim, replay meets events about items whose beginning is gone. Such an event changes only
//! what it carries itself; the item's last copy stands later in the log, whole.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use minicbor::{Decode, Encode};

use crate::command::OnChildDead;
use crate::id::{Hash, JobId, Secret};
use crate::options::{LimitOptions, Overrides, QueueOptions, Source};
use crate::reply::{Place, State, TaskState};
use crate::schedule::{Occurrence, ScheduleRecord};

/// A run of bytes in the tail of the batch that the event stands in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Span {
    /// First byte.
    #[n(0)]
    pub offset: u32,
    /// Number of bytes.
    #[n(1)]
    pub length: u32,
}

impl Span {
    /// Where the bytes are, given the batch's position.
    #[must_use]
    pub fn at(self, position: u64) -> Place {
        Place { position, offset: self.offset, length: self.length }
    }
}

/// A job as it was enqueued: all that is durable of it until it is received.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct JobRecord {
    /// Its id.
    #[n(0)]
    pub id: JobId,
    /// Number of its queue.
    #[n(1)]
    pub queue: u32,
    /// Its type, which thousands of jobs share.
    #[n(2)]
    #[cbor(with = "crate::codec::shared_text")]
    pub kind: Arc<str>,
    /// Version of its payload's schema.
    #[n(3)]
    pub schema_version: u32,
    /// Higher first.
    #[n(4)]
    pub priority: u8,
    /// When it may be received.
    #[n(5)]
    pub due_at: u64,
    /// JSON text.
    #[n(6)]
    pub payload: Span,
    /// An encoded [`crate::Meta`].
    #[n(7)]
    pub meta: Span,
    /// Hash of queue and group.
    #[n(8)]
    pub group: Option<Hash>,
    /// Its deduplication.
    #[n(9)]
    pub dedup: Option<DedupRecord>,
    /// Hash of queue and idempotency key.
    #[n(10)]
    pub key: Option<Hash>,
    /// Hash of the business id.
    #[n(11)]
    pub business: Option<Hash>,
    /// Beats the queue's options.
    #[n(12)]
    pub overrides: Option<Box<Overrides>>,
    /// Gone unless received by then.
    #[n(13)]
    pub expires_at: Option<u64>,
    /// Blocked until the job with this sequence number has ended (`onDuplicate: replace`).
    #[n(14)]
    pub behind: Option<u64>,
    /// It waits for no time: `due_at` is only its place in line, which is behind all that were ready, also
    /// after the wall clock was stepped back.
    #[n(15)]
    pub at_once: bool,
    /// Id of the job that waits for this one.
    #[n(16)]
    pub parent: Option<JobId>,
    /// It is blocked until its children, which stand behind it in the log, have ended.
    #[n(17)]
    pub waits: Option<Waits>,
}

/// How a job waits for its children.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Waits {
    /// What becomes of it when one of them does not complete.
    #[n(0)]
    pub on_child_dead: OnChildDead,
    /// They are the jobs of the batch with this hash of queue and id; it keeps none of their results.
    #[n(1)]
    pub batch: Option<Hash>,
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum ChildEnd {
    /// Done.
    #[n(0)]
    Completed,
    /// In the dead-letter queue, or handed off to another one by a redrive policy.
    #[n(1)]
    Dead,
    /// Stopped by an operator.
    #[n(2)]
    Cancelled,
    /// Too late.
    #[n(3)]
    Expired,
    /// Purged, or deleted with its queue.
    #[n(4)]
    Purged,
}

/// What a parent knows of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct ChildCopy {
    /// Its id.
    #[n(0)]
    pub id: JobId,
    /// How it ended, if it has.
    #[n(1)]
    pub end: Option<ChildEnd>,
    /// What it was acked with.
    #[n(2)]
    pub result: Option<Span>,
    /// It completed with what this idempotency key had saved.
    #[n(3)]
    pub saved: Option<Hash>,
}

/// What a parent knows of its children.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct FamilyCopy {
    /// How it waits for them.
    #[n(0)]
    pub waits: Waits,
    /// How many there are.
    #[n(1)]
    pub total: u32,
    /// How many have ended.
    #[n(2)]
    pub ended: u32,
    /// How many of these did not complete.
    #[n(3)]
    pub failed: u32,
    /// In the order in which they came; none once the parent has ended.
    #[n(4)]
    pub children: Vec<ChildCopy>,
}

/// The deduplication key of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct DedupRecord {
    /// Hash of queue and key.
    #[n(0)]
    pub hash: Hash,
    /// Hash of the payload.
    #[n(1)]
    pub payload: Hash,
    /// End of its window; `None` is as long as the job is unfinished.
    #[n(2)]
    pub until: Option<u64>,
}

/// A deduplication window that is open, whether or not its job is still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct DedupWindow {
    /// Number of the queue.
    #[n(0)]
    pub queue: u32,
    /// Key, payload and end.
    #[n(1)]
    pub dedup: DedupRecord,
    /// The first job.
    #[n(2)]
    pub id: JobId,
}

/// What became of the last delivery of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum LeaseState {
    /// The worker has it.
    #[n(0)]
    Held,
    /// Its visibility timeout passed; a late settle still counts.
    #[n(1)]
    Lapsed,
    /// Its visibility timeout killed the job; a late ack still counts.
    #[n(2)]
    Killed,
    /// Acked.
    #[n(3)]
    Acked,
    /// Failed.
    #[n(4)]
    Failed,
    /// Released.
    #[n(5)]
    Released,
    /// The job was replayed.
    #[n(6)]
    Replayed,
    /// Another job with its idempotency key was received.
    #[n(7)]
    KeyTaken,
    /// The job's cancel ended it.
    #[n(8)]
    Cancelled,
    /// The job was given another payload.
    #[n(9)]
    Replaced,
    /// The job was handed off to another queue.
    #[n(10)]
    Forwarded,
}

/// The last delivery of a job.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Lease {
    /// 64 random bits.
    #[n(0)]
    pub nonce: u64,
    /// Fencing token.
    #[n(1)]
    pub fence: u64,
    /// When it was handed out.
    #[n(2)]
    pub received_at: u64,
    /// When it becomes visible again, on the elapsed time line.
    #[n(3)]
    pub ends_elapsed_at: u64,
    /// When the attempt must end, on the elapsed time line.
    #[n(4)]
    pub timeout_elapsed_at: Option<u64>,
    /// The visibility timeout it was handed out with.
    #[n(5)]
    pub visibility_ms: u64,
    /// Who has it.
    #[n(6)]
    pub worker: Option<Box<str>>,
    /// Hash of queue and attemptId of its receive.
    #[n(7)]
    pub attempt: Option<Hash>,
    /// What became of it.
    #[n(8)]
    pub state: LeaseState,
    /// Its end fell into time that the server was down.
    #[n(9)]
    pub interrupted: bool,
    /// Hash of receipt and outcome of the settle that ended it.
    #[n(10)]
    pub outcome: Option<u64>,
}

/// A whole job, written again so that what stands before can be freed.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct JobCopy {
    /// As enqueued, with today's place in line, payload and priority.
    #[n(0)]
    pub record: JobRecord,
    /// Its state.
    #[n(1)]
    pub state: State,
    /// Attempts that count.
    #[n(2)]
    pub attempts: u32,
    /// Hand-outs since it was enqueued or last replayed.
    #[n(3)]
    pub deliveries: u32,
    /// Replays.
    #[n(4)]
    pub replays: u32,
    /// See [`Due::elapsed_at`].
    #[n(5)]
    pub due_elapsed_at: Option<u64>,
    /// Runs although its key has completed.
    #[n(6)]
    pub ignore_key: bool,
    /// Last delivery.
    #[n(7)]
    pub lease: Option<Lease>,
    /// Errors that are kept.
    #[n(8)]
    pub errors: Vec<Span>,
    /// Errors there were.
    #[n(9)]
    pub error_count: u32,
    /// Result.
    #[n(10)]
    pub result: Option<Span>,
    /// Progress.
    #[n(11)]
    pub progress: Option<Span>,
    /// A cancel waits for the worker.
    #[n(12)]
    pub cancel_requested: bool,
    /// When it ended or died.
    #[n(13)]
    pub ended_at: u64,
    /// When a finished one is forgotten.
    #[n(14)]
    pub keep_until: u64,
    /// Why it is dead.
    #[n(15)]
    pub death: Option<Death>,
    /// The replay that put it back.
    #[n(16)]
    pub task: Option<u64>,
    /// It holds the head of its ordered group.
    #[n(17)]
    pub holds_group: bool,
    /// It was completed by the result that its idempotency key saved.
    #[n(18)]
    pub skipped: bool,
    /// The deduplication key that its death released.
    #[n(19)]
    pub released_dedup: Option<DedupRecord>,
    /// Hand-outs before it was last replayed or handed off.
    #[n(20)]
    pub earlier_deliveries: u32,
    /// How it came from another queue.
    #[n(21)]
    pub arrival: Option<Arrival>,
    /// When it was first handed out.
    #[n(22)]
    pub first_received_at: u64,
    /// Its children.
    #[n(23)]
    pub family: Option<Box<FamilyCopy>>,
}

/// How a job came from another queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Arrival {
    /// Number of the queue it came from.
    #[n(0)]
    pub from: u32,
    /// When.
    #[n(1)]
    pub at: u64,
}

/// A job goes to another queue of this shard. Both halves of the hand-off are this one fact, so it is made
/// once; the job keeps its bytes where they are.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct HandOff {
    /// Its number.
    #[n(0)]
    pub seq: u64,
    /// When.
    #[n(1)]
    pub at: u64,
    /// Number of the queue that takes it.
    #[n(2)]
    pub to: u32,
    /// Its id from now on: another one where it goes as a new job.
    #[n(3)]
    pub id: JobId,
    /// Its place in line.
    #[n(4)]
    pub due_at: u64,
    /// Hash of the new queue and its group.
    #[n(5)]
    pub group: Option<Hash>,
    /// Hash of the new queue and its idempotency key.
    #[n(6)]
    pub key: Option<Hash>,
    /// What failed last.
    #[n(7)]
    pub error: Option<Span>,
    /// The replay that put it back, whose figures count this.
    #[n(8)]
    pub task: Option<u64>,
}

/// Why a job is dead.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Death {
    /// Group of alike failures: type, kind and normalized message.
    #[n(0)]
    pub fingerprint: u64,
    /// Kind of the last error.
    #[n(1)]
    pub error_kind: Box<str>,
}

/// Who has a circuit breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub enum BreakerOf {
    /// A queue, by its number.
    #[n(0)]
    Queue(#[n(0)] u32),
    /// A shared limit, by its number.
    #[n(1)]
    Limit(#[n(0)] u32),
}

/// Where a circuit breaker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
#[cbor(index_only)]
pub enum BreakerState {
    /// Jobs are handed out.
    #[n(0)]
    Closed,
    /// None is.
    #[n(1)]
    Open,
    /// One at a time is, as a probe.
    #[n(2)]
    HalfOpen,
}

/// A circuit breaker that has moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct BreakerRecord {
    /// Where it is.
    #[n(0)]
    pub state: BreakerState,
    /// Since when.
    #[n(1)]
    pub since: u64,
    /// End of the cool-down, on the elapsed time line.
    #[n(2)]
    pub ends_elapsed_at: u64,
    /// Sequence number of the last probe.
    #[n(3)]
    pub probe: Option<u64>,
}

/// A queue, whole.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct QueueRecord {
    /// Its number, never used again.
    #[n(0)]
    pub number: u32,
    /// Its name.
    #[n(1)]
    pub name: Box<str>,
    /// Who made its configuration.
    #[n(2)]
    pub source: Source,
    /// Its configuration.
    #[n(3)]
    pub options: QueueOptions,
    /// Grows with each change.
    #[n(4)]
    pub revision: u64,
    /// Hand-out is paused.
    #[n(5)]
    pub paused: bool,
    /// Why.
    #[n(6)]
    pub paused_reason: Option<Box<str>>,
    /// Newest purge.
    #[n(7)]
    pub purged_at: u64,
    /// Its circuit breaker; `None` has never opened.
    #[n(8)]
    pub breaker: Option<BreakerRecord>,
}

/// What the shard itself must remember.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Globals {
    /// Key of all hashes.
    #[n(0)]
    pub secret: Secret,
    /// Next job's number is above this.
    #[n(1)]
    pub seq: u64,
    /// Next queue's number is above this.
    #[n(2)]
    pub queue: u32,
    /// Next task's and audit entry's number is above this.
    #[n(3)]
    pub number: u64,
    /// Next fencing token is above this.
    #[n(4)]
    pub fence: u64,
    /// Wall clock minus elapsed time line.
    #[n(5)]
    pub skew_ms: i64,
    /// Options of `[defaults]`.
    #[n(6)]
    pub defaults: QueueOptions,
    /// The last place in line that was given to a job without delay.
    #[n(7)]
    pub line_at: u64,
}

/// The end of a backoff or snooze.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Due {
    /// On the wall clock as it was when the wait began: the job's place in line, which no step of the clock
    /// moves.
    #[n(0)]
    pub at: u64,
    /// On the elapsed time line: when it ends.
    #[n(1)]
    pub elapsed_at: u64,
}

/// Why a job is not there any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Removal {
    /// It had ended and was kept long enough.
    #[n(0)]
    Forgotten,
    /// Purged.
    #[n(1)]
    Purged,
    /// Discarded from the dead-letter queue.
    #[n(2)]
    Discarded,
    /// Deleted with its queue.
    #[n(3)]
    Deleted,
}

/// Which jobs a bulk action is for, with keys as hashes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct SelectRecord {
    /// These, by sequence number, in this order; `None` is by filter.
    #[n(0)]
    pub seqs: Option<Vec<u64>>,
    /// Of these states.
    #[n(1)]
    pub states: Vec<State>,
    /// Type.
    #[n(2)]
    pub kind: Option<Box<str>>,
    /// Kind of the last error.
    #[n(3)]
    pub error_kind: Option<Box<str>>,
    /// Group of alike failures.
    #[n(4)]
    pub fingerprint: Option<u64>,
    /// Hash of queue and group.
    #[n(5)]
    pub group: Option<Hash>,
    /// Hash of business id.
    #[n(6)]
    pub business: Option<Hash>,
    /// Died before.
    #[n(7)]
    pub died_before: Option<u64>,
    /// Died after.
    #[n(8)]
    pub died_after: Option<u64>,
}

/// What a bulk action does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum TaskKind {
    /// Waiting jobs go.
    #[n(0)]
    Purge,
    /// Dead jobs go back to their queue.
    #[n(1)]
    Replay,
    /// Dead jobs go.
    #[n(2)]
    Discard,
    /// The queue goes with all its jobs.
    #[n(3)]
    DeleteQueue,
    /// Ready jobs go to other queues as new ones.
    #[n(4)]
    Move,
}

/// A bulk action, whole.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TaskRecord {
    /// Its number.
    #[n(0)]
    pub id: u64,
    /// Number of its queue.
    #[n(1)]
    pub queue: u32,
    /// What it does.
    #[n(2)]
    pub kind: TaskKind,
    /// Which jobs.
    #[n(3)]
    pub select: SelectRecord,
    /// Jobs with a higher sequence number (replay, discard: that died later) are not meant.
    #[n(4)]
    pub end: u64,
    /// Where it is.
    #[n(5)]
    pub state: TaskState,
    /// Start.
    #[n(6)]
    pub started_at: u64,
    /// End.
    #[n(7)]
    pub ended_at: Option<u64>,
    /// JSON merge patch.
    #[n(8)]
    pub patch: Option<Span>,
    /// At most so fast.
    #[n(9)]
    pub rate: Option<crate::command::Rate>,
    /// Halts when so many of its first ten finished jobs fail.
    #[n(10)]
    pub halt_after: u32,
    /// Run again although the key has completed.
    #[n(11)]
    pub ignore_key: bool,
    /// Also beyond `maxReplays`.
    #[n(12)]
    pub force: bool,
    /// Figures.
    #[n(13)]
    pub counts: TaskCounts,
    /// How far it is: everything up to here in its order is done.
    #[n(14)]
    pub cursor: Cursor,
    /// Who started it.
    #[n(15)]
    pub actor: Option<Box<str>>,
    /// Why.
    #[n(16)]
    pub reason: Option<Box<str>>,
    /// Jobs it was found to be meant for when it was started.
    #[n(17)]
    #[cbor(default)]
    pub expected: u64,
    /// Start on the elapsed time line, from which its rate is counted.
    #[n(18)]
    #[cbor(default)]
    pub started_elapsed_at: u64,
    /// Name of the queue that takes moved jobs; without one each goes where it came from.
    #[n(19)]
    pub destination: Option<Box<str>>,
}

/// A guard, whole: a key, who works under it, and what the work ended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct GuardRecord {
    /// Hash of queue and key.
    #[n(0)]
    pub key: Hash,
    /// Number of its queue.
    #[n(1)]
    pub queue: u32,
    /// 64 random bits of its last `begin`.
    #[n(2)]
    pub nonce: u64,
    /// For so long its holder asked for it last.
    #[n(3)]
    pub hold_ms: u64,
    /// When another `begin` may take the key, on the elapsed time line.
    #[n(4)]
    pub ends_elapsed_at: u64,
    /// For so long its result is kept.
    #[n(5)]
    pub ttl_ms: u64,
    /// When it is forgotten, unless it belongs to a job.
    #[n(6)]
    pub until: u64,
    /// Sequence number of the job that it belongs to.
    #[n(7)]
    pub job: Option<u64>,
    /// The work is done: hash of what it ended with.
    #[n(8)]
    pub done: Option<u64>,
    /// What it ended with.
    #[n(9)]
    pub result: Option<Span>,
    /// Hash of the `attemptId` of its last `begin`.
    #[n(10)]
    pub attempt: Option<u64>,
}

/// The schema of one version of a job type, whole.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct SchemaRecord {
    /// Its number.
    #[n(0)]
    pub number: u32,
    /// The type.
    #[n(1)]
    pub kind: Box<str>,
    /// The version.
    #[n(2)]
    pub version: u32,
    /// JSON text, kept byte for byte.
    #[n(3)]
    pub text: Box<str>,
    /// Who made it.
    #[n(4)]
    pub source: Source,
}

/// A shared limit, whole.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct LimitRecord {
    /// Its number.
    #[n(0)]
    pub number: u32,
    /// Its name.
    #[n(1)]
    pub name: Box<str>,
    /// Who made it.
    #[n(2)]
    pub source: Source,
    /// What holds for its queues together.
    #[n(3)]
    pub options: LimitOptions,
    /// Its circuit breaker; `None` has never opened.
    #[n(4)]
    pub breaker: Option<BreakerRecord>,
}

/// An inbound webhook, whole.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct HookRecord {
    /// Its number.
    #[n(0)]
    pub number: u32,
    /// Its name.
    #[n(1)]
    pub name: Box<str>,
    /// Who made it.
    #[n(2)]
    pub source: Source,
    /// What its edge said of it: JSON text, without any secret.
    #[n(3)]
    pub text: Box<str>,
}

/// How far a bulk action is: a part of its queue, and the last place in it that is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct Cursor {
    /// See `decide::tasks`.
    #[n(0)]
    pub part: u32,
    /// Place in that part.
    #[n(1)]
    pub spot: Hash,
}

/// Figures of a bulk action.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[allow(missing_docs)] // the words of the API
pub struct TaskCounts {
    #[n(0)]
    pub matched: u64,
    #[n(1)]
    pub acted: u64,
    #[n(2)]
    pub succeeded: u64,
    #[n(3)]
    pub failed: u64,
    #[n(4)]
    pub skipped_max_replays: u64,
    #[n(5)]
    pub skipped_conflict: u64,
    #[n(6)]
    pub skipped_not_dead: u64,
    #[n(7)]
    pub skipped_unpatchable: u64,
    /// Failures among the first ten that finished.
    #[n(8)]
    pub failed_early: u64,
    /// Ids that were given and are nobody's, or no longer.
    #[n(9)]
    pub skipped_not_found: u64,
}

/// One operator's action.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct AuditRecord {
    /// Its number.
    #[n(0)]
    pub id: u64,
    /// When.
    #[n(1)]
    pub at: u64,
    /// Who.
    #[n(2)]
    pub actor: Option<Box<str>>,
    /// What.
    #[n(3)]
    pub action: Box<str>,
    /// Name of the queue.
    #[n(4)]
    pub queue: Option<Box<str>>,
    /// Why, and figures.
    #[n(5)]
    pub detail: Box<str>,
}

/// A fact.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[allow(missing_docs)] // fields that repeat the words above
pub enum Event {
    /// The shard's own memory, whole: written by an empty log, by each start, and as a copy.
    #[n(0)]
    GlobalsSet(#[n(0)] Box<Globals>),
    /// Service began: no lease ends before its own timeout, at most 60 s, has passed from here.
    #[n(1)]
    Started {
        #[n(0)]
        at: u64,
        /// The last instant of the service before that is known.
        #[n(1)]
        served_elapsed_at: u64,
    },
    /// The wall clock was stepped.
    #[n(2)]
    ClockStepped {
        #[n(0)]
        delta_ms: i64,
    },
    /// A queue was created, configured, paused, resumed, or copied.
    #[n(3)]
    QueueSet(#[n(0)] Box<QueueRecord>),
    #[n(4)]
    QueueDeleted {
        #[n(0)]
        queue: u32,
    },
    #[n(5)]
    Enqueued(#[n(0)] JobRecord),
    #[n(6)]
    JobCopied(#[n(0)] Box<JobCopy>),
    #[n(7)]
    Received {
        #[n(0)]
        seq: u64,
        #[n(1)]
        lease: Box<Lease>,
        /// Its idempotency key, which it takes from lapsed deliveries of other jobs.
        #[n(2)]
        key: Option<Hash>,
        /// Its group is ordered: the job holds it until it has ended or died.
        #[n(3)]
        holds_group: bool,
    },
    /// Hidden longer; a lapsed delivery is taken up again.
    #[n(8)]
    Extended {
        #[n(0)]
        seq: u64,
        #[n(1)]
        ends_elapsed_at: u64,
        #[n(2)]
        progress: Option<Span>,
    },
    /// Carries key and result, which outlive the job.
    #[n(9)]
    Completed {
        #[n(0)]
        seq: u64,
        #[n(1)]
        queue: u32,
        #[n(2)]
        at: u64,
        #[n(3)]
        result: Option<Span>,
        #[n(4)]
        keep_until: Option<u64>,
        #[n(5)]
        key: Option<Hash>,
        #[n(6)]
        key_until: u64,
        /// The replay that put it back, whose figures count this.
        #[n(7)]
        task: Option<u64>,
        /// It came late.
        #[n(8)]
        error: Option<Span>,
    },
    /// Its idempotency key had completed.
    #[n(10)]
    Skipped {
        #[n(0)]
        seq: u64,
        #[n(1)]
        at: u64,
        #[n(2)]
        keep_until: Option<u64>,
        /// The replay that put it back, whose figures count this.
        #[n(3)]
        task: Option<u64>,
        /// The key, for a parent that reads what it saved.
        #[n(4)]
        key: Option<Hash>,
    },
    /// Failed, to be tried again; `lapsed`: the server ended the attempt, a late settle still counts.
    #[n(11)]
    Failed {
        #[n(0)]
        seq: u64,
        #[n(1)]
        at: u64,
        #[n(2)]
        due: Due,
        #[n(3)]
        error: Span,
        #[n(4)]
        lapsed: bool,
    },
    /// Its visibility timeout passed; ready in its old place. `interrupted`: while the server was down, so
    /// no attempt was used.
    #[n(12)]
    Lapsed {
        #[n(0)]
        seq: u64,
        #[n(1)]
        at: u64,
        #[n(2)]
        error: Span,
        #[n(3)]
        interrupted: bool,
    },
    /// Given back, attempt not used; `uncounted`: the answer never reached the worker.
    #[n(13)]
    Released {
        #[n(0)]
        seq: u64,
        #[n(1)]
        at: u64,
        #[n(2)]
        until: Option<Due>,
        #[n(3)]
        error: Option<Span>,
        #[n(4)]
        uncounted: bool,
    },
    #[n(14)]
    Died {
        #[n(0)]
        seq: u64,
        #[n(1)]
        at: u64,
        #[n(2)]
        error: Option<Span>,
        #[n(3)]
        death: Death,
        #[n(4)]
        lease: LeaseState,
        #[n(5)]
        blocks_group: bool,
        /// The replay that put it back, whose figures count this.
        #[n(6)]
        task: Option<u64>,
    },
    #[n(15)]
    CancelRequested {
        #[n(0)]
        seq: u64,
    },
    /// Cancelled or expired.
    #[n(16)]
    Ended {
        #[n(0)]
        seq: u64,
        #[n(1)]
        at: u64,
        #[n(2)]
        state: State,
        #[n(3)]
        keep_until: Option<u64>,
        #[n(4)]
        error: Option<Span>,
        /// What its last delivery, if there was one, ended as.
        #[n(5)]
        lease: LeaseState,
    },
    #[n(17)]
    Removed {
        #[n(0)]
        seqs: Vec<u64>,
        #[n(1)]
        why: Removal,
    },
    /// A waiting job was changed; the payload comes whole, a time or payload that is absent stays.
    #[n(18)]
    Patched {
        #[n(0)]
        seq: u64,
        #[n(1)]
        priority: u8,
        #[n(2)]
        due_at: Option<u64>,
        #[n(3)]
        payload: Option<Span>,
        #[n(4)]
        payload_hash: Option<Hash>,
    },
    /// A dead job was put back, at the end of the line.
    #[n(19)]
    Replayed {
        #[n(0)]
        seq: u64,
        #[n(1)]
        at: u64,
        #[n(2)]
        task: u64,
        #[n(3)]
        payload: Option<Span>,
        #[n(4)]
        ignore_key: bool,
        /// Its place in line.
        #[n(5)]
        due_at: u64,
    },
    /// Copy of a saved result.
    #[n(20)]
    KeySaved {
        #[n(0)]
        key: Hash,
        #[n(1)]
        queue: u32,
        #[n(2)]
        until: u64,
        #[n(3)]
        result: Option<Span>,
        #[n(4)]
        ended: bool,
    },
    /// A saved result stops no job any more.
    #[n(21)]
    KeyEnded {
        #[n(0)]
        key: Hash,
        /// Finished jobs still show the result.
        #[n(1)]
        kept: bool,
    },
    /// Copy of a deduplication window.
    #[n(22)]
    DedupSet(#[n(0)] Box<DedupWindow>),
    #[n(23)]
    DedupEnded {
        #[n(0)]
        hash: Hash,
    },
    /// A producer's batch was taken; also its copy.
    #[n(24)]
    ProducerAdvanced {
        #[n(0)]
        producer: Hash,
        #[n(1)]
        queue: u32,
        #[n(2)]
        seq: u64,
        /// When; it orders the producers by how long they have been idle.
        #[n(3)]
        at: u64,
    },
    /// A request with an `Idempotency-Key` was answered; also its copy.
    #[n(25)]
    RequestAnswered {
        #[n(0)]
        request: Hash,
        #[n(1)]
        body: Hash,
        #[n(2)]
        answer: Span,
        #[n(3)]
        until: u64,
    },
    #[n(26)]
    RequestEnded {
        #[n(0)]
        request: Hash,
    },
    /// A bulk action was started; also its copy.
    #[n(27)]
    TaskSet(#[n(0)] Box<TaskRecord>),
    #[n(28)]
    TaskAdvanced {
        #[n(0)]
        task: u64,
        #[n(1)]
        cursor: Cursor,
        #[n(2)]
        counts: TaskCounts,
    },
    #[n(29)]
    TaskEnded {
        #[n(0)]
        task: u64,
        #[n(1)]
        state: TaskState,
        #[n(2)]
        at: u64,
    },
    #[n(30)]
    TaskForgotten {
        #[n(0)]
        task: u64,
    },
    #[n(31)]
    Audited(#[n(0)] Box<AuditRecord>),
    /// A note on a group of dead jobs; also its copy. An empty note ends it.
    #[n(32)]
    Noted {
        #[n(0)]
        queue: u32,
        #[n(1)]
        fingerprint: u64,
        #[n(2)]
        note: Box<str>,
    },
    /// Rolling figures of a queue.
    #[n(33)]
    FiguresSaved {
        #[n(0)]
        queue: u32,
        #[n(1)]
        figures: Box<crate::figures::SavedFigures>,
    },
    /// Waiting jobs were purged; tells an overtaken receipt why.
    #[n(34)]
    QueuePurged {
        #[n(0)]
        queue: u32,
        #[n(1)]
        at: u64,
    },
    /// A receive was repeated under its attemptId; the delivery is hidden longer.
    #[n(35)]
    Renewed {
        #[n(0)]
        seq: u64,
        #[n(1)]
        ends_elapsed_at: u64,
    },
    /// A saved result stays, because a job that carries its key is unfinished or dead.
    #[n(36)]
    KeyKept {
        #[n(0)]
        key: Hash,
        #[n(1)]
        until: u64,
    },
    /// What ended a delivery was this settle. Also the copy of one that ended its job.
    #[n(37)]
    Settled {
        #[n(0)]
        seq: u64,
        #[n(1)]
        at: u64,
        /// Hash of receipt and outcome.
        #[n(2)]
        outcome: u64,
        /// It ended the job too.
        #[n(3)]
        is_end: bool,
    },
    /// A guard was begun, extended or completed; also its copy.
    #[n(38)]
    GuardSet(#[n(0)] Box<GuardRecord>),
    /// Its holder gave it up, or its time is over.
    #[n(39)]
    GuardEnded {
        #[n(0)]
        key: Hash,
    },
    /// A new producer has taken its place.
    #[n(40)]
    ProducerForgotten {
        #[n(0)]
        producer: Hash,
    },
    #[n(41)]
    HandedOff(#[n(0)] Box<HandOff>),
    /// A version of a type got a schema; also its copy.
    #[n(42)]
    SchemaSet(#[n(0)] Box<SchemaRecord>),
    #[n(43)]
    SchemaRemoved {
        #[n(0)]
        number: u32,
    },
    /// A shared limit was put; also its copy.
    #[n(44)]
    LimitSet(#[n(0)] Box<LimitRecord>),
    #[n(45)]
    LimitRemoved {
        #[n(0)]
        number: u32,
    },
    /// A circuit breaker opened, closed, or lets probes out.
    #[n(46)]
    BreakerMoved {
        #[n(0)]
        of: BreakerOf,
        #[n(1)]
        to: BreakerState,
        #[n(2)]
        at: u64,
        /// End of the cool-down of one that opened.
        #[n(3)]
        ends_elapsed_at: u64,
    },
    /// A job need not wait for children any more: it is ready at this place in line, or delayed until its own time.
    #[n(47)]
    Unblocked {
        #[n(0)]
        seq: u64,
        #[n(1)]
        due_at: Option<u64>,
    },
    /// A schedule was put, paused or resumed; also its copy.
    #[n(48)]
    ScheduleSet(#[n(0)] Box<ScheduleRecord>),
    #[n(49)]
    ScheduleRemoved {
        #[n(0)]
        number: u32,
    },
    /// An instant at which a schedule was due was decided; the job that it made is a fact of its own.
    #[n(50)]
    Occurred {
        #[n(0)]
        schedule: u32,
        #[n(1)]
        occurrence: Occurrence,
        /// The instant that is decided next.
        #[n(2)]
        next: Option<u64>,
    },
    /// An inbound webhook was put; also its copy.
    #[n(51)]
    HookSet(#[n(0)] Box<HookRecord>),
    #[n(52)]
    HookRemoved {
        #[n(0)]
        number: u32,
    },
}
