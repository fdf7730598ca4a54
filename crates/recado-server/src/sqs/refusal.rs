//! What the engine's refusals are in the words of SQS.

use axum::http::header::CONTENT_LENGTH;
use recado_contract::scan::mask_text;
use recado_core::Rejection;
use recado_shard::Error;
use recado_sqs::attributes::QueueAttributes;
use recado_sqs::{Action, Call, Code, SqsError};

use super::BODY_BYTES_MAX;

use crate::problem::Problem;

/// A request that is refused as a whole: who sends it, its head, its body, or that there is no place for it.
pub(super) fn of_request(problem: &Problem) -> SqsError {
    let code = match problem.status() {
        403 => Code::AccessDenied,
        413 | 431 => Code::RequestTooLarge,
        503 => Code::ServiceUnavailable,
        _ => Code::MalformedInput,
    };
    SqsError::new(code, problem.detail().to_owned())
}

/// A body that could not be read, of a call without it. One of a send is too long for what it may send.
pub(super) fn of_body(problem: &Problem, call: &Call<'_>) -> SqsError {
    let bytes = || call.headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok();
    match recado_sqs::action_in_head(call).filter(|_| problem.status() == 413) {
        Some(Action::SendMessageBatch) => SqsError::batch_too_long(bytes().unwrap_or(BODY_BYTES_MAX)),
        Some(Action::SendMessage) => SqsError::message_too_long(QueueAttributes::default().message_bytes_max),
        _ => of_request(problem),
    }
}

/// A message that its queue has something against.
pub(super) fn of_message(problem: &Problem) -> SqsError {
    SqsError::new(Code::InvalidMessageContents, mask_text(problem.detail()).into_owned())
}

/// A request that the engine refused.
pub(super) fn of(error: Error) -> SqsError {
    match error {
        Error::Rejected(rejection) => of_rejection(&rejection),
        Error::TooLarge { .. } => SqsError::new(Code::RequestTooLarge, error.to_string()),
        Error::Unreadable { .. } => SqsError::new(Code::InternalFailure, error.to_string()),
        _ => SqsError::unavailable(error.to_string()),
    }
}

pub(super) fn of_rejection(rejection: &Rejection) -> SqsError {
    let say = |code| SqsError::new(code, rejection.to_string());
    match rejection {
        Rejection::QueueNotFound { .. } => SqsError::queue_does_not_exist(),
        // Not final, but the queue is gone for everyone.
        Rejection::QueueFull { reason: "being-deleted", .. } => SqsError::queue_does_not_exist(),
        Rejection::QueueFull { .. } => say(Code::RequestThrottled),
        Rejection::TooManyQueues { .. } => say(Code::OverLimit),
        Rejection::OutOfMemory { .. } | Rejection::NoRoomNow { .. } => SqsError::unavailable(rejection.to_string()),
        Rejection::NotATarget(_) => SqsError::source_is_no_dead_letter_queue(),
        Rejection::MoveRunning(_) => SqsError::move_task_running(),
        Rejection::TaskNotFound => SqsError::task_not_found(),
        Rejection::ManagedByFile(_) => say(Code::UnsupportedOperation),
        _ => say(Code::InvalidParameterValue),
    }
}

/// A defect: the engine answered another question.
pub(super) fn unexpected(what: &impl std::fmt::Debug) -> SqsError {
    tracing::error!(?what, "unexpected answer of the shard");
    SqsError::new(Code::InternalFailure, "the shard answered something else")
}
