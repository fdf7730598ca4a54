//! Names of queues among all resources: `arn:<partition>:sqs:<region>:<account>:<name>`.

use std::fmt;

/// The ARN of a queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Arn {
    /// `aws`, or another that begins so.
    pub partition: String,
    /// Such as `us-east-1`.
    pub region: String,
    /// 12 digits.
    pub account: String,
    /// Of the queue.
    pub name: String,
}

impl Arn {
    /// Of a queue in the partition that the region is in.
    pub fn new(region: &str, account: &str, name: &str) -> Self {
        let partition = match region {
            _ if region.starts_with("cn-") => "aws-cn",
            _ if region.starts_with("us-gov-") => "aws-us-gov",
            _ => "aws",
        };
        let [partition, region, account, name] = [partition, region, account, name].map(str::to_owned);
        Self { partition, region, account, name }
    }

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
        Some(Self { partition: partition.to_owned(), ..Self::new(region, account, name) })
    }
}

impl fmt::Display for Arn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "arn:{}:sqs:{}:{}:{}", self.partition, self.region, self.account, self.name)
    }
}
