//! Putting jobs in a queue.

use std::collections::BTreeMap;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use recado_core::{Dedup, JobId, NewBatch, NewJob, NewRelative, NewTies, OnChildDead, OnDuplicate, When};

use crate::backend::Placed;
use crate::error::Error;
use crate::job::{Job, millis};
use crate::recado::Recado;
use crate::trace::{TRACEPARENT, TraceContext};

/// A job that is in its queue, durably.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Enqueued {
    /// Its id. `None` only over a server, when the connection broke before the first answer and the repeat
    /// found the job there already: it is in, once, but its id was in the lost answer.
    pub id: Option<JobId>,
    /// A job with the same deduplication key was there; `id` is that one's.
    pub deduplicated: bool,
    /// Its children, in order; none where `id` is, or where the job was there.
    pub children: Vec<Enqueued>,
}

impl Enqueued {
    pub(crate) fn new(placed: Option<Placed>) -> Self {
        let Some(Placed { id, deduplicated, children }) = placed else {
            return Self { id: None, deduplicated: false, children: Vec::new() };
        };
        Self { id: Some(id), deduplicated, children: children.into_iter().map(|it| Self::new(Some(it))).collect() }
    }
}

/// An enqueue under construction: await it.
#[must_use = "nothing is enqueued before it is awaited"]
pub struct Enqueue<'r> {
    recado: &'r Recado,
    queue: Box<str>,
    job: Result<NewJob, Error>,
    headers: BTreeMap<String, String>,
}

impl<'r> Enqueue<'r> {
    pub(crate) fn new<J: Job>(recado: &'r Recado, job: &J) -> Self {
        Self { recado, queue: J::QUEUE.into(), job: new_job(job), headers: BTreeMap::new() }
    }

    fn set(mut self, set: impl FnOnce(&mut NewJob)) -> Self {
        if let Ok(job) = &mut self.job {
            set(job);
        }
        self
    }

    /// Into this queue instead of [`Job::QUEUE`].
    pub fn queue(mut self, queue: &str) -> Self {
        self.queue = queue.into();
        self
    }

    /// Not before so long from now, at most 365 days.
    pub fn delay(self, delay: Duration) -> Self {
        self.set(|job| job.when = When::After(millis(delay)))
    }

    /// Not before this instant; one in the past is now.
    pub fn run_at(self, at: SystemTime) -> Self {
        let at = at.duration_since(UNIX_EPOCH).map_or(0, millis);
        self.set(|job| job.when = When::At(at))
    }

    /// Higher first; 0 unless set.
    pub fn priority(self, priority: u8) -> Self {
        self.set(|job| job.priority = priority)
    }

    /// Jobs that belong together, as of one tenant: ordered, served fairly or limited together.
    pub fn group(self, group: &str) -> Self {
        self.set(|job| job.group = Some(group.into()))
    }

    /// The business object it is about, to find it by.
    pub fn business_id(self, id: &str) -> Self {
        self.set(|job| job.business_id = Some(id.into()))
    }

    /// No second job with this key while the first is unfinished: the enqueue answers with the first.
    pub fn dedup(self, key: &str) -> Self {
        self.dedup_with(key, None, OnDuplicate::Keep)
    }

    /// As [`Enqueue::dedup`], for a fixed time (`None` is as long as the first is unfinished), and with what
    /// becomes of the second.
    pub fn dedup_with(self, key: &str, lasts: Option<Duration>, on_duplicate: OnDuplicate) -> Self {
        self.set(|job| job.dedup = Some(Dedup { key: key.into(), for_ms: lasts.map(millis), on_duplicate }))
    }

    /// Of all jobs of the queue with this key one runs; the others complete with its result.
    pub fn idempotency_key(self, key: &str) -> Self {
        self.set(|job| job.idempotency_key = Some(key.into()))
    }

    /// Gone, as expired, unless a worker received it within this time.
    pub fn expires_after(self, time: Duration) -> Self {
        self.set(|job| job.expires_after_ms = Some(millis(time)))
    }

    /// A job that this one waits for: it runs once all of its children have ended, and reads what they answered with
    /// [`Ctx::children`](crate::Ctx::children). At most 1,000, which may have children of their own.
    pub fn child(self, child: Enqueue<'_>) -> Self {
        self.relate(child, |ties, child| ties.children.push(child))
    }

    /// What becomes of this job when a child is dead, cancelled, expired or purged; it is dead too unless set.
    pub fn on_child_dead(self, what: OnChildDead) -> Self {
        self.set(|job| job.ties.get_or_insert_default().on_child_dead = what)
    }

    /// Of the open batch with this id, or the first of a new one: `on_complete` runs once all of its jobs have ended,
    /// whatever became of them.
    pub fn batch(self, id: &str, on_complete: Enqueue<'_>) -> Self {
        self.relate(on_complete, |ties, last| {
            ties.batch = Some(NewBatch { id: id.into(), on_complete: Some(last) });
        })
    }

