//! What a job may be, whichever edge it comes in by.
//!
//! What an edge reads from text (a duration, a time, a backoff) it checks while it reads; [`check_set_of`] is
//! for those that get values.

use std::borrow::Cow;
use std::collections::HashMap;

use recado_core::{Backoff, BackoffCurve, JobState, NewJob, NewRelative, Overrides, Visibility, When};
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::duration;
use crate::faults::Faults;
use crate::limits::{
    ATTEMPTS_MAX, BACKOFF_DELAYS_MAX, BACKOFF_FACTOR, DELAY_MS_MAX, HEADER_BYTES_MAX, HEADER_ENTRIES_MAX,
    PAYLOAD_BYTES_MAX, SCHEMA_VERSION_MAX, TIMEOUT_MS, VISIBILITY_MS,
};
use crate::nearest::hint;

/// Checks everything of a job that does not need its queue, but not what it sets over its queue.
pub fn check(job: &NewJob, now: u64, faults: &mut Faults) {
    faults.check_name("/type", &job.kind);
    faults.range("/schemaVersion", Some(job.schema_version.into()), 1, SCHEMA_VERSION_MAX);
    faults.check_key("/businessId", job.business_id.as_deref());
    faults.check_key("/group", job.group.as_deref());
    faults.check_key("/idempotencyKey", job.idempotency_key.as_deref());
    check_bytes("/payload", &job.payload, PAYLOAD_BYTES_MAX, faults);
    check_headers(job.headers.as_deref(), faults);
    check_when(job.when, now, faults);
    faults.time_range("/expiresAfter", job.expires_after_ms, 1, DELAY_MS_MAX);
    if let Some(dedup) = &job.dedup {
        faults.check_key("/dedup/key", Some(&dedup.key));
        faults.time_range("/dedup/for", dedup.for_ms, 1, DELAY_MS_MAX);
    }
    if let Some(batch) = job.ties.as_ref().and_then(|ties| ties.batch.as_ref()) {
        faults.check_key("/batch/id", Some(&batch.id));
    }
    for (path, relative) in relatives(job) {
        faults.within(&path, |faults| {
            if let Some(queue) = &relative.queue {
                faults.check_name("/queue", queue);
            }
            check(&relative.job, now, faults);
        });
    }
}

/// The jobs that are enqueued with one, and where in it they stand.
pub fn relatives(job: &NewJob) -> impl Iterator<Item = (String, &NewRelative)> {
    let children = job.ties.iter().flat_map(|ties| ties.children.iter().enumerate());
    let batch = job.ties.as_ref().and_then(|ties| ties.batch.as_ref());
    let last = batch.and_then(|batch| batch.on_complete.as_ref());
    let children = children.map(|(at, child)| (format!("/children/{at}"), child));
    children.chain(last.map(|last| ("/batch/onComplete".to_owned(), last)))
}

/// Reads a state by its word.
pub fn state(word: &str) -> Result<JobState, String> {
    let known = JobState::ALL.map(JobState::word);
    let state = JobState::ALL.into_iter().find(|state| state.word() == word);
    state.ok_or_else(|| format!("unknown state `{}`; {}", cut(word, 100), hint(word, &known)))
}

/// Checks when a job is due.
pub fn check_when(when: When, now: u64, faults: &mut Faults) {
    match when {
        When::Now => {}
        When::After(ms) => faults.time_range("/delay", Some(ms), 0, DELAY_MS_MAX),
        When::At(at) if at > now.saturating_add(DELAY_MS_MAX) => {
            faults.at("/runAt", format!("must be at most {} ahead", duration::text(DELAY_MS_MAX)));
        }
        When::At(_) => {}
    }
}

/// Checks what a job, and each that is enqueued with it, sets over its queue.
pub fn check_set_of(job: &NewJob, faults: &mut Faults) {
    check_set(&job.overrides, faults);
    for (path, relative) in relatives(job) {
        faults.within(&path, |faults| check_set_of(&relative.job, faults));
    }
}

fn check_set(set: &Overrides, faults: &mut Faults) {
    faults.range("/maxAttempts", set.max_attempts.map(u64::from), 1, ATTEMPTS_MAX);
    if let Some(Visibility::Fixed(ms)) = set.visibility {
        faults.time_range("/visibilityTimeout", Some(ms), VISIBILITY_MS.0, VISIBILITY_MS.1);
    }
    faults.time_range("/timeout", set.timeout_ms, TIMEOUT_MS.0, TIMEOUT_MS.1);
    if let Some(backoff) = &set.backoff {
        check_backoff(backoff, faults);
    }
}

