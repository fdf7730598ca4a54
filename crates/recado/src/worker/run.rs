//! One run of one handler, and what it comes to.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use recado_contract::job::cut;
use recado_contract::json::check_free;
use recado_contract::limits::{
    DELAY_MS_MAX, ERROR_KIND_CHARS_MAX, ERROR_MESSAGE_BYTES_MAX, REASON_BYTES_MAX, RESULT_BYTES_MAX,
};
use recado_core::{Failure, Outcome};
use serde_json::value::RawValue;
use tokio::time::Instant;
use tower::ServiceExt;

use super::ctx::Ctx;
use super::error::{Classifier, Disposition, JobError};
use super::registry::Handler;
use crate::job::millis;

/// How a run ended.
pub(super) enum Ending {
    Done(Box<RawValue>),
    Failed(JobError),
    Panicked(String),
    TimedOut(Duration),
    /// Cut off by the worker's own stop.
    Aborted,
}

/// Runs a handler to its end or its deadline.
pub(super) async fn run(handler: Handler, ctx: Ctx) -> Ending {
    let (began, deadline, trace) = (Instant::now(), ctx.deadline(), ctx.trace());
    let working = trace.scope(AssertUnwindSafe(handler.oneshot(ctx)).catch_unwind());
    let ended = match deadline {
        Some(deadline) => match tokio::time::timeout_at(deadline, working).await {
            Ok(ended) => ended,
            Err(_) => return Ending::TimedOut(began.elapsed()),
        },
        None => working.await,
    };
    match ended {
        Ok(Ok(result)) => Ending::Done(result),
        Ok(Err(error)) => Ending::Failed(error),
        Err(panic) => Ending::Panicked(panic_message(&*panic)),
    }
}

pub(super) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().map(str::to_owned);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "the handler panicked".to_owned())
}

impl Ending {
    /// What to settle.
    pub(super) fn outcome(self, classifiers: &[Classifier]) -> Outcome {
        match self {
            Self::Done(result) => done(result),
            Self::Failed(error) => failed(&error, classifiers),
            Self::Panicked(message) => fail("panic", &message, true, None),
            Self::TimedOut(after) => {
                fail("timeout", &format!("cut off after {:.3} s", after.as_secs_f64()), true, None)
            }
            Self::Aborted => released("the worker stopped"),
        }
    }
}

/// What cannot be a result is a failure of its own: the run has had its effect, and another attempt would have it
/// again and answer no better.
fn done(result: Box<RawValue>) -> Outcome {
    let actual = result.get().len();
    if actual > RESULT_BYTES_MAX {
        let message = format!("the result has {actual} bytes, at most {RESULT_BYTES_MAX} are taken");
        return fail("result-too-large", &message, false, None);
    }
    if let Err(fault) = check_free(&result, "") {
        let message = format!("the result cannot be kept, {}: {}", fault.pointer, fault.message);
        return fail("invalid-result", &message, false, None);
    }
    let is_null = result.get() == "null";
    Outcome::Ack { result: (!is_null).then(|| Box::<str>::from(result).into_boxed_bytes().into_vec()) }
}

/// Given back, as if it had not been handed out.
pub(super) fn released(reason: &str) -> Outcome {
    Outcome::Release { delay_ms: None, reason: Some(reason.into()) }
}

fn failed(error: &JobError, classifiers: &[Classifier]) -> Outcome {
    let (kind, message) = (error.word(), error.message());
    match error.disposition(classifiers) {
        Disposition::Retry => fail(kind, &message, true, None),
        Disposition::RetryAfter(wait) => fail(kind, &message, true, Some(wait)),
        Disposition::Permanent => fail(kind, &message, false, None),
        Disposition::Snooze(wait) => Outcome::Release {
            delay_ms: Some(delay_ms(wait)),
            reason: (!message.is_empty()).then(|| cut(&message, REASON_BYTES_MAX).into()),
        },
    }
}

fn fail(kind: &str, message: &str, retryable: bool, retry_after: Option<Duration>) -> Outcome {
    Outcome::Fail(Failure {
        kind: kind.chars().take(ERROR_KIND_CHARS_MAX).collect::<String>().into(),
        message: cut(message, ERROR_MESSAGE_BYTES_MAX).into(),
        retryable,
        retry_after_ms: retry_after.map(delay_ms),
    })
}

/// A wait for longer than a job can wait is for as long as it can.
fn delay_ms(wait: Duration) -> u64 {
    millis(wait).min(DELAY_MS_MAX)
}
