//! What can be read. A query looks at the state and changes nothing; its answer leaves the shard, like
//! every reply, only once all it was decided on is committed.

mod audit;
mod cursor;
mod dead;
mod hooks;
mod jobs;
mod limits;
mod queues;
mod schedules;
mod schemas;
mod tasks;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::command::{Replay, TypeRange};
use crate::event::BreakerState;
use crate::figures::Percentiles;
use crate::id::JobId;
use crate::options::{LimitOptions, QueueOptions, RateLimit, Settings, Source, Visibility};
use crate::rejection::Rejection;
use crate::reply::{HeldBack, JobView, Place, State as JobState, TaskView};
use crate::schedule::Occurrence;
use crate::state::{Presence, State};

pub(crate) use queues::RETRY_AFTER_MS;

/// A question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query {
    /// One job.
    Job(JobId),
    /// Jobs of one queue.
    Jobs(JobsQuery),
    /// Jobs of one business object over all queues.
    JobsOf {
        /// The business object.
        business_id: Box<str>,
        /// The page.
        page: Page,
    },
    /// Queues by name.
    Queues(Page),
    /// One queue's configuration.
    Queue(Box<str>),
    /// What holds for a queue, also for one that is still to be made.
    Settings(Box<str>),
    /// All schemas.
    Schemas,
    /// Types with a schema, by name, and how many jobs of each version there are.
    Types(Page),
    /// All shared limits, by name.
    Limits,
    /// Schedules by name.
    Schedules(Page),
    /// One schedule.
    Schedule(Box<str>),
    /// What became of the last instants at which a schedule was due, newest first.
    Occurrences {
        /// The schedule.
        schedule: Box<str>,
        /// The page.
        page: Page,
    },
    /// All inbound webhooks, by name.
    Hooks,
    /// One queue's figures.
    Stats(Box<str>),
    /// Groups of alike failures of one queue, largest first.
    Fingerprints {
        /// The queue.
        queue: Box<str>,
        /// The page.
        page: Page,
    },
    /// One bulk action.
    Task(u64),
    /// Replays, newest first; of one queue if named.
    Replays {
        /// The queue.
        queue: Option<Box<str>>,
        /// The page.
        page: Page,
    },
    /// Moves of jobs out of one queue, newest first: those that run and the last that ended.
    Moves {
        /// The queue.
        queue: Box<str>,
    },
    /// Names of queues, without their figures.
    Names(NamesQuery),
    /// What a replay would do, without doing it.
    Preview {
        /// The queue.
        queue: Box<str>,
        /// The replay.
        replay: Replay,
    },
    /// Jobs of this worker whose cancel was asked for.
    CancelRequested {
        /// The worker's name.
        worker: Box<str>,
    },
    /// Operators' actions, newest first.
    Audit {
        /// Of one queue.
        queue: Option<Box<str>>,
        /// By one actor.
        actor: Option<Box<str>>,
        /// Of one kind.
        action: Option<Box<str>>,
        /// The page.
        page: Page,
    },
}

/// See [`Query::Names`]; conditions must all hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamesQuery {
    /// They begin so.
    pub prefix: Box<str>,
    /// Behind this one.
    pub after: Option<Box<str>>,
    /// Queues that hand off to this one.
    pub redrives_to: Option<Box<str>>,
    /// At most so many.
    pub limit: usize,
}

/// A part of a list: `cursor` is what the part before it ended with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// `None` is the first page.
    pub cursor: Option<String>,
    /// At most so many entries; 0 is the default, 100.
    pub limit: usize,
}

