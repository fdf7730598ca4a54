//! Jobs on their way to a queue.

use std::borrow::Cow;

use recado_contract::{duration, time};
use recado_core::{
    Backoff, BackoffCurve, Dedup, Jitter, NewBatch, NewJob, NewRelative, OnChildDead, OnDuplicate, Visibility, When,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Read, id, raw, read, write};
use crate::backend::Placed;
use crate::error::Error;

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
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    children: Vec<Self>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_child_dead: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch: Option<BatchTieOut<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BatchTieOut<'a> {
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_complete: Option<Box<NewJobOut<'a>>>,
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
        let (set, ties) = (&job.overrides, job.ties.as_deref());
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
            queue: None,
            children: ties.map_or(Ok(Vec::new()), |ties| ties.children.iter().map(Self::relative).collect())?,
            on_child_dead: ties.filter(|ties| !ties.children.is_empty()).map(|ties| match ties.on_child_dead {
                OnChildDead::Fail => "fail",
                OnChildDead::Continue => "continue",
            }),
            batch: ties.and_then(|ties| ties.batch.as_ref()).map(BatchTieOut::new).transpose()?,
        })
    }

    fn relative(relative: &'a NewRelative) -> Result<Self, Error> {
        Ok(Self { queue: relative.queue.as_deref(), ..Self::new(&relative.job)? })
    }
}

impl<'a> BatchTieOut<'a> {
    fn new(batch: &'a NewBatch) -> Result<Self, Error> {
        let on_complete = batch.on_complete.as_ref().map(NewJobOut::relative).transpose()?;
        Ok(Self { id: &batch.id, on_complete: on_complete.map(Box::new) })
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
pub(in crate::backend::remote) fn enqueue<'a>(
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
pub(in crate::backend::remote) fn enqueued(body: &[u8]) -> Read<Option<Vec<Placed>>> {
    #[derive(Deserialize)]
    struct Job<'a> {
        #[serde(borrow)]
        id: Cow<'a, str>,
        /// A child is never one.
        #[serde(default)]
        deduplicated: bool,
        #[serde(borrow, default)]
        children: Vec<Self>,
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
    fn placed(job: Job<'_>) -> Read<Placed> {
        let children = job.children.into_iter().map(placed).collect::<Read<_>>()?;
        Ok(Placed { id: id(&job.id)?, deduplicated: job.deduplicated, children })
    }
    answer.jobs.into_iter().map(placed).collect::<Read<_>>().map(Some)
}
