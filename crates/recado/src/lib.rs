//! A durable job queue: producer and worker over a queue in this process or over a server, with the same
//! types and the same behaviour.
//!
//! [`Recado::open`] keeps the queue in a directory of this process, [`Recado::connect`] talks to a server;
//! nothing else in a program changes when the queue moves out of the process. A kind of work is a serde type that
//! is a [`Job`]; [`Recado::enqueue`] puts one in its queue; a [`Worker`] takes them and runs handlers, whose errors
//! say what becomes of the job ([`JobError`]).
//!
//! What the queue promises (acknowledged means durable, at least once, one effect for an idempotency key, finite
//! attempts) holds on both sides. What this library adds:
//!
//! - An enqueue is repeated while its answer is missing, until a deadline, and makes one job all the same.
//! - A worker extends its leases at a third; a handler whose lease is lost, or whose job is cancelled, is told, and
//!   a lost run changes nothing.
//! - A panic is a failure, a hanging handler is cut off, a stop gives back what it does not finish.
//!
//! Features: `tls` (default) for `https://` servers, `metrics` for the layer that counts runs for Prometheus,
//! `testing` for a queue in memory with a clock that is moved by hand.

mod backend;
mod delivery;
mod enqueue;
mod error;
mod job;
pub mod layer;
pub mod once;
mod pause;
mod recado;
#[cfg(feature = "testing")]
pub mod testing;
mod trace;
mod worker;

pub use backend::{ConnectOptions, OpenOptions};
pub use delivery::{Child, ChildCounts, JobFailure};
pub use enqueue::{Enqueue, EnqueueAll, Enqueued};
pub use error::{BoxError, Error};
pub use job::{Backoff, Job, JobOptions, OnChildDead, OnDuplicate};
pub use recado::{JobStatus, Recado};
pub use recado_contract::problem::Problem;
pub use recado_core::JobId;
pub use trace::TraceContext;
pub use worker::{Cancelled, Classify, Ctx, Disposition, Handler, JobError, Summary, Worker, WorkerBuilder};

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
