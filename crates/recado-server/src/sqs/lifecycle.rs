//! Queues come, are found, are emptied and go.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use recado_core::{Action, Actor, Answer as Told, Condition, JobState, NamesQuery, NewTask, Query};
use recado_sqs::answer::QueueUrls;
use recado_sqs::arn::Arn;
use recado_sqs::attributes::QueueAttributes;
use recado_sqs::page::Page;
use recado_sqs::request::{CreateQueue, DeleteQueue, GetQueueUrl, ListDeadLetterSourceQueues, ListQueues, PurgeQueue};
use recado_sqs::{Answer, Code, SqsError};

use super::caller::Caller;
use super::queue::{self, Stored};
use super::refusal;
use crate::http::App;
use crate::time;

/// A purge may follow another, and a queue one of its name, after so long.
const REST: Duration = Duration::from_secs(60);

/// Names of deleted queues that are remembered.
const RESTING_MAX: usize = 10_000;

/// Queues of one answer, where no page was asked for.
const LISTED_MAX: usize = 1_000;

/// Names of queues that were deleted a moment ago.
#[derive(Default)]
pub(crate) struct Resting(Mutex<HashMap<Box<str>, Instant>>);

impl Resting {
    fn rests(&self, native: &str) -> bool {
        let resting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        resting.get(native).is_some_and(|since| since.elapsed() < REST)
    }

    fn lay(&self, native: &str) {
        let mut resting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if resting.len() >= RESTING_MAX {
            resting.retain(|_, since| since.elapsed() < REST);
        }
        if resting.len() < RESTING_MAX {
            resting.insert(native.into(), Instant::now());
        }
    }
}

pub(super) async fn create(app: &App, caller: &Caller, asked: CreateQueue) -> Result<Answer, SqsError> {
    let address = caller.address(&asked.name);
    let native = caller.native(&address);
    let created = || Answer::CreateQueue { queue_url: caller.url(&address) };
    let attributes = QueueAttributes::created(&asked.attributes)?;
    match queue::look(app, &native).await {
        Err(error) if error.code() == Code::QueueDoesNotExist => {}
        Err(error) => return Err(error),
        Ok(there) => return same(caller, &there, &asked).map(|()| created()),
    }
    if app.sqs.config.sixty_second_rules && app.sqs.resting.rests(&native) {
        return Err(SqsError::queue_deleted_recently());
    }
    if !queue::make(app, caller, &native, Stored::new(attributes, asked.tags.clone())).await? {
        // Another caller was faster.
        same(caller, &queue::look(app, &native).await?, &asked)?;
    }
    Ok(created())
}

/// A second CreateQueue finds the queue, if it asks for nothing else.
fn same(caller: &Caller, there: &queue::Queue, asked: &CreateQueue) -> Result<(), SqsError> {
    let is_one_queue = |one: &Arn, other: &Arn| caller.native_of_arn(one) == caller.native_of_arn(other);
    match there.attributes.first_difference(&asked.attributes, is_one_queue) {
        Some(attribute) => Err(SqsError::queue_name_exists(attribute.name())),
        None => Ok(()),
    }
}

pub(super) async fn delete(app: &App, caller: &Caller, asked: &DeleteQueue) -> Result<Answer, SqsError> {
    let native = caller.native(&asked.queue);
    let actor = Actor(Some("sqs".into()));
    app.shard.delete_queue(native.clone(), true, Condition::default(), actor).await.map_err(refusal::of)?;
    app.sqs.resting.lay(&native);
    Ok(Answer::DeleteQueue)
}

pub(super) async fn purge(app: &App, caller: &Caller, asked: &PurgeQueue) -> Result<Answer, SqsError> {
    let queue = queue::look(app, &caller.native(&asked.queue)).await?;
    let since_ms = time::now().saturating_sub(queue.purged_at);
    if app.sqs.config.sixty_second_rules && Duration::from_millis(since_ms) < REST {
        return Err(SqsError::purge_in_progress(&asked.queue.name));
    }
    let states = vec![JobState::Ready, JobState::Delayed, JobState::Blocked, JobState::InFlight];
    let (action, actor) = (Action::Purge { states }, Actor(Some("sqs".into())));
    let task = NewTask { queue: queue.native, action, reason: None, actor };
    app.shard.run_task(task).await.map_err(refusal::of)?;
    Ok(Answer::PurgeQueue)
}

pub(super) async fn url(app: &App, caller: &Caller, asked: &GetQueueUrl) -> Result<Answer, SqsError> {
    queue::find(app, caller, &asked.queue).await?;
    Ok(Answer::GetQueueUrl { queue_url: caller.url(&asked.queue) })
}

pub(super) async fn list(app: &App, caller: &Caller, asked: &ListQueues) -> Result<Answer, SqsError> {
    names(app, caller, &asked.prefix, None, &asked.page).await.map(Answer::ListQueues)
}

pub(super) async fn sources(
    app: &App,
    caller: &Caller,
    asked: &ListDeadLetterSourceQueues,
) -> Result<Answer, SqsError> {
    let target = queue::find(app, caller, &asked.queue).await?;
    let sources = names(app, caller, "", Some(target.native.clone()), &asked.page).await?;
    Ok(Answer::ListDeadLetterSourceQueues(sources))
}

/// A page of the caller's queues.
async fn names(
    app: &App,
    caller: &Caller,
    prefix: &str,
    redrives_to: Option<Box<str>>,
    page: &Page,
) -> Result<QueueUrls, SqsError> {
    let limit = page.max.map_or(LISTED_MAX, |max| max as usize);
    let mut after: Option<Box<str>> = page.after.as_deref().map(|name| caller.native(&caller.address(name)));
    let mut found = Vec::new();
    loop {
        let wanted = NamesQuery { prefix: prefix.into(), after, redrives_to: redrives_to.clone(), limit: LISTED_MAX };
        let (names, more) = match app.shard.query(Query::Names(wanted)).await.map_err(refusal::of)? {
            Told::Names { names, more } => (names, more),
            other => return Err(refusal::unexpected(&other)),
        };
        found.extend(names.iter().filter_map(|native| caller.name(native).map(str::to_owned)));
        after = names.last().map(|name| (**name).into());
        if found.len() > limit || !more {
            break;
        }
    }
    let has_more = found.len() > limit;
    found.truncate(limit);
    // A token is given only to those who asked for pages.
    let next = found.last().filter(|_| has_more && page.max.is_some()).cloned();
    let urls = found.iter().map(|name| caller.url(&caller.address(name))).collect();
    Ok(QueueUrls { urls, next })
}
