//! `POST /v1/queues/{q}/receive` and `POST /v1/receive`.

use std::fmt;
use std::time::Duration;

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use recado_core::{Receive, TypeRange};
use recado_shard::Received;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use super::job::JobBody;
use super::settle::{Checked, SettleBody, SettledBody};
use super::{App, Queue, body};
use crate::connection::Outbox;
use crate::faults::Faults;
use crate::json;
use crate::limits::{
    RECEIVE_BYTES_MAX, RECEIVE_JOBS_MAX, RECEIVE_QUEUES_MAX, RECEIVE_TYPES_MAX, WAIT_MS_MAX, WEIGHT_MAX,
};
use crate::openapi::OnQueue;
use crate::problem::{Code, Problem};
use crate::{duration, options, query};

/// What a worker asks of one queue.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = ReceiveRequest)]
pub(crate) struct ReceiveBody<'a> {
    /// 1 (default) to 1000 jobs.
    max: Option<u64>,
    /// Long poll, `0s` (default) to `60s`.
    wait: Option<Box<str>>,
    /// Who asks.
    worker: Option<Box<str>>,
    /// Beats job and queue.
    visibility_timeout: Option<Box<str>>,
    /// `"mail.send"`, `"mail.send@2"`, `"mail.send@1-3"`; all by default.
    types: Option<Vec<Box<str>>>,
    /// Done first.
    #[serde(borrow, default)]
    settle: Option<Vec<SettleBody<'a>>>,
    /// The same within 5 minutes gets the same jobs; with `worker` it also ends a wait under it that is still open.
    attempt_id: Option<Box<str>>,
}

/// What a worker asks of several queues.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = ReceiveManyRequest)]
pub(crate) struct ReceiveManyBody<'a> {
    /// The queues, with `order`.
    queues: Option<Vec<Box<str>>>,
    /// `strict`: a later queue gives only when all earlier ones have nothing.
    order: Option<OrderWord>,
    /// Instead of `queues` and `order`: how often each queue's turn comes.
    #[schema(value_type = Object)]
    weights: Option<Weights>,
    /// 1 (default) to 1000 jobs.
    max: Option<u64>,
    /// Long poll, `0s` (default) to `60s`.
    wait: Option<Box<str>>,
    /// Who asks.
    worker: Option<Box<str>>,
    /// Beats job and queue.
    visibility_timeout: Option<Box<str>>,
    /// `"mail.send"`, `"mail.send@2"`, `"mail.send@1-3"`; all by default.
    types: Option<Vec<Box<str>>>,
    /// Done first.
    #[serde(borrow, default)]
    settle: Option<Vec<SettleBody<'a>>>,
    /// The same within 5 minutes gets the same jobs; with `worker` it also ends a wait under it that is still open.
    attempt_id: Option<Box<str>>,
}

/// In which order queues give.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum OrderWord {
    /// First comes first.
    Strict,
}

/// Queues with their weights, each once.
#[derive(Debug)]
struct Weights(Vec<(Box<str>, u64)>);

impl<'de> Deserialize<'de> for Weights {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Weights;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of queues with their weights")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Weights, A::Error> {
                let mut entries: Vec<(Box<str>, u64)> = Vec::new();
                while let Some((queue, weight)) = map.next_entry::<Box<str>, u64>()? {
                    if entries.iter().any(|(earlier, _)| *earlier == queue) {
                        return Err(serde::de::Error::custom(format_args!("duplicate field `{queue}`")));
                    }
                    entries.push((queue, weight));
                }
                Ok(Weights(entries))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

/// Jobs, and what came of the settles.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ReceiveAnswer)]
struct ReceivedBody<'a> {
    /// Jobs with receipts.
    jobs: Vec<JobBody<'a>>,
    /// What became of each entry of `settle`.
    settled: Vec<SettledBody<'a>>,
    /// Jobs of this worker whose cancel was asked for.
    cancel_requested: Vec<String>,
    /// Why there are no jobs although some wait.
    empty_because: Option<&'static str>,
    /// The shared limit that holds them back.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<String>,
    /// A queue was created.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    created: bool,
}

/// A request as checked.
struct Asked {
    receive: Receive,
    settle: Checked,
    wait: Duration,
}

impl<'a> ReceiveManyBody<'a> {
    /// Checks which queues are meant, in which order.
    fn queues(&mut self, faults: &mut Faults) -> (Vec<(Box<str>, u32)>, bool) {
        let strict = self.order.is_some();
        let queues = match (self.queues.take(), self.weights.take()) {
            (Some(names), None) => {
                if !strict && names.len() > 1 {
                    faults.at("/order", "several queues need \"order\": \"strict\", or weights instead");
                }
                names.into_iter().map(|name| (name, 1)).collect()
            }
            (None, Some(Weights(weights))) => {
                if strict {
                    faults.at("/order", "goes with queues, not with weights");
                }
                weights
            }
            _ => {
                faults.at("/queues", "send queues with order, or weights");
                return (Vec::new(), strict);
            }
        };
        let at = if strict { "/queues" } else { "/weights" };
        if queues.is_empty() || queues.len() > RECEIVE_QUEUES_MAX {
            faults.at(at, format!("1 to {RECEIVE_QUEUES_MAX} queues"));
        }
        for (index, (name, weight)) in queues.iter().enumerate() {
            let pointer = format!("{at}/{}", if strict { index.to_string() } else { json::escape(name) });
            faults.check_name(&pointer, name);
            faults.range(&pointer, Some(*weight), 1, WEIGHT_MAX);
            if queues[..index].iter().any(|(earlier, _)| earlier == name) {
                faults.at(&pointer, "the queue stands twice");
            }
        }
        (queues.into_iter().map(|(name, weight)| (name, weight as u32)).collect(), strict)
    }

