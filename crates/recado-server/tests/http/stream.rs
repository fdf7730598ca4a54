//! One job a line, answered while the rest arrives.

use std::net::Shutdown;

use serde_json::{Value, json};

use crate::client::Conn;
use crate::server::{Server, until};

const LINES: &str = "content-type: application/x-ndjson\r\n";

fn open(server: &Server, queue: &str) -> Conn {
    let mut conn = server.connect();
    let head = format!(
        "POST /v1/queues/{queue}/jobs HTTP/1.1\r\nhost: localhost\r\n{LINES}transfer-encoding: chunked\r\n\r\n"
    );
    conn.send(head.as_bytes());
    conn
}

/// The next line of the answer.
fn line(conn: &mut Conn) -> Value {
    serde_json::from_slice(&conn.chunk().expect("another line")).unwrap()
}

fn begin(conn: &mut Conn) {
    let head = conn.head_only();
    assert_eq!((head.status, head.header("content-type").as_deref()), (200, Some("application/x-ndjson")));
}

fn ids(line: &Value) -> usize {
    line["jobs"].as_array().unwrap().iter().filter(|job| job["id"].is_string() && job["deduplicated"] == false).count()
}

#[test]
fn answers_come_while_the_rest_is_still_to_be_sent() {
    let server = Server::start();
    let mut conn = open(&server, "q");
    begin(&mut conn);
    conn.send_chunk(b"{\"type\":\"t\",\"payload\":1}\n{\"type\":\"t\",");
    let first = line(&mut conn);
    assert_eq!((&first["from"], ids(&first)), (&json!(0), 1));
    conn.send_chunk(b"\"payload\":2}\n\n{\"type\":\"t\"}");
    let second = line(&mut conn);
    assert_eq!((&second["from"], ids(&second)), (&json!(1), 1));
    conn.send(b"0\r\n\r\n");
    let third = line(&mut conn);
    assert_eq!((&third["from"], ids(&third)), (&json!(2), 1));
    assert_eq!(line(&mut conn), json!({"done": true, "accepted": 3}));
    assert!(conn.chunk().is_none());
    let payloads: Vec<_> = server.receive("q", 10).iter().map(|job| job["payload"].clone()).collect();
    assert_eq!(payloads, [json!(1), json!(2), json!(null)]);
}

#[test]
fn chunks_have_at_most_1000_lines() {
    let server = Server::start();
    let body = "{\"type\":\"t\"}\n".repeat(2_500);
    let answer = server.connect().request("POST", "/v1/queues/q/jobs", LINES, body.as_bytes());
    assert_eq!(answer.status, 200);
    let lines: Vec<Value> = answer.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (done, chunks) = lines.split_last().unwrap();
    assert_eq!(*done, json!({"done": true, "accepted": 2_500}));
    let mut from = 0;
    for chunk in chunks {
        assert_eq!(chunk["from"], from);
        assert!((1..=1_000).contains(&ids(chunk)));
        from += ids(chunk);
    }
    assert_eq!(from, 2_500);
}

#[test]
fn a_bad_line_ends_the_stream_and_says_what_is_in() {
    let server = Server::start();
    for (bad, code, line_number, pointer) in [
        ("{\"type\":\"t\",\"dealy\":1}", "invalid-request", None, Some("/dealy")),
        ("{\"type\":\"a b\"}", "invalid-name", None, Some("/type")),
        ("{\"type\":", "malformed-json", Some(2), None),
        ("[]", "invalid-request", None, Some("")),
    ] {
        let mut conn = open(&server, "q");
        begin(&mut conn);
        conn.send_chunk(b"{\"type\":\"t\"}\n");
        line(&mut conn);
        conn.send_chunk(format!("{bad}\n").as_bytes());
        let last = line(&mut conn);
        assert_eq!((&last["accepted"], &last["problem"]["code"]), (&json!(1), &json!(code)), "{last}");
        if let Some(pointer) = pointer {
            let error = &last["problem"]["errors"][0];
            assert_eq!((&error["index"], &error["pointer"]), (&json!(1), &json!(pointer)), "{last}");
        }
        if let Some(number) = line_number {
            assert_eq!(last["problem"]["line"], number, "{last}");
        }
        assert!(conn.chunk().is_none());
    }
}

