//! How everyone else talks to a shard.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use recado_core::{
    Actor, Answer, Command, Condition, Delivered, Enqueue, HeldBack, JobId, JobView, NewTask, Place, Query, Receive,
    Rejection, Reply, SavedAnswer, Secret, Settle, Settled, TaskView,
};
use recado_log::Backup;
use tokio::sync::oneshot;

use crate::error::{Error, Unread};
use crate::feed::Listener;
use crate::fill::{self, FilledJob, Moved, Pattern, Unreadable};
use crate::guard::DeliveryGuard;
use crate::inbox::{Gate, Promise, Request, SettleRequest};
use crate::parked::Decided;
use crate::shared::Shared;
use crate::status::Status;
use crate::waiters::ReceiveRequest;

/// A shard, from outside: cheap to clone, usable from any thread and any async runtime (see
/// [`crate::block_on`] for none). Every answer leaves only once all it was decided on is committed.
#[derive(Clone)]
pub struct Handle {
    pub(crate) shared: Arc<Shared>,
}

/// The answer to a receive.
pub struct Received {
    /// One entry for each settle that came with it.
    pub settled: Vec<Result<Settled, Rejection>>,
    /// A queue was created by it.
    pub created: bool,
    /// The jobs.
    pub jobs: Vec<(Delivered, FilledJob)>,
    /// Jobs of this worker whose cancel was asked for.
    pub cancel_requested: Vec<JobId>,
    /// When empty: why, if jobs are waiting.
    pub empty_because: Option<HeldBack>,
    /// The shared limit that this is about.
    pub limit: Option<Arc<str>>,
    /// Gives the jobs back unless it is confirmed.
    pub guard: DeliveryGuard,
}

impl Handle {
    async fn ask<T>(&self, request: impl FnOnce(Promise<T>) -> Request) -> Result<T, Error> {
        let (promise, promised) = oneshot::channel();
        self.shared.inbox.push(request(promise))?;
        promised.await.unwrap_or_else(|_| Err(self.shared.gone()))
    }

    /// Decides a command; answers once it is committed.
    ///
    /// # Errors
    /// [`Error`], as for all that follow.
    pub async fn call(&self, command: Command) -> Result<Reply, Error> {
        // Kept until the answer is here, so that its memory is freed by this thread and not by the one writer.
        let command = Arc::new(command);
        let reply = self.ask(|promise| Request::Command(Arc::clone(&command), promise)).await;
        drop(command);
        reply
    }

