//! Guards: work under a key that is done once, whoever does it.

use axum::extract::{FromRequestParts, Request, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use recado_contract::{gate, guard};
use recado_core::{Command, GuardAction, GuardBegin, GuardUse, JobId, Reply};
use recado_shard::Once;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::job::raw;
use super::{App, Queue, answer, body, job_id, path_param, unexpected};
use crate::faults::Faults;
use crate::json;
use crate::limits::{GUARD_HOLD_MS_DEFAULT, GUARD_TTL_MS_DEFAULT};
use crate::openapi::OnQueue;
use crate::problem::{Code, Problem};
use crate::query::Params;
use crate::{duration, time};

/// Who wants to do it, and for how long.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = GuardBeginRequest)]
struct BeginBody {
    /// The result is kept for so long after the success; 24h by default, not used with `job`.
    ttl: Option<Box<str>>,
    /// Others wait for so long, 100ms to 12h; 1m by default. Extend it while the work goes on.
    hold_for: Option<Box<str>>,
    /// A job of this queue: the guard is kept as long as the job, dead included.
    job: Option<Box<str>>,
    /// With `job`: its present receipt; a worker that has lost the job is refused.
    receipt: Option<Box<str>>,
    /// The same again gets the same token, while what it began is held: for a begin whose answer was lost.
    attempt_id: Option<Box<str>>,
}

/// What was found.
#[derive(Debug, Serialize, ToSchema)]
#[serde(tag = "state", rename_all = "camelCase")]
#[schema(as = GuardBeginAnswer)]
enum BegunBody<'a> {
    /// Nothing: do the work, then complete or abort.
    New {
        /// Proves it.
        token: Box<str>,
    },
    /// The work is done.
    Done {
        /// What it ended with, byte for byte; null without.
        #[schema(value_type = serde_json::Value)]
        result: Option<&'a RawValue>,
    },
    /// Somebody is at it.
    Processing {
        /// When the next begin may take it over.
        until: String,
    },
}

/// The work is done.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = GuardCompleteRequest)]
struct CompleteBody<'a> {
    /// As it was given by the begin.
    token: Box<str>,
    /// Free JSON, at most 64 KiB.
    #[serde(borrow, default)]
    #[schema(value_type = serde_json::Value)]
    result: Option<&'a RawValue>,
}

/// The work is given up.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = GuardAbortRequest)]
struct AbortBody {
    /// As it was given by the begin.
    token: Box<str>,
}

/// The work goes on.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = GuardExtendRequest)]
struct ExtendBody {
    /// As it was given by the begin.
    token: Box<str>,
    /// Others wait for so long from now, 100ms to 12h; 1m by default.
    hold_for: Option<Box<str>>,
}

/// What is so now.
#[derive(Debug, Serialize, ToSchema)]
#[serde(tag = "state", rename_all = "camelCase")]
#[schema(as = GuardAnswer)]
enum UsedBody {
    /// The result is kept.
    Done {
        /// It was so before, with this result.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        repeated: bool,
    },
    /// The key is free.
    Aborted {
        /// It was so before.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        repeated: bool,
    },
    /// Others wait.
    Processing {
        /// When the next begin may take it over.
        until: String,
    },
}

/// The `{key}` of a path.
pub(crate) struct Key(Box<str>);

impl<S: Send + Sync> FromRequestParts<S> for Key {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let key = path_param(parts, state, "key").await?;
        crate::name::check_key(&key).map_err(|message| Problem::new(Code::InvalidRequest, message))?;
        Ok(Self(key.into()))
    }
}

impl BeginBody {
    fn check(self, queue: Box<str>, key: Box<str>) -> Result<GuardBegin, Problem> {
        let mut faults = Faults::default();
        let ttl_ms = ms(self.ttl.as_deref(), "/ttl", GUARD_TTL_MS_DEFAULT, &mut faults);
        let hold_ms = hold_ms(self.hold_for.as_deref(), &mut faults);
        let has_job = self.job.is_some();
        let job = job(self.job.as_deref(), &mut faults)?;
        let receipt = self.receipt.filter(|_| job.is_some() || !has_job);
        let begin = GuardBegin { queue, key, ttl_ms, hold_ms, job, receipt, attempt_id: self.attempt_id };
        guard::check_begin(&begin, &mut faults);
        faults.finish()?;
        Ok(begin)
    }
}

fn hold_ms(text: Option<&str>, faults: &mut Faults) -> u64 {
    ms(text, "/holdFor", GUARD_HOLD_MS_DEFAULT, faults)
}

fn ms(text: Option<&str>, pointer: &str, default: u64, faults: &mut Faults) -> u64 {
    text.map(duration::parse)
        .transpose()
        .unwrap_or_else(|message| {
            faults.at(pointer, message);
            None
        })
        .unwrap_or(default)
}

/// A well-formed id that cannot be there is gone; anything else is a mistake in the body.
fn job(text: Option<&str>, faults: &mut Faults) -> Result<Option<JobId>, Problem> {
    match text.map(job_id).transpose() {
        Ok(id) => Ok(id),
        Err(problem) if problem.code() == Code::Gone.word() => Err(problem),
        Err(_) => {
            faults.at("/job", "not a job's id: `job_` and 32 lower-case hex digits");
            Ok(None)
        }
    }
}

