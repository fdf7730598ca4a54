//! Figures of runs, for Prometheus.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use serde_json::value::RawValue;
use tower::{Layer, Service};

use crate::worker::{Ctx, Handler, JobError};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Work {
    queue: String,
    r#type: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Ended {
    queue: String,
    r#type: String,
    outcome: &'static str,
}

/// Counts runs: `recado_worker_runs_total{queue,type,outcome}` (`done`, `failed`, `broken_off` by a panic, a
/// timeout or a stop), `recado_worker_run_seconds{queue,type}`, `recado_worker_running{queue,type}`. A type is a label
/// here because a worker declares its types.
#[derive(Clone)]
pub struct Metrics {
    runs: Family<Ended, Counter>,
    seconds: Family<Work, Histogram>,
    running: Family<Work, Gauge>,
}

impl Metrics {
    /// Figures in this registry; several workers may share them.
    pub fn new(registry: &mut Registry) -> Self {
        // From 1 ms, each four times the one before, to about 4.5 h.
        let seconds = || Histogram::new(exponential_buckets(0.001, 4.0, 13));
        let metrics = Self {
            runs: Family::default(),
            seconds: Family::new_with_constructor(seconds),
            running: Family::default(),
        };
        registry.register("recado_worker_runs", "Runs of handlers that have ended", metrics.runs.clone());
        registry.register("recado_worker_run_seconds", "How long they took", metrics.seconds.clone());
        registry.register("recado_worker_running", "Runs of handlers now", metrics.running.clone());
        metrics
    }
}

/// See [`Metrics`].
#[derive(Clone)]
pub struct Measured {
    metrics: Metrics,
    inner: Handler,
}

impl Layer<Handler> for Metrics {
    type Service = Measured;

    fn layer(&self, inner: Handler) -> Measured {
        Measured { metrics: self.clone(), inner }
    }
}

impl Service<Ctx> for Measured {
    type Response = Box<RawValue>;
    type Error = JobError;
    type Future = Pin<Box<dyn Future<Output = Result<Box<RawValue>, JobError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), JobError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, ctx: Ctx) -> Self::Future {
        let mut run = Run::begin(self.metrics.clone(), &ctx);
        let work = self.inner.call(ctx);
        Box::pin(async move {
            let ended = work.await;
            run.came_to(if ended.is_ok() { "done" } else { "failed" });
            ended
        })
    }
}

/// Counted when it is dropped, however that comes.
struct Run {
    metrics: Metrics,
    work: Work,
    began: Instant,
    outcome: &'static str,
}

impl Run {
    fn begin(metrics: Metrics, ctx: &Ctx) -> Self {
        let work = Work { queue: ctx.queue().to_owned(), r#type: ctx.kind().to_owned() };
        metrics.running.get_or_create(&work).inc();
        Self { metrics, work, began: Instant::now(), outcome: "broken_off" }
    }

    fn came_to(&mut self, outcome: &'static str) {
        self.outcome = outcome;
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let Work { queue, r#type } = self.work.clone();
        self.metrics.running.get_or_create(&self.work).dec();
        self.metrics.seconds.get_or_create(&self.work).observe(self.began.elapsed().as_secs_f64());
        self.metrics.runs.get_or_create(&Ended { queue, r#type, outcome: self.outcome }).inc();
    }
}
