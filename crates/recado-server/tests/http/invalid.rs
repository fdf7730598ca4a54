//! What bad input gets: the code, the place, and nothing changed.

use serde_json::json;

use crate::server::Server;

#[test]
fn malformed_json_says_where() {
    let server = Server::start();
    for (body, line, column) in [
        ("{", 1, 1),
        ("{\"type\":\"t\",}", 1, 13),
        ("{\"type\":\"t\"\n  \"x\":1}", 2, 3),
        ("{\"type\":\"t\"} x", 1, 14),
        ("[{\"type\":\"t\"},\n{\"type\":]", 2, 9),
        ("nope", 1, 2),
        ("{\"type\":\"t\",\"payload\":{\"a\":01}}", 1, 29),
    ] {
        let problem = server.json("POST", "/v1/queues/q/jobs", body).problem(400, "malformed-json");
        assert_eq!((&problem["line"], &problem["column"]), (&json!(line), &json!(column)), "{body}: {problem}");
    }
    let mut bytes = b"{\"type\":\"t\",\n \"payload\":\"".to_vec();
    bytes.extend_from_slice(b"\xff\"}");
    let answer = server.connect().request("POST", "/v1/queues/q/jobs", "content-type: application/json\r\n", &bytes);
    let problem = answer.problem(400, "malformed-json");
    assert_eq!((&problem["line"], &problem["column"]), (&json!(2), &json!(13)), "{problem}");
    server.json("GET", "/v1/queues/q", "").problem(404, "not-found");
}

