//! `POST /v1/queues/{q}/jobs`.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use recado_contract::gate::{Policies, Warned};
use recado_core::{Enqueue, Enqueued, NewJob, Producer, RequestKey, SavedAnswer, Settings};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::body::{self, Kind};
use super::job::raw;
use super::new_job::NewJobBody;
use super::{App, Queue, answer, ndjson};
use crate::faults::Faults;
use crate::json::{self, OneOrMany};
use crate::limits::{BATCH_BYTES_MAX, BATCH_JOBS_MAX, PAYLOAD_BYTES_MAX};
use crate::openapi::OnQueue;
use crate::problem::{Code, Problem};
use crate::{query, time};

/// Separates this use of the keyed hash from all others of the data directory.
const REQUEST_DOMAIN: u8 = b'h';

/// A producer's numbered batch.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = ProducerBatch)]
pub(crate) struct BatchBody<'a> {
    /// Who numbers.
    producer: ProducerBody,
    /// The jobs.
    #[serde(borrow)]
    #[schema(value_type = Vec<NewJobBody>)]
    jobs: &'a RawValue,
}

/// A producer's name and the number of its batch.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Producer)]
struct ProducerBody {
    /// Unique in the queue.
    name: Box<str>,
    /// From 1, growing by 1.
    seq: u64,
}

/// What can be enqueued.
#[derive(ToSchema)]
#[serde(untagged)]
#[schema(as = EnqueueRequest)]
#[allow(dead_code)] // only described: which one it is decides how it is read
pub(crate) enum EnqueueBody<'a> {
    /// One job.
    One(Box<NewJobBody<'a>>),
    /// Several, all or nothing.
    Many(Vec<NewJobBody<'a>>),
    /// Several, numbered.
    Numbered(BatchBody<'a>),
}

/// The jobs that were enqueued or were there.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = EnqueueAnswer)]
pub(crate) struct EnqueuedBody<'a> {
    /// One entry a job, in order; empty when a producer's batch was there.
    pub(crate) jobs: Vec<EnqueuedJob<'a>>,
    /// The queue was created.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) created: bool,
    /// The producer's batch was there.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) duplicate: bool,
}

/// One job that was enqueued or was there.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EnqueuedJob<'a> {
    /// The new job, or the one that was there.
    id: String,
    /// It was there.
    deduplicated: bool,
    /// The payloads are equal.
    #[serde(skip_serializing_if = "Option::is_none")]
    same_payload: Option<bool>,
    /// Its state; null when only its key is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<Option<&'static str>>,
    /// Its result.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = serde_json::Value)]
    result: Option<Option<&'a RawValue>>,
    /// The in-flight job it waits behind.
    #[serde(skip_serializing_if = "Option::is_none")]
    queued_behind: Option<String>,
    /// Its children, in order; none when it was there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    children: Vec<EnqueuedChild>,
}

/// A child that was enqueued.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EnqueuedChild {
    id: String,
    /// Its own children.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(no_recursion)]
    children: Vec<Self>,
}

impl EnqueuedChild {
    fn of(job: &Enqueued) -> Vec<Self> {
        job.children.iter().map(|child| Self { id: child.id.to_string(), children: Self::of(child) }).collect()
    }
}

/// Enqueue one job, an array, a producer's batch, or a stream of lines.
#[utoipa::path(
    post, path = "/v1/queues/{q}/jobs", operation_id = "enqueue", tag = "jobs",
    params(("q" = String, Path, description = "name of the queue"),
        ("Idempotency-Key" = Option<String>, Header, description = "the same request within 10 minutes gets the saved answer")),
    request_body(content((EnqueueBody = "application/json"), (String = "application/x-ndjson"))),
    responses(
        (status = 201, description = "durable", body = EnqueuedBody),
        (status = 200, description = "a line per durable chunk of a stream, then `done` or `problem`", body = String, content_type = "application/x-ndjson"),
        (status = 409, description = "duplicate-conflict, idempotency-in-progress, producer-gap", body = crate::problem::Body, content_type = "application/problem+json"),
        (status = 422, description = "secret-in-payload, schema-violation, unknown-type-version, idempotency-key-reused", body = crate::problem::Body, content_type = "application/problem+json"),
        (status = 429, description = "queue-full", body = crate::problem::Body, content_type = "application/problem+json"),
        (status = 507, description = "storage-full", body = crate::problem::Body, content_type = "application/problem+json"),
        OnQueue,
    ),
)]
pub(crate) async fn enqueue(
    State(app): State<App>,
    Queue(queue): Queue,
    request: Request,
) -> Result<Response, Problem> {
    query::Params::parse(request.uri().query(), &[])?;
    let path = request.uri().path().to_owned();
    let key = idempotency_key(request.headers())?;
    if body::kind(request.headers())? == Kind::Lines {
        if key.is_some() {
            return Err(Problem::new(
                Code::InvalidRequest,
                "an Idempotency-Key does not go with a stream; use dedup keys or producer batches",
            ));
        }
        return Ok(ndjson::stream(app, queue, request.into_body()));
    }
    let body = body::read(request.into_body(), BATCH_BYTES_MAX).await?;
    let (mut enqueue, single) = match read(&body) {
        Ok(read) => read,
        Err(problem) => return Err(every_fault(&app.gate.policies(&queue, &[]).await?, &body, problem)),
    };
    let policies = app.gate.policies(&queue, &enqueue.jobs).await?;
    let warned = admit(&policies, &enqueue.jobs, single).map_err(|problem| {
        let problem = every_fault(&policies, &body, problem);
        app.rejected.count(&queue, &problem);
        problem
    })?;
    enqueue.queue = queue.clone();
    enqueue.create = app.create_queues;
    enqueue.request = key.map(|key| {
        let parts = [b"POST".as_slice(), path.as_bytes(), &body];
        RequestKey { key, body: app.shard.secret().hash(REQUEST_DOMAIN, 0, &parts) }
    });
    drop(body);
    match app.shard.enqueue(enqueue).await {
        Ok((saved, replayed)) => {
            if !replayed {
                app.warned.add_taken(&queue, warned);
            }
            created(&app, saved, replayed).await
        }
        Err(error) => {
            let problem = refused(&app, &queue, error);
            Err(if single { problem.single() } else { problem })
        }
    }
}

