//! `/v1/schedules`: jobs that are made at given times.

use axum::extract::{FromRequestParts, Request, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use recado_core::{Actor, Answer, Command, Occurrence, Query, ScheduleView, Source};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::jobs::reason;
use super::queues::source_word;
use super::{App, answer, body, path_param, unexpected};
use crate::limits::FORETOLD_MAX;
use crate::openapi::Everywhere;
use crate::problem::Problem;
use crate::query::{Params, wrong};
use crate::schedules::{self, Definition, ScheduleBody};
use crate::{json, time};

/// Instants that are foretold to who did not say how many.
const FORETOLD_DEFAULT: u64 = 5;

/// The `{schedule}` of a path: a schedule's name.
pub(crate) struct Schedule(Box<str>);

impl<S: Send + Sync> FromRequestParts<S> for Schedule {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let name = path_param(parts, state, "schedule").await?;
        crate::name::check_name(&name).map_err(Problem::name)?;
        Ok(Self(name.into()))
    }
}

/// A page of schedules.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = SchedulesPage)]
struct SchedulesBody<'a> {
    /// By name.
    schedules: Vec<ShownBody<'a>>,
    /// Of the next page; null on the last.
    cursor: Option<String>,
}

/// A schedule as it is now.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Schedule)]
struct ShownBody<'a> {
    /// Its name.
    name: &'a str,
    /// `file`, `api` or `auto`.
    source: &'static str,
    /// What was set, every option with its value.
    #[schema(value_type = ScheduleBody<'static>)]
    config: &'a RawValue,
    /// Its occurrences are skipped.
    paused: bool,
    /// Why.
    paused_reason: Option<&'a str>,
    /// When it is due next; null: never again.
    next: Option<String>,
    /// What became of it last; null: it was never due.
    last: Option<OccurrenceBody>,
    /// Occurrences that made a job.
    fired: u64,
    /// Entries of those that made none.
    skipped: u64,
}

/// What became of an instant at which a schedule was due.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Occurrence)]
struct OccurrenceBody {
    /// The instant; of a manual one, when it was asked for.
    scheduled_for: String,
    /// It stands for all that were due from then on and before this.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<String>,
    /// `fired` or `skipped`.
    outcome: &'static str,
    /// Why it was skipped; `manual` when somebody asked for it; null otherwise.
    reason: Option<&'static str>,
    /// The job that it made, or that was in its way.
    job_id: Option<String>,
}

/// A page of occurrences.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = OccurrencesPage)]
struct OccurrencesBody {
    /// Newest first; the last 100 are kept.
    occurrences: Vec<OccurrenceBody>,
    /// Of the next page; null on the last.
    cursor: Option<String>,
}

/// When a schedule is due next.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = NextTimes)]
struct NextBody {
    /// The next times.
    next: Vec<String>,
}

/// Why something is done.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ScheduleReason)]
struct ReasonBody {
    /// For those who wonder.
    reason: Option<Box<str>>,
}

/// A schedule that is gone.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ScheduleRemoved)]
struct RemovedBody {
    /// Its name.
    name: Box<str>,
    /// It is gone.
    deleted: bool,
}

impl From<&Occurrence> for OccurrenceBody {
    fn from(occurrence: &Occurrence) -> Self {
        let manual = occurrence.manual.then_some("manual");
        Self {
            scheduled_for: time::text(occurrence.at),
            before: occurrence.before.map(time::text),
            outcome: if occurrence.skip.is_some() { "skipped" } else { "fired" },
            reason: occurrence.skip.map(recado_core::Skip::word).or(manual),
            job_id: occurrence.job.map(|job| job.to_string()),
        }
    }
}

impl<'a> ShownBody<'a> {
    fn new(view: &'a ScheduleView) -> Result<Self, Problem> {
        Ok(Self {
            name: &view.name,
            source: source_word(view.source),
            config: json::parse(view.text.as_bytes())?,
            paused: view.paused,
            paused_reason: view.paused_reason.as_deref(),
            next: view.next.map(time::text),
            last: view.last.as_ref().map(OccurrenceBody::from),
            fired: view.fired,
            skipped: view.skipped,
        })
    }
}

/// List schedules by name.
#[utoipa::path(
    get, path = "/v1/schedules", operation_id = "listSchedules", tag = "schedules",
    params(("limit" = Option<u32>, Query), ("cursor" = Option<String>, Query)),
    responses((status = 200, description = "a page", body = SchedulesBody<'static>), Everywhere),
)]
pub(crate) async fn list(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let page = Params::parse(request.uri().query(), &["limit", "cursor"])?.page()?;
    match app.shard.query(Query::Schedules(page)).await.map_err(|error| Problem::from(error).single())? {
        Answer::Schedules { schedules, cursor } => {
            let shown = schedules.iter().map(ShownBody::new).collect::<Result<_, _>>()?;
            Ok(answer(StatusCode::OK, &SchedulesBody { schedules: shown, cursor }))
        }
        other => Err(unexpected(&other)),
    }
}

