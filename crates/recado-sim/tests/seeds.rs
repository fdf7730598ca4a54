//! The seeds that every test run plays.

use recado_sim::{Plan, first_failure, run};

/// What every test run plays.
const SEEDS: u64 = 200;

#[test]
fn two_hundred_seeds_break_no_promise() {
    if let Some((seed, violation)) = first_failure(0, SEEDS) {
        panic!("make sim SEED={seed}: {} is broken: {}", violation.rule, violation.what);
    }
}

#[test]
fn a_seed_plays_the_same_again() {
    for seed in 0..20 {
        let (once, again) = (run(&Plan::draw(seed)), run(&Plan::draw(seed)));
        assert!(once == again, "seed {seed} played differently");
        assert!(once.work.requests > 0);
    }
}
