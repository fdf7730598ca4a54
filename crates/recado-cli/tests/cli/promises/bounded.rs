//! At a limit producers are refused and told when to come back; consumers go on.

use serde_json::{Value, json};

use crate::support::api::id;
use crate::support::stage::Stage;

fn jobs(count: usize) -> Value {
    json!(vec![json!({ "type": "t" }); count])
}

#[test]
fn promise_9_bounded_depth() {
    let mut stage = Stage::new();
    stage.configure("q", &json!({ "maxDepth": 5, "backoff": { "kind": "fixed", "base": "1h" } }));
    stage.enqueue_all("q", &jobs(5));
    for _ in 0..2 {
        let problem = stage.post("/v1/queues/q/jobs", &jobs(1)).problem(429, "queue-full");
        assert_eq!((&problem["limit"], &problem["actual"]), (&json!(5), &json!(6)), "{problem}");
        stage.crash();
    }
    // Consumers go on, and what they give back is never refused.
    let out = stage.receive("q", &json!({ "max": 5 }));
    stage.settled(&out[0], &json!({ "outcome": "release" }));
    stage.fail(&out[1], true);
    stage.settled(&out[2], &json!({ "outcome": "extend" }));
    stage.post("/v1/queues/q/jobs", &jobs(1)).problem(429, "queue-full");
    stage.ack(&out[3]);
    stage.ack(&out[4]);
    stage.post("/v1/queues/q/jobs", &jobs(3)).problem(429, "queue-full");
    stage.enqueue_all("q", &jobs(2));
    // A limit holds one queue only.
    stage.enqueue("other", &json!({ "type": "t" }));
    assert_eq!(stage.stats("q")["depth"], 5);
}

#[test]
fn promise_9_bounded_dead_letters_and_keys() {
    let stage = Stage::new();
    stage.configure("q", &json!({ "deadLetter": { "max": 2 }, "maxAttempts": 1 }));
    let ids = stage.enqueue_all("q", &jobs(3));
    for delivery in stage.receive("q", &json!({ "max": 3 })) {
        stage.fail(&delivery, true);
    }
    let problem = stage.post("/v1/queues/q/jobs", &jobs(1)).problem(429, "queue-full");
    assert!(problem["reason"].is_string(), "{problem}");
    // A death is never refused, and none pushes out another.
    for id in &ids {
        assert_eq!(stage.state(id), "dead");
    }
    stage.post("/v1/queues/q/dead/discard", &json!({ "ids": ids[..2], "reason": "test" })).expect(200);
    stage.enqueue("q", &json!({ "type": "t" }));

    stage.configure("k", &json!({ "idempotency": { "max": 2 } }));
    let job = |key: &str| json!({ "type": "t", "idempotencyKey": key });
    stage.enqueue_all("k", &json!([job("a"), job("b")]));
    stage.post("/v1/queues/k/jobs", &job("c")).problem(429, "queue-full");
    stage.enqueue("k", &job("a"));
    stage.enqueue("k", &json!({ "type": "t" }));
    let delivery = stage.take("k");
    stage.ack(&delivery);
}

#[test]
fn promise_9_bounded_memory() {
    let mut stage = Stage::with(&["--durability", "os", "--memory", "256KiB"]);
    stage.configure("q", &json!({ "keepCompleted": "0s" }));
    let mut count = 0;
    let problem = loop {
        let answer = stage.post("/v1/queues/q/jobs", &jobs(100));
        if answer.status != 201 {
            break answer.problem(503, "overloaded");
        }
        count += 100;
        assert!(count < 100_000, "memory has no bound");
    };
    assert!(problem["detail"].is_string(), "{problem}");
    assert!(count >= 500, "{count} plain jobs in 256 KiB");
    stage.crash();
    // Over the limit after a start, too, everything can be read, received and settled.
    assert_eq!(stage.stats("q")["depth"], count);
    stage.post("/v1/queues/q/jobs", &jobs(100)).problem(503, "overloaded");
    let mut done = 0;
    while done < count {
        let out = stage.receive("q", &json!({ "max": 1000 }));
        assert!(!out.is_empty(), "{done} of {count}");
        let ack = |job: &Value| json!({ "id": id(job), "receipt": job["receipt"], "outcome": "ack" });
        let acks: Vec<Value> = out.iter().map(ack).collect();
        let settled = stage.post("/v1/settle", &json!(acks)).expect(200);
        assert!(settled["settled"].as_array().unwrap().iter().all(|entry| entry["ok"] == true));
        done += out.len();
    }
    stage.enqueue_all("q", &jobs(100));
}
