//! A job as producers send it.

use recado_core::{Dedup, NewJob, OnDuplicate, Overrides, When};
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::json::Faults;
use crate::limits::{DELAY_MS_MAX, HEADER_BYTES_MAX, HEADER_ENTRIES_MAX, PAYLOAD_BYTES_MAX};
use crate::options::{self, BackoffBody};
use crate::{duration, time};

/// Versions of a schema, from 1.
pub(crate) const SCHEMA_VERSION_MAX: u64 = i32::MAX as u64;

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
        faults.check_name("/type", &self.kind);
        faults.range("/schemaVersion", self.schema_version, 1, SCHEMA_VERSION_MAX);
        faults.range("/priority", self.priority, 0, 255);
        faults.check_key("/businessId", self.business_id.as_deref());
        faults.check_key("/group", self.group.as_deref());
        faults.check_key("/idempotencyKey", self.idempotency_key.as_deref());
        faults.check_free("/payload", self.payload, PAYLOAD_BYTES_MAX);
        check_headers(self.headers, faults);
        let expires_after_ms = span("/expiresAfter", self.expires_after.as_deref(), 1, faults);
        NewJob {
            kind: self.kind,
            schema_version: self.schema_version.unwrap_or(1) as u32,
            payload: self.payload.map_or("null", RawValue::get).as_bytes().to_vec(),
            headers: self.headers.map(|raw| raw.get().as_bytes().to_vec()),
            business_id: self.business_id,
            priority: self.priority.unwrap_or(0) as u8,
            when: when(self.delay.as_deref(), self.run_at.as_deref(), now, faults).unwrap_or_default(),
            group: self.group,
            dedup: self.dedup.map(|dedup| dedup.check(faults)),
            idempotency_key: self.idempotency_key,
            overrides: Overrides {
                max_attempts: options::max_attempts(self.max_attempts, faults),
                backoff: self.backoff.map(|backoff| options::backoff(backoff, faults)),
                visibility: options::visibility(self.visibility_timeout.as_deref(), faults),
                timeout_ms: options::timeout(self.timeout.as_deref(), faults),
            },
            expires_after_ms,
        }
    }
}

impl DedupBody {
    fn check(self, faults: &mut Faults) -> Dedup {
        faults.check_key("/dedup/key", Some(&self.key));
        let for_ms = match self.for_.as_deref() {
            Some(UNFINISHED) | None => None,
            text => span("/dedup/for", text, 1, faults),
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
pub(crate) fn when(delay: Option<&str>, run_at: Option<&str>, now: u64, faults: &mut Faults) -> Option<When> {
    match (delay, run_at) {
        (None, None) => None,
        (Some(_), Some(_)) => {
            faults.at("/delay", "send delay or runAt, not both");
            None
        }
        (Some(_), None) => span("/delay", delay, 0, faults).map(When::After),
        (None, Some(text)) => match time::parse(text) {
            Ok(at) => {
                if at > now.saturating_add(DELAY_MS_MAX) {
                    faults.at("/runAt", format!("must be at most {} ahead", duration::text(DELAY_MS_MAX)));
                }
                Some(When::At(at))
            }
            Err(message) => {
                faults.at("/runAt", message);
                None
            }
        },
    }
}

/// A duration of at least `low` milliseconds and at most a year.
pub(crate) fn span(pointer: &str, text: Option<&str>, low: u64, faults: &mut Faults) -> Option<u64> {
    match duration::parse(text?) {
        Ok(ms) => {
            faults.time_range(pointer, Some(ms), low, DELAY_MS_MAX);
            Some(ms)
        }
        Err(message) => {
            faults.at(pointer, message);
            None
        }
    }
}

fn check_headers(headers: Option<&RawValue>, faults: &mut Faults) {
    let Some(raw) = headers else { return };
    faults.check_free("/headers", Some(raw), HEADER_BYTES_MAX);
    match serde_json::from_str::<std::collections::HashMap<std::borrow::Cow<'_, str>, serde::de::IgnoredAny>>(raw.get())
    {
        Ok(entries) if entries.len() <= HEADER_ENTRIES_MAX => {}
        Ok(_) => faults.at("/headers", format!("at most {HEADER_ENTRIES_MAX} entries")),
        Err(_) => faults.at("/headers", "expected an object"),
    }
}
