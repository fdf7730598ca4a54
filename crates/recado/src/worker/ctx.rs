//! What a handler knows of its run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use recado_core::JobId;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::delivery::{Child, Delivery, JobFailure};
use crate::once::{Once, Step};
use crate::recado::Recado;
use crate::trace::{TRACEPARENT, TraceContext};

/// How far a run says it is, and whom it tells.
struct Progress {
    /// The bits of a share from 0 to 1.
    share: AtomicU64,
    is_told: AtomicBool,
    key: u64,
    tell: mpsc::UnboundedSender<u64>,
}

/// Why a run should stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cancelled {
    /// Someone cancelled the job. A run that still succeeds completes it; any other end cancels it.
    Requested,
    /// The lease was lost: the job went on without this run. Its end counts only if nothing has overtaken it.
    LeaseLost,
}

/// One run of one job, as its handler sees it. Cheap to clone.
#[derive(Clone)]
pub struct Ctx(Arc<Run>);

struct Run {
    delivery: Arc<Delivery>,
    payload: Box<RawValue>,
    recado: Recado,
    deadline: Option<Instant>,
    parent: Option<TraceContext>,
    trace: TraceContext,
    cancelled: CancellationToken,
    why: AtomicU8,
    progress: Progress,
}

impl Ctx {
    /// Fails when the payload is not JSON.
    pub(super) fn new(
        delivery: Arc<Delivery>,
        recado: Recado,
        deadline: Option<Instant>,
        (key, tell): (u64, mpsc::UnboundedSender<u64>),
    ) -> serde_json::Result<Self> {
        let payload = serde_json::from_slice(&delivery.payload)?;
        let (cancelled, why) = (CancellationToken::new(), AtomicU8::new(0));
        let parent = header(&delivery, TRACEPARENT).and_then(|text| TraceContext::parse(&text));
        let trace = parent.map_or_else(TraceContext::new_root, TraceContext::child);
        let progress = Progress { share: AtomicU64::new(0), is_told: AtomicBool::new(false), key, tell };
        Ok(Self(Arc::new(Run { delivery, payload, recado, deadline, parent, trace, cancelled, why, progress })))
    }

    pub(super) fn cancel(&self, why: Cancelled) {
        // A lost lease is never taken back by a cancel that comes after it.
        self.0.why.fetch_max(if why == Cancelled::LeaseLost { 2 } else { 1 }, Ordering::AcqRel);
        self.0.cancelled.cancel();
    }

    /// The job's id.
    #[must_use]
    pub fn id(&self) -> JobId {
        self.0.delivery.id
    }

    /// Its queue.
    #[must_use]
    pub fn queue(&self) -> &str {
        &self.0.delivery.queue
    }

