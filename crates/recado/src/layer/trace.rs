//! A span for each run.

use std::pin::Pin;
use std::task::{Context, Poll};

use serde_json::value::RawValue;
use tower::{Layer, Service};
use tracing::Instrument;

use crate::worker::{Ctx, Handler, JobError};

/// Puts each run in a `tracing` span `job` with the job's id, type, queue and attempt, and with its place in the
/// producer's trace: `trace_id`, `parent_id` and `span_id` as in `traceparent`. How it ended is an event in it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trace;

/// See [`Trace`].
#[derive(Clone)]
pub struct Traced(Handler);

impl Layer<Handler> for Trace {
    type Service = Traced;

    fn layer(&self, inner: Handler) -> Traced {
        Traced(inner)
    }
}

impl Service<Ctx> for Traced {
    type Response = Box<RawValue>;
    type Error = JobError;
    type Future = Pin<Box<dyn Future<Output = Result<Box<RawValue>, JobError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), JobError>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, ctx: Ctx) -> Self::Future {
        let span = tracing::info_span!(
            "job",
            id = %ctx.id(),
            "type" = ctx.kind(),
            queue = ctx.queue(),
            attempt = ctx.attempt(),
            trace_id = ctx.trace().trace_id(),
            span_id = ctx.trace().span_id(),
            parent_id = ctx.parent_trace().map(|parent| parent.span_id()),
        );
        let run = self.0.call(ctx);
        let told = async move {
            let ended = run.await;
            match &ended {
                Ok(_) => tracing::debug!("done"),
                Err(error) => tracing::warn!(error = error.message(), kind = error.word(), "failed"),
            }
            ended
        };
        Box::pin(told.instrument(span))
    }
}
