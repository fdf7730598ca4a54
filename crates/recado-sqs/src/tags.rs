//! Tags of a queue.

use std::collections::BTreeMap;

use crate::error::{Code, SqsError};

/// Most tags a queue may have.
pub const TAGS_MAX: usize = 50;
/// Longest key.
pub const KEY_LENGTH_MAX: usize = 128;
/// Longest value.
pub const VALUE_LENGTH_MAX: usize = 256;

/// How the Query protocol writes them.
pub(crate) const IN_QUERY: (&str, &str, &str) = ("Tag", "Key", "Value");

/// By their keys; a value may be empty.
pub type Tags = BTreeMap<String, String>;

/// Whether these may be set.
///
/// # Errors
/// The first that may not.
pub fn check(tags: &Tags) -> Result<(), SqsError> {
    let refused = |message: String| Err(SqsError::new(Code::InvalidParameterValue, message));
    for (key, value) in tags {
        if !(1..=KEY_LENGTH_MAX).contains(&key.chars().count()) {
            return refused(format!("The tag key must be between 1 and {KEY_LENGTH_MAX} characters long."));
        }
        if value.chars().count() > VALUE_LENGTH_MAX {
            return refused(format!("The tag value must be at most {VALUE_LENGTH_MAX} characters long."));
        }
        if key.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("aws:")) {
            return refused(format!("Tag keys that begin with aws: are reserved: {key}"));
        }
    }
    check_count(tags.len())
}

/// Whether a queue may have so many.
pub fn check_count(count: usize) -> Result<(), SqsError> {
    if count > TAGS_MAX {
        return Err(SqsError::new(Code::OverLimit, format!("A queue can have at most {TAGS_MAX} tags.")));
    }
    Ok(())
}
