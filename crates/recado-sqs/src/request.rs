//! What is asked: a struct an action, with every member checked as far as it can be without the queue.

mod message;
mod moves;
mod queue;

pub use message::{
    ChangeMessageVisibility, ChangeMessageVisibilityBatch, DeleteMessage, DeleteMessageBatch, ReceiveMessage,
    SendMessage, SendMessageBatch, VisibilityChange,
};
pub use moves::{CancelMessageMoveTask, ListMessageMoveTasks, StartMessageMoveTask};
pub use queue::{
    AddPermission, CreateQueue, DeleteQueue, GetQueueAttributes, GetQueueUrl, ListDeadLetterSourceQueues,
    ListQueueTags, ListQueues, PurgeQueue, RemovePermission, SetQueueAttributes, TagQueue, UntagQueue,
};

use crate::Action;
use crate::error::SqsError;

macro_rules! requests {
    ($($name:ident,)*) => {
        /// A request of any action.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Request {
            $(#[doc = concat!("[`", stringify!($name), "`].")] $name($name),)*
        }

        impl Request {
            /// Which.
            pub fn action(&self) -> Action {
                match self {
                    $(Self::$name(_) => Action::$name,)*
                }
            }
        }
    };
}

requests! {
    AddPermission,
    CancelMessageMoveTask,
    ChangeMessageVisibility,
    ChangeMessageVisibilityBatch,
    CreateQueue,
    DeleteMessage,
    DeleteMessageBatch,
    DeleteQueue,
    GetQueueAttributes,
    GetQueueUrl,
    ListDeadLetterSourceQueues,
    ListMessageMoveTasks,
    ListQueueTags,
    ListQueues,
    PurgeQueue,
    ReceiveMessage,
    RemovePermission,
    SendMessage,
    SendMessageBatch,
    SetQueueAttributes,
    StartMessageMoveTask,
    TagQueue,
    UntagQueue,
}

/// One entry of a batch. A bad one fails alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry<T> {
    /// Chosen by the caller, distinct within the batch.
    pub id: String,
    /// What is asked, or why it is refused already.
    pub content: Result<T, SqsError>,
}
