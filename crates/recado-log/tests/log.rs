//! The promises of the local log, on simulated and real disks. One binary, a module a subject.

// The lint knows test functions, not what they share.
#![allow(clippy::unwrap_used)]

#[path = "log/backup.rs"]
mod backup;
#[path = "log/basic.rs"]
mod basic;
#[path = "log/chaos.rs"]
mod chaos;
#[path = "log/corruption.rs"]
mod corruption;
#[path = "log/faults.rs"]
mod faults;
#[path = "log/lazy.rs"]
mod lazy;
#[path = "log/opening.rs"]
mod opening;
#[path = "log/power.rs"]
mod power;
#[path = "log/repair.rs"]
mod repair;
#[path = "log/reuse.rs"]
mod reuse;
#[path = "log/space.rs"]
mod space;
#[path = "log/start.rs"]
mod start;
#[path = "log/threads.rs"]
mod threads;
#[path = "log/trim.rs"]
mod trim;
#[path = "log/world.rs"]
mod world;
