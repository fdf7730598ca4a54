//! Why a step has no result.

use std::convert::Infallible;
use std::time::{Duration, SystemTime};

use crate::error::BoxError;
use crate::worker::JobError;

/// Why a step has no result. Only [`OnceError::NotSaved`] and [`OnceError::Overtaken`] may have had an effect.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OnceError<E> {
    /// The work said so itself. The step was given up: the next caller does it.
    #[error("the step failed: {0}")]
    Failed(E),
    /// Somebody else is at it, and was for as long as the caller would wait.
    #[error("somebody else is at the step: ask again later")]
    Processing {
        /// When it may be taken over if nothing more is heard of its holder, on this machine's clock.
        until: SystemTime,
    },
    /// Nobody heard of this holder for too long, and another one took the step over. What was under way here was
    /// dropped or its result not saved; the other holder's counts.
    #[error("another holder took the step over: its result counts")]
    Overtaken,
    /// The store could not be asked, or refused. Nothing was done.
    #[error("the step was not begun: {0}")]
    NotBegun(#[source] BoxError),
    /// The work was done, but not that it was: the step may be done again.
    #[error("the step was done, but its result could not be saved, so that it may be done again: {0}")]
    NotSaved(#[source] BoxError),
    /// The saved result is none of the type that is asked for.
    #[error("the saved result is none of this type: {0}")]
    Unreadable(#[source] serde_json::Error),
}

/// A job is not held up by a step that another run is at: it comes back then, and no attempt is used.
const SNOOZE_MIN: Duration = Duration::from_secs(1);

/// What the work said stays what it was; while somebody else is at the step the job is snoozed.
impl<E: Into<BoxError>> From<OnceError<E>> for JobError {
    fn from(error: OnceError<E>) -> Self {
        let error = match error {
            OnceError::Failed(error) => return Self::new(error),
            OnceError::Processing { until } => {
                let left = until.duration_since(SystemTime::now()).unwrap_or_default().max(SNOOZE_MIN);
                return Self::snooze(left).because(OnceError::<Infallible>::Processing { until });
            }
            OnceError::Overtaken => OnceError::<Infallible>::Overtaken,
            OnceError::NotBegun(error) => OnceError::NotBegun(error),
            OnceError::NotSaved(error) => OnceError::NotSaved(error),
            OnceError::Unreadable(error) => OnceError::Unreadable(error),
        };
        Self::new(error)
    }
}
