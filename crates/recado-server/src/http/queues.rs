//! Queues: list, configure, delete, pause, purge.

use axum::extract::{Request, State};
use axum::http::header::{ETAG, HeaderName, IF_MATCH, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use recado_core::{
    Action, Actor, Answer, Command, Condition, Configure, JobState, NewTask, Query, QueueView, Redrive, Reply,
    Revisions, Source, SqsQueue,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::jobs::reason;
use super::stats::StatsBody;
use super::{App, Queue, answer, body, unexpected};
use crate::openapi::{Everywhere, OnQueue};
use crate::options::{self, OptionsBody};
use crate::problem::Problem;
use crate::query::Params;
use crate::{duration, json};

/// A page of queues.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = QueuesPage)]
struct QueuesBody {
    /// By name.
    queues: Vec<QueueLine>,
    /// Of the next page; null on the last.
    cursor: Option<String>,
}

/// One line of the list.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = QueueEntry)]
struct QueueLine {
    /// Its name.
    name: String,
    /// `file`, `api` or `auto`.
    source: &'static str,
    /// Hand-out is paused.
    paused: bool,
    /// Its figures.
    stats: StatsBody,
}

/// A queue's configuration.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Queue)]
struct QueueBody {
    /// Its name.
    name: String,
    /// `file`, `api` or `auto`.
    source: &'static str,
    /// What was set.
    config: OptionsBody,
    /// What holds.
    effective: OptionsBody,
    /// What is missing before others should rely on it.
    warnings: Vec<String>,
    /// What was set through SQS.
    #[serde(skip_serializing_if = "Option::is_none")]
    sqs: Option<SqsBody>,
    /// Hand-out is paused.
    paused: bool,
    /// Why.
    paused_reason: Option<String>,
}

/// What a queue has through SQS.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = QueueSqs)]
struct SqsBody {
    /// Groups are locked and late settles refused as in a FIFO queue.
    fifo: bool,
    /// An unfinished job expires so long after it was enqueued; null: never.
    retention: Option<String>,
    /// What was received too often is handed off.
    redrive: Option<RedriveBody>,
}

/// A redrive policy.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = QueueRedrive)]
struct RedriveBody {
    /// The queue that takes it.
    target: String,
    /// After so many receives.
    max_receives: u32,
}

impl SqsBody {
    fn new(sqs: &SqsQueue) -> Self {
        let redrive =
            |redrive: &Redrive| RedriveBody { target: redrive.target.to_string(), max_receives: redrive.max_receives };
        Self {
            fifo: sqs.fifo.is_some(),
            retention: sqs.retention_ms.map(duration::text),
            redrive: sqs.redrive.as_ref().map(redrive),
        }
    }
}

/// A reason for the audit trail.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = ReasonRequest)]
struct ReasonBody {
    /// Why.
    reason: Option<Box<str>>,
}

/// Which waiting jobs go.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = PurgeRequest)]
struct PurgeBody {
    /// Of `ready`, `delayed`, `blocked`; the first two by default.
    states: Option<Vec<WaitingWord>>,
    /// Why.
    reason: Option<Box<str>>,
}

/// A state that can be purged.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = WaitingState)]
enum WaitingWord {
    /// Can be received.
    Ready,
    /// Waits for its time.
    Delayed,
    /// Waits for its children.
    Blocked,
}

/// How many went.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PurgeAnswer)]
struct PurgedBody {
    /// Jobs.
    purged: u64,
}

/// A queue that is gone.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DeleteAnswer)]
struct DeletedBody {
    /// Its name.
    name: Box<str>,
    /// It is gone.
    deleted: bool,
}

/// List queues by name.
#[utoipa::path(
    get, path = "/v1/queues", operation_id = "listQueues", tag = "queues",
    params(("limit" = Option<u32>, Query), ("cursor" = Option<String>, Query)),
    responses((status = 200, description = "a page", body = QueuesBody), Everywhere),
)]
pub(crate) async fn list(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let params = Params::parse(request.uri().query(), &["limit", "cursor"])?;
    let (entries, cursor) =
        match app.shard.query(Query::Queues(params.page()?)).await.map_err(|e| Problem::from(e).single())? {
            Answer::Queues { queues, cursor } => (queues, cursor),
            other => return Err(unexpected(&other)),
        };
    let line = |entry: &recado_core::QueueEntry| QueueLine {
        name: entry.name.to_string(),
        source: source_word(entry.source),
        paused: entry.paused,
        stats: StatsBody::new(&app, &entry.name, &entry.stats),
    };
    Ok(answer(StatusCode::OK, &QueuesBody { queues: entries.iter().map(line).collect(), cursor }))
}

