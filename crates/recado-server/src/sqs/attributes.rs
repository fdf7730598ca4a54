//! What is stored with a queue: attributes, tags, a policy.

use recado_core::{Answer as Told, Query};
use recado_sqs::attributes::Figures;
use recado_sqs::request::{
    AddPermission, GetQueueAttributes, ListQueueTags, RemovePermission, SetQueueAttributes, TagQueue, UntagQueue,
};
use recado_sqs::{Answer, SqsError, policy, tags as rules};

use super::caller::Caller;
use super::{delay, queue, refusal};
use crate::http::App;

pub(super) async fn get(app: &App, caller: &Caller, asked: &GetQueueAttributes) -> Result<Answer, SqsError> {
    let queue = queue::find(app, caller, &asked.queue).await?;
    let stats = match app.shard.query(Query::Stats(queue.native.clone())).await.map_err(refusal::of)? {
        Told::Stats(stats) => stats,
        other => return Err(refusal::unexpected(&other)),
    };
    let figures = Figures {
        arn: caller.arn(&queue.native),
        visible: stats.ready,
        not_visible: stats.in_flight,
        delayed: stats.delayed,
        created_at_s: queue.created_at_s,
        modified_at_s: queue.modified_at_s,
    };
    Ok(Answer::GetQueueAttributes(queue.attributes.shown(&asked.names, &figures)))
}

pub(super) async fn set(app: &App, caller: &Caller, asked: &SetQueueAttributes) -> Result<Answer, SqsError> {
    let mut delays_s = None;
    queue::change(app, caller, &asked.queue, |stored| {
        let before_s = stored.attributes.delay_s;
        stored.attributes.set(&asked.attributes)?;
        delays_s = stored.attributes.fifo.is_some().then_some((before_s, stored.attributes.delay_s));
        Ok(())
    })
    .await?;
    if let Some((before_s, after_s)) = delays_s.filter(|(before_s, after_s)| before_s != after_s) {
        delay::reach_back(app, &caller.native(&asked.queue), before_s, after_s).await?;
    }
    Ok(Answer::SetQueueAttributes)
}

pub(super) async fn tag(app: &App, caller: &Caller, asked: &TagQueue) -> Result<Answer, SqsError> {
    queue::change(app, caller, &asked.queue, |stored| {
        stored.tags.extend(asked.tags.clone());
        rules::check_count(stored.tags.len())
    })
    .await?;
    Ok(Answer::TagQueue)
}

pub(super) async fn untag(app: &App, caller: &Caller, asked: &UntagQueue) -> Result<Answer, SqsError> {
    queue::change(app, caller, &asked.queue, |stored| {
        stored.tags.retain(|key, _| !asked.keys.contains(key));
        Ok(())
    })
    .await?;
    Ok(Answer::UntagQueue)
}

pub(super) async fn tags(app: &App, caller: &Caller, asked: &ListQueueTags) -> Result<Answer, SqsError> {
    Ok(Answer::ListQueueTags(queue::find(app, caller, &asked.queue).await?.tags.clone()))
}

/// Policies are stored and given back, never evaluated.
pub(super) async fn add_permission(app: &App, caller: &Caller, asked: &AddPermission) -> Result<Answer, SqsError> {
    let arn = caller.arn(&caller.native(&asked.queue));
    queue::change(app, caller, &asked.queue, |stored| {
        let before = stored.attributes.policy.as_deref();
        stored.attributes.policy = Some(policy::add(before, &arn, &asked.label, &asked.accounts, &asked.actions)?);
        Ok(())
    })
    .await?;
    Ok(Answer::AddPermission)
}

pub(super) async fn remove_permission(
    app: &App,
    caller: &Caller,
    asked: &RemovePermission,
) -> Result<Answer, SqsError> {
    queue::change(app, caller, &asked.queue, |stored| {
        stored.attributes.policy = policy::remove(stored.attributes.policy.as_deref(), &asked.label)?;
        Ok(())
    })
    .await?;
    Ok(Answer::RemovePermission)
}
