//! Rules for names and keys.

use crate::limits::{KEY_BYTES_MAX, NAME_BYTES_MAX};

/// Names that begin so belong to the server.
const OWN_PREFIX: &str = "recado.";

/// Checks the name of a queue, type or worker.
///
/// # Errors
/// What a name is.
pub fn check_name(name: &str) -> Result<(), String> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b':' | b'-');
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(allowed) {
        return Err(format!("a name has 1 to {NAME_BYTES_MAX} characters out of letters, digits and _ . : -"));
    }
    if matches!(name, "." | "..") {
        return Err(format!("`{name}` is no name: it would be a step in the path of a URL"));
    }
    if name.starts_with(OWN_PREFIX) {
        return Err(format!("names that begin with `{OWN_PREFIX}` are the server's own; choose another"));
    }
    Ok(())
}

/// Checks a key, group or business id.
pub fn check_key(key: &str) -> Result<(), String> {
    if key.is_empty() || key.len() > KEY_BYTES_MAX || key.chars().any(char::is_control) {
        return Err(format!("a key has 1 to {KEY_BYTES_MAX} bytes of UTF-8 without control characters"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let longest = "a".repeat(120);
        for good in ["a", "email.send", "A:b-c_9", longest.as_str()] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        let longer = "a".repeat(121);
        for bad in ["", "a b", "ä", "a/b", ".", "..", "recado.alerts", longer.as_str()] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn keys() {
        let longest = "é".repeat(128);
        for good in ["x", "order 42/ü", longest.as_str()] {
            assert!(check_key(good).is_ok(), "{good}");
        }
        let longer = "a".repeat(257);
        for bad in ["", "a\nb", "\u{7f}", "\u{85}", longer.as_str()] {
            assert!(check_key(bad).is_err(), "{bad}");
        }
    }
}
