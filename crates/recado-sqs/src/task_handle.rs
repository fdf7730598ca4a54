//! The handle of a move: base64 of `{"taskId":"<uuid>","sourceArn":"<arn>"}`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::arn::Arn;
use crate::error::{Code, SqsError};

/// Names one move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskHandle {
    /// A UUID.
    pub task_id: String,
    /// The dead-letter queue.
    pub source: Arn,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Content {
    task_id: String,
    source_arn: String,
}

impl TaskHandle {
    /// Reads one.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(text: &str) -> Result<Self, SqsError> {
        let read = || {
            let bytes = STANDARD.decode(text).ok()?;
            let content: Content = serde_json::from_slice(&bytes).ok()?;
            Some(Self { task_id: content.task_id, source: Arn::parse(&content.source_arn)? })
        };
        read().ok_or_else(|| SqsError::new(Code::InvalidParameterValue, "Value for parameter TaskHandle is invalid."))
    }

    /// As it is given to clients.
    pub fn text(&self) -> String {
        let content = serde_json::json!({ "taskId": self.task_id, "sourceArn": self.source.to_string() }).to_string();
        STANDARD.encode(content)
    }
}
