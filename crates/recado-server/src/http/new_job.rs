//! A job as producers send it.

use recado_contract::job;
use recado_core::{Dedup, NewBatch, NewJob, NewRelative, NewTies, OnChildDead, OnDuplicate, Overrides, When};
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::faults::Faults;
use crate::limits::DELAY_MS_MAX;
use crate::options::{self, BackoffBody};
use crate::{duration, time};

/// A job to enqueue.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = NewJob)]
pub(crate) struct NewJobBody<'a> {
    /// Which kind of work.
    #[serde(rename = "type")]
    kind: Box<str>,
    /// Free JSON, kept byte for byte.
    #[serde(borrow, default)]
    #[schema(value_type = serde_json::Value)]
    payload: Option<&'a RawValue>,
    /// Version of the payload's schema; 1 by default.
    schema_version: Option<u64>,
    /// The business object it is about.
    business_id: Option<Box<str>>,
    /// 0 (default) to 255; higher first.
    priority: Option<u64>,
    /// Not before so long from now; not with `runAt`.
    delay: Option<Box<str>>,
    /// Not before this instant; not with `delay`.
    run_at: Option<Box<str>>,
    /// Jobs that belong together.
    group: Option<Box<str>>,
    /// Two enqueues with one key make one job.
    dedup: Option<DedupBody>,
    /// Two jobs with one key make one effect.
    idempotency_key: Option<Box<str>>,
    /// Beats the queue's.
    max_attempts: Option<u64>,
    /// Beats the queue's.
    backoff: Option<BackoffBody>,
    /// Beats the queue's.
    visibility_timeout: Option<Box<str>>,
    /// Beats the queue's.
    timeout: Option<Box<str>>,
    /// Expires unless received within this time.
    expires_after: Option<Box<str>>,
    /// Free JSON object.
    #[serde(borrow, default)]
    #[schema(value_type = Object)]
    headers: Option<&'a RawValue>,
    /// Its queue, where it is a child or ends a batch and goes to another one.
    queue: Option<Box<str>>,
    /// Jobs that it waits for: it is blocked until all of them have ended. At most 1,000.
    #[serde(borrow)]
    #[schema(no_recursion)]
    children: Option<Vec<Self>>,
    /// What becomes of it when a child is dead, cancelled, expired or purged; `fail` by default.
    on_child_dead: Option<OnChildDeadWord>,
    /// The batch that it is of.
    #[serde(borrow)]
    batch: Option<BatchTieBody<'a>>,
}

/// Jobs whose end another job waits for. At most 10,000 have one id; it is free again once they have ended.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Batch)]
struct BatchTieBody<'a> {
    /// Unique among the open batches of the queue.
    id: Box<str>,
    /// The job that is enqueued with the first of the batch and runs once all have ended, whatever became of them.
    #[serde(borrow)]
    #[schema(no_recursion)]
    on_complete: Option<Box<NewJobBody<'a>>>,
}

/// What becomes of a parent when a child does not complete.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = OnChildDead)]
enum OnChildDeadWord {
    /// It is dead too, at once.
    Fail,
    /// It waits for the others, then runs.
    Continue,
}

/// Deduplication of one job.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Dedup)]
struct DedupBody {
    /// Unique in the queue.
    key: Box<str>,
    /// How long it stops a second job: a duration or `unfinished`.
    #[serde(rename = "for")]
    for_: Option<Box<str>>,
    /// What becomes of the second; `keep` by default.
    on_duplicate: Option<OnDuplicateWord>,
}

/// What becomes of a duplicate.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = OnDuplicate)]
enum OnDuplicateWord {
    /// The first stays as it is.
    Keep,
    /// A waiting first one takes the new payload and time.
    Replace,
    /// 409 when the payload differs.
    Conflict,
}

const UNFINISHED: &str = "unfinished";

