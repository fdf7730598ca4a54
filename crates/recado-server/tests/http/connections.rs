//! Connections that end early, come from elsewhere, or outlive the server.

use std::net::Shutdown;
use std::time::Duration;

use crate::server::{Server, until};

#[test]
fn a_foreign_page_is_refused_everywhere() {
    let server = Server::start();
    let port = server.address.port();
    for (headers, refused) in [
        (format!("host: localhost:{port}\r\n"), false),
        (format!("host: 127.0.0.1:{port}\r\n"), false),
        ("host: queue.example.org\r\n".to_owned(), false),
        (format!("host: localhost:{port}\r\norigin: http://localhost:{port}\r\n"), false),
        (format!("host: localhost:{port}\r\norigin: https://queue.example.org\r\n"), false),
        (format!("host: localhost:{port}\r\norigin: https://evil.example\r\n"), true),
        (format!("host: localhost:{port}\r\norigin: null\r\n"), true),
        (format!("host: evil.example:{port}\r\n"), true),
        (format!("host: localhost:{port}\r\nsec-fetch-site: same-origin\r\n"), false),
        (format!("host: localhost:{port}\r\nsec-fetch-site: none\r\n"), false),
        (format!("host: localhost:{port}\r\nsec-fetch-site: same-site\r\n"), true),
        (format!("host: localhost:{port}\r\nsec-fetch-site: cross-site\r\n"), true),
    ] {
        for (method, path) in
            [("GET", "/healthz"), ("GET", "/v1/queues"), ("GET", "/metrics"), ("GET", "/openapi.json")]
        {
            let answer = server.connect().request(method, path, &headers, b"");
            match refused {
                true => drop(answer.problem(403, "foreign-origin")),
                false => assert_eq!(answer.status, 200, "{headers}"),
            }
        }
        if refused {
            let preflight = server.connect().request("OPTIONS", "/v1/queues/q/jobs", &headers, b"");
            preflight.problem(403, "foreign-origin");
            server.connect().request("GET", "/nothing", &headers, b"").problem(403, "foreign-origin");
        }
    }
    let mut conn = server.connect();
    conn.send(b"GET /healthz HTTP/1.1\r\n\r\n");
    conn.answer().problem(400, "invalid-request");
    let mut conn = server.connect();
    conn.send(b"GET /healthz HTTP/1.0\r\n\r\n");
    conn.answer().expect(200);
}

