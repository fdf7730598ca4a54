//! What a job carries besides its payload, as bytes in the log.

use alloc::boxed::Box;

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use crate::codec::DecodeError;

/// Headers and keys of a job as its producer gave them. The state holds only hashes of the keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Meta {
    /// JSON object, byte for byte.
    #[n(0)]
    pub headers: Option<ByteVec>,
    /// The business object it is about.
    #[n(1)]
    pub business_id: Option<Box<str>>,
    /// Its group.
    #[n(2)]
    pub group: Option<Box<str>>,
    /// Its deduplication key.
    #[n(3)]
    pub dedup_key: Option<Box<str>>,
    /// Its idempotency key.
    #[n(4)]
    pub idempotency_key: Option<Box<str>>,
}

/// One failure of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct ErrorEntry {
    /// Which attempt.
    #[n(0)]
    pub attempt: u32,
    /// When.
    #[n(1)]
    pub at: u64,
    /// The worker's word, or one of Recado's.
    #[n(2)]
    pub kind: Box<str>,
    /// Text for people.
    #[n(3)]
    pub message: Box<str>,
    /// Who worked.
    #[n(4)]
    pub worker: Option<Box<str>>,
    /// It was worth another try.
    #[n(5)]
    pub retryable: bool,
}

impl Meta {
    /// Reads it from the log.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes are of a newer version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        minicbor::decode(bytes).map_err(DecodeError::from)
    }
}

impl ErrorEntry {
    /// Reads it from the log.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes are of a newer version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        minicbor::decode(bytes).map_err(DecodeError::from)
    }
}
