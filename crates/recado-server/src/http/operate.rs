//! For those who run the server.

use std::path::PathBuf;

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use recado_core::{Answer, Query};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{App, Id, answer, body, unexpected};
use crate::openapi::Everywhere;
use crate::problem::{Code, Problem};
use crate::query::Params;
use crate::serve::OverLoopback;
use crate::{duration, json, metrics, time};

/// A page of the audit trail.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AuditPage)]
struct AuditBody {
    /// Newest first.
    entries: Vec<AuditEntry>,
    /// Of the next page; null on the last.
    cursor: Option<String>,
}

/// One operator's action.
#[derive(Debug, Serialize, ToSchema)]
struct AuditEntry {
    id: String,
    at: String,
    /// Null without keys.
    actor: Option<String>,
    action: String,
    queue: Option<String>,
    /// Why, and figures, in words.
    detail: String,
}

/// About this server.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Info)]
struct InfoBody {
    name: &'static str,
    version: &'static str,
    api_version: &'static str,
    /// `sync` survives power loss, `os` the death of the process.
    durability: &'static str,
    started_at: String,
    uptime: String,
    /// Unknown queues are created by the first enqueue or receive.
    auto_create_queues: bool,
}

/// It is well.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Health)]
struct HealthBody {
    status: &'static str,
}

/// Where to put a copy of the data.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = BackupRequest)]
struct BackupBody {
    /// An empty or new directory on the server's machine, as an absolute path.
    #[schema(value_type = String)]
    to: PathBuf,
}

/// A copy of the data.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = BackupAnswer)]
struct BackedUpBody {
    /// Bytes copied.
    bytes: u64,
    /// Batches in it.
    batches: u64,
    /// Records whose payloads are damaged in the log, and so in the copy.
    damaged_payloads: u64,
}

/// Look through the audit trail, newest first.
#[utoipa::path(
    get, path = "/v1/audit", operation_id = "listAudit", tag = "operate",
    params(("queue" = Option<String>, Query), ("actor" = Option<String>, Query), ("action" = Option<String>, Query),
        ("limit" = Option<u32>, Query), ("cursor" = Option<String>, Query)),
    responses((status = 200, description = "a page", body = AuditBody), Everywhere),
)]
pub(crate) async fn audit(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let params = Params::parse(request.uri().query(), &["queue", "actor", "action", "limit", "cursor"])?;
    let query = Query::Audit {
        queue: params.owned("queue"),
        actor: params.owned("actor"),
        action: params.owned("action"),
        page: params.page()?,
    };
    let (entries, cursor) = match app.shard.query(query).await.map_err(|error| Problem::from(error).single())? {
        Answer::Audit { entries, cursor } => (entries, cursor),
        other => return Err(unexpected(&other)),
    };
    let entry = |view: recado_core::AuditView| AuditEntry {
        id: format!("aud_{:016x}", view.id),
        at: time::text(view.at),
        actor: view.actor.map(String::from),
        action: view.action.into(),
        queue: view.queue.map(String::from),
        detail: view.detail.into(),
    };
    Ok(answer(StatusCode::OK, &AuditBody { entries: entries.into_iter().map(entry).collect(), cursor }))
}

/// About this server.
#[utoipa::path(
    get, path = "/v1/info", operation_id = "getInfo", tag = "operate",
    responses((status = 200, description = "version and settings", body = InfoBody), Everywhere),
)]
pub(crate) async fn info(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    Params::parse(request.uri().query(), &[])?;
    let body = InfoBody {
        name: "recado",
        version: env!("CARGO_PKG_VERSION"),
        api_version: "v1",
        durability: app.durability,
        started_at: time::text(app.started_at),
        uptime: duration::text(app.started.elapsed().as_secs() * 1_000),
        auto_create_queues: app.create_queues,
    };
    Ok(answer(StatusCode::OK, &body))
}

/// Copy the data while serving.
#[utoipa::path(
    post, path = "/v1/backup", operation_id = "backup", tag = "operate",
    request_body(content = BackupBody, content_type = "application/json"),
    responses((status = 200, description = "the copy is complete", body = BackedUpBody), Everywhere),
)]
pub(crate) async fn backup(
    State(app): State<App>,
    Extension(OverLoopback(over_loopback)): Extension<OverLoopback>,
    request: Request,
) -> Result<Response, Problem> {
    Params::parse(request.uri().query(), &[])?;
    if !over_loopback {
        return Err(Problem::new(Code::Forbidden, "a backup can be asked for over loopback only"));
    }
    let body = body::json(request).await?;
    let asked: BackupBody = json::parse(&body)?;
    if !asked.to.is_absolute() {
        return Err(Problem::field("/to", "must be an absolute path on the server's machine"));
    }
    match app.shard.backup(asked.to).await {
        Ok(done) => {
            let damaged_payloads = done.damaged_tails.len() as u64;
            Ok(answer(StatusCode::OK, &BackedUpBody { bytes: done.bytes, batches: done.batches, damaged_payloads }))
        }
        // A directory that cannot be written is the asker's mistake, unless the log itself is in trouble.
        Err(recado_shard::BackupError::Log(error @ recado_log::Error::Poisoned { .. })) => {
            Err(Problem::new(Code::LogFailed, error.to_string()))
        }
        Err(recado_shard::BackupError::Log(error)) => Err(Problem::field("/to", error.to_string())),
        Err(error) => Err(Problem::new(Code::Internal, error.to_string())),
    }
}

