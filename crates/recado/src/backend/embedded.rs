//! A shard in this process.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use recado_contract::faults::Faults;
use recado_contract::gate::{self, Gate, Warned};
use recado_contract::limits::PAGE_MAX;
use recado_contract::problem::Problem;
use recado_contract::schema::Schemas;
use recado_core::{
    Actor, Answer, Cancel, CancelTarget, Cancelled, ChildView, Command, Delivered, Enqueue, ErrorEntry, JobId,
    JobState, JobsQuery, NewJob, Page, Query, Receive, Rejection, Reply, Settle,
};
use recado_log::Durability;
use recado_shard::{Clock, FileOptions, FilledJob, Handle, OpenError, Service, SystemClock};

use super::{JobNow, Placed, Received, SettleAnswer, Settled, Times};
use crate::delivery::{Child, ChildCounts, Delivery, JobFailure};
use crate::error::Error;

/// How an embedded queue is kept.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OpenOptions {
    /// False: what was acknowledged survives the end of the process, but not a loss of power. True by default.
    pub is_power_safe: bool,
    /// Payloads kept in memory, in bytes; 64 MiB by default.
    pub payload_cache_bytes: usize,
    /// Memory of all jobs at which producers are refused, in bytes; 1 GiB by default.
    pub memory_bytes: u64,
    /// Unit in which the log grows, in bytes; 64 MiB by default. An existing directory keeps its own.
    pub segment_bytes: u64,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            is_power_safe: true,
            payload_cache_bytes: 64 << 20,
            memory_bytes: 1 << 30,
            segment_bytes: FileOptions::default().segment_bytes,
        }
    }
}

pub(crate) struct Embedded {
    pub(crate) handle: Handle,
    clock: Arc<dyn Clock>,
    service: Mutex<Option<Service>>,
    /// What each queue asks of its jobs.
    gate: Gate,
}

impl Embedded {
    pub(crate) async fn open(dir: PathBuf, options: OpenOptions) -> Result<Self, Error> {
        let opening = dir.clone();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let own = Arc::clone(&clock);
        let schemas = Arc::new(Schemas::default());
        let merging = Arc::clone(&schemas);
        let opened = blocking(move || {
            let durability = if options.is_power_safe { Durability::Sync } else { Durability::Os };
            let file = FileOptions { durability, segment_bytes: options.segment_bytes, ..FileOptions::default() };
            let shard = shard_options(own, merging, options.payload_cache_bytes, options.memory_bytes)?;
            recado_shard::start_file(&opening, &file, shard)
        })
        .await;
        let service = opened.map_err(|source| Error::Open { dir, source: Arc::new(source) })?;
        Ok(Self::new(service, clock, schemas))
    }

    /// `schemas` are those that the service's [`shard_options`] were made with.
    pub(crate) fn new(service: Service, clock: Arc<dyn Clock>, schemas: Arc<Schemas>) -> Self {
        let handle = service.handle();
        let gate = Gate::new(handle.clone(), schemas);
        Self { handle, clock, service: Mutex::new(Some(service)), gate }
    }

    pub(crate) async fn enqueue(&self, queue: &str, jobs: Vec<NewJob>) -> Result<Vec<Option<Placed>>, Error> {
        let policies = self.gate.policies(queue, &jobs).await?;
        let (mut faults, mut warned) = (Faults::default(), Warned::default());
        for (index, job) in jobs.iter().enumerate() {
            faults.entry(Some(index));
            policies.check(job, &mut faults, &mut warned);
        }
        faults.finish().map_err(Error::Refused)?;
        let enqueue = Enqueue { queue: queue.into(), create: true, jobs, producer: None, request: None };
        let (saved, _) = self.handle.enqueue(enqueue).await?;
        Ok(saved.jobs.into_iter().map(|job| Some(placed(job))).collect())
    }

    pub(crate) async fn receive(
        &self,
        receive: &Receive,
        mut settle: Vec<Settle>,
        times: Times,
    ) -> Result<Received, Error> {
        settle.iter_mut().for_each(|settle| gate::mask(&mut settle.outcome));
        // No answer gets lost here.
        let receive = Receive { attempt_id: None, ..receive.clone() };
        let received = self.handle.receive(receive, settle, times.wait).await?;
        let answer = answer(received.settled, received.cancel_requested);
        let now = self.clock.wall_ms();
        let deliver = |(delivered, job): (Delivered, FilledJob)| self.delivery(delivered, job, now);
        let jobs = received.jobs.into_iter().map(deliver).collect();
        received.guard.confirm();
        Ok(Received { jobs, answer })
    }

    fn delivery(&self, delivered: Delivered, job: FilledJob, now: u64) -> Delivery {
        let FilledJob { view, payload, meta, errors, progress, children, .. } = job;
        let shown = view.children.map(|children| children.jobs).unwrap_or_default();
        let child =
            |(child, result): (ChildView, Option<Bytes>)| Child { id: child.id, state: child.state.into(), result };
        Delivery {
            id: view.id,
            queue: view.queue,
            kind: view.kind,
            schema_version: view.schema_version,
            payload,
            headers: meta.headers.map_or(Bytes::from_static(b"{}"), |headers| Bytes::from(Vec::from(headers))),
            business_id: meta.business_id,
            group: meta.group,
            idempotency_key: meta.idempotency_key,
            attempt: view.attempts,
            max_attempts: view.max_attempts,
            deliveries: view.deliveries,
            last_error: errors.last().map(failure),
            progress,
            receipt: delivered.receipt.text(self.handle.secret()).into(),
            fencing_token: delivered.fencing_token,
            visible_at: delivered.visible_at,
            visible_for: Duration::from_millis(delivered.visible_at.saturating_sub(now)),
            timeout_at: delivered.timeout_at,
            children: shown.into_iter().zip(children).map(child).collect(),
        }
    }