    /// Its type.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.0.delivery.kind
    }

    /// Version of its payload's schema.
    #[must_use]
    pub fn schema_version(&self) -> u32 {
        self.0.delivery.schema_version
    }

    /// Its payload as it was enqueued, byte for byte.
    #[must_use]
    pub fn payload(&self) -> &RawValue {
        &self.0.payload
    }

    /// Which attempt this is, from 1. Deliveries that came to nothing (a release, a shutdown) do not count.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.0.delivery.attempt
    }

    /// How often the job was handed out, also what counts as no attempt.
    #[must_use]
    pub fn deliveries(&self) -> u32 {
        self.0.delivery.deliveries
    }

    /// Attempts it has in all.
    #[must_use]
    pub fn max_attempts(&self) -> u32 {
        self.0.delivery.max_attempts
    }

    /// How the attempt before this one failed.
    #[must_use]
    pub fn last_error(&self) -> Option<&JobFailure> {
        self.0.delivery.last_error.as_ref()
    }

    /// The jobs that this one waited for, in the order in which they were enqueued, and what each came to; of a batch
    /// that it ends there is no list.
    #[must_use]
    pub fn children(&self) -> &[Child] {
        &self.0.delivery.children
    }

    /// When this run is cut off: the worker's timeout or the job's own, whichever is first.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.0.deadline
    }

    /// Time left until the deadline.
    #[must_use]
    pub fn time_left(&self) -> Option<Duration> {
        self.0.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// The business object it is about.
    #[must_use]
    pub fn business_id(&self) -> Option<&str> {
        self.0.delivery.business_id.as_deref()
    }

    /// Its group.
    #[must_use]
    pub fn group(&self) -> Option<&str> {
        self.0.delivery.group.as_deref()
    }

    /// Its idempotency key.
    #[must_use]
    pub fn idempotency_key(&self) -> Option<&str> {
        self.0.delivery.idempotency_key.as_deref()
    }

    /// Grows with each delivery: give it to a database that refuses writers with a smaller one.
    #[must_use]
    pub fn fencing_token(&self) -> u64 {
        self.0.delivery.fencing_token
    }

    /// One of the job's headers, if it is a string.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<String> {
        header(&self.0.delivery, name)
    }

    /// All of its headers, as a JSON object.
    #[must_use]
    pub fn headers(&self) -> &str {
        // What the queue keeps as headers is JSON, and so UTF-8.
        std::str::from_utf8(&self.0.delivery.headers).unwrap_or("{}")
    }

    /// The place of this run in its trace: a span of the producer's trace, or of a new one. What the handler
    /// enqueues continues it.
    #[must_use]
    pub fn trace(&self) -> TraceContext {
        self.0.trace
    }

    /// The producer's place in the trace.
    #[must_use]
    pub fn parent_trace(&self) -> Option<TraceContext> {
        self.0.parent
    }

    /// What the attempt before this one last said with [`Ctx::progress`], as JSON.
    #[must_use]
    pub fn last_progress(&self) -> Option<&RawValue> {
        self.0.delivery.progress.as_deref().and_then(|json| serde_json::from_slice(json).ok())
    }

    /// Says how far the run is, from 0 to 1; people see it on the job within about a second.
    pub fn progress(&self, share: f64) {
        let Progress { share: said, is_told, key, tell } = &self.0.progress;
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
        said.store(share.to_bits(), Ordering::Release);
        if !is_told.swap(true, Ordering::AcqRel) {
            // Nobody listens any more when the worker has stopped.
            let _ = tell.send(*key);
        }
    }

    pub(super) fn take_progress(&self) -> f64 {
        self.0.progress.is_told.store(false, Ordering::Release);
        f64::from_bits(self.0.progress.share.load(Ordering::Acquire))
    }

    /// Resolves when the run should stop: the job was cancelled, or its lease was lost.
    pub async fn cancelled(&self) -> Cancelled {
        self.0.cancelled.cancelled().await;
        self.is_cancelled().unwrap_or(Cancelled::Requested)
    }

    /// Whether the run should stop, and why.
    #[must_use]
    pub fn is_cancelled(&self) -> Option<Cancelled> {
        match self.0.why.load(Ordering::Acquire) {
            0 => None,
            1 => Some(Cancelled::Requested),
            _ => Some(Cancelled::LeaseLost),
        }
    }

    /// A key for a provider that accepts idempotency keys: the same for every run of this job, and of every job
    /// of its queue with the same idempotency key; another one for each `step`. 35 characters.
    #[must_use]
    pub fn provider_key(&self, step: &str) -> String {
        let id = self.id().to_string();
        let (domain, what) = match self.idempotency_key() {
            Some(key) => ("key", key),
            None => ("job", id.as_str()),
        };
        let mut hash = Sha256::new();
        for part in [domain, self.queue(), what, step] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        hash.finalize()[..16].iter().fold("rk-".to_owned(), |text, byte| text + &format!("{byte:02x}"))
    }

    /// Does a step of this job at most once successfully, whatever number of deliveries and crashes the job goes
    /// through: later runs get the saved result, for as long as the job is there, dead included. Await it; see
    /// [`crate::once`].
    ///
    /// Each step has a name of its own in the job, of at most 219 bytes. A worker that has lost the job begins none.
    pub fn once<'a, F>(&self, step: &str, work: F) -> Once<'a, F> {
        let step = Step::of_job(self.queue(), self.id(), &self.0.delivery.receipt, step);
        Once::new(self.0.recado.once_store(), step, work)
    }

    /// The queue this job came from, to enqueue what follows.
    #[must_use]
    pub fn recado(&self) -> &Recado {
        &self.0.recado
    }
}

fn header(delivery: &Delivery, name: &str) -> Option<String> {
    if &*delivery.headers == b"{}" {
        return None;
    }
    let headers: serde_json::Value = serde_json::from_slice(&delivery.headers).ok()?;
    headers.get(name)?.as_str().map(str::to_owned)
}