/// Look at a schedule.
#[utoipa::path(
    get, path = "/v1/schedules/{schedule}", operation_id = "getSchedule", tag = "schedules",
    params(("schedule" = String, Path, description = "name of the schedule")),
    responses(
        (status = 200, description = "as it is now", body = ShownBody<'static>),
        (status = 404, description = "not-found", body = crate::problem::Body, content_type = "application/problem+json"),
        Everywhere,
    ),
)]
pub(crate) async fn get(
    State(app): State<App>,
    Schedule(name): Schedule,
    request: Request,
) -> Result<Response, Problem> {
    Params::parse(request.uri().query(), &[])?;
    look(&app, StatusCode::OK, &name).await
}

/// Create a schedule or replace its definition.
#[utoipa::path(
    put, path = "/v1/schedules/{schedule}", operation_id = "putSchedule", tag = "schedules",
    params(("schedule" = String, Path, description = "name of the schedule")),
    request_body(content = ScheduleBody<'static>, content_type = "application/json"),
    responses(
        (status = 200, description = "replaced", body = ShownBody<'static>),
        (status = 201, description = "created", body = ShownBody<'static>),
        (status = 404, description = "not-found: the queue, where queues are not created by jobs", body = crate::problem::Body, content_type = "application/problem+json"),
        (status = 409, description = "managed-by-file", body = crate::problem::Body, content_type = "application/problem+json"),
        (status = 422, description = "secret-in-payload, schema-violation, unknown-type-version: the queue would not take the job", body = crate::problem::Body, content_type = "application/problem+json"),
        (status = 429, description = "queue-full: too many schedules", body = crate::problem::Body, content_type = "application/problem+json"),
        Everywhere,
    ),
)]
pub(crate) async fn put(
    State(app): State<App>,
    Schedule(name): Schedule,
    request: Request,
) -> Result<Response, Problem> {
    Params::parse(request.uri().query(), &[])?;
    let body = body::json(request).await?;
    let definition = Definition::read(&name, &body, time::now())?;
    schedules::check(&app, &name, &definition).await?;
    let (create, actor) = (app.create_queues, Actor::default());
    let created = schedules::put(&app, &name, &definition, create, Source::Api, actor).await?;
    app.schedules.tell();
    look(&app, if created { StatusCode::CREATED } else { StatusCode::OK }, &name).await
}

/// Remove a schedule; jobs that it made stay.
#[utoipa::path(
    delete, path = "/v1/schedules/{schedule}", operation_id = "removeSchedule", tag = "schedules",
    params(("schedule" = String, Path, description = "name of the schedule")),
    responses(
        (status = 200, description = "it is gone", body = RemovedBody),
        (status = 404, description = "not-found", body = crate::problem::Body, content_type = "application/problem+json"),
        (status = 409, description = "managed-by-file", body = crate::problem::Body, content_type = "application/problem+json"),
        Everywhere,
    ),
)]
pub(crate) async fn delete(
    State(app): State<App>,
    Schedule(name): Schedule,
    request: Request,
) -> Result<Response, Problem> {
    Params::parse(request.uri().query(), &[])?;
    let (schedule, actor) = (name.clone(), Actor::default());
    app.shard.call(Command::RemoveSchedule { schedule, source: Source::Api, actor }).await?;
    app.schedules.tell();
    Ok(answer(StatusCode::OK, &RemovedBody { name, deleted: true }))
}

/// Skip the occurrences of a schedule until it is resumed.
#[utoipa::path(
    post, path = "/v1/schedules/{schedule}/pause", operation_id = "pauseSchedule", tag = "schedules",
    params(("schedule" = String, Path, description = "name of the schedule")),
    request_body(content = ReasonBody, content_type = "application/json"),
    responses(
        (status = 200, description = "the schedule as it is now", body = ShownBody<'static>),
        (status = 404, description = "not-found", body = crate::problem::Body, content_type = "application/problem+json"),
        Everywhere,
    ),
)]
pub(crate) async fn pause(
    State(app): State<App>,
    Schedule(name): Schedule,
    request: Request,
) -> Result<Response, Problem> {
    set_paused(&app, &name, true, request).await
}

/// Let a schedule make jobs again.
#[utoipa::path(
    post, path = "/v1/schedules/{schedule}/resume", operation_id = "resumeSchedule", tag = "schedules",
    params(("schedule" = String, Path, description = "name of the schedule")),
    request_body(content = ReasonBody, content_type = "application/json"),
    responses(
        (status = 200, description = "the schedule as it is now", body = ShownBody<'static>),
        (status = 404, description = "not-found", body = crate::problem::Body, content_type = "application/problem+json"),
        Everywhere,
    ),
)]
pub(crate) async fn resume(
    State(app): State<App>,
    Schedule(name): Schedule,
    request: Request,
) -> Result<Response, Problem> {
    set_paused(&app, &name, false, request).await
}