#[test]
fn a_bad_job_is_named_by_its_field() {
    let server = Server::start();
    for (body, pointer, nearest) in [
        (r#"{}"#, "/type", None),
        (r#"{"type":null}"#, "/type", None),
        (r#"{"type":5}"#, "/type", None),
        (r#"{"type":"t","typ":1}"#, "/typ", Some("type")),
        (r#"{"type":"t","Payload":1}"#, "/Payload", Some("payload")),
        (r#"{"type":"t","zzzzzzzz":1}"#, "/zzzzzzzz", None),
        (r#"{"type":"t","type":"u"}"#, "/type", None),
        (r#"{"type":"t","payload":{"a":1,"a":2}}"#, "/payload/a", None),
        (r#"{"type":"t","payload":[{"x":{"b":1,"b":2}}]}"#, "/payload/0/x/b", None),
        (r#"{"type":"t","headers":{"a":1,"a":2}}"#, "/headers/a", None),
        (r#"{"type":"t","headers":[]}"#, "/headers", None),
        (r#"{"type":"t","priority":-1}"#, "/priority", None),
        (r#"{"type":"t","priority":256}"#, "/priority", None),
        (r#"{"type":"t","priority":1.5}"#, "/priority", None),
        (r#"{"type":"t","priority":"1"}"#, "/priority", None),
        (r#"{"type":"t","schemaVersion":0}"#, "/schemaVersion", None),
        (r#"{"type":"t","delay":"1h30m"}"#, "/delay", None),
        (r#"{"type":"t","delay":30}"#, "/delay", None),
        (r#"{"type":"t","delay":"-1s"}"#, "/delay", None),
        (r#"{"type":"t","delay":"366d"}"#, "/delay", None),
        (r#"{"type":"t","delay":"99999999999999999999d"}"#, "/delay", None),
        (r#"{"type":"t","delay":"1s","runAt":"2026-06-02T09:00:00Z"}"#, "/delay", None),
        (r#"{"type":"t","runAt":"tomorrow"}"#, "/runAt", None),
        (r#"{"type":"t","runAt":"9000-01-01T00:00:00Z"}"#, "/runAt", None),
        (r#"{"type":"t","businessId":""}"#, "/businessId", None),
        (r#"{"type":"t","group":"a\u0007b"}"#, "/group", None),
        (r#"{"type":"t","dedup":{}}"#, "/dedup/key", None),
        (r#"{"type":"t","dedup":{"key":"k","for":"soon"}}"#, "/dedup/for", None),
        (r#"{"type":"t","dedup":{"key":"k","onDuplicate":"keeep"}}"#, "/dedup/onDuplicate", Some("keep")),
        (r#"{"type":"t","maxAttempts":0}"#, "/maxAttempts", None),
        (r#"{"type":"t","maxAttempts":1001}"#, "/maxAttempts", None),
        (r#"{"type":"t","backoff":{"kind":"fixed"}}"#, "/backoff/base", None),
        (r#"{"type":"t","backoff":{"base":"x"}}"#, "/backoff/base", None),
        (r#"{"type":"t","visibilityTimeout":"99ms"}"#, "/visibilityTimeout", None),
        (r#"{"type":"t","timeout":"999ms"}"#, "/timeout", None),
        (r#"{"type":"t","expiresAfter":"0s"}"#, "/expiresAfter", None),
        (r#"[]"#, "", None),
        (r#""t""#, "", None),
        (r#"5"#, "", None),
    ] {
        let problem = server.json("POST", "/v1/queues/q/jobs", body).problem(400, "invalid-request");
        let error = &problem["errors"][0];
        assert_eq!(error["pointer"], pointer, "{body}: {problem}");
        assert_eq!(error.get("index"), None, "{body}");
        assert_eq!(problem.get("nearest").and_then(|nearest| nearest.as_str()), nearest, "{body}: {problem}");
    }
    server.json("GET", "/v1/queues/q", "").problem(404, "not-found");
}

#[test]
fn bad_names() {
    let server = Server::start();
    let long = "a".repeat(121);
    for name in ["a%20b", "%C3%A9", "recado.alerts", "%FF", long.as_str()] {
        for (method, path, body) in [
            ("POST", format!("/v1/queues/{name}/jobs"), r#"{"type":"t"}"#),
            ("POST", format!("/v1/queues/{name}/receive"), "{}"),
            ("PUT", format!("/v1/queues/{name}"), "{}"),
            ("GET", format!("/v1/queues/{name}"), ""),
        ] {
            server.json(method, &path, body).problem(400, "invalid-name");
        }
    }
    server.json("POST", "/v1/queues/q/jobs", r#"{"type":"a b"}"#).problem(400, "invalid-name");
    server.json("POST", "/v1/queues/q/jobs", r#"{"type":"recado.x"}"#).problem(400, "invalid-name");
    server.json("POST", "/v1/queues/q/receive", r#"{"worker":"a b"}"#).problem(400, "invalid-name");
}

#[test]
fn content_types() {
    let server = Server::start();
    let body = br#"{"type":"t"}"#;
    for headers in ["", "content-type: text/plain\r\n", "content-type: application/x-www-form-urlencoded\r\n"] {
        let problem =
            server.connect().request("POST", "/v1/queues/q/jobs", headers, body).problem(415, "unsupported-media-type");
        assert!(problem["detail"].as_str().unwrap().contains("--json"), "{problem}");
    }
    let packed = "content-type: application/json\r\ncontent-encoding: gzip\r\n";
    server.connect().request("POST", "/v1/queues/q/jobs", packed, body).problem(415, "unsupported-media-type");
    let lines = "content-type: application/x-ndjson\r\n";
    server.connect().request("POST", "/v1/settle", lines, b"[]").problem(415, "unsupported-media-type");
    for headers in ["content-type: application/json; charset=utf-8\r\n", "content-type: Application/JSON\r\n"] {
        server.connect().request("POST", "/v1/queues/q/jobs", headers, body).expect(201);
    }
}

#[test]
fn bad_receives_and_settles() {
    let server = Server::start();
    for (path, body, pointer) in [
        ("/v1/queues/q/receive", r#"{"max":0}"#, "/max"),
        ("/v1/queues/q/receive", r#"{"max":1001}"#, "/max"),
        ("/v1/queues/q/receive", r#"{"wait":"61s"}"#, "/wait"),
        ("/v1/queues/q/receive", r#"{"wait":5}"#, "/wait"),
        ("/v1/queues/q/receive", r#"{"types":[]}"#, "/types"),
        ("/v1/queues/q/receive", r#"{"types":["a@2-1"]}"#, "/types/0"),
        ("/v1/queues/q/receive", r#"{"attemptId":""}"#, "/attemptId"),
        ("/v1/queues/q/receive", r#"{"queues":["a"]}"#, "/queues"),
        ("/v1/queues/q/receive", r#"{"settle":[{"id":"j","receipt":"r","outcome":"akc"}]}"#, "/settle/0/outcome"),
        ("/v1/receive", r#"{}"#, "/queues"),
        ("/v1/receive", r#"{"queues":["a","b"]}"#, "/order"),
        ("/v1/receive", r#"{"queues":["a","a"],"order":"strict"}"#, "/queues/1"),
        ("/v1/receive", r#"{"queues":["a"],"weights":{"a":1}}"#, "/queues"),
        ("/v1/receive", r#"{"weights":{}}"#, "/weights"),
        ("/v1/receive", r#"{"weights":{"a":0}}"#, "/weights/a"),
        ("/v1/receive", r#"{"weights":{"a":1,"a":2}}"#, "/weights/a"),
        ("/v1/receive", r#"{"queues":["a"],"order":"random"}"#, "/order"),
        ("/v1/settle", r#"{"id":"j","receipt":"r"}"#, "/outcome"),
        ("/v1/settle", r#"{"id":"j","receipt":"r","outcome":"fail","error":{}}"#, "/error/message"),
        ("/v1/queues/q/purge", r#"{"states":["dead"]}"#, "/states/0"),
        ("/v1/queues/q/purge", r#"{"states":[]}"#, "/states"),
        ("/v1/queues/q/dead/replay", r#"{}"#, "/ids"),
        ("/v1/queues/q/dead/replay", r#"{"filter":{}}"#, "/filter"),
        ("/v1/queues/q/dead/replay", r#"{"filter":{"all":true,"type":"t"}}"#, "/filter/all"),
        ("/v1/queues/q/dead/replay", r#"{"filter":{"all":true},"rate":"fast"}"#, "/rate"),
        ("/v1/queues/q/dead/replay", r#"{"filter":{"all":true},"payloadPatch":[]}"#, "/payloadPatch"),
        ("/v1/queues/q/dead/replay", r#"{"ids":["x"]}"#, "/ids/0"),
        ("/v1/queues/q/dead/discard", r#"{"filter":{"all":true}}"#, "/reason"),
        ("/v1/jobs/cancel", r#"{}"#, "/ids"),
        ("/v1/jobs/cancel", r#"{"ids":[],"reason":"x"}"#, "/ids"),
        ("/v1/backup", r#"{"to":"somewhere"}"#, "/to"),
    ] {
        let problem = server.json("POST", path, body).problem(400, "invalid-request");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{path} {body}: {problem}");
    }
    let body = r#"[{"id":"j","receipt":"r","outcome":"ack"},{"id":"j","receipt":"r","outcome":"nak"}]"#;
    let problem = server.json("POST", "/v1/settle", body).problem(400, "invalid-request");
    assert_eq!((&problem["errors"][0]["index"], &problem["errors"][0]["pointer"]), (&json!(1), &json!("/outcome")));
}

#[test]
fn a_bad_settle_is_its_own_problem() {
    let server = Server::start();
    let deep = "[".repeat(200) + &"]".repeat(200);
    let long = format!(r#""{}""#, "x".repeat(64 << 10));
    for (outcome, pointer, code) in [
        (r#""ack","result":{"a":1,"a":2}"#.to_owned(), "/result/a", "invalid-request"),
        (r#""ack","result":1e400"#.to_owned(), "/result", "invalid-request"),
        (format!(r#""ack","result":{deep}"#), "/result", "invalid-request"),
        (format!(r#""ack","result":{long}"#), "/result", "payload-too-large"),
        (r#""ack","delay":"1s""#.to_owned(), "/delay", "invalid-request"),
        (r#""fail""#.to_owned(), "/error", "invalid-request"),
        (r#""fail","error":{"message":"m","retryAfter":"x"}"#.to_owned(), "/error/retryAfter", "invalid-request"),
        (r#""release","delay":"366d""#.to_owned(), "/delay", "invalid-request"),
        (r#""extend","visibilityTimeout":"13h""#.to_owned(), "/visibilityTimeout", "invalid-request"),
        (r#""extend","progress":{"a":1,"a":2}"#.to_owned(), "/progress/a", "invalid-request"),
    ] {
        server.enqueue("q", r#"[{"type":"t"},{"type":"t"},{"type":"t"}]"#);
        let jobs = server.receive("q", 3);
        let entry = |job: &serde_json::Value, outcome: &str| {
            format!(r#"{{"id":{},"receipt":{},"outcome":{outcome}}}"#, job["id"], job["receipt"])
        };
        let (good, bad) = (entry(&jobs[0], r#""ack""#), entry(&jobs[1], &outcome));
        let answer = server.json("POST", "/v1/settle", &format!("[{bad},{good}]")).expect(200);
        let check = |settled: &serde_json::Value| {
            assert_eq!((&settled["id"], &settled["ok"]), (&jobs[1]["id"], &json!(false)), "{outcome}");
            let problem = &settled["problem"];
            let at = problem["errors"][0]["pointer"].as_str().unwrap();
            assert!(at == pointer || at.starts_with(&format!("{pointer}/0")), "{problem}");
            assert_eq!((&problem["code"], problem["errors"][0].get("index")), (&json!(code), None), "{problem}");
        };
        check(&answer["settled"][0]);
        assert_eq!(answer["settled"][1], json!({"id": jobs[0]["id"], "ok": true}));
        let receive = format!(r#"{{"settle":[{bad},{}]}}"#, entry(&jobs[2], r#""ack""#));
        let answer = server.json("POST", "/v1/queues/q/receive", &receive).expect(200);
        check(&answer["settled"][0]);
        assert_eq!(answer["settled"][1], json!({"id": jobs[2]["id"], "ok": true}));
        // Its receipt stays good.
        assert_eq!(server.settle(&jobs[1], r#""outcome":"ack""#)["ok"], true);
    }
}

#[test]
fn bad_parameters() {
    let server = Server::start();
    server.json("PUT", "/v1/queues/q", "{}").expect(201);
    for path in [
        "/v1/queues?limt=5",
        "/v1/queues?limit=0",
        "/v1/queues?limit=1001",
        "/v1/queues?limit=1&limit=2",
        "/v1/queues?cursor=a%2Fb",
        "/v1/queues/q/jobs?state=redy",
        "/v1/queues/q/jobs?before=yesterday",
        "/v1/queues/q/jobs?payload=no",
        "/v1/queues/q?x=1",
        "/v1/queues/q/stats?verbose=1",
        "/v1/jobs",
        "/v1/replays?queu=q",
        "/v1/audit?acton=x",
        "/v1/jobs/job_018f3c5e7b1a7c3d9e2f1a2b3c4d5e6f?wait=61s",
        "/v1/jobs/job_018f3c5e7b1a7c3d9e2f1a2b3c4d5e6f?wiat=1s",
    ] {
        server.json("GET", path, "").problem(400, "invalid-request");
    }
    let problem = server.json("GET", "/v1/queues?limt=5", "").problem(400, "invalid-request");
    assert_eq!(problem["nearest"], "limit");
    server.json("DELETE", "/v1/queues/q?froce=true", "").problem(400, "invalid-request");
    server.json("DELETE", "/v1/queues/q?force=yes", "").problem(400, "invalid-request");
}

#[test]
fn unknown_ids_and_paths() {
    let server = Server::start();
    for id in ["x", "job_", "job_123", "job_018F3C5E7B1A7C3D9E2F1A2B3C4D5E6F", "018f3c5e-7b1a-7c3d-9e2f-1a2b3c4d5e6f"] {
        server.json("GET", &format!("/v1/jobs/{id}"), "").problem(404, "not-found");
    }
    for id in ["job_018f3c5e7b1a7c3d9e2f1a2b3c4d5e6f", "job_00000000000000000000000000000000"] {
        server.json("GET", &format!("/v1/jobs/{id}"), "").problem(410, "gone");
        server.json("DELETE", &format!("/v1/jobs/{id}"), "").problem(410, "gone");
        server.json("PATCH", &format!("/v1/jobs/{id}"), r#"{"priority":1}"#).problem(410, "gone");
        server.json("GET", &format!("/v1/jobs/{id}?wait=10s"), "").problem(410, "gone");
    }
    server.json("GET", "/v1/replays/x", "").problem(404, "not-found");
    server.json("GET", "/v1/replays/rpl_00000000000000ff", "").problem(410, "gone");
    for path in
        ["/ui/", "/v1", "/v1/queues/", "/v1/nothing", "/v1/hook", "/v1/doctors", "/problems/nothing", "/favicon.ico"]
    {
        server.json("GET", path, "").problem(404, "not-found");
    }
    for (method, path) in [
        ("GET", "/v1/queues/none"),
        ("GET", "/v1/queues/none/stats"),
        ("GET", "/v1/queues/none/jobs"),
        ("GET", "/v1/queues/none/dead/groups"),
        ("DELETE", "/v1/queues/none"),
        ("POST", "/v1/queues/none/pause"),
        ("POST", "/v1/queues/none/purge"),
    ] {
        server.json(method, path, "").problem(404, "not-found");
    }
}

#[test]
fn other_methods_say_which_there_are() {
    let server = Server::start();
    for (method, path, allowed) in [
        ("PUT", "/v1/queues/q/jobs", "GET,HEAD,POST"),
        ("GET", "/v1/settle", "POST"),
        ("POST", "/v1/queues/q", "DELETE,GET,HEAD,PUT"),
        ("POST", "/healthz", "GET,HEAD"),
        ("OPTIONS", "/v1/queues", "GET,HEAD"),
    ] {
        let answer = server.json(method, path, "");
        answer.problem(405, "method-not-allowed");
        let allow = answer.header("allow").unwrap();
        let mut methods: Vec<_> = allow.split(',').map(str::trim).collect();
        methods.sort_unstable();
        assert_eq!(methods.join(","), allowed, "{method} {path}");
    }
}

#[test]
fn bad_patches() {
    let server = Server::start();
    let id = server.enqueue("q", r#"{"type":"t"}"#).remove(0);
    for (body, pointer) in [
        ("{}", ""),
        (r#"{"priority":256}"#, "/priority"),
        (r#"{"prioriti":1}"#, "/prioriti"),
        (r#"{"payload":{"a":1,"a":1}}"#, "/payload/a"),
        (r#"{"delay":"1s","runAt":"2026-06-02T09:00:00Z"}"#, "/delay"),
    ] {
        let problem = server.json("PATCH", &format!("/v1/jobs/{id}"), body).problem(400, "invalid-request");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{body}: {problem}");
    }
}

#[test]
fn unknown_query_parameters_are_refused_also_where_there_are_none() {
    let server = Server::start();
    for path in ["/healthz", "/readyz", "/metrics", "/openapi.json", "/problems/gone", "/v1/info", "/v1/queues"] {
        let problem = server.json("GET", &format!("{path}?x=1"), "").problem(400, "invalid-request");
        assert_eq!(problem["errors"][0]["pointer"], "?x", "{path}: {problem}");
        assert_eq!(server.json("GET", &format!("{path}?"), "").status, 200, "{path}");
    }
}
