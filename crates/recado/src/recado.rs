//! The handle that a program holds.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use recado_contract::faults::Faults;
use recado_contract::job;
use recado_contract::limits::{BATCH_BYTES_MAX, BATCH_JOBS_MAX, WAIT_MS_MAX};
use recado_contract::name::check_name;
use recado_contract::problem::{Code, Problem};
use recado_core::{JobId, NewJob};
use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::backend::{Backend, ConnectOptions, Embedded, JobNow, OpenOptions, Remote};
use crate::delivery::{ChildCounts, JobFailure};
use crate::enqueue::{Enqueue, EnqueueAll, Enqueued};
use crate::error::Error;
use crate::job::Job;
use crate::once::{Once, QueueStore, Step, Store};

/// A queue, in this process or on a server. Cheap to clone. Connections to a server live on the Tokio runtime that
/// made them: a program with several runtimes connects once in each.
#[derive(Clone)]
pub struct Recado {
    backend: Arc<Backend>,
}

impl Recado {
    /// Opens the queue that is kept in `dir` (made if it is not there), after recovery. One process at a time.
    ///
    /// # Errors
    /// [`Error::Open`].
    pub async fn open(dir: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_with(dir, OpenOptions::default()).await
    }

    /// As [`Recado::open`], with options.
    ///
    /// # Errors
    /// [`Error::Open`].
    pub async fn open_with(dir: impl AsRef<Path>, options: OpenOptions) -> Result<Self, Error> {
        let embedded = Embedded::open(dir.as_ref().to_path_buf(), options).await?;
        Ok(Self::over(Backend::Embedded(embedded)))
    }

    /// Uses the server at `url`, as in `http://127.0.0.1:7070`. It need not be there yet: each call goes on
    /// trying until its deadline.
    ///
    /// # Errors
    /// [`Error::Url`].
    pub async fn connect(url: &str) -> Result<Self, Error> {
        Self::connect_with(url, ConnectOptions::default()).await
    }

    /// As [`Recado::connect`], with options.
    ///
    /// # Errors
    /// [`Error::Url`].
    #[allow(clippy::unused_async)] // the same shape as `open_with`
    pub async fn connect_with(url: &str, options: ConnectOptions) -> Result<Self, Error> {
        Ok(Self::over(Backend::Remote(Remote::new(url, options)?)))
    }

    pub(crate) fn over(backend: Backend) -> Self {
        Self { backend: Arc::new(backend) }
    }

    pub(crate) fn backend(&self) -> &Backend {
        &self.backend
    }

    /// Enqueues a job: set what differs from its type's defaults, and await.
    pub fn enqueue<J: Job>(&self, job: J) -> Enqueue<'_> {
        Enqueue::new(self, &job)
    }

    /// Enqueues jobs of one type, all or none: await it.
    pub fn enqueue_all<J: Job>(&self, jobs: impl IntoIterator<Item = J>) -> EnqueueAll<'_> {
        EnqueueAll::new(self, jobs)
    }

    /// Checks jobs as every edge does, then places them.
    pub(crate) async fn place(&self, queue: &str, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, Error> {
        check(queue, &jobs)?;
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let placed = self.backend.enqueue(queue, jobs).await?;
        Ok(placed.into_iter().map(Enqueued::new).collect())
    }

    /// A job as it is now.
    ///
    /// # Errors
    /// [`Error::Refused`] `gone` when it is not there any more.
    pub async fn job(&self, id: JobId) -> Result<JobStatus, Error> {
        self.backend.job(id, Duration::ZERO).await.map(JobStatus)
    }

    /// Waits until a job has completed, is dead, cancelled or expired, at most so long; answers with it as it is
    /// then.
    ///
    /// # Errors
    /// As [`Recado::job`].
    pub async fn wait(&self, id: JobId, at_most: Duration) -> Result<JobStatus, Error> {
        let give_up = Instant::now().checked_add(at_most);
        let longest = Duration::from_millis(WAIT_MS_MAX);
        loop {
            let left = give_up.map_or(longest, |at| at.saturating_duration_since(Instant::now()));
            let job = self.backend.job(id, left.min(longest)).await.map(JobStatus)?;
            if job.has_ended() || give_up.is_some_and(|at| at <= Instant::now()) {
                return Ok(job);
            }
        }
    }

    /// Jobs of a type in a queue that are in one of these states (as [`JobStatus::state`] names them; without any,
    /// in any), at most 1000.
    ///
    /// # Errors
    /// [`Error::Refused`] `not-found` when there is no such queue, `invalid-request` when there is no such state.
    pub async fn jobs<J: Job>(&self, queue: &str, states: &[&str]) -> Result<Vec<JobStatus>, Error> {
        check_name(queue).map_err(|message| Error::Refused(Problem::name(message)))?;
        let states = states.iter().map(|word| job::state(word)).collect::<Result<Vec<_>, _>>();
        let states = states.map_err(|message| Error::Refused(Problem::field("/states", message)))?;
        let jobs = self.backend.jobs(queue, J::NAME, &states).await?;
        Ok(jobs.into_iter().map(JobStatus).collect())
    }

    /// Stops a job: it will not run, and if it runs its worker is told.
    ///
    /// # Errors
    /// [`Error::Refused`] `job-not-waiting` when it has ended, `gone` when it is not there.
    pub async fn cancel(&self, id: JobId) -> Result<(), Error> {
        self.backend.cancel(id, None).await
    }

    /// Does a step at most once successfully, across processes and crashes: whoever calls first does it, and
    /// everyone else gets its saved result, for `ttl` after the success. Await it; see [`crate::once`].
    ///
    /// The queue must be there: the first enqueue makes it.
    pub fn once<'a, F>(&self, queue: &str, key: &str, ttl: Duration, work: F) -> Once<'a, F> {
        Once::new(self.once_store(), Step::new(queue, key).keep_for(ttl), work)
    }

    /// The queue as a store of steps.
    #[must_use]
    pub fn once_store(&self) -> Arc<dyn Store> {
        Arc::new(QueueStore(Arc::clone(&self.backend)))
    }

    /// Ends an embedded queue after all that was answered is durable: its directory can be opened again. Every
    /// clone of this handle is then refused with `stopping`. Over a server there is nothing to do.
    ///
    /// # Errors
    /// [`Error::Refused`] `log-failed` when the disk failed.
    pub async fn close(&self) -> Result<(), Error> {
        self.backend.close().await
    }
}

