//! Messages out: any job of the queue is one.

use std::time::Duration;

use recado_core::{Delivered, HeldBack, Receive};
use recado_shard::FilledJob;
use recado_sqs::message::{Received, SystemAttribute};
use recado_sqs::request::ReceiveMessage;
use recado_sqs::{Answer, SqsError};

use super::caller::Caller;
use super::queue::{self, Queue};
use super::send::{attributes, sequence_number};
use super::{Done, MESSAGE_KIND, refusal, uuid};
use crate::http::App;
use crate::limits::RECEIVE_BYTES_MAX;

pub(super) async fn receive(app: &App, caller: &Caller, asked: ReceiveMessage) -> Result<Done, SqsError> {
    let queue = queue::find(app, caller, &asked.queue).await?;
    let wait_s = asked.wait_s.unwrap_or(queue.attributes.wait_s);
    let receive = Receive {
        queues: vec![(queue.native.clone(), 1)],
        strict: true,
        max: asked.max as usize,
        max_bytes: RECEIVE_BYTES_MAX,
        visibility_ms: asked.visibility_timeout_s.map(|seconds| u64::from(seconds) * 1_000),
        attempt_id: asked.attempt_id.as_deref().filter(|_| queue.is_fifo()).map(Into::into),
        by_group: true,
        ..Receive::default()
    };
    let wait = Duration::from_secs(wait_s.into());
    let received = app.shard.receive(receive, Vec::new(), wait).await.map_err(refusal::of)?;
    let is_at_limit = received.empty_because == Some(HeldBack::QueueInFlightLimit);
    if received.jobs.is_empty() && is_at_limit && wait_s == 0 && !queue.is_fifo() {
        return Err(SqsError::too_many_in_flight());
    }
    let show =
        |(delivered, job): &(Delivered, FilledJob)| asked.show(message(app, caller, &queue, &asked, delivered, job));
    let messages = received.jobs.iter().map(show).collect();
    Ok(Done { answer: Answer::ReceiveMessage(messages), guard: Some(received.guard) })
}

/// With what was asked for; the rest is not worked out.
fn message(
    app: &App,
    caller: &Caller,
    queue: &Queue,
    asked: &ReceiveMessage,
    delivered: &Delivered,
    job: &FilledJob,
) -> Received {
    let (view, meta) = (&job.view, &job.meta);
    let shows_headers = !asked.attributes.is_empty() || asked.system.shows(SystemAttribute::AWSTraceHeader);
    let headers = meta.headers.as_deref().filter(|_| shows_headers);
    let (attributes, trace) = headers.map(|headers| attributes(headers)).unwrap_or_default();
    let id = view.id;
    let text = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
    let value = |name: SystemAttribute| match name {
        SystemAttribute::SenderId => Some(caller.account().to_owned()),
        SystemAttribute::SentTimestamp => Some(id.enqueued_at().to_string()),
        SystemAttribute::ApproximateReceiveCount => Some(view.deliveries.to_string()),
        SystemAttribute::ApproximateFirstReceiveTimestamp => {
            Some(view.first_received_at.unwrap_or_default().to_string())
        }
        SystemAttribute::SequenceNumber => queue.is_fifo().then(|| sequence_number(id)),
        SystemAttribute::MessageDeduplicationId => text(&meta.dedup_key),
        SystemAttribute::MessageGroupId => text(&meta.group),
        SystemAttribute::AWSTraceHeader => trace.clone(),
        SystemAttribute::DeadLetterQueueSourceArn => {
            view.handed_off_by.as_deref().map(|native| caller.arn(native).to_string())
        }
    };
    let shown = SystemAttribute::ALL.iter().filter(|name| asked.system.shows(**name));
    Received {
        message_id: uuid(id.0),
        receipt_handle: delivered.receipt.text(app.shard.secret()),
        body: body(&view.kind, &job.payload),
        system: shown.filter_map(|name| Some((*name, value(*name)?))).collect(),
        attributes,
    }
}

/// A message's body is its text; that of a job which the other edge enqueued is the text of its payload.
fn body(kind: &str, payload: &[u8]) -> String {
    let own = (kind == MESSAGE_KIND).then(|| serde_json::from_slice(payload).ok()).flatten();
    own.unwrap_or_else(|| String::from_utf8_lossy(payload).into_owned())
}