#[test]
fn a_bad_line_takes_its_chunk_with_it() {
    let server = Server::start();
    let body = "{\"type\":\"t\"}\n{\"type\":\"t\"}\n{}\n";
    let answer = server.connect().request("POST", "/v1/queues/q/jobs", LINES, body.as_bytes());
    let last: Value = serde_json::from_str(answer.text().lines().last().unwrap()).unwrap();
    assert_eq!((&last["accepted"], &last["problem"]["errors"][0]["index"]), (&json!(0), &json!(2)));
    server.json("GET", "/v1/queues/q", "").problem(404, "not-found");
}

#[test]
fn a_line_has_a_limit() {
    let server = Server::start();
    let sized = |size: usize| {
        let mut line = "{\"type\":\"t\"}".to_owned();
        line.push_str(&" ".repeat(size - line.len()));
        line
    };
    let post = |body: String| {
        let answer = server.connect().request("POST", "/v1/queues/q/jobs", LINES, body.as_bytes());
        serde_json::from_str::<Value>(answer.text().lines().last().unwrap()).unwrap()
    };
    assert_eq!(post(sized(2 << 20) + "\n")["accepted"], 1);
    let last = post(sized((2 << 20) + 1) + "\n");
    assert_eq!((&last["problem"]["code"], &last["problem"]["limit"]), (&json!("request-too-large"), &json!(2 << 20)));
    // Without an end in sight it is refused before it has ended.
    let mut conn = open(&server, "q");
    begin(&mut conn);
    conn.send_chunk(&vec![b' '; (2 << 20) + 1]);
    assert_eq!(line(&mut conn)["problem"]["code"], "request-too-large");
}

#[test]
fn a_full_queue_ends_the_stream() {
    let server = Server::start();
    server.json("PUT", "/v1/queues/q", r#"{"maxDepth":1}"#).expect(201);
    let mut conn = open(&server, "q");
    begin(&mut conn);
    conn.send_chunk(b"{\"type\":\"t\"}\n");
    line(&mut conn);
    conn.send_chunk(b"{\"type\":\"t\"}\n");
    let last = line(&mut conn);
    assert_eq!((&last["accepted"], &last["problem"]["code"]), (&json!(1), &json!("queue-full")));
    assert!(last["problem"]["retryAfter"].is_string());
}

#[test]
fn who_breaks_off_keeps_what_was_answered() {
    let server = Server::start();
    let mut conn = open(&server, "q");
    begin(&mut conn);
    conn.send_chunk(b"{\"type\":\"t\"}\n");
    line(&mut conn);
    conn.send_chunk(b"{\"type\":\"t\"");
    conn.stream.shutdown(Shutdown::Both).unwrap();
    drop(conn);
    until("one is there", || server.json("GET", "/v1/queues/q/stats", "").expect(200)["ready"] == 1);
}

#[test]
fn an_idempotency_key_does_not_go_with_it() {
    let server = Server::start();
    let headers = format!("{LINES}idempotency-key: k\r\n");
    server
        .connect()
        .request("POST", "/v1/queues/q/jobs", &headers, b"{\"type\":\"t\"}\n")
        .problem(400, "invalid-request");
}

#[test]
fn a_stop_ends_it_with_a_problem() {
    let mut server = Server::start();
    let mut conn = open(&server, "q");
    begin(&mut conn);
    conn.send_chunk(b"{\"type\":\"t\"}\n");
    line(&mut conn);
    let stopped = server.begin_stop();
    let last = line(&mut conn);
    assert_eq!((&last["accepted"], &last["problem"]["code"]), (&json!(1), &json!("stopping")));
    server.runtime.block_on(stopped).unwrap().unwrap();
}
