//! What was answered with success is there after `kill -9`.

use serde_json::{Value, json};

use crate::support::api::{failure, id, ids, list};
use crate::support::stage::Stage;

/// The states of these jobs, `gone` for those that are not there.
fn states(stage: &Stage, ids: &[String]) -> Vec<String> {
    let state = |id: &String| {
        let answer = stage.get(&format!("/v1/jobs/{id}"));
        match answer.status {
            410 => "gone".to_owned(),
            _ => answer.expect(200)["state"].as_str().unwrap().to_owned(),
        }
    };
    ids.iter().map(state).collect()
}

/// On the default setting, as a newcomer starts it.
#[test]
fn promise_1_acknowledged_means_durable_for_every_way_in() {
    let mut stage = Stage::with(&[]);
    stage.configure("q", &json!({ "owner": "ops@example.org", "maxAttempts": 3 }));
    let exact = r#"{"type":"t","payload":{"a" : [1.50,"ñ"]},"businessId":"b-1"}"#;
    let answer = stage.send("POST", "/v1/queues/q/jobs", &[("content-type", "application/json")], exact);
    let one = ids(&answer.expect("an answer").expect(201)).remove(0);
    let batch = stage.enqueue_all("q", &json!([{ "type": "t" }, { "type": "t", "delay": "1h" }]));
    let lines = "{\"type\":\"t\"}\n{\"type\":\"t\",\"priority\":9}\n";
    let ndjson = [("content-type", "application/x-ndjson")];
    let answer = stage.send("POST", "/v1/queues/q/jobs", &ndjson, lines).expect("an answer");
    let chunk: Value = serde_json::from_str(answer.text.lines().next().unwrap()).unwrap();
    let by_line = ids(&chunk);
    let numbered = json!({ "producer": { "name": "p", "seq": 1 }, "jobs": [{ "type": "t" }] });
    let by_producer = stage.enqueue_all("q", &numbered);
    let keyed = [("content-type", "application/json"), ("idempotency-key", "request-1")];
    let by_key = |stage: &Stage| {
        let answer = stage.send("POST", "/v1/queues/q/jobs", &keyed, r#"{"type":"t"}"#);
        ids(&answer.expect("an answer").expect(201))
    };
    let first = by_key(&stage);
    let dedup = json!({ "type": "t", "dedup": { "key": "d", "for": "unfinished" } });
    let held = stage.enqueue("q", &dedup);
    let all = [vec![one.clone()], batch, by_line, by_producer, first.clone(), vec![held.clone()]].concat();
    let before: Vec<Value> = all.iter().map(|id| stage.job(id)).collect();
    for _ in 0..2 {
        stage.crash();
        let after: Vec<Value> = all.iter().map(|id| stage.job(id)).collect();
        assert_eq!(after, before);
        assert!(
            stage.get(&format!("/v1/jobs/{one}")).text.contains(r#"{"a" : [1.50,"ñ"]}"#),
            "a payload is kept byte for byte"
        );
        // What stops a second time is as durable as the first.
        assert_eq!(by_key(&stage), first);
        let again = stage.post("/v1/queues/q/jobs", &numbered).expect(201);
        assert_eq!((&again["jobs"], &again["duplicate"]), (&json!([]), &json!(true)));
        assert_eq!(stage.enqueue("q", &dedup), held);
        assert_eq!(stage.stats("q")["depth"], all.len());
    }
}

#[test]
fn promise_1_acknowledged_means_durable_for_every_settle() {
    let mut stage = Stage::with(&[]);
    stage.configure("q", &json!({ "maxAttempts": 3, "backoff": { "kind": "fixed", "base": "1h", "jitter": "none" } }));
    let jobs = stage.enqueue_all("q", &json!(vec![json!({ "type": "t" }); 6]));
    let out = stage.receive("q", &json!({ "max": 6, "worker": "w" }));
    stage.settled(&out[0], &json!({ "outcome": "ack", "result": { "sent": true } }));
    stage.settled(&out[1], &failure(true));
    stage.settled(&out[2], &failure(false));
    stage.settled(&out[3], &json!({ "outcome": "release" }));
    stage.settled(&out[4], &json!({ "outcome": "release", "delay": "1h", "reason": "busy" }));
    let extend = json!({ "outcome": "extend", "visibilityTimeout": "1h", "progress": 70 });
    let extended = stage.settle(&out[5], &extend);
    for _ in 0..2 {
        stage.crash();
        let expected = ["completed", "delayed", "dead", "ready", "delayed", "inFlight"];
        assert_eq!(states(&stage, &jobs), expected);
        assert_eq!(stage.job(&jobs[0])["result"], json!({ "sent": true }));
        for failed in [1, 2] {
            let error = &stage.job(&jobs[failed])["errors"][0];
            assert_eq!(
                (&error["kind"], &error["message"], &error["worker"]),
                (&json!("smtp"), &json!("no route"), &json!("w"))
            );
        }
        assert_eq!(stage.job(&jobs[3])["attempts"], 0);
        let job = stage.job(&jobs[5]);
        assert_eq!((&job["progress"], &job["visibleAt"]), (&json!(70), &extended["visibleAt"]), "{job}");
    }
    stage.ack(&out[5]);
    stage.crash();
    assert_eq!(stage.state(&jobs[5]), "completed");
}

#[test]
fn promise_1_acknowledged_means_durable_for_what_operators_do() {
    let mut stage = Stage::with(&[]);
    let options = json!({ "owner": "ops@example.org", "maxInFlight": 50, "visibilityTimeout": "2m" });
    stage.configure("q", &options);
    let dead = stage.enqueue_all("q", &json!(vec![json!({ "type": "t", "payload": { "to": "x" } }); 3]));
    for delivery in stage.receive("q", &json!({ "max": 3 })) {
        stage.fail(&delivery, false);
    }
    let replay = json!({ "ids": [dead[0]], "payloadPatch": { "to": "y" }, "reason": "typo" });
    let replay = stage.post("/v1/queues/q/dead/replay", &replay).expect(202);
    stage.until_state(&dead[0], "ready");
    stage.post("/v1/queues/q/dead/discard", &json!({ "ids": [dead[1]], "reason": "test" })).expect(200);
    let cancelled = stage.enqueue("q", &json!({ "type": "t" }));
    stage.delete(&format!("/v1/jobs/{cancelled}")).expect(200);
    let changed = stage.enqueue("q", &json!({ "type": "t" }));
    let patch = json!({ "priority": 9, "payload": [1] });
    stage.ask("PATCH", &format!("/v1/jobs/{changed}"), &patch).expect("an answer").expect(200);
    stage.enqueue("purged", &json!({ "type": "t" }));
    stage.post("/v1/queues/purged/purge", &json!({ "reason": "test" })).expect(200);
    stage.enqueue("deleted", &json!({ "type": "t" }));
    stage.delete("/v1/queues/deleted?force=true");
    stage.post("/v1/queues/q/pause", &json!({ "reason": "maintenance" })).expect(200);
    let audit = stage.audit("q");
    for _ in 0..2 {
        stage.crash();
        let queue = stage.get("/v1/queues/q").expect(200);
        assert_eq!((&queue["config"], &queue["source"]), (&options, &json!("api")), "{queue}");
        assert_ne!(queue["paused"], false, "{queue}");
        stage.nothing_from("q");
        assert_eq!(
            states(&stage, &[dead.clone(), vec![cancelled.clone()]].concat()),
            ["ready", "gone", "dead", "cancelled"]
        );
        let job = stage.job(&dead[0]);
        assert_eq!((&job["payload"], &job["replays"]), (&json!({ "to": "y" }), &json!(1)));
        let job = stage.job(&changed);
        assert_eq!((&job["priority"], &job["payload"]), (&json!(9), &json!([1])));
        let replay = stage.get(&format!("/v1/replays/{}", id(&replay))).expect(200);
        assert_eq!(replay["replayed"], 1, "{replay}");
        assert_eq!(stage.stats("purged")["depth"], 0);
        stage.get("/v1/queues/deleted").problem(404, "not-found");
        assert_eq!(stage.audit("q"), audit, "the trail");
    }
    stage.post("/v1/queues/q/resume", &json!({})).expect(200);
    stage.crash();
    assert_eq!(stage.receive("q", &json!({ "max": 9 })).len(), 2);
}

/// The moment after the answer is as good as any.
#[test]
fn promise_1_acknowledged_means_durable_at_once() {
    let mut stage = Stage::with(&[]);
    let mut all = Vec::new();
    for n in 0..4 {
        all.push(stage.enqueue("q", &json!({ "type": "t", "payload": n })));
        stage.crash();
        let page = stage.get("/v1/queues/q/jobs?state=ready,completed").expect(200);
        assert_eq!(list(&page, "jobs").len(), all.len(), "{page}");
        stage.ack(&stage.take("q"));
        stage.crash();
        assert_eq!(stage.state(&all[n]), "completed");
    }
}
