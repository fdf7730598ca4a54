//! Jobs, and what became of settles, as a server answers.

use std::time::Duration;

use bytes::Bytes;
use recado_contract::problem::Problem;
use recado_contract::{duration, time};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Read, id, read};
use crate::backend::{JobNow, Received, SettleAnswer, Settled};
use crate::delivery::{Child, ChildCounts, Delivery, JobFailure};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SettledIn {
    ok: bool,
    #[serde(default)]
    repeated: bool,
    visible_at: Option<Box<str>>,
    problem: Option<Problem>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnswerIn<'a> {
    #[serde(borrow, default)]
    jobs: Vec<JobIn<'a>>,
    #[serde(default)]
    settled: Vec<SettledIn>,
    #[serde(default)]
    cancel_requested: Vec<Box<str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JobIn<'a> {
    id: Box<str>,
    queue: Box<str>,
    #[serde(rename = "type")]
    kind: Box<str>,
    schema_version: u32,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
    state: Box<str>,
    business_id: Option<Box<str>>,
    group: Option<Box<str>>,
    idempotency_key: Option<Box<str>>,
    attempts: u32,
    deliveries: u32,
    /// Null where a retention, not a number of attempts, ends the job.
    max_attempts: Option<u32>,
    held_back: Option<Box<str>>,
    #[serde(borrow)]
    headers: Option<&'a RawValue>,
    #[serde(default)]
    errors: Vec<ErrorIn>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    progress: Option<&'a RawValue>,
    receipt: Option<Box<str>>,
    visible_at: Option<Box<str>>,
    visible_for: Option<Box<str>>,
    timeout_at: Option<Box<str>>,
    fencing_token: Option<u64>,
    #[serde(borrow)]
    children: Option<ChildrenIn<'a>>,
}

#[derive(Deserialize)]
struct ChildrenIn<'a> {
    total: u32,
    pending: u32,
    completed: u32,
    failed: u32,
    #[serde(borrow, default)]
    jobs: Vec<ChildIn<'a>>,
}

#[derive(Deserialize)]
struct ChildIn<'a> {
    id: Box<str>,
    state: Box<str>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ErrorIn {
    attempt: u32,
    kind: Box<str>,
    message: Box<str>,
    retryable: bool,
}

impl From<ErrorIn> for JobFailure {
    fn from(error: ErrorIn) -> Self {
        Self { attempt: error.attempt, kind: error.kind, message: error.message, retryable: error.retryable }
    }
}

/// JSON inside an answer, without a copy.
fn slice(body: &Bytes, raw: Option<&RawValue>) -> Option<Bytes> {
    raw.map(|raw| body.slice_ref(raw.get().as_bytes()))
}

impl JobIn<'_> {
    fn delivery(self, body: &Bytes) -> Read<Delivery> {
        let visible_at = time::parse(&needed(self.visible_at, "visibleAt")?)?;
        let visible_for = duration::parse(&needed(self.visible_for, "visibleFor")?)?;
        let child = |child: ChildIn<'_>| {
            Ok(Child { id: id(&child.id)?, state: child.state, result: slice(body, child.result) })
        };
        Ok(Delivery {
            id: id(&self.id)?,
            queue: self.queue.into(),
            kind: self.kind.into(),
            schema_version: self.schema_version,
            // A payload that is null reads as none.
            payload: slice(body, self.payload).unwrap_or(Bytes::from_static(b"null")),
            headers: slice(body, self.headers).unwrap_or(Bytes::from_static(b"{}")),
            business_id: self.business_id,
            group: self.group,
            idempotency_key: self.idempotency_key,
            attempt: self.attempts,
            max_attempts: self.max_attempts.unwrap_or(recado_core::UNLIMITED),
            deliveries: self.deliveries,
            last_error: self.errors.into_iter().next_back().map(JobFailure::from),
            progress: slice(body, self.progress),
            receipt: needed(self.receipt, "receipt")?,
            fencing_token: needed(self.fencing_token, "fencingToken")?,
            visible_at,
            visible_for: Duration::from_millis(visible_for),
            timeout_at: self.timeout_at.map(|at| time::parse(&at)).transpose()?,
            children: self.children.into_iter().flat_map(|it| it.jobs).map(child).collect::<Read<_>>()?,
        })
    }

    fn now(self, body: &Bytes) -> Read<JobNow> {
        Ok(JobNow {
            id: id(&self.id)?,
            queue: self.queue.into(),
            kind: self.kind.into(),
            schema_version: self.schema_version,
            state: self.state,
            attempts: self.attempts,
            deliveries: self.deliveries,
            held_back: self.held_back,
            payload: slice(body, self.payload).unwrap_or(Bytes::from_static(b"null")),
            errors: self.errors.into_iter().map(JobFailure::from).collect(),
            result: slice(body, self.result),
            progress: slice(body, self.progress),
            children: self.children.map(|it| ChildCounts {
                total: it.total,
                pending: it.pending,
                completed: it.completed,
                failed: it.failed,
            }),
        })
    }
}

fn needed<T>(value: Option<T>, field: &str) -> Read<T> {
    value.ok_or_else(|| format!("a job has no {field}"))
}

impl AnswerIn<'_> {
    fn settled(settled: Vec<SettledIn>, cancel_requested: &[Box<str>]) -> Read<SettleAnswer> {
        let entry = |settled: SettledIn| match settled {
            SettledIn { ok: false, problem: Some(problem), .. } => Ok(Err(problem)),
            SettledIn { ok: false, .. } => Err("a settle failed without a problem".to_owned()),
            SettledIn { repeated, visible_at, .. } => {
                Ok(Ok(Settled { repeated, visible_at: visible_at.map(|at| time::parse(&at)).transpose()? }))
            }
        };
        Ok(SettleAnswer {
            settled: settled.into_iter().map(entry).collect::<Read<_>>()?,
            cancel_requested: cancel_requested.iter().map(|text| id(text)).collect::<Read<_>>()?,
        })
    }
}

pub(in crate::backend::remote) fn received(body: &Bytes) -> Read<Received> {
    let AnswerIn { jobs, settled, cancel_requested } = read(body)?;
    Ok(Received {
        jobs: jobs.into_iter().map(|job| job.delivery(body)).collect::<Read<_>>()?,
        answer: AnswerIn::settled(settled, &cancel_requested)?,
    })
}

pub(in crate::backend::remote) fn settled(body: &Bytes) -> Read<SettleAnswer> {
    let AnswerIn { settled, cancel_requested, .. } = read(body)?;
    AnswerIn::settled(settled, &cancel_requested)
}

pub(in crate::backend::remote) fn job(body: &Bytes) -> Read<JobNow> {
    read::<JobIn<'_>>(body)?.now(body)
}

pub(in crate::backend::remote) fn jobs(body: &Bytes) -> Read<Vec<JobNow>> {
    read::<AnswerIn<'_>>(body)?.jobs.into_iter().map(|job| job.now(body)).collect()
}
