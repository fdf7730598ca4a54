//! `GET /v1/doctor`.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use recado_core::{Answer, Page, Query};
use recado_shard::Error;
use serde::Serialize;
use utoipa::ToSchema;

use super::{App, answer, unexpected};
use crate::doctor::{self, Check};
use crate::openapi::Everywhere;
use crate::problem::Problem;
use crate::query::Params;

/// The operating checklist, looked at.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Doctor)]
struct DoctorBody {
    /// The server's points, then those of each queue.
    checks: Vec<Check>,
}

/// Look at the operating checklist.
#[utoipa::path(
    get, path = "/v1/doctor", operation_id = "getDoctor", tag = "operate",
    responses((status = 200, description = "every point, also those that fail", body = DoctorBody), Everywhere),
)]
pub(crate) async fn doctor(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    Params::parse(request.uri().query(), &[])?;
    let mut checks = doctor::of_server(&app.place, &app.shard.status());
    let mut page = Page::default();
    loop {
        let (queues, cursor) = match app.shard.query(Query::Queues(page)).await? {
            Answer::Queues { queues, cursor } => (queues, cursor),
            other => return Err(unexpected(&other)),
        };
        for entry in queues {
            match app.shard.query(Query::Queue((*entry.name).into())).await {
                Ok(Answer::Queue(view)) => checks.extend(doctor::of_queue(&view, &entry.stats)),
                Ok(other) => return Err(unexpected(&other)),
                // It went meanwhile.
                Err(Error::Rejected(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        match cursor {
            Some(cursor) => page = Page { cursor: Some(cursor), ..Page::default() },
            None => break,
        }
    }
    Ok(answer(StatusCode::OK, &DoctorBody { checks }))
}
