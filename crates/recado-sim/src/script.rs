//! What happens in a run: steps of clients and faults, each with its instant. A step says everything by itself,
//! so that a script with steps left out is a script again.

use recado_core::{JobId, JobState, OnDuplicate};

/// Simulated time in microseconds.
pub(crate) type Micros = u64;

/// One step.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// When.
    pub at: Micros,
    /// What.
    pub action: Action,
}

/// What a step does.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// A client sends a request.
    Send {
        /// To which server.
        server: usize,
        /// What.
        request: Request,
        /// How it travels.
        travel: Travel,
        /// What a worker that gets jobs by it does with them.
        luck: u64,
    },
    /// An operator cancels, changes or replays one job, chosen from those known by then.
    Pick {
        /// Which, modulo their number.
        nth: u64,
        /// What is done with it.
        what: PickedAction,
        /// How the request travels.
        travel: Travel,
    },
    /// Something breaks.
    Fault {
        /// Where.
        server: usize,
        /// What.
        fault: Fault,
    },
}

/// What is done with a job that was picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PickedAction {
    /// It is cancelled.
    Cancel,
    /// It gets another priority or time.
    Patch {
        /// New priority.
        priority: Option<u8>,
        /// New delay.
        delay_ms: Option<u64>,
    },
    /// It is looked at.
    Look,
}

/// How a request and its answer travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Travel {
    /// Until it arrives.
    pub there: Micros,
    /// Until the answer is back.
    pub back: Micros,
    /// What is lost.
    pub lost: Lost,
    /// It arrives once more, so much later.
    pub again: Option<Micros>,
}

/// What the network loses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Lost {
    /// Nothing.
    #[default]
    Nothing,
    /// The request.
    Request,
    /// The answer, and nobody notices.
    Answer,
    /// The answer, and the server sees the connection break.
    Connection,
    /// The client hangs up while it waits.
    Patience,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The process dies now, for so long.
    Kill(Micros),
    /// The power goes now, for so long.
    PowerLoss(Micros),
    /// A graceful stop, then down for so long.
    Stop(Micros),
    /// So many disk operations from now this happens to one.
    Disk {
        /// Operations that go well before.
        after: u64,
        /// What happens to it.
        fault: recado_log::sim::Fault,
    },
    /// The wall clock is stepped by so many milliseconds.
    Clock(i64),
    /// The disk takes so many bytes more than it holds, from now on.
    Full(usize),
    /// Somebody freed space.
    Freed,
    /// After so many more reads of the disk one fails.
    Read(u64),
}

/// A request, as its client knows it.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Jobs for one queue.
    Enqueue(Enqueue),
    /// Take jobs.
    Receive(Receive),
    /// Settle a delivery.
    Settle(Settle),
    /// Begin work that is done once.
    Begin(Begin),
    /// End or extend such work.
    Guard(GuardUse),
    /// Pause or resume a queue.
    SetPaused {
        /// The queue.
        queue: u8,
        /// True pauses.
        paused: bool,
    },
    /// Drop waiting jobs.
    Purge {
        /// The queue.
        queue: u8,
    },
    /// Put all dead jobs back.
    Replay {
        /// The queue.
        queue: u8,
        /// Also when their idempotency key has completed.
        ignore_key: bool,
        /// This round is merged into their payloads.
        patch: Option<u32>,
    },
    /// Drop all dead jobs.
    Discard {
        /// The queue.
        queue: u8,
    },
    /// Give the queue its configuration, or another.
    Configure {
        /// The queue.
        queue: u8,
        /// Which of the plan's settings.
        variant: usize,
    },
    /// Give a shared limit its form, or another.
    PutLimit {
        /// The limit.
        limit: u8,
        /// Which of the plan's forms.
        variant: usize,
    },
    /// Remove a shared limit.
    RemoveLimit {
        /// The limit.
        limit: u8,
    },
    /// Delete the queue with all that is in it.
    Delete {
        /// The queue.
        queue: u8,
    },
    /// Cancel a job.
    Cancel(JobId),
    /// Change a job.
    Patch {
        /// Which.
        job: JobId,
        /// New priority.
        priority: Option<u8>,
        /// New delay.
        delay_ms: Option<u64>,
    },
    /// Look at a job.
    Look(JobId),
    /// List all jobs of a queue.
    List {
        /// The queue.
        queue: u8,
    },
}

