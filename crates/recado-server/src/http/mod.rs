//! The HTTP API: a file a resource, and what they share.

pub(crate) mod body;
mod dead;
mod doctor;
mod enqueue;
pub(crate) mod events;
mod guard;
mod hooks;
mod job;
mod jobs;
pub(crate) mod limits;
mod ndjson;
pub(crate) mod new_job;
mod operate;
mod queues;
mod receive;
mod replays;
mod schedules;
mod settle;
mod stats;
mod types;

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{FromRequestParts, RawPathParams, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode, Uri};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use recado_contract::gate::Gate;
use recado_core::JobId;
use recado_shard::Handle;
use serde::Serialize;
use tokio::sync::{Semaphore, watch};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::doctor::Place;
use crate::openapi;
use crate::origin::PublicUrl;
use crate::problem::{Code, Problem};
use crate::reasons::Reasons;

pub(crate) use enqueue::check_with;
pub(crate) use stats::visibility_warning;

/// What every handler sees.
#[derive(Clone)]
pub(crate) struct App(Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) shard: Handle,
    pub(crate) create_queues: bool,
    pub(crate) public: Option<PublicUrl>,
    pub(crate) durability: &'static str,
    /// Where the server runs.
    pub(crate) place: Place,
    /// What each queue asks of its jobs.
    pub(crate) gate: Gate,
    /// Refused requests.
    pub(crate) rejected: Reasons,
    /// Jobs taken although something in them should not be there.
    pub(crate) warned: Reasons,
    pub(crate) started: Instant,
    pub(crate) started_at: u64,
    /// True once the server stops; long polls end then.
    pub(crate) stopping: watch::Receiver<bool>,
    pub(crate) sqs: crate::sqs::Shared,
    pub(crate) schedules: crate::schedules::Changed,
    pub(crate) events: events::Shared,
    pub(crate) hooks: crate::hooks::Hooks,
    /// Events of hooks that may be on their way in.
    pub(crate) hook_places: Arc<Semaphore>,
}

impl App {
    pub(crate) fn new(shared: Shared) -> Self {
        Self(Arc::new(shared))
    }

    /// Resolves when the server stops.
    pub(crate) async fn stopping(&self) {
        let mut stopping = self.stopping.clone();
        // An error means that the sender is gone: that is a stop too.
        let _ = stopping.wait_for(|stops| *stops).await;
    }
}

impl std::ops::Deref for App {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

/// All routes with their description.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(openapi::base())
        .routes(routes!(enqueue::enqueue, jobs::list))
        .routes(routes!(receive::receive))
        .routes(routes!(receive::receive_many))
        .routes(routes!(settle::settle))
        .routes(routes!(jobs::get, jobs::delete, jobs::patch))
        .routes(routes!(jobs::list_all))
        .routes(routes!(jobs::cancel))
        .routes(routes!(queues::list))
        .routes(routes!(queues::get, queues::put, queues::delete))
        .routes(routes!(queues::pause))
        .routes(routes!(queues::resume))
        .routes(routes!(queues::purge))
        .routes(routes!(stats::stats))
        .routes(routes!(dead::groups))
        .routes(routes!(dead::acknowledge))
        .routes(routes!(dead::replay))
        .routes(routes!(dead::discard))
        .routes(routes!(types::list))
        .routes(routes!(types::get, types::put, types::delete))
        .routes(routes!(limits::list))
        .routes(routes!(limits::get, limits::put, limits::delete))
        .routes(routes!(schedules::list))
        .routes(routes!(schedules::get, schedules::put, schedules::delete))
        .routes(routes!(schedules::pause))
        .routes(routes!(schedules::resume))
        .routes(routes!(schedules::run))
        .routes(routes!(schedules::next))
        .routes(routes!(schedules::occurrences))
        .routes(routes!(hooks::list))
        .routes(routes!(hooks::get, hooks::put, hooks::delete, hooks::send))
        .routes(routes!(guard::begin))
        .routes(routes!(guard::complete))
        .routes(routes!(guard::abort))
        .routes(routes!(guard::extend))
        .routes(routes!(replays::list))
        .routes(routes!(replays::get, replays::cancel))
        .routes(routes!(events::events))
        .routes(routes!(operate::audit))
        .routes(routes!(operate::info))
        .routes(routes!(doctor::doctor))
        .routes(routes!(operate::backup))
        .routes(routes!(operate::healthz))
        .routes(routes!(operate::readyz))
        .routes(routes!(operate::metrics))
        .routes(routes!(operate::problem))
        .routes(routes!(operate::openapi))
        .routes(routes!(operate::root))
}

