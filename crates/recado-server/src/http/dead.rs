//! Dead letters: groups of alike failures, replay, discard.

use std::collections::BTreeMap;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use recado_contract::gate::Warned;
use recado_core::{
    Action, Actor, Answer, Command, ErrorEntry, Filter, FingerprintView, JobId, NewTask, Place, Query, Rate, Replay,
    Reply, Select,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::job::{JobBody, by_word, filled, fingerprint, parse_fingerprint, raw};
use super::jobs::{known_ids, reason};
use super::replays::ReplayBody;
use super::{App, Id, Queue, answer, body, unexpected};
use crate::faults::Faults;
use crate::json;
use crate::limits::{PAYLOAD_BYTES_MAX, REASON_BYTES_MAX};
use crate::merge_patch;
use crate::openapi::OnQueue;
use crate::problem::Problem;
use crate::query::Params;
use crate::{duration, time};

/// A page of groups.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DeadGroups)]
struct GroupsPage {
    /// Largest first.
    groups: Vec<GroupBody>,
    /// Of the next page; null on the last.
    cursor: Option<String>,
}

/// Dead jobs with one type, kind of error and normalized message.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DeadGroup)]
struct GroupBody {
    /// Names the group.
    fingerprint: String,
    /// Of its jobs.
    #[serde(rename = "type")]
    kind: String,
    /// Of the newest death's error.
    #[serde(rename = "kind")]
    error_kind: String,
    /// Of the newest death's error.
    message: String,
    /// Jobs.
    count: u64,
    /// First death.
    first: String,
    /// Last death.
    last: String,
    /// One of the jobs.
    example: String,
    /// An operator's note.
    note: Option<String>,
}

/// A note on a group.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = AcknowledgeRequest)]
struct NoteBody {
    /// For those who look next.
    note: Box<str>,
}

/// A group's note.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AcknowledgeAnswer)]
struct NotedBody {
    /// Names the group.
    fingerprint: String,
    /// What was written.
    note: Box<str>,
}

/// Which dead jobs go back, and how.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = ReplayRequest)]
struct ReplayRequest<'a> {
    /// These; not with `filter`.
    ids: Option<Vec<Box<str>>>,
    /// All that match; not with `ids`.
    filter: Option<FilterBody>,
    /// JSON merge patch (RFC 7386) for every payload.
    #[serde(borrow, default)]
    #[schema(value_type = Object)]
    payload_patch: Option<&'a RawValue>,
    /// `"10/s"`
    rate: Option<Box<str>>,
    /// Only say what it would do.
    dry_run: Option<bool>,
    /// Halts when so many of its first ten finished jobs fail; 5 by default, 0 never.
    halt_after: Option<u64>,
    /// Run again although the idempotency key has completed.
    ignore_key: Option<bool>,
    /// Also beyond `maxReplays`.
    force: Option<bool>,
    /// For the audit trail.
    reason: Option<Box<str>>,
}

/// Which dead jobs go.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = DiscardRequest)]
struct DiscardBody {
    /// These; not with `filter`.
    ids: Option<Vec<Box<str>>>,
    /// All that match; not with `ids`.
    filter: Option<FilterBody>,
    /// For the audit trail.
    reason: Box<str>,
}

/// Conditions that must all hold, or `all`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = DeadFilter)]
struct FilterBody {
    /// Every dead job; alone.
    all: Option<bool>,
    /// Type of the job.
    #[serde(rename = "type")]
    kind: Option<Box<str>>,
    /// Kind of its last error.
    #[serde(rename = "kind")]
    error_kind: Option<Box<str>>,
    /// Group of alike failures.
    fingerprint: Option<Box<str>>,
    /// Its group.
    group: Option<Box<str>>,
    /// Its business object.
    business_id: Option<Box<str>>,
    /// An instant.
    died_before: Option<Box<str>>,
    /// An instant.
    died_after: Option<Box<str>>,
}

/// What a replay would do.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ReplayPreview)]
struct PreviewBody<'a> {
    dry_run: bool,
    queue: &'a str,
    /// Jobs that would go back.
    matched: u64,
    /// Jobs that would not, by reason.
    skipped: BTreeMap<String, u64>,
    /// One of the jobs; null when there is none, or its payload cannot be read.
    example: Option<ExampleBody<'a>>,
}

/// One job with its payload before and after the patch.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ReplayExample)]
struct ExampleBody<'a> {
    job: JobBody<'a>,
    #[schema(value_type = serde_json::Value)]
    before: &'a RawValue,
    #[schema(value_type = serde_json::Value)]
    after: Box<RawValue>,
}

