//! Configuration, pause, purge, figures.

use std::collections::BTreeMap;

use serde_json::json;

use crate::server::Server;

#[test]
fn a_configuration_comes_back_with_what_holds() {
    let server = Server::start();
    let created = server.json("PUT", "/v1/queues/q", r#"{"owner":"ops@example.org","maxAttempts":3}"#);
    let tag = created.header("etag").expect("an ETag");
    let body = created.expect(201);
    assert_eq!((&body["name"], &body["source"], &body["paused"]), (&json!("q"), &json!("api"), &json!(false)));
    assert_eq!(body["config"], json!({"owner": "ops@example.org", "maxAttempts": 3}));
    assert_eq!((&body["effective"]["maxAttempts"], &body["effective"]["maxDeliveries"]), (&json!(3), &json!(30)));
    assert_eq!(body["warnings"], json!([]));
    let seen = server.json("GET", "/v1/queues/q", "");
    assert_eq!(seen.header("etag"), Some(tag));
    assert_eq!(seen.expect(200), body);

    let replaced = server.json("PUT", "/v1/queues/q", "{}").expect(200);
    assert_eq!((&replaced["config"], &replaced["effective"]["maxAttempts"]), (&json!({}), &json!(5)));
    assert_eq!(replaced["warnings"].as_array().unwrap().len(), 1);
    server.enqueue("auto", r#"{"type":"t"}"#);
    assert_eq!(server.json("GET", "/v1/queues/auto", "").expect(200)["source"], "auto");
}

#[test]
fn every_bad_option_is_named() {
    let server = Server::start();
    let body = r#"{"maxAttempt":3,"visibilityTimeout":"1ms","payload":{"maxSize":"2MiB"}}"#;
    let problem = server.json("PUT", "/v1/queues/q", body).problem(400, "invalid-request");
    let mut pointers: Vec<_> =
        problem["errors"].as_array().unwrap().iter().map(|error| error["pointer"].as_str().unwrap()).collect();
    pointers.sort_unstable();
    assert_eq!(pointers, ["/maxAttempt", "/payload/maxSize", "/visibilityTimeout"]);
    assert_eq!(problem["nearest"], "maxAttempts");
    for body in [r#"{"owner":"a","owner":"b"}"#, r#"{"groups":{"fair":true,"fair":false}}"#, "[]"] {
        server.json("PUT", "/v1/queues/q", body).problem(400, "invalid-request");
    }
    server.json("GET", "/v1/queues/q", "").problem(404, "not-found");
}

#[test]
fn if_match() {
    let server = Server::start();
    let put = |tag: &str, attempts: u32| {
        let headers = format!("content-type: application/json\r\nif-match: {tag}\r\n");
        let body = format!(r#"{{"maxAttempts":{attempts}}}"#);
        server.connect().request("PUT", "/v1/queues/q", &headers, body.as_bytes())
    };
    put("*", 1).problem(412, "precondition-failed");
    put("\"1\"", 1).problem(412, "precondition-failed");
    let tag = server.json("PUT", "/v1/queues/q", r#"{"maxAttempts":2}"#).header("etag").unwrap();
    put(&format!("\"nonsense\", {tag}"), 3).expect(200);
    put(&tag, 4).problem(412, "precondition-failed");
    put("W/\"2\"", 4).problem(412, "precondition-failed");
    put("*", 5).expect(200);
    assert_eq!(server.json("GET", "/v1/queues/q", "").expect(200)["config"]["maxAttempts"], 5);
}

#[test]
fn if_match_of_a_delete() {
    let server = Server::start();
    let delete = |tag: &str| {
        let headers = format!("if-match: {tag}\r\n");
        server.connect().request("DELETE", "/v1/queues/q?force=true", &headers, b"")
    };
    delete("*").problem(404, "not-found");
    let stale = server.json("PUT", "/v1/queues/q", r#"{"maxAttempts":2}"#).header("etag").unwrap();
    let tag = server.json("PUT", "/v1/queues/q", r#"{"maxAttempts":3}"#).header("etag").unwrap();
    for refused in [stale.as_str(), "\"nonsense\"", ""] {
        delete(refused).problem(412, "precondition-failed");
    }
    assert_eq!(server.json("GET", "/v1/queues/q", "").expect(200)["config"]["maxAttempts"], 3);
    delete(&format!("{stale}, {tag}")).expect(200);
    server.json("GET", "/v1/queues/q", "").problem(404, "not-found");
    server.json("PUT", "/v1/queues/q", "{}").expect(201);
    delete("*").expect(200);
}

#[test]
fn if_none_match_creates_only() {
    let server = Server::start();
    let put = |tag: &str| {
        let headers = format!("content-type: application/json\r\nif-none-match: {tag}\r\n");
        server.connect().request("PUT", "/v1/queues/q", &headers, br#"{"maxAttempts":2}"#)
    };
    let tag = put("*").header("etag").unwrap();
    put("*").problem(412, "precondition-failed");
    put(&tag).problem(412, "precondition-failed");
    put("\"nonsense\"").expect(200);
}

#[test]
fn deleting() {
    let server = Server::start();
    server.json("PUT", "/v1/queues/q", "{}").expect(201);
    server.json("DELETE", "/v1/queues/q", "").expect(200);
    server.json("GET", "/v1/queues/q", "").problem(404, "not-found");
    let jobs = format!("[{}]", vec![r#"{"type":"t"}"#; 3_000].join(","));
    let id = server.enqueue("q", &jobs).remove(0);
    server.json("DELETE", "/v1/queues/q", "").problem(409, "queue-not-empty");
    // What was answered is so: the queue is gone, and its name is free.
    server.json("DELETE", "/v1/queues/q?force=true", "").expect(200);
    server.json("GET", "/v1/queues/q", "").problem(404, "not-found");
    assert_eq!(server.json("POST", "/v1/queues/q/jobs", r#"{"type":"t"}"#).expect(201)["created"], true);
    server.json("GET", &format!("/v1/jobs/{id}"), "").problem(410, "gone");
}

#[test]
fn purging() {
    let server = Server::start();
    server.enqueue("q", r#"[{"type":"t"},{"type":"t"},{"type":"t","delay":"1h"}]"#);
    server.receive("q", 1);
    let purge = |body: &str| server.json("POST", "/v1/queues/q/purge", body).expect(200)["purged"].clone();
    assert_eq!(purge(r#"{"states":["delayed"],"reason":"test"}"#), 1);
    assert_eq!(purge(""), 1);
    let stats = server.json("GET", "/v1/queues/q/stats", "").expect(200);
    assert_eq!((&stats["depth"], &stats["inFlight"]), (&json!(1), &json!(1)));
}

#[test]
fn figures() {
    let server = Server::start();
    server.enqueue("q", r#"[{"type":"t"},{"type":"t"},{"type":"t","delay":"1h"}]"#);
    let job =
        server.json("POST", "/v1/queues/q/receive", r#"{"worker":"w","types":["t@1"]}"#).expect(200)["jobs"][0].clone();
    let stats = server.json("GET", "/v1/queues/q/stats", "").expect(200);
    for (field, expected) in
        [("depth", 3), ("ready", 1), ("delayed", 1), ("blocked", 0), ("inFlight", 1), ("dead", 0), ("completed", 0)]
    {
        assert_eq!(stats[field], expected, "{field}: {stats}");
    }
    for field in [
        "oldestJobAge",
        "oldestDeadAge",
        "enqueueRate",
        "receiveRate",
        "completeRate",
        "failureRate",
        "retryRate",
        "wait",
        "processing",
        "visibilityTimeouts",
        "deduplicated",
        "skipped",
        "rejected",
        "consumers",
        "effective",
        "heldBack",
        "breaker",
        "paused",
    ] {
        assert!(stats.get(field).is_some(), "{field}: {stats}");
    }
    assert!(stats["oldestJobAge"].is_string() && stats["oldestDeadAge"].is_null());
    assert_eq!(stats["effective"]["visibilityTimeout"]["value"], "30s");
    let consumer = &stats["consumers"][0];
    assert_eq!(
        (&consumer["worker"], &consumer["types"], &consumer["inFlight"]),
        (&json!("w"), &json!(["t@1"]), &json!(1))
    );
    server.settle(&job, r#""outcome":"ack""#);
    let stats = server.json("GET", "/v1/queues/q/stats", "").expect(200);
    assert_eq!(stats["completed"], 1);
    assert!(stats["wait"]["p50"].is_string() && stats["processing"]["p99"].is_string(), "{stats}");

    let list = server.json("GET", "/v1/queues", "").expect(200);
    assert_eq!((&list["queues"][0]["name"], &list["queues"][0]["stats"]["completed"]), (&json!("q"), &json!(1)));
    assert_eq!(list["cursor"], json!(null));
}

#[test]
fn queues_of_the_file() {
    let option = |value| recado_server::options::parse(&value).unwrap();
    let server = Server::start_with(|config| {
        config.queues = BTreeMap::from([("email".to_owned(), option(json!({"maxAttempts": 7})))]);
        config.defaults = option(json!({"owner": "ops"}));
    });
    let seen = server.json("GET", "/v1/queues/email", "");
    let tag = seen.header("etag");
    let body = seen.expect(200);
    assert_eq!((&body["source"], &body["config"]), (&json!("file"), &json!({"maxAttempts": 7})));
    assert_eq!(body["effective"]["owner"], "ops");
    server.json("PUT", "/v1/queues/email", "{}").problem(409, "managed-by-file");

    // The same again changes nothing; another does; a section that is gone lets go.
    server.reload(&BTreeMap::from([("email".to_owned(), option(json!({"maxAttempts": 7})))])).unwrap();
    assert_eq!(server.json("GET", "/v1/queues/email", "").header("etag"), tag);
    server.reload(&BTreeMap::from([("email".to_owned(), option(json!({"maxAttempts": 8})))])).unwrap();
    assert_eq!(server.json("GET", "/v1/queues/email", "").expect(200)["config"]["maxAttempts"], 8);
    server.reload(&BTreeMap::new()).unwrap();
    let body = server.json("GET", "/v1/queues/email", "").expect(200);
    assert_ne!(body["source"], "file");
    assert_eq!(body["config"]["maxAttempts"], 8);
    server.json("PUT", "/v1/queues/email", "{}").expect(200);
}
