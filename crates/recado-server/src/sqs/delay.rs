//! A FIFO queue's delay holds for the messages that are in it already; a standard queue's only for those to come.

use recado_core::{Answer, Command, JobState, JobView, JobsQuery, Page, Patch, Query, Rejection, When};
use recado_shard::Error;
use recado_sqs::SqsError;

use super::refusal;
use crate::http::App;
use crate::limits::PAGE_MAX;
use crate::time;

/// Messages that nobody has received yet wait for their queue's new delay, counted from when they were sent.
pub(super) async fn reach_back(app: &App, queue: &str, before_s: u32, after_s: u32) -> Result<(), SqsError> {
    let longest_ms = u64::from(before_s.max(after_s)) * 1_000;
    let mut waiting = waiting(app, queue, time::now().saturating_sub(longest_ms)).await?;
    waiting.sort_by_key(|job| job.id.seq());
    // No message overtakes another of its group meanwhile, nor if this breaks off.
    if after_s > before_s {
        waiting.reverse();
    }
    for job in waiting {
        let due_at = job.id.enqueued_at() + u64::from(after_s) * 1_000;
        let is_due_then = match job.state {
            JobState::Ready => due_at <= time::now(),
            _ => due_at == job.run_at,
        };
        if !is_due_then {
            patch(app, &job, due_at).await?;
        }
    }
    Ok(())
}

/// What was sent since then and waits for its first receive.
async fn waiting(app: &App, queue: &str, since: u64) -> Result<Vec<JobView>, SqsError> {
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let query = JobsQuery {
            queue: queue.into(),
            states: vec![JobState::Delayed, JobState::Ready],
            after: Some(since),
            page: Page { cursor, limit: PAGE_MAX as usize },
            ..JobsQuery::default()
        };
        match app.shard.query(Query::Jobs(query)).await.map_err(refusal::of)? {
            Answer::Jobs { jobs, cursor: next } => {
                found.extend(jobs.into_iter().filter(|job| job.deliveries == 0));
                cursor = next;
            }
            other => return Err(refusal::unexpected(&other)),
        }
        if cursor.is_none() {
            return Ok(found);
        }
    }
}

async fn patch(app: &App, job: &JobView, due_at: u64) -> Result<(), SqsError> {
    let patch = Patch { job: job.id, priority: None, when: Some(When::At(due_at)), payload: None };
    match app.shard.call(Command::Patch(patch)).await {
        // Received, or gone, since it was looked at.
        Ok(_) | Err(Error::Rejected(Rejection::JobNotWaiting { .. } | Rejection::JobGone(_))) => Ok(()),
        Err(error) => Err(refusal::of(error)),
    }
}
