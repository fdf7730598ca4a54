//! Which queue takes what is received too often, and whose it may take.

use std::fmt;

use serde_json::{Value, json};

use crate::arn::Arn;
use crate::error::SqsError;

/// Largest `maxReceiveCount`.
const RECEIVES_MAX: u64 = 1_000;

/// Most queues that an allow policy names.
const SOURCES_MAX: usize = 10;

/// Where a message goes that was received too often. Its text is JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedrivePolicy {
    /// The dead-letter queue.
    pub target: Arn,
    /// 1 to 1000.
    pub max_receives: u32,
}

/// Whose dead-letter queue this one may be. Its text is JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedriveAllowPolicy {
    /// Everybody's.
    All,
    /// Nobody's.
    None,
    /// Of these, at most 10.
    Queues(Vec<Arn>),
}

impl RedrivePolicy {
    /// An empty text is none.
    pub(super) fn parse(text: &str) -> Result<Option<Self>, SqsError> {
        if text.is_empty() {
            return Ok(None);
        }
        let refused = |reason: &str| Err(SqsError::invalid_value(text, "RedrivePolicy", reason));
        let Ok(Value::Object(policy)) = serde_json::from_str(text) else {
            return refused("Redrive policy is not a valid JSON map.");
        };
        let Some(target) = policy.get("deadLetterTargetArn") else {
            return refused("Redrive policy does not contain mandatory attribute: deadLetterTargetArn.");
        };
        let Some(receives) = policy.get("maxReceiveCount") else {
            return refused("Redrive policy does not contain mandatory attribute: maxReceiveCount.");
        };
        let Some(target) = target.as_str().and_then(Arn::parse) else {
            return refused("Invalid value for deadLetterTargetArn.");
        };
        let number = receives.as_u64().or_else(|| receives.as_str()?.parse().ok());
        let number = number.filter(|number| (1..=RECEIVES_MAX).contains(number));
        match number.and_then(|number| u32::try_from(number).ok()) {
            Some(max_receives) => Ok(Some(Self { target, max_receives })),
            None => refused(&format!(
                "Invalid value for maxReceiveCount: {}, valid values are from 1 to {RECEIVES_MAX} both inclusive.",
                receives.as_str().map_or_else(|| receives.to_string(), str::to_owned)
            )),
        }
    }
}

impl fmt::Display for RedrivePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let policy = json!({ "deadLetterTargetArn": self.target.to_string(), "maxReceiveCount": self.max_receives });
        policy.fmt(f)
    }
}

impl RedriveAllowPolicy {
    /// An empty text is none.
    pub(super) fn parse(text: &str) -> Result<Option<Self>, SqsError> {
        if text.is_empty() {
            return Ok(None);
        }
        let refused = |reason: &str| Err(SqsError::invalid_value(text, "RedriveAllowPolicy", reason));
        let Ok(Value::Object(policy)) = serde_json::from_str(text) else {
            return refused("Redrive allow policy is not a valid JSON map.");
        };
        let permission = policy.get("redrivePermission").map_or(Some("allowAll"), Value::as_str);
        match (permission, policy.get("sourceQueueArns")) {
            (Some("allowAll"), None) => Ok(Some(Self::All)),
            (Some("denyAll"), None) => Ok(Some(Self::None)),
            (Some("allowAll" | "denyAll"), Some(_)) => {
                refused("sourceQueueArns can be given only when redrivePermission is byQueue.")
            }
            (Some("byQueue"), sources) => match sources.and_then(arns) {
                Some(arns) => Ok(Some(Self::Queues(arns))),
                None => refused("byQueue needs sourceQueueArns: the ARNs of 1 to 10 queues."),
            },
            _ => refused("redrivePermission must be one of allowAll, denyAll, byQueue."),
        }
    }

    /// Whether it may be the dead-letter queue of the one whose ARN is told by `is_source`.
    pub fn allows(&self, is_source: impl Fn(&Arn) -> bool) -> bool {
        match self {
            Self::All => true,
            Self::None => false,
            Self::Queues(arns) => arns.iter().any(is_source),
        }
    }
}

impl fmt::Display for RedriveAllowPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let policy = match self {
            Self::All => json!({ "redrivePermission": "allowAll" }),
            Self::None => json!({ "redrivePermission": "denyAll" }),
            Self::Queues(arns) => {
                let arns: Vec<String> = arns.iter().map(Arn::to_string).collect();
                json!({ "redrivePermission": "byQueue", "sourceQueueArns": arns })
            }
        };
        policy.fmt(f)
    }
}

fn arns(list: &Value) -> Option<Vec<Arn>> {
    let list = list.as_array().filter(|list| (1..=SOURCES_MAX).contains(&list.len()))?;
    list.iter().map(|arn| Arn::parse(arn.as_str()?)).collect()
}
