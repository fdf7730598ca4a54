//! A job as a worker gets it, whichever way it came.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use recado_core::JobId;

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
}
