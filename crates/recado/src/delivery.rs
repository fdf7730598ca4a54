//! A job as a worker gets it, whichever way it came.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use recado_core::JobId;

use crate::error::Error;
use crate::job::Job;

/// One failure of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobFailure {
    /// Which attempt failed, from 1.
    pub attempt: u32,
    /// The worker's word for it, or one of Recado's own, as in `visibility-timeout`.
    pub kind: Box<str>,
    /// Text for people.
    pub message: Box<str>,
    /// It was worth another try.
    pub retryable: bool,
}

/// A job that another one waited for, and what it came to.
#[derive(Clone, Debug)]
pub struct Child {
    pub(crate) id: JobId,
    pub(crate) state: Box<str>,
    pub(crate) result: Option<Bytes>,
}

impl Child {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> JobId {
        self.id
    }

    /// `completed dead cancelled expired`, or `purged`; of one that has not ended, since its parent was replayed, the
    /// state it is in.
    #[must_use]
    pub fn state(&self) -> &str {
        &self.state
    }

    /// What its run answered, if it has completed. It is kept for its parent, whatever becomes of the child.
    ///
    /// # Errors
    /// [`Error::Json`] when it is no `J::Output`.
    pub fn result<J: Job>(&self) -> Result<Option<J::Output>, Error> {
        if self.state() != "completed" {
            return Ok(None);
        }
        let json = self.result.as_deref().unwrap_or(b"null");
        serde_json::from_slice(json).map(Some).map_err(Error::json("the result is none of this type"))
    }
}

/// The jobs that a job waits for, counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChildCounts {
    /// All.
    pub total: u32,
    /// Those that have not ended.
    pub pending: u32,
    /// Those that have completed.
    pub completed: u32,
    /// Those that are dead, cancelled, expired or purged.
    pub failed: u32,
}

/// A delivery. Instants are milliseconds since the Unix epoch on the server's clock.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub(crate) id: JobId,
    pub(crate) queue: Arc<str>,
    pub(crate) kind: Arc<str>,
    pub(crate) schema_version: u32,
    /// JSON text, as it was enqueued.
    pub(crate) payload: Bytes,
    /// JSON object.
    pub(crate) headers: Bytes,
    pub(crate) business_id: Option<Box<str>>,
    pub(crate) group: Option<Box<str>>,
    pub(crate) idempotency_key: Option<Box<str>>,
    pub(crate) attempt: u32,
    pub(crate) max_attempts: u32,
    pub(crate) deliveries: u32,
    pub(crate) last_error: Option<JobFailure>,
    /// JSON text of the last attempt's progress.
    pub(crate) progress: Option<Bytes>,
    pub(crate) receipt: Box<str>,
    pub(crate) fencing_token: u64,
    pub(crate) visible_at: u64,
    /// From when the answer was written until `visible_at`: what of it can be compared with a clock here.
    pub(crate) visible_for: Duration,
    pub(crate) timeout_at: Option<u64>,
    /// The jobs that it waited for.
    pub(crate) children: Vec<Child>,
}
