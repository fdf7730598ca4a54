//! Names of queues among all resources: `arn:aws:sqs:<region>:<account>:<name>`.

use std::fmt;

/// The ARN of a queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Arn {
    /// Such as `us-east-1`.
    pub region: String,
    /// 12 digits.
    pub account: String,
    /// Of the queue.
    pub name: String,
}

impl Arn {
    /// Reads one; of any partition.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(6, ':');
        let mut next = || parts.next();
        let (arn, partition, service) = (next()?, next()?, next()?);
        let (region, account, name) = (next()?, next()?, next()?);
        let word = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        if arn != "arn" || !partition.starts_with("aws") || service != "sqs" || !word(partition) || !word(region) {
            return None;
        }
        if !crate::url::is_account(account) || !crate::url::can_be_name(name) {
            return None;
        }
        Some(Self { region: region.to_owned(), account: account.to_owned(), name: name.to_owned() })
    }
}

impl fmt::Display for Arn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "arn:aws:sqs:{}:{}:{}", self.region, self.account, self.name)
    }
}
