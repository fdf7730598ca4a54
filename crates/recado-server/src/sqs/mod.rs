//! Amazon SQS, on the port of everything else: which request it is, who sends it, what it becomes in the engine.
//!
//! `recado_sqs` knows the wire, the engine knows queues; what is here only joins them. An SQS queue is a queue like
//! any other, and a message a job of type [`MESSAGE_KIND`] whose payload is its body as a JSON string.

mod attributes;
mod caller;
mod delay;
mod lifecycle;
mod moves;
mod queue;
mod receive;
mod refusal;
mod send;
mod settle;

use std::collections::BTreeMap;

use axum::body::{Body, Bytes};
use axum::http::Request;
use axum::http::request::Parts;
use axum::response::Response;
use recado_sqs::{Answer, Call, Form, Protocol, Request as Asked, SqsError};

use crate::connection::Outbox;
use crate::http::{App, body};
use crate::problem::Problem;
use crate::time;
use caller::Caller;
pub(crate) use lifecycle::Resting;
pub(crate) use queue::Queues;

/// Type of the jobs that messages are.
const MESSAGE_KIND: &str = "sqs.message";

/// A body of SQS, in bytes: a batch of 1 MiB whose every byte is escaped, and what stands around it.
const BODY_BYTES_MAX: usize = 8 << 20;

/// How SQS is served.
#[derive(Clone, Debug)]
pub struct Config {
    /// Queues of one name in another account or region are others.
    pub isolate: bool,
    /// A queue is purged once in 60 seconds, and a deleted queue's name rests so long.
    pub sixty_second_rules: bool,
    /// Secrets by access key: with any, requests must be signed with one of them.
    pub keys: BTreeMap<String, String>,
}

impl Default for Config {
    fn default() -> Self {
        Self { isolate: false, sixty_second_rules: true, keys: BTreeMap::new() }
    }
}

/// The protocol of a request; `None` when it is not SQS. Its body is not looked at.
pub(crate) fn protocol(parts: &Parts) -> Option<Protocol> {
    Protocol::of(&call(parts, &[]))
}

fn call<'c>(parts: &'c Parts, body: &'c [u8]) -> Call<'c> {
    Call {
        method: &parts.method,
        path: parts.uri.path(),
        query: parts.uri.query().unwrap_or_default(),
        headers: &parts.headers,
        body,
    }
}

/// Answers a request of SQS.
pub(crate) async fn serve(app: &App, protocol: Protocol, request: Request<Body>) -> Response {
    let (parts, body) = request.into_parts();
    let answered = match body::read(body, BODY_BYTES_MAX).await {
        Ok(body) => answer(app, protocol, &parts, &body).await,
        Err(problem) => Err(refusal::of_body(&problem, &call(&parts, &[]))),
    };
    let (id, form) = (app.sqs.request_id(app), Form::of(&call(&parts, &[]), protocol));
    match answered {
        Ok(Done { answer, guard: None }) => recado_sqs::encode(form, &Ok(answer), &id).map(Body::from),
        Ok(Done { answer, guard: Some(guard) }) => {
            let outbox = parts.extensions.get::<Outbox>().cloned().unwrap_or_default();
            recado_sqs::encode(form, &Ok(answer), &id).map(|bytes| outbox.body(bytes, guard))
        }
        Err(error) => recado_sqs::encode(form, &Err(error), &id).map(Body::from),
    }
}

/// Answers a request of SQS that is refused before anything of it is read.
pub(crate) fn refuse(app: &App, protocol: Protocol, parts: &Parts, problem: &Problem) -> Response {
    let form = Form::of(&call(parts, &[]), protocol);
    recado_sqs::encode(form, &Err(refusal::of_request(problem)), &app.sqs.request_id(app)).map(Body::from)
}

/// An answer, and what hands its messages over once it is written.
struct Done {
    answer: Answer,
    guard: Option<recado_shard::DeliveryGuard>,
}

impl From<Answer> for Done {
    fn from(answer: Answer) -> Self {
        Self { answer, guard: None }
    }
}

async fn answer(app: &App, protocol: Protocol, parts: &Parts, body: &Bytes) -> Result<Done, SqsError> {
    let call = call(parts, body);
    let caller = Caller::of(app, &call)?;
    let asked = recado_sqs::decode(&call, protocol)?;
    act(app, &caller, asked).await
}

