//! The worker: takes jobs, runs their handlers, says what became of them.

mod builder;
mod ctx;
mod error;
mod held;
mod pace;
mod registry;
mod run;
mod runner;
mod signals;

use std::future::Future;
use std::sync::Arc;

pub use builder::WorkerBuilder;
pub use ctx::{Cancelled, Ctx};
pub use error::{Classify, Disposition, JobError};
pub use registry::Handler;

use builder::Plan;
use registry::Registry;
use runner::{Mode, Runner};
use signals::Signals;

use crate::error::Error;
use crate::recado::Recado;

/// Takes jobs of its queues and runs their handlers.
pub struct Worker {
    recado: Recado,
    plan: Arc<Plan>,
    registry: Arc<Registry>,
}

/// What a worker did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Runs that succeeded and counted.
    pub completed: u64,
    /// Runs that failed, by an error, a panic or a timeout.
    pub failed: u64,
    /// Jobs given back without a failure: snoozed, fetched ahead and not begun, or cut off by the stop.
    pub released: u64,
    /// Runs whose lease was lost before their end was known: they changed nothing.
    pub overtaken: u64,
    /// Runs whose end the queue refused: their jobs come back when their lease runs out.
    pub refused: u64,
    /// Calls for jobs and settles: over a server, each is a request.
    pub calls: u64,
}

impl Worker {
    /// Builds a worker on a queue.
    #[must_use]
    pub fn builder(recado: &Recado) -> WorkerBuilder {
        WorkerBuilder::new(recado)
    }

    /// Works until SIGTERM or SIGINT. Then it takes nothing more, lets what runs go on for the grace period, and
    /// gives back what is not finished, at once visible elsewhere and with no attempt used. A second signal
    /// ends the process at once, with 128 and the signal's number.
    ///
    /// While the queue cannot be reached it goes on trying.
    ///
    /// # Errors
    /// [`Error::Refused`] when the queue will have none of it: `unauthenticated`, `forbidden`, or an embedded
    /// queue that was closed or has failed.
    pub async fn run(self) -> Result<Summary, Error> {
        let mut signals = Signals::new();
        let first = async move {
            signals.next().await;
            tracing::info!("stopping: what runs may finish, a second signal ends at once");
            tokio::spawn(async move {
                let number = signals.next().await;
                tracing::warn!("ending at once: what was not finished is visible again after its timeout");
                std::process::exit(128 + number);
            });
        };
        self.run_until(first).await
    }

    /// As [`Worker::run`], until `stop` resolves instead of a signal.
    ///
    /// # Errors
    /// As [`Worker::run`].
    pub async fn run_until(self, stop: impl Future<Output = ()>) -> Result<Summary, Error> {
        Runner::new(&self, Mode::Serve).run(stop).await
    }

    /// Runs all jobs that are due, one at a time, and comes back when there are none: for tests, and for
    /// programs that are started by something else.
    ///
    /// # Errors
    /// As [`Worker::run`], and when the queue cannot be reached.
    pub async fn drain(&self) -> Result<Summary, Error> {
        Runner::new(self, Mode::Drain).run(std::future::pending()).await
    }
}
