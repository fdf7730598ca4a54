//! Messages: what one may hold, and how much of it is shown.

mod attribute;
mod digest;
mod filter;

pub use attribute::{AttributeValue, MessageAttribute, MessageAttributes};
pub use digest::{md5_of_attributes, md5_of_body};
pub use filter::{AttributeFilter, SystemFilter};

use crate::attributes::QueueAttributes;
use crate::error::SqsError;

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
        let _ = queue;
        Ok(())
    }

    /// What counts against the size limits: body, and names, types and values of its own attributes.
    pub fn bytes(&self) -> usize {
        self.body.len() + attribute::bytes(&self.attributes)
    }

    /// What deduplicates it in this queue: the explicit id, or else the digest of its body where the queue says so.
    pub fn deduplication_id_in(&self, queue: &QueueAttributes) -> Option<String> {
        let _ = queue;
        self.deduplication_id.clone()
    }

    /// Of its system attributes.
    pub fn md5_of_system_attributes(&self) -> Option<String> {
        None
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
    /// All that the service knows.
    pub system: Vec<(SystemAttribute, String)>,
    /// All of the message's own.
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
            const ALL: &[Self] = &[$(Self::$name,)*];

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