#[test]
fn who_leaves_a_long_poll_gets_nothing() {
    let server = Server::start();
    let mut gone = server.connect();
    let body = r#"{"wait":"60s","worker":"gone"}"#;
    let head = format!(
        "POST /v1/queues/q/receive HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    gone.send(head.as_bytes());
    until("the poll waits", || server.json("GET", "/v1/queues/q", "").status == 200);
    gone.stream.shutdown(Shutdown::Both).unwrap();
    drop(gone);
    let id = server.enqueue("q", r#"{"type":"t"}"#).remove(0);
    // Whatever the lost poll did with it, it is here, and no attempt was used.
    let answer = server.json("POST", "/v1/queues/q/receive", r#"{"wait":"20s"}"#).expect(200);
    assert_eq!(
        (answer["jobs"][0]["id"].as_str(), answer["jobs"][0]["attempts"].as_u64()),
        (Some(id.as_str()), Some(1))
    );
}

#[test]
fn an_answer_that_could_not_be_written_gives_its_jobs_back() {
    let server = Server::start();
    server.json("PUT", "/v1/queues/q", r#"{"payload":{"maxSize":"1MiB"},"visibilityTimeout":"12h"}"#).expect(201);
    let job = format!(r#"{{"type":"t","payload":"{}"}}"#, "x".repeat((1 << 20) - 2));
    for _ in 0..8 {
        server.enqueue("q", &job);
    }
    // 8 MiB do not fit into the buffers between two sockets of which one does not read.
    let mut deaf = server.connect();
    let body = r#"{"max":8}"#;
    let head = format!(
        "POST /v1/queues/q/receive HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    deaf.send(head.as_bytes());
    until("the jobs are handed out", || server.json("GET", "/v1/queues/q/stats", "").expect(200)["inFlight"] == 8);
    drop(deaf);
    until("the jobs are back", || server.json("GET", "/v1/queues/q/stats", "").expect(200)["ready"] == 8);
    let jobs = server.receive("q", 8);
    assert_eq!(jobs.len(), 8);
    assert!(jobs.iter().all(|job| job["attempts"] == 1), "an attempt was used");
}

#[test]
fn what_was_written_stays_with_the_worker() {
    let server = Server::start();
    server.enqueue("q", r#"{"type":"t"}"#);
    let mut conn = server.connect();
    let answer = conn.json("POST", "/v1/queues/q/receive", "{}").expect(200);
    drop(conn);
    assert_eq!(answer["jobs"].as_array().unwrap().len(), 1);
    assert!(server.receive("q", 1).is_empty());
    assert_eq!(server.settle(&answer["jobs"][0], r#""outcome":"ack""#)["ok"], true);
}

#[test]
fn requests_follow_each_other_on_one_connection() {
    let server = Server::start();
    let mut conn = server.connect();
    for _ in 0..100 {
        conn.json("POST", "/v1/queues/q/jobs", r#"{"type":"t"}"#).expect(201);
    }
    // Refusals that read the whole body keep the connection too.
    conn.json("POST", "/v1/queues/q/jobs", "{").problem(400, "malformed-json");
    conn.json("GET", "/nothing", "").problem(404, "not-found");
    conn.json("GET", "/healthz", "").expect(200);
}

#[test]
fn a_stop_ends_long_polls_and_answers_what_is_in_flight() {
    let mut server = Server::start();
    let mut poll = server.connect();
    let body = r#"{"wait":"60s"}"#;
    let head = format!(
        "POST /v1/queues/q/receive HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    poll.send(head.as_bytes());
    until("the poll waits", || server.json("GET", "/v1/queues/q", "").status == 200);
    let mut idle = server.connect();
    idle.json("GET", "/healthz", "").expect(200);
    let stopped = server.begin_stop();
    let answer = poll.answer().expect(200);
    assert_eq!(answer["jobs"].as_array().unwrap().len(), 0);
    assert!(idle.is_closed());
    let runtime = &server.runtime;
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(20), stopped).await }).unwrap().unwrap().unwrap();
    assert!(std::net::TcpStream::connect(server.address).is_err());
}

#[test]
fn what_was_acknowledged_is_there_after_a_restart() {
    let server = Server::start();
    let ids = server.enqueue("q", r#"[{"type":"t","payload":[1]},{"type":"t","payload":[2]}]"#);
    let delivery = server.receive("q", 1).remove(0);
    let server = server.restart(|_| {});
    assert_eq!(server.job(&ids[0])["state"], "inFlight");
    assert_eq!(server.job(&ids[1])["payload"], serde_json::json!([2]));
    assert_eq!(server.settle(&delivery, r#""outcome":"ack""#)["ok"], true);
    assert_eq!(server.job(&ids[0])["state"], "completed");
}

/// Heads of requests that are refused before their bodies of 9 bytes are looked at.
fn early_refusals() -> [String; 4] {
    let head = |line: &str, origin: &str| {
        format!(
            "{line} HTTP/1.1\r\nhost: localhost\r\n{origin}content-type: application/json\r\ncontent-length: 9\r\n\r\n"
        )
    };
    [
        head("PATCH /v1/jobs/job_00000000000000000000000000000000", ""),
        head("POST /nothing", ""),
        head("PUT /v1/settle", ""),
        head("POST /v1/settle", "origin: https://evil.example\r\n"),
    ]
}

/// The next request on the connection was lost: the server closed it without a word when the body came late.
#[test]
fn a_refusal_before_the_body_is_read_leaves_the_connection_usable() {
    let server = Server::start();
    let mut conn = server.connect();
    for _ in 0..25 {
        for head in early_refusals() {
            conn.send(head.as_bytes());
            conn.send(b"{\"a\": 1 }");
            let answer = conn.answer();
            assert!((400..500).contains(&answer.status), "{answer:?}");
            assert_eq!(answer.header("connection"), None, "{answer:?}");
        }
        assert_eq!(conn.json("GET", "/healthz", "").status, 200);
    }
}

#[test]
fn a_refusal_of_a_body_that_does_not_come_says_that_the_connection_closes() {
    let server = Server::start();
    for head in early_refusals() {
        let mut conn = server.connect();
        conn.send(head.as_bytes());
        conn.send(b"{");
        let answer = conn.answer();
        assert!((400..500).contains(&answer.status), "{answer:?}");
        assert_eq!(answer.header("connection").as_deref(), Some("close"), "{answer:?}");
    }
}
