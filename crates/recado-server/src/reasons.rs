//! How often each queue refused its producers, or took what it has something against, and why.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use recado_contract::gate::Warned;

use crate::problem::Problem;

/// Queues of which refusals are counted; a server holds no more.
const QUEUES_MAX: usize = 10_000;

/// Counts by queue and reason since this process began.
#[derive(Default)]
pub(crate) struct Reasons(Mutex<HashMap<Box<str>, BTreeMap<String, u64>>>);

impl Reasons {
    /// Counts a refusal by an existing queue.
    pub(crate) fn count(&self, queue: &str, problem: &Problem) {
        if problem.status() == 404 {
            return; // the queue does not exist: a hostile name must not grow the table
        }
        self.add(queue, problem.reason(), 1);
    }

    /// Counts jobs that an existing queue took nonetheless.
    pub(crate) fn add_taken(&self, queue: &str, warned: Warned) {
        for (reason, count) in warned.by_reason().into_iter().filter(|(_, count)| *count > 0) {
            self.add(queue, reason, count);
        }
    }

    fn add(&self, queue: &str, reason: &str, count: u64) {
        let mut queues = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !queues.contains_key(queue) && queues.len() >= QUEUES_MAX {
            queues.clear(); // only after as many queues were deleted: counters start again, as after a restart
        }
        let reasons = queues.entry(queue.into()).or_default();
        *reasons.entry(reason.to_owned()).or_default() += count;
    }

    /// The counts of one queue.
    pub(crate) fn of(&self, queue: &str) -> BTreeMap<String, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(queue).cloned().unwrap_or_default()
    }
}
