//! What a kind of work is.

use std::ops::RangeInclusive;
use std::time::Duration;

use recado_core::{BackoffCurve, Jitter, Overrides, Visibility};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use recado_core::{OnChildDead, OnDuplicate};

/// A kind of work: a payload of ids and small values, and what its worker answers.
///
/// ```
/// use recado::Job;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct SendEmail {
///     delivery_id: String,
/// }
///
/// impl Job for SendEmail {
///     const NAME: &'static str = "email.send";
///     const QUEUE: &'static str = "email";
///     type Output = ();
/// }
/// ```
pub trait Job: Serialize + DeserializeOwned + Send + 'static {
    /// The job's type on the wire, as in `email.send`: 1 to 120 characters out of letters, digits and `_ . : -`.
    const NAME: &'static str;

    /// Version of the payload's schema, from 1. Raise it when a worker of the old version could not read the
    /// payload, and let [`Job::versions`] say which ones this type reads.
    const SCHEMA_VERSION: u32 = 1;

    /// The queue it goes to unless the enqueue names another.
    const QUEUE: &'static str = "default";

    /// What a successful run answers; it is kept as the job's result, as JSON of at most 64 KiB.
    type Output: Serialize + DeserializeOwned + Send + 'static;

    /// Versions whose payload this type can read. A worker is handed no other: such a job waits, untouched,
    /// and shows as held back, `no-capable-worker`.
    #[must_use]
    fn versions() -> RangeInclusive<u32> {
        Self::SCHEMA_VERSION..=Self::SCHEMA_VERSION
    }

    /// What it sets over its queue.
    #[must_use]
    fn options() -> JobOptions {
        JobOptions::default()
    }
}

/// What a job sets over its queue; what is left out is as the queue has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobOptions {
    pub(crate) max_attempts: Option<u32>,
    pub(crate) backoff: Option<Backoff>,
    pub(crate) visibility: Option<Duration>,
    pub(crate) timeout: Option<Duration>,
}

impl JobOptions {
    /// Attempts without success after which the job is dead, 1 to 1000.
    #[must_use]
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = Some(attempts);
        self
    }

    /// The wait between attempts.
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = Some(backoff);
        self
    }

    /// How long the job is hidden from others while a worker has it, unless the worker extends it; 100 ms to
    /// 12 h. A worker of this library extends at a third of it.
    #[must_use]
    pub fn visibility(mut self, visibility: Duration) -> Self {
        self.visibility = Some(visibility);
        self
    }

    /// Longest run of one attempt, enforced by the queue; 1 s to 7 d.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    pub(crate) fn overrides(&self) -> Overrides {
        Overrides {
            max_attempts: self.max_attempts,
            backoff: self.backoff.as_ref().map(Backoff::to_core),
            visibility: self.visibility.map(|visibility| Visibility::Fixed(millis(visibility))),
            timeout_ms: self.timeout.map(millis),
        }
    }
}

/// The wait between two attempts.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Backoff {
    /// The same each time, without jitter.
    Fixed(Duration),
    /// `base`, then `factor` times the one before (1 to 100), at most `max`; half of each wait is random.
    Exponential {
        /// The first wait.
        base: Duration,
        /// How much longer each next wait is.
        factor: f64,
        /// The longest wait.
        max: Duration,
    },
    /// One wait after each attempt, at most 100, without jitter; the last one repeats.
    List(Vec<Duration>),
}

impl Backoff {
    fn to_core(&self) -> recado_core::Backoff {
        let (curve, jitter) = match self {
            Self::Fixed(wait) => (BackoffCurve::Fixed { base_ms: millis(*wait) }, Jitter::None),
            Self::Exponential { base, factor, max } => {
                let factor_milli = (factor * 1_000.0).round() as u64;
                let curve = BackoffCurve::Exponential { base_ms: millis(*base), factor_milli, max_ms: millis(*max) };
                (curve, Jitter::Equal)
            }
            Self::List(waits) => {
                (BackoffCurve::List { delays_ms: waits.iter().copied().map(millis).collect() }, Jitter::None)
            }
        };
        recado_core::Backoff { curve, jitter }
    }
}

/// Whole milliseconds, as the contract counts; too long stays too long and is refused.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
