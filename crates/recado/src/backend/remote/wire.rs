//! Requests and answers as the API writes them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use recado_contract::problem::Problem;
use recado_contract::{duration, time};
use recado_core::{
    Backoff, BackoffCurve, Dedup, Failure, Jitter, JobId, NewJob, OnDuplicate, Outcome, Receive, Settle, TypeRange,
    Visibility, When,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::super::{JobNow, Placed, Received, SettleAnswer, Settled};
use crate::delivery::{Delivery, JobFailure};
use crate::error::Error;

/// Answers are read leniently: what is not known here is passed over.
type Read<T> = Result<T, String>;

fn write<T: Serialize>(what: &'static str, value: &T) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(value).map_err(Error::json(what))
}

fn raw(bytes: &[u8]) -> Result<&RawValue, Error> {
    serde_json::from_slice(bytes).map_err(Error::json("this is not JSON"))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NewJobOut<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    payload: &'a RawValue,
    schema_version: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    business_id: Option<&'a str>,
    #[serde(skip_serializing_if = "is_zero")]
    priority: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dedup: Option<DedupOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backoff: Option<BackoffOut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    visibility_timeout: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_after: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<&'a RawValue>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn is_zero(number: &u8) -> bool {
    *number == 0
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DedupOut<'a> {
    key: &'a str,
    #[serde(rename = "for")]
    for_: String,
    on_duplicate: &'static str,
}

#[derive(Serialize, Default)]
struct BackoffOut {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    base: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    factor: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delays: Option<Vec<String>>,
    jitter: &'static str,
}

impl<'a> NewJobOut<'a> {
    fn new(job: &'a NewJob) -> Result<Self, Error> {
        let (delay, run_at) = match job.when {
            When::Now => (None, None),
            When::After(ms) => (Some(duration::text(ms)), None),
            When::At(at) => (None, Some(time::text(at))),
        };
        let set = &job.overrides;
        Ok(Self {
            kind: &job.kind,
            payload: raw(&job.payload)?,
            schema_version: job.schema_version,
            business_id: job.business_id.as_deref(),
            priority: job.priority,
            delay,
            run_at,
            group: job.group.as_deref(),
            dedup: job.dedup.as_ref().map(DedupOut::new),
            idempotency_key: job.idempotency_key.as_deref(),
            max_attempts: set.max_attempts,
            backoff: set.backoff.as_ref().map(BackoffOut::new),
            visibility_timeout: set.visibility.map(|visibility| match visibility {
                Visibility::Auto => "auto".to_owned(),
                Visibility::Fixed(ms) => duration::text(ms),
            }),
            timeout: set.timeout_ms.map(duration::text),
            expires_after: job.expires_after_ms.map(duration::text),
            headers: job.headers.as_deref().map(raw).transpose()?,
        })
    }
}

impl<'a> DedupOut<'a> {
    fn new(dedup: &'a Dedup) -> Self {
        Self {
            key: &dedup.key,
            for_: dedup.for_ms.map_or_else(|| "unfinished".to_owned(), duration::text),
            on_duplicate: match dedup.on_duplicate {
                OnDuplicate::Keep => "keep",
                OnDuplicate::Replace => "replace",
                OnDuplicate::Conflict => "conflict",
            },
        }
    }
}

impl BackoffOut {
    fn new(backoff: &Backoff) -> Self {
        let jitter = match backoff.jitter {
            Jitter::None => "none",
            Jitter::Full => "full",
            Jitter::Equal => "equal",
        };
        match &backoff.curve {
            BackoffCurve::Fixed { base_ms } => {
                Self { kind: "fixed", base: Some(duration::text(*base_ms)), jitter, ..Self::default() }
            }
            BackoffCurve::Exponential { base_ms, factor_milli, max_ms } => Self {
                kind: "exponential",
                base: Some(duration::text(*base_ms)),
                factor: Some(*factor_milli as f64 / 1_000.0),
                max: Some(duration::text(*max_ms)),
                delays: None,
                jitter,
            },
            BackoffCurve::List { delays_ms } => {
                let delays = Some(delays_ms.iter().map(|ms| duration::text(*ms)).collect());
                Self { kind: "list", delays, jitter, ..Self::default() }
            }
        }
    }
}

/// A producer's numbered batch.
pub(super) fn enqueue<'a>(
    producer: &str,
    seq: u64,
    jobs: impl IntoIterator<Item = &'a NewJob>,
) -> Result<Vec<u8>, Error> {
    #[derive(Serialize)]
    struct Producer<'a> {
        name: &'a str,
        seq: u64,
    }
    #[derive(Serialize)]
    struct Batch<'a> {
        producer: Producer<'a>,
        jobs: Vec<NewJobOut<'a>>,
    }
    let jobs = jobs.into_iter().map(NewJobOut::new).collect::<Result<_, _>>()?;
    write("these jobs cannot be written", &Batch { producer: Producer { name: producer, seq }, jobs })
}

/// What a batch became; `None` when it was there already, and which ids it got was said before.
pub(super) fn enqueued(body: &[u8]) -> Read<Option<Vec<Placed>>> {
    #[derive(Deserialize)]
    struct Job<'a> {
        #[serde(borrow)]
        id: Cow<'a, str>,
        deduplicated: bool,
    }
    #[derive(Deserialize)]
    struct Answer<'a> {
        #[serde(borrow)]
        jobs: Vec<Job<'a>>,
        #[serde(default)]
        duplicate: bool,
    }
    let answer: Answer<'_> = read(body)?;
    if answer.duplicate {
        return Ok(None);
    }
    let placed = |job: Job<'_>| Ok(Placed { id: id(&job.id)?, deduplicated: job.deduplicated });
    answer.jobs.into_iter().map(placed).collect::<Read<_>>().map(Some)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReceiveOut<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    queues: Option<Vec<&'a str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    weights: Option<BTreeMap<&'a str, u32>>,
    max: usize,
    wait: String,
    worker: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    visibility_timeout: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    types: Option<Vec<String>>,
    settle: Vec<SettleOut<'a>>,
    attempt_id: Option<&'a str>,
}

