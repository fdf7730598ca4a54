//! Random operations on the core and on the model: every reply and every job's state must agree, and the log
//! must say what the state says. `RECADO_LONG=1` draws many more; `RECADO_SEED=n` runs one seed.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::ops::{Dice, Op, draw};
use crate::pair::Pair;

/// Operations of one run.
const OPERATIONS: usize = 120;
const SEEDS: u64 = 40;
const SEEDS_LONG: u64 = 20_000;

fn play(seed: u64, operations: &[Op]) {
    let mut pair = Pair::new(seed);
    for op in operations {
        pair.act(op);
    }
    pair.world.check_replay();
}

fn fails(seed: u64, operations: &[Op]) -> bool {
    catch_unwind(AssertUnwindSafe(|| play(seed, operations))).is_err()
}

/// Leaves out operations, many at first and one by one at last, as long as the rest fails.
fn shrink(seed: u64, mut operations: Vec<Op>) -> Vec<Op> {
    let mut size = operations.len() / 2;
    while size > 0 {
        let mut from = 0;
        while from < operations.len() {
            let mut fewer = operations.clone();
            fewer.drain(from..(from + size).min(fewer.len()));
            if fails(seed, &fewer) {
                operations = fewer;
            } else {
                from += size;
            }
        }
        size /= 2;
    }
    operations
}

#[test]
fn the_core_does_what_the_model_does() {
    let seeds = match std::env::var("RECADO_SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => seed..seed + 1,
        None if std::env::var_os("RECADO_LONG").is_some() => 0..SEEDS_LONG,
        None => 0..SEEDS,
    };
    for seed in seeds {
        let mut dice = Dice(seed);
        let operations: Vec<Op> = (0..OPERATIONS).map(|_| draw(&mut dice)).collect();
        if fails(seed, &operations) {
            let short = shrink(seed, operations);
            let script: Vec<String> = short.iter().map(|op| format!("    {op:?}")).collect();
            eprintln!("seed {seed}, {} operations:\n{}", short.len(), script.join("\n"));
            play(seed, &short);
            panic!("seed {seed} fails only now and then");
        }
    }
}