fn check(queue: &str, jobs: &[NewJob]) -> Result<(), Error> {
    check_name(queue).map_err(|message| Error::Refused(Problem::name(message)))?;
    let all: usize = jobs.iter().map(NewJob::family_size).sum();
    if all > BATCH_JOBS_MAX {
        let message = format!("a batch has at most {BATCH_JOBS_MAX} jobs, children included");
        let problem = Problem::new(Code::RequestTooLarge, message);
        return Err(Error::Refused(problem.sized(BATCH_JOBS_MAX as u64, Some(all as u64))));
    }
    let bytes: usize = jobs.iter().map(NewJob::family_bytes).sum();
    if bytes > BATCH_BYTES_MAX {
        let problem = Problem::too_large(Code::RequestTooLarge, "a batch has", BATCH_BYTES_MAX, Some(bytes));
        return Err(Error::Refused(problem));
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, crate::job::millis);
    let mut faults = Faults::default();
    for (index, new) in jobs.iter().enumerate() {
        faults.entry(Some(index));
        job::check(new, now, &mut faults);
        job::check_set_of(new, &mut faults);
    }
    faults.finish().map_err(Error::Refused)
}

/// A job, as it was when it was asked for.
#[derive(Clone, Debug)]
pub struct JobStatus(pub(crate) JobNow);

impl JobStatus {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> JobId {
        self.0.id
    }

    /// Its queue.
    #[must_use]
    pub fn queue(&self) -> &str {
        &self.0.queue
    }

    /// Its type.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.0.kind
    }

    /// Version of its payload's schema.
    #[must_use]
    pub fn schema_version(&self) -> u32 {
        self.0.schema_version
    }

    /// `ready delayed blocked inFlight completed dead cancelled expired`; a newer server may know others.
    #[must_use]
    pub fn state(&self) -> &str {
        &self.0.state
    }

    /// Nothing happens to it any more by itself.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        matches!(self.state(), "completed" | "dead" | "cancelled" | "expired")
    }

    /// Attempts that count.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.0.attempts
    }

    /// Hand-outs, also those that count as no attempt.
    #[must_use]
    pub fn deliveries(&self) -> u32 {
        self.0.deliveries
    }

    /// Why it is ready and yet not handed out, as in `no-capable-worker`.
    #[must_use]
    pub fn held_back(&self) -> Option<&str> {
        self.0.held_back.as_deref()
    }

    /// Its failures, the first and the last ten.
    #[must_use]
    pub fn errors(&self) -> &[JobFailure] {
        &self.0.errors
    }

    /// What its run answered, once it has completed.
    ///
    /// # Errors
    /// [`Error::Json`] when it is no `J::Output`.
    pub fn result<J: Job>(&self) -> Result<Option<J::Output>, Error> {
        if self.state() != "completed" {
            return Ok(None);
        }
        let json = self.0.result.as_deref().unwrap_or(b"null");
        serde_json::from_slice(json).map(Some).map_err(Error::json("the result is none of this type"))
    }

    /// The jobs that it waits for, or waited, counted.
    #[must_use]
    pub fn children(&self) -> Option<ChildCounts> {
        self.0.children
    }

    /// How far its run said it is, as JSON.
    #[must_use]
    pub fn progress(&self) -> Option<&RawValue> {
        self.0.progress.as_deref().and_then(|json| serde_json::from_slice(json).ok())
    }

    /// Its payload.
    ///
    /// # Errors
    /// [`Error::Json`] when it is no `J`.
    pub fn payload<J: Job>(&self) -> Result<J, Error> {
        serde_json::from_slice(&self.0.payload).map_err(Error::json("the payload is none of this type"))
    }
}