    pub(crate) async fn settle(&self, mut settle: Vec<Settle>) -> Result<SettleAnswer, Error> {
        settle.iter_mut().for_each(|settle| gate::mask(&mut settle.outcome));
        Ok(answer(self.handle.settle(settle).await?, Vec::new()))
    }

    pub(crate) async fn job(&self, id: JobId, wait: Duration) -> Result<JobNow, Error> {
        let view = self.handle.wait_job(id, wait).await?;
        let mut filled = self.handle.fill(vec![view], true).await?;
        let gone = || Error::from(recado_shard::Error::Rejected(Rejection::JobGone(id)));
        filled.pop().map(job_now).ok_or_else(gone)
    }

    pub(crate) async fn jobs(&self, queue: &str, kind: &str, states: &[JobState]) -> Result<Vec<JobNow>, Error> {
        let query = JobsQuery {
            queue: queue.into(),
            states: states.to_vec(),
            kind: Some(kind.into()),
            page: Page { cursor: None, limit: PAGE_MAX as usize },
            ..JobsQuery::default()
        };
        let Answer::Jobs { jobs, .. } = self.handle.query(Query::Jobs(query)).await? else { return Ok(Vec::new()) };
        Ok(self.handle.fill(jobs, true).await?.into_iter().map(job_now).collect())
    }

    pub(crate) async fn cancel(&self, id: JobId, reason: Option<&str>) -> Result<(), Error> {
        let target = CancelTarget::Ids(vec![id]);
        let command = Command::Cancel(Cancel { target, reason: reason.map(Box::from), actor: Actor::default() });
        let refused = |rejection| Err(recado_shard::Error::Rejected(rejection).into());
        match self.handle.call(command).await? {
            Reply::Cancelled(jobs) => match jobs.first() {
                Some(Cancelled::Refused(_, JobState::Cancelled)) => Ok(()),
                Some(Cancelled::Refused(id, state)) => refused(Rejection::JobNotWaiting { id: *id, state: *state }),
                Some(Cancelled::Gone(id)) => refused(Rejection::JobGone(*id)),
                _ => Ok(()),
            },
            other => unreachable!("a cancel answers cancelled, not {other:?}"),
        }
    }

    pub(crate) async fn close(&self) -> Result<(), Error> {
        let service = self.service.lock().unwrap_or_else(PoisonError::into_inner).take();
        match service {
            Some(service) => Ok(blocking(move || service.stop()).await?),
            None => Ok(()),
        }
    }
}

impl Drop for Embedded {
    /// The shard's thread commits what has come in and ends by itself.
    fn drop(&mut self) {
        if let Some(service) = self.service.get_mut().unwrap_or_else(PoisonError::into_inner) {
            service.begin_stop();
        }
    }
}

pub(crate) fn shard_options(
    clock: Arc<dyn Clock>,
    schemas: Arc<Schemas>,
    payload_cache_bytes: usize,
    memory_bytes: u64,
) -> Result<recado_shard::Options, OpenError> {
    let merge =
        move |patch: &[u8], payload: &[u8], schema: Option<&Arc<str>>| schemas.merge_patch(patch, payload, schema);
    let options = recado_shard::Options::new(merge)?;
    Ok(recado_shard::Options { clock, payload_cache_bytes, memory_bytes, ..options })
}

/// Runs what blocks beside the runtime; a panic in it goes on here.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

fn answer(settled: Vec<Result<recado_core::Settled, Rejection>>, mut cancel_requested: Vec<JobId>) -> SettleAnswer {
    let mut entry = |settled: Result<recado_core::Settled, Rejection>| {
        let settled = settled.map_err(Problem::from)?;
        if settled.cancel_requested && !cancel_requested.contains(&settled.id) {
            cancel_requested.push(settled.id);
        }
        Ok(Settled { repeated: settled.repeated, visible_at: settled.visible_at })
    };
    let settled = settled.into_iter().map(&mut entry).collect();
    SettleAnswer { settled, cancel_requested }
}

fn placed(job: recado_core::Enqueued) -> Placed {
    let children = job.children.into_iter().map(placed).collect();
    Placed { id: job.id, deduplicated: job.duplicate.is_some(), children }
}

fn failure(entry: &ErrorEntry) -> JobFailure {
    JobFailure {
        attempt: entry.attempt,
        kind: entry.kind.clone(),
        message: entry.message.clone(),
        retryable: entry.retryable,
    }
}

fn job_now(job: FilledJob) -> JobNow {
    let FilledJob { view, payload, errors, result, progress, .. } = job;
    JobNow {
        id: view.id,
        queue: view.queue,
        kind: view.kind,
        schema_version: view.schema_version,
        state: view.state.word().into(),
        attempts: view.attempts,
        deliveries: view.deliveries,
        held_back: view.held_back.map(|reason| reason.word().into()),
        payload,
        errors: errors.iter().map(failure).collect(),
        result,
        progress,
        children: view.children.map(|it| ChildCounts {
            total: it.total,
            pending: it.pending,
            completed: it.completed,
            failed: it.failed,
        }),
    }
}
