//! Bodies that come in pieces, too late, or never end.

use crate::server::Server;

const JSON: &str = "content-type: application/json\r\n";

#[test]
fn in_chunks() {
    let server = Server::start();
    let mut conn = server.connect();
    conn.send(
        format!("POST /v1/queues/q/jobs HTTP/1.1\r\nhost: localhost\r\n{JSON}transfer-encoding: chunked\r\n\r\n")
            .as_bytes(),
    );
    for part in [r#"{"ty"#, r#"pe":"#, r#""t"}"#] {
        conn.send_chunk(part.as_bytes());
    }
    conn.send(b"0\r\n\r\n");
    conn.answer().expect(201);
    // The connection is good for more.
    conn.json("GET", "/healthz", "").expect(200);
}

#[test]
fn without_end() {
    let server = Server::start();
    let mut conn = server.connect();
    conn.send(
        format!("POST /v1/queues/q/jobs HTTP/1.1\r\nhost: localhost\r\n{JSON}transfer-encoding: chunked\r\n\r\n")
            .as_bytes(),
    );
    let megabyte = vec![b' '; 1 << 20];
    for _ in 0..80 {
        conn.send_chunk(&megabyte);
    }
    let answer = conn.answer();
    answer.problem(413, "request-too-large");
    assert_eq!(answer.header("connection").as_deref(), Some("close"));
}

#[test]
fn larger_than_announced_limits_are_refused_at_once() {
    let server = Server::start();
    let mut conn = server.connect();
    conn.send(
        format!("POST /v1/queues/q/jobs HTTP/1.1\r\nhost: localhost\r\n{JSON}content-length: 99999999999\r\n\r\n")
            .as_bytes(),
    );
    conn.answer().problem(413, "request-too-large");
}

#[test]
fn that_break_off_change_nothing() {
    let server = Server::start();
    let mut conn = server.connect();
    conn.send(
        format!(
            "POST /v1/queues/q/jobs HTTP/1.1\r\nhost: localhost\r\n{JSON}content-length: 100\r\n\r\n{{\"type\":\"t\"}}"
        )
        .as_bytes(),
    );
    drop(conn);
    server.json("GET", "/v1/queues/q", "").problem(404, "not-found");
}

#[test]
fn that_are_not_http_get_a_problem() {
    let server = Server::start();
    for bytes in [
        "\x16\x03\x01\x02\x00\x01\x00\x01\r\n\r\n",
        "GET /healthz HTTP/9.9\r\n\r\n",
        "GET / HTTP/1.1\r\nbad header\r\n\r\n",
    ] {
        let mut conn = server.connect();
        conn.send(bytes.as_bytes());
        conn.answer().problem(400, "invalid-request");
    }
}

/// The limits are 30 s; the normal suite checks them against a clock that can be moved (`src/http/body.rs`).
#[test]
fn that_stop_coming_are_given_up() {
    if std::env::var_os("RECADO_LONG").is_none() {
        return;
    }
    let server = Server::start();
    let mut conn = server.connect();
    conn.send(
        format!("POST /v1/queues/q/jobs HTTP/1.1\r\nhost: localhost\r\n{JSON}content-length: 100\r\n\r\n{{").as_bytes(),
    );
    let mut lines = server.connect();
    let head = "POST /v1/queues/q/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-ndjson\r\n";
    lines.send(format!("{head}transfer-encoding: chunked\r\n\r\n").as_bytes());
    lines.send_chunk(b"{\"type\":\"t\"}\n{");
    conn.answer().problem(408, "request-timeout");
    let answer = lines.answer().text();
    let last: serde_json::Value = serde_json::from_str(answer.lines().last().unwrap()).unwrap();
    assert_eq!((&last["accepted"], &last["problem"]["code"]), (&1.into(), &"request-timeout".into()));
}

