//! What a run came to.

use std::time::Duration;

use recado::JobError;
use serde_json::value::RawValue;

/// How a run ended.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// It succeeded.
    Done {
        /// What it answered.
        result: Option<Box<RawValue>>,
        /// What people should know of it.
        note: Option<&'static str>,
    },
    /// It failed.
    Failed {
        /// One word for the sort of failure: dead jobs are grouped by it.
        kind: String,
        /// For people.
        message: String,
        /// Whether another attempt makes sense.
        retry: Retry,
    },
    /// It came to nothing, which is not the job's fault: no attempt is used.
    GivenBack {
        /// Why.
        reason: String,
        /// How long it stays away.
        delay: Duration,
    },
}

/// What comes after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retry {
    /// Another attempt, after the queue's backoff.
    Backoff,
    /// Another attempt after this time.
    After(Duration),
    /// None: it is dead.
    Never,
}

impl Verdict {
    /// A failure.
    pub(crate) fn failed(kind: impl Into<String>, message: impl Into<String>, retry: Retry) -> Self {
        Self::Failed { kind: kind.into(), message: message.into(), retry }
    }

    /// Cut off.
    pub(crate) fn timed_out(after: Duration) -> Self {
        Self::failed("timeout", format!("cut off after {:.3} s", after.as_secs_f64()), Retry::Backoff)
    }

    /// As if it had not been begun.
    pub(crate) fn given_back(reason: &str) -> Self {
        Self::GivenBack { reason: reason.to_owned(), delay: Duration::ZERO }
    }

    /// What the library is told.
    pub(super) fn into_result(self) -> Result<Box<RawValue>, JobError> {
        match self {
            Self::Done { result, .. } => Ok(result.unwrap_or_else(|| RawValue::NULL.to_owned())),
            Self::Failed { kind, message, retry } => Err(match retry {
                Retry::Backoff => JobError::new(message),
                Retry::After(wait) => JobError::retry_after(wait).because(message),
                Retry::Never => JobError::permanent(message),
            }
            .kind(&kind)),
            Self::GivenBack { reason, delay } => Err(JobError::snooze(delay).because(reason)),
        }
    }
}
