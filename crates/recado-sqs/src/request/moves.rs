//! Requests about tasks that move messages out of a dead-letter queue.

use crate::arn::Arn;
use crate::decode::Members;
use crate::error::{Code, SqsError};
use crate::task_handle::TaskHandle;

/// Fastest move.
const MESSAGES_PER_SECOND_MAX: u32 = 500;

/// Most tasks that are listed.
const TASKS_MAX: u32 = 10;

/// Begins one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartMessageMoveTask {
    /// The dead-letter queue.
    pub source: Arn,
    /// Without one each message goes where it came from.
    pub destination: Option<Arn>,
    /// 1 to 500.
    pub messages_per_second: Option<u32>,
}

impl StartMessageMoveTask {
    pub(super) fn read(members: &mut Members<'_>) -> Result<Self, SqsError> {
        let source = arn("SourceArn", &members.required_text("SourceArn")?)?;
        let destination = members.text("DestinationArn")?.map(|text| arn("DestinationArn", &text)).transpose()?;
        let reason = "MaxNumberOfMessagesPerSecond must be an integer between 1 and 500.";
        let (name, most) = ("MaxNumberOfMessagesPerSecond", MESSAGES_PER_SECOND_MAX);
        let messages_per_second = members.integer_in(name, 1, most, reason)?;
        Ok(Self { source, destination, messages_per_second })
    }
}

/// Ends one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CancelMessageMoveTask {
    /// Which.
    pub task: TaskHandle,
}

impl CancelMessageMoveTask {
    pub(super) fn read(members: &mut Members<'_>) -> Result<Self, SqsError> {
        Ok(Self { task: TaskHandle::parse(&members.required_text("TaskHandle")?)? })
    }
}

/// Which were there?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListMessageMoveTasks {
    /// The dead-letter queue.
    pub source: Arn,
    /// 1 to 10.
    pub max: u32,
}

impl ListMessageMoveTasks {
    pub(super) fn read(members: &mut Members<'_>) -> Result<Self, SqsError> {
        let source = arn("SourceArn", &members.required_text("SourceArn")?)?;
        let reason = "MaxResults must be an integer between 1 and 10.";
        let max = members.integer_in("MaxResults", 1, TASKS_MAX, reason)?.unwrap_or(1);
        Ok(Self { source, max })
    }
}

fn arn(parameter: &str, text: &str) -> Result<Arn, SqsError> {
    Arn::parse(text).ok_or_else(|| {
        let message = format!("You must use this format to specify the {parameter}: arn:<partition>:sqs:<region>:<account-id>:<queue-name>");
        SqsError::new(Code::InvalidParameterValue, message)
    })
}