/// Look at a queue's configuration.
#[utoipa::path(
    get, path = "/v1/queues/{q}", operation_id = "getQueue", tag = "queues",
    params(("q" = String, Path, description = "name of the queue")),
    responses((status = 200, description = "with ETag", body = QueueBody), OnQueue),
)]
pub(crate) async fn get(State(app): State<App>, Queue(queue): Queue, request: Request) -> Result<Response, Problem> {
    Params::parse(request.uri().query(), &[])?;
    Ok(shown(StatusCode::OK, &look(&app, queue).await?))
}

/// Create a queue or replace its whole configuration; what is left out has its default.
#[utoipa::path(
    put, path = "/v1/queues/{q}", operation_id = "putQueue", tag = "queues",
    params(("q" = String, Path, description = "name of the queue"),
        ("If-Match" = Option<String>, Header, description = "ETag of the configuration that is replaced"),
        ("If-None-Match" = Option<String>, Header, description = "`*`: only create, replace nothing")),
    request_body(content = OptionsBody, content_type = "application/json"),
    responses(
        (status = 200, description = "replaced", body = QueueBody),
        (status = 201, description = "created", body = QueueBody),
        (status = 409, description = "managed-by-file", body = crate::problem::Body, content_type = "application/problem+json"),
        (status = 412, description = "precondition-failed", body = crate::problem::Body, content_type = "application/problem+json"),
        (status = 429, description = "queue-full: too many queues", body = crate::problem::Body, content_type = "application/problem+json"),
        OnQueue,
    ),
)]
pub(crate) async fn put(State(app): State<App>, Queue(queue): Queue, request: Request) -> Result<Response, Problem> {
    Params::parse(request.uri().query(), &[])?;
    let condition = condition(request.headers());
    let body = body::json(request).await?;
    let raw: &RawValue = json::parse(&body)?;
    json::check_free(raw, "").map_err(|error| Problem::invalid(vec![error]))?;
    let value: Value = json::parse(&body)?;
    let options = options::parse(&value).map_err(Problem::invalid)?;
    let configure =
        Configure { queue: queue.clone(), options, source: Source::Api, condition, actor: Actor::default() };
    match app.shard.call(Command::Configure(configure)).await.map_err(|error| Problem::from(error).single())? {
        Reply::Configured { created, .. } => {
            let status = if created { StatusCode::CREATED } else { StatusCode::OK };
            Ok(shown(status, &look(&app, queue).await?))
        }
        other => Err(unexpected(&other)),
    }
}

fn condition(headers: &HeaderMap) -> Condition {
    Condition { is: tags(headers, IF_MATCH), is_not: tags(headers, IF_NONE_MATCH) }
}

/// Reads If-Match or If-None-Match; a tag that is not ours matches nothing.
fn tags(headers: &HeaderMap, name: HeaderName) -> Option<Revisions> {
    let mut lines = headers.get_all(name).iter().peekable();
    lines.peek()?;
    let mut revisions = Vec::new();
    for line in lines {
        for tag in line.to_str().unwrap_or_default().split(',').map(str::trim) {
            if tag == "*" {
                return Some(Revisions::Any);
            }
            let quoted = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
            revisions.extend(quoted.and_then(|tag| tag.parse::<u64>().ok()));
        }
    }
    Some(Revisions::These(revisions))
}

/// Delete a queue.
#[utoipa::path(
    delete, path = "/v1/queues/{q}", operation_id = "deleteQueue", tag = "queues",
    params(("q" = String, Path, description = "name of the queue"),
        ("force" = Option<bool>, Query, description = "true: also with jobs in it"),
        ("If-Match" = Option<String>, Header, description = "ETag of the configuration that is deleted")),
    responses(
        (status = 200, description = "gone, with all its jobs", body = DeletedBody),
        (status = 409, description = "queue-not-empty, managed-by-file", body = crate::problem::Body, content_type = "application/problem+json"),
        (status = 412, description = "precondition-failed", body = crate::problem::Body, content_type = "application/problem+json"),
        OnQueue,
    ),
)]
pub(crate) async fn delete(State(app): State<App>, Queue(queue): Queue, request: Request) -> Result<Response, Problem> {
    let params = Params::parse(request.uri().query(), &["force"])?;
    let force = params.flag("force")?.unwrap_or(false);
    let condition = condition(request.headers());
    app.shard.delete_queue(queue.clone(), force, condition, Actor::default()).await?;
    Ok(answer(StatusCode::OK, &DeletedBody { name: queue, deleted: true }))
}

