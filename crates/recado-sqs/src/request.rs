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

use std::collections::HashSet;

use crate::action::{Action, each_action};
use crate::decode::Members;
use crate::error::{Code, SqsError};

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

            pub(crate) fn read(action: Action, members: &mut Members<'_>) -> Result<Self, SqsError> {
                match action {
                    $(Action::$name => $name::read(members).map(Self::$name),)*
                }
            }
        }
    };
}

each_action!(requests);

/// One entry of a batch. A bad one fails alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry<T> {
    /// Chosen by the caller, distinct within the batch.
    pub id: String,
    /// What is asked, or why it is refused already.
    pub content: Result<T, SqsError>,
}

/// Most entries of a batch.
const ENTRIES_MAX: usize = 10;

/// Longest id of an entry.
const ENTRY_ID_LENGTH_MAX: usize = 80;

/// The entries of a batch with their ids, once the batch as a whole is sound. `kind` is what the Query protocol calls
/// one of them.
fn entries<'c>(members: &mut Members<'c>, kind: &str) -> Result<Vec<(String, Members<'c>)>, SqsError> {
    let structures = members.structures("Entries", kind)?;
    if structures.is_empty() {
        let message = format!("There should be at least one {kind} in the request.");
        return Err(SqsError::new(Code::EmptyBatchRequest, message));
    }
    if structures.len() > ENTRIES_MAX {
        let sent = structures.len();
        let message = format!("Maximum number of entries per request are {ENTRIES_MAX}. You have sent {sent}.");
        return Err(SqsError::new(Code::TooManyEntriesInBatchRequest, message));
    }
    let mut entries = Vec::with_capacity(structures.len());
    for (index, mut members) in structures.into_iter().enumerate() {
        let id = members.text("Id")?.ok_or_else(|| SqsError::missing(&format!("{kind}.{}.Id", index + 1)))?;
        entries.push((id, members));
    }
    check_ids(&entries)?;
    Ok(entries)
}

fn check_ids(entries: &[(String, Members<'_>)]) -> Result<(), SqsError> {
    let mut seen = HashSet::new();
    for (id, _) in entries {
        if !(1..=ENTRY_ID_LENGTH_MAX).contains(&id.len()) || !id.bytes().all(is_word) {
            return Err(SqsError::new(
                Code::InvalidBatchEntryId,
                "A batch entry id can only contain alphanumeric characters, hyphens and underscores. \
                 It can be at most 80 letters long.",
            ));
        }
        if !seen.insert(id) {
            return Err(SqsError::new(Code::BatchEntryIdsNotDistinct, format!("Id {id} repeated.")));
        }
    }
    Ok(())
}

/// What names, labels and ids are made of.
fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_')
}
