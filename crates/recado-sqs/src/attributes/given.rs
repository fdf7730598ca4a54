//! Attributes that a request sets: each on its own, with its range.

use std::collections::BTreeMap;

use super::name::{AttributeName, unknown};
use super::redrive::{RedriveAllowPolicy, RedrivePolicy};
use crate::error::{Code, SqsError};
use crate::policy;

/// How the Query protocol writes them.
pub(crate) const IN_QUERY: (&str, &str, &str) = ("Attribute", "Name", "Value");

/// Attributes that a request gives: each known, to be set, and of a value it may have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GivenAttributes(BTreeMap<AttributeName, Attribute>);

/// One, with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Attribute {
    VisibilityTimeout(u32),
    DelaySeconds(u32),
    MaximumMessageSize(u32),
    MessageRetentionPeriod(u32),
    ReceiveMessageWaitTimeSeconds(u32),
    Policy(Option<String>),
    RedrivePolicy(Option<RedrivePolicy>),
    RedriveAllowPolicy(Option<RedriveAllowPolicy>),
    KmsMasterKeyId(Option<String>),
    KmsDataKeyReusePeriodSeconds(u32),
    SqsManagedSseEnabled(bool),
    FifoQueue(bool),
    ContentBasedDeduplication(bool),
    /// `messageGroup`.
    DeduplicationScope(bool),
    /// `perMessageGroupId`.
    FifoThroughputLimit(bool),
}

impl GivenAttributes {
    pub(crate) fn new(given: impl IntoIterator<Item = (String, String)>) -> Result<Self, SqsError> {
        let one = |(name, value): (String, String)| {
            let name = AttributeName::named(&name).ok_or_else(|| unknown(&name))?;
            Ok((name, Attribute::parse(name, value)?))
        };
        given.into_iter().map(one).collect::<Result<_, _>>().map(Self)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a queue made with them is a FIFO queue.
    pub fn is_fifo(&self) -> bool {
        self.0.get(&AttributeName::FifoQueue) == Some(&Attribute::FifoQueue(true))
    }

    /// The redrive policy that is set by them, which names a queue that has to fit.
    pub fn redrive(&self) -> Option<&RedrivePolicy> {
        match self.0.get(&AttributeName::RedrivePolicy) {
            Some(Attribute::RedrivePolicy(policy)) => policy.as_ref(),
            _ => None,
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (AttributeName, &Attribute)> {
        self.0.iter().map(|(name, attribute)| (*name, attribute))
    }
}

impl Attribute {
    fn parse(name: AttributeName, value: String) -> Result<Self, SqsError> {
        let number = |min, max| number(name, &value, min, max);
        Ok(match name {
            AttributeName::VisibilityTimeout => Self::VisibilityTimeout(number(0, 43_200)?),
            AttributeName::DelaySeconds => Self::DelaySeconds(number(0, 900)?),
            AttributeName::MaximumMessageSize => Self::MaximumMessageSize(number(1_024, 1_048_576)?),
            AttributeName::MessageRetentionPeriod => Self::MessageRetentionPeriod(number(60, 1_209_600)?),
            AttributeName::ReceiveMessageWaitTimeSeconds => Self::ReceiveMessageWaitTimeSeconds(number(0, 20)?),
            AttributeName::KmsDataKeyReusePeriodSeconds => Self::KmsDataKeyReusePeriodSeconds(number(60, 86_400)?),
            AttributeName::SqsManagedSseEnabled => Self::SqsManagedSseEnabled(flag(name, &value)?),
            AttributeName::FifoQueue => Self::FifoQueue(flag(name, &value)?),
            AttributeName::ContentBasedDeduplication => Self::ContentBasedDeduplication(flag(name, &value)?),
            AttributeName::DeduplicationScope => {
                Self::DeduplicationScope(word(name, &value, ["queue", "messageGroup"])?)
            }
            AttributeName::FifoThroughputLimit => {
                Self::FifoThroughputLimit(word(name, &value, ["perQueue", "perMessageGroupId"])?)
            }
            AttributeName::Policy if value.is_empty() => Self::Policy(None),
            AttributeName::Policy => {
                policy::check(&value)?;
                Self::Policy(Some(value))
            }
            AttributeName::RedrivePolicy => Self::RedrivePolicy(RedrivePolicy::parse(&value)?),
            AttributeName::RedriveAllowPolicy => Self::RedriveAllowPolicy(RedriveAllowPolicy::parse(&value)?),
            AttributeName::KmsMasterKeyId => Self::KmsMasterKeyId(Some(value).filter(|key| !key.is_empty())),
            AttributeName::QueueArn
            | AttributeName::ApproximateNumberOfMessages
            | AttributeName::ApproximateNumberOfMessagesNotVisible
            | AttributeName::ApproximateNumberOfMessagesDelayed
            | AttributeName::CreatedTimestamp
            | AttributeName::LastModifiedTimestamp => return Err(unknown(name.name())),
        })
    }
}

fn number(name: AttributeName, value: &str, min: u32, max: u32) -> Result<u32, SqsError> {
    let number = value.parse().ok().filter(|number| (min..=max).contains(number));
    number.ok_or_else(|| invalid(name, ""))
}

fn flag(name: AttributeName, value: &str) -> Result<bool, SqsError> {
    word(name, &value.to_ascii_lowercase(), ["false", "true"])
}

/// Whether it is the second of two words.
fn word(name: AttributeName, value: &str, [no, yes]: [&str; 2]) -> Result<bool, SqsError> {
    match value {
        _ if value == yes => Ok(true),
        _ if value == no => Ok(false),
        _ => Err(invalid(name, "")),
    }
}

/// A value that the attribute cannot have, with the reason or without.
pub(super) fn invalid(name: AttributeName, reason: &str) -> SqsError {
    let reason = if reason.is_empty() { String::new() } else { format!(" Reason: {reason}") };
    let message = format!("Invalid value for the parameter {}.{reason}", name.name());
    SqsError::new(Code::InvalidAttributeValue, message)
}