/// Make the job of a schedule now, whenever it is due and also while it is paused.
#[utoipa::path(
    post, path = "/v1/schedules/{schedule}/run", operation_id = "runSchedule", tag = "schedules",
    params(("schedule" = String, Path, description = "name of the schedule")),
    responses(
        (status = 200, description = "what became of it", body = OccurrenceBody),
        (status = 404, description = "not-found", body = crate::problem::Body, content_type = "application/problem+json"),
        (status = 409, description = "duplicate-conflict", body = crate::problem::Body, content_type = "application/problem+json"),
        (status = 422, description = "secret-in-payload, schema-violation, unknown-type-version", body = crate::problem::Body, content_type = "application/problem+json"),
        (status = 429, description = "queue-full", body = crate::problem::Body, content_type = "application/problem+json"),
        Everywhere,
    ),
)]
pub(crate) async fn run(
    State(app): State<App>,
    Schedule(name): Schedule,
    request: Request,
) -> Result<Response, Problem> {
    Params::parse(request.uri().query(), &[])?;
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Nothing {}
    json::parse::<Nothing>(&body::json_or_empty(request).await?)?;
    let occurrence = schedules::run_now(&app, &name, Actor::default()).await?;
    Ok(answer(StatusCode::OK, &OccurrenceBody::from(&occurrence)))
}

/// Foretell when a schedule is due.
#[utoipa::path(
    get, path = "/v1/schedules/{schedule}/next", operation_id = "nextTimes", tag = "schedules",
    params(("schedule" = String, Path, description = "name of the schedule"),
        ("n" = Option<u32>, Query, description = "how many, up to 100; 5 by default")),
    responses(
        (status = 200, description = "the next times", body = NextBody),
        (status = 404, description = "not-found", body = crate::problem::Body, content_type = "application/problem+json"),
        Everywhere,
    ),
)]
pub(crate) async fn next(
    State(app): State<App>,
    Schedule(name): Schedule,
    request: Request,
) -> Result<Response, Problem> {
    let params = Params::parse(request.uri().query(), &["n"])?;
    let count = match params.text("n").map(str::parse::<u64>) {
        None => FORETOLD_DEFAULT,
        Some(Ok(count)) if (1..=FORETOLD_MAX).contains(&count) => count,
        Some(_) => return Err(wrong("n", &format!("must be from 1 to {FORETOLD_MAX}"))),
    };
    let view = schedules::look(&app.shard, &name).await?;
    let next = schedules::foretell(&view, usize::try_from(count).unwrap_or_default())?;
    Ok(answer(StatusCode::OK, &NextBody { next: next.into_iter().map(time::text).collect() }))
}

/// Look at what became of a schedule's occurrences, newest first.
#[utoipa::path(
    get, path = "/v1/schedules/{schedule}/occurrences", operation_id = "listOccurrences", tag = "schedules",
    params(("schedule" = String, Path, description = "name of the schedule"),
        ("limit" = Option<u32>, Query), ("cursor" = Option<String>, Query)),
    responses(
        (status = 200, description = "a page of the last 100", body = OccurrencesBody),
        (status = 404, description = "not-found", body = crate::problem::Body, content_type = "application/problem+json"),
        Everywhere,
    ),
)]
pub(crate) async fn occurrences(
    State(app): State<App>,
    Schedule(schedule): Schedule,
    request: Request,
) -> Result<Response, Problem> {
    let page = Params::parse(request.uri().query(), &["limit", "cursor"])?.page()?;
    let query = Query::Occurrences { schedule, page };
    match app.shard.query(query).await.map_err(|error| Problem::from(error).single())? {
        Answer::Occurrences { occurrences, cursor } => {
            let occurrences = occurrences.iter().map(OccurrenceBody::from).collect();
            Ok(answer(StatusCode::OK, &OccurrencesBody { occurrences, cursor }))
        }
        other => Err(unexpected(&other)),
    }
}

async fn set_paused(app: &App, name: &str, paused: bool, request: Request) -> Result<Response, Problem> {
    Params::parse(request.uri().query(), &[])?;
    let body = body::json_or_empty(request).await?;
    let reason = reason(json::parse::<ReasonBody>(&body)?.reason)?;
    let (schedule, actor) = (name.into(), Actor::default());
    app.shard.call(Command::PauseSchedule { schedule, paused, reason, actor }).await?;
    app.schedules.tell();
    look(app, StatusCode::OK, name).await
}

async fn look(app: &App, status: StatusCode, name: &str) -> Result<Response, Problem> {
    let view = schedules::look(&app.shard, name).await?;
    Ok(answer(status, &ShownBody::new(&view)?))
}
