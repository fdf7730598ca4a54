//! A batch is in, whole, or refused, and names each bad entry.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::api::{Answer, Api, list};
use crate::support::stage::Stage;
use crate::support::until;

/// The place of the bad entry in the batches below.
const BAD: usize = 2;

/// Five jobs, the one in the middle as given.
fn batch_with(bad: &Value) -> Value {
    let good = json!({ "type": "t", "idempotencyKey": "k", "businessId": "b-2", "group": "g" });
    json!([good, good, bad, good, good])
}

#[track_caller]
fn names_the_bad_one(answer: &Answer, status: u16, code: &str) {
    let problem = answer.problem(status, code);
    let errors = list(&problem, "errors");
    assert!(!errors.is_empty() && errors.iter().all(|error| error["index"] == BAD), "{problem}");
}

#[test]
fn promise_8_all_or_nothing() {
    let mut stage = Stage::new();
    stage.configure("q", &json!({ "maxDepth": 7, "payload": { "maxSize": "10B" } }));
    let held = json!({ "type": "t", "payload": 1, "dedup": { "key": "d", "for": "1h" } });
    stage.enqueue_all("q", &json!([held, { "type": "t" }]));
    let before = stage.stats("q");
    let conflict =
        json!({ "type": "t", "payload": 2, "dedup": { "key": "d", "for": "1h", "onDuplicate": "conflict" } });
    for (bad, status, code) in [
        (json!({ "type": "" }), 400, "invalid-name"),
        (json!({ "payload": 1 }), 400, "invalid-request"),
        (json!({ "type": "t", "prority": 1 }), 400, "invalid-request"),
        (json!({ "type": "t", "delay": "soon" }), 400, "invalid-request"),
        (json!({ "type": "t", "payload": "12345678901" }), 413, "payload-too-large"),
        (conflict.clone(), 409, "duplicate-conflict"),
    ] {
        println!("{bad}");
        names_the_bad_one(&stage.post("/v1/queues/q/jobs", &batch_with(&bad)), status, code);
        let by_producer = json!({ "producer": { "name": "p", "seq": 1 }, "jobs": batch_with(&bad) });
        names_the_bad_one(&stage.post("/v1/queues/q/jobs", &by_producer), status, code);
    }
    // Whichever check each fails, all of them are named at once.
    let long = json!({ "type": "t", "payload": "12345678901" });
    let good = json!({ "type": "t" });
    for (batch, status, code, bad) in [
        (
            json!([{ "type": "" }, good, long, { "typ": "t" }, { "type": "t", "delay": "soon" }]),
            400,
            "invalid-request",
            [0, 2, 3, 4].as_slice(),
        ),
        (json!([long, good, long]), 413, "payload-too-large", &[0, 2]),
        (json!([conflict, good, conflict]), 409, "duplicate-conflict", &[0, 2]),
        (json!([good, long, conflict]), 400, "invalid-request", &[1, 2]),
    ] {
        let problem = stage.post("/v1/queues/q/jobs", &batch).problem(status, code);
        let named: std::collections::BTreeSet<u64> =
            list(&problem, "errors").iter().map(|error| error["index"].as_u64().unwrap()).collect();
        assert_eq!(named, bad.iter().copied().collect(), "{problem}");
    }
    let six = json!(vec![json!({ "type": "t" }); 6]);
    stage.post("/v1/queues/q/jobs", &six).problem(429, "queue-full");
    for _ in 0..2 {
        let now = stage.stats("q");
        for figure in ["depth", "ready", "delayed", "completed"] {
            assert_eq!(now[figure], before[figure], "{figure}");
        }
        assert_eq!(list(&stage.get("/v1/jobs?businessId=b-2").expect(200), "jobs").len(), 0);
        stage.crash();
    }
    // A refused batch used neither its number nor its keys.
    let good = json!({ "producer": { "name": "p", "seq": 1 }, "jobs": batch_with(&json!({ "type": "t" })) });
    assert_eq!(stage.enqueue_all("q", &good).len(), 5);
}

/// A large batch and a kill: whichever was first, there is no half.
#[test]
fn promise_8_all_or_nothing_when_killed_in_the_middle() {
    let mut stage = Stage::new();
    let batch = json!(vec![json!({ "type": "t", "payload": "x".repeat(200) }); 3_000]);
    let mut whole = 0;
    for round in 0..4 {
        let api: Api = (*stage).clone();
        let asked = AtomicU64::new(0);
        let answered = thread::scope(|scope| {
            let producer = scope.spawn(|| {
                let ask = || {
                    asked.fetch_add(1, Ordering::SeqCst);
                    api.ask("POST", "/v1/queues/q/jobs", &batch)
                };
                let mut answered = 0;
                while ask().is_some_and(|answer| answer.status == 201) {
                    answered += 1;
                }
                answered
            });
            // Somewhere in the second batch, or in the third.
            until("a batch is on its way", || (asked.load(Ordering::SeqCst) >= 2).then(Instant::now));
            let (start, moment) = (Instant::now(), Duration::from_millis(30 * round));
            until("the moment", || (start.elapsed() >= moment).then_some(()));
            stage.kill();
            producer.join().unwrap()
        });
        stage.start();
        let depth = stage.get("/v1/queues/q/stats");
        let depth = if depth.status == 404 { 0 } else { depth.expect(200)["depth"].as_u64().unwrap() };
        assert_eq!(depth % 3_000, 0, "half a batch");
        let batches = depth / 3_000;
        assert!(batches == whole + answered || batches == whole + answered + 1, "{whole} + {answered}: {batches}");
        whole = batches;
    }
}
