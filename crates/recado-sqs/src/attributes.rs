//! Attributes of queues.

use std::collections::BTreeMap;

use crate::error::SqsError;

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
}

/// Attributes that a request gives: each known, to be set, and of a value it may have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GivenAttributes(BTreeMap<AttributeName, String>);

/// What a queue's attributes are, but for those that only its state knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueAttributes {
    /// `VisibilityTimeout`.
    pub visibility_timeout_s: u32,
    /// `DelaySeconds`.
    pub delay_s: u32,
    /// `MaximumMessageSize`.
    pub message_bytes_max: u32,
    /// `MessageRetentionPeriod`.
    pub retention_s: u32,
    /// `ReceiveMessageWaitTimeSeconds`.
    pub wait_s: u32,
    /// `Policy`: JSON, kept as it was given.
    pub policy: Option<String>,
    /// `RedrivePolicy`.
    pub redrive: Option<RedrivePolicy>,
    /// `RedriveAllowPolicy`.
    pub redrive_allow: Option<RedriveAllowPolicy>,
    /// `KmsMasterKeyId`: stored and given back; nothing is encrypted with it.
    pub kms_key_id: Option<String>,
    /// `KmsDataKeyReusePeriodSeconds`, when it is not the default.
    pub kms_reuse_s: Option<u32>,
    /// `SqsManagedSseEnabled`.
    pub managed_sse: bool,
    /// Of a FIFO queue.
    pub fifo: Option<FifoAttributes>,
}

/// What only FIFO queues have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FifoAttributes {
    /// `ContentBasedDeduplication`.
    pub content_based: bool,
    /// `DeduplicationScope` is `messageGroup`.
    pub dedup_in_group: bool,
    /// `FifoThroughputLimit` is `perMessageGroupId`.
    pub limit_per_group: bool,
}

/// Where a message goes that was received too often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedrivePolicy {
    /// The dead-letter queue.
    pub target: crate::arn::Arn,
    /// 1 to 1000.
    pub max_receives: u32,
    /// As it was given.
    pub text: String,
}

/// Whose dead-letter queue this one may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedriveAllowPolicy {
    /// Whose.
    pub allowed: RedrivePermission,
    /// As it was given.
    pub text: String,
}

/// See [`RedriveAllowPolicy`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedrivePermission {
    /// Everybody's.
    All,
    /// Nobody's.
    None,
    /// Of these, at most 10.
    Queues(Vec<crate::arn::Arn>),
}

/// What only the queue's state knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figures {
    /// Its ARN.
    pub arn: crate::arn::Arn,
    /// Ready.
    pub visible: u64,
    /// In flight.
    pub not_visible: u64,
    /// Delayed.
    pub delayed: u64,
    /// Seconds since 1970.
    pub created_at_s: u64,
    /// Seconds since 1970.
    pub modified_at_s: u64,
}

impl QueueAttributes {
    /// Of a new queue of this name.
    ///
    /// # Errors
    /// When the attributes do not go together, or not with the name.
    pub fn created(name: &str, given: &GivenAttributes) -> Result<Self, SqsError> {
        let _ = (name, given);
        Ok(Self::default())
    }

    /// Changes those that are given.
    ///
    /// # Errors
    /// When they do not go together; nothing has changed then.
    pub fn set(&mut self, given: &GivenAttributes) -> Result<(), SqsError> {
        let _ = given;
        Ok(())
    }

    /// The first of those given whose value is another here: a second CreateQueue must not have one.
    pub fn first_difference(&self, given: &GivenAttributes) -> Option<AttributeName> {
        let _ = given;
        None
    }

    /// Those asked for that it has, with their values.
    pub fn shown(&self, names: &[AttributeName], figures: &Figures) -> Vec<(AttributeName, String)> {
        let _ = (names, figures);
        Vec::new()
    }
}

impl Default for QueueAttributes {
    /// Of a standard queue.
    fn default() -> Self {
        Self {
            visibility_timeout_s: 30,
            delay_s: 0,
            message_bytes_max: 1_048_576,
            retention_s: 345_600,
            wait_s: 0,
            policy: None,
            redrive: None,
            redrive_allow: None,
            kms_key_id: None,
            kms_reuse_s: None,
            managed_sse: true,
            fifo: None,
        }
    }
}
