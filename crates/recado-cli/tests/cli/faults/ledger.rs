//! What the clients saw, in nobody's order but that of the fencing tokens and of moments.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::visibility;

/// What was asked of the server as one, under one business id.
pub(super) struct Asked {
    pub(super) queue: &'static str,
    pub(super) size: usize,
    /// It was answered with 201, or will be asked again until it is.
    pub(super) must_be_there: bool,
}

/// When a request began.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    step: u64,
    at: Instant,
}

/// A job in a worker's hands.
pub(super) struct Delivery {
    pub(super) job: String,
    pub(super) queue: String,
    pub(super) group: String,
    pub(super) key: Option<String>,
    pub(super) number: u64,
    pub(super) replays: u64,
    /// Its receive was sent: the lease began after this.
    asked: Instant,
    /// Its receive was answered: the lease had begun by then.
    pub(super) answered: Instant,
    /// Its first settle was sent.
    let_go: Option<Instant>,
}

impl Delivery {
    /// Until this moment at least nobody else may have the job: the lease had not ended, or nothing was settled.
    pub(super) fn is_held_until(&self) -> Instant {
        let lease_end = self.asked + visibility(&self.queue);
        self.let_go.map_or(lease_end, |let_go| let_go.min(lease_end))
    }
}

/// An ack that was answered with ok.
pub(super) struct Acked {
    pub(super) fence: u64,
    /// Receives that begin later must not answer with this job.
    step: u64,
}

#[derive(Default)]
pub(super) struct Ledger {
    step: u64,
    pub(super) asked: HashMap<String, Asked>,
    /// Jobs by id whose enqueue was answered.
    pub(super) enqueued: HashSet<String>,
    /// By fencing token.
    pub(super) deliveries: HashMap<u64, Delivery>,
    pub(super) acked: HashMap<String, Acked>,
    /// Jobs that were failed for good, with an answer.
    pub(super) buried: HashSet<String>,
    /// An ack was sent, whatever became of it.
    pub(super) tried: HashSet<String>,
    repeated: u64,
    overtaken: u64,
    held_through_an_end: u64,
    broken: Vec<String>,
}

impl Ledger {
    pub(super) fn moment(&mut self) -> Moment {
        self.step += 1;
        Moment { step: self.step, at: Instant::now() }
    }

    /// Writes down a job of an answer to a receive that began then. It used at most so many attempts.
    pub(super) fn received(&mut self, job: &Value, began: Moment, attempts_max: u64) {
        let text = |field: &str| job[field].as_str().unwrap_or_default().to_owned();
        let delivery = Delivery {
            job: text("id"),
            queue: text("queue"),
            group: text("group"),
            key: job["idempotencyKey"].as_str().map(str::to_owned),
            number: job["payload"].as_u64().unwrap_or_default(),
            replays: job["replays"].as_u64().unwrap(),
            asked: began.at,
            answered: Instant::now(),
            let_go: None,
        };
        if self.acked.get(&delivery.job).is_some_and(|acked| acked.step < began.step) {
            self.broken(format!("received after its ack was answered: {job}"));
        }
        if job["attempts"].as_u64().is_none_or(|attempts| attempts > attempts_max) {
            self.broken(format!("more than {attempts_max} attempts: {job}"));
        }
        let fence = job["fencingToken"].as_u64().unwrap();
        // An attempt that was asked for again is the same delivery.
        if let Some(other) = self.deliveries.insert(fence, delivery)
            && other.job != job["id"]
        {
            self.broken(format!("the fencing token of {} again: {job}", other.job));
        }
    }

    /// Notes that a settle is about to be sent.
    pub(super) fn settling(&mut self, job: &Value, entry: &Value) {
        if entry["outcome"] == "ack" {
            self.tried.insert(job["id"].as_str().unwrap().to_owned());
        }
        let delivery = self.deliveries.get_mut(&job["fencingToken"].as_u64().unwrap());
        if entry["outcome"] != "extend"
            && let Some(delivery) = delivery
        {
            delivery.let_go.get_or_insert_with(Instant::now);
        }
    }

    /// Writes down what a settle came to.
    pub(super) fn settled(&mut self, job: &Value, entry: &Value, answer: &Value) {
        let id = job["id"].as_str().unwrap().to_owned();
        if answer["ok"] != true {
            if answer["problem"]["code"] != "stale-receipt" {
                self.broken(format!("{id}: {answer}"));
            }
            self.overtaken += 1;
        } else if entry["outcome"] == "ack" {
            self.acked(id, job["fencingToken"].as_u64().unwrap());
        } else if entry["error"]["retryable"] == false {
            self.buried.insert(id);
        }
        self.repeated += u64::from(answer["repeated"] == true);
    }

    fn acked(&mut self, id: String, fence: u64) {
        let step = self.moment().step;
        if let Some(before) = self.acked.insert(id.clone(), Acked { fence, step })
            && before.fence != fence
        {
            self.broken(format!("{id}: acked by two deliveries, {} and {fence}", before.fence));
        }
    }

    /// A job with a receipt for an hour was settled.
    pub(super) fn held(&mut self, id: &str, through_an_end: bool) {
        if !self.acked.contains_key(id) {
            self.broken(format!("a receipt for 1 h was refused: {id}"));
        }
        self.held_through_an_end += u64::from(through_an_end);
    }

    pub(super) fn broken(&mut self, what: String) {
        self.broken.push(what);
    }

    pub(super) fn all_broken(&self) -> Vec<String> {
        self.broken.clone()
    }
}

impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} jobs, {} deliveries, {} acked, {} repeated, {} overtaken, {} held through an end",
            self.enqueued.len(),
            self.deliveries.len(),
            self.acked.len(),
            self.repeated,
            self.overtaken,
            self.held_through_an_end
        )
    }
}

/// What a lease may seem shorter by: clocks are read in milliseconds.
pub(super) const CLOCK_GRAIN: Duration = Duration::from_millis(5);
