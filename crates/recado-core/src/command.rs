//! What can be asked of a shard. A command carries everything its decision needs.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::id::{Hash, JobId};
use crate::items::CopyPlan;
use crate::options::{LimitOptions, Overrides, QueueOptions, Source};
use crate::reply::State as JobState;
use crate::schedule::{ScheduleOptions, Skip};

/// When and with which luck a command is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Moment {
    /// The wall clock.
    pub at: u64,
    /// 64 random bits from the system.
    pub entropy: u64,
}

/// The only way in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// First command of every service: `secret` is used only by an empty log.
    Start {
        /// Two random words for the keyed hashes of a new data directory.
        secret: (u64, u64),
        /// When the service before was last seen, by the wall clock of that moment.
        served_until: u64,
    },
    /// The wall clock was stepped against the monotonic one.
    StepClock {
        /// New reading minus expected reading, in milliseconds.
        delta_ms: i64,
    },
    /// All due timers, at most [`crate::TICK_STEPS_MAX`] a call and as many as fit in the draft; answers [`crate::Reply::Ticked`].
    Tick,
    /// Some finished jobs that are only kept for lookups go before their time, those whose time is over first; for
    /// a log that is short of space.
    Forget {
        /// So many bytes of payloads are enough.
        bytes: u64,
    },
    /// A batch of jobs for one queue, all or nothing.
    Enqueue(Enqueue),
    /// Take jobs.
    Receive(Receive),
    /// Give back a job whose answer could not be delivered; nothing is counted.
    GiveBack {
        /// The job.
        job: JobId,
        /// Nonce of the receipt that was not delivered.
        nonce: u64,
        /// Hidden for so many milliseconds, so that what cannot be delivered lets others pass.
        delay_ms: Option<u64>,
    },
    /// End or extend one delivery.
    Settle(Settle),
    /// Stop jobs.
    Cancel(Cancel),
    /// Change a waiting job.
    Patch(Patch),
    /// Create a queue or replace its whole configuration.
    Configure(Configure),
    /// Give a version of a type its schema; answers [`crate::Reply::SchemaPut`].
    PutSchema(PutSchema),
    /// Take the schema of a version away.
    RemoveSchema {
        /// The type.
        kind: Box<str>,
        /// The version.
        version: u32,
        /// Who manages it.
        source: Source,
        /// Who did it.
        actor: Actor,
    },
    /// Give a name of a shared limit what holds for it; answers [`crate::Reply::LimitPut`].
    PutLimit(PutLimit),
    /// Take away a shared limit that no queue names.
    RemoveLimit {
        /// Its name.
        limit: Box<str>,
        /// Who manages it.
        source: Source,
        /// Who did it.
        actor: Actor,
    },
    /// Give a name of a schedule its definition; answers [`crate::Reply::SchedulePut`].
    PutSchedule(PutSchedule),
    /// Take a schedule away; its jobs stay.
    RemoveSchedule {
        /// Its name.
        schedule: Box<str>,
        /// Who manages it.
        source: Source,
        /// Who did it.
        actor: Actor,
    },
    /// Let a schedule make no more jobs, or make them again.
    PauseSchedule {
        /// Its name.
        schedule: Box<str>,
        /// True pauses.
        paused: bool,
        /// Why.
        reason: Option<Box<str>>,
        /// Who did it.
        actor: Actor,
    },
    /// Decide an instant at which a schedule is due; answers [`crate::Reply::Occurred`].
    FireSchedule(Box<FireSchedule>),
    /// Make a schedule's job now, whenever it is due; answers [`crate::Reply::Occurred`].
    RunSchedule(Box<RunSchedule>),
    /// Give a name of an inbound webhook what holds for it; answers [`crate::Reply::HookPut`].
    PutHook(PutHook),
    /// Take away an inbound webhook.
    RemoveHook {
        /// Its name.
        hook: Box<str>,
        /// Who manages it.
        source: Source,
        /// Who did it.
        actor: Actor,
    },
    /// Replace the defaults of all queues.
    SetDefaults(QueueOptions),
    /// Delete an empty queue; with `force` anything in it goes too (a task).
    DeleteQueue {
        /// Name of the queue.
        queue: Box<str>,
        /// Also when jobs are in it.
        force: bool,
        /// Holds for its configuration, or nothing is done.
        condition: Condition,
        /// Who did it.
        actor: Actor,
    },
    /// Pause or resume hand-out.
    SetPaused {
        /// Name of the queue.
        queue: Box<str>,
        /// True pauses.
        paused: bool,
        /// Why.
        reason: Option<Box<str>>,
        /// Who did it.
        actor: Actor,
    },
    /// Start a bulk action; answers [`crate::Reply::Task`].
    StartTask(NewTask),
    /// One step of a bulk action. The jobs were chosen by [`crate::State::next_of_task`]; a payload
    /// given with one replaces the job's own.
    StepTask {
        /// The task.
        task: u64,
        /// Sequence numbers, and for a replay with a patch the new payload.
        jobs: Vec<(u64, Option<Vec<u8>>)>,
        /// How many of the chosen jobs were passed over because the patch does not fit their payload.
        unpatchable: u64,
        /// As chosen.
        cursor: crate::event::Cursor,
        /// True when nothing is left to choose from.
        last: bool,
    },
    /// Stop a running bulk action.
    CancelTask {
        /// The task.
        task: u64,
        /// Who did it.
        actor: Actor,
    },
    /// Put a note on a group of dead jobs.
    Acknowledge {
        /// Name of the queue.
        queue: Box<str>,
        /// Which group.
        fingerprint: u64,
        /// The note.
        note: Box<str>,
        /// Who did it.
        actor: Actor,
    },
    /// Start work under a key, unless it is done or being done; answers [`crate::Reply::Begun`].
    GuardBegin(GuardBegin),
    /// End or extend work under a key; answers [`crate::Reply::Guarded`].
    GuardUse(GuardUse),
    /// Write live items again at the head of the log so that its oldest part can be freed.
    Copy(Vec<CopyPlan>),
    /// Write the rolling figures of queues, as many as fit; answers [`crate::Reply::FiguresSaved`].
    SaveFigures {
        /// Queues with a higher number only.
        after: Option<u32>,
    },
}