    /// Of the open batch with this id, as a job of the batch may say that enqueues another one.
    pub fn in_batch(self, id: &str) -> Self {
        self.set(|job| job.ties.get_or_insert_default().batch = Some(NewBatch { id: id.into(), on_complete: None }))
    }

    fn relate(mut self, other: Enqueue<'_>, tie: impl FnOnce(&mut NewTies, NewRelative)) -> Self {
        match other.relative() {
            Ok(relative) => self.set(|job| tie(job.ties.get_or_insert_default(), relative)),
            Err(error) => {
                self.job = self.job.and(Err(error));
                self
            }
        }
    }

    fn relative(self) -> Result<NewRelative, Error> {
        let job = NewJob { headers: headers(self.headers)?, ..self.job? };
        Ok(NewRelative { queue: Some(self.queue), job })
    }

    /// An entry of the job's headers, which workers see; at most 32 and 8 KiB. `traceparent` says which trace the
    /// job belongs to; what a handler enqueues continues its own unless this says otherwise.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.insert(name.to_owned(), value.to_owned());
        self
    }
}

impl<'r> IntoFuture for Enqueue<'r> {
    type Output = Result<Enqueued, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'r>>;

    /// # Errors
    /// [`Error::Refused`] with what is wrong (`invalid-request`, `payload-too-large`, `queue-full`, ..), or why
    /// the queue could not be reached until the deadline. A repeat by this library makes no second job.
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let mut job = self.job?;
            job.headers = headers(self.headers)?;
            let mut placed = self.recado.place(&self.queue, vec![job]).await.map_err(single)?;
            Ok(placed.pop().unwrap_or_else(|| Enqueued::new(None)))
        })
    }
}

/// Several jobs of one type, all in or none: await it.
#[must_use = "nothing is enqueued before it is awaited"]
pub struct EnqueueAll<'r> {
    recado: &'r Recado,
    queue: Box<str>,
    jobs: Result<Vec<NewJob>, Error>,
}

impl<'r> EnqueueAll<'r> {
    pub(crate) fn new<J: Job>(recado: &'r Recado, jobs: impl IntoIterator<Item = J>) -> Self {
        let jobs = jobs.into_iter().map(|job| new_job(&job)).collect();
        Self { recado, queue: J::QUEUE.into(), jobs }
    }

    /// Into this queue instead of [`Job::QUEUE`].
    pub fn queue(mut self, queue: &str) -> Self {
        self.queue = queue.into();
        self
    }

    /// Not before so long from now, at most 365 days.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.jobs.iter_mut().flatten().for_each(|job| job.when = When::After(millis(delay)));
        self
    }

    /// Of the open batch with this id, or the first of a new one: `on_complete` runs once all of its jobs have ended,
    /// whatever became of them.
    pub fn batch(mut self, id: &str, on_complete: Enqueue<'_>) -> Self {
        match on_complete.relative() {
            Ok(last) => {
                // The first of a batch says what ends it.
                let mut last = Some(last);
                self.jobs.iter_mut().flatten().for_each(|job| {
                    let batch = NewBatch { id: id.into(), on_complete: last.take() };
                    job.ties.get_or_insert_default().batch = Some(batch);
                });
            }
            Err(error) => self.jobs = self.jobs.and(Err(error)),
        }
        self
    }

    /// Higher first; 0 unless set.
    pub fn priority(mut self, priority: u8) -> Self {
        self.jobs.iter_mut().flatten().for_each(|job| job.priority = priority);
        self
    }
}

impl<'r> IntoFuture for EnqueueAll<'r> {
    type Output = Result<Vec<Enqueued>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'r>>;

    /// # Errors
    /// As [`Enqueue`]; [`Problem::errors`](crate::Problem::errors) names each bad entry by its index. At most
    /// 10,000 jobs and 16 MiB.
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let mut jobs = self.jobs?;
            let headers = headers(BTreeMap::new())?;
            jobs.iter_mut().for_each(|job| job.headers.clone_from(&headers));
            self.recado.place(&self.queue, jobs).await
        })
    }
}

fn new_job<J: Job>(job: &J) -> Result<NewJob, Error> {
    Ok(NewJob {
        kind: J::NAME.into(),
        schema_version: J::SCHEMA_VERSION,
        payload: serde_json::to_vec(job).map_err(Error::json("this job cannot be written as JSON"))?,
        overrides: J::options().overrides(),
        ..NewJob::default()
    })
}

fn headers(mut own: BTreeMap<String, String>) -> Result<Option<Vec<u8>>, Error> {
    if let Some(trace) = TraceContext::current() {
        own.entry(TRACEPARENT.to_owned()).or_insert_with(|| trace.to_string());
    }
    let write = || serde_json::to_vec(&own).map_err(Error::json("these headers cannot be written"));
    (!own.is_empty()).then(write).transpose()
}

/// A refusal of one job names no place in an array.
fn single(error: Error) -> Error {
    match error {
        Error::Refused(problem) => Error::Refused(problem.single()),
        other => other,
    }
}