/// See [`Query::Jobs`]; conditions must all hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobsQuery {
    /// The queue.
    pub queue: Box<str>,
    /// In one of these states; empty is all.
    pub states: Vec<JobState>,
    /// Of this type.
    pub kind: Option<Box<str>>,
    /// Of this group.
    pub group: Option<Box<str>>,
    /// About this business object.
    pub business_id: Option<Box<str>>,
    /// With this deduplication key.
    pub dedup_key: Option<Box<str>>,
    /// With this idempotency key.
    pub idempotency_key: Option<Box<str>>,
    /// Whose last error has this kind.
    pub error_kind: Option<Box<str>>,
    /// Enqueued (dead jobs: died) before.
    pub before: Option<u64>,
    /// Enqueued (dead jobs: died) after.
    pub after: Option<u64>,
    /// The page.
    pub page: Page,
}

/// An answer, of the same name as its query.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Answer {
    Job(Box<JobView>),
    Jobs { jobs: Vec<JobView>, cursor: Option<String> },
    Queues { queues: Vec<QueueEntry>, cursor: Option<String> },
    Queue(Box<QueueView>),
    Settings(Box<Settings>),
    Schemas(Vec<SchemaView>),
    Limits(Vec<LimitView>),
    Hooks(Vec<HookView>),
    Types { types: Vec<TypeView>, cursor: Option<String> },
    Schedules { schedules: Vec<ScheduleView>, cursor: Option<String> },
    Schedule(Box<ScheduleView>),
    Occurrences { occurrences: Vec<Occurrence>, cursor: Option<String> },
    Stats(Box<Stats>),
    Fingerprints { groups: Vec<FingerprintView>, cursor: Option<String> },
    Task(Box<TaskView>),
    Replays { replays: Vec<TaskView>, cursor: Option<String> },
    Moves(Vec<TaskView>),
    Names { names: Vec<Arc<str>>, more: bool },
    Preview { matched: u64, skipped: Vec<(Box<str>, u64)>, example: Option<Box<JobView>> },
    CancelRequested(Vec<JobId>),
    Audit { entries: Vec<AuditView>, cursor: Option<String> },
}

/// One line of the list of queues.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueEntry {
    /// Its name.
    pub name: Arc<str>,
    /// Who made its configuration.
    pub source: Source,
    /// Hand-out is paused.
    pub paused: bool,
    /// Its figures.
    pub stats: Stats,
}

/// A queue's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueView {
    /// Its number, never used again.
    pub number: u32,
    /// Newest purge.
    pub purged_at: u64,
    /// Its name.
    pub name: Arc<str>,
    /// Who made it.
    pub source: Source,
    /// What was set.
    pub options: QueueOptions,
    /// What holds.
    pub settings: Settings,
    /// Grows with each change.
    pub revision: u64,
    /// Hand-out is paused.
    pub paused: bool,
    /// Why.
    pub paused_reason: Option<Box<str>>,
}

/// The schema of one version of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaView {
    /// The type.
    pub kind: Box<str>,
    /// The version.
    pub version: u32,
    /// JSON text.
    pub text: Arc<str>,
    /// Who made it.
    pub source: Source,
}

/// An inbound webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookView {
    /// Its name.
    pub name: Box<str>,
    /// Who made it.
    pub source: Source,
    /// What its edge said of it: JSON text.
    pub text: Arc<str>,
}

/// A shared limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitView {
    /// Its figures.
    pub figures: LimitFigures,
    /// Who made it.
    pub source: Source,
    /// What was set.
    pub options: LimitOptions,
    /// The queues that name it.
    pub queues: Vec<Arc<str>>,
}

/// How far a shared limit is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitFigures {
    /// Its name.
    pub name: Arc<str>,
    /// Jobs in flight under it.
    pub in_flight: u64,
    /// At most so many may be.
    pub max_in_flight: Option<u32>,
    /// Its rate limit, and the tokens that are there.
    pub rate: Option<(RateLimit, u32)>,
    /// Deliveries under it since this process began.
    pub deliveries: u64,
    /// Why nothing is handed out under it.
    pub held_back: Option<HeldBack>,
    /// Its circuit breaker; `None` is off.
    pub breaker: Option<BreakerView>,
}

