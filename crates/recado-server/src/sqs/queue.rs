//! Queues as SQS sees them. What a request needs to know of its queue is read once and kept until any queue's
//! configuration changes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use recado_core::{
    Actor, Answer, Command, Condition, Configure, Fifo, Query, QueueOptions, QueueView, Redrive, Rejection, Reply,
    Revisions, Settings, Source, SqsQueue, Visibility,
};
use recado_shard::Error;
use recado_sqs::arn::Arn;
use recado_sqs::attributes::{AttributeName, QueueAttributes, RedrivePolicy};
use recado_sqs::tags::Tags;
use recado_sqs::url::Address;
use recado_sqs::{Code, SqsError};
use serde::{Deserialize, Serialize};

use super::caller::Caller;
use super::refusal;
use crate::http::App;
use crate::time;

/// Messages in flight of one queue.
const IN_FLIGHT_MAX: u32 = 120_000;

/// A change of attributes is tried so often against others that come between.
const TRIES_MAX: usize = 100;

/// What SQS stores with a queue beside the rules of the engine.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Stored {
    /// As they were set.
    pub(super) attributes: QueueAttributes,
    /// Of the queue.
    #[serde(default)]
    pub(super) tags: Tags,
    /// Seconds since 1970.
    created_at_s: u64,
    /// Seconds since 1970.
    modified_at_s: u64,
}

/// One queue.
#[derive(Debug)]
pub(super) struct Queue {
    /// The engine's name.
    pub(super) native: Box<str>,
    /// Never used again.
    pub(super) number: u32,
    /// It was made through SQS: its retention ends its messages.
    pub(super) is_made_here: bool,
    pub(super) attributes: QueueAttributes,
    pub(super) tags: Tags,
    pub(super) created_at_s: u64,
    pub(super) modified_at_s: u64,
    pub(super) purged_at: u64,
    options: QueueOptions,
    source: Source,
    revision: u64,
}

impl Queue {
    fn new(app: &App, view: QueueView) -> Result<Self, SqsError> {
        let QueueView { number, name, source, options, settings, revision, purged_at, .. } = view;
        let mut stored = stored(&options)?.unwrap_or_else(|| Stored::of_native(app, &settings));
        // It may have been changed by the other edge.
        stored.attributes.visibility_timeout_s = seconds(settings.visibility.ms());
        Ok(Self {
            native: (&*name).into(),
            number,
            is_made_here: settings.retention_ms.is_some(),
            attributes: stored.attributes,
            tags: stored.tags,
            created_at_s: stored.created_at_s,
            modified_at_s: stored.modified_at_s,
            purged_at,
            options,
            source,
            revision,
        })
    }

    pub(super) fn is_fifo(&self) -> bool {
        self.attributes.fifo.is_some()
    }

    fn stored(&self) -> Stored {
        Stored {
            attributes: self.attributes.clone(),
            tags: self.tags.clone(),
            created_at_s: self.created_at_s,
            modified_at_s: self.modified_at_s,
        }
    }
}

fn stored(options: &QueueOptions) -> Result<Option<Stored>, SqsError> {
    let Some(sqs) = &options.sqs else { return Ok(None) };
    let read = serde_json::from_slice(&sqs.edge).map(Some);
    read.map_err(|error| {
        tracing::error!(%error, "the stored attributes of a queue cannot be read");
        SqsError::new(Code::InternalFailure, "the stored attributes of the queue cannot be read")
    })
}

impl Stored {
    pub(super) fn new(attributes: QueueAttributes, tags: Tags) -> Self {
        let now_s = time::now() / 1_000;
        Self { attributes, tags, created_at_s: now_s, modified_at_s: now_s }
    }

