//! The simulation is tested itself: by mistakes, each of which it must find. Runs with the feature `mutants` only,
//! in one test, because a mistake is made in the whole process.
#![cfg(feature = "mutants")]

use std::panic;

use recado_mutants::{Mutant, make};
use recado_sim::first_failure;

#[test]
fn every_mistake_is_found_within_2000_seeds() {
    panic::set_hook(Box::new(|_| {}));
    let is_missed = |mutant: &&Mutant| {
        make(Some(**mutant));
        match first_failure(0, 2_000) {
            Some((seed, violation)) => println!("{mutant:?}: seed {seed}, {}: {}", violation.rule, violation.what),
            None => return true,
        }
        false
    };
    let missed: Vec<&Mutant> = Mutant::ALL.iter().filter(is_missed).collect();
    make(None);
    let _ = panic::take_hook();
    assert!(missed.is_empty(), "not found: {missed:?}");
}