/// A schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleView {
    /// Its name.
    pub name: Box<str>,
    /// Who made it.
    pub source: Source,
    /// See [`crate::ScheduleOptions::text`].
    pub text: Arc<str>,
    /// See [`crate::ScheduleOptions::catch_up_window_ms`].
    pub catch_up_window_ms: u64,
    /// Grows with each change.
    pub version: u64,
    /// Equal intervals are counted from here.
    pub since: u64,
    /// Its occurrences make no jobs.
    pub paused: bool,
    /// Why.
    pub paused_reason: Option<Box<str>>,
    /// The instant that is decided next; `None` is never.
    pub next: Option<u64>,
    /// All instants up to here are decided.
    pub decided_to: u64,
    /// The last occurrence.
    pub last: Option<Occurrence>,
    /// Occurrences that made a job.
    pub fired: u64,
    /// Entries of those that did not.
    pub skipped: u64,
}

/// A circuit breaker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BreakerView {
    /// Where it is.
    pub state: BreakerState,
    /// Since when; `None` has never opened.
    pub since: Option<u64>,
    /// End of the cool-down, open only.
    pub until: Option<u64>,
    /// Attempts that ended within the window.
    pub jobs: u64,
    /// How many of them failed.
    pub failures: u64,
    /// How often it opened since this process began.
    pub opened: u64,
    /// How often it closed.
    pub closed: u64,
}

/// A type and its versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeView {
    /// The type.
    pub kind: Box<str>,
    /// Those with a schema, and those of which there are jobs.
    pub versions: Vec<VersionView>,
}

/// One version of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionView {
    /// The version.
    pub version: u32,
    /// Who made its schema; `None` has none.
    pub source: Option<Source>,
    /// Unfinished and dead jobs.
    pub jobs: u64,
}

/// A queue's figures. Rates are per second over 60 s, shares over 5 min.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)] // the words of the API
pub struct Stats {
    pub ready: u64,
    pub delayed: u64,
    pub blocked: u64,
    pub in_flight: u64,
    pub dead: u64,
    /// Completed jobs that are kept.
    pub completed: u64,
    /// Cancelled and expired jobs that are kept.
    pub cancelled: u64,
    pub expired: u64,
    pub oldest_job_age_ms: Option<u64>,
    pub oldest_dead_age_ms: Option<u64>,
    pub enqueue_rate: f64,
    pub receive_rate: f64,
    pub complete_rate: f64,
    pub failure_rate: Option<f64>,
    pub retry_rate: Option<f64>,
    /// Time from ready to received, in milliseconds.
    pub wait: Percentiles,
    /// Time from received to settled, in milliseconds.
    pub processing: Percentiles,
    /// Events since this process began, by the words of `recado_jobs_total`.
    pub totals: Vec<(&'static str, u64)>,
    pub consumers: Vec<ConsumerView>,
    pub held_back: Vec<(HeldBack, u64)>,
    /// The queue's rate limit, and the tokens that are there.
    pub rate: Option<(RateLimit, u32)>,
    /// The shared limits that it names.
    pub limits: Vec<LimitFigures>,
    /// Its circuit breaker; `None` is off.
    pub breaker: Option<BreakerView>,
    /// What was set.
    pub visibility: Visibility,
    /// How long jobs take, by type, the slowest first.
    pub timings: Vec<TimingView>,
    pub paused: bool,
    /// Cumulative buckets of `wait` and `processing`: upper bound in ms, count; then sum in ms, count.
    pub wait_histogram: HistogramView,
    pub processing_histogram: HistogramView,
}

/// A histogram since this process began, for metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistogramView {
    /// Upper bound in milliseconds, and how many samples are at or below it.
    pub buckets: Vec<(u64, u64)>,
    /// Sum of all samples in milliseconds.
    pub sum_ms: u64,
    /// Number of samples.
    pub count: u64,
}

