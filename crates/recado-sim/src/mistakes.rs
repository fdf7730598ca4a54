//! How soon the simulation finds a mistake of `recado-mutants`.
//!
//! Most mistakes are far from what most seeds come to. So each seed is played once without any, which tells what it came to:
//! a mistake that it did not come to would have changed nothing, and the seed is not played again for it.

use std::collections::BTreeMap;

use recado_mutants::{Mutant, Reached, make};

use crate::{Plan, Violation, run};

/// Panics are told no more, as mistakes make servers break off, and that is caught; but for what is found without any.
pub fn quieten() {
    std::panic::set_hook(Box::new(|info| {
        if info.to_string().contains(UNEXPECTED) {
            eprintln!("{info}");
        }
    }));
}

const UNEXPECTED: &str = "breaks a promise without a mistake";

/// Seeds, and what they came to.
#[derive(Default)]
pub struct Seeds {
    reached: BTreeMap<u64, Reached>,
}

impl Seeds {
    /// What a seed finds broken with a mistake made.
    ///
    /// # Panics
    /// When it finds something without: then it has found no mistake, but a defect.
    pub fn violation(&mut self, seed: u64, mutant: Mutant) -> Option<Violation> {
        let plan = Plan::draw(seed);
        let reached = self.reached.entry(seed).or_insert_with(|| {
            make(None);
            Reached::take();
            let found = run(&plan).violation;
            assert!(found.is_none(), "seed {seed} {UNEXPECTED}: {found:?}");
            Reached::take()
        });
        if !reached.has(mutant) {
            return None;
        }
        make(Some(mutant));
        let violation = run(&plan).violation;
        make(None);
        violation
    }
}
