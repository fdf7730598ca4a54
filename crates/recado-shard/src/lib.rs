//! The single writer: joins the core's state with a log.
//!
//! A shard drains requests, decides them in order, builds one batch while the batches before it are
//! being synced, and lets every answer leave only once all it was decided on is committed. Long polls,
//! timers, bulk actions and trimming live here too.
//!
//! Invariants: nothing leaves before it is durable (see the exception in `parked.rs`), and in order;
//! what was applied ahead of the log is never undone, so room is claimed before anything is decided; a
//! failure of the log is final. The writer waits for nothing but the log: payloads are read, and patches merged, by other
//! threads. It knows neither HTTP nor JSON, and no file: only the verbs of [`recado_log::Log`].
//!
//! [`Shard::step`] is deterministic given its clock, entropy, log, workers and requests; [`start_file`]
//! runs it on a thread.

mod cache;
mod clock;
mod error;
mod feed;
mod fill;
mod guard;
mod handle;
mod inbox;
mod once;
mod parked;
mod pool;
mod receive;
mod recover;
mod serve;
mod service;
mod shard;
mod shared;
mod space;
mod status;
mod tasks;
mod trim;
mod waiters;
mod watchers;
mod writer;

pub use clock::{Clock, Entropy, SystemClock, SystemEntropy};
pub use error::{Error, OpenError};
pub use feed::{Heard, LISTEN_AFTER, Listener, TOLD_MAX, Told};
pub use fill::{FilledJob, Part, Unreadable};
pub use guard::DeliveryGuard;
pub use handle::{BackupError, Handle, Received};
pub use once::Once;
pub use pool::{Inline, Job, ReaderPool, Workers};
pub use recover::Replayed;
pub use service::{FileOptions, Service, block_on, start, start_file};
pub use shard::{Next, Options, Shard};
pub use status::{COMMIT_BOUNDS_US, CommitTimes, Status};
pub use tasks::MergePatch;
