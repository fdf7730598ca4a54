//! From bytes to a [`Request`].

use crate::call::{Call, Protocol};
use crate::error::{Code, SqsError};
use crate::request::Request;

/// What a call asks.
///
/// # Errors
/// Whatever the service says without looking at the queue.
pub fn decode(call: &Call<'_>, protocol: Protocol) -> Result<Request, SqsError> {
    let _ = (call, protocol);
    Err(SqsError::new(Code::InvalidAction, ""))
}
