//! A job uses at most `maxAttempts` attempts, and only what was tried and failed uses one.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::api::{id, kinds, list};
use crate::support::stage::Stage;
use crate::support::until;

fn fixed(base: &str) -> Value {
    json!({ "kind": "fixed", "base": base, "jitter": "none" })
}

#[test]
fn promise_5_finite_whatever_ends_an_attempt() {
    let mut stage = Stage::new();
    let options = json!({ "maxAttempts": 4, "visibilityTimeout": "100ms", "backoff": fixed("1ms") });
    stage.configure("q", &options);
    let job = stage.enqueue("q", &json!({ "type": "t" }));
    let long = json!({ "wait": "30s", "visibilityTimeout": "1h" });
    for attempt in 1..=4 {
        if attempt % 2 == 0 {
            let delivery = stage.take("q");
            assert_eq!(delivery["attempts"], attempt);
            until("the timeout passes", || (stage.state(&job) != "inFlight").then_some(()));
        } else {
            let delivery = stage.receive("q", &long).remove(0);
            assert_eq!(delivery["attempts"], attempt);
            stage.fail(&delivery, true);
        }
        if attempt == 2 {
            stage.crash();
        }
    }
    stage.until_state(&job, "dead");
    stage.crash();
    let dead = stage.job(&job);
    assert_eq!((&dead["state"], &dead["attempts"], &dead["deliveries"]), (&json!("dead"), &json!(4), &json!(4)));
    assert_eq!(kinds(&dead), ["smtp", "visibility-timeout", "smtp", "visibility-timeout"]);
    stage.nothing_from("q");
}

#[test]
fn promise_5_finite_a_permanent_failure_is_the_last() {
    let stage = Stage::new();
    let job = stage.enqueue("q", &json!({ "type": "t" }));
    stage.fail(&stage.take("q"), false);
    let dead = stage.job(&job);
    assert_eq!((&dead["state"], &dead["attempts"]), (&json!("dead"), &json!(1)));
    stage.nothing_from("q");
}

#[test]
fn promise_5_finite_the_first_and_the_last_ten_errors_are_kept() {
    let mut stage = Stage::new();
    stage.configure("q", &json!({ "maxAttempts": 25, "backoff": fixed("0s") }));
    let job = stage.enqueue("q", &json!({ "type": "t" }));
    for n in 1..=25 {
        let fail = json!({ "outcome": "fail", "error": { "message": format!("attempt {n}") } });
        stage.settled(&stage.take("q"), &fail);
    }
    stage.crash();
    let dead = stage.job(&job);
    let attempts: Vec<u64> = list(&dead, "errors").iter().map(|error| error["attempt"].as_u64().unwrap()).collect();
    let expected: Vec<u64> = (1..=10).chain(16..=25).collect();
    assert_eq!((dead["state"].as_str(), attempts), (Some("dead"), expected));
}

/// Given back, snoozed, cut off: none of it is the job's fault.
#[test]
fn promise_5_finite_releases_and_lost_answers_use_no_attempt() {
    let stage = Stage::new();
    stage.configure("q", &json!({ "maxAttempts": 2 }));
    let job = stage.enqueue("q", &json!({ "type": "t" }));
    for deliveries in 1..=5 {
        let delivery = stage.take("q");
        assert_eq!((&delivery["attempts"], &delivery["deliveries"]), (&json!(1), &json!(deliveries)));
        let release = if deliveries % 2 == 0 {
            json!({ "outcome": "release" })
        } else {
            json!({ "outcome": "release", "delay": "10ms" })
        };
        stage.settled(&delivery, &release);
        assert_eq!(stage.job(&job)["attempts"], 0);
    }
    stage.ack(&stage.take("q"));
}

/// Hand-outs are bounded even where attempts are not used.
#[test]
fn promise_5_finite_max_deliveries_bounds_everything() {
    let stage = Stage::new();
    stage.configure("q", &json!({ "maxDeliveries": 3 }));
    let job = stage.enqueue("q", &json!({ "type": "t" }));
    for _ in 0..3 {
        stage.settled(&stage.take("q"), &json!({ "outcome": "release", "reason": "not mine" }));
    }
    let dead = stage.job(&job);
    assert_eq!((&dead["state"], &dead["deliveries"]), (&json!("dead"), &json!(3)), "{dead}");
    let last = list(&dead, "errors").last().unwrap();
    let message = "released: not mine; that was hand-out 3, the last that maxDeliveries allows";
    assert_eq!((&last["kind"], &last["message"]), (&json!("max-deliveries"), &json!(message)));
    stage.configure("r", &json!({ "maxDeliveries": 1 }));
    let other = stage.enqueue("r", &json!({ "type": "t" }));
    stage.fail(&stage.take("r"), true);
    let dead = stage.job(&other);
    let message = "no route; that was hand-out 1, the last that maxDeliveries allows";
    assert_eq!((&dead["errors"][0]["kind"], &dead["errors"][0]["message"]), (&json!("smtp"), &json!(message)));
    // A replay begins anew; every hand-out stays counted.
    stage.post("/v1/queues/q/dead/replay", &json!({ "ids": [job] })).expect(202);
    let delivery = stage.take("q");
    assert_eq!((&delivery["attempts"], &delivery["deliveries"]), (&json!(1), &json!(4)));
    stage.settled(&delivery, &json!({ "outcome": "release" }));
    assert_eq!(stage.state(&job), "ready");
}

/// The server's down time is not the worker's fault, however often it is down.
#[test]
fn promise_5_finite_down_time_uses_no_attempt() {
    let mut stage = Stage::new();
    let timeout = Duration::from_millis(400);
    stage.configure("q", &json!({ "maxAttempts": 2, "visibilityTimeout": "400ms" }));
    let job = stage.enqueue("q", &json!({ "type": "t" }));
    let mut interrupted = 0;
    while interrupted < 3 {
        let before = Instant::now();
        let delivery = stage.take("q");
        let received = Instant::now();
        stage.kill();
        // Unless this machine held us up so long that the lease ended in service.
        let in_time = before.elapsed() < timeout;
        until("its end falls into down time", || (received.elapsed() > timeout).then_some(()));
        stage.start();
        stage.until_state(&job, "ready");
        let now = stage.job(&job);
        if !in_time {
            return println!("too slow a machine for this test: {delivery}");
        }
        interrupted += 1;
        assert_eq!(kinds(&now), vec!["interrupted"; interrupted], "{now}");
        assert_eq!((&now["attempts"], &now["deliveries"]), (&json!(0), &json!(interrupted)), "{now}");
    }
    let delivery = stage.take("q");
    assert_eq!((id(&delivery), &delivery["attempts"]), (job, &json!(1)));
    stage.ack(&delivery);
}
