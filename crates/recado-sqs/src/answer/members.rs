//! The members of each answer, in the words of both protocols.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{Answer, Batch, Done, Failure, Message, MoveTask, QueueUrls, Sent, SentEntry};
use crate::action::Action;
use crate::attributes;
use crate::call::Protocol;
use crate::encode::Members;
use crate::message::{AttributeValue, MessageAttribute};
use crate::{page, tags};

impl Answer {
    /// Of which action.
    pub fn action(&self) -> Action {
        match self {
            Self::AddPermission => Action::AddPermission,
            Self::CancelMessageMoveTask { .. } => Action::CancelMessageMoveTask,
            Self::ChangeMessageVisibility => Action::ChangeMessageVisibility,
            Self::ChangeMessageVisibilityBatch(_) => Action::ChangeMessageVisibilityBatch,
            Self::CreateQueue { .. } => Action::CreateQueue,
            Self::DeleteMessage => Action::DeleteMessage,
            Self::DeleteMessageBatch(_) => Action::DeleteMessageBatch,
            Self::DeleteQueue => Action::DeleteQueue,
            Self::GetQueueAttributes(_) => Action::GetQueueAttributes,
            Self::GetQueueUrl { .. } => Action::GetQueueUrl,
            Self::ListDeadLetterSourceQueues(_) => Action::ListDeadLetterSourceQueues,
            Self::ListMessageMoveTasks(_) => Action::ListMessageMoveTasks,
            Self::ListQueueTags(_) => Action::ListQueueTags,
            Self::ListQueues(_) => Action::ListQueues,
            Self::PurgeQueue => Action::PurgeQueue,
            Self::ReceiveMessage(_) => Action::ReceiveMessage,
            Self::RemovePermission => Action::RemovePermission,
            Self::SendMessage(_) => Action::SendMessage,
            Self::SendMessageBatch(_) => Action::SendMessageBatch,
            Self::SetQueueAttributes => Action::SetQueueAttributes,
            Self::StartMessageMoveTask { .. } => Action::StartMessageMoveTask,
            Self::TagQueue => Action::TagQueue,
            Self::UntagQueue => Action::UntagQueue,
        }
    }

    /// Whether its action answers more than that it is done.
    pub(crate) fn has_members(&self) -> bool {
        !matches!(
            self,
            Self::AddPermission
                | Self::ChangeMessageVisibility
                | Self::DeleteMessage
                | Self::DeleteQueue
                | Self::PurgeQueue
                | Self::RemovePermission
                | Self::SetQueueAttributes
                | Self::TagQueue
                | Self::UntagQueue
        )
    }

    pub(crate) fn members(&self, to: &mut impl Members) {
        match self {
            Self::CancelMessageMoveTask { moved } => to.number("ApproximateNumberOfMessagesMoved", *moved),
            Self::ChangeMessageVisibilityBatch(batch) => {
                batch.members("ChangeMessageVisibilityBatchResultEntry", Done::members, to);
            }
            Self::CreateQueue { queue_url } | Self::GetQueueUrl { queue_url } => to.text("QueueUrl", queue_url),
            Self::DeleteMessageBatch(batch) => batch.members("DeleteMessageBatchResultEntry", Done::members, to),
            Self::GetQueueAttributes(attributes) => {
                let entries = attributes.iter().map(|(name, value)| (name.name(), value.as_str()));
                to.map("Attributes", attributes::IN_QUERY, entries);
            }
            Self::ListDeadLetterSourceQueues(page) => page.members("queueUrls", to),
            Self::ListMessageMoveTasks(tasks) => {
                to.structures(("Results", "ListMessageMoveTasksResultEntry"), tasks, MoveTask::members);
            }
            Self::ListQueueTags(tags) => {
                to.map("Tags", tags::IN_QUERY, tags.iter().map(|(key, value)| (key.as_str(), value.as_str())));
            }
            Self::ListQueues(page) => page.members("QueueUrls", to),
            Self::ReceiveMessage(messages) => to.structures(("Messages", "Message"), messages, Message::members),
            Self::SendMessage(sent) => sent.members(to),
            Self::SendMessageBatch(batch) => batch.members("SendMessageBatchResultEntry", SentEntry::members, to),
            Self::StartMessageMoveTask { task_handle } => to.text("TaskHandle", task_handle),
            Self::AddPermission
            | Self::ChangeMessageVisibility
            | Self::DeleteMessage
            | Self::DeleteQueue
            | Self::PurgeQueue
            | Self::RemovePermission
            | Self::SetQueueAttributes
            | Self::TagQueue
            | Self::UntagQueue => {}
        }
    }
}

