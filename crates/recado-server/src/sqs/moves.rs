//! Tasks that move messages out of a dead-letter queue.

use std::sync::Arc;

use recado_core::{Action, Actor, Answer as Told, Command, NewTask, Query, Rate, Reply, TaskState, TaskView};
use recado_shard::Error;
use recado_sqs::answer::{MoveStatus, MoveTask};
use recado_sqs::arn::Arn;
use recado_sqs::request::{CancelMessageMoveTask, ListMessageMoveTasks, StartMessageMoveTask};
use recado_sqs::task_handle::TaskHandle;
use recado_sqs::{Answer, Code, SqsError};

use super::caller::Caller;
use super::queue::Queue;
use super::{queue, refusal, uuid};
use crate::http::App;

/// The upper half of a task's UUID; the lower one is its number.
const TASK_UUID: u128 = 0x7265_6361_646f_7000 << 64;

pub(super) async fn start(app: &App, caller: &Caller, asked: &StartMessageMoveTask) -> Result<Answer, SqsError> {
    let source = queue_of(app, caller, &asked.source, "SourceArn").await?;
    let destination = match &asked.destination {
        Some(arn) => Some(destination(app, caller, arn, &source).await?),
        None => None,
    };
    let source = source.native.clone();
    let rate = asked.messages_per_second.map(|jobs| Rate { jobs, per_ms: 1_000 });
    let (action, actor) = (Action::Move { destination, rate }, Actor(Some("sqs".into())));
    let task = NewTask { queue: source, action, reason: None, actor };
    match app.shard.call(Command::StartTask(task)).await.map_err(refusal::of)? {
        Reply::Task(view) => Ok(Answer::StartMessageMoveTask { task_handle: handle(&view, &asked.source) }),
        other => Err(refusal::unexpected(&other)),
    }
}

/// Where a move may go: to another queue of the same kind.
async fn destination(app: &App, caller: &Caller, arn: &Arn, source: &Queue) -> Result<Box<str>, SqsError> {
    let queue = queue_of(app, caller, arn, "DestinationArn").await?;
    let refused = |reason: &str| Err(SqsError::invalid_value(arn, "DestinationArn", reason));
    if queue.native == source.native {
        return refused("Destination queue must be another queue than the source.");
    }
    if queue.is_fifo() != source.is_fifo() {
        return refused("Destination queue must be same type of queue as the source.");
    }
    Ok(queue.native.clone())
}

pub(super) async fn cancel(app: &App, caller: &Caller, asked: &CancelMessageMoveTask) -> Result<Answer, SqsError> {
    let source = queue_of(app, caller, &asked.task.source, "SourceArn").await?;
    let wanted = |view: &TaskView| asked.task.task_id == task_uuid(view) && view.state == TaskState::Running;
    let views = views(app, source.native.clone()).await?;
    let id = views.iter().find(|view| wanted(view)).ok_or_else(SqsError::task_not_found)?.id;
    let command = Command::CancelTask { task: id, actor: Actor(Some("sqs".into())) };
    match app.shard.call(command).await.map_err(refusal::of)? {
        Reply::Task(view) => Ok(Answer::CancelMessageMoveTask { moved: view.acted }),
        other => Err(refusal::unexpected(&other)),
    }
}

pub(super) async fn list(app: &App, caller: &Caller, asked: &ListMessageMoveTasks) -> Result<Answer, SqsError> {
    let source = queue_of(app, caller, &asked.source, "SourceArn").await?;
    let views = views(app, source.native.clone()).await?;
    let shown = views.iter().take(asked.max as usize).map(|view| show(caller, view, &asked.source));
    Ok(Answer::ListMessageMoveTasks(shown.collect()))
}

/// The queue of an ARN, which must be there.
async fn queue_of(app: &App, caller: &Caller, arn: &Arn, parameter: &str) -> Result<Arc<Queue>, SqsError> {
    match queue::find_native(app, &caller.native_of_arn(arn)).await {
        Ok(queue) => Ok(queue),
        Err(error) if error.code() == Code::QueueDoesNotExist => Err(SqsError::arn_not_found(parameter)),
        Err(error) => Err(error),
    }
}

async fn views(app: &App, queue: Box<str>) -> Result<Vec<TaskView>, SqsError> {
    match app.shard.query(Query::Moves { queue }).await {
        Ok(Told::Moves(views)) => Ok(views),
        Ok(other) => Err(refusal::unexpected(&other)),
        Err(Error::Rejected(_)) => Err(SqsError::arn_not_found("SourceArn")),
        Err(error) => Err(refusal::of(error)),
    }
}

fn task_uuid(view: &TaskView) -> String {
    uuid(TASK_UUID | u128::from(view.id))
}

fn handle(view: &TaskView, source: &Arn) -> String {
    TaskHandle { task_id: task_uuid(view), source: source.clone() }.text()
}

fn show(caller: &Caller, view: &TaskView, source: &Arn) -> MoveTask {
    let status = match view.state {
        TaskState::Running => MoveStatus::Running,
        TaskState::Completed => MoveStatus::Completed,
        TaskState::Halted => MoveStatus::Failed,
        TaskState::Cancelled => MoveStatus::Cancelled,
    };
    let failure = match &view.destination {
        Some(_) => "AWS.SimpleQueueService.NonExistentQueue",
        None => "CouldNotDetermineMessageSource",
    };
    MoveTask {
        task_handle: (status == MoveStatus::Running).then(|| handle(view, source)),
        status,
        source: source.to_string(),
        destination: view.destination.as_deref().map(|native| caller.arn(native).to_string()),
        messages_per_second: view.rate.map(|rate| rate.jobs),
        moved: view.acted,
        to_move: Some(view.matched),
        failure_reason: (status == MoveStatus::Failed).then(|| failure.to_owned()),
        started_at_ms: view.started_at,
    }
}
