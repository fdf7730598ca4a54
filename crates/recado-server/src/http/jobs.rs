//! Jobs: look, wait, cancel, change, list.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use recado_contract::gate::Warned;
use recado_contract::job::{check_when, state};
use recado_core::{
    Actor, Answer, Cancel, CancelTarget, Cancelled, Command, JobId, JobState, JobView, JobsQuery, Patch, Query,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::job::{JobBody, filled};
use super::new_job::when;
use super::{App, Job, Queue, answer, body, job_id, unexpected};
use crate::faults::Faults;
use crate::json;
use crate::limits::{IDS_MAX, PAYLOAD_BYTES_MAX, REASON_BYTES_MAX, WAIT_MS_MAX};
use crate::openapi::{Everywhere, OnJob, OnQueue};
use crate::problem::{Code, Problem};
use crate::query::{Params, wrong};
use crate::time;

/// A page of jobs.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = JobsPage)]
struct JobsBody<'a> {
    /// The jobs.
    jobs: Vec<JobBody<'a>>,
    /// Of the next page; null on the last.
    cursor: Option<String>,
}

/// A changed or cancelled job.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = CancelledJob)]
struct CancelledBody {
    /// The job.
    id: String,
    /// Where it is now.
    state: &'static str,
    /// Its worker is told; an ack still completes it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cancel_requested: bool,
}

/// What to change of a waiting job.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = JobPatch)]
struct PatchBody<'a> {
    /// 0 to 255.
    priority: Option<u64>,
    /// From now; not with `runAt`.
    delay: Option<Box<str>>,
    /// Not with `delay`.
    run_at: Option<Box<str>>,
    /// The whole new payload.
    #[serde(borrow, default)]
    #[schema(value_type = serde_json::Value)]
    payload: Option<&'a RawValue>,
}

/// Which jobs to cancel.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = CancelRequest)]
struct CancelBody {
    /// These; not with `businessId`.
    ids: Option<Vec<Box<str>>>,
    /// All of this business object; not with `ids`.
    business_id: Option<Box<str>>,
    /// For the audit trail.
    reason: Option<Box<str>>,
}

/// What became of each job.
#[derive(Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = CancelAnswer)]
struct CancelList {
    /// These will not run.
    cancelled: Vec<String>,
    /// The workers of these are told.
    cancel_requested: Vec<String>,
    /// These had ended.
    refused: Vec<RefusedBody>,
    /// These are not there.
    gone: Vec<String>,
}

/// A job that had ended.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CancelRefused)]
struct RefusedBody {
    /// The job.
    id: String,
    /// Where it is.
    state: &'static str,
}

/// Look at a job, perhaps waiting for its end.
#[utoipa::path(
    get, path = "/v1/jobs/{id}", operation_id = "getJob", tag = "jobs",
    params(("id" = String, Path, description = "id of the job"),
        ("wait" = Option<String>, Query, description = "until completed, dead, cancelled or expired; up to 60s")),
    responses((status = 200, description = "the job as it is now", body = JobBody), OnJob),
)]
pub(crate) async fn get(State(app): State<App>, Job(id): Job, request: Request) -> Result<Response, Problem> {
    let params = Params::parse(request.uri().query(), &["wait"])?;
    let wait = params.duration("wait", WAIT_MS_MAX)?.unwrap_or(0);
    let view = app.shard.wait_job(id, Duration::from_millis(wait)).await?;
    let job = filled(&app, view).await?;
    Ok(answer(StatusCode::OK, &JobBody::new(&job, true)?))
}

async fn look(app: &App, id: JobId) -> Result<JobView, Problem> {
    match app.shard.query(Query::Job(id)).await? {
        Answer::Job(view) => Ok(*view),
        other => Err(unexpected(&other)),
    }
}

/// Cancel a job.
#[utoipa::path(
    delete, path = "/v1/jobs/{id}", operation_id = "cancelJob", tag = "jobs",
    params(("id" = String, Path, description = "id of the job")),
    responses(
        (status = 200, description = "cancelled", body = CancelledBody),
        (status = 202, description = "in flight: its worker is told", body = CancelledBody),
        (status = 409, description = "job-not-waiting: it completed or died", body = crate::problem::Body, content_type = "application/problem+json"),
        OnJob,
    ),
)]
pub(crate) async fn delete(State(app): State<App>, Job(id): Job, request: Request) -> Result<Response, Problem> {
    Params::parse(request.uri().query(), &[])?;
    let cancel = Cancel { target: CancelTarget::Ids(vec![id]), reason: None, actor: Actor::default() };
    let [done] = cancelled(&app, cancel).await?.try_into().map_err(|other| unexpected(&other))?;
    let body =
        |state: JobState, cancel_requested| CancelledBody { id: id.to_string(), state: state.word(), cancel_requested };
    match done {
        Cancelled::Done(_) | Cancelled::Refused(_, JobState::Cancelled) => {
            Ok(answer(StatusCode::OK, &body(JobState::Cancelled, false)))
        }
        Cancelled::Requested(_) => Ok(answer(StatusCode::ACCEPTED, &body(JobState::InFlight, true))),
        Cancelled::Refused(id, state) => Err(recado_core::Rejection::JobNotWaiting { id, state }.into()),
        Cancelled::Gone(id) => Err(recado_core::Rejection::JobGone(id).into()),
    }
}

