//! Messages: what one may hold, and how much of it is shown.

mod attribute;
mod digest;
mod filter;
mod read;

pub use attribute::{AttributeValue, MessageAttribute, MessageAttributes};
pub(crate) use digest::{hex, sha256_hex};
pub use digest::{md5_of_attributes, md5_of_body};
pub use filter::{AttributeFilter, SystemFilter};
pub(crate) use read::fifo_id;

use crate::answer;
use crate::attributes::QueueAttributes;
use crate::error::{Code, SqsError};

/// Messages of a batch together, in bytes, whatever their queue takes of one.
pub(crate) const BATCH_BYTES_MAX: usize = 1_048_576;

/// The one system attribute that can be sent.
const TRACE_HEADER: &str = "AWSTraceHeader";

/// What is sent. Checked as far as it can be without the queue; [`Message::check`] does the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// At least one character, none that XML cannot hold.
    pub body: String,
    /// 0 to 900; the queue's own when absent.
    pub delay_s: Option<u32>,
    /// The message's own.
    pub attributes: MessageAttributes,
    /// The one system attribute that can be sent: `AWSTraceHeader`.
    pub trace_header: Option<String>,
    /// Explicit.
    pub deduplication_id: Option<String>,
    /// Its group.
    pub group_id: Option<String>,
}

impl Message {
    /// Whether this queue takes it.
    ///
    /// # Errors
    /// In the words for a single send; in a batch [`SqsError::in_batch`] changes them.
    pub fn check(&self, queue: &QueueAttributes) -> Result<(), SqsError> {
        if self.bytes() > queue.message_bytes_max as usize {
            return Err(SqsError::message_too_long(queue.message_bytes_max));
        }
        const WRONG_TYPE: &str = "The request include parameter that is not valid for this queue type.";
        if queue.fifo.is_none() {
            return match &self.deduplication_id {
                Some(id) => Err(SqsError::invalid_value(id, "MessageDeduplicationId", WRONG_TYPE)),
                None => Ok(()),
            };
        }
        if self.group_id.is_none() {
            return Err(SqsError::missing("MessageGroupId"));
        }
        if self.deduplication_id_in(queue).is_none() {
            return Err(SqsError::new(
                Code::InvalidParameterValue,
                "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided \
                 explicitly",
            ));
        }
        match self.delay_s {
            Some(delay) if delay > 0 => Err(SqsError::invalid_value(delay, "DelaySeconds", WRONG_TYPE)),
            _ => Ok(()),
        }
    }

    /// How long this queue holds it back: a FIFO queue takes no message's own word for it.
    pub fn delay_s_in(&self, queue: &QueueAttributes) -> u32 {
        self.delay_s.filter(|_| queue.fifo.is_none()).unwrap_or(queue.delay_s)
    }

    /// What counts against the size limits: body, and names, types and values of its own attributes.
    pub fn bytes(&self) -> usize {
        self.body.len() + attribute::bytes(&self.attributes)
    }

    /// What deduplicates it in this queue: the explicit id, or else the digest of its body where the queue says so.
    pub fn deduplication_id_in(&self, queue: &QueueAttributes) -> Option<String> {
        let content_based = queue.fifo.is_some_and(|fifo| fifo.content_based);
        self.deduplication_id.clone().or_else(|| content_based.then(|| digest::sha256_hex(self.body.as_bytes())))
    }

    /// What its sender is told.
    pub fn sent(&self, message_id: String, sequence_number: Option<String>) -> answer::Sent {
        answer::Sent {
            message_id,
            md5_of_body: md5_of_body(&self.body),
            md5_of_attributes: md5_of_attributes(&self.attributes),
            md5_of_system_attributes: self.md5_of_system_attributes(),
            sequence_number,
        }
    }

    fn md5_of_system_attributes(&self) -> Option<String> {
        let value = AttributeValue::Text(self.trace_header.clone()?);
        let attribute = MessageAttribute { data_type: "String".to_owned(), value };
        md5_of_attributes(&MessageAttributes::from([(TRACE_HEADER.to_owned(), attribute)]))
    }
}

/// A message as the queue gives it, all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// A UUID.
    pub message_id: String,
    /// Settles this delivery.
    pub receipt_handle: String,
    /// Text.
    pub body: String,
    /// What the service knows, at least as far as it is asked for.
    pub system: Vec<(SystemAttribute, String)>,
    /// The message's own, at least those that are asked for.
    pub attributes: MessageAttributes,
}

macro_rules! system_attributes {
    ($($name:ident,)*) => {
        /// What the service says about a message it hands out. All values are text, times whole milliseconds since
        /// 1970.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum SystemAttribute {
            $(#[doc = concat!("`", stringify!($name), "`.")] $name,)*
        }

        impl SystemAttribute {
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

system_attributes! {
    SenderId,
    SentTimestamp,
    ApproximateReceiveCount,
    ApproximateFirstReceiveTimestamp,
    SequenceNumber,
    MessageDeduplicationId,
    MessageGroupId,
    AWSTraceHeader,
    DeadLetterQueueSourceArn,
}

impl SystemAttribute {
    fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|attribute| attribute.name() == name)
    }
}
