//! `GET /v1/queues/{q}/stats`.

use std::collections::BTreeMap;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use recado_core::{
    AUTO_VISIBILITY_MS, Answer, ConsumerView, Percentiles, Query, Stats, TimingView, TypeRange, Visibility,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::job::by_word;
use super::limits::{BreakerFiguresBody, LimitFiguresBody, RateFiguresBody};
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
    /// What does not go with how long jobs take, and what to do.
    warnings: Vec<String>,
    /// Jobs that are not handed out, by reason.
    held_back: BTreeMap<String, u64>,
    /// The queue's rate limit; null: none.
    rate: Option<RateFiguresBody>,
    /// The shared limits that it names.
    limits: Vec<LimitFiguresBody>,
    /// Null: off.
    breaker: Option<BreakerFiguresBody>,
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
    /// Of `auto`, that of the slowest type.
    visibility_timeout: ChoiceBody,
    /// By type, the slowest first, once a job of it has completed.
    types: Vec<TypeChoiceBody>,
}

/// The visibility timeout of a type, and how long its jobs take.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TypeChoice)]
struct TypeChoiceBody {
    /// Null: all beyond the sixteen types that are told apart.
    #[serde(rename = "type")]
    kind: Option<String>,
    visibility_timeout: ChoiceBody,
    /// 95 of 100 completions did not take longer.
    p95: String,
    /// Completions that were measured; old ones fade.
    completions: u32,
}

/// A value and where it comes from.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Choice)]
struct ChoiceBody {
    value: String,
    /// `fixed`; `default` before there are 20 completions; `measured`: half more than the p95, from 5s to 12h.
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
                visibility_timeout: choice(stats.visibility, stats.timings.iter().find(|timing| timing.is_measured)),
                types: stats.timings.iter().map(|timing| TypeChoiceBody::new(stats.visibility, timing)).collect(),
            },
            warnings: stats.timings.iter().filter_map(|timing| visibility_warning(stats.visibility, timing)).collect(),
            held_back: by_word(stats.held_back.iter().map(|(reason, n)| (reason.word(), *n))),
            rate: stats.rate.map(RateFiguresBody::new),
            limits: stats.limits.iter().map(LimitFiguresBody::from).collect(),
            breaker: stats.breaker.as_ref().map(BreakerFiguresBody::from),
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

impl TypeChoiceBody {
    fn new(set: Visibility, timing: &TimingView) -> Self {
        Self {
            kind: timing.kind.as_deref().map(str::to_owned),
            visibility_timeout: choice(set, Some(timing)),
            p95: rounded(timing.p95_ms),
            completions: timing.completions,
        }
    }
}

/// The visibility timeout that holds, and why.
fn choice(set: Visibility, timing: Option<&TimingView>) -> ChoiceBody {
    match (set, timing) {
        (Visibility::Fixed(ms), _) => ChoiceBody { value: duration::text(ms), why: "fixed" },
        (Visibility::Auto, Some(timing)) if timing.is_measured => {
            ChoiceBody { value: duration::text(timing.auto_ms), why: "measured" }
        }
        (Visibility::Auto, _) => ChoiceBody { value: duration::text(AUTO_VISIBILITY_MS), why: "default" },
    }
}

/// A p95 beyond which one attempt holds too much.
const LONG_RUN_MS: u64 = 300_000;

/// What does not go with how long jobs of a type take.
pub(crate) fn visibility_warning(set: Visibility, timing: &TimingView) -> Option<String> {
    if !timing.is_measured {
        return None;
    }
    let (kind, p95) = (timing.kind.as_deref().unwrap_or("other types"), rounded(timing.p95_ms));
    match set {
        Visibility::Fixed(ms) if ms < timing.p95_ms => Some(format!(
            "visibilityTimeout {} is below the p95 of {kind} ({p95}), so that jobs are handed out again while they \
             still run: set it above, or to \"auto\"",
            duration::text(ms)
        )),
        _ if timing.p95_ms > LONG_RUN_MS => Some(format!(
            "the p95 of {kind} is {p95}: a job that fails loses all of it; split it into smaller ones, or report its \
             progress by extend"
        )),
        _ => None,
    }
}

/// Measured to about an eighth: no more is shown than seconds, where there are several.
fn rounded(ms: u64) -> String {
    duration::text(if ms < 2_000 { ms } else { ms.div_ceil(1_000) * 1_000 })
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
