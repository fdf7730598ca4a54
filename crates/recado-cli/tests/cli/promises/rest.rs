//! At least once, hidden while in flight, no silent loss, all or nothing.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::api::{Answer, Api, LONG_POLL, id, list};
use crate::support::stage::Stage;

#[test]
fn promise_2_at_least_once_until_one_of_its_ends() {
    let mut stage = Stage::new();
    let options =
        json!({ "visibilityTimeout": "100ms", "maxAttempts": 100, "backoff": { "kind": "fixed", "base": "1ms" } });
    stage.configure("q", &options);
    let jobs = stage.enqueue_all("q", &json!(vec![json!({ "type": "t" }); 30]));
    // Workers that forget, fail and die with the server; every job is delivered and comes back.
    stage.receive("q", &json!({ "max": 20 }));
    stage.crash();
    for delivery in stage.receive("q", &json!({ "max": 10, "wait": LONG_POLL })) {
        stage.settle(&delivery, &json!({ "outcome": "fail", "error": { "message": "x" } }));
    }
    stage.crash();
    let mut acked = Vec::new();
    while acked.len() < jobs.len() {
        let delivery = stage.take("q");
        if stage.settle(&delivery, &json!({ "outcome": "ack" }))["ok"] == true {
            acked.push(id(&delivery));
        }
    }
    acked.sort();
    let mut all = jobs.clone();
    all.sort();
    assert_eq!(acked, all, "each was delivered until its ack, and none after");
    stage.crash();
    for job in &jobs {
        assert_eq!(stage.state(job), "completed");
    }
}

#[test]
fn promise_2_at_least_once_other_ends_are_told() {
    let mut stage = Stage::new();
    let job = json!({ "type": "t" });
    let cancelled = stage.enqueue("q", &job);
    stage.delete(&format!("/v1/jobs/{cancelled}")).expect(200);
    let expired = stage.enqueue("q", &json!({ "type": "t", "expiresAfter": "100ms" }));
    stage.until_state(&expired, "expired");
    let keyed =
        |n: u64| json!({ "type": "t", "payload": n, "dedup": { "key": "k", "for": "1h", "onDuplicate": "replace" } });
    let replaced = stage.enqueue("q", &keyed(1));
    assert_eq!(stage.enqueue("q", &keyed(2)), replaced);
    let dead = stage.enqueue("q", &json!({ "type": "t", "priority": 9 }));
    stage.fail(&stage.take("q"), false);
    let purged = stage.enqueue("p", &job);
    assert_eq!(stage.post("/v1/queues/p/purge", &json!({ "reason": "test" })).expect(200), json!({ "purged": 1 }));
    stage.crash();
    for (id, state) in [(&cancelled, "cancelled"), (&expired, "expired"), (&replaced, "ready"), (&dead, "dead")] {
        assert_eq!(stage.state(id), state);
    }
    stage.get(&format!("/v1/jobs/{purged}")).problem(410, "gone");
    let delivery = stage.take("q");
    assert_eq!((id(&delivery), &delivery["payload"]), (replaced, &json!(2)));
    stage.ack(&delivery);
}

#[test]
fn promise_3_hidden_while_in_flight() {
    let mut stage = Stage::new();
    stage.configure("q", &json!({ "visibilityTimeout": "1h" }));
    stage.enqueue_all("q", &json!(vec![json!({ "type": "t" }); 4]));
    let out = stage.receive("q", &json!({ "max": 4 }));
    stage.settled(&out[0], &json!({ "outcome": "extend", "visibilityTimeout": "2h" }));
    for _ in 0..3 {
        stage.nothing_from("q");
        stage.crash();
    }
    stage.nothing_from("q");
    stage.settled(&out[1], &json!({ "outcome": "release" }));
    assert_eq!(stage.take("q")["id"], out[1]["id"]);
    for delivery in [&out[0], &out[2], &out[3]] {
        stage.ack(delivery);
    }
}