/// Begin work that must be done once, or learn what it ended with.
#[utoipa::path(
    post, path = "/v1/queues/{q}/idempotency/{key}/begin", operation_id = "beginGuard", tag = "guard",
    params(("q" = String, Path, description = "name of the queue"), ("key" = String, Path, description = "names the work; 1 to 256 bytes")),
    request_body(content = BeginBody, content_type = "application/json"),
    responses(
        (status = 200, description = "what was found", body = BegunBody<'_>),
        (status = 410, description = "gone", body = crate::problem::Body, content_type = "application/problem+json"),
        OnQueue,
    ),
)]
pub(crate) async fn begin(
    State(app): State<App>,
    Queue(queue): Queue,
    Key(key): Key,
    request: Request,
) -> Result<Response, Problem> {
    Params::parse(request.uri().query(), &[])?;
    let body = body::json_or_empty(request).await?;
    let asked = json::parse::<BeginBody>(&body)?.check(queue, key)?;
    let found = app.shard.begin(asked).await.map_err(|error| Problem::from(error).single())?;
    let result = match &found {
        Once::Done(Some(bytes)) => Some(raw(bytes)?),
        _ => None,
    };
    let begun = match found {
        Once::New(token) => BegunBody::New { token },
        Once::Done(_) => BegunBody::Done { result },
        Once::Processing(until) => BegunBody::Processing { until: time::text(until) },
    };
    Ok(answer(StatusCode::OK, &begun))
}

/// The work is done: later begins get the result.
#[utoipa::path(
    post, path = "/v1/queues/{q}/idempotency/{key}/complete", operation_id = "completeGuard", tag = "guard",
    params(("q" = String, Path, description = "name of the queue"), ("key" = String, Path, description = "names the work")),
    request_body(content = CompleteBody<'_>, content_type = "application/json"),
    responses((status = 200, description = "it is kept", body = UsedBody), OnQueue),
)]
pub(crate) async fn complete(
    State(app): State<App>,
    Queue(queue): Queue,
    Key(key): Key,
    request: Request,
) -> Result<Response, Problem> {
    Params::parse(request.uri().query(), &[])?;
    let body = body::json(request).await?;
    let asked: CompleteBody<'_> = json::parse(&body)?;
    let result = asked.result.map(|raw| raw.get().as_bytes().to_vec());
    let action = GuardAction::Complete { result };
    let wanted = GuardUse { queue, key, token: asked.token, action };
    let (repeated, _) = act(&app, wanted, Faults::default()).await?;
    Ok(answer(StatusCode::OK, &UsedBody::Done { repeated }))
}

/// The work is given up: the next begin starts anew.
#[utoipa::path(
    post, path = "/v1/queues/{q}/idempotency/{key}/abort", operation_id = "abortGuard", tag = "guard",
    params(("q" = String, Path, description = "name of the queue"), ("key" = String, Path, description = "names the work")),
    request_body(content = AbortBody, content_type = "application/json"),
    responses((status = 200, description = "the key is free", body = UsedBody), OnQueue),
)]
pub(crate) async fn abort(
    State(app): State<App>,
    Queue(queue): Queue,
    Key(key): Key,
    request: Request,
) -> Result<Response, Problem> {
    Params::parse(request.uri().query(), &[])?;
    let body = body::json(request).await?;
    let asked: AbortBody = json::parse(&body)?;
    let wanted = GuardUse { queue, key, token: asked.token, action: GuardAction::Abort };
    let (repeated, _) = act(&app, wanted, Faults::default()).await?;
    Ok(answer(StatusCode::OK, &UsedBody::Aborted { repeated }))
}

/// The work goes on: others wait longer.
#[utoipa::path(
    post, path = "/v1/queues/{q}/idempotency/{key}/extend", operation_id = "extendGuard", tag = "guard",
    params(("q" = String, Path, description = "name of the queue"), ("key" = String, Path, description = "names the work")),
    request_body(content = ExtendBody, content_type = "application/json"),
    responses((status = 200, description = "others wait", body = UsedBody), OnQueue),
)]
pub(crate) async fn extend(
    State(app): State<App>,
    Queue(queue): Queue,
    Key(key): Key,
    request: Request,
) -> Result<Response, Problem> {
    Params::parse(request.uri().query(), &[])?;
    let body = body::json(request).await?;
    let asked: ExtendBody = json::parse(&body)?;
    let mut faults = Faults::default();
    let action = GuardAction::Extend { hold_ms: hold_ms(asked.hold_for.as_deref(), &mut faults) };
    match act(&app, GuardUse { queue, key, token: asked.token, action }, faults).await? {
        (_, Some(until)) => Ok(answer(StatusCode::OK, &UsedBody::Processing { until: time::text(until) })),
        (_, None) => Err(unexpected(&"an extend without its end")),
    }
}

async fn act(app: &App, mut wanted: GuardUse, mut faults: Faults) -> Result<(bool, Option<u64>), Problem> {
    guard::check_use(&wanted, &mut faults);
    faults.finish()?;
    gate::mask_guard(&mut wanted);
    match app.shard.call(Command::GuardUse(wanted)).await? {
        Reply::Guarded { repeated, until } => Ok((repeated, until)),
        other => Err(unexpected(&other)),
    }
}
