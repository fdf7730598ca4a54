//! `/v1/limits`: what queues that meet at one provider or pool may do together.

use axum::extract::{FromRequestParts, Request, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use recado_core::{
    Actor, Answer, BreakerState, BreakerView, Command, LimitFigures, LimitView, PutLimit, Query, Rejection, Reply,
    Source,
};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::queues::source_word;
use super::{App, answer, body, path_param, unexpected};
use crate::openapi::Everywhere;
use crate::options::{self, LimitBody, RateBody};
use crate::problem::Problem;
use crate::query::Params;
use crate::{json, time};

/// The `{limit}` of a path: the name of a shared limit.
pub(crate) struct Limit(Box<str>);

impl<S: Send + Sync> FromRequestParts<S> for Limit {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let name = path_param(parts, state, "limit").await?;
        crate::name::check_name(&name).map_err(Problem::name)?;
        Ok(Self(name.into()))
    }
}

/// All shared limits.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Limits)]
pub(crate) struct LimitsBody {
    /// By name.
    limits: Vec<SharedBody>,
}

/// A shared limit.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = SharedLimit)]
pub(crate) struct SharedBody {
    /// How far it is used.
    #[serde(flatten)]
    figures: LimitFiguresBody,
    /// `file`, `api` or `auto`.
    source: &'static str,
    /// What was set.
    config: LimitBody,
    /// The queues that name it.
    queues: Vec<String>,
}

/// How far a shared limit is used.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = LimitFigures)]
pub(crate) struct LimitFiguresBody {
    /// Its name.
    name: String,
    /// Jobs of all its queues in flight.
    in_flight: u64,
    /// At most so many may be; null: any.
    max_in_flight: Option<u32>,
    /// Null: none.
    rate: Option<RateFiguresBody>,
    /// Null: off.
    breaker: Option<BreakerFiguresBody>,
    /// Why nothing is handed out under it; null: nothing holds.
    held_back: Option<&'static str>,
}

/// Where a circuit breaker is.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = BreakerFigures)]
pub(crate) struct BreakerFiguresBody {
    /// `closed`, `open` or `halfOpen`.
    state: &'static str,
    /// Since when; null: it has never opened.
    since: Option<String>,
    /// End of the cool-down; null unless open.
    until: Option<String>,
    /// Attempts that ended within the window, while closed.
    jobs: u64,
    /// Share of them that failed; null without one.
    failure_rate: Option<f64>,
}

/// How far a rate limit is used.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RateFigures)]
pub(crate) struct RateFiguresBody {
    /// What was set.
    #[serde(flatten)]
    limit: RateBody,
    /// Deliveries that it lets pass now.
    available: u32,
}

/// A shared limit that is gone.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LimitRemoved)]
pub(crate) struct RemovedBody {
    /// Its name.
    name: Box<str>,
    /// It is gone.
    deleted: bool,
}

impl RateFiguresBody {
    pub(crate) fn new((limit, available): (recado_core::RateLimit, u32)) -> Self {
        Self { limit: limit.into(), available }
    }
}

impl From<&LimitFigures> for LimitFiguresBody {
    fn from(figures: &LimitFigures) -> Self {
        Self {
            name: figures.name.to_string(),
            in_flight: figures.in_flight,
            max_in_flight: figures.max_in_flight,
            rate: figures.rate.map(RateFiguresBody::new),
            breaker: figures.breaker.as_ref().map(BreakerFiguresBody::from),
            held_back: figures.held_back.map(recado_core::HeldBack::word),
        }
    }
}

impl From<&BreakerView> for BreakerFiguresBody {
    fn from(view: &BreakerView) -> Self {
        Self {
            state: state_word(view.state),
            since: view.since.map(time::text),
            until: view.until.map(time::text),
            jobs: view.jobs,
            failure_rate: (view.jobs > 0).then(|| view.failures as f64 / view.jobs as f64),
        }
    }
}

/// The word on the wire.
pub(super) fn state_word(state: BreakerState) -> &'static str {
    match state {
        BreakerState::Closed => "closed",
        BreakerState::Open => "open",
        BreakerState::HalfOpen => "halfOpen",
    }
}

impl From<&LimitView> for SharedBody {
    fn from(view: &LimitView) -> Self {
        Self {
            figures: (&view.figures).into(),
            source: source_word(view.source),
            config: (&view.options).into(),
            queues: view.queues.iter().map(ToString::to_string).collect(),
        }
    }
}