/// How long jobs of a type take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimingView {
    /// The type; `None` for those beyond the types that are told apart.
    pub kind: Option<Arc<str>>,
    /// Completions that were measured, of which old ones fade.
    pub completions: u32,
    /// 95 of 100 do not take longer, in milliseconds.
    pub p95_ms: u64,
    /// The visibility timeout that follows from it, in milliseconds.
    pub auto_ms: u64,
    /// There are enough completions to choose by.
    pub is_measured: bool,
}

/// A worker seen within the last minute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerView {
    /// Its name; `None` for those that gave none.
    pub worker: Option<Box<str>>,
    /// Types it declared; `None` is all.
    pub types: Option<Vec<TypeRange>>,
    /// Jobs it holds.
    pub in_flight: u64,
    /// Its last receive or settle.
    pub last_seen_at: u64,
}

/// Dead jobs with one type, kind of error and normalized message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FingerprintView {
    /// Names the group.
    pub fingerprint: u64,
    /// Type of its jobs.
    pub kind: Arc<str>,
    /// The newest death's [`crate::ErrorEntry`].
    pub error: Option<Place>,
    /// How many.
    pub count: u64,
    /// First death.
    pub first_at: u64,
    /// Last death.
    pub last_at: u64,
    /// One of them.
    pub example: JobId,
    /// An operator's note.
    pub note: Option<Box<str>>,
}

/// One operator's action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditView {
    /// Its number.
    pub id: u64,
    /// When.
    pub at: u64,
    /// Who; `None` without keys.
    pub actor: Option<Box<str>>,
    /// `queue-configured queue-deleted queue-paused queue-resumed purged replayed discarded cancelled acknowledged`.
    pub action: Box<str>,
    /// The queue.
    pub queue: Option<Box<str>>,
    /// Why, and figures, in words.
    pub detail: Box<str>,
}

/// Result of a query.
pub type Answered = Result<Answer, Rejection>;

/// Answers a query. Lists look at a bounded number of entries a page: a page may be short or empty while its
/// cursor is set.
///
/// # Errors
/// A [`Rejection`] when what is asked for is not there, or the cursor is none.
pub fn answer(state: &State, presence: &Presence, now: u64, query: &Query) -> Answered {
    match query {
        Query::Job(id) => jobs::one(state, presence, now, *id),
        Query::Jobs(query) => jobs::of_queue(state, presence, now, query),
        Query::JobsOf { business_id, page } => jobs::of_business(state, presence, now, business_id, page),
        Query::Queues(page) => queues::list(state, presence, now, page),
        Query::Queue(name) => queues::view(state, name),
        Query::Settings(name) => Ok(queues::settings(state, name)),
        Query::Schemas => Ok(schemas::all(state)),
        Query::Limits => Ok(limits::all(state, now)),
        Query::Hooks => Ok(hooks::all(state)),
        Query::Types(page) => schemas::types(state, page),
        Query::Schedules(page) => schedules::list(state, page),
        Query::Schedule(name) => schedules::one(state, name),
        Query::Occurrences { schedule, page } => schedules::occurrences(state, schedule, page),
        Query::Stats(name) => queues::stats(state, presence, now, name),
        Query::Fingerprints { queue, page } => dead::fingerprints(state, queue, page),
        Query::Task(id) => tasks::task(state, *id),
        Query::Replays { queue, page } => tasks::replays(state, queue.as_deref(), page),
        Query::Moves { queue } => tasks::moves(state, queue),
        Query::Names(query) => Ok(queues::names(state, query)),
        Query::Preview { queue, replay } => dead::preview(state, presence, now, queue, replay),
        Query::CancelRequested { worker } => tasks::cancel_requested(state, worker),
        Query::Audit { queue, actor, action, page } => {
            let (queue, actor, action) = (queue.as_deref(), actor.as_deref(), action.as_deref());
            audit::list(state, &audit::Wanted { queue, actor, action }, page)
        }
    }
}