    /// Looks at the state.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn query(&self, query: Query) -> Result<Answer, Error> {
        self.ask(|promise| Request::Query(query, promise)).await
    }

    /// Settles deliveries; the entries are independent of each other.
    ///
    /// # Errors
    /// [`Error`] when no entry was looked at.
    pub async fn settle(&self, mut entries: Vec<Settle>) -> Result<Vec<Result<Settled, Rejection>>, Error> {
        entries.reverse();
        self.ask(|promise| {
            let done = Vec::with_capacity(entries.len());
            Request::Settle(SettleRequest { entries, done, promise })
        })
        .await
    }

    /// Settles `settle`, then takes jobs, waiting up to `wait` for the first. Dropping the future before
    /// it is ready hands nothing out. A job whose bytes cannot be read is given back and left out.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn receive(&self, receive: Receive, mut settle: Vec<Settle>, wait: Duration) -> Result<Received, Error> {
        settle.reverse();
        let (decided, mut guard) = self
            .ask(|promise| {
                let settled = Vec::with_capacity(settle.len());
                Request::Receive(Box::new(ReceiveRequest { receive, settle, settled, wait, created: false, promise }))
            })
            .await?;
        let Decided { settled, created, jobs, cancel_requested, empty_because, limit, .. } = decided;
        let views = jobs.iter().map(|delivered| delivered.job.clone()).collect();
        let filled = fill::fill_jobs(&self.shared, views, true, Pattern::Drain).await?;
        let mut complete = Vec::with_capacity(jobs.len());
        for (delivered, filled) in jobs.into_iter().zip(filled) {
            let filled = match filled {
                Err(Moved) => self.fill_again(delivered.job.id, true).await,
                Ok(filled) => Ok(filled),
            };
            match filled {
                Ok(filled) if filled.unreadable.is_empty() => complete.push((delivered, filled)),
                Ok(filled) => {
                    self.report(&filled);
                    guard.give_back(delivered.job.id, true);
                }
                Err(_) => guard.give_back(delivered.job.id, false),
            }
        }
        Ok(Received { settled, created, jobs: complete, cancel_requested, empty_because, limit, guard })
    }

    /// Waits until the job has completed, is dead, cancelled or expired; answers with it as it is then,
    /// or after `wait`.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn wait_job(&self, id: JobId, wait: Duration) -> Result<JobView, Error> {
        self.ask(|promise| Request::WaitJob { id, wait, promise }).await
    }

    /// Listens to what happens from now on: to all jobs, or to everything of one.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn listen(&self, job: Option<JobId>) -> Result<Listener, Error> {
        self.ask(|promise| Request::Listen(job, promise)).await.map(|listener| *listener)
    }

    /// Starts a bulk action and answers when it has ended. It goes on if this is dropped.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn run_task(&self, task: NewTask) -> Result<TaskView, Error> {
        self.ask(|promise| Request::RunTask(task, promise)).await
    }

    /// Deletes a queue and answers when it is gone. It goes on if this is dropped.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn delete_queue(
        &self,
        queue: Box<str>,
        force: bool,
        condition: Condition,
        actor: Actor,
    ) -> Result<(), Error> {
        match self.call(Command::DeleteQueue { queue, force, condition, actor }).await? {
            Reply::Task(task) => {
                let (promise, promised) = oneshot::channel();
                self.shared.inbox.push_further(Request::WaitTask(task.id, promise))?;
                promised.await.unwrap_or_else(|_| Err(self.shared.gone())).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Reads the bytes of jobs; what cannot be read is named in [`FilledJob::unreadable`].
    ///
    /// # Errors
    /// Why the shard has ended.
    pub async fn fill(&self, jobs: Vec<JobView>, with_payload: bool) -> Result<Vec<FilledJob>, Error> {
        let ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
        let filled = fill::fill_jobs(&self.shared, jobs, with_payload, Pattern::Random).await?;
        let mut complete = Vec::with_capacity(filled.len());
        for (id, filled) in ids.into_iter().zip(filled) {
            let filled = match filled {
                Ok(filled) => filled,
                Err(Moved) => match self.fill_again(id, with_payload).await {
                    Ok(filled) => filled,
                    // It ended between the list and now.
                    Err(Error::Rejected(_)) => continue,
                    Err(error) => return Err(error),
                },
            };
            self.report(&filled);
            complete.push(filled);
        }
        Ok(complete)
    }

    /// A job has moved in the log since it was looked at: look again.
    async fn fill_again(&self, id: JobId, with_payload: bool) -> Result<FilledJob, Error> {
        let Answer::Job(view) = self.query(Query::Job(id)).await? else {
            unreachable!("asked for a job");
        };
        let place = view.payload;
        let filled = fill::fill_jobs(&self.shared, vec![*view], with_payload, Pattern::Random).await?;
        match filled.into_iter().next() {
            Some(Ok(filled)) => Ok(filled),
            Some(Err(Moved)) => Err(self.unreadable(place, &"it is not where the state says")),
            None => unreachable!("one job was asked for"),
        }
    }

    fn report(&self, job: &FilledJob) {
        for Unreadable { place, reason, .. } in &job.unreadable {
            self.shared.report_unreadable(Some(job.view.id), *place, reason);
        }
    }

    fn unreadable(&self, place: Place, reason: &dyn std::fmt::Display) -> Error {
        let reason = reason.to_string();
        self.shared.report_unreadable(None, place, &reason);
        Error::Unreadable { place, reason: reason.into() }
    }

    /// The bytes at a place.
    ///
    /// # Errors
    /// [`Error::Unreadable`], or why the shard has ended.
    pub async fn fetch(&self, place: Place) -> Result<Bytes, Error> {
        self.read(place).await?.map_err(|unread| self.unreadable(place, &unread))
    }

    async fn read(&self, place: Place) -> Result<Result<Bytes, Unread>, Error> {
        match fill::fetch_all(&self.shared, vec![place], Pattern::Random).await?.pop() {
            Some(read) => Ok(read),
            None => unreachable!("one place was asked for"),
        }
    }

    /// As [`Handle::fetch`]; `None` when what was there has moved in the log since, or is gone.
    pub(crate) async fn fetch_if_there(&self, place: Place) -> Result<Option<Bytes>, Error> {
        match self.read(place).await? {
            Err(unread) if unread.is_trimmed() => Ok(None),
            Ok(bytes) => Ok(Some(bytes)),
            Err(unread) => Err(self.unreadable(place, &unread)),
        }
    }

    /// The result of a job that [`recado_core::Duplicate`] points to; `None` when the job is gone by now.
    ///
    /// # Errors
    /// As [`Handle::fetch`].
    pub async fn result_of(&self, job: JobId, place: Place) -> Result<Option<Bytes>, Error> {
        self.place_of(job, place, |view| view.result).await
    }

    /// The last error of a job, which was at `place`; `None` when the job is gone by now.
    ///
    /// # Errors
    /// As [`Handle::fetch`].
    pub async fn error_of(&self, job: JobId, place: Place) -> Result<Option<Bytes>, Error> {
        self.place_of(job, place, |view| view.errors.last().copied()).await
    }

    /// What was at a place when its job was looked at, wherever it is now.
    async fn place_of(
        &self,
        job: JobId,
        place: Place,
        now: fn(&JobView) -> Option<Place>,
    ) -> Result<Option<Bytes>, Error> {
        if let Some(bytes) = self.fetch_if_there(place).await? {
            return Ok(Some(bytes));
        }
        match self.query(Query::Job(job)).await {
            Ok(Answer::Job(view)) => match now(&view) {
                Some(place) => self.fetch(place).await.map(Some),
                None => Ok(None),
            },
            Ok(other) => unreachable!("asked for a job, not {other:?}"),
            Err(Error::Rejected(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Enqueues and answers with what became of each job, and whether that was answered before: then it is
    /// what was saved for the request's key.
    ///
    /// # Errors
    /// As [`Handle::fetch`].
    pub async fn enqueue(&self, enqueue: Enqueue) -> Result<(SavedAnswer, bool), Error> {
        let again = enqueue.request.is_some().then(|| enqueue.clone());
        let mut command = Command::Enqueue(enqueue);
        loop {
            match self.call(command).await? {
                Reply::Enqueued { created, duplicate, jobs } => {
                    return Ok((SavedAnswer { created, duplicate, jobs }, false));
                }
                Reply::Saved(place) => {
                    if let Some(bytes) = self.fetch_if_there(place).await? {
                        return self.decode_saved(place, &bytes).map(|saved| (saved, true));
                    }
                }
                other => unreachable!("an enqueue answers enqueued, not {other:?}"),
            }
            // The answer has moved in the log since it was found: the same request finds it again.
            let Some(again) = &again else { unreachable!("only a request with a key has a saved answer") };
            command = Command::Enqueue(again.clone());
        }
    }

    fn decode_saved(&self, place: Place, bytes: &[u8]) -> Result<SavedAnswer, Error> {
        recado_core::decode_saved(bytes).map_err(|error| self.unreadable(place, &error))
    }

    /// When a producer that a full queue has refused should come back, by the rate at which it drains.
    #[must_use]
    pub fn retry_after(&self, queue: &str) -> Option<Duration> {
        let drain = self.shared.drain.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        drain.get(queue).map(|ms| Duration::from_millis(*ms))
    }

    /// When a producer that was refused for memory should come back, by the rate at which jobs complete.
    #[must_use]
    pub fn retry_after_memory(&self) -> Option<Duration> {
        let ms = self.shared.memory_retry_ms.load(Ordering::Relaxed);
        (ms > 0).then(|| Duration::from_millis(ms))
    }

    /// Figures of the shard.
    #[must_use]
    pub fn status(&self) -> Status {
        let mut status = self.shared.with_status(|status| status.clone());
        (status.queued, status.queued_max) = self.shared.inbox.fill();
        status.unreadable = self.shared.unreadable.load(Ordering::Relaxed);
        status.unpatched = self.shared.unpatched.load(Ordering::Relaxed);
        status.cached_bytes = self.shared.cache.bytes() as u64;
        match self.shared.inbox.gate() {
            Gate::Open => {}
            Gate::Stopping => status.stopping = true,
            Gate::Failed(reason) => status.failed = Some(reason),
        }
        status
    }

    /// Changes with the configuration of any queue and with any schema, before whoever changed it is answered: what was read of queues
    /// under the same version still holds for a request that comes now.
    #[must_use]
    pub fn config_version(&self) -> u64 {
        self.shared.config_version.load(Ordering::Acquire)
    }

    /// Memory that the state takes, as [`Status::memory_bytes`].
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.shared.with_status(|status| status.memory_bytes)
    }

    /// The key of receipts.
    #[must_use]
    pub fn secret(&self) -> Secret {
        self.shared.secret.get().copied().unwrap_or_default()
    }

    /// Copies the log as it is committed now into the empty directory `to`, off the writer.
    ///
    /// # Errors
    /// [`BackupError`].
    pub async fn backup(&self, to: PathBuf) -> Result<Backup, BackupError> {
        let (promise, promised) = oneshot::channel();
        let reader = Arc::clone(&self.shared.reader);
        // It may take minutes: a thread of its own keeps the readers free.
        let copy = move || drop(promise.send(reader.backup(&to)));
        std::thread::Builder::new().name("recado-backup".into()).spawn(copy).map_err(BackupError::Thread)?;
        match promised.await {
            Ok(copied) => copied.map_err(BackupError::Log),
            Err(_) => Err(BackupError::Ended),
        }
    }

    /// Resolves with the reason when the log has failed; never otherwise.
    pub async fn failed(&self) -> Arc<str> {
        let mut failed = self.shared.failed.subscribe();
        loop {
            if let Some(reason) = failed.borrow_and_update().clone() {
                return reason;
            }
            // The sender lives as long as this handle.
            if failed.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// From now on requests are refused, and long polls end with empty answers.
    pub(crate) fn begin_stop(&self) {
        self.shared.inbox.close(Gate::Stopping);
    }
}

/// Why there is no backup.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The log could not be copied.
    #[error(transparent)]
    Log(recado_log::Error),
    /// The system gave no thread.
    #[error("cannot start a thread for the backup: {0}")]
    Thread(#[source] std::io::Error),
    /// The copying thread ended without a result.
    #[error("the backup broke off: see the log of this process")]
    Ended,
}
