//! Replays under way and done.

use std::collections::BTreeMap;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use recado_core::{Actor, Answer, Command, Query, Reply, TaskKind, TaskState, TaskView};
use serde::Serialize;
use utoipa::ToSchema;

use super::job::by_word;
use super::{App, Id, answer, unexpected};
use crate::openapi::{Everywhere, OnJob};
use crate::problem::{Code, Problem};
use crate::query::Params;
use crate::time;

/// A replay.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Replay)]
pub(crate) struct ReplayBody {
    id: String,
    queue: String,
    /// `running`, `completed`, `halted` or `cancelled`.
    state: &'static str,
    started_at: String,
    ended_at: Option<String>,
    /// Jobs it was meant for.
    matched: u64,
    /// Jobs that went back.
    replayed: u64,
    /// Of these, completed since.
    succeeded: u64,
    /// Of these, dead again.
    failed: u64,
    /// Jobs that did not go back, by reason.
    skipped: BTreeMap<String, u64>,
}

/// A page of replays.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ReplaysPage)]
struct ReplaysBody {
    /// Newest first.
    replays: Vec<ReplayBody>,
    /// Of the next page; null on the last.
    cursor: Option<String>,
}

impl ReplayBody {
    /// Converts a replay.
    pub(crate) fn new(view: &TaskView) -> Self {
        Self {
            id: format!("rpl_{:016x}", view.id),
            queue: view.queue.to_string(),
            state: match view.state {
                TaskState::Running => "running",
                TaskState::Completed => "completed",
                TaskState::Halted => "halted",
                TaskState::Cancelled => "cancelled",
            },
            started_at: time::text(view.started_at),
            ended_at: view.ended_at.map(time::text),
            matched: view.matched,
            replayed: view.acted,
            succeeded: view.succeeded,
            failed: view.failed,
            skipped: by_word(view.skipped.iter().map(|(why, count)| (why.as_ref(), *count))),
        }
    }
}

fn replay_id(text: &str) -> Result<u64, Problem> {
    let digits = text.strip_prefix("rpl_").filter(|digits| digits.len() == 16);
    let lower_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    digits
        .filter(|digits| digits.bytes().all(lower_hex))
        .and_then(|digits| u64::from_str_radix(digits, 16).ok())
        .ok_or_else(|| Problem::new(Code::NotFound, "this is not a replay's id"))
}

/// List replays, newest first.
#[utoipa::path(
    get, path = "/v1/replays", operation_id = "listReplays", tag = "dead letters",
    params(("queue" = Option<String>, Query), ("limit" = Option<u32>, Query), ("cursor" = Option<String>, Query)),
    responses((status = 200, description = "a page", body = ReplaysBody), Everywhere),
)]
pub(crate) async fn list(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let params = Params::parse(request.uri().query(), &["queue", "limit", "cursor"])?;
    let query = Query::Replays { queue: params.owned("queue"), page: params.page()? };
    match app.shard.query(query).await.map_err(|error| Problem::from(error).single())? {
        Answer::Replays { replays, cursor } => {
            let replays = replays.iter().map(ReplayBody::new).collect();
            Ok(answer(StatusCode::OK, &ReplaysBody { replays, cursor }))
        }
        other => Err(unexpected(&other)),
    }
}

/// Look at a replay.
#[utoipa::path(
    get, path = "/v1/replays/{id}", operation_id = "getReplay", tag = "dead letters",
    params(("id" = String, Path, description = "id of the replay")),
    responses((status = 200, description = "as it is now", body = ReplayBody), OnJob),
)]
pub(crate) async fn get(State(app): State<App>, Id(id): Id, request: Request) -> Result<Response, Problem> {
    Params::parse(request.uri().query(), &[])?;
    Ok(answer(StatusCode::OK, &ReplayBody::new(&replay(&app, &id).await?)))
}

/// Purges and discards are numbered like replays, but are none.
async fn replay(app: &App, id: &str) -> Result<TaskView, Problem> {
    match app.shard.query(Query::Task(replay_id(id)?)).await? {
        Answer::Task(view) if view.kind == TaskKind::Replay => Ok(*view),
        Answer::Task(_) => Err(recado_core::Rejection::TaskNotFound.into()),
        other => Err(unexpected(&other)),
    }
}

/// Stop a replay; what went back stays there.
#[utoipa::path(
    delete, path = "/v1/replays/{id}", operation_id = "cancelReplay", tag = "dead letters",
    params(("id" = String, Path, description = "id of the replay")),
    responses((status = 200, description = "as it is now", body = ReplayBody), OnJob),
)]
pub(crate) async fn cancel(State(app): State<App>, Id(id): Id, request: Request) -> Result<Response, Problem> {
    Params::parse(request.uri().query(), &[])?;
    let task = replay(&app, &id).await?.id;
    match app.shard.call(Command::CancelTask { task, actor: Actor::default() }).await? {
        Reply::Task(view) => Ok(answer(StatusCode::OK, &ReplayBody::new(&view))),
        other => Err(unexpected(&other)),
    }
}
