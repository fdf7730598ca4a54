//! How a worker is put together.

use std::future::Future;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use recado_contract::faults::Faults;
use recado_contract::limits::{RECEIVE_BYTES_MAX, RECEIVE_QUEUES_MAX, RECEIVE_TYPES_MAX, VISIBILITY_MS, WEIGHT_MAX};
use recado_core::Receive;
use serde_json::value::RawValue;
use tower::{Layer, Service};

use super::Worker;
use super::ctx::Ctx;
use super::error::{Classifier, Classify, classifier};
use super::registry::{self, Handler, Registry, Wrap};
use crate::error::{BoxError, Error};
use crate::job::{Job, millis};
use crate::recado::Recado;

/// What a worker is told once.
pub(super) struct Plan {
    /// What it asks for, but how many and under which attempt.
    pub(super) receive: Receive,
    pub(super) concurrency: usize,
    pub(super) prefetch_max: usize,
    pub(super) timeout: Option<Duration>,
    pub(super) grace: Duration,
    pub(super) classifiers: Vec<Classifier>,
}

/// Builds a [`Worker`].
pub struct WorkerBuilder {
    recado: Recado,
    queues: Vec<(Box<str>, u32)>,
    is_strict: bool,
    job_queues: Vec<&'static str>,
    registry: Registry,
    layers: Vec<Wrap>,
    name: Option<String>,
    concurrency: usize,
    prefetch_max: Option<usize>,
    visibility: Option<Duration>,
    timeout: Option<Duration>,
    grace: Duration,
    classifiers: Vec<Classifier>,
}

/// Most runs at the same time.
const CONCURRENCY_MAX: u64 = 10_000;
/// Jobs fetched ahead, for each run at the same time.
const PREFETCH_PER_SLOT: usize = 32;
/// .. in all.
const PREFETCH_MAX: usize = 1_000;

impl WorkerBuilder {
    pub(super) fn new(recado: &Recado) -> Self {
        Self {
            recado: recado.clone(),
            queues: Vec::new(),
            is_strict: true,
            job_queues: Vec::new(),
            registry: Registry::default(),
            layers: Vec::new(),
            name: None,
            concurrency: 1,
            prefetch_max: None,
            visibility: None,
            timeout: None,
            grace: Duration::from_secs(25),
            classifiers: Vec::new(),
        }
    }

    /// Takes jobs of this queue; of an earlier named one first. Without any, of the queues of its job types.
    #[must_use]
    pub fn queue(mut self, queue: &str) -> Self {
        self.queues.push((queue.into(), 1));
        self
    }

