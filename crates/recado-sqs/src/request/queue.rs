//! Requests about queues.

use crate::attributes::{AttributeName, GivenAttributes};
use crate::page::Page;
use crate::tags::Tags;
use crate::url::Address;

/// Adds a statement to the queue's policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddPermission {
    /// Which queue.
    pub queue: Address,
    /// Name of the statement.
    pub label: String,
    /// Who may, 12 digits each.
    pub accounts: Vec<String>,
    /// What, without the prefix `SQS:`.
    pub actions: Vec<String>,
}

/// Takes a statement out of the queue's policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovePermission {
    /// Which queue.
    pub queue: Address,
    /// Name of the statement.
    pub label: String,
}

/// Makes a queue, or finds the equal one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateQueue {
    /// Checked: a FIFO queue's ends in `.fifo`, and no other.
    pub name: String,
    /// Only those that were given.
    pub attributes: GivenAttributes,
    /// With which tags.
    pub tags: Tags,
}

/// The queue goes with all its messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteQueue {
    /// Which.
    pub queue: Address,
}

/// All messages of the queue go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurgeQueue {
    /// Which.
    pub queue: Address,
}

/// Where is the queue of a name?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GetQueueUrl {
    /// With the account if one was given.
    pub queue: Address,
}

/// Which queues are there?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListQueues {
    /// Empty without one.
    pub prefix: String,
    /// How many, after which.
    pub page: Page,
}

/// Which queues hand off to this one?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListDeadLetterSourceQueues {
    /// The dead-letter queue.
    pub queue: Address,
    /// How many, after which.
    pub page: Page,
}

/// What are the queue's attributes?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GetQueueAttributes {
    /// Which queue.
    pub queue: Address,
    /// Those asked for, `All` resolved.
    pub names: Vec<AttributeName>,
}

/// Changes attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetQueueAttributes {
    /// Which queue.
    pub queue: Address,
    /// Only those that were given.
    pub attributes: GivenAttributes,
}

/// Adds tags, or changes their values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagQueue {
    /// Which queue.
    pub queue: Address,
    /// Not empty.
    pub tags: Tags,
}

/// Takes tags away; one that is not there is no error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UntagQueue {
    /// Which queue.
    pub queue: Address,
    /// Not empty.
    pub keys: Vec<String>,
}

/// Which tags has the queue?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListQueueTags {
    /// Which queue.
    pub queue: Address,
}
