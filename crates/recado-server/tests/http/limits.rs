//! Every limit: at it, and one beyond.

use serde_json::json;

use crate::server::Server;

const MIB: usize = 1 << 20;

#[test]
fn a_payload() {
    let server = Server::start();
    server.json("PUT", "/v1/queues/q", r#"{"payload":{"maxSize":"1MiB"}}"#).expect(201);
    let job = |size: usize| format!(r#"{{"type":"t","payload":"{}"}}"#, "x".repeat(size - 2));
    server.enqueue("q", &job(MIB));
    let problem = server.json("POST", "/v1/queues/q/jobs", &job(MIB + 1)).problem(413, "payload-too-large");
    assert_eq!((&problem["limit"], &problem["actual"]), (&json!(MIB), &json!(MIB + 1)));
    // The default of a queue.
    server.enqueue("r", &job(64 * 1024));
    let problem = server.json("POST", "/v1/queues/r/jobs", &job(64 * 1024 + 1)).problem(413, "payload-too-large");
    assert_eq!((&problem["limit"], &problem["actual"]), (&json!(64 * 1024), &json!(64 * 1024 + 1)));
    assert_eq!(problem["errors"][0].get("index"), None);
    let batch = format!("[{},{}]", job(10), job(64 * 1024 + 1));
    let problem = server.json("POST", "/v1/queues/r/jobs", &batch).problem(413, "payload-too-large");
    assert_eq!((&problem["errors"][0]["index"], &problem["errors"][0]["pointer"]), (&json!(1), &json!("/payload")));
    // A change is checked like an enqueue.
    let id = server.enqueue("r", &job(10)).remove(0);
    let patch = |size: usize| format!(r#"{{"payload":"{}"}}"#, "x".repeat(size - 2));
    server.json("PATCH", &format!("/v1/jobs/{id}"), &patch(64 * 1024)).expect(200);
    server.json("PATCH", &format!("/v1/jobs/{id}"), &patch(64 * 1024 + 1)).problem(413, "payload-too-large");
}

#[test]
fn jobs_of_a_batch() {
    let server = Server::start_full_size();
    let batch = |count: usize| format!("[{}]", vec![r#"{"type":"t"}"#; count].join(","));
    assert_eq!(server.enqueue("q", &batch(10_000)).len(), 10_000);
    let problem = server.json("POST", "/v1/queues/q/jobs", &batch(10_001)).problem(413, "request-too-large");
    assert_eq!((&problem["limit"], &problem["actual"]), (&json!(10_000), &json!(10_001)));
}

#[test]
fn bytes_of_a_batch() {
    let server = Server::start_full_size();
    let sized = |size: usize| {
        let job = format!(r#"{{"type":"t","payload":"{}"}}"#, "x".repeat(60_000));
        let mut batch = format!("[{}]", vec![job.as_str(); 16 * MIB / (job.len() + 1)].join(","));
        batch.push_str(&" ".repeat(size - batch.len()));
        batch
    };
    let ids = server.enqueue("q", &sized(16 * MIB));
    assert!(ids.len() > 270);
    let problem = server.json("POST", "/v1/queues/q/jobs", &sized(16 * MIB + 1)).problem(413, "request-too-large");
    assert_eq!((&problem["limit"], &problem["actual"]), (&json!(16 * MIB), &json!(16 * MIB + 1)));
}

#[test]
fn a_body() {
    let server = Server::start();
    let sized = |size: usize| format!("[]{}", " ".repeat(size - 2));
    server.json("POST", "/v1/settle", &sized(32 * MIB)).expect(200);
    let problem = server.json("POST", "/v1/settle", &sized(32 * MIB + 1)).problem(413, "request-too-large");
    assert_eq!(problem["limit"], 32 * MIB);
}

#[test]
fn headers_of_a_job() {
    let server = Server::start();
    let entries = |count: usize| {
        let entries: Vec<_> = (0..count).map(|n| format!(r#""h{n}":1"#)).collect();
        format!(r#"{{"type":"t","headers":{{{}}}}}"#, entries.join(","))
    };
    server.enqueue("q", &entries(32));
    let problem = server.json("POST", "/v1/queues/q/jobs", &entries(33)).problem(400, "invalid-request");
    assert_eq!(problem["errors"][0]["pointer"], "/headers");
    let sized = |size: usize| format!(r#"{{"type":"t","headers":{{"h":"{}"}}}}"#, "x".repeat(size - 8));
    server.enqueue("q", &sized(8 * 1024));
    let problem = server.json("POST", "/v1/queues/q/jobs", &sized(8 * 1024 + 1)).problem(413, "payload-too-large");
    assert_eq!(problem["limit"], 8 * 1024);
}

#[test]
fn results_and_progress() {
    let server = Server::start();
    server.enqueue("q", r#"[{"type":"t"},{"type":"t"}]"#);
    for job in server.receive("q", 2) {
        for (field, outcome, limit) in [("progress", "extend", 1024), ("result", "ack", 64 * 1024)] {
            let settle = |size: usize| format!(r#""outcome":"{outcome}","{field}":"{}""#, "x".repeat(size - 2));
            let refused = server.settle(&job, &settle(limit + 1));
            assert_eq!(refused["problem"]["code"], "payload-too-large", "{refused}");
            assert_eq!(
                (&refused["problem"]["limit"], &refused["problem"]["actual"]),
                (&json!(limit), &json!(limit + 1))
            );
            assert_eq!(server.settle(&job, &settle(limit))["ok"], true);
        }
    }
}

#[test]
fn a_delay() {
    let server = Server::start();
    let ids = server.enqueue("q", r#"{"type":"t","delay":"365d"}"#);
    assert_eq!(server.job(&ids[0])["state"], "delayed");
    server.json("POST", "/v1/queues/q/jobs", r#"{"type":"t","delay":"365.0001d"}"#).problem(400, "invalid-request");
}

#[test]
fn entries_of_a_settle() {
    let server = Server::start();
    let entries = |count: usize| {
        let entry = r#"{"id":"job_018f3c5e7b1a7c3d9e2f1a2b3c4d5e6f","receipt":"r","outcome":"ack"}"#;
        format!("[{}]", vec![entry; count].join(","))
    };
    let answer = server.json("POST", "/v1/settle", &entries(1_000)).expect(200);
    assert_eq!(answer["settled"].as_array().unwrap().len(), 1_000);
    server.json("POST", "/v1/settle", &entries(1_001)).problem(400, "invalid-request");
}

#[test]
fn a_receive_has_at_most_8_mib_and_at_least_one_job() {
    let server = Server::start();
    server.json("PUT", "/v1/queues/q", r#"{"payload":{"maxSize":"1MiB"}}"#).expect(201);
    let job = format!(r#"{{"type":"t","payload":"{}"}}"#, "x".repeat(MIB - 2));
    for _ in 0..9 {
        server.enqueue("q", &job);
    }
    assert_eq!(server.receive("q", 1_000).len(), 8);
    assert_eq!(server.receive("q", 1_000).len(), 1);
}

#[test]
fn a_requests_head() {
    let server = Server::start();
    let sized = |size: usize| {
        let start = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nx-fill: ";
        format!("{start}{}\r\n\r\n", "x".repeat(size - start.len() - 4))
    };
    let ask = |head: String| {
        let mut conn = server.connect();
        conn.send(head.as_bytes());
        conn.answer()
    };
    ask(sized(16 * 1024)).expect(200);
    ask(sized(16 * 1024 + 1)).problem(431, "headers-too-large");
    ask(sized(100 * 1024)).problem(431, "headers-too-large");
    let many: String = (0..200).map(|n| format!("x-{n}: 1\r\n")).collect();
    ask(format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\n{many}\r\n")).problem(431, "headers-too-large");
}

#[test]
fn keys_and_reasons() {
    let server = Server::start();
    let key = |size: usize| format!(r#"{{"type":"t","businessId":"{}"}}"#, "x".repeat(size));
    server.enqueue("q", &key(256));
    server.json("POST", "/v1/queues/q/jobs", &key(257)).problem(400, "invalid-request");
    let reason = |size: usize| format!(r#"{{"reason":"{}"}}"#, "x".repeat(size));
    server.json("POST", "/v1/queues/q/pause", &reason(1_024)).expect(200);
    server.json("POST", "/v1/queues/q/pause", &reason(1_025)).problem(400, "invalid-request");
}
