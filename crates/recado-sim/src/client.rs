//! Requests as a server's edge would make them of what a client sent, and answers as the client sees them.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use recado_core::{
    Action, Actor, Answer as Found, Cancel, CancelTarget, Command, Condition, Configure, Failure, Filter, GuardAction,
    GuardBegin, Hash, JobId, JobState, JobsQuery, NewJob, NewTask, Outcome as CoreOutcome, Overrides, Page, Patch,
    Producer, PutLimit, Query, Rejection, Replay, Reply as CoreReply, RequestKey, Select, Source, TypeRange, When,
};
use recado_shard::{DeliveryGuard, Error, FilledJob, Handle};

use crate::history::{Answer, Delivery, Listed, Made};
use crate::options::{Options, limit_name};
use crate::payload;
use crate::script::{self, Outcome, PURGED, Request, Use};

/// A request at work.
pub(crate) type Call = Pin<Box<dyn Future<Output = Reply>>>;

/// What a server answers a request.
pub(crate) struct Reply {
    pub(crate) answer: Answer,
    /// To each settle that came with it.
    pub(crate) settled: Vec<Answer>,
    /// What it must not forget to deliver.
    pub(crate) guard: Option<DeliveryGuard>,
}

impl Reply {
    /// The same answer to the request and to all that came with it.
    pub(crate) fn to_all(request: &Request, answer: Answer) -> Self {
        let settled = if let Request::Receive(receive) = request { receive.settle.len() } else { 0 };
        Self { settled: vec![answer.clone(); settled], ..Self::from(answer) }
    }
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Self {
        Self { answer, settled: Vec::new(), guard: None }
    }
}

/// The request at work.
pub(crate) fn call(handle: &Handle, options: &Options, request: &Request, wall_ms: u64) -> Call {
    let (handle, request) = (handle.clone(), request.clone());
    let (mut setting, mut form) = (None, None);
    match &request {
        Request::Configure { queue, variant } => {
            setting = Some(options.queues[usize::from(*queue)][*variant].options())
        }
        Request::PutLimit { limit, variant } => form = Some(options.limits[usize::from(*limit)][*variant].clone()),
        _ => {}
    }
    Box::pin(async move {
        match request {
            Request::Receive(receive) => received(&handle, receive).await,
            Request::Configure { queue, .. } => {
                let command = Command::Configure(Configure {
                    queue: name(queue),
                    options: setting.unwrap_or_default(),
                    source: Source::Api,
                    condition: Condition::default(),
                    actor: Actor::default(),
                });
                done(handle.call(command).await).into()
            }
            Request::PutLimit { limit, .. } => {
                let put = PutLimit {
                    limit: limit_name(limit),
                    options: form.unwrap_or_default(),
                    source: Source::Api,
                    actor: Actor::default(),
                };
                done(handle.call(Command::PutLimit(put)).await).into()
            }
            request => other(&handle, request, wall_ms).await.unwrap_or_else(refusal).into(),
        }
    })
}

fn name(queue: u8) -> Box<str> {
    format!("q{queue}").into()
}

fn refusal(error: Error) -> Answer {
    match error {
        Error::Rejected(rejection) => Answer::Refused(rejection),
        Error::Overloaded { .. } => Answer::Unavailable("overloaded"),
        Error::StorageSlow { .. } => Answer::Unavailable("storage is slow"),
        Error::StorageFull { .. } => Answer::Unavailable("storage is full"),
        Error::TooLarge { .. } => Answer::Unavailable("too large"),
        // A bulk action goes on when the server is back.
        Error::Stopping | Error::LogFailed { .. } | Error::Unreadable { .. } => Answer::Unknown,
    }
}

fn done<T>(reply: Result<T, Error>) -> Answer {
    match reply {
        Ok(_) => Answer::Done,
        Err(error) => refusal(error),
    }
}

