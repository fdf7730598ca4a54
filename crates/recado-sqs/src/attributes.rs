//! Attributes of queues: what a queue has, what a request may set, and what is shown.

mod given;
mod name;
mod redrive;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use self::given::{Attribute, invalid};
use self::name::unknown;
use crate::arn::Arn;
use crate::error::{Code, SqsError};
use crate::policy;

pub use given::GivenAttributes;
pub(crate) use given::IN_QUERY;
pub use name::AttributeName;
pub use redrive::{RedriveAllowPolicy, RedrivePolicy};

/// `KmsDataKeyReusePeriodSeconds` of a queue that does not say.
const KMS_REUSE_S: u32 = 300;

/// What a queue's attributes are, but for those that only its state knows. It is stored as the map of their texts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "BTreeMap<String, String>", try_from = "BTreeMap<String, String>")]
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
    /// `KmsDataKeyReusePeriodSeconds`.
    pub kms_reuse_s: u32,
    /// `SqsManagedSseEnabled`.
    pub managed_sse: bool,
    /// Of a FIFO queue.
    pub fifo: Option<FifoAttributes>,
}

/// What only FIFO queues have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FifoAttributes {
    /// `ContentBasedDeduplication`.
    pub content_based: bool,
    /// `DeduplicationScope` is `messageGroup`.
    pub dedup_in_group: bool,
    /// `FifoThroughputLimit` is `perMessageGroupId`.
    pub limit_per_group: bool,
}

/// What only the queue's state knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figures {
    /// Its ARN.
    pub arn: Arn,
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
            kms_reuse_s: KMS_REUSE_S,
            managed_sse: true,
            fifo: None,
        }
    }
}

impl QueueAttributes {
    /// Of a new queue.
    ///
    /// # Errors
    /// When the attributes do not go together.
    pub fn created(given: &GivenAttributes) -> Result<Self, SqsError> {
        let mut attributes = Self { fifo: given.is_fifo().then(FifoAttributes::default), ..Self::default() };
        attributes.set(given)?;
        Ok(attributes)
    }

    /// Changes those that are given.
    ///
    /// # Errors
    /// When they do not go together; nothing has changed then.
    pub fn set(&mut self, given: &GivenAttributes) -> Result<(), SqsError> {
        let mut changed = self.clone();
        for (name, attribute) in given.iter() {
            changed.apply(name, attribute)?;
        }
        if changed.kms_key_id.is_some() && changed.managed_sse {
            return Err(SqsError::new(
                Code::InvalidAttributeName,
                "You can use one type of server-side encryption (SSE) at one time. \
                 You can either enable KMS SSE or SQS SSE.",
            ));
        }
        if changed.fifo.is_some_and(|fifo| fifo.limit_per_group && !fifo.dedup_in_group) {
            return Err(invalid(
                AttributeName::FifoThroughputLimit,
                "The perMessageGroupId value is allowed only when the value for DeduplicationScope is messageGroup.",
            ));
        }
        *self = changed;
        Ok(())
    }

    /// The first of those given whose value is another here: a second CreateQueue must not have one. Two ARNs may name
    /// one queue.
    pub fn first_difference(
        &self,
        given: &GivenAttributes,
        is_one_queue: impl Fn(&Arn, &Arn) -> bool,
    ) -> Option<AttributeName> {
        let differs = |(name, attribute): &(AttributeName, &Attribute)| {
            let mut changed = self.clone();
            let applied = changed.apply(*name, attribute);
            if let (Some(changed), Some(own)) = (&mut changed.redrive, &self.redrive) {
                adopt(&mut changed.target, &own.target, &is_one_queue);
            }
            if let (Some(RedriveAllowPolicy::Queues(changed)), Some(RedriveAllowPolicy::Queues(own))) =
                (&mut changed.redrive_allow, &self.redrive_allow)
            {
                changed.iter_mut().zip(own).for_each(|(changed, own)| adopt(changed, own, &is_one_queue));
            }
            applied.is_err() || changed != *self
        };
        given.iter().find(differs).map(|(name, _)| name)
    }

    fn apply(&mut self, name: AttributeName, attribute: &Attribute) -> Result<(), SqsError> {
        match attribute {
            Attribute::VisibilityTimeout(seconds) => self.visibility_timeout_s = *seconds,
            Attribute::DelaySeconds(seconds) => self.delay_s = *seconds,
            Attribute::MaximumMessageSize(bytes) => self.message_bytes_max = *bytes,
            Attribute::MessageRetentionPeriod(seconds) => self.retention_s = *seconds,
            Attribute::ReceiveMessageWaitTimeSeconds(seconds) => self.wait_s = *seconds,
            Attribute::Policy(given) => {
                if !policy::same(self.policy.as_deref(), given.as_deref()) {
                    self.policy.clone_from(given);
                }
            }
            Attribute::RedrivePolicy(policy) => self.redrive.clone_from(policy),
            Attribute::RedriveAllowPolicy(policy) => self.redrive_allow.clone_from(policy),
            Attribute::KmsMasterKeyId(key) => {
                self.kms_key_id.clone_from(key);
                self.managed_sse &= key.is_none();
            }
            Attribute::KmsDataKeyReusePeriodSeconds(seconds) => self.kms_reuse_s = *seconds,
            Attribute::SqsManagedSseEnabled(enabled) => self.managed_sse = *enabled,
            Attribute::FifoQueue(fifo) => match (self.fifo, fifo) {
                (Some(_), true) => {}
                (Some(_), false) => return Err(invalid(name, "Modifying queue type is not supported.")),
                (None, _) => return Err(unknown(name.name())),
            },
            Attribute::ContentBasedDeduplication(enabled) => self.fifo_only(name)?.content_based = *enabled,
            Attribute::DeduplicationScope(in_group) => self.fifo_only(name)?.dedup_in_group = *in_group,
            Attribute::FifoThroughputLimit(per_group) => self.fifo_only(name)?.limit_per_group = *per_group,
        }
        Ok(())
    }

