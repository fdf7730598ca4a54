//! A job is delivered until it has ended, and to one worker at a time.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::api::{Api, LONG_POLL, id};
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
