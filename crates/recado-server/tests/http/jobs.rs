//! Look, wait, cancel, change, list.

use serde_json::{Value, json};

use crate::server::Server;

fn ids(page: &Value) -> Vec<String> {
    page["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn waiting_for_an_end() {
    let server = Server::start();
    let id = server.enqueue("q", r#"{"type":"t"}"#).remove(0);
    // A wait that is over answers with the job as it is.
    assert_eq!(server.json("GET", &format!("/v1/jobs/{id}?wait=50ms"), "").expect(200)["state"], "ready");
    let (address, path) = (server.address, format!("/v1/jobs/{id}?wait=60s"));
    let waiting = std::thread::spawn(move || crate::client::Conn::open(address).json("GET", &path, "").expect(200));
    let job = server.receive("q", 1).remove(0);
    server.settle(&job, r#""outcome":"ack","result":{"sent":1}"#);
    let done = waiting.join().unwrap();
    assert_eq!((&done["state"], &done["result"]), (&json!("completed"), &json!({"sent": 1})));
    assert!(done["endedAt"].is_string());
}

#[test]
fn cancelling() {
    let server = Server::start();
    let id = server.enqueue("q", r#"{"type":"t"}"#).remove(0);
    let path = format!("/v1/jobs/{id}");
    for _ in 0..2 {
        assert_eq!(server.json("DELETE", &path, "").expect(200), json!({"id": id, "state": "cancelled"}));
    }
    let done = server.enqueue("q", r#"{"type":"t"}"#).remove(0);
    let job = server.receive("q", 1).remove(0);
    server.settle(&job, r#""outcome":"ack""#);
    let problem = server.json("DELETE", &format!("/v1/jobs/{done}"), "").problem(409, "job-not-waiting");
    assert_eq!(problem["jobState"], "completed");

    let waiting = server.enqueue("q", r#"{"type":"t","businessId":"order-1","delay":"1h"}"#).remove(0);
    let unknown = "job_018f3c5e7b1a7c3d9e2f1a2b3c4d5e6f";
    let body = format!(r#"{{"ids":["{waiting}","{done}","{unknown}"],"reason":"order withdrawn"}}"#);
    let answer = server.json("POST", "/v1/jobs/cancel", &body).expect(200);
    let expected = json!({
        "cancelled": [waiting], "cancelRequested": [],
        "refused": [{"id": done, "state": "completed"}], "gone": [unknown],
    });
    assert_eq!(answer, expected);
    let of_business = server.enqueue("r", r#"{"type":"t","businessId":"order-1"}"#).remove(0);
    let answer = server.json("POST", "/v1/jobs/cancel", r#"{"businessId":"order-1"}"#).expect(200);
    // Only what the cancel changed is told: the other job of the order was cancelled before.
    assert_eq!(answer["cancelled"], json!([of_business]));
}

#[test]
fn changing() {
    let server = Server::start();
    let id = server.enqueue("q", r#"{"type":"t","payload":1}"#).remove(0);
    let path = format!("/v1/jobs/{id}");
    let job = server.json("PATCH", &path, r#"{"priority":9,"delay":"1h","payload":{"b":2}}"#).expect(200);
    assert_eq!((&job["priority"], &job["state"], &job["payload"]), (&json!(9), &json!("delayed"), &json!({"b": 2})));
    let job = server.json("PATCH", &path, r#"{"runAt":"2020-01-01T00:00:00Z"}"#).expect(200);
    assert_eq!((&job["state"], &job["payload"]), (&json!("ready"), &json!({"b": 2})));
    server.receive("q", 1);
    let problem = server.json("PATCH", &path, r#"{"priority":1}"#).problem(409, "job-not-waiting");
    assert_eq!(problem["jobState"], "inFlight");
}

#[test]
fn listing() {
    let server = Server::start();
    let first = server.enqueue(
        "q",
        r#"[{"type":"a","payload":1,"businessId":"o-1","group":"g"},{"type":"b","priority":5,"dedup":{"key":"d"}},
            {"type":"a","delay":"1h","idempotencyKey":"i"}]"#,
    );
    server.enqueue("r", r#"{"type":"a","businessId":"o-1"}"#);
    let list = |query: &str| server.json("GET", &format!("/v1/queues/q/jobs?{query}"), "").expect(200);
    assert_eq!(ids(&list("state=ready")), [first[1].clone(), first[0].clone()], "ready ones in delivery order");
    assert_eq!(ids(&list("state=delayed")), [first[2].clone()]);
    assert_eq!(ids(&list("")).len(), 3);
    assert_eq!(ids(&list("state=ready,delayed&type=a")).len(), 2);
    assert_eq!(ids(&list("group=g")), [first[0].clone()]);
    assert_eq!(ids(&list("businessId=o-1")), [first[0].clone()]);
    assert_eq!(ids(&list("dedupKey=d")), [first[1].clone()]);
    assert_eq!(ids(&list("idempotencyKey=i")), [first[2].clone()]);
    assert_eq!(ids(&list("before=2020-01-01T00:00:00Z")).len(), 0);
    assert_eq!(ids(&list("after=2020-01-01T00:00:00Z")).len(), 3);
    let without = list("payload=false");
    assert!(without["jobs"][0].get("payload").is_none() && without["cursor"].is_null());
    let everywhere = server.json("GET", "/v1/jobs?businessId=o-1", "").expect(200);
    assert_eq!(ids(&everywhere).len(), 2);
}

#[test]
fn pages_hold_everything_once() {
    let server = Server::start();
    let batch = vec![r#"{"type":"t"}"#; 25].join(",");
    let mut all = server.enqueue("q", &format!("[{batch}]"));
    let mut seen = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = server.json("GET", &format!("/v1/queues/q/jobs?state=ready&limit=10{cursor}"), "").expect(200);
        assert!(page["jobs"].as_array().unwrap().len() <= 10);
        seen.extend(ids(&page));
        let Some(next) = page["cursor"].as_str() else { break };
        assert!(next.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'), "{next}");
        cursor = format!("&cursor={next}");
    }
    assert_eq!(seen, all);
    all.dedup();
    assert_eq!(all.len(), 25);
    server.json("GET", "/v1/queues/q/jobs?cursor=nonsense", "").problem(400, "invalid-request");
}