/// The process is alive.
#[utoipa::path(
    get, path = "/healthz", operation_id = "getHealth", tag = "operate",
    responses((status = 200, description = "alive", body = HealthBody), Everywhere),
)]
pub(crate) async fn healthz(request: Request) -> Result<Response, Problem> {
    Params::parse(request.uri().query(), &[])?;
    Ok(answer(StatusCode::OK, &HealthBody { status: "ok" }))
}

/// The server takes requests.
#[utoipa::path(
    get, path = "/readyz", operation_id = "getReadiness", tag = "operate",
    responses((status = 200, description = "ready", body = HealthBody), Everywhere),
)]
pub(crate) async fn readyz(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    Params::parse(request.uri().query(), &[])?;
    let status = app.shard.status();
    if let Some(reason) = status.failed {
        return Err(recado_shard::Error::LogFailed { reason }.into());
    }
    if status.stopping || *app.stopping.borrow() {
        return Err(recado_shard::Error::Stopping.into());
    }
    Ok(answer(StatusCode::OK, &HealthBody { status: "ok" }))
}

/// Figures for Prometheus.
#[utoipa::path(
    get, path = "/metrics", operation_id = "getMetrics", tag = "operate",
    params(("Accept" = Option<String>, Header, description = "application/openmetrics-text for that format")),
    responses((status = 200, description = "text format 0.0.4, or OpenMetrics 1.0", content((String = "text/plain; version=0.0.4"), (String = "application/openmetrics-text; version=1.0.0"))), Everywhere),
)]
pub(crate) async fn metrics(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    Params::parse(request.uri().query(), &[])?;
    let text = metrics::text(&app).await?;
    let (kind, text) = if metrics::wants_open(request.headers()) {
        ("application/openmetrics-text; version=1.0.0; charset=utf-8", metrics::open(&text))
    } else {
        ("text/plain; version=0.0.4; charset=utf-8", text)
    };
    Ok(([(CONTENT_TYPE, HeaderValue::from_static(kind))], text).into_response())
}

/// What an error means.
#[utoipa::path(
    get, path = "/problems/{id}", operation_id = "getProblem", tag = "operate",
    params(("id" = String, Path, description = "code of the problem")),
    responses((status = 200, description = "for people", body = String, content_type = "text/plain"), Everywhere),
)]
pub(crate) async fn problem(Id(id): Id, request: Request) -> Result<Response, Problem> {
    Params::parse(request.uri().query(), &[])?;
    let Some(code) = Code::ALL.iter().find(|code| code.word() == id) else {
        let words = Code::ALL.iter().map(|code| code.word());
        let hint =
            crate::nearest::nearest(&id, words).map_or(String::new(), |nearest| format!("; did you mean {nearest}?"));
        return Err(Problem::new(Code::NotFound, format!("there is no problem of this code{hint}")));
    };
    let text = format!("{} ({})\n\n{}\n\n{}\n", code.word(), code.status(), code.title(), code.text());
    Ok(([(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"))], text).into_response())
}

/// This document.
#[utoipa::path(
    get, path = "/openapi.json", operation_id = "getDescription", tag = "operate",
    responses((status = 200, description = "OpenAPI 3.1", body = Object), Everywhere),
)]
pub(crate) async fn openapi(request: Request) -> Result<Response, Problem> {
    Params::parse(request.uri().query(), &[])?;
    Ok(answer(StatusCode::OK, crate::openapi::document()))
}

const ROOT: &str = concat!(
    "Recado ",
    env!("CARGO_PKG_VERSION"),
    ", a job queue.\n\n\
     GET /openapi.json         every endpoint, with its answers\n\
     GET /v1/queues            the queues and their figures\n\
     GET /metrics              figures for Prometheus\n\
     GET /healthz, /readyz     whether it lives, whether it takes work\n\
     GET /problems/{code}      what an error means\n"
);

/// What this is, for people.
#[utoipa::path(
    get, path = "/", operation_id = "getRoot", tag = "operate",
    responses((status = 200, description = "for people", body = String, content_type = "text/plain"), Everywhere),
)]
pub(crate) async fn root() -> Response {
    ([(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"))], ROOT).into_response()
}
