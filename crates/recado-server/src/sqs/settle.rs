//! Deliveries end, or are hidden for longer.

use std::sync::Arc;

use recado_core::{JobState, Outcome, Receipt, Rejection, Settle, Settled, StaleReason};
use recado_sqs::answer::{Batch, Done, Failure};
use recado_sqs::request::{
    ChangeMessageVisibility, ChangeMessageVisibilityBatch, DeleteMessage, DeleteMessageBatch, Entry, VisibilityChange,
};
use recado_sqs::url::Address;
use recado_sqs::{Answer, SqsError};

use super::caller::Caller;
use super::queue::{self, Queue};
use super::refusal;
use crate::http::App;
use crate::time;

/// A message can be hidden for so long since it was received.
const VISIBILITY_S_MAX: u64 = 43_200;

/// What came of one settle.
type Outcomes = Vec<(String, Result<(), SqsError>)>;

/// What a handle is settled with.
#[derive(Clone, Debug)]
enum Wanted {
    Delete,
    Hide { seconds: u32 },
}

/// A handle with the entry's id.
struct Asked {
    id: String,
    handle: Result<String, SqsError>,
    wanted: Wanted,
}

pub(super) async fn delete(app: &App, caller: &Caller, asked: DeleteMessage) -> Result<Answer, SqsError> {
    one(app, caller, &asked.queue, asked.receipt_handle, Wanted::Delete).await?;
    Ok(Answer::DeleteMessage)
}

pub(super) async fn delete_batch(app: &App, caller: &Caller, asked: DeleteMessageBatch) -> Result<Answer, SqsError> {
    let entry = |Entry { id, content }| Asked { id, handle: content, wanted: Wanted::Delete };
    let entries = asked.entries.into_iter().map(entry).collect();
    Ok(Answer::DeleteMessageBatch(batch(app, caller, &asked.queue, entries).await?))
}

pub(super) async fn change_visibility(
    app: &App,
    caller: &Caller,
    asked: ChangeMessageVisibility,
) -> Result<Answer, SqsError> {
    let VisibilityChange { receipt_handle, visibility_timeout_s } = asked.change;
    one(app, caller, &asked.queue, receipt_handle, Wanted::Hide { seconds: visibility_timeout_s }).await?;
    Ok(Answer::ChangeMessageVisibility)
}

pub(super) async fn change_visibility_batch(
    app: &App,
    caller: &Caller,
    asked: ChangeMessageVisibilityBatch,
) -> Result<Answer, SqsError> {
    let entry = |Entry { id, content }| match content {
        Ok(VisibilityChange { receipt_handle, visibility_timeout_s: seconds }) => {
            Asked { id, handle: Ok(receipt_handle), wanted: Wanted::Hide { seconds } }
        }
        Err(error) => Asked { id, handle: Err(error), wanted: Wanted::Hide { seconds: 0 } },
    };
    let entries = asked.entries.into_iter().map(entry).collect();
    Ok(Answer::ChangeMessageVisibilityBatch(batch(app, caller, &asked.queue, entries).await?))
}

async fn one(app: &App, caller: &Caller, queue: &Address, handle: String, wanted: Wanted) -> Result<(), SqsError> {
    let queue = queue::find(app, caller, queue).await?;
    let asked = Asked { id: String::new(), handle: Ok(handle), wanted };
    let mut outcomes = settle(app, &queue, vec![asked]).await?;
    outcomes.pop().map_or_else(|| Err(refusal::unexpected(&"no outcome")), |(_, outcome)| outcome)
}

async fn batch(app: &App, caller: &Caller, queue: &Address, entries: Vec<Asked>) -> Result<Batch<Done>, SqsError> {
    let queue = queue::find(app, caller, queue).await?;
    let mut batch = Batch::default();
    for (id, outcome) in settle(app, &queue, entries).await? {
        match outcome {
            Ok(()) => batch.successful.push(Done { id }),
            Err(error) => batch.failed.push(Failure { id, error: error.in_batch() }),
        }
    }
    Ok(batch)
}

/// Settles what can be; the entries are independent of each other and are answered in their order.
async fn settle(app: &App, queue: &Arc<Queue>, entries: Vec<Asked>) -> Result<Outcomes, SqsError> {
    let mut settles = Vec::with_capacity(entries.len());
    let mut outcomes = Vec::with_capacity(entries.len());
    for Asked { id, handle, wanted } in entries {
        let checked = handle.and_then(|handle| check(app, queue, &handle, &wanted).map(|outcome| (handle, outcome)));
        match checked {
            Ok((handle, outcome)) => {
                settles.push(Settle { job: None, receipt: handle.as_str().into(), outcome });
                outcomes.push((id, Ok((handle, wanted))));
            }
            Err(error) => outcomes.push((id, Err(error))),
        }
    }
    let settled = if settles.is_empty() { Vec::new() } else { app.shard.settle(settles).await.map_err(refusal::of)? };
    let mut settled = settled.into_iter();
    let answered = |(id, asked): (String, Result<(String, Wanted), SqsError>)| {
        let outcome = asked.and_then(|(handle, wanted)| match settled.next() {
            Some(settled) => judge(queue, &handle, &wanted, settled),
            None => Err(refusal::unexpected(&"fewer outcomes than settles")),
        });
        (id, outcome)
    };
    Ok(outcomes.into_iter().map(answered).collect())
}

/// A handle of this queue's, and how long it may still be hidden.
fn check(app: &App, queue: &Queue, handle: &str, wanted: &Wanted) -> Result<Outcome, SqsError> {
    let receipt = Receipt::parse(handle, app.shard.secret()).filter(|receipt| receipt.queue == queue.number);
    let receipt = receipt.ok_or_else(|| SqsError::receipt_handle_is_invalid(handle))?;
    let Wanted::Hide { seconds } = wanted else { return Ok(Outcome::Ack { result: None }) };
    let since_s = time::now().saturating_sub(receipt.received_at) / 1_000;
    if since_s + u64::from(*seconds) > VISIBILITY_S_MAX {
        return Err(SqsError::visibility_beyond_limit(*seconds));
    }
    Ok(Outcome::Extend { visibility_ms: Some(u64::from(*seconds) * 1_000), progress: None })
}

/// What the engine's answer is for SQS: to delete what is gone, or somebody else's by now, is no error.
fn judge(queue: &Queue, handle: &str, wanted: &Wanted, settled: Result<Settled, Rejection>) -> Result<(), SqsError> {
    let (reason, state) = match settled {
        Ok(_) => return Ok(()),
        Err(Rejection::Stale { reason, state }) => (reason, state),
        Err(rejection) => return Err(refusal::of_rejection(&rejection)),
    };
    let is_late = matches!(reason, StaleReason::Lapsed | StaleReason::ReceivedAgain);
    match wanted {
        _ if reason == StaleReason::Forged => Err(SqsError::receipt_handle_is_invalid(handle)),
        _ if is_late && queue.is_fifo() => Err(SqsError::receipt_handle_expired(handle)),
        Wanted::Delete => Ok(()),
        Wanted::Hide { .. } => match state {
            Some(JobState::Ready | JobState::Delayed) => Err(SqsError::message_not_in_flight()),
            _ => Err(SqsError::message_not_available(handle)),
        },
    }
}
