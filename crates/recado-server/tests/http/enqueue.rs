//! Enqueue: one, many, numbered, and the same request twice.

use serde_json::json;

use crate::server::Server;

#[test]
fn a_job_comes_back_as_it_was_sent() {
    let server = Server::start();
    let payload = r#"{ "b" : 1.0,  "a":[1e2, "é\u0041"] }"#;
    let body = format!(
        r#"{{"type":"email.send","payload":{payload},"schemaVersion":2,"businessId":"order-42","priority":3,"group":"g",
            "idempotencyKey":"k","dedup":{{"key":"d"}},"headers":{{"traceparent":"00-x"}},"maxAttempts":7,"delay":null}}"#
    );
    let answer = server.json("POST", "/v1/queues/email/jobs", &body);
    assert!(answer.text().starts_with(r#"{"jobs":[{"id":"job_"#), "{}", answer.text());
    let answer = answer.expect(201);
    assert_eq!(answer["created"], true);
    assert_eq!(answer["jobs"][0]["deduplicated"], false);
    let id = answer["jobs"][0]["id"].as_str().unwrap();

    let raw = server.json("GET", &format!("/v1/jobs/{id}"), "");
    assert!(raw.text().contains(payload), "not byte for byte: {}", raw.text());
    let job = raw.expect(200);
    for (field, expected) in [
        ("id", json!(id)),
        ("queue", json!("email")),
        ("type", json!("email.send")),
        ("schemaVersion", json!(2)),
        ("state", json!("ready")),
        ("businessId", json!("order-42")),
        ("priority", json!(3)),
        ("group", json!("g")),
        ("dedupKey", json!("d")),
        ("idempotencyKey", json!("k")),
        ("attempts", json!(0)),
        ("deliveries", json!(0)),
        ("maxAttempts", json!(7)),
        ("headers", json!({"traceparent": "00-x"})),
        ("errors", json!([])),
        ("result", json!(null)),
        ("progress", json!(null)),
        ("replays", json!(0)),
        ("parent", json!(null)),
    ] {
        assert_eq!(job[field], expected, "{field}");
    }
    assert!(job.get("heldBack").is_some());
    let at = job["enqueuedAt"].as_str().unwrap();
    assert!(at.len() == 24 && at.ends_with('Z'), "{at}");
}

#[test]
fn a_job_without_payload_has_null() {
    let server = Server::start();
    let ids = server.enqueue("q", r#"[{"type":"t"},{"type":"t","payload":null}]"#);
    for id in ids {
        assert_eq!(server.job(&id)["payload"], json!(null));
        assert_eq!(server.job(&id)["headers"], json!({}));
    }
}

#[test]
fn a_batch_is_all_or_nothing_and_each_bad_entry_is_named() {
    let server = Server::start();
    let body = r#"[{"type":"ok"},{"type":"t","dealy":"1s"},{"type":"a b"},{"type":"t","priority":256},{"payload":1}]"#;
    let problem = server.json("POST", "/v1/queues/q/jobs", body).problem(400, "invalid-request");
    let errors: Vec<_> = problem["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| (error["index"].clone(), error["pointer"].clone()))
        .collect();
    let expected = [(1, "/dealy"), (2, "/type"), (3, "/priority"), (4, "/type")];
    assert_eq!(errors, expected.map(|(index, pointer)| (json!(index), json!(pointer))), "{problem}");
    assert_eq!(problem["nearest"], "delay");

    let body = r#"[{"type":"ok"},{"type":"a b"},{"type":"t","priority":256}]"#;
    let problem = server.json("POST", "/v1/queues/q/jobs", body).problem(400, "invalid-request");
    let errors: Vec<_> = problem["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| (error["index"].clone(), error["pointer"].clone()))
        .collect();
    assert_eq!(errors, [(json!(1), json!("/type")), (json!(2), json!("/priority"))], "{problem}");
    server.json("GET", "/v1/queues/q", "").problem(404, "not-found");
}

#[test]
fn duplicates_say_what_is_there() {
    let server = Server::start();
    let job = |n: u64| format!(r#"{{"type":"t","payload":{n},"dedup":{{"key":"k","for":"1h"}}}}"#);
    let first = server.enqueue("q", &job(1));
    let answer = server.json("POST", "/v1/queues/q/jobs", &job(1)).expect(201);
    let entry = &answer["jobs"][0];
    assert_eq!(entry["id"], json!(first[0]));
    assert_eq!(
        (&entry["deduplicated"], &entry["samePayload"], &entry["state"]),
        (&json!(true), &json!(true), &json!("ready"))
    );
    assert!(entry.as_object().unwrap().contains_key("result"));
    let delivery = server.receive("q", 1).remove(0);
    server.settle(&delivery, r#""outcome":"ack","result":{"ok":1}"#);
    let answer = server.json("POST", "/v1/queues/q/jobs", &job(2)).expect(201);
    let entry = &answer["jobs"][0];
    assert_eq!(
        (&entry["samePayload"], &entry["state"], &entry["result"]),
        (&json!(false), &json!("completed"), &json!({"ok": 1}))
    );
}

#[test]
fn a_producers_batches_are_taken_once_in_order() {
    let server = Server::start();
    let batch =
        |seq: u64| format!(r#"{{"producer":{{"name":"p","seq":{seq}}},"jobs":[{{"type":"t"}},{{"type":"t"}}]}}"#);
    let post = |seq| server.json("POST", "/v1/queues/q/jobs", &batch(seq));
    assert_eq!(post(1).expect(201)["jobs"].as_array().unwrap().len(), 2);
    let again = post(1).expect(201);
    assert_eq!((&again["jobs"], &again["duplicate"]), (&json!([]), &json!(true)));
    let gap = post(3).problem(409, "producer-gap");
    assert_eq!(gap["expected"], 2);
    post(2).expect(201);
    assert_eq!(server.receive("q", 10).len(), 4);
    let bad = r#"{"producer":{"name":"p","sqe":3},"jobs":[{"type":"t"}]}"#;
    let problem = server.json("POST", "/v1/queues/q/jobs", bad).problem(400, "invalid-request");
    assert_eq!((&problem["errors"][0]["pointer"], &problem["nearest"]), (&json!("/producer/sqe"), &json!("seq")));
}

#[test]
fn the_same_request_gets_the_saved_answer() {
    let server = Server::start();
    let headers = "content-type: application/json\r\nidempotency-key: abc\r\n";
    let post = |path: &str, body: &str| server.connect().request("POST", path, headers, body.as_bytes());
    let first = post("/v1/queues/q/jobs", r#"{"type":"t"}"#);
    assert_eq!(first.header("idempotent-replayed"), None);
    let again = post("/v1/queues/q/jobs", r#"{"type":"t"}"#);
    assert_eq!(again.header("idempotent-replayed").as_deref(), Some("true"));
    assert_eq!(again.expect(201)["jobs"], first.expect(201)["jobs"]);
    post("/v1/queues/q/jobs", r#"{"type":"u"}"#).problem(422, "idempotency-key-reused");
    assert_eq!(server.receive("q", 10).len(), 1);
    for bad in ["idempotency-key: \r\n", "idempotency-key: a\r\nidempotency-key: b\r\n"] {
        let headers = format!("content-type: application/json\r\n{bad}");
        let answer = server.connect().request("POST", "/v1/queues/q/jobs", &headers, br#"{"type":"t"}"#);
        answer.problem(400, "invalid-request");
    }
}

#[test]
fn a_full_queue_says_when_to_come_back() {
    let server = Server::start();
    server.json("PUT", "/v1/queues/q", r#"{"maxDepth":2}"#).expect(201);
    server.enqueue("q", r#"[{"type":"t"},{"type":"t"}]"#);
    let problem = server.json("POST", "/v1/queues/q/jobs", r#"{"type":"t"}"#).problem(429, "queue-full");
    assert_eq!(
        (&problem["reason"], &problem["limit"], &problem["actual"]),
        (&json!("max-depth"), &json!(2), &json!(3))
    );
    let stats = server.json("GET", "/v1/queues/q/stats", "").expect(200);
    assert_eq!(stats["rejected"], json!({"max-depth": 1}));
    let delivery = server.receive("q", 1).remove(0);
    server.settle(&delivery, r#""outcome":"ack""#);
    server.enqueue("q", r#"{"type":"t"}"#);
}

#[test]
fn unknown_queues_are_not_made_where_that_is_off() {
    let server = Server::start_with(|config| config.auto_create_queues = false);
    server.json("PUT", "/v1/queues/email", "{}").expect(201);
    let problem = server.json("POST", "/v1/queues/emial/jobs", r#"{"type":"t"}"#).problem(404, "not-found");
    assert_eq!(problem["nearest"], "email");
    server.json("POST", "/v1/queues/emial/receive", "{}").problem(404, "not-found");
    server.enqueue("email", r#"{"type":"t"}"#);
}