/// The jobs of a business object are cancelled a bounded number a command, until none is left.
async fn cancelled(app: &App, cancel: Cancel) -> Result<Vec<Cancelled>, Problem> {
    let mut all = Vec::new();
    loop {
        match app.shard.call(Command::Cancel(cancel.clone())).await? {
            recado_core::Reply::Cancelled(mut done) => {
                let is_all = matches!(cancel.target, CancelTarget::Ids(_)) || done.len() < recado_core::CANCELLED_MAX;
                all.append(&mut done);
                if is_all {
                    return Ok(all);
                }
            }
            other => return Err(unexpected(&other)),
        }
    }
}

/// Change a waiting job.
#[utoipa::path(
    patch, path = "/v1/jobs/{id}", operation_id = "changeJob", tag = "jobs",
    params(("id" = String, Path, description = "id of the job")),
    request_body(content = PatchBody, content_type = "application/json"),
    responses(
        (status = 200, description = "the job as it is now", body = JobBody),
        (status = 422, description = "secret-in-payload, schema-violation, unknown-type-version", body = crate::problem::Body, content_type = "application/problem+json"),
        (status = 409, description = "job-not-waiting", body = crate::problem::Body, content_type = "application/problem+json"),
        (status = 507, description = "storage-full", body = crate::problem::Body, content_type = "application/problem+json"),
        OnJob,
    ),
)]
pub(crate) async fn patch(State(app): State<App>, Job(id): Job, request: Request) -> Result<Response, Problem> {
    Params::parse(request.uri().query(), &[])?;
    let body = body::json(request).await?;
    let asked: PatchBody<'_> = json::parse(&body)?;
    let mut faults = Faults::default();
    faults.range("/priority", asked.priority, 0, 255);
    faults.check_free("/payload", asked.payload, PAYLOAD_BYTES_MAX);
    let patch = Patch {
        job: id,
        priority: asked.priority.map(|priority| priority as u8),
        when: when(asked.delay.as_deref(), asked.run_at.as_deref(), &mut faults),
        payload: asked.payload.map(|raw| raw.get().as_bytes().to_vec()),
    };
    if asked.priority.is_none() && asked.delay.is_none() && asked.run_at.is_none() && asked.payload.is_none() {
        faults.at("", "nothing to change: send priority, delay, runAt or payload");
    }
    if let Some(when) = patch.when {
        check_when(when, time::now(), &mut faults);
    }
    faults.finish()?;
    drop(body);
    if let Some(payload) = &patch.payload {
        check_payload(&app, id, payload).await?;
    }
    app.shard.call(Command::Patch(patch)).await.map_err(|error| Problem::from(error).single())?;
    let job = filled(&app, look(&app, id).await?).await?;
    Ok(answer(StatusCode::OK, &JobBody::new(&job, true)?))
}

/// Checks another payload as an enqueue of it would be.
async fn check_payload(app: &App, id: JobId, payload: &[u8]) -> Result<(), Problem> {
    let job = look(app, id).await?;
    let policy = app.gate.policy(&job.queue).await?;
    let (mut faults, mut warned) = (Faults::default(), Warned::default());
    policy.check_payload(&job.kind, job.schema_version, payload, &mut faults, &mut warned);
    faults.finish().inspect_err(|problem| app.rejected.count(&job.queue, problem))?;
    app.warned.add_taken(&job.queue, warned);
    Ok(())
}

const LIST_PARAMS: [&str; 12] = [
    "state",
    "type",
    "group",
    "businessId",
    "dedupKey",
    "idempotencyKey",
    "kind",
    "before",
    "after",
    "payload",
    "limit",
    "cursor",
];

/// List jobs of a queue: ready ones in delivery order (with groups: group by group), dead ones newest first.
#[utoipa::path(
    get, path = "/v1/queues/{q}/jobs", operation_id = "listQueueJobs", tag = "jobs",
    params(
        ("q" = String, Path, description = "name of the queue"),
        ("state" = Option<String>, Query, description = "one or several, separated by commas"),
        ("type" = Option<String>, Query), ("group" = Option<String>, Query), ("businessId" = Option<String>, Query),
        ("dedupKey" = Option<String>, Query), ("idempotencyKey" = Option<String>, Query),
        ("kind" = Option<String>, Query, description = "of the last error"),
        ("before" = Option<String>, Query, description = "enqueued (dead: died) before"),
        ("after" = Option<String>, Query, description = "enqueued (dead: died) after"),
        ("payload" = Option<bool>, Query, description = "false leaves payloads out"),
        ("limit" = Option<u32>, Query), ("cursor" = Option<String>, Query),
    ),
    responses((status = 200, description = "a page", body = JobsBody), OnQueue),
)]
pub(crate) async fn list(State(app): State<App>, Queue(queue): Queue, request: Request) -> Result<Response, Problem> {
    let params = Params::parse(request.uri().query(), &LIST_PARAMS)?;
    let query = JobsQuery {
        queue,
        states: states(&params)?,
        kind: params.owned("type"),
        group: params.owned("group"),
        business_id: params.owned("businessId"),
        dedup_key: params.owned("dedupKey"),
        idempotency_key: params.owned("idempotencyKey"),
        error_kind: params.owned("kind"),
        before: params.time("before")?,
        after: params.time("after")?,
        page: params.page()?,
    };
    page(&app, Query::Jobs(query), params.flag("payload")?.unwrap_or(true)).await
}