/// The service behind every connection.
pub(crate) fn router(app: App) -> Router {
    let (router, _) = routes().split_for_parts();
    let router = router.layer(from_fn(no_idempotency_key));
    router.fallback(not_found).method_not_allowed_fallback(method_not_allowed).with_state(app)
}

/// Whoever sends an `Idempotency-Key` relies on it: where it is not kept, the request is refused.
async fn no_idempotency_key(request: Request, next: Next) -> Response {
    let has_key = request.headers().contains_key("idempotency-key");
    let path = request.uri().path();
    let is_enqueue = path.starts_with("/v1/queues/") && path.ends_with("/jobs");
    // Senders of webhooks say what they like; what comes twice is known by the event's own id.
    let is_hook = path.starts_with("/v1/hooks/");
    if has_key && request.method() == Method::POST && !is_enqueue && !is_hook {
        let detail = "an Idempotency-Key is kept for enqueues only; a settle can be sent again under its receipt, \
                      a receive under its attemptId: leave the header out";
        return Problem::new(Code::InvalidRequest, detail).into_response();
    }
    next.run(request).await
}

async fn not_found(uri: Uri) -> Problem {
    let path: String = uri.path().chars().take(200).collect();
    Problem::new(Code::NotFound, format!("there is nothing at {path}; GET /openapi.json lists what there is"))
}

async fn method_not_allowed(method: Method) -> Problem {
    Problem::new(Code::MethodNotAllowed, format!("{method} is not allowed here; see the header Allow"))
}

/// The `{q}` of a path: a queue's name.
pub(crate) struct Queue(pub(crate) Box<str>);

impl<S: Send + Sync> FromRequestParts<S> for Queue {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let name = path_param(parts, state, "q").await?;
        crate::name::check_name(&name).map_err(Problem::name)?;
        Ok(Self(name.into()))
    }
}

/// The last `{id}` of a path, as text.
pub(crate) struct Id(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        path_param(parts, state, "id").await.map(Self)
    }
}

/// The `{id}` of a path: a job's id.
pub(crate) struct Job(pub(crate) JobId);

impl<S: Send + Sync> FromRequestParts<S> for Job {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        job_id(&path_param(parts, state, "id").await?).map(Self)
    }
}

async fn path_param<S: Send + Sync>(parts: &mut Parts, state: &S, name: &str) -> Result<String, Problem> {
    let params =
        RawPathParams::from_request_parts(parts, state).await.map_err(|_| Problem::name("the path is not UTF-8"))?;
    let found = params.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_owned());
    found.ok_or_else(|| Problem::new(Code::Internal, "the route has no such parameter"))
}

/// Reads a job's id. What is well formed but not ours is gone; anything else was never an id.
pub(crate) fn job_id(text: &str) -> Result<JobId, Problem> {
    if let Some(id) = JobId::parse(text) {
        return Ok(id);
    }
    let lower_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    match text.strip_prefix("job_") {
        Some(digits) if digits.len() == 32 && digits.bytes().all(lower_hex) => {
            Err(Problem::new(Code::Gone, "no job has this id"))
        }
        _ => Err(Problem::new(Code::NotFound, "this is not a job's id: `job_` and 32 lower-case hex digits")),
    }
}

/// An answer.
pub(crate) fn answer(status: StatusCode, body: &impl Serialize) -> Response {
    match serde_json::to_vec(body) {
        Ok(bytes) => (status, [(CONTENT_TYPE, HeaderValue::from_static("application/json"))], bytes).into_response(),
        Err(error) => {
            tracing::error!(%error, "an answer cannot be written");
            Problem::new(Code::Internal, "the answer cannot be written").into_response()
        }
    }
}

/// A defect: the shard answered another question.
pub(crate) fn unexpected(what: &impl std::fmt::Debug) -> Problem {
    tracing::error!(?what, "unexpected answer of the shard");
    Problem::new(Code::Internal, "the shard answered something else")
}
