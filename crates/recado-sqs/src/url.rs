//! Where a queue is: `<scheme>://<host>/<account>/<name>`.

/// Digits of an account.
const ACCOUNT_DIGITS: usize = 12;

/// Longest name of a queue made through SQS.
pub const QUEUE_NAME_LENGTH_MAX: usize = 80;

/// End of a FIFO queue's name.
pub const FIFO_SUFFIX: &str = ".fifo";

/// A queue as a request names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// 12 digits; absent where only a name was given.
    pub account: Option<String>,
    /// Any name that a queue may have, also one that was not made through SQS.
    pub name: String,
}

impl Address {
    /// Out of a `QueueUrl`: a URL, a path, or only a name.
    pub fn parse(queue_url: &str) -> Option<Self> {
        let path = match queue_url.split_once("://") {
            Some((_, rest)) => rest.split_once('/')?.1,
            None => queue_url.strip_prefix('/').unwrap_or(queue_url),
        };
        let path = path.split(['?', '#']).next()?;
        let path = path.strip_suffix('/').unwrap_or(path);
        let decoded = percent_encoding::percent_decode_str(path).decode_utf8().ok()?;
        let (account, name) = match decoded.rsplit_once('/') {
            Some((before, name)) => (before.rsplit('/').next().filter(|account| is_account(account)), name),
            None => (None, &*decoded),
        };
        can_be_name(name).then(|| Self { account: account.map(str::to_owned), name: name.to_owned() })
    }

    /// Out of a request's path, when it is a queue's own.
    pub fn of_path(path: &str) -> Option<Self> {
        let (account, name) = path.strip_prefix('/')?.split_once('/')?;
        let name = name.strip_suffix('/').unwrap_or(name);
        if !is_account(account) {
            return None;
        }
        let name = percent_encoding::percent_decode_str(name).decode_utf8().ok()?;
        can_be_name(&name).then(|| Self { account: Some(account.to_owned()), name: name.into_owned() })
    }
}

/// The URL of a queue under a base such as `http://127.0.0.1:7070`.
pub fn queue_url(base: &str, account: &str, name: &str) -> String {
    format!("{}/{account}/{name}", base.trim_end_matches('/'))
}

/// Whether this can be an account.
pub fn is_account(text: &str) -> bool {
    text.len() == ACCOUNT_DIGITS && text.bytes().all(|b| b.is_ascii_digit())
}

/// Whether a queue of any edge can have this name.
pub(crate) fn can_be_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b':' | b'-'))
}

/// Whether this is the name of a FIFO queue.
pub fn is_fifo_name(name: &str) -> bool {
    name.ends_with(FIFO_SUFFIX)
}
