//! Schedules: what the core knows of them. It has no clock and no calendar: whoever knows time zones tells it at
//! which instants a schedule is due, and it decides what becomes of each of them, once.

use alloc::boxed::Box;
use alloc::vec::Vec;

use minicbor::{Decode, Encode};

use crate::id::JobId;
use crate::options::Source;

/// Schedules of a server.
pub const SCHEDULES_MAX: usize = 1_000;

/// Definitions of all schedules together, in bytes.
pub const SCHEDULE_BYTES_SUM_MAX: usize = 16 << 20;

/// Occurrences of a schedule that can be looked up.
pub const OCCURRENCES_KEPT_MAX: usize = 100;

/// An occurrence that is decided at most so much after its instant was not missed, in milliseconds.
pub const ON_TIME_MS: u64 = 10_000;

/// What becomes of an occurrence while the job of an earlier one is unfinished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Overlap {
    /// It is skipped.
    #[default]
    #[n(0)]
    Skip,
    /// It makes its job.
    #[n(1)]
    Allow,
}

/// What becomes of occurrences whose time passed while nobody served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum CatchUp {
    /// The latest makes its job.
    #[default]
    #[n(0)]
    One,
    /// None does.
    #[n(1)]
    None,
    /// Each does.
    #[n(2)]
    All,
}

/// What was set for a schedule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct ScheduleOptions {
    /// The whole definition, as its edge wrote it down and alone understands it.
    #[n(0)]
    pub text: Box<str>,
    /// Name of the queue that takes its jobs.
    #[n(1)]
    pub queue: Box<str>,
    /// Beside an unfinished job.
    #[n(2)]
    pub overlap: Overlap,
    /// After down time.
    #[n(3)]
    pub catch_up: CatchUp,
    /// What was missed longer ago is skipped.
    #[n(4)]
    pub catch_up_window_ms: u64,
}

/// Why an occurrence made no job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Skip {
    /// The job of an earlier one was unfinished.
    #[n(0)]
    Overlap,
    /// The schedule was paused.
    #[n(1)]
    Paused,
    /// It was missed, and a later one stands for it, or none does.
    #[n(2)]
    CatchUp,
    /// It was missed too long ago.
    #[n(3)]
    CatchUpWindow,
    /// Its job has a deduplication key that another job holds.
    #[n(4)]
    Deduplicated,
    /// The queue is at a limit.
    #[n(5)]
    QueueFull,
    /// The queue does not exist, and is not to be created.
    #[n(6)]
    NotFound,
    /// The memory budget is used up.
    #[n(7)]
    Overloaded,
    /// The queue takes only smaller payloads.
    #[n(8)]
    PayloadTooLarge,
    /// The queue does not take such a job.
    #[n(9)]
    Invalid,
    /// Another payload holds the deduplication key.
    #[n(10)]
    DuplicateConflict,
    /// The queue takes no secrets, or no data about people.
    #[n(11)]
    SecretInPayload,
    /// The payload does not fit its schema, or something is missing that the queue asks for.
    #[n(12)]
    SchemaViolation,
    /// The queue takes only types and versions with a schema.
    #[n(13)]
    UnknownTypeVersion,
}

impl Skip {
    /// All reasons.
    pub const ALL: [Self; 14] = [
        Self::Overlap,
        Self::Paused,
        Self::CatchUp,
        Self::CatchUpWindow,
        Self::Deduplicated,
        Self::QueueFull,
        Self::NotFound,
        Self::Overloaded,
        Self::PayloadTooLarge,
        Self::Invalid,
        Self::DuplicateConflict,
        Self::SecretInPayload,
        Self::SchemaViolation,
        Self::UnknownTypeVersion,
    ];

    /// The word on the wire; of a refusal it is the code that an enqueue would have got.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Overlap => "overlap",
            Self::Paused => "paused",
            Self::CatchUp => "catch-up",
            Self::CatchUpWindow => "catch-up-window",
            Self::Deduplicated => "deduplicated",
            Self::QueueFull => "queue-full",
            Self::NotFound => "not-found",
            Self::Overloaded => "overloaded",
            Self::PayloadTooLarge => "payload-too-large",
            Self::Invalid => "invalid-request",
            Self::DuplicateConflict => "duplicate-conflict",
            Self::SecretInPayload => "secret-in-payload",
            Self::SchemaViolation => "schema-violation",
            Self::UnknownTypeVersion => "unknown-type-version",
        }
    }
}

/// What became of an instant at which a schedule was due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Occurrence {
    /// Its number in its schedule, from 1.
    #[n(0)]
    pub number: u64,
    /// The instant; of a manual one, when it was asked for.
    #[n(1)]
    pub at: u64,
    /// It stands for all from `at` on that were due before this.
    #[n(2)]
    pub before: Option<u64>,
    /// Why it made no job; `None` made one.
    #[n(3)]
    pub skip: Option<Skip>,
    /// The job that it made, or that was in its way.
    #[n(4)]
    pub job: Option<JobId>,
    /// Somebody asked for it.
    #[n(5)]
    pub manual: bool,
}

/// A schedule, whole.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct ScheduleRecord {
    /// Its number.
    #[n(0)]
    pub number: u32,
    /// Its name.
    #[n(1)]
    pub name: Box<str>,
    /// Who made it.
    #[n(2)]
    pub source: Source,
    /// What was set.
    #[n(3)]
    pub options: ScheduleOptions,
    /// Number of the audit entry of its last change: no two definitions ever have the same.
    #[n(4)]
    pub version: u64,
    /// When it got its present definition; equal intervals are counted from here.
    #[n(5)]
    pub since: u64,
    /// Its occurrences make no jobs.
    #[n(6)]
    pub paused: bool,
    /// Why.
    #[n(7)]
    pub paused_reason: Option<Box<str>>,
    /// The instant that is decided next; `None` is never.
    #[n(8)]
    pub next: Option<u64>,
    /// All instants up to here are decided: none is decided twice, also when the clock was set back or the definition
    /// changed.
    #[n(9)]
    pub decided_to: u64,
    /// The last ones, oldest first.
    #[n(10)]
    pub occurrences: Vec<Occurrence>,
    /// The job that an instant made last.
    #[n(11)]
    pub last_job: Option<JobId>,
    /// Occurrences that made a job.
    #[n(12)]
    pub fired: u64,
    /// Entries of those that did not.
    #[n(13)]
    pub skipped: u64,
}

impl ScheduleRecord {
    /// Occurrences so far.
    pub(crate) fn count(&self) -> u64 {
        self.fired + self.skipped
    }

    /// Bytes of its texts.
    pub(crate) fn text_bytes(&self) -> usize {
        let reason = self.paused_reason.as_deref().map_or(0, str::len);
        self.name.len() + self.options.text.len() + self.options.queue.len() + reason
    }
}