/// How many went.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DiscardAnswer)]
struct DiscardedBody {
    /// Jobs.
    discarded: u64,
}

const HALT_AFTER_DEFAULT: u64 = 5;
const HALT_AFTER_MAX: u64 = 10;

impl FilterBody {
    fn filter(self, faults: &mut Faults) -> Filter {
        let set = self.kind.is_some()
            || self.error_kind.is_some()
            || self.fingerprint.is_some()
            || self.group.is_some()
            || self.business_id.is_some()
            || self.died_before.is_some()
            || self.died_after.is_some();
        match (self.all, set) {
            (Some(true), true) => faults.at("/filter/all", "goes alone: it means every dead job"),
            (Some(true), false) | (None, true) => {}
            (Some(false), _) => faults.at("/filter/all", "can only be true"),
            (None, false) => {
                faults.at("/filter", "an empty filter is refused; send {\"all\": true} for every dead job")
            }
        }
        let fingerprint = self.fingerprint.as_deref().and_then(|text| {
            let number = parse_fingerprint(text);
            if number.is_none() {
                faults.at("/filter/fingerprint", "not a fingerprint: copy it from .../dead/groups");
            }
            number
        });
        let mut instant =
            |pointer: &str, text: Option<&str>| time::parse(text?).map_err(|message| faults.at(pointer, message)).ok();
        let died_before = instant("/filter/diedBefore", self.died_before.as_deref());
        let died_after = instant("/filter/diedAfter", self.died_after.as_deref());
        Filter {
            kind: self.kind,
            error_kind: self.error_kind,
            fingerprint,
            group: self.group,
            business_id: self.business_id,
            died_before,
            died_after,
        }
    }
}

/// Which jobs: ids or a filter. Well-formed ids that no server gives are nobody's, like those that are gone.
fn select(ids: Option<Vec<Box<str>>>, filter: Option<FilterBody>, faults: &mut Faults) -> Result<Select, Problem> {
    match (ids, filter) {
        (Some(ids), None) => {
            let mut nobodys = Vec::new();
            let mut ids = known_ids(&ids, &mut nobodys)?;
            ids.resize(ids.len() + nobodys.len(), JobId::default());
            Ok(Select::Ids(ids))
        }
        (None, Some(filter)) => Ok(Select::Filter(filter.filter(faults))),
        _ => Err(Problem::field("/ids", "send ids or filter, and not both")),
    }
}

/// Reads `"10/s"` or `"100/5m"`.
fn rate(text: &str) -> Option<Rate> {
    let (jobs, per) = text.split_once('/')?;
    let jobs: u32 = jobs.parse().ok().filter(|jobs| (1..=1_000_000).contains(jobs))?;
    let per = if per.starts_with(|c: char| c.is_ascii_digit()) { per.to_owned() } else { format!("1{per}") };
    let per_ms = duration::parse(&per).ok().filter(|ms| (1..=86_400_000).contains(ms))?;
    Some(Rate { jobs, per_ms })
}

impl ReplayRequest<'_> {
    fn check(self) -> Result<(Replay, Option<Box<str>>, bool), Problem> {
        let mut faults = Faults::default();
        let select = select(self.ids, self.filter, &mut faults)?;
        faults.check_free("/payloadPatch", self.payload_patch, PAYLOAD_BYTES_MAX);
        if self.payload_patch.is_some_and(|patch| !patch.get().starts_with('{')) {
            faults.at("/payloadPatch", "a merge patch is an object");
        }
        faults.range("/haltAfter", self.halt_after, 0, HALT_AFTER_MAX);
        let rate = self.rate.as_deref().and_then(|text| {
            let rate = rate(text);
            if rate.is_none() {
                faults.at("/rate", "write jobs per time, as in \"10/s\" or \"100/5m\"");
            }
            rate
        });
        faults.finish()?;
        let replay = Replay {
            select,
            patch: self.payload_patch.map(|patch| patch.get().as_bytes().to_vec()),
            rate,
            halt_after: self.halt_after.unwrap_or(HALT_AFTER_DEFAULT) as u32,
            ignore_key: self.ignore_key.unwrap_or(false),
            force: self.force.unwrap_or(false),
        };
        Ok((replay, reason(self.reason)?, self.dry_run.unwrap_or(false)))
    }
}