    fn common(self) -> ReceiveBody<'a> {
        ReceiveBody {
            max: self.max,
            wait: self.wait,
            worker: self.worker,
            visibility_timeout: self.visibility_timeout,
            types: self.types,
            settle: self.settle,
            attempt_id: self.attempt_id,
        }
    }
}

impl ReceiveBody<'_> {
    fn check(
        self,
        queues: Vec<(Box<str>, u32)>,
        strict: bool,
        create: bool,
        mut faults: Faults,
    ) -> Result<Asked, Problem> {
        faults.range("/max", self.max, 1, RECEIVE_JOBS_MAX);
        let wait_ms = match self.wait.as_deref().map(duration::parse) {
            None => 0,
            Some(Ok(ms)) => {
                faults.time_range("/wait", Some(ms), 0, WAIT_MS_MAX);
                ms
            }
            Some(Err(message)) => {
                faults.at("/wait", message);
                0
            }
        };
        if let Some(worker) = &self.worker {
            faults.check_name("/worker", worker);
        }
        faults.check_key("/attemptId", self.attempt_id.as_deref());
        let receive = Receive {
            queues,
            strict,
            create,
            max: self.max.unwrap_or(1) as usize,
            max_bytes: RECEIVE_BYTES_MAX,
            worker: self.worker,
            visibility_ms: options::visibility_ms(
                self.visibility_timeout.as_deref(),
                "/visibilityTimeout",
                &mut faults,
            ),
            types: self.types.map(|types| types_of(&types, &mut faults)),
            attempt_id: self.attempt_id,
            by_group: false,
        };
        let settle = Checked::new(self.settle.unwrap_or_default(), "/settle", &mut faults);
        faults.finish()?;
        Ok(Asked { receive, settle, wait: Duration::from_millis(wait_ms) })
    }
}

fn types_of(declared: &[Box<str>], faults: &mut Faults) -> Vec<TypeRange> {
    if declared.is_empty() || declared.len() > RECEIVE_TYPES_MAX {
        faults.at("/types", format!("1 to {RECEIVE_TYPES_MAX} types; leave it out for all"));
    }
    let mut ranges = Vec::with_capacity(declared.len());
    for (index, text) in declared.iter().enumerate() {
        match recado_contract::types::parse(text) {
            Ok(range) => ranges.push(range),
            Err(message) => faults.at(&format!("/types/{index}"), message),
        }
    }
    ranges
}

/// Take jobs of one queue.
#[utoipa::path(
    post, path = "/v1/queues/{q}/receive", operation_id = "receive", tag = "work",
    params(("q" = String, Path, description = "name of the queue")),
    request_body(content = ReceiveBody, content_type = "application/json"),
    responses((status = 200, description = "jobs, perhaps none", body = ReceivedBody), OnQueue),
)]
pub(crate) async fn receive(
    State(app): State<App>,
    Extension(outbox): Extension<Outbox>,
    Queue(queue): Queue,
    request: Request,
) -> Result<Response, Problem> {
    query::Params::parse(request.uri().query(), &[])?;
    let body = body::json_or_empty(request).await?;
    let asked = json::parse::<ReceiveBody<'_>>(&body)?;
    let asked = asked.check(vec![(queue, 1)], true, app.create_queues, Faults::default())?;
    drop(body);
    deliver(&app, &outbox, asked).await
}

/// Take jobs of several queues.
#[utoipa::path(
    post, path = "/v1/receive", operation_id = "receiveMany", tag = "work",
    request_body(content = ReceiveManyBody, content_type = "application/json"),
    responses((status = 200, description = "jobs, perhaps none", body = ReceivedBody), OnQueue),
)]
pub(crate) async fn receive_many(
    State(app): State<App>,
    Extension(outbox): Extension<Outbox>,
    request: Request,
) -> Result<Response, Problem> {
    query::Params::parse(request.uri().query(), &[])?;
    let body = body::json(request).await?;
    let mut asked = json::parse::<ReceiveManyBody<'_>>(&body)?;
    let mut faults = Faults::default();
    let (queues, strict) = asked.queues(&mut faults);
    let asked = asked.common().check(queues, strict, app.create_queues, faults)?;
    drop(body);
    deliver(&app, &outbox, asked).await
}

async fn deliver(app: &App, outbox: &Outbox, asked: Asked) -> Result<Response, Problem> {
    let Asked { receive, mut settle, wait } = asked;
    let received = app.shard.receive(receive, std::mem::take(&mut settle.asked), wait).await?;
    respond(app, outbox, received, &settle)
}

fn respond(app: &App, outbox: &Outbox, received: Received, settle: &Checked) -> Result<Response, Problem> {
    let Received { settled, created, jobs, mut cancel_requested, empty_because, limit, guard } = received;
    let secret = app.shard.secret();
    let (settled, cancelled) = settle.answered(settled);
    for id in cancelled {
        if !cancel_requested.contains(&id) {
            cancel_requested.push(id);
        }
    }
    let jobs: Result<Vec<_>, Problem> =
        jobs.iter().map(|(delivered, job)| JobBody::delivered(delivered, job, secret)).collect();
    let body = ReceivedBody {
        jobs: jobs?,
        settled,
        cancel_requested: cancel_requested.iter().map(ToString::to_string).collect(),
        empty_because: empty_because.map(|reason| reason.word()),
        limit: limit.map(|name| name.to_string()),
        created,
    };
    let bytes = serde_json::to_vec(&body).map_err(|_| Problem::new(Code::Internal, "the answer cannot be written"))?;
    let headers = [(CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    Ok((StatusCode::OK, headers, outbox.body(bytes, guard)).into_response())
}
