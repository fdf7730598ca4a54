//! `GET /v1/queues/{q}/stats`.

use std::collections::BTreeMap;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use recado_core::{Answer, ConsumerView, Percentiles, Query, Stats, TypeRange};
use serde::Serialize;
use utoipa::ToSchema;

use super::job::by_word;
use super::limits::{LimitFiguresBody, RateFiguresBody};
use super::{App, Queue, answer, unexpected};
use crate::openapi::OnQueue;
use crate::problem::Problem;
use crate::query::Params;
use crate::{duration, time};

/// A queue's figures.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Stats)]
pub(crate) struct StatsBody {
    /// ready + delayed + blocked + inFlight
    depth: u64,
    ready: u64,
    delayed: u64,
    blocked: u64,
    in_flight: u64,
    dead: u64,
    /// Kept ones.
    completed: u64,
    /// Since it became ready, of the oldest job that could be received now.
    oldest_job_age: Option<String>,
    oldest_dead_age: Option<String>,
    /// Per second over 60 s.
    enqueue_rate: f64,
    receive_rate: f64,
    complete_rate: f64,
    /// Share of ended attempts over 5 min.
    failure_rate: Option<f64>,
    retry_rate: Option<f64>,
    /// From ready to received.
    wait: PercentilesBody,
    /// From received to settled.
    processing: PercentilesBody,
    visibility_timeouts: u64,
    deduplicated: u64,
    skipped: u64,
    /// Handed off to another queue by a redrive policy, or moved back.
    forwarded: u64,
    /// Taken from other queues.
    arrived: u64,
    /// Refused requests by reason.
    rejected: BTreeMap<String, u64>,
    /// Jobs taken with something in them that should not be there, by reason.
    warned: BTreeMap<String, u64>,
    consumers: Vec<ConsumerBody>,
    effective: EffectiveBody,
    /// Jobs that are not handed out, by reason.
    held_back: BTreeMap<String, u64>,
    /// The queue's rate limit; null: none.
    rate: Option<RateFiguresBody>,
    /// The shared limits that it names.
    limits: Vec<LimitFiguresBody>,
    /// Null: off.
    breaker: Option<String>,
    paused: bool,
}

/// Three percentiles as durations; null without a sample.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Percentiles)]
struct PercentilesBody {
    p50: Option<String>,
    p95: Option<String>,
    p99: Option<String>,
}

/// A worker seen within the last minute.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Consumer)]
struct ConsumerBody {
    /// Null for those that gave no name.
    worker: Option<String>,
    /// Null: all.
    types: Option<Vec<String>>,
    in_flight: u64,
    last_seen: String,
}

/// What the server chose.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Effective)]
struct EffectiveBody {
    visibility_timeout: ChoiceBody,
}

/// A value and where it comes from.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Choice)]
struct ChoiceBody {
    value: String,
    why: &'static str,
}

impl StatsBody {
    /// Converts a queue's figures.
    pub(crate) fn new(app: &App, queue: &str, stats: &Stats) -> Self {
        let total = |word: &str| stats.totals.iter().find(|(known, _)| *known == word).map_or(0, |(_, n)| *n);
        Self {
            depth: stats.ready + stats.delayed + stats.blocked + stats.in_flight,
            ready: stats.ready,
            delayed: stats.delayed,
            blocked: stats.blocked,
            in_flight: stats.in_flight,
            dead: stats.dead,
            completed: stats.completed,
            oldest_job_age: stats.oldest_job_age_ms.map(duration::text),
            oldest_dead_age: stats.oldest_dead_age_ms.map(duration::text),
            enqueue_rate: stats.enqueue_rate,
            receive_rate: stats.receive_rate,
            complete_rate: stats.complete_rate,
            failure_rate: stats.failure_rate,
            retry_rate: stats.retry_rate,
            wait: PercentilesBody::new(&stats.wait),
            processing: PercentilesBody::new(&stats.processing),
            visibility_timeouts: total("visibility-timeout"),
            deduplicated: total("deduplicated"),
            skipped: total("skipped"),
            forwarded: total("forwarded"),
            arrived: total("arrived"),
            rejected: app.rejected.of(queue),
            warned: app.warned.of(queue),
            consumers: stats.consumers.iter().map(ConsumerBody::new).collect(),
            effective: EffectiveBody {
                visibility_timeout: ChoiceBody {
                    value: duration::text(stats.visibility_ms),
                    why: stats.visibility_why,
                },
            },
            held_back: by_word(stats.held_back.iter().map(|(reason, n)| (reason.word(), *n))),
            rate: stats.rate.map(RateFiguresBody::new),
            limits: stats.limits.iter().map(LimitFiguresBody::from).collect(),
            breaker: None,
            paused: stats.paused,
        }
    }
}

impl PercentilesBody {
    fn new(percentiles: &Percentiles) -> Self {
        Self {
            p50: percentiles.p50_ms.map(duration::text),
            p95: percentiles.p95_ms.map(duration::text),
            p99: percentiles.p99_ms.map(duration::text),
        }
    }
}

impl ConsumerBody {
    fn new(consumer: &ConsumerView) -> Self {
        Self {
            worker: consumer.worker.as_deref().map(str::to_owned),
            types: consumer.types.as_ref().map(|types| types.iter().map(type_text).collect()),
            in_flight: consumer.in_flight,
            last_seen: time::text(consumer.last_seen_at),
        }
    }
}

fn type_text(range: &TypeRange) -> String {
    match (range.from, range.to) {
        (_, u32::MAX) => range.kind.to_string(),
        (from, to) if from == to => format!("{}@{from}", range.kind),
        (from, to) => format!("{}@{from}-{to}", range.kind),
    }
}

/// Look at a queue's figures.
#[utoipa::path(
    get, path = "/v1/queues/{q}/stats", operation_id = "getQueueStats", tag = "queues",
    params(("q" = String, Path, description = "name of the queue")),
    responses((status = 200, description = "as of now", body = StatsBody), OnQueue),
)]
pub(crate) async fn stats(State(app): State<App>, Queue(queue): Queue, request: Request) -> Result<Response, Problem> {
    Params::parse(request.uri().query(), &[])?;
    match app.shard.query(Query::Stats(queue.clone())).await? {
        Answer::Stats(stats) => Ok(answer(StatusCode::OK, &StatsBody::new(&app, &queue, &stats))),
        other => Err(unexpected(&other)),
    }
}