/// A refusal by a queue, counted, with the time its drain rate suggests.
pub(super) fn refused(app: &App, queue: &str, error: recado_shard::Error) -> Problem {
    let is_memory = matches!(error, recado_shard::Error::Rejected(recado_core::Rejection::OutOfMemory { .. }));
    let problem = Problem::from(error);
    app.rejected.count(queue, &problem);
    let measured = match problem.reason() {
        "max-depth" => app.shard.retry_after(queue),
        _ if is_memory => app.shard.retry_after_memory(),
        _ => None,
    };
    match measured {
        Some(after) => problem.retry_after(after),
        None => problem,
    }
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<Box<str>>, Problem> {
    let wrong = |message: String| Problem::new(Code::InvalidRequest, format!("Idempotency-Key: {message}"));
    let mut keys = headers.get_all("idempotency-key").iter();
    let Some(key) = keys.next() else { return Ok(None) };
    if keys.next().is_some() {
        return Err(wrong("send it once".into()));
    }
    let key = std::str::from_utf8(key.as_bytes()).map_err(|_| wrong("this is not UTF-8".into()))?;
    crate::name::check_key(key).map_err(wrong)?;
    Ok(Some(key.into()))
}

/// Reads the body; true when it was a single object.
fn read(body: &[u8]) -> Result<(Enqueue, bool), Problem> {
    let text = json::text(body)?;
    let one_or_many = match json::parse_many::<NewJobBody<'_>>(text) {
        Err(_) if is_numbered(text) => return numbered(text).map(|enqueue| (enqueue, false)),
        read => read?,
    };
    let (jobs, single) = match one_or_many {
        OneOrMany::One(job) => (vec![job], true),
        OneOrMany::Many(jobs) => (jobs, false),
    };
    Ok((Enqueue { jobs: check(jobs, single)?, ..Enqueue::default() }, single))
}

/// Names all bad entries of a batch, whichever check each of them fails: also those that its queue would
/// refuse, for these checks come only when nothing else is wrong.
fn every_fault(policies: &Policies, body: &[u8], found: Problem) -> Problem {
    let Some(entries) = entries_of(body).filter(|_| found.errors().iter().any(|error| error.index.is_some())) else {
        return found;
    };
    let now = time::now();
    let (mut faults, mut warned) = (Faults::default(), Warned::default());
    for (index, entry) in entries.into_iter().enumerate() {
        faults.entry(Some(index));
        match json::entry::<NewJobBody<'_>>(entry) {
            Err(error) => faults.add(error),
            Ok(job) => {
                let job = job.check(now, &mut faults);
                policies.visit(policies.own(), &job, &mut faults, &mut |policy, job, faults| {
                    check_with(policy.settings(), job, faults);
                });
                policies.check(&job, &mut faults, &mut warned);
            }
        }
        if faults.is_full() {
            break;
        }
    }
    faults.finish().err().unwrap_or(found)
}

/// Checks every job by what its queue asks.
fn admit(policies: &Policies, jobs: &[NewJob], single: bool) -> Result<Warned, Problem> {
    let (mut faults, mut warned) = (Faults::default(), Warned::default());
    for (index, job) in jobs.iter().enumerate() {
        faults.entry((!single).then_some(index));
        policies.check(job, &mut faults, &mut warned);
        if faults.is_full() {
            break;
        }
    }
    faults.finish().map(|()| warned)
}

/// What the core checks of a job by its queue's configuration.
pub(crate) fn check_with(settings: &Settings, job: &NewJob, faults: &mut Faults) {
    let limit = usize::try_from(settings.payload_max_bytes).unwrap_or(usize::MAX);
    if job.payload.len() > limit && job.payload.len() <= PAYLOAD_BYTES_MAX {
        faults.too_large("/payload", limit, job.payload.len());
    }
    if settings.ordered && job.priority != 0 {
        faults.at("/priority", "this queue is ordered by group; leave priority out");
    }
}

