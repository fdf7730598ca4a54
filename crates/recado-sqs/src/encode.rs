//! From an [`Answer`] or an [`SqsError`] to bytes.

use http::Response;

use crate::answer::Answer;
use crate::call::Protocol;
use crate::error::SqsError;

/// The answer to a call.
pub fn encode(protocol: Protocol, result: &Result<Answer, SqsError>, request_id: &str) -> Response<Vec<u8>> {
    let _ = (protocol, result, request_id);
    Response::new(Vec::new())
}