async fn other(handle: &Handle, request: Request, wall_ms: u64) -> Result<Answer, Error> {
    let task = |queue, action| NewTask { queue: name(queue), action, reason: None, actor: Actor::default() };
    let all = || Select::Filter(Filter::default());
    Ok(match request {
        Request::Enqueue(enqueue) => {
            let (saved, was_saved) = handle.enqueue(core_enqueue(enqueue)).await?;
            let made = |job: recado_core::Enqueued| Made {
                id: job.id,
                is_duplicate: job.duplicate.is_some(),
                behind: job.queued_behind,
            };
            let jobs = saved.jobs.into_iter().map(made).collect();
            Answer::Enqueued { duplicate: saved.duplicate, saved: was_saved, jobs }
        }
        Request::Settle(settle) => {
            handle.settle(vec![core_settle(settle)]).await?.pop().map_or(Answer::Unknown, settled)
        }
        Request::Begin(begin) => Answer::Begun(handle.begin(core_begin(&begin)).await?),
        Request::Guard(wanted) => match handle.call(Command::GuardUse(core_use(wanted))).await? {
            CoreReply::Guarded { repeated, .. } => Answer::Guarded { repeated },
            _ => Answer::Unknown,
        },
        Request::SetPaused { queue, paused } => {
            let command = Command::SetPaused { queue: name(queue), paused, reason: None, actor: Actor::default() };
            done(handle.call(command).await)
        }
        Request::Purge { queue } => {
            Answer::Acted(handle.run_task(task(queue, Action::Purge { states: PURGED.to_vec() })).await?.acted)
        }
        Request::Replay { queue, ignore_key, patch } => {
            let patch = patch.map(|round| round.to_string().into_bytes());
            let replay = Replay { select: all(), patch, rate: None, halt_after: 0, ignore_key, force: false };
            Answer::Acted(handle.run_task(task(queue, Action::Replay(replay))).await?.acted)
        }
        Request::Discard { queue } => {
            Answer::Acted(handle.run_task(task(queue, Action::Discard { select: all() })).await?.acted)
        }
        Request::Delete { queue } => {
            done(handle.delete_queue(name(queue), true, Condition::default(), Actor::default()).await)
        }
        Request::RemoveLimit { limit } => {
            let (limit, source) = (limit_name(limit), Source::Api);
            done(handle.call(Command::RemoveLimit { limit, source, actor: Actor::default() }).await)
        }
        Request::Cancel(job) => {
            let cancel = Cancel { target: CancelTarget::Ids(vec![job]), reason: None, actor: Actor::default() };
            match handle.call(Command::Cancel(cancel)).await? {
                CoreReply::Cancelled(outcomes) => {
                    outcomes.first().map_or(Answer::Unknown, |one| Answer::Cancelled(*one))
                }
                _ => Answer::Unknown,
            }
        }
        Request::Patch { job, priority, delay_ms } => {
            let patch = Patch { job, priority, when: delay_ms.map(When::After), payload: None };
            done(handle.call(Command::Patch(patch)).await)
        }
        Request::Look(job) => match handle.query(Query::Job(job)).await? {
            Found::Job(view) => Answer::Job { state: view.state },
            _ => Answer::Unknown,
        },
        Request::List { queue } => list(handle, queue, wall_ms).await?,
        Request::Receive(_) | Request::Configure { .. } | Request::PutLimit { .. } => {
            unreachable!("handled by the caller")
        }
    })
}

fn core_enqueue(enqueue: script::Enqueue) -> recado_core::Enqueue {
    let request = enqueue
        .request
        .map(|request| RequestKey { key: format!("request-{request}").into(), body: Hash(u128::from(request)) });
    recado_core::Enqueue {
        queue: name(enqueue.queue),
        create: true,
        jobs: enqueue.jobs.into_iter().map(core_job).collect(),
        producer: enqueue.producer.map(|(name, seq)| Producer { name: format!("producer-{name}").into(), seq }),
        request,
    }
}

fn kind(number: u8) -> Box<str> {
    format!("type-{number}").into()
}

fn core_job(job: script::Job) -> NewJob {
    NewJob {
        kind: kind(job.kind),
        schema_version: 1,
        payload: payload::encode(job.tag, job.bytes),
        headers: None,
        business_id: None,
        priority: job.priority,
        when: job.delay_ms.map_or(When::Now, When::After),
        group: job.group.map(|group| format!("group-{group}").into()),
        dedup: job.dedup.map(|dedup| recado_core::Dedup {
            key: format!("dedup-{}", dedup.key).into(),
            for_ms: dedup.for_ms,
            on_duplicate: dedup.on_duplicate,
        }),
        idempotency_key: job.key.map(|key| format!("key-{key}").into()),
        overrides: Overrides { max_attempts: job.max_attempts, ..Overrides::default() },
        expires_after_ms: job.expires_ms,
        ties: None,
    }
}

fn core_outcome(settle: &script::Settle) -> CoreOutcome {
    match settle.outcome {
        Outcome::Ack { with_result } => {
            CoreOutcome::Ack { result: with_result.then(|| settle.result().as_bytes().to_vec()) }
        }
        Outcome::Fail { retryable, retry_after_ms } => CoreOutcome::Fail(Failure {
            kind: "error".into(),
            message: "the worker says so".into(),
            retryable,
            retry_after_ms,
        }),
        Outcome::Release { delay_ms } => CoreOutcome::Release { delay_ms, reason: None },
        Outcome::Extend { visibility_ms } => CoreOutcome::Extend { visibility_ms: Some(visibility_ms), progress: None },
    }
}

fn core_settle(settle: script::Settle) -> recado_core::Settle {
    let outcome = core_outcome(&settle);
    recado_core::Settle { job: Some(settle.job), receipt: settle.receipt, outcome }
}

fn settled(outcome: Result<recado_core::Settled, Rejection>) -> Answer {
    match outcome {
        Ok(settled) => Answer::Settled { repeated: settled.repeated },
        Err(rejection) => Answer::Refused(rejection),
    }
}

fn guard_key(key: u64) -> Box<str> {
    format!("guard-{key}").into()
}