fn entries_of(body: &[u8]) -> Option<Vec<&RawValue>> {
    #[derive(Deserialize)]
    struct Shape<'a> {
        #[serde(borrow)]
        jobs: Vec<&'a RawValue>,
    }
    let numbered = || serde_json::from_slice::<Shape<'_>>(body).map(|shape| shape.jobs);
    serde_json::from_slice(body).or_else(|_| numbered()).ok()
}

/// An object with `producer` or `jobs` was meant as a producer's batch.
fn is_numbered(text: &str) -> bool {
    #[derive(Deserialize)]
    struct Shape<'a> {
        #[serde(borrow)]
        producer: Option<&'a RawValue>,
        #[serde(borrow)]
        jobs: Option<&'a RawValue>,
    }
    text.trim_start().starts_with('{')
        && serde_json::from_str::<Shape<'_>>(text).is_ok_and(|shape| shape.producer.is_some() || shape.jobs.is_some())
}

fn numbered(text: &str) -> Result<Enqueue, Problem> {
    let batch: BatchBody<'_> = json::parse(text.as_bytes())?;
    let mut faults = Faults::default();
    faults.check_name("/producer/name", &batch.producer.name);
    faults.range("/producer/seq", Some(batch.producer.seq), 1, u64::MAX);
    faults.finish()?;
    let jobs = json::parse_list::<NewJobBody<'_>>(batch.jobs.get())?;
    let producer = Producer { name: batch.producer.name, seq: batch.producer.seq };
    Ok(Enqueue { jobs: check(jobs, false)?, producer: Some(producer), ..Enqueue::default() })
}

/// Checks every job; all that is wrong is named.
pub(super) fn check(jobs: Vec<NewJobBody<'_>>, single: bool) -> Result<Vec<NewJob>, Problem> {
    if jobs.is_empty() {
        return Err(Problem::field("", "the array is empty; send at least one job"));
    }
    if jobs.len() > BATCH_JOBS_MAX {
        let detail =
            format!("a batch has at most {BATCH_JOBS_MAX} jobs; split it, or send a stream (application/x-ndjson)");
        return Err(Problem::new(Code::RequestTooLarge, detail).sized(BATCH_JOBS_MAX as u64, Some(jobs.len() as u64)));
    }
    let now = time::now();
    let mut faults = Faults::default();
    let mut checked = Vec::with_capacity(jobs.len());
    for (index, job) in jobs.into_iter().enumerate() {
        faults.entry((!single).then_some(index));
        checked.push(job.check(now, &mut faults));
        if faults.is_full() {
            break;
        }
    }
    faults.finish()?;
    let all: usize = checked.iter().map(NewJob::family_size).sum();
    if all > BATCH_JOBS_MAX {
        let detail = format!("an enqueue has at most {BATCH_JOBS_MAX} jobs, children included; split it");
        return Err(Problem::new(Code::RequestTooLarge, detail).sized(BATCH_JOBS_MAX as u64, Some(all as u64)));
    }
    Ok(checked)
}

async fn created(app: &App, saved: SavedAnswer, replayed: bool) -> Result<Response, Problem> {
    let SavedAnswer { jobs, created, duplicate } = saved;
    let results = results(app, &jobs).await?;
    let body = EnqueuedBody { jobs: entries(&jobs, &results)?, created, duplicate };
    let mut response = answer(StatusCode::CREATED, &body);
    if replayed {
        response.headers_mut().insert("idempotent-replayed", HeaderValue::from_static("true"));
    }
    Ok(response)
}

/// Fetches the results of jobs that were there.
pub(super) async fn results(app: &App, jobs: &[Enqueued]) -> Result<Vec<Option<bytes::Bytes>>, Problem> {
    let mut results = Vec::with_capacity(jobs.len());
    for job in jobs {
        let place = job.duplicate.as_ref().and_then(|duplicate| duplicate.result);
        results.push(match place {
            Some((position, offset, length)) => {
                app.shard.result_of(job.id, recado_core::Place { position, offset, length }).await?
            }
            None => None,
        });
    }
    Ok(results)
}

/// Converts the entries of an answer.
pub(super) fn entries<'a>(
    jobs: &[Enqueued],
    results: &'a [Option<bytes::Bytes>],
) -> Result<Vec<EnqueuedJob<'a>>, Problem> {
    let convert = |(job, result): (&Enqueued, &'a Option<bytes::Bytes>)| {
        let duplicate = job.duplicate.as_ref();
        let result = result.as_deref().map(raw).transpose()?;
        Ok(EnqueuedJob {
            id: job.id.to_string(),
            deduplicated: duplicate.is_some(),
            same_payload: duplicate.map(|duplicate| duplicate.same_payload),
            state: duplicate.map(|duplicate| duplicate.state.map(|state| state.word())),
            result: duplicate.map(|_| result),
            queued_behind: job.queued_behind.map(|id| id.to_string()),
            children: EnqueuedChild::of(job),
        })
    };
    jobs.iter().zip(results).map(convert).collect()
}