/// Stop handing out jobs; enqueue and settle go on.
#[utoipa::path(
    post, path = "/v1/queues/{q}/pause", operation_id = "pauseQueue", tag = "queues",
    params(("q" = String, Path, description = "name of the queue")),
    request_body(content = ReasonBody, content_type = "application/json"),
    responses((status = 200, description = "the queue as it is now", body = QueueBody), OnQueue),
)]
pub(crate) async fn pause(State(app): State<App>, Queue(queue): Queue, request: Request) -> Result<Response, Problem> {
    set_paused(&app, queue, true, request).await
}

/// Hand out jobs again.
#[utoipa::path(
    post, path = "/v1/queues/{q}/resume", operation_id = "resumeQueue", tag = "queues",
    params(("q" = String, Path, description = "name of the queue")),
    request_body(content = ReasonBody, content_type = "application/json"),
    responses((status = 200, description = "the queue as it is now", body = QueueBody), OnQueue),
)]
pub(crate) async fn resume(State(app): State<App>, Queue(queue): Queue, request: Request) -> Result<Response, Problem> {
    set_paused(&app, queue, false, request).await
}

async fn set_paused(app: &App, queue: Box<str>, paused: bool, request: Request) -> Result<Response, Problem> {
    Params::parse(request.uri().query(), &[])?;
    let body = body::json_or_empty(request).await?;
    let reason = reason(json::parse::<ReasonBody>(&body)?.reason)?;
    app.shard.call(Command::SetPaused { queue: queue.clone(), paused, reason, actor: Actor::default() }).await?;
    Ok(shown(StatusCode::OK, &look(app, queue).await?))
}

/// Remove waiting jobs; never dead ones.
#[utoipa::path(
    post, path = "/v1/queues/{q}/purge", operation_id = "purgeQueue", tag = "queues",
    params(("q" = String, Path, description = "name of the queue")),
    request_body(content = PurgeBody, content_type = "application/json"),
    responses((status = 200, description = "how many went", body = PurgedBody), OnQueue),
)]
pub(crate) async fn purge(State(app): State<App>, Queue(queue): Queue, request: Request) -> Result<Response, Problem> {
    Params::parse(request.uri().query(), &[])?;
    let body = body::json_or_empty(request).await?;
    let asked: PurgeBody = json::parse(&body)?;
    let words = asked.states.unwrap_or_else(|| vec![WaitingWord::Ready, WaitingWord::Delayed]);
    if words.is_empty() {
        return Err(Problem::field("/states", "name at least one of ready, delayed, blocked"));
    }
    let state = |word: WaitingWord| match word {
        WaitingWord::Ready => JobState::Ready,
        WaitingWord::Delayed => JobState::Delayed,
        WaitingWord::Blocked => JobState::Blocked,
    };
    let action = Action::Purge { states: words.into_iter().map(state).collect() };
    let task = NewTask { queue, action, reason: reason(asked.reason)?, actor: Actor::default() };
    let done = app.shard.run_task(task).await?;
    Ok(answer(StatusCode::OK, &PurgedBody { purged: done.acted }))
}

async fn look(app: &App, queue: Box<str>) -> Result<QueueView, Problem> {
    match app.shard.query(Query::Queue(queue)).await? {
        Answer::Queue(view) => Ok(*view),
        other => Err(unexpected(&other)),
    }
}

fn shown(status: StatusCode, view: &QueueView) -> Response {
    let body = QueueBody {
        name: view.name.to_string(),
        source: source_word(view.source),
        config: OptionsBody::from(&view.options),
        effective: OptionsBody::from(&view.settings),
        warnings: warnings(view),
        sqs: view.options.sqs.as_deref().map(SqsBody::new),
        paused: view.paused,
        paused_reason: view.paused_reason.as_deref().map(str::to_owned),
    };
    let mut response = answer(status, &body);
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{}\"", view.revision)) {
        response.headers_mut().insert(ETAG, tag);
    }
    response
}

fn warnings(view: &QueueView) -> Vec<String> {
    let mut warnings = Vec::new();
    if view.settings.dead_owner.is_none() {
        warnings.push("nobody owns its dead jobs: set owner or deadLetter.owner".to_owned());
    }
    warnings
}

/// Who made a configuration or schema.
pub(super) fn source_word(source: Source) -> &'static str {
    match source {
        Source::Auto => "auto",
        Source::Api => "api",
        Source::File => "file",
    }
}
