//! Measures how soon each mistake is found.

use std::collections::BTreeMap;
use std::process::ExitCode;

use recado_mutants::Mutant;
use recado_sim::mistakes::{Seeds, quieten};

/// Places to begin at, so far from each other that none comes to another's.
const TRIES: [u64; 20] = {
    let mut tries = [0; 20];
    let mut at = 0;
    while at < tries.len() {
        tries[at] = at as u64 * 1_000_000;
        at += 1;
    }
    tries
};
/// A mistake that lives so long counts as missed.
const SEEDS_MAX: u64 = 2_000;

/// Prints a line of the table in `docs/reliability.md` for each mistake of these names, or for all.
pub(crate) fn measure(names: &[&str]) -> ExitCode {
    quieten();
    println!("| mistake | found as | median seeds |\n|---|---|---|");
    let is_wanted = |mutant: &&Mutant| names.is_empty() || names.contains(&format!("{mutant:?}").as_str());
    let (mut seeds, mut missed) = (Seeds::default(), 0);
    for mutant in Mutant::ALL.iter().filter(is_wanted) {
        let (rules, median) = median(&mut seeds, *mutant);
        missed += usize::from(median.is_none());
        let median = median.map_or("missed".into(), |median| median.to_string());
        println!("| {mutant:?} | {rules} | {median} |");
    }
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What the tries found, and how many seeds more than half of them needed at most. All tries go forward together: how
/// long the slower half would take does not matter to the median.
fn median(seeds: &mut Seeds, mutant: Mutant) -> (String, Option<u64>) {
    let mut rules = BTreeMap::<String, usize>::new();
    let (mut open, mut median) = (TRIES.to_vec(), None);
    for count in 0..SEEDS_MAX {
        open.retain(|from| match seeds.violation(from + count, mutant) {
            Some(violation) => {
                *rules.entry(violation.rule.to_string()).or_default() += 1;
                false
            }
            None => true,
        });
        if open.len() < TRIES.len() / 2 {
            median = Some(count + 1);
            break;
        }
    }
    let mut rules: Vec<(usize, String)> = rules.into_iter().map(|(rule, count)| (count, rule)).collect();
    rules.sort_unstable_by(|a, b| b.cmp(a));
    let rules: Vec<String> = rules.into_iter().map(|(count, rule)| format!("{rule} ({count})")).collect();
    (rules.join(", "), median)
}
