//! Requests about queues.

use super::is_word;
use crate::action::Action;
use crate::attributes::{self, AttributeName, GivenAttributes};
use crate::decode::Members;
use crate::error::{Code, SqsError};
use crate::page::Page;
use crate::policy::STATEMENT_ACTIONS_MAX;
use crate::tags::{self, Tags};
use crate::url::{self, Address, is_account};

/// Longest label of a permission.
const LABEL_LENGTH_MAX: usize = 80;

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

impl AddPermission {
    pub(super) fn read(members: &mut Members<'_>) -> Result<Self, SqsError> {
        let queue = members.queue()?;
        let label = label(members)?;
        let accounts = members.texts("AWSAccountIds", "AWSAccountId")?;
        if accounts.is_empty() {
            return Err(SqsError::missing("AWSAccountIds"));
        }
        if let Some(account) = accounts.iter().find(|account| !is_account(account)) {
            return Err(SqsError::invalid_value(format_args!("[{account}]"), "PrincipalId", "Unable to verify."));
        }
        let actions = members.texts("Actions", "ActionName")?;
        if actions.is_empty() {
            return Err(SqsError::missing("Actions"));
        }
        if actions.len() > STATEMENT_ACTIONS_MAX {
            let (most, sent) = (STATEMENT_ACTIONS_MAX, actions.len());
            let message = format!("{sent} Actions were found, maximum allowed is {most}.");
            return Err(SqsError::new(Code::OverLimit, message));
        }
        if let Some(action) = actions.iter().find(|action| *action != "*" && Action::named(action).is_none()) {
            let reason = "Please refer to the appropriate WSDL for a list of valid actions.";
            return Err(SqsError::invalid_value(format_args!("SQS:{action}"), "ActionName", reason));
        }
        Ok(Self { queue, label, accounts, actions })
    }
}

/// Takes a statement out of the queue's policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovePermission {
    /// Which queue.
    pub queue: Address,
    /// Name of the statement.
    pub label: String,
}

impl RemovePermission {
    pub(super) fn read(members: &mut Members<'_>) -> Result<Self, SqsError> {
        Ok(Self { queue: members.queue()?, label: label(members)? })
    }
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

impl CreateQueue {
    pub(super) fn read(members: &mut Members<'_>) -> Result<Self, SqsError> {
        let name = members.required_text("QueueName")?;
        let attributes = GivenAttributes::new(members.map("Attributes", attributes::IN_QUERY)?.unwrap_or_default())?;
        check_name(&name, attributes.is_fifo())?;
        let tags = members.map("tags", tags::IN_QUERY)?.unwrap_or_default().into_iter().collect();
        tags::check(&tags)?;
        Ok(Self { name, attributes, tags })
    }
}

/// The queue goes with all its messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteQueue {
    /// Which.
    pub queue: Address,
}

impl DeleteQueue {
    pub(super) fn read(members: &mut Members<'_>) -> Result<Self, SqsError> {
        Ok(Self { queue: members.queue()? })
    }
}

/// All messages of the queue go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurgeQueue {
    /// Which.
    pub queue: Address,
}

impl PurgeQueue {
    pub(super) fn read(members: &mut Members<'_>) -> Result<Self, SqsError> {
        Ok(Self { queue: members.queue()? })
    }
}

/// Where is the queue of a name?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GetQueueUrl {
    /// With the account if one was given.
    pub queue: Address,
}

impl GetQueueUrl {
    pub(super) fn read(members: &mut Members<'_>) -> Result<Self, SqsError> {
        let name = members.required_text("QueueName")?;
        let account = members.text("QueueOwnerAWSAccountId")?.filter(|account| !account.is_empty());
        if let Some(account) = account.as_ref().filter(|account| !url::is_account(account)) {
            return Err(SqsError::invalid_value(account, "QueueOwnerAWSAccountId", "An account id has 12 digits."));
        }
        Ok(Self { queue: Address { account, name } })
    }
}

/// Which queues are there?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListQueues {
    /// Empty without one.
    pub prefix: String,
    /// How many, after which.
    pub page: Page,
}