/// Who did an operator's action, for the audit trail.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Actor(pub Option<Box<str>>);

/// See [`Command::Enqueue`].
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Enqueue {
    /// Name of the queue.
    pub queue: Box<str>,
    /// Create the queue when it is unknown.
    pub create: bool,
    /// The jobs, in order.
    pub jobs: Vec<NewJob>,
    /// A producer's own numbering.
    pub producer: Option<Producer>,
    /// The HTTP request this came with.
    pub request: Option<RequestKey>,
}

/// A producer's name and the number of its batch, from 1, growing by 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Producer {
    /// Name, unique in the queue.
    pub name: Box<str>,
    /// Number of this batch.
    pub seq: u64,
}

/// An `Idempotency-Key` header with a hash of the request that carried it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestKey {
    /// The header's value.
    pub key: Box<str>,
    /// Hash of method, path and body.
    pub body: Hash,
}

/// When a job may first be received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum When {
    /// At once.
    #[default]
    Now,
    /// After so many milliseconds on the server's clock.
    After(u64),
    /// At an instant; in the past means now.
    At(u64),
}

/// One job to enqueue. Syntax, limits and secrets were checked at the edge.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct NewJob {
    /// The job's type.
    pub kind: Box<str>,
    /// Version of the payload's schema.
    pub schema_version: u32,
    /// JSON text, kept byte for byte.
    pub payload: Vec<u8>,
    /// JSON object, kept byte for byte.
    pub headers: Option<Vec<u8>>,
    /// The business object it is about.
    pub business_id: Option<Box<str>>,
    /// Higher first.
    pub priority: u8,
    /// When it is due.
    pub when: When,
    /// Jobs that belong together.
    pub group: Option<Box<str>>,
    /// Two enqueues with one key make one job.
    pub dedup: Option<Dedup>,
    /// Two jobs with one key make one effect.
    pub idempotency_key: Option<Box<str>>,
    /// Beats the queue's options.
    pub overrides: Overrides,
    /// Gone unless received within so many milliseconds.
    pub expires_after_ms: Option<u64>,
    /// The jobs that it waits for, and the batch that it is of.
    pub ties: Option<Box<NewTies>>,
}