impl QueueUrls {
    fn members(&self, name: &'static str, to: &mut impl Members) {
        to.texts((name, "QueueUrl"), &self.urls);
        to.optional_text("NextToken", self.next.as_deref().map(page::token).as_deref());
    }
}

impl<T> Batch<T> {
    fn members<M: Members>(&self, kind: &'static str, each: impl Fn(&T, &mut M), to: &mut M) {
        to.structures(("Successful", kind), &self.successful, each);
        to.structures(("Failed", "BatchResultErrorEntry"), &self.failed, Failure::members);
    }
}

impl Done {
    fn members(&self, to: &mut impl Members) {
        to.text("Id", &self.id);
    }
}

impl Failure {
    fn members(&self, to: &mut impl Members) {
        to.text("Id", &self.id);
        to.text("Code", self.error.code().query_code());
        to.text("Message", self.error.message(Protocol::Json));
        to.flag("SenderFault", self.error.code().is_senders_fault());
    }
}

impl Sent {
    fn members(&self, to: &mut impl Members) {
        to.text("MessageId", &self.message_id);
        to.text("MD5OfMessageBody", &self.md5_of_body);
        to.optional_text("MD5OfMessageAttributes", self.md5_of_attributes.as_deref());
        to.optional_text("MD5OfMessageSystemAttributes", self.md5_of_system_attributes.as_deref());
        to.optional_text("SequenceNumber", self.sequence_number.as_deref());
    }
}

impl SentEntry {
    fn members(&self, to: &mut impl Members) {
        to.text("Id", &self.id);
        self.sent.members(to);
    }
}

impl Message {
    fn members(&self, to: &mut impl Members) {
        to.text("MessageId", &self.message_id);
        to.text("ReceiptHandle", &self.receipt_handle);
        to.text("MD5OfBody", &self.md5_of_body);
        to.text("Body", &self.body);
        let system = self.system.iter().map(|(name, value)| (name.name(), value.as_str()));
        to.map("Attributes", attributes::IN_QUERY, system);
        to.optional_text("MD5OfMessageAttributes", self.md5_of_attributes.as_deref());
        let attributes = self.attributes.iter().map(|(name, attribute)| (name.as_str(), attribute));
        to.structure_map(("MessageAttributes", "MessageAttribute"), attributes, MessageAttribute::members);
    }
}

impl MessageAttribute {
    fn members(&self, to: &mut impl Members) {
        match &self.value {
            AttributeValue::Text(text) => to.text("StringValue", text),
            AttributeValue::Binary(bytes) => to.text("BinaryValue", &STANDARD.encode(bytes)),
        }
        to.text("DataType", &self.data_type);
    }
}

impl MoveTask {
    fn members(&self, to: &mut impl Members) {
        to.optional_text("TaskHandle", self.task_handle.as_deref());
        to.text("Status", self.status.name());
        to.text("SourceArn", &self.source);
        to.optional_text("DestinationArn", self.destination.as_deref());
        to.optional_number("MaxNumberOfMessagesPerSecond", self.messages_per_second.map(u64::from));
        to.number("ApproximateNumberOfMessagesMoved", self.moved);
        to.optional_number("ApproximateNumberOfMessagesToMove", self.to_move);
        to.optional_text("FailureReason", self.failure_reason.as_deref());
        to.number("StartedTimestamp", self.started_at_ms);
    }
}
