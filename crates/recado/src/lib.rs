//! A durable job queue: producer and worker over a queue in this process or over a server, with the same
//! types and the same behaviour.
//!
//! [`Recado::open`] keeps the queue in a directory of this process, [`Recado::connect`] talks to a server;
//! nothing else in a program changes when the queue moves out of the process.

mod backend;
mod delivery;
mod enqueue;
mod error;
mod job;
mod recado;
#[cfg(feature = "testing")]
pub mod testing;
mod worker;

pub use backend::{ConnectOptions, OpenOptions};
pub use delivery::JobFailure;
pub use enqueue::{Enqueue, EnqueueAll, Enqueued};
pub use error::{BoxError, Error};
pub use job::{Backoff, Job, JobOptions, OnDuplicate};
pub use recado::{JobStatus, Recado};
pub use recado_contract::problem::Problem;
pub use recado_core::JobId;
pub use worker::{Cancelled, Classify, Ctx, Disposition, Handler, JobError, Summary, Worker, WorkerBuilder};