impl NewJob {
    /// Its children, and the job that ends its batch.
    pub fn relatives(&self) -> impl Iterator<Item = &NewRelative> {
        self.ties.iter().flat_map(|ties| {
            let last = ties.batch.as_ref().and_then(|batch| batch.on_complete.as_ref());
            ties.children.iter().chain(last)
        })
    }

    /// Payloads and headers of all jobs that are enqueued with it, itself included, in bytes.
    #[must_use]
    pub fn family_bytes(&self) -> usize {
        let own = self.payload.len() + self.headers.as_ref().map_or(0, Vec::len);
        own + self.relatives().map(|it| it.job.family_bytes()).sum::<usize>()
    }

    /// How many jobs it and its children are. What ends a batch is not counted: each job of the batch may name it.
    #[must_use]
    pub fn family_size(&self) -> usize {
        1 + self.ties.iter().flat_map(|ties| &ties.children).map(|it| it.job.family_size()).sum::<usize>()
    }
}

/// What a new job has to do with others.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct NewTies {
    /// It is blocked until all of these have ended.
    pub children: Vec<NewRelative>,
    /// What becomes of it when one of them does not complete.
    pub on_child_dead: OnChildDead,
    /// The batch that it is of.
    pub batch: Option<NewBatch>,
}

/// A job that is enqueued with another one.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct NewRelative {
    /// Name of its queue; the other job's when absent.
    pub queue: Option<Box<str>>,
    /// The job.
    pub job: NewJob,
}

/// Jobs whose end one job waits for. A batch is open until that one is let go; then its id is free again.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct NewBatch {
    /// Unique among the open batches of the queue.
    pub id: Box<str>,
    /// The job that is enqueued with the first of the batch and runs once all have ended; not looked at where the
    /// batch is open already.
    pub on_complete: Option<NewRelative>,
}

/// What becomes of a job one of whose children does not complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, minicbor::Encode, minicbor::Decode)]
#[cbor(index_only)]
pub enum OnChildDead {
    /// It is dead too, at once.
    #[default]
    #[n(0)]
    Fail,
    /// It waits for the others, then runs.
    #[n(1)]
    Continue,
}

/// Deduplication of one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dedup {
    /// The key, unique in the queue.
    pub key: Box<str>,
    /// How long it stops a second job, in milliseconds; `None` is as long as the first is unfinished.
    pub for_ms: Option<u64>,
    /// What becomes of the second.
    pub on_duplicate: OnDuplicate,
}

/// What becomes of a duplicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OnDuplicate {
    /// The first job stays as it is.
    #[default]
    Keep,
    /// A waiting first job takes the new payload and time.
    Replace,
    /// Refused when the payload differs.
    Conflict,
}

/// See [`Command::Receive`].
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Receive {
    /// Queues with their weights; the weight is ignored in strict order.
    pub queues: Vec<(Box<str>, u32)>,
    /// True: a later queue gives only when all earlier ones have nothing. False: by weight.
    pub strict: bool,
    /// Create unknown queues.
    pub create: bool,
    /// At most so many jobs.
    pub max: usize,
    /// Stop before so many payload bytes, but give at least one job.
    pub max_bytes: u64,
    /// Who asks.
    pub worker: Option<Box<str>>,
    /// Beats job and queue.
    pub visibility_ms: Option<u64>,
    /// Types it handles; `None` is all.
    pub types: Option<Vec<TypeRange>>,
    /// Repeats the answer of an earlier receive with the same id.
    pub attempt_id: Option<Box<str>>,
    /// Of a FIFO queue's group it takes as many as it may, not one.
    pub by_group: bool,
}

/// A job type with the schema versions a worker handles.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TypeRange {
    /// The type.
    pub kind: Box<str>,
    /// First version.
    pub from: u32,
    /// Last version.
    pub to: u32,
}

/// See [`Command::Settle`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settle {
    /// The job; `None` when the receipt alone names it.
    pub job: Option<JobId>,
    /// The receipt as it came.
    pub receipt: Box<str>,
    /// What became of the delivery.
    pub outcome: Outcome,
}

/// What became of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done.
    Ack {
        /// JSON text.
        result: Option<Vec<u8>>,
    },
    /// Failed.
    Fail(Failure),
    /// Given back, no attempt used.
    Release {
        /// Hidden for so many milliseconds.
        delay_ms: Option<u64>,
        /// Why.
        reason: Option<Box<str>>,
    },
    /// Still at work.
    Extend {
        /// Hidden for so many milliseconds from now; the job's or queue's when absent.
        visibility_ms: Option<u64>,
        /// JSON text.
        progress: Option<Vec<u8>>,
    },
}