#[test]
fn an_array_is_no_object() {
    let server = Server::start();
    for (method, path, body, pointer) in [
        ("POST", "/v1/queues/q/jobs", r#"[["t",{"a":1}]]"#, ""),
        ("POST", "/v1/queues/q/jobs", r#"{"type":"t","dedup":["k"]}"#, "/dedup"),
        ("POST", "/v1/queues/q/jobs", r#"{"type":"t","backoff":["fixed","1s"]}"#, "/backoff"),
        ("POST", "/v1/queues/q/jobs", r#"{"producer":["n",1],"jobs":[{"type":"t"}]}"#, "/producer"),
        ("POST", "/v1/queues/q/jobs", r#"{"producer":{"name":"n","seq":1},"jobs":[["t"]]}"#, ""),
        ("PUT", "/v1/queues/q", r#"{"deadLetter":["ops"]}"#, "/deadLetter"),
        ("PUT", "/v1/queues/q", r#"{"backoff":["fixed","1s"]}"#, "/backoff"),
        ("PUT", "/v1/queues/q", r#"{"groups":[true]}"#, "/groups"),
        ("PUT", "/v1/queues/q", r#"{"idempotency":["1h"]}"#, "/idempotency"),
        ("PUT", "/v1/queues/q", r#"{"payload":["1KiB"]}"#, "/payload"),
        ("POST", "/v1/queues/q/receive", r#"[1,null,null,null,null,null]"#, ""),
        ("POST", "/v1/receive", r#"[{"q":1}]"#, ""),
        ("POST", "/v1/settle", r#"[["r","ack"]]"#, ""),
        ("POST", "/v1/settle", r#"[{"receipt":"r","outcome":"fail","error":["k","m"]}]"#, "/error"),
        ("POST", "/v1/jobs/cancel", r#"[["job_018f3c5e7b1a7c3d9e2f1a2b3c4d5e6f"]]"#, ""),
        ("PATCH", "/v1/jobs/job_018f3c5e7b1a7c3d9e2f1a2b3c4d5e6f", "[1]", ""),
        ("POST", "/v1/queues/q/pause", r#"["why"]"#, ""),
        ("POST", "/v1/queues/q/resume", r#"["why"]"#, ""),
        ("POST", "/v1/queues/q/purge", r#"[["ready"],"why"]"#, ""),
        ("POST", "/v1/queues/q/dead/discard", r#"[null,{"all":true},"why"]"#, ""),
        ("POST", "/v1/queues/q/dead/discard", r#"{"filter":[true]}"#, "/filter"),
        ("POST", "/v1/queues/q/dead/replay", r#"[null,{"all":true}]"#, ""),
        ("POST", "/v1/queues/q/dead/groups/0123456789abcdef/acknowledge", r#"["seen"]"#, ""),
        ("POST", "/v1/backup", r#"["/never/there"]"#, ""),
    ] {
        let problem = server.json(method, path, body).problem(400, "invalid-request");
        let error = &problem["errors"][0];
        assert_eq!(error["pointer"], pointer, "{method} {path} {body}: {problem}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("an array, expected an object"), "{method} {path} {body}: {message}");
    }
    server.json("GET", "/v1/queues/q", "").problem(404, "not-found");
}

/// What docs/queues.md says of payloads.
#[test]
fn payloads_that_readers_would_stumble_over_are_refused() {
    let server = Server::start();
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    let deepest = "/0".repeat(127);
    for (payload, pointer) in [
        (r#"{"a":1,"a":2}"#, "/a"),
        (r#"{"a":[1e400]}"#, "/a/0"),
        (r#"{"a":"\ud800"}"#, "/a"),
        (nested(128).as_str(), deepest.as_str()),
    ] {
        let job = format!(r#"{{"type":"t","payload":{payload}}}"#);
        let problem = server.json("POST", "/v1/queues/q/jobs", &job).problem(400, "invalid-request");
        assert_eq!(problem["errors"][0]["pointer"], format!("/payload{pointer}"), "{problem}");
    }
    for payload in ["123456789012345678901234567890", "1.0e5", r#""\ud83d\ude00""#, &nested(127)] {
        let id = server.enqueue("q", &format!(r#"{{"type":"t","payload":{payload}}}"#)).remove(0);
        assert!(server.json("GET", &format!("/v1/jobs/{id}"), "").text().contains(payload), "{payload}");
    }
}
