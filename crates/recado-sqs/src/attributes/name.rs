//! Names of attributes.

use crate::error::{Code, SqsError};

macro_rules! attribute_names {
    ($($name:ident,)*) => {
        /// By name. `All` is no attribute.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum AttributeName {
            $(#[doc = concat!("`", stringify!($name), "`.")] $name,)*
        }

        impl AttributeName {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// As on the wire.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }
        }
    };
}

// In the order in which they are applied: what makes a queue a FIFO queue, or encrypts it, comes before what needs that.
attribute_names! {
    QueueArn,
    ApproximateNumberOfMessages,
    ApproximateNumberOfMessagesNotVisible,
    ApproximateNumberOfMessagesDelayed,
    CreatedTimestamp,
    LastModifiedTimestamp,
    VisibilityTimeout,
    DelaySeconds,
    MaximumMessageSize,
    MessageRetentionPeriod,
    ReceiveMessageWaitTimeSeconds,
    Policy,
    RedrivePolicy,
    RedriveAllowPolicy,
    KmsMasterKeyId,
    KmsDataKeyReusePeriodSeconds,
    SqsManagedSseEnabled,
    FifoQueue,
    ContentBasedDeduplication,
    DeduplicationScope,
    FifoThroughputLimit,
}

impl AttributeName {
    /// The attribute of this name; case counts.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|attribute| attribute.name() == name)
    }

    /// Those that a request asks for.
    pub(crate) fn asked(names: &[String]) -> Result<Vec<Self>, SqsError> {
        let mut asked = Vec::new();
        for name in names {
            match Self::named(name) {
                Some(attribute) => asked.push(attribute),
                None if name == "All" => asked.extend(Self::ALL),
                None => return Err(unknown(name)),
            }
        }
        asked.sort_unstable();
        asked.dedup();
        Ok(asked)
    }
}

/// An attribute that is none, or none of such a queue.
pub(super) fn unknown(name: &str) -> SqsError {
    SqsError::new(Code::InvalidAttributeName, format!("Unknown Attribute {name}."))
}