/// A failure as a worker reports it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Failure {
    /// The worker's word for it.
    pub kind: Box<str>,
    /// Text for people.
    pub message: Box<str>,
    /// False: dead at once.
    pub retryable: bool,
    /// Wait in milliseconds instead of the backoff.
    pub retry_after_ms: Option<u64>,
}

/// See [`Command::Cancel`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cancel {
    /// Which jobs.
    pub target: CancelTarget,
    /// Why.
    pub reason: Option<Box<str>>,
    /// Who did it.
    pub actor: Actor,
}

/// Which jobs to cancel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CancelTarget {
    /// These; an unknown one is reported, not an error.
    Ids(Vec<JobId>),
    /// All of one business object, in every queue.
    BusinessId(Box<str>),
}

/// See [`Command::Patch`]; `None` leaves a field.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Patch {
    /// The job.
    pub job: JobId,
    /// New priority.
    pub priority: Option<u8>,
    /// New due time.
    pub when: Option<When>,
    /// New payload, whole.
    pub payload: Option<Vec<u8>>,
}

/// See [`Command::GuardBegin`].
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct GuardBegin {
    /// Name of the queue.
    pub queue: Box<str>,
    /// The key, unique among the guards of the queue.
    pub key: Box<str>,
    /// A result is kept for so many milliseconds; not looked at with `job`.
    pub ttl_ms: u64,
    /// Others wait for so many milliseconds for the end of the work.
    pub hold_ms: u64,
    /// The guard is kept as long as this job.
    pub job: Option<JobId>,
    /// The job's present receipt, which must hold.
    pub receipt: Option<Box<str>>,
    /// Chosen by the asker: the same again answers the same token, until another took the key.
    pub attempt_id: Option<Box<str>>,
}

/// See [`Command::GuardUse`].
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct GuardUse {
    /// Name of the queue.
    pub queue: Box<str>,
    /// The key.
    pub key: Box<str>,
    /// As it was given by the begin.
    pub token: Box<str>,
    /// What becomes of it.
    pub action: GuardAction,
}

/// What becomes of work under a key.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum GuardAction {
    /// It is done.
    Complete {
        /// JSON text.
        result: Option<Vec<u8>>,
    },
    /// It is given up: the next begin starts anew.
    #[default]
    Abort,
    /// It goes on.
    Extend {
        /// Others wait for so many milliseconds from now.
        hold_ms: u64,
    },
}

/// See [`Command::Configure`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configure {
    /// Name of the queue.
    pub queue: Box<str>,
    /// The whole configuration.
    pub options: QueueOptions,
    /// Who manages it from now on.
    pub source: Source,
    /// Holds for the configuration that is there, or nothing is done.
    pub condition: Condition,
    /// Who did it.
    pub actor: Actor,
}

/// See [`Command::PutSchema`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutSchema {
    /// The type.
    pub kind: Box<str>,
    /// The version.
    pub version: u32,
    /// JSON text; its edge has made sure that it is a schema.
    pub text: Box<str>,
    /// Who manages it from now on.
    pub source: Source,
    /// Who did it.
    pub actor: Actor,
}

/// See [`Command::PutLimit`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutLimit {
    /// Its name.
    pub limit: Box<str>,
    /// What holds for its queues together.
    pub options: LimitOptions,
    /// Who manages it from now on.
    pub source: Source,
    /// Who did it.
    pub actor: Actor,
}

/// See [`Command::PutSchedule`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutSchedule {
    /// Its name.
    pub schedule: Box<str>,
    /// What was set.
    pub options: ScheduleOptions,
    /// Equal intervals are counted from here. What another definition there is due by then must be decided before.
    pub since: u64,
    /// The first instant at which it is due; `None` is never.
    pub next: Option<u64>,
    /// Its queue may be one that is made with its first job.
    pub create: bool,
    /// Who manages it from now on.
    pub source: Source,
    /// Who did it.
    pub actor: Actor,
}

