//! The simulation is tested itself: by mistakes, each of which it must find. Runs with the feature `mutants` only,
//! in one test, because a mistake is made in the whole process.
#![cfg(feature = "mutants")]

use std::panic;

use recado_mutants::Mutant;
use recado_sim::mistakes::{Seeds, quieten};

#[test]
fn every_mistake_is_found_within_2000_seeds() {
    quieten();
    let mut seeds = Seeds::default();
    let mut is_missed =
        |mutant: &&Mutant| match (0..2_000).find_map(|seed| Some((seed, seeds.violation(seed, **mutant)?))) {
            Some((seed, violation)) => {
                println!("{mutant:?}: seed {seed}, {}: {}", violation.rule, violation.what);
                false
            }
            None => true,
        };
    let missed: Vec<&Mutant> = Mutant::ALL.iter().filter(&mut is_missed).collect();
    let _ = panic::take_hook();
    assert!(missed.is_empty(), "not found: {missed:?}");
}