impl ListQueues {
    pub(super) fn read(members: &mut Members<'_>) -> Result<Self, SqsError> {
        let prefix = members.text("QueueNamePrefix")?.unwrap_or_default();
        Ok(Self { prefix, page: Page::read(members)? })
    }
}

/// Which queues hand off to this one?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListDeadLetterSourceQueues {
    /// The dead-letter queue.
    pub queue: Address,
    /// How many, after which.
    pub page: Page,
}

impl ListDeadLetterSourceQueues {
    pub(super) fn read(members: &mut Members<'_>) -> Result<Self, SqsError> {
        Ok(Self { queue: members.queue()?, page: Page::read(members)? })
    }
}

/// What are the queue's attributes?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GetQueueAttributes {
    /// Which queue.
    pub queue: Address,
    /// Those asked for, `All` resolved.
    pub names: Vec<AttributeName>,
}

impl GetQueueAttributes {
    pub(super) fn read(members: &mut Members<'_>) -> Result<Self, SqsError> {
        let queue = members.queue()?;
        let names = members.texts("AttributeNames", "AttributeName")?;
        Ok(Self { queue, names: AttributeName::asked(&names)? })
    }
}

/// Changes attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetQueueAttributes {
    /// Which queue.
    pub queue: Address,
    /// Only those that were given.
    pub attributes: GivenAttributes,
}

impl SetQueueAttributes {
    pub(super) fn read(members: &mut Members<'_>) -> Result<Self, SqsError> {
        let queue = members.queue()?;
        let given = members.map("Attributes", attributes::IN_QUERY)?;
        let given = given.ok_or_else(|| SqsError::missing("Attribute.Name"))?;
        Ok(Self { queue, attributes: GivenAttributes::new(given)? })
    }
}

/// Adds tags, or changes their values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagQueue {
    /// Which queue.
    pub queue: Address,
    /// Not empty.
    pub tags: Tags,
}

impl TagQueue {
    pub(super) fn read(members: &mut Members<'_>) -> Result<Self, SqsError> {
        let queue = members.queue()?;
        let tags: Tags = members.map("Tags", tags::IN_QUERY)?.unwrap_or_default().into_iter().collect();
        if tags.is_empty() {
            return Err(SqsError::missing("Tags"));
        }
        tags::check(&tags)?;
        Ok(Self { queue, tags })
    }
}

/// Takes tags away; one that is not there is no error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UntagQueue {
    /// Which queue.
    pub queue: Address,
    /// Not empty.
    pub keys: Vec<String>,
}

impl UntagQueue {
    pub(super) fn read(members: &mut Members<'_>) -> Result<Self, SqsError> {
        let queue = members.queue()?;
        let keys = members.texts("TagKeys", "TagKey")?;
        if keys.is_empty() {
            return Err(SqsError::missing("TagKeys"));
        }
        Ok(Self { queue, keys })
    }
}

/// Which tags has the queue?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListQueueTags {
    /// Which queue.
    pub queue: Address,
}

impl ListQueueTags {
    pub(super) fn read(members: &mut Members<'_>) -> Result<Self, SqsError> {
        Ok(Self { queue: members.queue()? })
    }
}

fn label(members: &mut Members<'_>) -> Result<String, SqsError> {
    let label = members.required_text("Label")?;
    if label.len() > LABEL_LENGTH_MAX || !label.bytes().all(is_word) {
        let reason = "Label can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length.";
        return Err(SqsError::invalid_value(&label, "Label", reason));
    }
    Ok(label)
}

/// A FIFO queue's name ends in `.fifo`, and no other has a dot.
fn check_name(name: &str, fifo: bool) -> Result<(), SqsError> {
    let refused = |message: &str| Err(SqsError::new(Code::InvalidParameterValue, message));
    let stem = if fifo { name.strip_suffix(url::FIFO_SUFFIX) } else { Some(name) };
    match stem {
        None => refused(
            "The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, \
            must end with .fifo suffix and be 1 to 80 in length.",
        ),
        Some(stem) if stem.is_empty() || name.len() > url::QUEUE_NAME_LENGTH_MAX || !stem.bytes().all(is_word) => {
            refused("Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length")
        }
        Some(_) => Ok(()),
    }
}