/// See [`Command::FireSchedule`]. What follows from calendars, clocks and schemas was found out at the edge; it is of no
/// effect if the schedule has changed since, or the instant was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FireSchedule {
    /// Its name.
    pub schedule: Box<str>,
    /// The version of its definition that all of this is about.
    pub version: u64,
    /// The instant.
    pub at: u64,
    /// The first one after it.
    pub following: Option<u64>,
    /// The last one that is due by now.
    pub latest: u64,
    /// The first one that was missed no longer ago than the schedule's window, or is still to come.
    pub in_window: Option<u64>,
    /// Its job, or why the queue does not take it.
    pub job: Result<NewJob, Skip>,
    /// Create the queue when it is unknown.
    pub create: bool,
}

/// See [`Command::RunSchedule`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunSchedule {
    /// Its name.
    pub schedule: Box<str>,
    /// The version of its definition that the job was made of.
    pub version: u64,
    /// The job.
    pub job: NewJob,
    /// Create the queue when it is unknown.
    pub create: bool,
    /// Who did it.
    pub actor: Actor,
}

/// See [`Command::PutHook`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutHook {
    /// Its name.
    pub hook: Box<str>,
    /// JSON text; its edge has made sure that it is readable, and that there is no secret in it.
    pub text: Box<str>,
    /// Who manages it from now on.
    pub source: Source,
    /// Who did it.
    pub actor: Actor,
}

/// What must be there for a command to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// If-Match.
    pub is: Option<Revisions>,
    /// If-None-Match.
    pub is_not: Option<Revisions>,
}

/// Revisions of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Revisions {
    /// Any that is there.
    Any,
    /// One of these.
    These(Vec<u64>),
}

impl Condition {
    /// Whether it holds where this revision, or nothing, is there.
    pub(crate) fn holds(&self, revision: Option<u64>) -> bool {
        let names = |revisions: &Revisions| match revisions {
            Revisions::Any => revision.is_some(),
            Revisions::These(these) => revision.is_some_and(|revision| these.contains(&revision)),
        };
        self.is.as_ref().is_none_or(names) && !self.is_not.as_ref().is_some_and(names)
    }
}

/// A bulk action to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTask {
    /// Name of the queue.
    pub queue: Box<str>,
    /// What to do.
    pub action: Action,
    /// Why.
    pub reason: Option<Box<str>>,
    /// Who did it.
    pub actor: Actor,
}

/// What a bulk action does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Unfinished jobs go, without a trace but a count.
    Purge {
        /// Of `ready`, `delayed`, `blocked`, `inFlight`.
        states: Vec<JobState>,
    },
    /// Dead jobs go back to their queue.
    Replay(Replay),
    /// Dead jobs go, into the audit trail.
    Discard {
        /// Which.
        select: Select,
    },
    /// Ready jobs of a queue that others hand off to go back, or elsewhere, as new jobs.
    Move {
        /// Name of the queue that takes them; without one each goes where it came from.
        destination: Option<Box<str>>,
        /// At most so fast.
        rate: Option<Rate>,
    },
}

/// How dead jobs are put back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// Which.
    pub select: Select,
    /// JSON merge patch (RFC 7386) for every payload, applied above the core.
    pub patch: Option<Vec<u8>>,
    /// At most `jobs` per `per_ms`.
    pub rate: Option<Rate>,
    /// Halts when so many of its first ten finished jobs fail; 0 never halts.
    pub halt_after: u32,
    /// Run again although the idempotency key has completed.
    pub ignore_key: bool,
    /// Also beyond `maxReplays`.
    pub force: bool,
}

/// A rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, minicbor::Encode, minicbor::Decode)]
pub struct Rate {
    /// So many jobs ..
    #[n(0)]
    pub jobs: u32,
    /// .. in so many milliseconds.
    #[n(1)]
    pub per_ms: u64,
}

/// Which dead jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Select {
    /// These.
    Ids(Vec<JobId>),
    /// All that match.
    Filter(Filter),
}

/// Conditions that must all hold; none set selects all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Type of the job.
    pub kind: Option<Box<str>>,
    /// Kind of its last error.
    pub error_kind: Option<Box<str>>,
    /// Group of alike failures.
    pub fingerprint: Option<u64>,
    /// Its group.
    pub group: Option<Box<str>>,
    /// Its business object.
    pub business_id: Option<Box<str>>,
    /// Died before.
    pub died_before: Option<u64>,
    /// Died after.
    pub died_after: Option<u64>,
}
