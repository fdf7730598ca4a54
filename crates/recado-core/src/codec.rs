//! How facts stand in the log.
//!
//! The head of a batch is: format level (2 bytes, little endian), wall clock (8 bytes), then the events,
//! CBOR each (RFC 8949). To change an event: never its meaning; add optional fields with new numbers, or a
//! new kind with a new number, and raise [`LEVEL`]. A reader that meets a higher level stops.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::convert::Infallible;

use minicbor::encode::Write;
use minicbor::{Decode, Decoder, Encode};
use thiserror::Error;

use crate::event::Event;

/// The highest level this version reads; it writes the lowest that its events need.
pub const LEVEL: u16 = 1;

/// Stands in the place of bytes that could no longer be read when their item was written again. Neither JSON
/// nor CBOR starts with it, and it is no longer than what it stands for.
pub const LOST: &[u8] = &[0xff];

const HEAD_BYTES: usize = 10;

/// What stands before the events of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHead {
    /// Level a reader needs.
    pub level: u16,
    /// The wall clock when the batch was decided.
    pub at: u64,
}

/// A batch that this version cannot read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// Written by a newer version.
    #[error("the data needs format level {found}, this version reads up to {LEVEL}: start a newer version of recado")]
    NewerLevel {
        /// The level found.
        found: u16,
    },
    /// Not what any version writes.
    #[error("the data is not readable: {0}")]
    Malformed(String),
}

impl From<minicbor::decode::Error> for DecodeError {
    fn from(error: minicbor::decode::Error) -> Self {
        Self::Malformed(error.to_string())
    }
}

/// Puts the head of a batch before its events.
#[must_use]
pub fn encode_batch(at: u64, events: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD_BYTES + events.len());
    bytes.extend_from_slice(&LEVEL.to_le_bytes());
    bytes.extend_from_slice(&at.to_le_bytes());
    bytes.extend_from_slice(events);
    bytes
}

/// Reads a batch, giving each event to `visit`.
///
/// # Errors
/// [`DecodeError`]; events before the unreadable one have been visited.
pub fn decode_batch(bytes: &[u8], mut visit: impl FnMut(Event)) -> Result<BatchHead, DecodeError> {
    let (head, events) = bytes
        .split_first_chunk::<HEAD_BYTES>()
        .ok_or_else(|| DecodeError::Malformed("the batch is too short".into()))?;
    let [l0, l1, time @ ..] = *head;
    let head = BatchHead { level: u16::from_le_bytes([l0, l1]), at: u64::from_le_bytes(time) };
    if head.level > LEVEL {
        return Err(DecodeError::NewerLevel { found: head.level });
    }
    let mut decoder = Decoder::new(events);
    while decoder.position() < events.len() {
        visit(Event::decode(&mut decoder, &mut ())?);
    }
    Ok(head)
}

pub(crate) fn encode(value: &impl Encode<()>, into: &mut Vec<u8>) {
    if let Err(error) = minicbor::encode(value, Sink(into)) {
        panic!("writing to a vector cannot fail: {error}");
    }
}

/// A vector that is written to in place: a record is many numbers of a few bytes, and a call for each took most of
/// the time of encoding.
struct Sink<'a>(&'a mut Vec<u8>);

impl Write for Sink<'_> {
    type Error = Infallible;

    #[inline(always)]
    fn write_all(&mut self, bytes: &[u8]) -> Result<(), Infallible> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}
/// Text that many items share.
pub(crate) mod shared_text {
    use alloc::sync::Arc;

    use minicbor::encode::Write;
    use minicbor::{Decoder, Encoder};

    type Encoded<W> = Result<(), minicbor::encode::Error<<W as Write>::Error>>;

    pub(crate) fn encode<C, W: Write>(text: &Arc<str>, encoder: &mut Encoder<W>, _: &mut C) -> Encoded<W> {
        encoder.str(text).map(drop)
    }

    pub(crate) fn decode<C>(decoder: &mut Decoder<'_>, _: &mut C) -> Result<Arc<str>, minicbor::decode::Error> {
        decoder.str().map(Into::into)
    }
}