    /// Takes jobs of several queues, each as often as its weight says, so that none starves; a weight is from
    /// 1 to 1000.
    #[must_use]
    pub fn weighted<'q>(mut self, queues: impl IntoIterator<Item = (&'q str, u32)>) -> Self {
        self.queues.extend(queues.into_iter().map(|(queue, weight)| (queue.into(), weight)));
        self.is_strict = false;
        self
    }

    /// Runs so many jobs at the same time; 1 by default.
    #[must_use]
    pub fn concurrency(mut self, runs: usize) -> Self {
        self.concurrency = runs;
        self
    }

    /// Has at most so many jobs waiting here for a free place; 32 for each run at the same time by default, at
    /// most 1000. However high it is, no more are fetched ahead than will be begun within about 100 ms at the
    /// present pace, and one that waits for a second is given back.
    #[must_use]
    pub fn prefetch(mut self, jobs: usize) -> Self {
        self.prefetch_max = Some(jobs);
        self
    }

    /// The name under which it is seen; made up by default, and unlike any other.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// How long jobs are hidden while this worker has them, instead of what job or queue say; extended at a
    /// third of it while the handler runs. 100 ms to 12 h.
    #[must_use]
    pub fn visibility(mut self, visibility: Duration) -> Self {
        self.visibility = Some(visibility);
        self
    }

    /// Cuts a run off after this time: its future is dropped and the attempt fails with kind `timeout`.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// How long running handlers may go on after a stop; 25 s by default. What is not finished then is given
    /// back, and no attempt was used.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Handles a type of job, in the versions that it reads: two Rust types may share the name of a job type and
    /// divide its versions. Any error is worth another attempt unless it says otherwise: see
    /// [`JobError`](crate::JobError) and [`Classify`].
    #[must_use]
    pub fn handle<J, F, Fut, E>(mut self, run: F) -> Self
    where
        J: Job,
        F: Fn(Ctx, J) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Result<J::Output, E>> + Send + 'static,
        E: Into<BoxError> + 'static,
    {
        if !self.job_queues.contains(&J::QUEUE) {
            self.job_queues.push(J::QUEUE);
        }
        self.registry.add(J::NAME, J::versions(), registry::typed(run));
        self
    }

    /// Handles a type by its name, without a Rust type: the payload is [`Ctx::payload`], and the result is JSON.
    #[must_use]
    pub fn handle_type<F, Fut, E>(mut self, kind: &str, versions: RangeInclusive<u32>, run: F) -> Self
    where
        F: Fn(Ctx) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Result<Box<RawValue>, E>> + Send + 'static,
        E: Into<BoxError> + 'static,
    {
        self.registry.add(kind, versions, registry::raw(run));
        self
    }

    /// Handles every type that has no handler of its own: the worker then declares no types and is handed all.
    #[must_use]
    pub fn handle_raw<F, Fut, E>(mut self, run: F) -> Self
    where
        F: Fn(Ctx) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Result<Box<RawValue>, E>> + Send + 'static,
        E: Into<BoxError> + 'static,
    {
        self.registry.add_for_all(registry::raw(run));
        self
    }

    /// Puts a layer around every handler; the first one is outermost. Any [`tower::Layer`] over
    /// `Service<Ctx>` fits.
    #[must_use]
    pub fn layer<L>(mut self, layer: L) -> Self
    where
        L: Layer<Handler> + Send + Sync + 'static,
        L::Service: Service<Ctx, Response = Box<RawValue>> + Clone + Send + Sync + 'static,
        <L::Service as Service<Ctx>>::Error: Into<BoxError> + 'static,
        <L::Service as Service<Ctx>>::Future: Send + 'static,
    {
        self.layers.push(registry::wrap(layer));
        self
    }

    /// Asks errors of this type, wherever they stand in a chain of sources, what becomes of the job.
    #[must_use]
    pub fn classify<E: Classify>(mut self) -> Self {
        self.classifiers.push(classifier::<E>());
        self
    }

    /// The worker, which does nothing yet.
    ///
    /// # Errors
    /// [`Error::Refused`] when a name, a number or a time is out of its range, or nothing is handled.
    pub fn build(mut self) -> Result<Worker, Error> {
        if self.queues.is_empty() {
            self.queues = self.job_queues.iter().map(|queue| ((*queue).into(), 1)).collect();
        }
        let types = self.registry.types();
        let name = self
            .name
            .clone()
            .unwrap_or_else(|| format!("recado-rs:{}:{:08x}", std::process::id(), rand::random::<u32>()));
        self.check(types.as_ref().map(Vec::len), &name)?;
        self.registry.wrap(&self.layers);
        let receive = Receive {
            queues: self.queues,
            strict: self.is_strict,
            create: true,
            max: 1,
            max_bytes: RECEIVE_BYTES_MAX,
            worker: Some(name.into()),
            visibility_ms: self.visibility.map(millis),
            types,
            attempt_id: None,
            by_group: false,
        };
        let prefetch_max = self.prefetch_max.unwrap_or(self.concurrency.saturating_mul(PREFETCH_PER_SLOT));
        let plan = Plan {
            receive,
            concurrency: self.concurrency,
            prefetch_max: prefetch_max.min(PREFETCH_MAX),
            timeout: self.timeout,
            grace: self.grace,
            classifiers: self.classifiers,
        };
        Ok(Worker { recado: self.recado, plan: Arc::new(plan), registry: Arc::new(self.registry) })
    }

    fn check(&self, types: Option<usize>, name: &str) -> Result<(), Error> {
        let mut faults = Faults::default();
        if self.queues.is_empty() || self.queues.len() > RECEIVE_QUEUES_MAX {
            faults.at("/queues", format!("a worker takes jobs of 1 to {RECEIVE_QUEUES_MAX} queues"));
        }
        for (index, (queue, weight)) in self.queues.iter().enumerate() {
            let pointer = format!("/queues/{index}");
            faults.check_name(&pointer, queue);
            faults.range(&pointer, Some((*weight).into()), 1, WEIGHT_MAX);
            if self.queues[..index].iter().any(|(earlier, _)| earlier == queue) {
                faults.at(&pointer, "the queue stands twice");
            }
        }
        if types.is_some_and(|types| types == 0 || types > RECEIVE_TYPES_MAX) {
            faults.at("/types", format!("a worker handles 1 to {RECEIVE_TYPES_MAX} types, or all"));
        }
        for kind in self.registry.ambiguous() {
            faults.at("/types", format!("`{kind}` has two handlers for one schema version, or one for none"));
        }
        faults.check_name("/worker", name);
        faults.range("/concurrency", Some(self.concurrency as u64), 1, CONCURRENCY_MAX);
        let visibility = self.visibility.map(millis);
        faults.time_range("/visibilityTimeout", visibility, VISIBILITY_MS.0, VISIBILITY_MS.1);
        faults.finish().map_err(Error::Refused)
    }
}
