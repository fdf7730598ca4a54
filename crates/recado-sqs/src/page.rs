//! Pages of lists, and the tokens that name the next.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::decode::Members;
use crate::error::{Code, SqsError};

/// Most a page may hold.
pub const RESULTS_MAX: u32 = 1_000;

/// What part of a list is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// 1 to [`RESULTS_MAX`]; without one there is one page, and no token.
    pub max: Option<u32>,
    /// Goes on after this name.
    pub after: Option<String>,
}

impl Page {
    pub(crate) fn read(members: &mut Members<'_>) -> Result<Self, SqsError> {
        let reason = "MaxResults must be an integer between 1 and 1000.";
        let max = members.integer_in("MaxResults", 1, RESULTS_MAX, reason)?;
        let after = members.text("NextToken")?.filter(|token| !token.is_empty());
        Ok(Self { max, after: after.map(|token| name(&token)).transpose()? })
    }
}

/// The token that goes on after this name.
pub(crate) fn token(name: &str) -> String {
    URL_SAFE_NO_PAD.encode(name)
}

fn name(token: &str) -> Result<String, SqsError> {
    let bytes = URL_SAFE_NO_PAD.decode(token).ok();
    bytes
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .ok_or_else(|| SqsError::new(Code::InvalidParameterValue, "Invalid or expired next token."))
}
