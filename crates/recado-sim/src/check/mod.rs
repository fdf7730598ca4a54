//! Holds the promises over a history: what clients saw, what was done to the servers, and how it all was at the
//! end. A file a promise, or a family of them. Where clients cannot know what happened, everything that may
//! have happened is allowed.

mod batch;
mod bounded;
mod dedup;
mod effect;
mod fenced;
mod finite;
mod guard;
mod hand_off;
mod hidden;
mod kept;
mod ledger;
mod order;
mod pace;

use std::fmt;

use crate::history::Entry;
use crate::plan::Plan;
use ledger::Ledger;

/// What a server is held to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A promise, by its number.
    Promise(u8),
    /// Rate limits, in-flight limits and circuit breakers.
    Limits,
    /// What deduplication keys, producers' numbers and `Idempotency-Key`s stop.
    Keys,
    /// An assertion of the server itself.
    Assertion,
    /// What the log promises the shard.
    Log,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Promise(number) => write!(f, "promise {number}"),
            Self::Limits => f.write_str("limits"),
            Self::Keys => f.write_str("keys"),
            Self::Assertion => f.write_str("assertion"),
            Self::Log => f.write_str("the log alone"),
        }
    }
}

/// Something that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// What it was held to.
    pub rule: Rule,
    /// How it was broken.
    pub what: String,
}

/// What a checker found, if it found something.
pub(crate) type Verdict = Result<(), Violation>;

fn broken(promise: u8, what: String) -> Verdict {
    Err(Violation { rule: Rule::Promise(promise), what })
}

/// The first promise that was broken.
pub(crate) fn check(plan: &Plan, history: &[Entry]) -> Verdict {
    let ledger = Ledger::new(plan, history);
    kept::starts(&ledger, history)
        .and_then(|()| fenced::check(&ledger))
        .and_then(|()| hidden::check(&ledger))
        .and_then(|()| finite::check(&ledger))
        .and_then(|()| hand_off::check(&ledger))
        .and_then(|()| effect::check(&ledger))
        .and_then(|()| guard::check(&ledger))
        .and_then(|()| order::check(&ledger))
        .and_then(|()| pace::check(&ledger))
        .and_then(|()| batch::check(&ledger))
        .and_then(|()| dedup::check(&ledger))
        .and_then(|()| bounded::check(&ledger, history))
        .and_then(|()| kept::check(&ledger))
}
