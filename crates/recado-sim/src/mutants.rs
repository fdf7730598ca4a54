//! Measures how soon each mistake is found.

use std::process::ExitCode;

use recado_mutants::{Mutant, make};
use recado_sim::first_failure;

/// Places to begin at.
const TRIES: u64 = 20;
/// A mistake that lives so long counts as missed.
const SEEDS_MAX: u64 = 2_000;

/// Prints a line of the table in `docs/reliability.md` for each mistake of these names, or for all.
pub(crate) fn measure(names: &[&str]) -> ExitCode {
    std::panic::set_hook(Box::new(|_| {}));
    println!("| mistake | found as | median seeds |\n|---|---|---|");
    let mut missed = 0;
    let is_wanted = |mutant: &&Mutant| names.is_empty() || names.contains(&format!("{mutant:?}").as_str());
    for mutant in Mutant::ALL.iter().filter(is_wanted) {
        make(Some(*mutant));
        let mut rules = std::collections::BTreeMap::<String, usize>::new();
        let mut needed: Vec<u64> = Vec::new();
        for attempt in 0..TRIES {
            match first_failure(attempt * 1_000_000, SEEDS_MAX) {
                Some((seed, violation)) => {
                    needed.push(seed - attempt * 1_000_000 + 1);
                    *rules.entry(violation.rule.to_string()).or_default() += 1;
                }
                None => missed += 1,
            }
        }
        needed.sort_unstable();
        let mut rules: Vec<(usize, String)> = rules.into_iter().map(|(rule, count)| (count, rule)).collect();
        rules.sort_unstable_by(|a, b| b.cmp(a));
        let rules: Vec<String> = rules.into_iter().map(|(count, rule)| format!("{rule} ({count})")).collect();
        let median = needed.get(needed.len() / 2).map_or("missed".into(), u64::to_string);
        println!("| {mutant:?} | {} | {median} |", rules.join(", "));
    }
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
