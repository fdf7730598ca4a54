//! `recado-sim --seconds N`: fresh seeds for so long. `--seed X`: one run, told in full. `--mutants [NAME ...]`: how many
//! seeds each mistake of `recado-mutants` lives through.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use recado_sim::{Plan, Run, Work, run, shrink};

#[cfg(feature = "mutants")]
mod mutants;

/// Runs that making a script smaller may take.
const SHRINK_RUNS_MAX: usize = 2_000;
const USAGE: &str = "usage: recado-sim --seconds N | --seed X | --mutants [NAME ...] (with --features mutants)";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<u64>().ok();
    match arguments[..] {
        ["--seconds", text] if number(text).is_some() => explore(Duration::from_secs(number(text).unwrap_or(0))),
        ["--seed", text] if number(text).is_some() => replay(number(text).unwrap_or(0)),
        #[cfg(feature = "mutants")]
        ["--mutants", ref names @ ..] => mutants::measure(names),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(64)
        }
    }
}

fn explore(time: Duration) -> ExitCode {
    let first = RandomState::new().hash_one(std::process::id()) >> 16;
    println!("seeds from {first} on; any of them runs again with --seed (make sim SEED=...)");
    let start = Instant::now();
    let (mut work, mut seeds) = (Work::default(), 0);
    let mut drawn = BTreeMap::<&str, u64>::new();
    while start.elapsed() < time {
        let plan = Plan::draw(first + seeds);
        let run = run(&plan);
        seeds += 1;
        work += run.work;
        plan.options.drawn().into_iter().for_each(|word| *drawn.entry(word).or_default() += 1);
        if run.violation.is_some() {
            throughput(seeds, work, start.elapsed());
            return tell(&plan, &run);
        }
    }
    throughput(seeds, work, start.elapsed());
    let drawn: Vec<String> = drawn.into_iter().map(|(word, count)| format!("{word} {count}")).collect();
    println!("drawn, in how many of them: {}", drawn.join(", "));
    println!("no promise was broken");
    ExitCode::SUCCESS
}

fn throughput(seeds: u64, work: Work, took: Duration) {
    let per_second = |count: u64| count as f64 / took.as_secs_f64().max(1e-9);
    println!(
        "{seeds} seeds in {:.1} s: {} operations ({:.0}/s), {} crashes ({:.0}/s)",
        took.as_secs_f64(),
        work.requests,
        per_second(work.requests),
        work.crashes,
        per_second(work.crashes),
    );
}

fn replay(seed: u64) -> ExitCode {
    println!("seed {seed}");
    let plan = Plan::draw(seed);
    let run = run(&plan);
    if run.violation.is_some() {
        return tell(&plan, &run);
    }
    print_run(&plan, &run);
    println!("no promise was broken");
    ExitCode::SUCCESS
}

/// A failure, by the smallest script that still shows it.
fn tell(plan: &Plan, failed: &Run) -> ExitCode {
    println!("seed {} breaks a promise; making its {} steps fewer", plan.seed, plan.script.len());
    let smallest = shrink(plan, SHRINK_RUNS_MAX);
    let last = run(&smallest);
    print_run(&smallest, &last);
    for (name, run) in [("whole", failed), ("shrunk", &last)] {
        if let Some(violation) = &run.violation {
            println!("seed {}, {name}: {} is broken: {}", plan.seed, violation.rule, violation.what);
        }
    }
    ExitCode::FAILURE
}

fn print_run(plan: &Plan, run: &Run) {
    println!("options: {:#?}\n\nscript:", plan.options);
    for step in &plan.script {
        println!("{:>11.3} ms  {:?}", step.at as f64 / 1_000.0, step.action);
    }
    println!("\nhistory:");
    for entry in &run.history {
        println!("{entry}");
    }
}
