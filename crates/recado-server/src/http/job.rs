//! A job as answers show it.

use std::collections::BTreeMap;

use recado_core::{ChildView, ChildrenView, Delivered, ErrorEntry, JobView, Secret};
use recado_shard::{FilledJob, Part};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::problem::{Code, Problem};
use crate::{duration, time};

/// A job.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Job)]
pub(crate) struct JobBody<'a> {
    id: String,
    queue: &'a str,
    #[serde(rename = "type")]
    kind: &'a str,
    schema_version: u32,
    /// As it was sent, byte for byte; absent with `?payload=false`, and when it is `unreadable`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = serde_json::Value)]
    payload: Option<&'a RawValue>,
    /// `ready delayed blocked inFlight completed dead cancelled expired`
    state: &'static str,
    business_id: Option<&'a str>,
    priority: u8,
    group: Option<&'a str>,
    dedup_key: Option<&'a str>,
    idempotency_key: Option<&'a str>,
    attempts: u32,
    deliveries: u32,
    /// Null: the retention of its queue ends it.
    max_attempts: Option<u32>,
    enqueued_at: String,
    run_at: String,
    #[schema(value_type = Object)]
    headers: &'a RawValue,
    errors: Vec<ErrorBody<'a>>,
    #[schema(value_type = serde_json::Value)]
    result: Option<&'a RawValue>,
    #[schema(value_type = serde_json::Value)]
    progress: Option<&'a RawValue>,
    replays: u32,
    /// Why a ready job is not handed out.
    held_back: Option<&'static str>,
    /// The job that waits for this one, until that has ended.
    parent: Option<String>,
    /// The jobs that this one waits for, or waited.
    #[serde(skip_serializing_if = "Option::is_none")]
    children: Option<ChildrenBody<'a>>,
    /// The queue that handed it off to this one, by a redrive policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    handed_off_by: Option<&'a str>,
    /// When it completed, died, or was cancelled or expired.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<String>,
    /// The group of alike failures of a dead job.
    #[serde(skip_serializing_if = "Option::is_none")]
    fingerprint: Option<String>,
    /// A cancel waits for its worker.
    #[serde(skip_serializing_if = "is_false")]
    cancel_requested: bool,
    /// Proof of this delivery.
    #[serde(skip_serializing_if = "Option::is_none")]
    receipt: Option<String>,
    /// When another worker can receive it.
    #[serde(skip_serializing_if = "Option::is_none")]
    visible_at: Option<String>,
    /// From this answer until then, for those whose clock is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    visible_for: Option<String>,
    /// When this attempt must end; null without a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_at: Option<Option<String>>,
    /// Grows with each delivery.
    #[serde(skip_serializing_if = "Option::is_none")]
    fencing_token: Option<u64>,
    /// Parts that are left out because the stored bytes are damaged (`payload headers errors result progress children`),
    /// and what is wrong with each. Such a job is not handed out. With `headers`, businessId, group and keys.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    unreadable: BTreeMap<&'static str, &'a str>,
}

/// One failed attempt.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = JobError)]
struct ErrorBody<'a> {
    attempt: u32,
    at: String,
    kind: &'a str,
    message: &'a str,
    worker: Option<&'a str>,
    retryable: bool,
}

/// The children of a job, or the jobs of the batch that it ends.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Children)]
struct ChildrenBody<'a> {
    total: u32,
    /// Not ended yet.
    pending: u32,
    completed: u32,
    /// Dead, cancelled, expired or purged.
    failed: u32,
    /// Each, in a delivery and where this job alone was asked for, until it has ended; a batch shows none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    jobs: Vec<ChildBody<'a>>,
}

/// A child.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Child)]
struct ChildBody<'a> {
    id: String,
    /// The state of a job, or `purged`.
    state: &'static str,
    #[schema(value_type = serde_json::Value)]
    result: Option<&'a RawValue>,
}

