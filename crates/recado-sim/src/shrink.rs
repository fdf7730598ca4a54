//! Makes a script that fails smaller.

use crate::plan::Plan;

/// Leaves out steps as long as the same rule is still broken; runs the plan at most `runs` times.
#[must_use]
pub fn shrink(plan: &Plan, runs: usize) -> Plan {
    let rule = |plan: &Plan| crate::run(plan).violation.map(|violation| violation.rule);
    let broken = rule(plan);
    let mut smallest = plan.clone();
    let mut left = runs;
    let mut chunk = smallest.script.len().div_ceil(2);
    while chunk > 0 && left > 0 {
        let mut at = 0;
        while at < smallest.script.len() && left > 0 {
            let mut smaller = smallest.clone();
            smaller.script.drain(at..(at + chunk).min(smallest.script.len()));
            left -= 1;
            if rule(&smaller) == broken {
                smallest = smaller;
            } else {
                at += chunk;
            }
        }
        chunk = if chunk == 1 { 0 } else { chunk.div_ceil(2) };
    }
    smallest
}