/// List shared limits by name.
#[utoipa::path(
    get, path = "/v1/limits", operation_id = "listLimits", tag = "limits",
    responses((status = 200, description = "all of them", body = LimitsBody), Everywhere),
)]
pub(crate) async fn list(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    Params::parse(request.uri().query(), &[])?;
    Ok(answer(StatusCode::OK, &LimitsBody { limits: all(&app).await?.iter().map(SharedBody::from).collect() }))
}

/// Look at a shared limit.
#[utoipa::path(
    get, path = "/v1/limits/{limit}", operation_id = "getLimit", tag = "limits",
    params(("limit" = String, Path, description = "name of the shared limit")),
    responses(
        (status = 200, description = "as it is now", body = SharedBody),
        (status = 404, description = "not-found", body = crate::problem::Body, content_type = "application/problem+json"),
        Everywhere,
    ),
)]
pub(crate) async fn get(State(app): State<App>, Limit(name): Limit, request: Request) -> Result<Response, Problem> {
    Params::parse(request.uri().query(), &[])?;
    look(&app, StatusCode::OK, &name).await
}

/// Create a shared limit or replace what holds for it; queues name it in their `limits`.
#[utoipa::path(
    put, path = "/v1/limits/{limit}", operation_id = "putLimit", tag = "limits",
    params(("limit" = String, Path, description = "name of the shared limit")),
    request_body(content = LimitBody, content_type = "application/json"),
    responses(
        (status = 200, description = "replaced", body = SharedBody),
        (status = 201, description = "created", body = SharedBody),
        (status = 409, description = "managed-by-file", body = crate::problem::Body, content_type = "application/problem+json"),
        (status = 429, description = "queue-full: too many shared limits", body = crate::problem::Body, content_type = "application/problem+json"),
        Everywhere,
    ),
)]
pub(crate) async fn put(State(app): State<App>, Limit(name): Limit, request: Request) -> Result<Response, Problem> {
    Params::parse(request.uri().query(), &[])?;
    let body = body::json(request).await?;
    let raw: &RawValue = json::parse(&body)?;
    json::check_free(raw, "").map_err(|error| Problem::invalid(vec![error]))?;
    let value: Value = json::parse(&body)?;
    let options = options::parse_limit(&value).map_err(Problem::invalid)?;
    let put = PutLimit { limit: name.clone(), options, source: Source::Api, actor: Actor::default() };
    match app.shard.call(Command::PutLimit(put)).await? {
        Reply::LimitPut { created } => {
            look(&app, if created { StatusCode::CREATED } else { StatusCode::OK }, &name).await
        }
        other => Err(unexpected(&other)),
    }
}

/// Remove a shared limit that no queue names.
#[utoipa::path(
    delete, path = "/v1/limits/{limit}", operation_id = "removeLimit", tag = "limits",
    params(("limit" = String, Path, description = "name of the shared limit")),
    responses(
        (status = 200, description = "it is gone", body = RemovedBody),
        (status = 404, description = "not-found", body = crate::problem::Body, content_type = "application/problem+json"),
        (status = 409, description = "limit-in-use, managed-by-file", body = crate::problem::Body, content_type = "application/problem+json"),
        Everywhere,
    ),
)]
pub(crate) async fn delete(State(app): State<App>, Limit(name): Limit, request: Request) -> Result<Response, Problem> {
    Params::parse(request.uri().query(), &[])?;
    let actor = Actor::default();
    app.shard.call(Command::RemoveLimit { limit: name.clone(), source: Source::Api, actor }).await?;
    Ok(answer(StatusCode::OK, &RemovedBody { name, deleted: true }))
}

/// All shared limits, as they are now.
pub(crate) async fn all(app: &App) -> Result<Vec<LimitView>, Problem> {
    match app.shard.query(Query::Limits).await? {
        Answer::Limits(limits) => Ok(limits),
        other => Err(unexpected(&other)),
    }
}

async fn look(app: &App, status: StatusCode, name: &str) -> Result<Response, Problem> {
    let limits = all(app).await?;
    match limits.iter().find(|limit| *limit.figures.name == *name) {
        Some(found) => Ok(answer(status, &SharedBody::from(found))),
        None => Err(Rejection::LimitNotFound { name: name.into(), nearest: None }.into()),
    }
}
