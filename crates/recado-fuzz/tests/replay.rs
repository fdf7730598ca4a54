//! All targets over their corpus, then over random changes of it.
//!
//! `RECADO_SEED` repeats a run, `RECADO_LONG` makes it longer. An input that fails is printed: as a file in
//! `fuzz/corpus/TARGET` it is tried first for ever.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is how a finding is reported")]

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::time::SystemTime;

use recado_fuzz::mutate::{Random, mutate};

/// Times as many inputs in a long run.
const LONG: u64 = 50;

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut paths: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

fn run(target: &str, input: &[u8], what: &str) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| recado_fuzz::run(target, input))) {
        println!("{what}: target {target}, input b\"{}\"", input.escape_ascii());
        resume_unwind(panic);
    }
}

fn replay(target: &str, count: u64) {
    let corpus = corpus(target);
    assert!(!corpus.is_empty());
    for input in &corpus {
        run(target, input, "corpus");
    }
    let seed = std::env::var("RECADO_SEED").ok().map(|seed| seed.parse().unwrap());
    let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let seed: u64 = seed.unwrap_or_else(|| u64::from(now().subsec_nanos()));
    let count = if std::env::var_os("RECADO_LONG").is_some() { LONG * count } else { count };
    for number in 0..count {
        // Each by its own number, so that one of them can be had again without the others.
        let mut random = Random(seed ^ (number << 32));
        run(target, &mutate(&corpus, &mut random), &format!("RECADO_SEED={seed}, number {number}"));
    }
}

#[test]
fn config() {
    replay("config", 20_000);
}

#[test]
fn cron() {
    replay("cron", 5_000);
}

#[test]
fn durations() {
    replay("durations", 200_000);
}

#[test]
fn events() {
    replay("events", 50_000);
}

#[test]
fn http() {
    replay("http", 3_000);
}

#[test]
fn log() {
    replay("log", 300);
}

#[test]
fn sqs() {
    replay("sqs", 50_000);
}
