//! Receive and settle, as workers see them.

use serde_json::json;

use crate::server::{Server, until};

#[test]
fn a_received_job_has_what_a_worker_needs() {
    let server = Server::start();
    server.json("PUT", "/v1/queues/q", r#"{"timeout":"1m"}"#).expect(201);
    server.enqueue("q", r#"[{"type":"t"},{"type":"t"}]"#);
    let jobs = server.receive("q", 2);
    let (first, second) = (&jobs[0], &jobs[1]);
    let receipt = first["receipt"].as_str().unwrap();
    assert!(
        receipt.len() <= 200 && receipt.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.~".contains(&b)),
        "{receipt}"
    );
    assert_eq!((&first["state"], &first["attempts"], &first["deliveries"]), (&json!("inFlight"), &json!(1), &json!(1)));
    assert!(first["visibleAt"].is_string() && first["timeoutAt"].is_string());
    assert!(second["fencingToken"].as_u64() > first["fencingToken"].as_u64());
}

#[test]
fn an_empty_receive_says_why() {
    let server = Server::start();
    let ask = |queue: &str| server.json("POST", &format!("/v1/queues/{queue}/receive"), "").expect(200);
    let answer = ask("q");
    assert_eq!(
        answer,
        json!({"jobs": [], "settled": [], "cancelRequested": [], "emptyBecause": null, "created": true})
    );
    assert_eq!(ask("q"), json!({"jobs": [], "settled": [], "cancelRequested": [], "emptyBecause": null}));
    server.enqueue("q", r#"{"type":"t"}"#);
    server.json("POST", "/v1/queues/q/pause", r#"{"reason":"maintenance"}"#).expect(200);
    assert_eq!(ask("q")["emptyBecause"], "paused");
    server.json("POST", "/v1/queues/q/resume", "").expect(200);
    assert_eq!(ask("q")["jobs"].as_array().unwrap().len(), 1);
    server.json("PUT", "/v1/queues/r", r#"{"maxInFlight":1}"#).expect(201);
    server.enqueue("r", r#"[{"type":"t"},{"type":"t"}]"#);
    ask("r");
    assert_eq!(ask("r")["emptyBecause"], "queue-in-flight-limit");
}

#[test]
fn a_long_poll_answers_when_a_job_comes() {
    let server = Server::start();
    let address = server.address;
    let poll = std::thread::spawn(move || {
        crate::client::Conn::open(address).json("POST", "/v1/queues/q/receive", r#"{"wait":"60s"}"#).expect(200)
    });
    until("the poll waits", || server.json("GET", "/v1/queues/q", "").status == 200);
    let id = server.enqueue("q", r#"{"type":"t"}"#).remove(0);
    assert_eq!(poll.join().unwrap()["jobs"][0]["id"], json!(id));
}

#[test]
fn types_are_kept_apart() {
    let server = Server::start();
    server.enqueue("q", r#"[{"type":"a"},{"type":"b","schemaVersion":2},{"type":"b","schemaVersion":5}]"#);
    let ask = |types: &str| {
        let answer =
            server.json("POST", "/v1/queues/q/receive", &format!(r#"{{"max":10,"types":{types}}}"#)).expect(200);
        let jobs = answer["jobs"].as_array().unwrap();
        jobs.iter().map(|job| format!("{}@{}", job["type"].as_str().unwrap(), job["schemaVersion"])).collect::<Vec<_>>()
    };
    assert!(ask(r#"["c"]"#).is_empty());
    assert_eq!(ask(r#"["b@1-3"]"#), ["b@2"]);
    assert_eq!(ask(r#"["b@5"]"#), ["b@5"]);
    assert_eq!(ask(r#"["a"]"#), ["a@1"]);
}

#[test]
fn several_queues_at_once() {
    let server = Server::start();
    server.enqueue("low", r#"[{"type":"t"},{"type":"t"}]"#);
    server.enqueue("high", r#"[{"type":"t"},{"type":"t"}]"#);
    let ask = |body: &str| {
        let answer = server.json("POST", "/v1/receive", body).expect(200);
        let jobs = answer["jobs"].as_array().unwrap();
        jobs.iter().map(|job| job["queue"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ask(r#"{"queues":["high","low"],"order":"strict","max":3}"#), ["high", "high", "low"]);
    assert_eq!(ask(r#"{"weights":{"high":5,"low":1},"max":3}"#), ["low"]);
}

#[test]
fn settles_are_independent_and_in_order() {
    let server = Server::start();
    server.enqueue("q", r#"[{"type":"t"},{"type":"t"}]"#);
    let jobs = server.receive("q", 2);
    let entry = |id: &str, receipt: &str| json!({"id": id, "receipt": receipt, "outcome": "ack"});
    let (a, b) = (&jobs[0], &jobs[1]);
    let text = |job: &serde_json::Value, field: &str| job[field].as_str().unwrap().to_owned();
    let entries = json!([
        entry(&text(a, "id"), &text(a, "receipt")),
        entry("nonsense", "x"),
        entry(&text(b, "id"), &text(a, "receipt")),
        entry("job_018f3c5e7b1a7c3d9e2f1a2b3c4d5e6f", "x"),
        entry(&text(b, "id"), &text(b, "receipt")),
        entry(&text(a, "id"), &text(a, "receipt")),
    ]);
    let answer = server.json("POST", "/v1/settle", &entries.to_string()).expect(200);
    let settled = answer["settled"].as_array().unwrap();
    assert_eq!(settled[0], json!({"id": a["id"], "ok": true}));
    assert_eq!((&settled[1]["ok"], &settled[1]["problem"]["code"]), (&json!(false), &json!("not-found")));
    assert_eq!(
        (&settled[2]["problem"]["code"], &settled[2]["problem"]["reason"]),
        (&json!("stale-receipt"), &json!("forged"))
    );
    assert_eq!(settled[3]["ok"], false);
    assert_eq!(settled[4], json!({"id": b["id"], "ok": true}));
    assert_eq!(settled[5], json!({"id": a["id"], "ok": true, "repeated": true}));
    let none = server.json("POST", "/v1/settle", "[]").expect(200);
    assert_eq!(none, json!({"settled": [], "cancelRequested": []}));
}

#[test]
fn a_settle_can_come_with_a_receive() {
    let server = Server::start();
    server.enqueue("q", r#"[{"type":"t"},{"type":"t"}]"#);
    let first = server.receive("q", 1).remove(0);
    let body = format!(
        r#"{{"settle":[{{"id":{},"receipt":{},"outcome":"ack","result":[1,2]}}]}}"#,
        first["id"], first["receipt"]
    );
    let answer = server.json("POST", "/v1/queues/q/receive", &body).expect(200);
    assert_eq!(answer["settled"], json!([{"id": first["id"], "ok": true}]));
    assert_eq!(answer["jobs"].as_array().unwrap().len(), 1);
    let done = server.job(first["id"].as_str().unwrap());
    assert_eq!((&done["state"], &done["result"]), (&json!("completed"), &json!([1, 2])));
}

#[test]
fn failures_are_kept_and_shown() {
    let server = Server::start();
    let id = server.enqueue("q", r#"{"type":"t"}"#).remove(0);
    let body = r#"{"worker":"w-1"}"#;
    let job = server.json("POST", "/v1/queues/q/receive", body).expect(200)["jobs"][0].clone();
    let long = "é".repeat(1_000);
    server.settle(&job, &format!(r#""outcome":"fail","error":{{"kind":"smtp","message":"{long}","retryAfter":"1h"}}"#));
    let job = server.job(&id);
    assert_eq!(job["state"], "delayed");
    let error = &job["errors"][0];
    assert_eq!(
        (&error["attempt"], &error["kind"], &error["worker"], &error["retryable"]),
        (&json!(1), &json!("smtp"), &json!("w-1"), &json!(true))
    );
    assert_eq!(error["message"].as_str().unwrap().len(), 1_024);
}

#[test]
fn a_cancel_reaches_its_worker() {
    let server = Server::start();
    let id = server.enqueue("q", r#"{"type":"t"}"#).remove(0);
    let job = server.json("POST", "/v1/queues/q/receive", r#"{"worker":"w"}"#).expect(200)["jobs"][0].clone();
    let address = server.address;
    let poll = std::thread::spawn(move || {
        crate::client::Conn::open(address)
            .json("POST", "/v1/queues/q/receive", r#"{"worker":"w","wait":"60s"}"#)
            .expect(200)
    });
    let answer = server.json("DELETE", &format!("/v1/jobs/{id}"), "").expect(202);
    assert_eq!(answer, json!({"id": id, "state": "inFlight", "cancelRequested": true}));
    assert_eq!(poll.join().unwrap()["cancelRequested"], json!([id]));
    let body = format!(r#"{{"id":{},"receipt":{},"outcome":"extend"}}"#, job["id"], job["receipt"]);
    let answer = server.json("POST", "/v1/settle", &body).expect(200);
    assert_eq!(answer["cancelRequested"], json!([id]));
    assert!(answer["settled"][0]["visibleAt"].is_string());
}

#[test]
fn an_attempt_can_be_asked_for_again() {
    let server = Server::start();
    server.enqueue("q", r#"[{"type":"t"},{"type":"t"}]"#);
    let ask = || server.json("POST", "/v1/queues/q/receive", r#"{"attemptId":"a-1"}"#).expect(200)["jobs"][0].clone();
    let (first, again) = (ask(), ask());
    assert_eq!(
        (&first["id"], &first["receipt"], &first["attempts"]),
        (&again["id"], &again["receipt"], &again["attempts"])
    );
    server.settle(&first, r#""outcome":"ack""#);
    assert_ne!(ask()["id"], first["id"]);
}
