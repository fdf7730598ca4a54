//! Why a call has no answer.

use std::path::PathBuf;
use std::sync::Arc;

use recado_contract::problem::Problem;

/// The source of an error, whatever it is.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a call has no answer. It is the same over an embedded queue and over a server.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The queue said no, and nothing was changed. Match on [`Problem::code`].
    #[error("refused ({}): {}", .0.code(), .0.detail())]
    Refused(Problem),
    /// The queue cannot answer now (`overloaded`, `stopping`, `log-failed`, `not-leader`), and could not until the
    /// deadline.
    #[error("not available ({}): {}", .0.code(), .0.detail())]
    Unavailable(Problem),
    /// No connection to the server until the deadline. What was asked was not done.
    #[error("the server cannot be reached at {url}: {source}")]
    Unreachable {
        /// Where it should be.
        url: Arc<str>,
        /// What the last attempt met.
        source: Arc<reqwest::Error>,
    },
    /// The connection broke before the answer came, or something before the server answered a 5xx for it, and
    /// the repeats met no better: whether it was done is unknown.
    #[error("the answer of {url} was lost, the outcome is unknown: {source}")]
    AnswerLost {
        /// Who was asked.
        url: Arc<str>,
        /// What an attempt met.
        source: Arc<reqwest::Error>,
    },
    /// An answer that is none of this contract: perhaps something else listens there. The outcome is unknown.
    #[error("{url} does not answer like a Recado server: {what}")]
    Protocol {
        /// Who was asked.
        url: Arc<str>,
        /// What is wrong with the answer.
        what: Arc<str>,
    },
    /// The runtime that was to send it has ended; the outcome is unknown.
    #[error("the runtime ended while a call was under way, the outcome is unknown")]
    RuntimeEnded,
    /// The address is none.
    #[error("`{url}` is not the address of a server: {why}; write http://host:port")]
    Url {
        /// As it was given.
        url: Arc<str>,
        /// What is wrong.
        why: Arc<str>,
    },
    /// The data directory of an embedded queue cannot be opened.
    #[error("cannot open {}: {source}", dir.display())]
    Open {
        /// The directory.
        dir: PathBuf,
        /// Why.
        source: Arc<recado_shard::OpenError>,
    },
    /// A job or result cannot be written as JSON, or a result is none of its type.
    #[error("{what}: {source}")]
    Json {
        /// What was to be written or read.
        what: &'static str,
        /// Why.
        source: Arc<serde_json::Error>,
    },
}

impl Error {
    /// The stable code of a refusal, as in `queue-full`; `None` where nobody answered.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Refused(problem) | Self::Unavailable(problem) => Some(problem.code()),
            _ => None,
        }
    }

    /// Whether it may have been done all the same.
    #[must_use]
    pub fn is_outcome_unknown(&self) -> bool {
        match self {
            Self::AnswerLost { .. } | Self::Protocol { .. } | Self::RuntimeEnded => true,
            Self::Refused(problem) | Self::Unavailable(problem) => {
                matches!(problem.code(), "stopping" | "log-failed" | "internal")
            }
            _ => false,
        }
    }

    /// Whether the same call may succeed in a moment without anyone doing anything.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Unreachable { .. } | Self::AnswerLost { .. })
    }

    /// Whether a worker may as well give up: everything else may pass, if only when someone does something.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self, Self::Refused(problem) if matches!(problem.status(), 401 | 403 | 503))
    }

    /// Whether an answer did not come in time.
    pub(crate) fn is_timeout(&self) -> bool {
        matches!(self, Self::AnswerLost { source, .. } if source.is_timeout())
    }

    /// What a refusal or an unavailable queue becomes.
    pub(crate) fn from_problem(problem: Problem) -> Self {
        match problem.status() {
            408 | 502..=504 => Self::Unavailable(problem),
            _ => Self::Refused(problem),
        }
    }

    pub(crate) fn json(what: &'static str) -> impl FnOnce(serde_json::Error) -> Self {
        move |source| Self::Json { what, source: Arc::new(source) }
    }
}

impl From<recado_shard::Error> for Error {
    fn from(error: recado_shard::Error) -> Self {
        // The shard of this process does not come back: waiting is no use.
        let is_final = matches!(error, recado_shard::Error::LogFailed { .. } | recado_shard::Error::Stopping);
        let problem = Problem::from(error);
        if is_final { Self::Refused(problem) } else { Self::from_problem(problem) }
    }
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        Self::from_problem(problem)
    }
}
