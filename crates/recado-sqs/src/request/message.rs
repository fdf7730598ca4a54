//! Requests about messages.

use super::{Entry, entries};
use crate::answer;
use crate::decode::Members;
use crate::error::SqsError;
use crate::message::{self, AttributeFilter, Message, Received, SystemFilter, md5_of_attributes, md5_of_body};
use crate::url::Address;

/// Most messages of a receive.
const RECEIVE_MAX: u32 = 10;

/// Longest wait of a receive.
const WAIT_S_MAX: u32 = 20;

/// Longest visibility timeout.
const VISIBILITY_TIMEOUT_S_MAX: u32 = 43_200;

/// Sends one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendMessage {
    /// To which queue.
    pub queue: Address,
    /// What.
    pub message: Message,
}

impl SendMessage {
    pub(super) fn read(members: &mut Members<'_>) -> Result<Self, SqsError> {
        Ok(Self { queue: members.queue()?, message: Message::read(members)?.1? })
    }
}

/// Sends up to ten.
#[derive(Clone, Debug, PartialEq)]
pub struct SendMessageBatch {
    /// To which queue.
    pub queue: Address,
    /// 1 to 10.
    pub entries: Vec<Entry<Message>>,
}

impl SendMessageBatch {
    pub(super) fn read(members: &mut Members<'_>) -> Result<Self, SqsError> {
        let queue = members.queue()?;
        let mut total = 0;
        let mut messages = Vec::new();
        for (id, mut members) in entries(members, "SendMessageBatchRequestEntry")? {
            let (bytes, content) = Message::read(&mut members)?;
            total += bytes;
            messages.push(Entry { id, content: content.map_err(SqsError::in_batch) });
        }
        if total > message::BATCH_BYTES_MAX {
            return Err(SqsError::batch_too_long(total));
        }
        Ok(Self { queue, entries: messages })
    }
}

/// Receives up to ten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiveMessage {
    /// From which queue.
    pub queue: Address,
    /// Which of the service's attributes are shown.
    pub system: SystemFilter,
    /// Which of the message's own attributes are shown.
    pub attributes: AttributeFilter,
    /// 1 to 10.
    pub max: u32,
    /// For so long nobody else gets them; the queue's own when absent.
    pub visibility_timeout_s: Option<u32>,
    /// So long it may wait; the queue's own when absent.
    pub wait_s: Option<u32>,
    /// Repeats the answer of an earlier receive with the same id (FIFO).
    pub attempt_id: Option<String>,
}

impl ReceiveMessage {
    pub(super) fn read(members: &mut Members<'_>) -> Result<Self, SqsError> {
        let queue = members.queue()?;
        let mut system = members.texts("AttributeNames", "AttributeName")?;
        system.extend(members.texts("MessageSystemAttributeNames", "MessageSystemAttributeName")?);
        let attributes = members.texts("MessageAttributeNames", "MessageAttributeName")?;
        let reason = "Must be between 1 and 10, if provided.";
        let max = members.integer_in("MaxNumberOfMessages", 1, RECEIVE_MAX, reason)?.unwrap_or(1);
        let reason = "Must be >= 0 and <= 20, if provided.";
        let wait_s = members.integer_in("WaitTimeSeconds", 0, WAIT_S_MAX, reason)?;
        Ok(Self {
            queue,
            system: SystemFilter::new(system.iter().map(String::as_str)),
            attributes: AttributeFilter::new(attributes),
            max,
            visibility_timeout_s: visibility_timeout(members)?,
            wait_s,
            attempt_id: message::fifo_id(members, "ReceiveRequestAttemptId")?,
        })
    }

    /// A message as this request wants to see it: what was asked for, with digests of just that.
    pub fn show(&self, message: Received) -> answer::Message {
        let Received { message_id, receipt_handle, body, mut system, mut attributes } = message;
        system.retain(|(name, _)| self.system.shows(*name));
        attributes.retain(|name, _| self.attributes.shows(name));
        answer::Message {
            message_id,
            receipt_handle,
            md5_of_body: md5_of_body(&body),
            body,
            system,
            md5_of_attributes: md5_of_attributes(&attributes),
            attributes,
        }
    }
}

/// Deletes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteMessage {
    /// From which queue.
    pub queue: Address,
    /// As it was received.
    pub receipt_handle: String,
}

impl DeleteMessage {
    pub(super) fn read(members: &mut Members<'_>) -> Result<Self, SqsError> {
        Ok(Self { queue: members.queue()?, receipt_handle: members.required_text("ReceiptHandle")? })
    }
}

/// Deletes up to ten.
#[derive(Clone, Debug, PartialEq)]
pub struct DeleteMessageBatch {
    /// From which queue.
    pub queue: Address,
    /// Receipt handles.
    pub entries: Vec<Entry<String>>,
}

impl DeleteMessageBatch {
    pub(super) fn read(members: &mut Members<'_>) -> Result<Self, SqsError> {
        let queue = members.queue()?;
        let entries = entries(members, "DeleteMessageBatchRequestEntry")?;
        Ok(Self { queue, entries: each(entries, |members| members.required_text("ReceiptHandle")) })
    }
}

/// A new visibility timeout, counted from now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VisibilityChange {
    /// As it was received.
    pub receipt_handle: String,
    /// 0 frees it at once.
    pub visibility_timeout_s: u32,
}

impl VisibilityChange {
    pub(super) fn read(members: &mut Members<'_>) -> Result<Self, SqsError> {
        let receipt_handle = members.required_text("ReceiptHandle")?;
        let visibility_timeout_s =
            visibility_timeout(members)?.ok_or_else(|| SqsError::missing("VisibilityTimeout"))?;
        Ok(Self { receipt_handle, visibility_timeout_s })
    }
}

/// Changes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeMessageVisibility {
    /// In which queue.
    pub queue: Address,
    /// What.
    pub change: VisibilityChange,
}

impl ChangeMessageVisibility {
    pub(super) fn read(members: &mut Members<'_>) -> Result<Self, SqsError> {
        Ok(Self { queue: members.queue()?, change: VisibilityChange::read(members)? })
    }
}

/// Changes up to ten.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangeMessageVisibilityBatch {
    /// In which queue.
    pub queue: Address,
    /// 1 to 10.
    pub entries: Vec<Entry<VisibilityChange>>,
}

impl ChangeMessageVisibilityBatch {
    pub(super) fn read(members: &mut Members<'_>) -> Result<Self, SqsError> {
        let queue = members.queue()?;
        let entries = entries(members, "ChangeMessageVisibilityBatchRequestEntry")?;
        Ok(Self { queue, entries: each(entries, VisibilityChange::read) })
    }
}

fn each<T>(
    entries: Vec<(String, Members<'_>)>,
    read: impl Fn(&mut Members<'_>) -> Result<T, SqsError>,
) -> Vec<Entry<T>> {
    let entry = |(id, mut members)| Entry { id, content: read(&mut members).map_err(SqsError::in_batch) };
    entries.into_iter().map(entry).collect()
}

fn visibility_timeout(members: &mut Members<'_>) -> Result<Option<u32>, SqsError> {
    let reason = "Must be >= 0 and <= 43200, if provided.";
    members.integer_in("VisibilityTimeout", 0, VISIBILITY_TIMEOUT_S_MAX, reason)
}
