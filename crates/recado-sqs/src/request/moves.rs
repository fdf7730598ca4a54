//! Requests about tasks that move messages out of a dead-letter queue.

use crate::arn::Arn;
use crate::task_handle::TaskHandle;

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

/// Ends one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CancelMessageMoveTask {
    /// Which.
    pub task: TaskHandle,
}

/// Which were there?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListMessageMoveTasks {
    /// The dead-letter queue.
    pub source: Arn,
    /// 1 to 10.
    pub max: u32,
}
