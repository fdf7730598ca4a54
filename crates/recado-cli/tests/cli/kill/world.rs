//! What all threads share: where the server is, and what they saw.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};

use serde_json::Value;

use crate::support::PATIENCE;
use crate::support::api::{Answer, Api};

/// Random numbers that a seed gives again (SplitMix64).
pub(super) struct Luck(u64);

impl Luck {
    pub(super) fn new(seed: u64, stream: u64) -> Luck {
        Luck(seed ^ stream.wrapping_mul(0xd134_2543_de82_ef95))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub(super) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// What was asked of the server as one, under one business id.
pub(super) struct Asked {
    pub(super) queue: &'static str,
    pub(super) size: usize,
    /// It was answered with 201, or will be asked again until it is.
    pub(super) must_be_there: bool,
}

/// A job in a worker's hands.
pub(super) struct Delivery {
    pub(super) job: String,
    pub(super) queue: String,
    pub(super) group: String,
    pub(super) number: u64,
    pub(super) replays: u64,
}

/// An ack that was answered with ok.
pub(super) struct Acked {
    pub(super) fence: u64,
    /// Receives that begin later must not answer with this job.
    step: u64,
}

/// What was seen, in nobody's order but that of the fencing tokens and of `step`.
#[derive(Default)]
pub(super) struct Ledger {
    step: u64,
    pub(super) asked: HashMap<String, Asked>,
    /// Jobs by id whose enqueue was answered.
    pub(super) enqueued: HashSet<String>,
    /// By fencing token.
    pub(super) deliveries: HashMap<u64, Delivery>,
    pub(super) acked: HashMap<String, Acked>,
    /// An ack was sent, whatever became of it.
    pub(super) tried: HashSet<String>,
    repeated: u64,
    overtaken: u64,
    held_through_a_kill: u64,
    broken: Vec<String>,
}

struct Place {
    api: Api,
    generation: u64,
}

pub(super) struct World {
    place: Mutex<Place>,
    moved: Condvar,
    ledger: Mutex<Ledger>,
    answers: AtomicU64,
    /// Producers and the operator that are still at it.
    busy: AtomicU64,
    no_more_load: AtomicBool,
    stopped: AtomicBool,
}

impl World {
    pub(super) fn new(api: Api) -> World {
        World {
            place: Mutex::new(Place { api, generation: 0 }),
            moved: Condvar::new(),
            ledger: Mutex::default(),
            answers: AtomicU64::new(0),
            busy: AtomicU64::new(0),
            no_more_load: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
        }
    }

    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap()
    }

    /// Sends one request, once. `None`: the server died, and is back by now or the test is over.
    pub(super) fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &Value) -> Option<Answer> {
        let (api, generation) = {
            let place = self.place.lock().unwrap();
            (place.api.clone(), place.generation)
        };
        let mut all = vec![("content-type", "application/json")];
        all.extend(headers);
        let answer = api.send(method, path, &all, &body.to_string());
        if answer.is_some() {
            self.answers.fetch_add(1, Ordering::Relaxed);
            return answer;
        }
        let place = self.place.lock().unwrap();
        let is_there = |place: &mut Place| place.generation == generation && !self.is_stopped();
        let (_place, waited) = self.moved.wait_timeout_while(place, PATIENCE, is_there).unwrap();
        if waited.timed_out() {
            self.broken("the server did not answer, and was not killed".to_owned());
            self.stop();
        }
        None
    }

