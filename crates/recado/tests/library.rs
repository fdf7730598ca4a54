//! The library through its public door, over a queue in this process and over a server on a real port: the
//! same tests for both.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[macro_use]
#[path = "library/support.rs"]
mod support;

#[path = "library/children.rs"]
mod children;
#[path = "library/enqueue.rs"]
mod enqueue;
#[path = "library/examples.rs"]
mod examples;
#[path = "library/failures.rs"]
mod failures;
#[path = "library/layers.rs"]
mod layers;
#[path = "library/leases.rs"]
mod leases;
#[path = "library/memory.rs"]
mod memory;
#[path = "library/network.rs"]
mod network;
#[path = "once/mod.rs"]
mod once;
#[path = "library/process.rs"]
mod process;
#[path = "library/proxy.rs"]
mod proxy;
#[path = "library/shutdown.rs"]
mod shutdown;
#[path = "library/work.rs"]
mod work;
