//! Which handler runs what.

use std::collections::HashMap;
use std::future::Future;
use std::ops::RangeInclusive;

use recado_core::TypeRange;
use serde_json::value::{RawValue, to_raw_value};
use tower::util::{BoxCloneSyncService, ServiceExt};
use tower::{Layer, Service, service_fn};

use super::ctx::Ctx;
use super::error::JobError;
use crate::error::BoxError;
use crate::job::Job;

/// A handler behind its layers: a run in, its result as JSON out.
pub type Handler = BoxCloneSyncService<Ctx, Box<RawValue>, JobError>;

/// Puts one layer around a handler.
pub(super) type Wrap = Box<dyn Fn(Handler) -> Handler + Send + Sync>;

/// The handlers of a worker.
#[derive(Default)]
pub(super) struct Registry {
    by_type: HashMap<Box<str>, Vec<(RangeInclusive<u32>, Handler)>>,
    /// For every type that has none of its own.
    for_all: Option<Handler>,
}

impl Registry {
    pub(super) fn add(&mut self, kind: &str, versions: RangeInclusive<u32>, handler: Handler) {
        self.by_type.entry(kind.into()).or_default().push((versions, handler));
    }

    pub(super) fn add_for_all(&mut self, handler: Handler) {
        self.for_all = Some(handler);
    }

    /// The types to declare; `None` is all.
    pub(super) fn types(&self) -> Option<Vec<TypeRange>> {
        let ranges = self.by_type.iter().flat_map(|(kind, own)| {
            own.iter().map(|(versions, _)| TypeRange {
                kind: kind.clone(),
                from: *versions.start(),
                to: *versions.end(),
            })
        });
        self.for_all.is_none().then(|| ranges.collect())
    }

    /// Types for which two handlers take the same version, or one takes none.
    pub(super) fn ambiguous(&self) -> Vec<&str> {
        let overlaps = |own: &[(RangeInclusive<u32>, Handler)]| {
            own.iter().enumerate().any(|(index, (versions, _))| {
                versions.is_empty()
                    || own[..index]
                        .iter()
                        .any(|(other, _)| versions.start() <= other.end() && other.start() <= versions.end())
            })
        };
        self.by_type.iter().filter(|(_, own)| overlaps(own)).map(|(kind, _)| &**kind).collect()
    }

    pub(super) fn find(&self, kind: &str, schema_version: u32) -> Option<Handler> {
        let own = self.by_type.get(kind).into_iter().flatten();
        let mut able = own.filter(|(versions, _)| versions.contains(&schema_version)).map(|(_, handler)| handler);
        able.next().or(self.for_all.as_ref()).cloned()
    }

    /// Puts the layers around every handler, the last one innermost.
    pub(super) fn wrap(&mut self, layers: &[Wrap]) {
        let handlers = self.by_type.values_mut().flatten().map(|(_, handler)| handler).chain(&mut self.for_all);
        for handler in handlers {
            *handler = layers.iter().rev().fold(handler.clone(), |inner, wrap| wrap(inner));
        }
    }
}

/// A handler of a typed job.
pub(super) fn typed<J, F, Fut, E>(run: F) -> Handler
where
    J: Job,
    F: Fn(Ctx, J) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<J::Output, E>> + Send + 'static,
    E: Into<BoxError> + 'static,
{
    raw(move |ctx: Ctx| {
        let run = run.clone();
        async move {
            // The same bytes will never be another payload: a person must look.
            let job = serde_json::from_str(ctx.payload().get()).map_err(JobError::invalid_payload)?;
            let output = run(ctx, job).await.map_err(JobError::of)?;
            to_raw_value(&output).map_err(|error| JobError::permanent(error).kind("invalid-result"))
        }
    })
}

/// A handler of whatever comes.
pub(super) fn raw<F, Fut, E>(run: F) -> Handler
where
    F: Fn(Ctx) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<Box<RawValue>, E>> + Send + 'static,
    E: Into<BoxError> + 'static,
{
    let service = service_fn(move |ctx: Ctx| {
        let run = run(ctx);
        async move { run.await.map_err(JobError::of) }
    });
    BoxCloneSyncService::new(service)
}

/// A layer as something that can be kept.
pub(super) fn wrap<L>(layer: L) -> Wrap
where
    L: Layer<Handler> + Send + Sync + 'static,
    L::Service: Service<Ctx, Response = Box<RawValue>> + Clone + Send + Sync + 'static,
    <L::Service as Service<Ctx>>::Error: Into<BoxError> + 'static,
    <L::Service as Service<Ctx>>::Future: Send + 'static,
{
    Box::new(move |inner| BoxCloneSyncService::new(layer.layer(inner).map_err(JobError::of)))
}