fn states(params: &Params<'_>) -> Result<Vec<JobState>, Problem> {
    let Some(words) = params.text("state") else { return Ok(Vec::new()) };
    words.split(',').map(|word| state(word).map_err(|message| wrong("state", &message))).collect()
}

/// List jobs of a business object over all queues.
#[utoipa::path(
    get, path = "/v1/jobs", operation_id = "listJobs", tag = "jobs",
    params(("businessId" = String, Query), ("payload" = Option<bool>, Query),
        ("limit" = Option<u32>, Query), ("cursor" = Option<String>, Query)),
    responses((status = 200, description = "a page", body = JobsBody), Everywhere),
)]
pub(crate) async fn list_all(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let params = Params::parse(request.uri().query(), &["businessId", "payload", "limit", "cursor"])?;
    let business_id = params.owned("businessId").ok_or_else(|| wrong("businessId", "is needed here"))?;
    let query = Query::JobsOf { business_id, page: params.page()? };
    page(&app, query, params.flag("payload")?.unwrap_or(true)).await
}

async fn page(app: &App, query: Query, with_payload: bool) -> Result<Response, Problem> {
    let (views, cursor) = match app.shard.query(query).await.map_err(|error| Problem::from(error).single())? {
        Answer::Jobs { jobs, cursor } => (jobs, cursor),
        other => return Err(unexpected(&other)),
    };
    let jobs = app.shard.fill(views, with_payload).await?;
    let jobs: Result<Vec<_>, Problem> = jobs.iter().map(|job| JobBody::new(job, with_payload)).collect();
    Ok(answer(StatusCode::OK, &JobsBody { jobs: jobs?, cursor }))
}

/// Cancel several jobs, or all of a business object.
#[utoipa::path(
    post, path = "/v1/jobs/cancel", operation_id = "cancelJobs", tag = "jobs",
    request_body(content = CancelBody, content_type = "application/json"),
    responses((status = 200, description = "what became of each", body = CancelList), Everywhere),
)]
pub(crate) async fn cancel(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    Params::parse(request.uri().query(), &[])?;
    let body = body::json(request).await?;
    let asked: CancelBody = json::parse(&body)?;
    let mut list = CancelList::default();
    let reason = reason(asked.reason)?;
    let target = match (asked.ids, asked.business_id) {
        (Some(ids), None) => CancelTarget::Ids(known_ids(&ids, &mut list.gone)?),
        (None, Some(business_id)) => {
            let mut faults = Faults::default();
            faults.check_key("/businessId", Some(&business_id));
            faults.finish()?;
            CancelTarget::BusinessId(business_id)
        }
        _ => return Err(Problem::field("/ids", "send ids or businessId, and not both")),
    };
    for done in cancelled(&app, Cancel { target, reason, actor: Actor::default() }).await? {
        match done {
            Cancelled::Done(id) => list.cancelled.push(id.to_string()),
            Cancelled::Requested(id) => list.cancel_requested.push(id.to_string()),
            Cancelled::Refused(id, state) => list.refused.push(RefusedBody { id: id.to_string(), state: state.word() }),
            Cancelled::Gone(id) => list.gone.push(id.to_string()),
        }
    }
    Ok(answer(StatusCode::OK, &list))
}

/// Reads ids. Well-formed ones that cannot be there go to `gone`; others refuse the request.
pub(super) fn known_ids(texts: &[Box<str>], gone: &mut Vec<String>) -> Result<Vec<JobId>, Problem> {
    if texts.is_empty() || texts.len() > IDS_MAX {
        return Err(Problem::field("/ids", format!("1 to {IDS_MAX} ids")));
    }
    let mut faults = Faults::default();
    let mut ids = Vec::with_capacity(texts.len());
    for (index, text) in texts.iter().enumerate() {
        match job_id(text) {
            Ok(id) => ids.push(id),
            Err(problem) if problem.code() == Code::Gone.word() => gone.push(text.to_string()),
            Err(_) => faults.at(&format!("/ids/{index}"), "not a job's id: `job_` and 32 lower-case hex digits"),
        }
    }
    faults.finish().map(|()| ids)
}

/// Checks a reason.
pub(super) fn reason(text: Option<Box<str>>) -> Result<Option<Box<str>>, Problem> {
    match text {
        Some(text) if text.len() > REASON_BYTES_MAX => {
            Err(Problem::field("/reason", format!("at most {REASON_BYTES_MAX} bytes")))
        }
        text => Ok(text),
    }
}
