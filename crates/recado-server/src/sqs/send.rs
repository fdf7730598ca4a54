//! Messages in: each becomes a job.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use recado_contract::faults::Faults;
use recado_contract::gate::{Policy, Warned};
use recado_core::{Dedup, Enqueue, Enqueued, NewJob, OnDuplicate, When};
use recado_sqs::answer::{Batch, Failure, Sent, SentEntry};
use recado_sqs::message::{AttributeValue, Message, MessageAttribute, MessageAttributes};
use recado_sqs::request::{Entry, SendMessage, SendMessageBatch};
use recado_sqs::{Answer, Code, SqsError};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::caller::Caller;
use super::queue::{self, Queue};
use super::{MESSAGE_KIND, refusal, uuid};
use crate::http::App;

/// A deduplication id stops others for 5 minutes.
const DEDUP_MS: u64 = 300_000;

/// Header of a job that is the system attribute; no attribute of a message's own can have the name.
const TRACE_HEADER: &str = "aws:AWSTraceHeader";

/// Sequence numbers have 20 digits, from the first on.
const FIRST_SEQUENCE_NUMBER: u64 = 10_000_000_000_000_000_000;

/// A message's own attribute as a header of its job.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Header {
    #[serde(rename = "type")]
    data_type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    /// Of a Binary: base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    binary: Option<String>,
}

pub(super) async fn send(app: &App, caller: &Caller, asked: SendMessage) -> Result<Answer, SqsError> {
    let queue = queue::find(app, caller, &asked.queue).await?;
    let policy = app.gate.policy(&queue.native).await.map_err(refusal::of)?;
    let mut warned = Warned::default();
    let job = admit(app, &queue, &policy, job(&queue, &asked.message)?, &mut warned)?;
    let enqueued = enqueue(app, &queue, vec![job], warned).await?;
    let first = enqueued.first().ok_or_else(|| refusal::unexpected(&"no job"))?;
    Ok(Answer::SendMessage(sent(&queue, &asked.message, first)))
}

pub(super) async fn send_batch(app: &App, caller: &Caller, asked: SendMessageBatch) -> Result<Answer, SqsError> {
    let queue = queue::find(app, caller, &asked.queue).await?;
    let policy = app.gate.policy(&queue.native).await.map_err(refusal::of)?;
    let (mut batch, mut warned) = (Batch::default(), Warned::default());
    let (mut good, mut jobs) = (Vec::new(), Vec::new());
    for Entry { id, content } in asked.entries {
        let made = content.and_then(|message| {
            let job = job(&queue, &message).and_then(|job| admit(app, &queue, &policy, job, &mut warned));
            job.map_err(SqsError::in_batch).map(|job| (message, job))
        });
        match made {
            Ok((message, job)) => {
                good.push((id, message));
                jobs.push(job);
            }
            Err(error) => batch.failed.push(Failure { id, error }),
        }
    }
    if !jobs.is_empty() {
        let enqueued = enqueue(app, &queue, jobs, warned).await?;
        let entry =
            |((id, message), job): ((String, Message), &Enqueued)| SentEntry { id, sent: sent(&queue, &message, job) };
        batch.successful = good.into_iter().zip(&enqueued).map(entry).collect();
    }
    Ok(Answer::SendMessageBatch(batch))
}

/// Checks a message by what its queue asks of every job.
fn admit(app: &App, queue: &Queue, policy: &Policy, job: NewJob, warned: &mut Warned) -> Result<NewJob, SqsError> {
    let (mut faults, before) = (Faults::default(), *warned);
    policy.check(&job, &mut faults, warned);
    match faults.finish() {
        Ok(()) => Ok(job),
        Err(problem) => {
            *warned = before;
            app.rejected.count(&queue.native, &problem);
            Err(refusal::of_message(&problem))
        }
    }
}

async fn enqueue(app: &App, queue: &Queue, jobs: Vec<NewJob>, warned: Warned) -> Result<Vec<Enqueued>, SqsError> {
    let enqueue = Enqueue { queue: queue.native.clone(), create: false, jobs, producer: None, request: None };
    let (saved, _) = app.shard.enqueue(enqueue).await.map_err(refusal::of)?;
    app.warned.add_taken(&queue.native, warned);
    Ok(saved.jobs)
}

fn job(queue: &Queue, message: &Message) -> Result<NewJob, SqsError> {
    message.check(&queue.attributes)?;
    let delay_s = message.delay_s_in(&queue.attributes);
    let dedup = message.deduplication_id_in(&queue.attributes).filter(|_| queue.is_fifo());
    Ok(NewJob {
        kind: MESSAGE_KIND.into(),
        schema_version: 1,
        payload: serde_json::to_vec(&message.body).map_err(|_| unwritable())?,
        headers: headers(message)?,
        when: if delay_s == 0 { When::Now } else { When::After(u64::from(delay_s) * 1_000) },
        group: message.group_id.as_deref().map(Into::into),
        dedup: dedup.map(|key| Dedup { key: key.into(), for_ms: Some(DEDUP_MS), on_duplicate: OnDuplicate::Keep }),
        ..NewJob::default()
    })
}

fn unwritable() -> SqsError {
    SqsError::new(Code::InternalFailure, "the message cannot be stored")
}

fn sent(queue: &Queue, message: &Message, job: &Enqueued) -> Sent {
    message.sent(uuid(job.id.0), queue.is_fifo().then(|| sequence_number(job.id)))
}

pub(super) fn sequence_number(job: recado_core::JobId) -> String {
    (FIRST_SEQUENCE_NUMBER + job.seq()).to_string()
}

fn headers(message: &Message) -> Result<Option<Vec<u8>>, SqsError> {
    let mut headers: BTreeMap<&str, Value> = BTreeMap::new();
    for (name, attribute) in &message.attributes {
        let (value, binary) = match &attribute.value {
            AttributeValue::Text(text) => (Some(text.clone()), None),
            AttributeValue::Binary(bytes) => (None, Some(STANDARD.encode(bytes))),
        };
        let header = Header { data_type: attribute.data_type.clone(), value, binary };
        headers.insert(name, serde_json::to_value(header).map_err(|_| unwritable())?);
    }
    if let Some(trace) = &message.trace_header {
        headers.insert(TRACE_HEADER, Value::from(trace.as_str()));
    }
    if headers.is_empty() {
        return Ok(None);
    }
    serde_json::to_vec(&headers).map(Some).map_err(|_| unwritable())
}

/// Headers of any job as attributes: those of messages, and of other jobs those that are text.
pub(super) fn attributes(headers: &[u8]) -> (MessageAttributes, Option<String>) {
    let mut headers: BTreeMap<String, Value> = serde_json::from_slice(headers).unwrap_or_default();
    let trace = headers.remove(TRACE_HEADER).and_then(|trace| trace.as_str().map(str::to_owned));
    let read = |(name, value)| attribute(value).map(|attribute| (name, attribute));
    (headers.into_iter().filter_map(read).collect(), trace)
}

fn attribute(header: Value) -> Option<MessageAttribute> {
    if let Value::String(text) = header {
        let is_shown = !text.is_empty();
        return is_shown.then(|| MessageAttribute { data_type: "String".into(), value: AttributeValue::Text(text) });
    }
    let Header { data_type, value, binary } = serde_json::from_value(header).ok()?;
    let value = match binary {
        Some(binary) => AttributeValue::Binary(STANDARD.decode(binary).ok()?),
        None => AttributeValue::Text(value?),
    };
    Some(MessageAttribute { data_type, value })
}