fn core_begin(begin: &script::Begin) -> GuardBegin {
    let script::Begin { queue, key, hold_ms, ttl_ms, attempt, ref of } = *begin;
    GuardBegin {
        queue: name(queue),
        key: guard_key(key),
        ttl_ms,
        hold_ms,
        job: of.as_ref().map(|of| of.job),
        receipt: of.as_ref().map(|of| of.receipt.clone()),
        attempt_id: attempt.map(|attempt| format!("attempt-{attempt}").into()),
    }
}

fn core_use(wanted: script::GuardUse) -> recado_core::GuardUse {
    let action = match wanted.what {
        Use::Complete => GuardAction::Complete { result: Some(wanted.result().into_bytes()) },
        Use::Abort => GuardAction::Abort,
        Use::Extend { hold_ms } => GuardAction::Extend { hold_ms },
    };
    recado_core::GuardUse { queue: name(wanted.queue), key: guard_key(wanted.key), token: wanted.token, action }
}

async fn received(handle: &Handle, receive: script::Receive) -> Reply {
    let settles: Vec<_> = receive.settle.iter().cloned().map(core_settle).collect();
    let asked = recado_core::Receive {
        queues: vec![(name(receive.queue), 1)],
        strict: true,
        create: true,
        max: receive.max,
        max_bytes: 8 << 20,
        worker: Some("worker".into()),
        visibility_ms: receive.visibility_ms,
        types: receive.kind.map(|number| vec![TypeRange { kind: kind(number), from: 1, to: u32::MAX }]),
        attempt_id: receive.attempt.map(|attempt| format!("attempt-{attempt}").into()),
        by_group: receive.by_group,
    };
    match handle.receive(asked, settles, Duration::from_millis(receive.wait_ms)).await {
        Ok(received) => {
            let secret = handle.secret();
            let delivery = |(delivered, filled): (recado_core::Delivered, FilledJob)| Delivery {
                id: delivered.job.id,
                tag: payload::decode(&filled.payload).0,
                round: payload::decode(&filled.payload).1,
                fence: delivered.fencing_token,
                received_at: delivered.receipt.received_at,
                receipt: delivered.receipt.text(secret).into(),
                attempts: delivered.job.attempts,
                deliveries: delivered.job.deliveries,
                max_attempts: delivered.job.max_attempts,
                replays: delivered.job.replays,
                priority: delivered.job.priority,
                visible_at: delivered.visible_at,
            };
            let answer = Answer::Received(received.jobs.into_iter().map(delivery).collect());
            let settled = received.settled.into_iter().map(settled).collect();
            Reply { answer, settled, guard: Some(received.guard) }
        }
        // What was settled with a receive that is refused is not told.
        Err(error @ Error::Rejected(_)) => {
            Reply { answer: refusal(error), settled: vec![Answer::Unknown; receive.settle.len()], guard: None }
        }
        Err(error) => Reply::to_all(&Request::Receive(receive), refusal(error)),
    }
}

async fn list(handle: &Handle, queue: u8, wall_ms: u64) -> Result<Answer, Error> {
    let mut listed = Vec::new();
    let mut page = Page { cursor: None, limit: 1_000 };
    loop {
        let query = JobsQuery { queue: name(queue), page, ..JobsQuery::default() };
        let (jobs, cursor) = match handle.query(Query::Jobs(query)).await {
            Ok(Found::Jobs { jobs, cursor }) => (jobs, cursor),
            Err(Error::Rejected(Rejection::QueueNotFound { .. })) => return Ok(Answer::Jobs(listed)),
            Err(error) => return Err(error),
            Ok(_) => return Ok(Answer::Unknown),
        };
        listed.extend(handle.fill(jobs, true).await?.into_iter().map(|job| list_entry(job, wall_ms)));
        if cursor.is_none() {
            return Ok(Answer::Jobs(listed));
        }
        page = Page { cursor, limit: 1_000 };
    }
}

fn list_entry(job: FilledJob, wall_ms: u64) -> Listed {
    let FilledJob { view, payload, errors, result, .. } = job;
    let is_free = view.state == JobState::Ready && view.held_back.is_none();
    Listed {
        id: view.id,
        tag: payload::decode(&payload).0,
        round: payload::decode(&payload).1,
        state: view.state,
        ready_for_ms: is_free.then(|| wall_ms.saturating_sub(view.run_at)),
        attempts: view.attempts,
        max_attempts: view.max_attempts,
        deliveries: view.deliveries,
        replays: view.replays,
        errors: errors.len(),
        last_error: errors.last().map(|error| error.kind.clone()),
        result: result.map(|bytes| String::from_utf8_lossy(&bytes).into()),
    }
}

impl script::Settle {
    /// The result it saves: it tells which delivery it is of.
    pub(crate) fn result(&self) -> String {
        format!("{{\"job\":\"{}\",\"fence\":{}}}", self.job, self.fence)
    }
}

impl script::GuardUse {
    /// The result it saves: it tells whose it is.
    pub(crate) fn result(&self) -> String {
        format!("{{\"by\":\"{}\"}}", self.token)
    }
}

/// The shard that made it, which is the number of its server.
pub(crate) fn server_of(job: JobId) -> usize {
    usize::from(job.shard())
}