/// List groups of alike failures, largest first.
#[utoipa::path(
    get, path = "/v1/queues/{q}/dead/groups", operation_id = "listDeadGroups", tag = "dead letters",
    params(("q" = String, Path, description = "name of the queue"), ("limit" = Option<u32>, Query), ("cursor" = Option<String>, Query)),
    responses((status = 200, description = "a page", body = GroupsPage), OnQueue),
)]
pub(crate) async fn groups(State(app): State<App>, Queue(queue): Queue, request: Request) -> Result<Response, Problem> {
    let params = Params::parse(request.uri().query(), &["limit", "cursor"])?;
    let query = Query::Fingerprints { queue, page: params.page()? };
    let (views, cursor) = match app.shard.query(query).await.map_err(|error| Problem::from(error).single())? {
        Answer::Fingerprints { groups, cursor } => (groups, cursor),
        other => return Err(unexpected(&other)),
    };
    let mut groups = Vec::with_capacity(views.len());
    for view in views {
        groups.push(group(&app, view).await?);
    }
    Ok(answer(StatusCode::OK, &GroupsPage { groups, cursor }))
}

async fn group(app: &App, view: FingerprintView) -> Result<GroupBody, Problem> {
    let error = match view.error {
        Some(place) => stored_error(app, view.example, place).await?,
        None => ErrorEntry::default(),
    };
    Ok(GroupBody {
        fingerprint: fingerprint(view.fingerprint),
        kind: view.kind.to_string(),
        error_kind: error.kind.into(),
        message: error.message.into(),
        count: view.count,
        first: time::text(view.first_at),
        last: time::text(view.last_at),
        example: view.example.to_string(),
        note: view.note.map(String::from),
    })
}

/// The last error of a job. One that cannot be read, or went with its job meanwhile, must not hide the others.
async fn stored_error(app: &App, job: JobId, place: Place) -> Result<ErrorEntry, Problem> {
    let read = match app.shard.error_of(job, place).await {
        Ok(Some(bytes)) => ErrorEntry::from_bytes(&bytes).map_err(|error| error.to_string()),
        Ok(None) => Err("its job was replayed or discarded meanwhile".to_owned()),
        Err(recado_shard::Error::Unreadable { reason, .. }) => Err(reason.to_string()),
        Err(error) => return Err(error.into()),
    };
    Ok(read.unwrap_or_else(|reason| ErrorEntry {
        message: format!("the stored error cannot be read: {reason}").into(),
        ..ErrorEntry::default()
    }))
}

/// Put a note on a group.
#[utoipa::path(
    post, path = "/v1/queues/{q}/dead/groups/{id}/acknowledge", operation_id = "acknowledgeDeadGroup", tag = "dead letters",
    params(("q" = String, Path, description = "name of the queue"), ("id" = String, Path, description = "fingerprint of the group")),
    request_body(content = NoteBody, content_type = "application/json"),
    responses((status = 200, description = "noted", body = NotedBody), OnQueue),
)]
pub(crate) async fn acknowledge(
    State(app): State<App>,
    Queue(queue): Queue,
    Id(id): Id,
    request: Request,
) -> Result<Response, Problem> {
    Params::parse(request.uri().query(), &[])?;
    let body = body::json(request).await?;
    let note = json::parse::<NoteBody>(&body)?.note;
    if note.is_empty() || note.len() > REASON_BYTES_MAX {
        return Err(Problem::field("/note", format!("1 to {REASON_BYTES_MAX} bytes")));
    }
    let number =
        parse_fingerprint(&id).ok_or(recado_shard::Error::Rejected(recado_core::Rejection::FingerprintNotFound))?;
    app.shard
        .call(Command::Acknowledge { queue, fingerprint: number, note: note.clone(), actor: Actor::default() })
        .await?;
    Ok(answer(StatusCode::OK, &NotedBody { fingerprint: fingerprint(number), note }))
}

/// Put dead jobs back in their queue.
#[utoipa::path(
    post, path = "/v1/queues/{q}/dead/replay", operation_id = "replayDead", tag = "dead letters",
    params(("q" = String, Path, description = "name of the queue")),
    request_body(content = ReplayRequest, content_type = "application/json"),
    responses(
        (status = 202, description = "started", body = ReplayBody),
        (status = 200, description = "with dryRun: what it would do", body = PreviewBody),
        (status = 422, description = "secret-in-payload, schema-violation, unknown-type-version", body = crate::problem::Body, content_type = "application/problem+json"),
        OnQueue,
    ),
)]
pub(crate) async fn replay(State(app): State<App>, Queue(queue): Queue, request: Request) -> Result<Response, Problem> {
    Params::parse(request.uri().query(), &[])?;
    let body = body::json(request).await?;
    let (replay, reason, dry_run) = json::parse::<ReplayRequest<'_>>(&body)?.check()?;
    drop(body);
    if let Some(patch) = &replay.patch {
        check_patch(&app, &queue, patch, &replay, dry_run).await?;
    }
    if dry_run {
        return preview(&app, queue, replay).await;
    }
    let task = NewTask { queue, action: Action::Replay(replay), reason, actor: Actor::default() };
    match app.shard.call(Command::StartTask(task)).await.map_err(|error| Problem::from(error).single())? {
        Reply::Task(view) => Ok(answer(StatusCode::ACCEPTED, &ReplayBody::new(&view))),
        other => Err(unexpected(&other)),
    }
}