    fn fifo_only(&mut self, name: AttributeName) -> Result<&mut FifoAttributes, SqsError> {
        self.fifo.as_mut().ok_or_else(|| match name {
            AttributeName::ContentBasedDeduplication => unknown(name.name()),
            _ => {
                let message = format!("You can specify the {} only when FifoQueue is set to true.", name.name());
                SqsError::new(Code::InvalidAttributeName, message)
            }
        })
    }

    /// Those asked for that it has, with their values.
    pub fn shown(&self, names: &[AttributeName], figures: &Figures) -> Vec<(AttributeName, String)> {
        let value = |name: &AttributeName| figures.value(*name).or_else(|| self.value(*name));
        names.iter().filter_map(|name| Some((*name, value(name)?))).collect()
    }

    fn value(&self, name: AttributeName) -> Option<String> {
        let word = |yes: bool, [no_word, yes_word]: [&str; 2]| if yes { yes_word } else { no_word }.to_owned();
        match name {
            AttributeName::VisibilityTimeout => Some(self.visibility_timeout_s.to_string()),
            AttributeName::DelaySeconds => Some(self.delay_s.to_string()),
            AttributeName::MaximumMessageSize => Some(self.message_bytes_max.to_string()),
            AttributeName::MessageRetentionPeriod => Some(self.retention_s.to_string()),
            AttributeName::ReceiveMessageWaitTimeSeconds => Some(self.wait_s.to_string()),
            AttributeName::Policy => self.policy.clone(),
            AttributeName::RedrivePolicy => self.redrive.as_ref().map(RedrivePolicy::to_string),
            AttributeName::RedriveAllowPolicy => self.redrive_allow.as_ref().map(RedriveAllowPolicy::to_string),
            AttributeName::KmsMasterKeyId => self.kms_key_id.clone(),
            AttributeName::KmsDataKeyReusePeriodSeconds => {
                Some(self.kms_reuse_s).filter(|seconds| *seconds != KMS_REUSE_S).map(|seconds| seconds.to_string())
            }
            AttributeName::SqsManagedSseEnabled => Some(self.managed_sse.to_string()),
            AttributeName::FifoQueue => self.fifo.map(|_| true.to_string()),
            AttributeName::ContentBasedDeduplication => self.fifo.map(|fifo| fifo.content_based.to_string()),
            AttributeName::DeduplicationScope => {
                self.fifo.map(|fifo| word(fifo.dedup_in_group, ["queue", "messageGroup"]))
            }
            AttributeName::FifoThroughputLimit => {
                self.fifo.map(|fifo| word(fifo.limit_per_group, ["perQueue", "perMessageGroupId"]))
            }
            _ => None,
        }
    }
}

/// The queue's own ARN instead of another that names it.
fn adopt(arn: &mut Arn, own: &Arn, is_one_queue: impl Fn(&Arn, &Arn) -> bool) {
    if is_one_queue(arn, own) {
        arn.clone_from(own);
    }
}

impl Figures {
    fn value(&self, name: AttributeName) -> Option<String> {
        let number = match name {
            AttributeName::QueueArn => return Some(self.arn.to_string()),
            AttributeName::ApproximateNumberOfMessages => self.visible,
            AttributeName::ApproximateNumberOfMessagesNotVisible => self.not_visible,
            AttributeName::ApproximateNumberOfMessagesDelayed => self.delayed,
            AttributeName::CreatedTimestamp => self.created_at_s,
            AttributeName::LastModifiedTimestamp => self.modified_at_s,
            _ => return None,
        };
        Some(number.to_string())
    }
}

impl From<QueueAttributes> for BTreeMap<String, String> {
    fn from(attributes: QueueAttributes) -> Self {
        let entry = |name: &AttributeName| Some((name.name().to_owned(), attributes.value(*name)?));
        AttributeName::ALL.iter().filter_map(entry).collect()
    }
}

impl TryFrom<BTreeMap<String, String>> for QueueAttributes {
    type Error = SqsError;

    fn try_from(stored: BTreeMap<String, String>) -> Result<Self, SqsError> {
        Self::created(&GivenAttributes::new(stored)?)
    }
}
