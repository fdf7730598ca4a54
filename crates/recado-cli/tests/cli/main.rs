//! The `recado` binary from outside: real processes, real ports, real files.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot set its stage up has to stop")]

mod backpressure;
mod children;
mod clock;
mod commands;
mod config;
mod damage;
mod demo;
mod directory;
mod doctor;
mod faults;
mod fixtures;
mod hooks;
mod promises;
mod readme;
mod schedules;
mod shutdown;
mod storage;
mod support;
mod types;
mod usage;
mod workers;
