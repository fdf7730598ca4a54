//! Recado under a deterministic simulation: the production core, shard and log run over simulated time,
//! disks, network and processes, and everything a run does follows from one seed.
//!
//! A seed draws [`Options`] and a script ([`Plan`]); the world plays the script and writes down
//! what clients saw ([`history`]); checkers hold the promises over that, and over nothing else. A script that
//! fails is made smaller by leaving steps out. Only the seams are simulated: clock, entropy, disk, the
//! threads that read, and the way of requests and answers.

mod check;
mod client;
pub mod history;
#[cfg(feature = "mutants")]
pub mod mistakes;
mod options;
mod payload;
mod plan;
mod random;
mod script;
mod server;
mod shrink;
mod worker;
mod world;

pub use check::{Rule, Violation};
pub use options::Options;
pub use plan::Plan;
pub use script::{Action, Fault, Request, Step};
pub use shrink::shrink;
pub use world::Work;

use std::panic::{AssertUnwindSafe, catch_unwind};

use history::Entry;
use recado_log::sim::chaos;

/// What came of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// What clients saw.
    pub history: Vec<Entry>,
    /// How much it was.
    pub work: Work,
    /// The first thing that was found broken.
    pub violation: Option<Violation>,
}

/// Plays a plan and checks it; then the seed's life of a log alone, which comes to places that a server rarely gets to.
#[must_use]
pub fn run(plan: &Plan) -> Run {
    let (mut history, mut work) = (Vec::new(), Work::default());
    // A server that breaks off has found its own mistake.
    let played = unbroken(Rule::Assertion, || world::play(plan, &mut history, &mut work));
    let checked = played.and_then(|()| check::check(plan, &history));
    let alone = || unbroken(Rule::Log, || chaos::play(plan.seed, plan.options.server.durability));
    let violation = checked.and_then(|()| alone()).err();
    Run { history, work, violation }
}

fn unbroken(rule: Rule, play: impl FnOnce()) -> Result<(), Violation> {
    catch_unwind(AssertUnwindSafe(play)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).into()));
        Violation { rule, what: text.unwrap_or_default() }
    })
}

/// The first of `count` seeds from `from` on that breaks something, and what it breaks.
#[must_use]
pub fn first_failure(from: u64, count: u64) -> Option<(u64, Violation)> {
    (from..from + count).find_map(|seed| run(&Plan::draw(seed)).violation.map(|violation| (seed, violation)))
}