impl<'a> ChildrenBody<'a> {
    fn new(view: &'a ChildrenView, job: &'a FilledJob) -> Result<Self, Problem> {
        let child = |(child, result): (&ChildView, &'a Option<bytes::Bytes>)| {
            let result = result.as_deref().map(raw).transpose()?;
            Ok(ChildBody { id: child.id.to_string(), state: child.state, result })
        };
        let ChildrenView { total, pending, completed, failed, ref jobs } = *view;
        let jobs = jobs.iter().zip(&job.children).map(child).collect::<Result<_, Problem>>()?;
        Ok(Self { total, pending, completed, failed, jobs })
    }
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn is_false(flag: &bool) -> bool {
    !flag
}

impl<'a> JobBody<'a> {
    /// Converts a job with what it carries.
    pub(crate) fn new(job: &'a FilledJob, with_payload: bool) -> Result<Self, Problem> {
        let FilledJob { view, meta, .. } = job;
        Ok(Self {
            id: view.id.to_string(),
            queue: &view.queue,
            kind: &view.kind,
            schema_version: view.schema_version,
            payload: (with_payload && job.has_payload()).then(|| raw(&job.payload)).transpose()?,
            state: view.state.word(),
            business_id: meta.business_id.as_deref(),
            priority: view.priority,
            group: meta.group.as_deref(),
            dedup_key: meta.dedup_key.as_deref(),
            idempotency_key: meta.idempotency_key.as_deref(),
            attempts: view.attempts,
            deliveries: view.deliveries,
            max_attempts: Some(view.max_attempts).filter(|max| *max != recado_core::UNLIMITED),
            enqueued_at: time::text(view.id.enqueued_at()),
            run_at: time::text(view.run_at),
            headers: raw(meta.headers.as_ref().map_or(b"{}".as_slice(), |headers| headers))?,
            errors: job.errors.iter().map(ErrorBody::new).collect(),
            result: job.result.as_deref().map(raw).transpose()?,
            progress: job.progress.as_deref().map(raw).transpose()?,
            replays: view.replays,
            held_back: view.held_back.map(|reason| reason.word()),
            parent: view.parent.map(|id| id.to_string()),
            children: view.children.as_ref().map(|children| ChildrenBody::new(children, job)).transpose()?,
            handed_off_by: view.handed_off_by.as_deref(),
            ended_at: view.ended_at.map(time::text),
            fingerprint: view.fingerprint.map(fingerprint),
            cancel_requested: view.cancel_requested,
            receipt: None,
            visible_at: view.visible_at.map(time::text),
            visible_for: None,
            timeout_at: None,
            fencing_token: None,
            unreadable: job.unreadable.iter().map(|bad| (part(bad.part), &*bad.reason)).collect(),
        })
    }

    /// Converts a delivery.
    pub(crate) fn delivered(delivered: &Delivered, job: &'a FilledJob, secret: Secret) -> Result<Self, Problem> {
        Ok(Self {
            receipt: Some(delivered.receipt.text(secret)),
            visible_at: Some(time::text(delivered.visible_at)),
            visible_for: Some(duration::text(delivered.visible_at.saturating_sub(time::now()))),
            timeout_at: Some(delivered.timeout_at.map(time::text)),
            fencing_token: Some(delivered.fencing_token),
            ..Self::new(job, true)?
        })
    }
}

impl<'a> ErrorBody<'a> {
    fn new(entry: &'a ErrorEntry) -> Self {
        Self {
            attempt: entry.attempt,
            at: time::text(entry.at),
            kind: &entry.kind,
            message: &entry.message,
            worker: entry.worker.as_deref(),
            retryable: entry.retryable,
        }
    }
}

/// One job, looked up and filled.
pub(crate) async fn filled(app: &super::App, view: JobView) -> Result<FilledJob, Problem> {
    let mut jobs = app.shard.fill(vec![view], true).await?;
    jobs.pop().ok_or_else(|| Problem::new(Code::Internal, "the job was not filled"))
}

/// Stored JSON, checked again on its way out: it was checked on its way in, so a failure is damage.
pub(crate) fn raw(bytes: &[u8]) -> Result<&RawValue, Problem> {
    serde_json::from_slice(bytes).map_err(|error| {
        tracing::error!(%error, "stored JSON is damaged");
        Problem::new(Code::Internal, "stored JSON is damaged; run `recado log check`")
    })
}

fn part(part: Part) -> &'static str {
    match part {
        Part::Payload => "payload",
        Part::Meta => "headers",
        Part::Error => "errors",
        Part::Result => "result",
        Part::Progress => "progress",
        Part::Child => "children",
    }
}

/// A fingerprint on the wire.
pub(crate) fn fingerprint(number: u64) -> String {
    format!("{number:016x}")
}

/// Reads a fingerprint.
pub(crate) fn parse_fingerprint(text: &str) -> Option<u64> {
    (text.len() == 16 && !text.starts_with('+')).then(|| u64::from_str_radix(text, 16).ok()).flatten()
}

/// Figures by reason.
pub(crate) fn by_word<'w>(figures: impl IntoIterator<Item = (&'w str, u64)>) -> BTreeMap<String, u64> {
    figures.into_iter().map(|(word, figure)| (word.to_owned(), figure)).collect()
}
