//! How a run fails, and what should become of the job.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use crate::error::BoxError;

/// What becomes of a job whose run failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Disposition {
    /// Another attempt after the backoff, while there are attempts left.
    Retry,
    /// Another attempt after this time (at most 365 d), while there are attempts left.
    RetryAfter(Duration),
    /// No other attempt: the job is dead at once.
    Permanent,
    /// Not now: the job waits so long (at most 365 d), and no attempt was used.
    Snooze(Duration),
}

/// Says once of an error type what becomes of the job; see [`WorkerBuilder::classify`].
///
/// [`WorkerBuilder::classify`]: crate::WorkerBuilder::classify
pub trait Classify: StdError + 'static {
    /// What becomes of a job that failed with this.
    fn disposition(&self) -> Disposition;
}

/// A failure that says what becomes of the job. A handler may return any error; this one where the error
/// itself does not say enough.
#[derive(Debug)]
pub struct JobError {
    disposition: Option<Disposition>,
    kind: Option<Box<str>>,
    source: Option<BoxError>,
}

impl JobError {
    fn with(disposition: Option<Disposition>, source: Option<BoxError>) -> Self {
        Self { disposition, kind: None, source }
    }

    /// A failure worth another attempt, as any other error is.
    pub fn new(error: impl Into<BoxError>) -> Self {
        Self::with(None, Some(error.into()))
    }

    /// Another attempt would fail too: the job is dead at once.
    pub fn permanent(error: impl Into<BoxError>) -> Self {
        Self::with(Some(Disposition::Permanent), Some(error.into()))
    }

    /// The job's payload is none that its handler can read.
    pub(crate) fn invalid_payload(error: serde_json::Error) -> Self {
        Self::permanent(error).kind("invalid-payload")
    }

    /// Another attempt after this time instead of the backoff, as a provider's `Retry-After` asks.
    #[must_use]
    pub fn retry_after(wait: Duration) -> Self {
        Self::with(Some(Disposition::RetryAfter(wait)), None)
    }

    /// Not now: the job waits so long, and no attempt is used.
    #[must_use]
    pub fn snooze(wait: Duration) -> Self {
        Self::with(Some(Disposition::Snooze(wait)), None)
    }

    /// With the error behind it.
    #[must_use]
    pub fn because(mut self, error: impl Into<BoxError>) -> Self {
        self.source = Some(error.into());
        self
    }

    /// With a word for it, as in `ProviderTimeout`: dead jobs are grouped by it. By default it is the name of
    /// the handler's error type.
    #[must_use]
    pub fn kind(mut self, kind: &str) -> Self {
        self.kind = Some(kind.into());
        self
    }

    /// Whatever a handler or a layer returned.
    pub(crate) fn of<E: Into<BoxError> + 'static>(error: E) -> Self {
        match error.into().downcast::<Self>() {
            Ok(own) => *own,
            Err(other) => Self { disposition: None, kind: type_word::<E>(), source: Some(other) },
        }
    }

    /// The errors behind it, outermost first.
    fn chain(&self) -> impl Iterator<Item = &(dyn StdError + 'static)> {
        std::iter::successors(StdError::source(self), |error| (*error).source())
    }

    pub(crate) fn disposition(&self, classifiers: &[Classifier]) -> Disposition {
        let said = |error: &(dyn StdError + 'static)| match error.downcast_ref::<Self>() {
            Some(inner) => inner.disposition,
            None => classifiers.iter().find_map(|classifier| classifier(error)),
        };
        self.disposition.or_else(|| self.chain().find_map(said)).unwrap_or(Disposition::Retry)
    }

    pub(crate) fn word(&self) -> &str {
        let inner = || self.chain().find_map(|error| error.downcast_ref::<Self>()?.kind.as_deref());
        self.kind.as_deref().or_else(inner).unwrap_or("error")
    }

    /// The messages of all of them, those said already left out.
    pub(crate) fn message(&self) -> String {
        let mut text = String::new();
        for error in self.chain() {
            let message = error.to_string();
            if !text.contains(&message) {
                text.push_str(if text.is_empty() { "" } else { ": " });
                text.push_str(&message);
            }
        }
        text
    }
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.source, self.disposition) {
            (Some(source), _) => source.fmt(f),
            (None, Some(Disposition::RetryAfter(wait))) => write!(f, "again in {wait:?}"),
            (None, Some(Disposition::Snooze(wait))) => write!(f, "snoozed for {wait:?}"),
            (None, _) => f.write_str("failed"),
        }
    }
}

impl StdError for JobError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}

pub(crate) type Classifier = fn(&(dyn StdError + 'static)) -> Option<Disposition>;

pub(crate) fn classifier<E: Classify>() -> Classifier {
    |error| error.downcast_ref::<E>().map(Classify::disposition)
}

/// The last part of a type's name; `None` for types that hold any error and so say nothing.
fn type_word<E>() -> Option<Box<str>> {
    let name = std::any::type_name::<E>();
    let path = name.split('<').next().unwrap_or(name);
    let word = path.rsplit("::").next().unwrap_or(path);
    let says_nothing = matches!(word, "Box" | "String" | "&str" | "str" | "Error");
    (!says_nothing).then(|| word.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the mailbox does not exist")]
    struct NoSuchMailbox;

    impl Classify for NoSuchMailbox {
        fn disposition(&self) -> Disposition {
            Disposition::Permanent
        }
    }

    #[derive(Debug, thiserror::Error)]
    #[error("sending failed")]
    struct SendError(#[source] NoSuchMailbox);

    #[test]
    fn any_error_is_worth_another_attempt_unless_it_says_otherwise() {
        let known = [classifier::<NoSuchMailbox>()];
        let boxed = |error: JobError| -> BoxError { Box::new(error) };
        for (error, expected, word) in [
            (JobError::of("plain"), Disposition::Retry, "error"),
            (JobError::of(SendError(NoSuchMailbox)), Disposition::Permanent, "SendError"),
            (JobError::of(JobError::permanent("no").kind("Gone")), Disposition::Permanent, "Gone"),
            (
                JobError::of(boxed(JobError::snooze(Duration::from_secs(1)))),
                Disposition::Snooze(Duration::from_secs(1)),
                "error",
            ),
            (JobError::of(JobError::new(NoSuchMailbox)), Disposition::Permanent, "error"),
            (
                JobError::retry_after(Duration::from_secs(9)).because(NoSuchMailbox),
                Disposition::RetryAfter(Duration::from_secs(9)),
                "error",
            ),
        ] {
            assert_eq!((error.disposition(&known), error.word()), (expected, word), "{error:?}");
        }
        assert_eq!(JobError::of(SendError(NoSuchMailbox)).message(), "sending failed: the mailbox does not exist");
    }
}
