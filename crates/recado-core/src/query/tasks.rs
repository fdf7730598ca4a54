//! Bulk actions, and cancels that workers have to hear of.

use alloc::boxed::Box;
use core::ops::Bound;

use super::cursor::{Mark, Walk};
use super::{Answer, Answered, Page};
use crate::decide::find_queue;
use crate::event::TaskKind;
use crate::id::JobId;
use crate::rejection::Rejection;
use crate::state::State;

/// Jobs that one answer names to a worker; it hears of the others when it has settled these.
const CANCELS_MAX: usize = 1_000;

/// Moves that one answer names.
const MOVES_MAX: usize = 10;

pub(super) fn task(state: &State, id: u64) -> Answered {
    let task = state.tasks.get(&id).ok_or(Rejection::TaskNotFound)?;
    Ok(Answer::Task(Box::new(state.task_view(task))))
}

/// Newest first.
pub(super) fn replays(state: &State, queue: Option<&str>, page: &Page) -> Answered {
    let number = queue.map(|name| find_queue(state, name)).transpose()?.map(|queue| queue.record.number);
    let before = page.mark()?.map_or(Bound::Unbounded, |mark| Bound::Excluded(mark.spot as u64));
    let mut walk = Walk::new(page);
    let _ = state.tasks.range((Bound::Unbounded, before)).rev().all(|(id, task)| {
        let record = &task.record;
        let is_meant = record.kind == TaskKind::Replay && number.is_none_or(|number| record.queue == number);
        walk.look(Mark::at(u128::from(*id)), || is_meant.then(|| state.task_view(task)))
    });
    let (replays, cursor) = walk.end();
    Ok(Answer::Replays { replays, cursor })
}

/// Newest first.
pub(super) fn moves(state: &State, queue: &str) -> Answered {
    let number = find_queue(state, queue)?.record.number;
    let tasks = state.tasks.values().rev();
    let moves = tasks.filter(|task| task.record.kind == TaskKind::Move && task.record.queue == number);
    Ok(Answer::Moves(moves.take(MOVES_MAX).map(|task| state.task_view(task)).collect()))
}

pub(super) fn cancel_requested(state: &State, worker: &str) -> Answered {
    let hash = state.worker_hash(worker);
    let marks = state.cancel_marks.range((hash, JobId(0))..=(hash, JobId(u128::MAX)));
    Ok(Answer::CancelRequested(marks.take(CANCELS_MAX).map(|(_, id)| *id).collect()))
}