    /// As `ask`, again and again until it is answered.
    pub(super) fn ask_until_answered(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Option<Answer> {
        loop {
            let answer = self.ask(method, path, headers, body);
            if answer.is_some() || self.is_stopped() {
                return answer;
            }
        }
    }

    pub(super) fn post(&self, path: &str, body: &Value) -> Option<Answer> {
        self.ask("POST", path, &[], body)
    }

    pub(super) fn moved(&self, api: Api) {
        let mut place = self.place.lock().unwrap();
        *place = Place { api, generation: place.generation + 1 };
        self.moved.notify_all();
    }

    /// How often the server was started again.
    pub(super) fn generation(&self) -> u64 {
        self.place.lock().unwrap().generation
    }

    pub(super) fn answers(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }

    /// One more part of the load, until `done`.
    pub(super) fn begin(&self) {
        self.busy.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn done(&self) {
        self.busy.fetch_sub(1, Ordering::SeqCst);
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.busy.load(Ordering::SeqCst) == 0
    }

    pub(super) fn stop_producers(&self) {
        self.no_more_load.store(true, Ordering::SeqCst);
    }

    pub(super) fn wants_load(&self) -> bool {
        !self.no_more_load.load(Ordering::SeqCst) && !self.is_stopped()
    }

    pub(super) fn stop(&self) {
        // Under the lock, so that nobody begins to wait meanwhile.
        let _place = self.place.lock().unwrap();
        self.stopped.store(true, Ordering::SeqCst);
        self.moved.notify_all();
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// A promise was broken. It is told at the end, when no thread can be left behind by it.
    pub(super) fn broken(&self, what: String) {
        self.ledger().broken.push(what);
    }

    #[track_caller]
    pub(super) fn check(&self) {
        // Not under the lock, which the other threads need to their end.
        let broken = self.ledger().broken.clone();
        assert!(broken.is_empty(), "{}", broken.join("\n"));
    }

    pub(super) fn told(&self) -> String {
        let ledger = self.ledger();
        format!(
            "{} jobs, {} deliveries, {} acked, {} repeated, {} overtaken, {} held through a kill",
            ledger.enqueued.len(),
            ledger.deliveries.len(),
            ledger.acked.len(),
            ledger.repeated,
            ledger.overtaken,
            ledger.held_through_a_kill
        )
    }
}

impl Ledger {
    pub(super) fn step(&mut self) -> u64 {
        self.step += 1;
        self.step
    }

    /// Writes down a job of an answer to a receive that began at `step`.
    pub(super) fn received(&mut self, job: &Value, step: u64) {
        let text = |field: &str| job[field].as_str().unwrap_or_default().to_owned();
        let delivery = Delivery {
            job: text("id"),
            queue: text("queue"),
            group: text("group"),
            number: job["payload"].as_u64().unwrap_or_default(),
            replays: job["replays"].as_u64().unwrap(),
        };
        if self.acked.get(&delivery.job).is_some_and(|acked| acked.step < step) {
            self.broken.push(format!("received after its ack was answered: {job}"));
        }
        let fence = job["fencingToken"].as_u64().unwrap();
        // An attempt that was asked for again is the same delivery.
        if let Some(other) = self.deliveries.insert(fence, delivery)
            && other.job != job["id"]
        {
            self.broken.push(format!("the fencing token of {} again: {job}", other.job));
        }
    }

    /// Writes down the answer to an ack.
    pub(super) fn ack_answered(&mut self, job: &Value, entry: &Value) {
        let id = job["id"].as_str().unwrap().to_owned();
        if entry["ok"] != true {
            if entry["problem"]["code"] != "stale-receipt" {
                self.broken.push(format!("{id}: {entry}"));
            }
            self.overtaken += 1;
            return;
        }
        self.repeated += u64::from(entry["repeated"] == true);
        let (fence, step) = (job["fencingToken"].as_u64().unwrap(), self.step());
        if let Some(before) = self.acked.insert(id.clone(), Acked { fence, step })
            && before.fence != fence
        {
            self.broken.push(format!("{id}: acked by two deliveries, {} and {fence}", before.fence));
        }
    }

    /// A job with a receipt for an hour was settled.
    pub(super) fn held(&mut self, id: &str, was_killed: bool) {
        if !self.acked.contains_key(id) {
            self.broken.push(format!("a receipt for 1 h was refused: {id}"));
        }
        self.held_through_a_kill += u64::from(was_killed);
    }
}
