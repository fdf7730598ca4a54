//! Steps that are done once: one suite over every store, each as it really is.

// What a test expects and does not find is its failure.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "once/child.rs"]
mod child;
#[path = "once/job.rs"]
mod job;
#[path = "once/memory.rs"]
mod memory;
#[cfg(feature = "postgres")]
#[path = "once/postgres.rs"]
mod postgres;
#[path = "once/queue.rs"]
mod queue;
#[cfg(feature = "redis")]
#[path = "once/redis.rs"]
mod redis;
#[cfg(any(feature = "postgres", feature = "redis"))]
#[path = "once/service.rs"]
mod service;
#[path = "once/suite.rs"]
mod suite;
