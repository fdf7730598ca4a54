//! What a fuzzer calls: functions that take any bytes and panic when something is wrong with what became of them.
//!
//! `make fuzz` runs them under libFuzzer (`fuzz/`, where a nightly toolchain is present). The tests of this crate run
//! the same functions on stable: over all of `fuzz/corpus`, then over a bounded number of random changes of it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is how a finding is reported")]

mod config;
mod cron;
mod durations;
mod events;
mod http;
mod log;
pub mod mutate;
mod sqs;

use std::sync::{Mutex, PoisonError};

use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// What takes one input.
pub type Target = fn(&[u8]);

/// Every target by the name of its corpus.
pub const TARGETS: [(&str, Target); 7] = [
    ("config", config::run),
    ("cron", cron::run),
    ("durations", durations::run),
    ("events", events::run),
    ("http", http::run),
    ("log", log::run),
    ("sqs", sqs::run),
];

/// Runs one input of a target. One at a time, so that what is measured is that input's.
///
/// # Panics
/// When the input shows a defect, or there is no such target.
pub fn run(name: &str, input: &[u8]) {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (_, target) = TARGETS.iter().find(|(target, _)| *target == name).expect("a target of this name");
    target(input);
}

/// Runs something that may have at most so many more bytes in memory at any moment; how many is asked when it is done.
fn within_memory<T>(bytes_max: impl FnOnce() -> usize, work: impl FnOnce() -> T) -> T {
    MEMORY.reset_peak_usage();
    let before = MEMORY.current_usage();
    let done = work();
    let used = MEMORY.peak_usage().saturating_sub(before);
    let bytes_max = bytes_max();
    assert!(used <= bytes_max, "{used} bytes of memory, at most {bytes_max} were expected");
    done
}
