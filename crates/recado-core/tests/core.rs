//! The rules of the queue, on its pure core. One binary, a module a subject.

// The lint knows test functions, not what they share.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, unreachable_pub)]

#[path = "core/script.rs"]
mod script;
#[path = "core/words.rs"]
mod words;
#[path = "core/world.rs"]
mod world;

#[path = "core/leases.rs"]
mod leases;
