//! What is answered: what each action gives back when it is done.

mod members;

use crate::attributes::AttributeName;
use crate::error::SqsError;
use crate::message::{MessageAttributes, SystemAttribute};
use crate::tags::Tags;

/// An answer of any action.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the variants are the actions")]
pub enum Answer {
    AddPermission,
    CancelMessageMoveTask {
        /// Messages moved before it was cancelled.
        moved: u64,
    },
    ChangeMessageVisibility,
    ChangeMessageVisibilityBatch(Batch<Done>),
    CreateQueue {
        /// Where it is.
        queue_url: String,
    },
    DeleteMessage,
    DeleteMessageBatch(Batch<Done>),
    DeleteQueue,
    GetQueueAttributes(Vec<(AttributeName, String)>),
    GetQueueUrl {
        /// Where it is.
        queue_url: String,
    },
    ListDeadLetterSourceQueues(QueueUrls),
    ListMessageMoveTasks(Vec<MoveTask>),
    ListQueueTags(Tags),
    ListQueues(QueueUrls),
    PurgeQueue,
    ReceiveMessage(Vec<Message>),
    RemovePermission,
    SendMessage(Sent),
    SendMessageBatch(Batch<SentEntry>),
    SetQueueAttributes,
    StartMessageMoveTask {
        /// To cancel it with.
        task_handle: String,
    },
    TagQueue,
    UntagQueue,
}

/// A page of queue URLs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueUrls {
    /// In order of their names.
    pub urls: Vec<String>,
    /// Goes on after this name: set when the page was limited and more remain.
    pub next: Option<String>,
}

/// What became of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch<T> {
    /// Done.
    pub successful: Vec<T>,
    /// Not done.
    pub failed: Vec<Failure>,
}

impl<T> Default for Batch<T> {
    fn default() -> Self {
        Self { successful: Vec::new(), failed: Vec::new() }
    }
}

/// An entry that was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// The entry's.
    pub id: String,
}

/// An entry that was not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The entry's.
    pub id: String,
    /// Why not.
    pub error: SqsError,
}

/// A message that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// A UUID.
    pub message_id: String,
    /// Of the body.
    pub md5_of_body: String,
    /// Of the message's own attributes, if it has any.
    pub md5_of_attributes: Option<String>,
    /// Of its system attributes, if it has any.
    pub md5_of_system_attributes: Option<String>,
    /// FIFO only.
    pub sequence_number: Option<String>,
}

/// An entry of a batch that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentEntry {
    /// The entry's.
    pub id: String,
    /// What was sent.
    pub sent: Sent,
}

/// A message as it is shown to who received it: see [`crate::request::ReceiveMessage::show`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// A UUID.
    pub message_id: String,
    /// Settles this delivery.
    pub receipt_handle: String,
    /// Text.
    pub body: String,
    /// Of the body.
    pub md5_of_body: String,
    /// The service's own that were asked for.
    pub system: Vec<(SystemAttribute, String)>,
    /// The message's own that were asked for.
    pub attributes: MessageAttributes,
    /// Of those.
    pub md5_of_attributes: Option<String>,
}

/// A task that moves messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoveTask {
    /// Only while it runs.
    pub task_handle: Option<String>,
    /// Where it stands.
    pub status: MoveStatus,
    /// An ARN.
    pub source: String,
    /// An ARN, if one was given.
    pub destination: Option<String>,
    /// As asked for.
    pub messages_per_second: Option<u32>,
    /// So far.
    pub moved: u64,
    /// At its start.
    pub to_move: Option<u64>,
    /// A code.
    pub failure_reason: Option<String>,
    /// Milliseconds since 1970.
    pub started_at_ms: u64,
}

/// Where a move stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveStatus {
    /// It goes on.
    Running,
    /// All is moved.
    Completed,
    /// It will end.
    Cancelling,
    /// It was ended.
    Cancelled,
    /// It cannot go on.
    Failed,
}

impl MoveStatus {
    /// As on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "RUNNING",
            Self::Completed => "COMPLETED",
            Self::Cancelling => "CANCELLING",
            Self::Cancelled => "CANCELLED",
            Self::Failed => "FAILED",
        }
    }
}
