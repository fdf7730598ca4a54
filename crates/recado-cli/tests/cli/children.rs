//! Children and batches through the real binary and across its deaths.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::api::Api;
use crate::support::stage::Stage;
use crate::support::{pass, until};

fn ack(api: &Api, queue: &str, result: &Value) -> Value {
    let job = api.take(queue);
    api.settled(&job, &json!({ "outcome": "ack", "result": result }));
    job
}

/// Queue `q` gives a job one attempt.
fn stage() -> Stage {
    let stage = Stage::new();
    stage.configure("q", &json!({ "maxAttempts": 1 }));
    stage
}

fn children(job: &Value) -> Vec<(String, Value)> {
    let children = job["children"]["jobs"].as_array().unwrap_or_else(|| panic!("no children: {job}"));
    children.iter().map(|child| (child["state"].as_str().unwrap().to_owned(), child["result"].clone())).collect()
}

#[test]
fn a_parent_runs_once_after_its_children_whatever_dies_between() {
    let mut stage = stage();
    let parent = stage.enqueue(
        "q",
        &json!({ "type": "p", "children": [
        { "type": "c" }, { "type": "c", "queue": "r" }, { "type": "c", "queue": "s", "delay": "100ms" },
    ] }),
    );
    for (queue, result) in [("q", 1), ("r", 2), ("s", 3)] {
        assert_eq!(stage.job(&parent)["state"], "blocked");
        stage.crash();
        ack(&stage, queue, &json!(result));
    }
    stage.crash();
    let job = stage.take("q");
    assert_eq!(job["id"], json!(parent));
    let expected = [1, 2, 3].map(|result| ("completed".to_owned(), json!(result)));
    assert_eq!(children(&job), expected);
    stage.crash();
    stage.settled(&job, &json!({ "outcome": "ack" }));
    stage.crash();
    stage.nothing_from("q");
    assert_eq!(stage.job(&parent)["state"], "completed");
}

#[test]
fn a_child_that_does_not_complete_is_its_parents_end_or_is_not() {
    let stage = stage();
    let on = |what: &str| json!({ "type": "p", "onChildDead": what, "children": [{ "type": "c" }, { "type": "c" }] });
    type End = fn(&Api, &Value);
    let ends: [(&str, End); 4] = [
        ("dead", |api, child| {
            let outcome = json!({ "outcome": "fail", "error": { "message": "no", "retryable": false } });
            api.settled(child, &outcome);
        }),
        ("cancelled", |api, child| {
            let asked = api.delete(&format!("/v1/jobs/{}", child["id"].as_str().unwrap()));
            assert_eq!(asked.status, 202, "{asked:?}");
            api.settled(child, &json!({ "outcome": "release" }));
        }),
        ("purged", |api, child| {
            api.settled(child, &json!({ "outcome": "release" }));
            api.post("/v1/queues/q/purge", &json!({ "reason": "test" })).expect(200);
        }),
        ("dead", |api, child| {
            // Its visibility timeout kills it.
            let id = child["id"].as_str().unwrap();
            until("the child is dead", || (api.job(id)["state"] == "dead").then_some(()));
        }),
    ];
    for (word, end) in ends {
        for what in ["fail", "continue"] {
            let parent = stage.enqueue("q", &on(what));
            ack(&stage, "q", &json!(7));
            let child = stage.receive("q", &json!({ "visibilityTimeout": "200ms" })).remove(0);
            end(&stage, &child);
            if what == "continue" {
                let job = stage.take("q");
                assert_eq!(job["id"], json!(parent));
                assert_eq!(children(&job), [("completed".into(), json!(7)), (word.to_owned(), Value::Null)]);
                stage.settled(&job, &json!({ "outcome": "ack" }));
            } else {
                let view =
                    until("the parent is dead", || Some(stage.job(&parent)).filter(|job| job["state"] == "dead"));
                assert_eq!(view["errors"][0]["kind"], "child-dead", "{view}");
                assert_eq!(view["attempts"], 0, "it was not tried");
                stage.nothing_from("q");
            }
        }
    }
}

#[test]
fn an_expired_child_counts_as_dead_and_a_dead_parent_can_be_replayed() {
    let stage = stage();
    let child = json!({ "type": "c", "expiresAfter": "1ms", "delay": "1h" });
    let parent = stage.enqueue("q", &json!({ "type": "p", "children": [child] }));
    until("the parent is dead", || (stage.job(&parent)["state"] == "dead").then_some(()));
    stage.post("/v1/queues/q/dead/replay", &json!({ "ids": [parent] })).expect(202);
    let job = stage.take("q");
    assert_eq!((&job["id"], children(&job)), (&json!(parent), vec![("expired".into(), Value::Null)]));
}

/// Workers go on while the server is killed again and again: each batch ends once, after all of its jobs.
#[test]
fn each_batch_ends_exactly_once_across_kills() {
    const BATCHES: usize = 6;
    const JOBS: usize = 20;
    let mut stage = Stage::new();
    stage.configure("q", &json!({ "visibilityTimeout": "60s" }));
    stage.configure("ends", &json!({ "visibilityTimeout": "60s" }));
    for number in 0..BATCHES {
        let last = json!({ "type": "end", "payload": number, "queue": "ends" });
        let job = json!({ "type": "c", "batch": { "id": format!("b{number}"), "onComplete": last } });
        stage.enqueue_all("q", &json!(vec![job; JOBS]));
    }
    let mut done = 0;
    let mut ends: BTreeMap<u64, usize> = BTreeMap::new();
    while done < BATCHES * JOBS {
        let jobs = stage.receive("q", &json!({ "max": 7, "wait": "1s" }));
        let entries: Vec<Value> =
            jobs.iter().map(|job| json!({ "id": job["id"], "receipt": job["receipt"], "outcome": "ack" })).collect();
        // The answer of every other settle is lost with the server that would give it.
        if done % 2 == 0 {
            let (api, entries) = (Api::clone(&stage), json!(entries));
            let asking = thread::spawn(move || api.ask("POST", "/v1/settle", &entries));
            pass(Duration::from_millis(done as u64 % 5));
            stage.crash();
            drop(asking.join());
        }
        for settled in stage.post("/v1/settle", &json!(entries)).expect(200)["settled"].as_array().unwrap() {
            assert_eq!(settled["ok"], true, "{settled}");
        }
        done += jobs.len();
    }
    for _ in 0..BATCHES {
        let job = stage.take("ends");
        *ends.entry(job["payload"].as_u64().unwrap()).or_default() += 1;
        assert_eq!(job["children"], json!({ "total": JOBS, "pending": 0, "completed": JOBS, "failed": 0 }));
        stage.crash();
        stage.settled(&job, &json!({ "outcome": "ack" }));
    }
    assert_eq!(ends, (0..BATCHES as u64).map(|number| (number, 1)).collect());
    stage.nothing_from("ends");
    let stats = stage.stats("ends");
    assert_eq!((&stats["blocked"], &stats["dead"]), (&json!(0), &json!(0)), "{stats}");
}