    /// Of a queue that the other edge made: it never forgets a message, which is shown as the longest retention.
    fn of_native(app: &App, settings: &Settings) -> Self {
        const RETENTION_S_MAX: u32 = 1_209_600;
        let default = QueueAttributes::default();
        let bytes_max = settings.payload_max_bytes.min(u64::from(default.message_bytes_max));
        let attributes = QueueAttributes {
            message_bytes_max: u32::try_from(bytes_max).unwrap_or(default.message_bytes_max),
            retention_s: RETENTION_S_MAX,
            ..default
        };
        let at_s = app.started_at / 1_000;
        Self { attributes, tags: Tags::new(), created_at_s: at_s, modified_at_s: at_s }
    }

    /// As the engine keeps it, over what else is configured.
    fn into_options(
        self,
        caller: &Caller,
        options: &QueueOptions,
        is_made_here: bool,
    ) -> Result<QueueOptions, SqsError> {
        let attributes = &self.attributes;
        let fifo = attributes.fifo.map(|fifo| Fifo { dedup_in_group: fifo.dedup_in_group });
        let redrive = attributes
            .redrive
            .as_ref()
            .map(|policy| Redrive { target: caller.native_of_arn(&policy.target), max_receives: policy.max_receives });
        let retention_ms = is_made_here.then(|| u64::from(attributes.retention_s) * 1_000);
        let visibility = Visibility::Fixed(u64::from(attributes.visibility_timeout_s) * 1_000);
        let edge = serde_json::to_vec(&self)
            .map_err(|_| SqsError::new(Code::InternalFailure, "the attributes cannot be stored"))?;
        // A native queue's own stays unless it was changed.
        let own = options.visibility.filter(|own| seconds(own.ms()) == attributes.visibility_timeout_s);
        let is_auto = !is_made_here && options.visibility.is_none() && Visibility::Auto.ms() == visibility.ms();
        Ok(QueueOptions {
            visibility: own.or(Some(visibility).filter(|_| !is_auto)),
            max_in_flight: options.max_in_flight.or(is_made_here.then_some(IN_FLIGHT_MAX)),
            sqs: Some(Box::new(SqsQueue { fifo, retention_ms, redrive, edge })),
            ..options.clone()
        })
    }
}

fn seconds(ms: u64) -> u32 {
    u32::try_from(ms.div_ceil(1_000)).unwrap_or(u32::MAX)
}

/// Queues that were looked at, under one version of all configurations.
#[derive(Default)]
pub(crate) struct Queues(Mutex<Known>);

#[derive(Default)]
struct Known {
    version: u64,
    by_name: HashMap<Box<str>, Arc<Queue>>,
}

impl Queues {
    fn get(&self, version: u64, native: &str) -> Option<Arc<Queue>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.version == version { known.by_name.get(native).cloned() } else { None }
    }

    fn keep(&self, version: u64, queue: &Arc<Queue>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.version != version {
            *known = Known { version, by_name: HashMap::new() };
        }
        known.by_name.insert(queue.native.clone(), Arc::clone(queue));
    }
}

/// The queue of an address.
pub(super) async fn find(app: &App, caller: &Caller, queue: &Address) -> Result<Arc<Queue>, SqsError> {
    find_native(app, &caller.native(queue)).await
}

pub(super) async fn find_native(app: &App, native: &str) -> Result<Arc<Queue>, SqsError> {
    let version = app.shard.config_version();
    if let Some(queue) = app.sqs.queues.get(version, native) {
        return Ok(queue);
    }
    let queue = Arc::new(look(app, native).await?);
    app.sqs.queues.keep(version, &queue);
    Ok(queue)
}

/// The queue as it is now.
pub(super) async fn look(app: &App, native: &str) -> Result<Queue, SqsError> {
    match app.shard.query(Query::Queue(native.into())).await.map_err(refusal::of)? {
        Answer::Queue(view) => Queue::new(app, *view),
        other => Err(refusal::unexpected(&other)),
    }
}

