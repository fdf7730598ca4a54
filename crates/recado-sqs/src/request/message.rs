//! Requests about messages.

use super::Entry;
use crate::answer;
use crate::message::{AttributeFilter, Message, Received, SystemFilter, md5_of_attributes, md5_of_body};
use crate::url::Address;

/// Sends one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendMessage {
    /// To which queue.
    pub queue: Address,
    /// What.
    pub message: Message,
}

/// Sends up to ten.
#[derive(Clone, Debug, PartialEq)]
pub struct SendMessageBatch {
    /// To which queue.
    pub queue: Address,
    /// 1 to 10.
    pub entries: Vec<Entry<Message>>,
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

/// Deletes up to ten.
#[derive(Clone, Debug, PartialEq)]
pub struct DeleteMessageBatch {
    /// From which queue.
    pub queue: Address,
    /// Receipt handles.
    pub entries: Vec<Entry<String>>,
}

/// A new visibility timeout, counted from now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VisibilityChange {
    /// As it was received.
    pub receipt_handle: String,
    /// 0 frees it at once.
    pub visibility_timeout_s: u32,
}

/// Changes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeMessageVisibility {
    /// In which queue.
    pub queue: Address,
    /// What.
    pub change: VisibilityChange,
}

/// Changes up to ten.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangeMessageVisibilityBatch {
    /// In which queue.
    pub queue: Address,
    /// 1 to 10.
    pub entries: Vec<Entry<VisibilityChange>>,
}