/// Jobs for one queue, all or nothing.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Enqueue {
    /// The queue.
    pub queue: u8,
    /// The jobs.
    pub jobs: Vec<Job>,
    /// A producer's name and its number for this batch.
    pub producer: Option<(u8, u64)>,
    /// An `Idempotency-Key`.
    pub request: Option<u32>,
}

/// A job as its producer knows it.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Job {
    /// Names it in its payload; a repeated request carries the same.
    pub tag: u32,
    /// Size of its payload.
    pub bytes: usize,
    /// Type.
    pub kind: u8,
    /// Higher first.
    pub priority: u8,
    /// Not before.
    pub delay_ms: Option<u64>,
    /// Jobs that belong together.
    pub group: Option<u8>,
    /// Deduplication.
    pub dedup: Option<Dedup>,
    /// Two jobs with one key make one effect.
    pub key: Option<u8>,
    /// Gone unless received by then.
    pub expires_ms: Option<u64>,
    /// Beats the queue's.
    pub max_attempts: Option<u32>,
}

/// Deduplication of one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dedup {
    /// The key.
    pub key: u8,
    /// How long, or as long as the first is unfinished.
    pub for_ms: Option<u64>,
    /// What becomes of the second.
    pub on_duplicate: OnDuplicate,
}

/// Take jobs.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Receive {
    /// The queue.
    pub queue: u8,
    /// At most so many.
    pub max: usize,
    /// Hidden for so long.
    pub visibility_ms: Option<u64>,
    /// How long to wait for the first.
    pub wait_ms: u64,
    /// Only this type.
    pub kind: Option<u8>,
    /// The same answer for all receives that bear this name.
    pub attempt: Option<u64>,
    /// More of the group of the first.
    pub by_group: bool,
    /// What is settled by the same request.
    pub settle: Vec<Settle>,
}

/// Work under a key that one holder at a time does, once.
#[derive(Clone, Debug, PartialEq)]
pub struct Begin {
    /// The queue.
    pub queue: u8,
    /// The key.
    pub key: u64,
    /// Others wait for so long.
    pub hold_ms: u64,
    /// The result is kept for so long, unless it is of a job.
    pub ttl_ms: u64,
    /// The same answer for all begins that bear this name, while the hold lasts.
    pub attempt: Option<u64>,
    /// The delivery in whose course it is begun: it goes with the job.
    pub of: Option<Box<OfJob>>,
}

/// The delivery that work under a key belongs to.
#[derive(Clone, Debug, PartialEq)]
pub struct OfJob {
    /// The job.
    pub job: JobId,
    /// The delivery's fencing token.
    pub fence: u64,
    /// Its receipt.
    pub receipt: Box<str>,
}

/// What a holder says of its work.
#[derive(Clone, Debug, PartialEq)]
pub struct GuardUse {
    /// The queue.
    pub queue: u8,
    /// The key.
    pub key: u64,
    /// What the begin was answered with, as it is sent.
    pub token: Box<str>,
    /// The token was changed: this must never count.
    pub forged: bool,
    /// What became of it.
    pub what: Use,
}

/// What became of work under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Done; the result tells the token.
    Complete,
    /// Given up.
    Abort,
    /// Still at work.
    Extend {
        /// For so long.
        hold_ms: u64,
    },
}

/// What a worker says of a delivery.
#[derive(Clone, Debug, PartialEq)]
pub struct Settle {
    /// The queue it was received from.
    pub queue: u8,
    /// The job.
    pub job: JobId,
    /// The delivery's fencing token.
    pub fence: u64,
    /// Its receipt, as it is sent.
    pub receipt: Box<str>,
    /// The receipt was changed: this must never count.
    pub forged: bool,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done.
    Ack {
        /// The result tells the fencing token.
        with_result: bool,
    },
    /// Failed.
    Fail {
        /// Worth another try.
        retryable: bool,
        /// The wait before it.
        retry_after_ms: Option<u64>,
    },
    /// Given back.
    Release {
        /// Hidden for so long.
        delay_ms: Option<u64>,
    },
    /// Still at work.
    Extend {
        /// For so long.
        visibility_ms: u64,
    },
}

/// The states that a purge drops.
pub(crate) const PURGED: [JobState; 3] = [JobState::Ready, JobState::Delayed, JobState::Blocked];
