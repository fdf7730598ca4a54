//! Two jobs with one idempotency key: one effect.

use std::collections::HashMap;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use serde_json::{Value, json};

use crate::support::PATIENCE;
use crate::support::api::{Api, failure, id, list, settle_of};
use crate::support::stage::Stage;

const KEYS: usize = 6;
const JOBS_PER_KEY: usize = 10;

/// What the world outside has seen of one key.
#[derive(Default)]
struct Seen {
    /// In a worker's hands now.
    out: Option<String>,
    failures: usize,
    effects: usize,
}

fn key_of(job: &Value) -> String {
    job["idempotencyKey"].as_str().unwrap().to_owned()
}

/// Takes jobs and does them until all are done; the first delivery of every key fails.
fn work(api: &Api, world: &Mutex<HashMap<String, Seen>>) {
    let deadline = Instant::now() + PATIENCE;
    while api.stats("q")["depth"] != 0 {
        assert!(Instant::now() < deadline, "it takes too long: {}", api.stats("q"));
        for job in api.receive("q", &json!({ "max": 3, "wait": "100ms" })) {
            let key = key_of(&job);
            let fails = {
                let mut world = world.lock().unwrap();
                let seen = world.entry(key.clone()).or_default();
                assert_eq!(seen.out, None, "two jobs of {key} are in flight");
                assert_eq!(seen.effects, 0, "{key} was done before");
                seen.out = Some(id(&job));
                seen.failures == 0
            };
            // The other workers run.
            thread::yield_now();
            let mut locked = world.lock().unwrap();
            let seen = locked.get_mut(&key).unwrap();
            // Told before the server knows, since the next delivery may come before its answer.
            seen.out = None;
            if fails {
                seen.failures += 1;
            } else {
                seen.effects += 1;
            }
            drop(locked);
            let ack = json!({ "outcome": "ack", "result": { "doneBy": job["id"] } });
            api.settled(&job, &if fails { failure(true) } else { ack });
        }
    }
}

#[test]
fn promise_6_one_effect_for_workers_that_hammer_one_key() {
    let mut stage = Stage::new();
    // Nothing may time out here, however slow this machine: two would be in flight for us, not for the server.
    let backoff = json!({ "kind": "fixed", "base": "1ms" });
    stage.configure("q", &json!({ "visibilityTimeout": "1h", "backoff": backoff, "keepCompleted": "1h" }));
    let job = |n: usize| json!({ "type": "t", "idempotencyKey": format!("key-{}", n % KEYS) });
    let jobs: Vec<Value> = (0..KEYS * JOBS_PER_KEY).map(job).collect();
    let jobs = stage.enqueue_all("q", &json!(jobs));
    let world = Mutex::new(HashMap::new());
    let api: &Api = &stage;
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| work(api, &world));
        }
    });
    for seen in world.lock().unwrap().values() {
        assert_eq!((seen.failures, seen.effects), (1, 1));
    }
    assert_eq!(stage.stats("q")["skipped"], KEYS * (JOBS_PER_KEY - 1));
    stage.crash();
    let mut results: HashMap<String, Value> = HashMap::new();
    for job in &jobs {
        let job = stage.job(job);
        assert_eq!(job["state"], "completed", "{job}");
        let result = results.entry(key_of(&job)).or_insert_with(|| job["result"].clone());
        assert_eq!((&job["result"], result.is_null()), (&*result, false), "one result for all");
    }
    // Whoever comes later, and after a kill, gets the saved result.
    let late = stage.enqueue("q", &job(0));
    stage.until_state(&late, "completed");
    assert_eq!(stage.job(&late)["result"], results["key-0"]);
    stage.nothing_from("q");
}

#[test]
fn promise_6_one_effect_across_a_kill() {
    let mut stage = Stage::new();
    stage.configure("q", &json!({ "visibilityTimeout": "1h" }));
    let job = json!({ "type": "t", "idempotencyKey": "k" });
    let pair = stage.enqueue_all("q", &json!([job, job]));
    let first = stage.take("q");
    for _ in 0..2 {
        let answer = stage.post("/v1/queues/q/receive", &json!({})).expect(200);
        assert_eq!((list(&answer, "jobs").len(), &answer["emptyBecause"]), (0, &json!("idempotency-key-in-flight")));
        stage.crash();
    }
    stage.settled(&first, &json!({ "outcome": "ack", "result": 7 }));
    stage.crash();
    for id in pair {
        stage.until_state(&id, "completed");
        assert_eq!(stage.job(&id)["result"], 7);
    }
}

/// `idempotency.keep` is over, but one that carries the key is unfinished.
#[test]
fn promise_6_one_effect_while_a_job_carries_the_key() {
    let mut stage = Stage::new();
    stage.configure("q", &json!({ "visibilityTimeout": "1h", "idempotency": { "keep": "0s" } }));
    let job = json!({ "type": "t", "idempotencyKey": "k" });
    let (failed, done) = (stage.enqueue("q", &job), stage.enqueue("q", &job));
    stage.fail(&stage.take("q"), false);
    assert_eq!(stage.state(&failed), "dead");
    let delivery = stage.take("q");
    assert_eq!(delivery["id"], done.as_str());
    stage.settled(&delivery, &json!({ "outcome": "ack", "result": 7 }));
    stage.crash();
    stage.post("/v1/queues/q/dead/replay", &json!({ "ids": [failed] })).expect(202);
    stage.until_state(&failed, "completed");
    assert_eq!(stage.job(&failed)["result"], 7, "the dead one carried the key");
    stage.nothing_from("q");
}

/// An answer that was lost: the worker settles again with the next receive.
#[test]
fn promise_6_one_effect_when_settles_come_with_receives() {
    let stage = Stage::new();
    stage.configure("q", &json!({ "visibilityTimeout": "1h" }));
    let job = json!({ "type": "t", "idempotencyKey": "k" });
    stage.enqueue_all("q", &json!([job, job, { "type": "t", "idempotencyKey": "other" }]));
    let first = stage.take("q");
    let ack = settle_of(&first, &json!({ "outcome": "ack" }));
    for repeated in [false, true] {
        let body = json!({ "max": 9, "settle": [ack] });
        let answer = stage.post("/v1/queues/q/receive", &body).expect(200);
        let settled = &list(&answer, "settled")[0];
        assert_eq!((&settled["ok"], settled["repeated"] == true), (&json!(true), repeated), "{settled}");
        for job in list(&answer, "jobs") {
            assert_eq!(key_of(job), "other", "its key has completed");
        }
    }
}
