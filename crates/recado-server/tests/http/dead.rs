//! Dead letters: groups, replay, discard, and the trail they leave.

use serde_json::{Value, json};

use crate::server::{Server, until};

/// `count` dead jobs of type `t`, whose payloads are `{"n": i}`.
fn dead(server: &Server, queue: &str, count: usize, message: &str) -> Vec<String> {
    let jobs: Vec<_> = (0..count).map(|n| format!(r#"{{"type":"t","payload":{{"n":{n}}}}}"#)).collect();
    let ids = server.enqueue(queue, &format!("[{}]", jobs.join(",")));
    for job in server.receive(queue, count) {
        server.settle(
            &job,
            &format!(r#""outcome":"fail","error":{{"kind":"smtp","message":"{message}","retryable":false}}"#),
        );
    }
    ids
}

fn replayed(server: &Server, started: &Value) -> Value {
    let path = format!("/v1/replays/{}", started["id"].as_str().unwrap());
    let mut now = Value::Null;
    until("the replay ends", || {
        now = server.json("GET", &path, "").expect(200);
        now["state"] != "running"
    });
    now
}

#[test]
fn alike_failures_stand_together() {
    let server = Server::start();
    dead(&server, "q", 3, "no route to host 10.0.0.7");
    let page = server.json("GET", "/v1/queues/q/dead/groups", "").expect(200);
    let group = &page["groups"][0];
    assert_eq!(
        (&group["type"], &group["kind"], &group["count"], &group["note"]),
        (&json!("t"), &json!("smtp"), &json!(3), &json!(null))
    );
    assert_eq!(group["message"], "no route to host 10.0.0.7");
    assert!(
        group["first"].is_string()
            && group["last"].is_string()
            && group["example"].as_str().unwrap().starts_with("job_")
    );
    let fingerprint = group["fingerprint"].as_str().unwrap();
    let path = format!("/v1/queues/q/dead/groups/{fingerprint}/acknowledge");
    let noted = server.json("POST", &path, r#"{"note":"DNS is being fixed"}"#).expect(200);
    assert_eq!(noted, json!({"fingerprint": fingerprint, "note": "DNS is being fixed"}));
    let page = server.json("GET", "/v1/queues/q/dead/groups", "").expect(200);
    assert_eq!(page["groups"][0]["note"], "DNS is being fixed");
    let job = server.job(group["example"].as_str().unwrap());
    assert_eq!((&job["state"], &job["fingerprint"]), (&json!("dead"), &json!(fingerprint)));
    server
        .json("POST", "/v1/queues/q/dead/groups/ffffffffffffffff/acknowledge", r#"{"note":"x"}"#)
        .problem(404, "not-found");
    server.json("POST", "/v1/queues/q/dead/groups/x/acknowledge", r#"{"note":"x"}"#).problem(404, "not-found");
    server.json("POST", &path, "{}").problem(400, "invalid-request");
}

#[test]
fn a_replay_with_a_patch() {
    let server = Server::start();
    let ids = dead(&server, "q", 2, "bad address");
    let body = r#"{"filter":{"all":true},"payloadPatch":{"address":"b@example.org","n":null},"dryRun":true}"#;
    let preview = server.json("POST", "/v1/queues/q/dead/replay", body).expect(200);
    assert_eq!((&preview["dryRun"], &preview["matched"]), (&json!(true), &json!(2)));
    assert_eq!(preview["example"]["after"], json!({"address": "b@example.org"}));
    assert!(preview["example"]["before"]["n"].is_u64());
    assert_eq!(server.job(&ids[0])["state"], "dead");

    let body =
        r#"{"filter":{"all":true},"payloadPatch":{"address":"b@example.org","n":null},"reason":"address fixed"}"#;
    let started = server.json("POST", "/v1/queues/q/dead/replay", body).expect(202);
    assert!(started["id"].as_str().unwrap().starts_with("rpl_"));
    assert_eq!(started["queue"], "q");
    until("both are back", || server.job(&ids[1])["state"] == "ready");
    let jobs = server.receive("q", 2);
    for job in &jobs {
        assert_eq!(
            (&job["payload"], &job["attempts"], &job["replays"]),
            (&json!({"address": "b@example.org"}), &json!(1), &json!(1))
        );
        server.settle(job, r#""outcome":"ack""#);
    }
    let ended = replayed(&server, &started);
    assert_eq!((&ended["state"], &ended["matched"], &ended["replayed"]), (&json!("completed"), &json!(2), &json!(2)));
    until("its jobs are counted", || replayed(&server, &started)["succeeded"] == 2);
    let list = server.json("GET", "/v1/replays?queue=q", "").expect(200);
    assert_eq!(list["replays"][0]["id"], started["id"]);
}

#[test]
fn a_replay_of_ids_and_one_that_is_stopped() {
    let server = Server::start();
    let ids = dead(&server, "q", 3, "x");
    let nobodys = "job_00000000000000000000000000000000";
    let body = |dry| format!(r#"{{"ids":["{}","{nobodys}"],"dryRun":{dry}}}"#, ids[0]);
    let dry = server.json("POST", "/v1/queues/q/dead/replay", &body(true)).expect(200);
    assert_eq!((&dry["matched"], &dry["skipped"]), (&json!(1), &json!({"not-found": 1})));
    let started = server.json("POST", "/v1/queues/q/dead/replay", &body(false)).expect(202);
    until("it is back", || server.job(&ids[0])["state"] == "ready");
    assert_eq!(server.job(&ids[1])["state"], "dead");
    let ended = replayed(&server, &started);
    assert_eq!((&ended["matched"], &ended["skipped"]), (&json!(1), &json!({"not-found": 1})));

    let slow = server.json("POST", "/v1/queues/q/dead/replay", r#"{"filter":{"type":"t"},"rate":"1/d"}"#).expect(202);
    let stopped = server.json("DELETE", &format!("/v1/replays/{}", slow["id"].as_str().unwrap()), "").expect(200);
    assert_eq!(stopped["state"], "cancelled");
    server.json("DELETE", "/v1/replays/rpl_00000000000000ff", "").problem(410, "gone");
}

#[test]
fn a_discard_leaves_a_trail() {
    let server = Server::start();
    let ids = dead(&server, "q", 3, "x");
    let body = format!(r#"{{"ids":["{}"],"reason":"test data"}}"#, ids[0]);
    assert_eq!(server.json("POST", "/v1/queues/q/dead/discard", &body).expect(200), json!({"discarded": 1}));
    server.json("GET", &format!("/v1/jobs/{}", ids[0]), "").problem(410, "gone");
    let body = r#"{"filter":{"kind":"smtp"},"reason":"test data"}"#;
    assert_eq!(server.json("POST", "/v1/queues/q/dead/discard", body).expect(200), json!({"discarded": 2}));
    let audit = server.json("GET", "/v1/audit?queue=q&action=discarded", "").expect(200);
    let entry = &audit["entries"][0];
    assert_eq!((&entry["action"], &entry["queue"]), (&json!("discarded"), &json!("q")));
    assert!(
        entry["id"].as_str().unwrap().starts_with("aud_") && entry["detail"].as_str().unwrap().contains("test data"),
        "{entry}"
    );
}

#[test]
fn dead_jobs_are_listed_newest_first_and_never_purged() {
    let server = Server::start();
    let ids = dead(&server, "q", 2, "x");
    server.json("POST", "/v1/queues/q/purge", "").expect(200);
    let page = server.json("GET", "/v1/queues/q/jobs?state=dead&kind=smtp", "").expect(200);
    let listed: Vec<_> = page["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap()).collect();
    assert_eq!(listed, [ids[1].as_str(), ids[0].as_str()]);
}