/// Checks a patch, and one payload as it would be with it. The others are checked when it is their turn: one that
/// does not fit then is skipped, `unpatchable`. What was only tried counts nowhere.
async fn check_patch(app: &App, queue: &str, patch: &[u8], replay: &Replay, dry_run: bool) -> Result<(), Problem> {
    let policy = app.gate.policy(queue).await?;
    let (mut faults, mut warned) = (Faults::default(), Warned::default());
    policy.check_patch(patch, "/payloadPatch", &mut faults, &mut warned);
    let query = Query::Preview { queue: queue.into(), replay: replay.clone() };
    if let Answer::Preview { example: Some(view), .. } = app.shard.query(query).await? {
        let job = filled(app, *view).await?;
        if let Some(merged) = job.has_payload().then(|| merge_patch(patch, &job.payload).ok()).flatten() {
            let (kind, version) = (&job.view.kind, job.view.schema_version);
            policy.check_schema(kind, version, &merged, &mut faults);
        }
    }
    let checked = faults.finish();
    if dry_run {
        return checked;
    }
    checked.inspect_err(|problem| app.rejected.count(queue, problem))?;
    app.warned.add_taken(queue, warned);
    Ok(())
}

async fn preview(app: &App, queue: Box<str>, replay: Replay) -> Result<Response, Problem> {
    let patch = replay.patch.clone();
    let query = Query::Preview { queue: queue.clone(), replay };
    let (matched, skipped, example) = match app.shard.query(query).await? {
        Answer::Preview { matched, skipped, example } => (matched, skipped, example),
        other => return Err(unexpected(&other)),
    };
    let job = match example {
        Some(view) => Some(filled(app, *view).await?),
        None => None,
    };
    let example = match job.as_ref().filter(|job| job.has_payload()) {
        Some(job) => {
            let before = raw(&job.payload)?;
            let after = match patch {
                Some(patch) => {
                    merge_patch(&patch, &job.payload).map_err(|message| Problem::field("/payloadPatch", message))?
                }
                None => job.payload.to_vec(),
            };
            Some(ExampleBody { job: JobBody::new(job, false)?, before, after: raw(&after)?.to_owned() })
        }
        None => None,
    };
    let skipped = by_word(skipped.iter().map(|(why, count)| (why.as_ref(), *count)));
    Ok(answer(StatusCode::OK, &PreviewBody { dry_run: true, queue: &queue, matched, skipped, example }))
}

/// Remove dead jobs, into the audit trail.
#[utoipa::path(
    post, path = "/v1/queues/{q}/dead/discard", operation_id = "discardDead", tag = "dead letters",
    params(("q" = String, Path, description = "name of the queue")),
    request_body(content = DiscardBody, content_type = "application/json"),
    responses((status = 200, description = "how many went", body = DiscardedBody), OnQueue),
)]
pub(crate) async fn discard(
    State(app): State<App>,
    Queue(queue): Queue,
    request: Request,
) -> Result<Response, Problem> {
    Params::parse(request.uri().query(), &[])?;
    let body = body::json(request).await?;
    let asked: DiscardBody = json::parse(&body)?;
    let mut faults = Faults::default();
    if asked.reason.trim().is_empty() {
        faults.at("/reason", "say why: it goes into the audit trail");
    }
    let select = select(asked.ids, asked.filter, &mut faults)?;
    faults.finish()?;
    let reason = reason(Some(asked.reason))?;
    let task = NewTask { queue, action: Action::Discard { select }, reason, actor: Actor::default() };
    let done = app.shard.run_task(task).await?;
    Ok(answer(StatusCode::OK, &DiscardedBody { discarded: done.acted }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates() {
        for (text, expected) in [
            ("10/s", Some((10, 1_000))),
            ("100/5m", Some((100, 300_000))),
            ("1/h", Some((1, 3_600_000))),
            ("0/s", None),
            ("10", None),
            ("10/", None),
            ("10/0s", None),
            ("x/s", None),
        ] {
            assert_eq!(rate(text).map(|rate| (rate.jobs, rate.per_ms)), expected, "{text}");
        }
    }
}
