//! Steps that are done once: one suite over every store, each as it really is.

mod child;
mod job;
mod memory;
#[cfg(feature = "postgres")]
mod postgres;
mod queue;
#[cfg(feature = "redis")]
mod redis;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod service;
mod suite;