async fn act(app: &App, caller: &Caller, asked: Asked) -> Result<Done, SqsError> {
    Ok(match asked {
        Asked::ReceiveMessage(asked) => return receive::receive(app, caller, asked).await,
        Asked::SendMessage(asked) => send::send(app, caller, asked).await?.into(),
        Asked::SendMessageBatch(asked) => send::send_batch(app, caller, asked).await?.into(),
        Asked::DeleteMessage(asked) => settle::delete(app, caller, asked).await?.into(),
        Asked::DeleteMessageBatch(asked) => settle::delete_batch(app, caller, asked).await?.into(),
        Asked::ChangeMessageVisibility(asked) => settle::change_visibility(app, caller, asked).await?.into(),
        Asked::ChangeMessageVisibilityBatch(asked) => settle::change_visibility_batch(app, caller, asked).await?.into(),
        Asked::CreateQueue(asked) => lifecycle::create(app, caller, asked).await?.into(),
        Asked::DeleteQueue(asked) => lifecycle::delete(app, caller, &asked).await?.into(),
        Asked::PurgeQueue(asked) => lifecycle::purge(app, caller, &asked).await?.into(),
        Asked::GetQueueUrl(asked) => lifecycle::url(app, caller, &asked).await?.into(),
        Asked::ListQueues(asked) => lifecycle::list(app, caller, &asked).await?.into(),
        Asked::ListDeadLetterSourceQueues(asked) => lifecycle::sources(app, caller, &asked).await?.into(),
        Asked::GetQueueAttributes(asked) => attributes::get(app, caller, &asked).await?.into(),
        Asked::SetQueueAttributes(asked) => attributes::set(app, caller, &asked).await?.into(),
        Asked::TagQueue(asked) => attributes::tag(app, caller, &asked).await?.into(),
        Asked::UntagQueue(asked) => attributes::untag(app, caller, &asked).await?.into(),
        Asked::ListQueueTags(asked) => attributes::tags(app, caller, &asked).await?.into(),
        Asked::AddPermission(asked) => attributes::add_permission(app, caller, &asked).await?.into(),
        Asked::RemovePermission(asked) => attributes::remove_permission(app, caller, &asked).await?.into(),
        Asked::StartMessageMoveTask(asked) => moves::start(app, caller, &asked).await?.into(),
        Asked::CancelMessageMoveTask(asked) => moves::cancel(app, caller, &asked).await?.into(),
        Asked::ListMessageMoveTasks(asked) => moves::list(app, caller, &asked).await?.into(),
    })
}

/// What the edge itself knows.
pub(crate) struct Shared {
    pub(crate) config: Config,
    queues: Queues,
    resting: Resting,
    requests: std::sync::atomic::AtomicU64,
}

impl Shared {
    pub(crate) fn new(config: Config) -> Self {
        Self { config, queues: Queues::default(), resting: Resting::default(), requests: Default::default() }
    }

    /// Tells one request from all others.
    fn request_id(&self, app: &App) -> String {
        let number = self.requests.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let at = time::now().to_be_bytes();
        uuid(app.shard.secret().hash(REQUEST_ID_DOMAIN, number, &[&app.started_at.to_be_bytes(), &at]).0)
    }
}

/// Separates this use of the keyed hash from all others of the data directory.
const REQUEST_ID_DOMAIN: u8 = b'i';

/// 128 bits as a UUID is written.
fn uuid(bits: u128) -> String {
    const LENGTH: usize = 36;
    const DIGITS: [u8; 16] = *b"0123456789abcdef";
    let mut text = String::with_capacity(LENGTH);
    for (place, byte) in bits.to_be_bytes().into_iter().enumerate() {
        if matches!(place, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        for nibble in [byte >> 4, byte & 15] {
            text.push(char::from(DIGITS[usize::from(nibble)]));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_uuid_is_written_with_hyphens() {
        assert_eq!(super::uuid(0x018f_3c5e_7b1a_7c3d_9e2f_1a2b_3c4d_5e6f), "018f3c5e-7b1a-7c3d-9e2f-1a2b3c4d5e6f");
    }
}