impl NewJobBody<'_> {
    /// Checks everything that does not need the queue.
    pub(crate) fn check(self, now: u64, faults: &mut Faults) -> NewJob {
        if self.queue.is_some() {
            faults.at("/queue", "the path names the queue; only children and what ends a batch go elsewhere");
        }
        let job = self.read(faults);
        job::check(&job, now, faults);
        job
    }

    fn read(mut self, faults: &mut Faults) -> NewJob {
        let ties = self.ties(faults);
        faults.range("/priority", self.priority, 0, 255);
        NewJob {
            kind: self.kind,
            schema_version: u32::try_from(self.schema_version.unwrap_or(1)).unwrap_or(u32::MAX),
            payload: self.payload.map_or("null", RawValue::get).as_bytes().to_vec(),
            headers: self.headers.map(|raw| raw.get().as_bytes().to_vec()),
            business_id: self.business_id,
            priority: self.priority.unwrap_or(0) as u8,
            when: when(self.delay.as_deref(), self.run_at.as_deref(), faults).unwrap_or_default(),
            group: self.group,
            dedup: self.dedup.map(|dedup| dedup.check(faults)),
            idempotency_key: self.idempotency_key,
            overrides: Overrides {
                max_attempts: options::max_attempts(self.max_attempts, faults),
                backoff: self.backoff.map(|backoff| options::backoff(backoff, faults)),
                visibility: options::visibility(self.visibility_timeout.as_deref(), faults),
                timeout_ms: options::timeout(self.timeout.as_deref(), faults),
            },
            expires_after_ms: milliseconds("/expiresAfter", self.expires_after.as_deref(), faults),
            ties,
        }
    }

    fn ties(&mut self, faults: &mut Faults) -> Option<Box<NewTies>> {
        let children = self.children.take().unwrap_or_default();
        if children.is_empty() && self.on_child_dead.is_some() {
            faults.at("/onChildDead", "goes with children");
        }
        let child = |(at, body): (usize, Self)| body.relative(&format!("/children/{at}"), faults);
        let children: Vec<NewRelative> = children.into_iter().enumerate().map(child).collect();
        let batch = self.batch.take().map(|batch| NewBatch {
            id: batch.id,
            on_complete: batch.on_complete.map(|body| body.relative("/batch/onComplete", faults)),
        });
        if children.is_empty() && batch.is_none() {
            return None;
        }
        let on_child_dead = match self.on_child_dead {
            None | Some(OnChildDeadWord::Fail) => OnChildDead::Fail,
            Some(OnChildDeadWord::Continue) => OnChildDead::Continue,
        };
        Some(Box::new(NewTies { children, on_child_dead, batch }))
    }

    fn relative(mut self, path: &str, faults: &mut Faults) -> NewRelative {
        let queue = self.queue.take();
        let mut job = NewJob::default();
        faults.within(path, |faults| job = self.read(faults));
        NewRelative { queue, job }
    }
}

impl DedupBody {
    fn check(self, faults: &mut Faults) -> Dedup {
        let for_ms = match self.for_.as_deref() {
            Some(UNFINISHED) | None => None,
            text => milliseconds("/dedup/for", text, faults),
        };
        Dedup {
            key: self.key,
            for_ms,
            on_duplicate: match self.on_duplicate {
                None | Some(OnDuplicateWord::Keep) => OnDuplicate::Keep,
                Some(OnDuplicateWord::Replace) => OnDuplicate::Replace,
                Some(OnDuplicateWord::Conflict) => OnDuplicate::Conflict,
            },
        }
    }
}

/// `delay` or `runAt`, not both.
pub(crate) fn when(delay: Option<&str>, run_at: Option<&str>, faults: &mut Faults) -> Option<When> {
    match (delay, run_at) {
        (None, None) => None,
        (Some(_), Some(_)) => {
            faults.at("/delay", "send delay or runAt, not both");
            None
        }
        (Some(_), None) => milliseconds("/delay", delay, faults).map(When::After),
        (None, Some(text)) => time::parse(text).map(When::At).map_err(|message| faults.at("/runAt", message)).ok(),
    }
}

/// A duration; its range is for others to check.
fn milliseconds(pointer: &str, text: Option<&str>, faults: &mut Faults) -> Option<u64> {
    duration::parse(text?).map_err(|message| faults.at(pointer, message)).ok()
}

/// A duration of at least `low` milliseconds and at most a year.
pub(crate) fn span(pointer: &str, text: Option<&str>, low: u64, faults: &mut Faults) -> Option<u64> {
    let ms = milliseconds(pointer, text, faults)?;
    faults.time_range(pointer, Some(ms), low, DELAY_MS_MAX);
    Some(ms)
}