fn check_backoff(backoff: &Backoff, faults: &mut Faults) {
    match &backoff.curve {
        BackoffCurve::Fixed { base_ms } => faults.time_range("/backoff/base", Some(*base_ms), 0, DELAY_MS_MAX),
        BackoffCurve::Exponential { base_ms, factor_milli, max_ms } => {
            faults.time_range("/backoff/base", Some(*base_ms), 0, DELAY_MS_MAX);
            faults.time_range("/backoff/max", Some(*max_ms), 0, DELAY_MS_MAX);
            if !(BACKOFF_FACTOR.0..=BACKOFF_FACTOR.1).contains(&(*factor_milli as f64 / 1_000.0)) {
                faults.at("/backoff/factor", format!("must be from {} to {}", BACKOFF_FACTOR.0, BACKOFF_FACTOR.1));
            }
        }
        BackoffCurve::List { delays_ms } => {
            if delays_ms.is_empty() || delays_ms.len() > BACKOFF_DELAYS_MAX {
                faults.at("/backoff/delays", format!("a list has 1 to {BACKOFF_DELAYS_MAX} delays"));
            }
            for (index, ms) in delays_ms.iter().enumerate() {
                faults.time_range(&format!("/backoff/delays/{index}"), Some(*ms), 0, DELAY_MS_MAX);
            }
        }
    }
}

/// Checks free JSON that is still bytes, and its size.
pub fn check_bytes(pointer: &str, bytes: &[u8], limit: usize, faults: &mut Faults) {
    match serde_json::from_slice::<&RawValue>(bytes) {
        Ok(raw) => faults.check_free(pointer, Some(raw), limit),
        Err(error) => faults.at(pointer, format!("this is not JSON: {error}")),
    }
}

fn check_headers(headers: Option<&[u8]>, faults: &mut Faults) {
    let Some(bytes) = headers else { return };
    check_bytes("/headers", bytes, HEADER_BYTES_MAX, faults);
    match serde_json::from_slice::<HashMap<Cow<'_, str>, IgnoredAny>>(bytes) {
        Ok(entries) if entries.len() <= HEADER_ENTRIES_MAX => {}
        Ok(_) => faults.at("/headers", format!("at most {HEADER_ENTRIES_MAX} entries")),
        Err(_) => faults.at("/headers", "expected an object"),
    }
}

/// At most `bytes` bytes of a text, whole characters.
#[must_use]
pub fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use recado_core::{Dedup, Jitter};

    fn good() -> NewJob {
        NewJob { kind: "mail.send".into(), schema_version: 1, payload: b"{}".to_vec(), ..NewJob::default() }
    }

    fn faults_of(change: impl FnOnce(&mut NewJob)) -> Vec<String> {
        let mut job = good();
        change(&mut job);
        let mut faults = Faults::default();
        check(&job, 1_000, &mut faults);
        check_set(&job.overrides, &mut faults);
        faults.into_errors().into_iter().map(|error| error.pointer).collect()
    }

    #[test]
    fn each_fault_is_named() {
        type Change = Box<dyn FnOnce(&mut NewJob)>;
        let cases: Vec<(Change, &[&str])> = vec![
            (Box::new(|_| {}), &[]),
            (Box::new(|job| job.kind = "recado.own".into()), &["/type"]),
            (Box::new(|job| job.schema_version = 0), &["/schemaVersion"]),
            (Box::new(|job| job.group = Some("k".repeat(257).into())), &["/group"]),
            (Box::new(|job| job.payload = br#"{"a":1,"a":2}"#.to_vec()), &["/payload/a"]),
            (Box::new(|job| job.payload = b"{".to_vec()), &["/payload"]),
            (Box::new(|job| job.headers = Some(b"[]".to_vec())), &["/headers"]),
            (Box::new(|job| job.when = When::After(DELAY_MS_MAX)), &[]),
            (Box::new(|job| job.when = When::After(DELAY_MS_MAX + 1)), &["/delay"]),
            (Box::new(|job| job.when = When::At(1_000 + DELAY_MS_MAX + 1)), &["/runAt"]),
            (Box::new(|job| job.expires_after_ms = Some(0)), &["/expiresAfter"]),
            (
                Box::new(|job| {
                    job.dedup = Some(Dedup { key: "".into(), for_ms: Some(0), on_duplicate: <_>::default() })
                }),
                &["/dedup/key", "/dedup/for"],
            ),
            (Box::new(|job| job.overrides.max_attempts = Some(0)), &["/maxAttempts"]),
            (Box::new(|job| job.overrides.visibility = Some(Visibility::Fixed(99))), &["/visibilityTimeout"]),
            (Box::new(|job| job.overrides.timeout_ms = Some(999)), &["/timeout"]),
            (
                Box::new(|job| {
                    let curve = BackoffCurve::List { delays_ms: Vec::new() };
                    job.overrides.backoff = Some(Backoff { curve, jitter: Jitter::None });
                }),
                &["/backoff/delays"],
            ),
        ];
        for (number, (change, expected)) in cases.into_iter().enumerate() {
            assert_eq!(faults_of(change), expected, "case {number}");
        }
    }
}