/// Makes a queue; false when one of the name is there already.
pub(super) async fn make(app: &App, caller: &Caller, native: &str, stored: Stored) -> Result<bool, SqsError> {
    check_redrive(app, caller, native, &stored.attributes).await?;
    let options = stored.into_options(caller, &QueueOptions::default(), true)?;
    let condition = Condition { is: None, is_not: Some(Revisions::Any) };
    configure(app, native, options, Source::Api, condition).await
}

/// Changes what is stored with a queue; another change that comes between is not lost.
pub(super) async fn change(
    app: &App,
    caller: &Caller,
    address: &Address,
    mut change: impl FnMut(&mut Stored) -> Result<(), SqsError>,
) -> Result<(), SqsError> {
    let native = caller.native(address);
    for _ in 0..TRIES_MAX {
        let queue = look(app, &native).await?;
        let before = queue.stored();
        let mut stored = before.clone();
        change(&mut stored)?;
        if stored.attributes != before.attributes {
            check_change(&queue, &stored.attributes)?;
            // An old policy is no matter of this change, whatever became of its target.
            if stored.attributes.redrive != before.attributes.redrive {
                check_redrive(app, caller, &native, &stored.attributes).await?;
            }
            stored.modified_at_s = time::now() / 1_000;
        }
        let options = stored.into_options(caller, &queue.options, queue.is_made_here)?;
        let condition = Condition { is: Some(Revisions::These(vec![queue.revision])), is_not: None };
        if configure(app, &native, options, queue.source, condition).await? {
            return Ok(());
        }
    }
    Err(SqsError::unavailable("the queue is changed by too many others; try again"))
}

/// A native queue keeps its messages until they are done.
fn check_change(queue: &Queue, after: &QueueAttributes) -> Result<(), SqsError> {
    if !queue.is_made_here && queue.attributes.retention_s != after.retention_s {
        let message = "This queue was not made through SQS and has no MessageRetentionPeriod.";
        return Err(SqsError::new(Code::UnsupportedOperation, message));
    }
    Ok(())
}

/// A redrive policy names another queue that is there, of the same kind, and that lets itself be named.
async fn check_redrive(app: &App, caller: &Caller, native: &str, attributes: &QueueAttributes) -> Result<(), SqsError> {
    let Some(policy) = &attributes.redrive else { return Ok(()) };
    let RedrivePolicy { target, .. } = policy;
    let refused = |reason: &str| SqsError::invalid_value(policy, AttributeName::RedrivePolicy.name(), reason);
    let target = caller.native_of_arn(target);
    if *target == *native {
        return Err(refused("A queue cannot be its own dead letter target."));
    }
    let target = match find_native(app, &target).await {
        Ok(target) => target,
        Err(error) if error.code() == Code::QueueDoesNotExist => {
            return Err(refused("Dead letter target does not exist."));
        }
        Err(error) => return Err(error),
    };
    if target.is_fifo() != attributes.fifo.is_some() {
        return Err(refused("Dead-letter queue must be same type of queue as the source."));
    }
    let is_this = |arn: &Arn| *caller.native_of_arn(arn) == *native;
    if target.attributes.redrive_allow.as_ref().is_some_and(|policy| !policy.allows(is_this)) {
        return Err(refused("Queue does not have permissions to use the dead letter target."));
    }
    Ok(())
}

/// False when the condition does not hold.
async fn configure(
    app: &App,
    native: &str,
    options: QueueOptions,
    source: Source,
    condition: Condition,
) -> Result<bool, SqsError> {
    // The file keeps what it names; what SQS adds is no part of it.
    let source = if source == Source::File { source } else { Source::Api };
    let configure = Configure { queue: native.into(), options, source, condition, actor: Actor(Some("sqs".into())) };
    match app.shard.call(Command::Configure(configure)).await {
        Ok(Reply::Configured { .. }) => Ok(true),
        Ok(other) => Err(refusal::unexpected(&other)),
        Err(Error::Rejected(Rejection::PreconditionFailed)) => Ok(false),
        Err(error) => Err(refusal::of(error)),
    }
}
