//! What a job queue *is*, as two functions over one state.
//!
//! [`decide`] looks at the [`State`] and chooses: it answers with a [`Reply`] or a [`Rejection`] and
//! writes down facts ([`Event`]s) in a [`Draft`]. [`apply`] is the only code that changes the state and
//! cannot fail. Replay applies the same events again and never re-decides, so a change of policy cannot
//! rewrite history. [`run`] joins the two for commands of several steps.
//!
//! Invariants: no I/O, no clock, no randomness, no threads, no logging (the crate is `no_std` and its
//! dependencies are on an allow-list that `make test` checks). Time and entropy enter with the command.
//! Payloads, headers, results and error texts are not in the state, only their place in the log.
//!
//! Instants are milliseconds since the Unix epoch and are named `.._at`; durations are milliseconds and
//! are named `.._ms`. Unless a name says `elapsed`, an instant is on the wall clock.

#![no_std]

extern crate alloc;

mod apply;
mod codec;
mod command;
mod decide;
mod draft;
mod event;
mod figures;
mod id;
mod items;
mod meta;
mod news;
mod options;
mod query;
mod rejection;
mod reply;
mod run;
mod schedule;
mod state;
mod timing;

pub use apply::apply;
pub use codec::{BatchHead, DecodeError, LEVEL, LOST, decode_batch, encode_batch};
pub use command::*;
pub use decide::{CANCELLED_MAX, SavedAnswer, TaskStep, decide, decode_saved};
pub use draft::Draft;
pub use event::{BreakerState, Cursor, Death, Event, TaskKind};
pub use figures::{Histogram, Percentiles};
pub use id::{Hash, JobId, Receipt, Secret};
pub use items::{CopyPlan, ItemKind};
pub use meta::{ErrorEntry, Meta};
pub use news::{BreakerNews, JobNews, JobWord, News};
pub use options::*;
pub use query::*;
pub use rejection::{Rejection, StaleReason};
pub use reply::State as JobState;
pub use reply::{
    Begun, Cancelled, ChildView, ChildrenView, Delivered, Duplicate, Enqueued, HeldBack, JobView, Place, Reply,
    Settled, TaskState, TaskView,
};
pub use run::{EXPIRED_MAX, TICK_STEP_BYTES_MAX, TICK_STEPS_MAX, run};
pub use schedule::*;
pub use state::{
    AUDIT_MAX, BATCH_JOBS_MAX, CHILD_DEPTH_MAX, CHILD_RESULTS_BYTES_MAX, CHILDREN_MAX, HOOKS_MAX, JOB_BYTES,
    JOB_GROWTH_BYTES_MAX, LANES_MAX, LIMITS_MAX, PRODUCER_IDLE_MS, PRODUCERS_MAX, Presence, QUEUE_BYTES,
    QUEUE_LIMITS_MAX, QUEUES_MAX, SCHEMA_BYTES_SUM_MAX, SCHEMAS_MAX, State, TASKS_KEPT_MAX, TASKS_RUNNING_MAX,
};
