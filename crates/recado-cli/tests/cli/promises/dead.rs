//! Nothing leaves the dead-letter queue silently.

use serde_json::json;

use crate::support::stage::Stage;

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