/// What another worker waits for comes when the timeout has passed, not before, also from a new process.
#[test]
fn promise_3_hidden_until_the_timeout() {
    let mut stage = Stage::new();
    stage.configure("q", &json!({ "visibilityTimeout": "1s" }));
    stage.enqueue("q", &json!({ "type": "t" }));
    for crash in [false, true] {
        let started = Instant::now();
        let delivery = stage.take("q");
        if crash {
            stage.crash();
        }
        let second = stage.take("q");
        assert!(started.elapsed() >= Duration::from_secs(1), "a second worker had it after {:?}", started.elapsed());
        assert_eq!(second["id"], delivery["id"]);
        stage.settled(&second, &json!({ "outcome": "release" }));
    }
}

/// Many workers at once: each job goes to one of them.
#[test]
fn promise_3_hidden_from_all_others() {
    let stage = Stage::new();
    stage.configure("q", &json!({ "visibilityTimeout": "1h" }));
    let jobs = stage.enqueue_all("q", &json!(vec![json!({ "type": "t" }); 200]));
    let api: &Api = &stage;
    let take_all = || {
        let mut taken = Vec::new();
        loop {
            let out = api.receive("q", &json!({ "max": 3 }));
            if out.is_empty() {
                return taken;
            }
            taken.extend(out.iter().map(id));
        }
    };
    let mut taken: Vec<String> = thread::scope(|scope| {
        let workers: Vec<_> = (0..4).map(|_| scope.spawn(take_all)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    taken.sort();
    let mut all = jobs;
    all.sort();
    assert_eq!(taken, all);
}

#[test]
fn promise_7_no_silent_loss() {
    let mut stage = Stage::new();
    let options = json!({ "maxAttempts": 1, "visibilityTimeout": "100ms", "keepCompleted": { "for": "0s", "max": 0 } });
    stage.configure("q", &options);
    let job = |n: u64| json!({ "type": "t", "payload": n, "expiresAfter": "1h", "idempotencyKey": format!("k{n}") });
    let jobs = stage.enqueue_all("q", &json!((0..5).map(job).collect::<Vec<_>>()));
    let out = stage.receive("q", &json!({ "max": 5 }));
    for job in &jobs {
        stage.until_state(job, "dead");
    }
    let purge = json!({ "states": ["ready", "delayed"], "reason": "test" });
    assert_eq!(stage.post("/v1/queues/q/purge", &purge).expect(200), json!({ "purged": 0 }));
    stage.delete(&format!("/v1/jobs/{}", jobs[0])).problem(409, "job-not-waiting");
    stage.delete("/v1/queues/q").problem(409, "queue-not-empty");
    stage.configure("q", &json!({ "maxAttempts": 9, "deadLetter": { "max": 1 } }));
    stage.crash();
    for job in &jobs {
        assert_eq!(stage.state(job), "dead");
    }
    // The ways out, and the trail of those that are an operator's.
    stage.ack(&out[0]);
    stage.post("/v1/queues/q/dead/replay", &json!({ "ids": [jobs[1]], "reason": "fixed" })).expect(202);
    stage.until_state(&jobs[1], "ready");
    stage.post("/v1/queues/q/dead/discard", &json!({ "ids": [jobs[2]], "reason": "test" })).expect(200);
    stage.crash();
    assert_eq!(stage.stats("q")["dead"], 2);
    let trail = stage.audit("q");
    assert!(trail.contains(&"replayed".to_owned()) && trail.contains(&"discarded".to_owned()), "{trail:?}");
    for job in &jobs[3..] {
        assert_eq!(stage.state(job), "dead");
    }
}

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
        (conflict, 409, "duplicate-conflict"),
    ] {
        println!("{bad}");
        names_the_bad_one(&stage.post("/v1/queues/q/jobs", &batch_with(&bad)), status, code);
        let by_producer = json!({ "producer": { "name": "p", "seq": 1 }, "jobs": batch_with(&bad) });
        names_the_bad_one(&stage.post("/v1/queues/q/jobs", &by_producer), status, code);
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
    for _ in 0..3 {
        let api: Api = (*stage).clone();
        let answered = thread::scope(|scope| {
            let producer = scope.spawn(|| {
                let mut answered = 0;
                while api.ask("POST", "/v1/queues/q/jobs", &batch).is_some_and(|answer| answer.status == 201) {
                    answered += 1;
                }
                answered
            });
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
