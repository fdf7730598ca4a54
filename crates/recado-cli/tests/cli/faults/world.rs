//! What all threads share: where the server is, and what they saw.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};

use serde_json::Value;

use super::ledger::Ledger;
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

    /// Sends one request, once. `None`: the server ended, and is back by now or the test is over.
    pub(super) fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &Value) -> Option<Answer> {
        let (api, generation) = self.place();
        let mut all = vec![("content-type", "application/json")];
        all.extend(headers);
        let answer = api.send(method, path, &all, &body.to_string());
        if let Some(answer) = answer.filter(|answer| !is_stopping(answer)) {
            self.answers.fetch_add(1, Ordering::Relaxed);
            return Some(answer);
        }
        self.wait_until_moved(generation);
        None
    }

    /// Where the server is, and how often it was started again.
    pub(super) fn place(&self) -> (Api, u64) {
        let place = self.place.lock().unwrap();
        (place.api.clone(), place.generation)
    }

    /// Who was not answered by the server of this generation waits for the next one.
    pub(super) fn wait_until_moved(&self, generation: u64) {
        let place = self.place.lock().unwrap();
        let is_there = |place: &mut Place| place.generation == generation && !self.is_stopped();
        let (place, waited) = self.moved.wait_timeout_while(place, PATIENCE, is_there).unwrap();
        drop(place);
        if waited.timed_out() {
            self.broken("the server did not answer, and was not ended".to_owned());
            self.stop();
        }
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

    pub(super) fn generation(&self) -> u64 {
        self.place().1
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
        self.ledger().broken(what);
    }

    #[track_caller]
    pub(super) fn check(&self) {
        // Not under the lock, which the other threads need to their end.
        let broken = self.ledger().all_broken();
        assert!(broken.is_empty(), "{}", broken.join("\n"));
    }
}

/// The server is about to end: as good as no answer.
fn is_stopping(answer: &Answer) -> bool {
    answer.status == 503 && answer.value()["code"] == "stopping"
}