pub(super) fn receive(receive: &Receive, settle: &[Settle], wait: Duration) -> Result<Vec<u8>, Error> {
    let names = || receive.queues.iter().map(|(name, _)| &**name).collect();
    let weights = || receive.queues.iter().map(|(name, weight)| (&**name, *weight)).collect();
    let out = ReceiveOut {
        queues: receive.strict.then(names),
        order: receive.strict.then_some("strict"),
        weights: (!receive.strict).then(weights),
        max: receive.max,
        wait: format!("{}ms", wait.as_millis()),
        worker: receive.worker.as_deref(),
        visibility_timeout: receive.visibility_ms.map(duration::text),
        types: receive.types.as_ref().map(|types| types.iter().map(type_text).collect()),
        settle: settle.iter().map(SettleOut::new).collect::<Result<_, _>>()?,
        attempt_id: receive.attempt_id.as_deref(),
    };
    write("this receive cannot be written", &out)
}

fn type_text(range: &TypeRange) -> String {
    match range {
        TypeRange { kind, from, to } if from == to => format!("{kind}@{from}"),
        TypeRange { kind, from: 1, to: u32::MAX } => kind.to_string(),
        TypeRange { kind, from, to } => format!("{kind}@{from}-{to}"),
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SettleOut<'a> {
    id: String,
    receipt: &'a str,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<FailureOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    visibility_timeout: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<&'a RawValue>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FailureOut<'a> {
    kind: &'a str,
    message: &'a str,
    retryable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<String>,
}

impl<'a> SettleOut<'a> {
    fn new(settle: &'a Settle) -> Result<Self, Error> {
        let mut out = Self {
            id: settle.job.map(|id| id.to_string()).unwrap_or_default(),
            receipt: &settle.receipt,
            outcome: "ack",
            result: None,
            error: None,
            delay: None,
            reason: None,
            visibility_timeout: None,
            progress: None,
        };
        match &settle.outcome {
            Outcome::Ack { result } => out.result = result.as_deref().map(raw).transpose()?,
            Outcome::Fail(Failure { kind, message, retryable, retry_after_ms }) => {
                out.outcome = "fail";
                let retry_after = retry_after_ms.map(duration::text);
                out.error = Some(FailureOut { kind, message, retryable: *retryable, retry_after });
            }
            Outcome::Release { delay_ms, reason } => {
                out.outcome = "release";
                (out.delay, out.reason) = (delay_ms.map(duration::text), reason.as_deref());
            }
            Outcome::Extend { visibility_ms, progress } => {
                out.outcome = "extend";
                out.visibility_timeout = visibility_ms.map(duration::text);
                out.progress = progress.as_deref().map(raw).transpose()?;
            }
        }
        Ok(out)
    }
}

pub(super) fn settle(settle: &[Settle]) -> Result<Vec<u8>, Error> {
    let entries: Vec<_> = settle.iter().map(SettleOut::new).collect::<Result<_, _>>()?;
    write("these settles cannot be written", &entries)
}

pub(super) fn reason(reason: &str) -> Result<Vec<u8>, Error> {
    write("this reason cannot be written", &BTreeMap::from([("reason", reason)]))
}

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
    max_attempts: u32,
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

fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Read<T> {
    serde_json::from_slice(body).map_err(|error| error.to_string())
}

fn id(text: &str) -> Read<JobId> {
    JobId::parse(text).ok_or_else(|| format!("`{text}` is not a job's id"))
}

/// JSON inside an answer, without a copy.
fn slice(body: &Bytes, raw: Option<&RawValue>) -> Option<Bytes> {
    raw.map(|raw| body.slice_ref(raw.get().as_bytes()))
}

impl JobIn<'_> {
    fn delivery(self, body: &Bytes) -> Read<Delivery> {
        let visible_at = time::parse(&needed(self.visible_at, "visibleAt")?)?;
        let visible_for = duration::parse(&needed(self.visible_for, "visibleFor")?)?;
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
            max_attempts: self.max_attempts,
            deliveries: self.deliveries,
            last_error: self.errors.into_iter().next_back().map(JobFailure::from),
            progress: slice(body, self.progress),
            receipt: needed(self.receipt, "receipt")?,
            fencing_token: needed(self.fencing_token, "fencingToken")?,
            visible_at,
            visible_for: Duration::from_millis(visible_for),
            timeout_at: self.timeout_at.map(|at| time::parse(&at)).transpose()?,
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

pub(super) fn received(body: &Bytes) -> Read<Received> {
    let AnswerIn { jobs, settled, cancel_requested } = read(body)?;
    Ok(Received {
        jobs: jobs.into_iter().map(|job| job.delivery(body)).collect::<Read<_>>()?,
        answer: AnswerIn::settled(settled, &cancel_requested)?,
    })
}

pub(super) fn settled(body: &Bytes) -> Read<SettleAnswer> {
    let AnswerIn { settled, cancel_requested, .. } = read(body)?;
    AnswerIn::settled(settled, &cancel_requested)
}

pub(super) fn job(body: &Bytes) -> Read<JobNow> {
    read::<JobIn<'_>>(body)?.now(body)
}

pub(super) fn jobs(body: &Bytes) -> Read<Vec<JobNow>> {
    read::<AnswerIn<'_>>(body)?.jobs.into_iter().map(|job| job.now(body)).collect()
}
