//! Schemas of job types: put, looked at, held against every job at every edge, kept over restarts.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::server::{Server, until};

const MAIL: &str =
    r#"{ "type": "object", "required": ["deliveryId"], "properties": {"deliveryId": {"type": "string"}} }"#;

fn put(server: &Server, version: u32, schema: &str) -> crate::client::Answer {
    server.json("PUT", &format!("/v1/types/email.send/versions/{version}"), schema)
}

fn violation(server: &Server, body: &str) -> Value {
    server.json("POST", "/v1/queues/q/jobs", body).problem(422, "schema-violation")
}

#[test]
fn a_schema_is_held_against_every_job_of_its_version() {
    let server = Server::start();
    let answer = put(&server, 1, MAIL);
    answer.expect(201);
    assert_eq!(answer.text(), MAIL, "it is kept byte for byte");
    assert_eq!(server.json("GET", "/v1/types/email.send/versions/1", "").text(), MAIL);
    put(&server, 1, MAIL).expect(200);
    server.json("GET", "/v1/types/email.send/versions/2", "").problem(404, "not-found");

    let problem = violation(&server, r#"{"type":"email.send","payload":{"deliveryId":7}}"#);
    let error = &problem["errors"][0];
    assert_eq!((&error["pointer"], &error["rule"]), (&json!("/payload/deliveryId"), &json!("type")));
    assert!(problem["detail"].as_str().unwrap().contains("/payload/deliveryId"), "{problem}");
    let problem = violation(&server, r#"{"type":"email.send"}"#);
    assert_eq!(problem["errors"][0]["rule"], "type", "{problem}");
    let batch = r#"[{"type":"email.send","payload":{"deliveryId":"a"}},{"type":"email.send","payload":{}}]"#;
    let error = &violation(&server, batch)["errors"][0];
    assert_eq!(
        (&error["index"], &error["pointer"], &error["rule"]),
        (&json!(1), &json!("/payload/deliveryId"), &json!("required"))
    );
    let line = "{\"type\":\"email.send\",\"payload\":{}}\n";
    let answer = server.connect().request(
        "POST",
        "/v1/queues/q/jobs",
        "content-type: application/x-ndjson\r\n",
        line.as_bytes(),
    );
    assert!(answer.text().contains("schema-violation"), "{}", answer.text());
    // Other versions and types are free, and what fits comes in.
    server.enqueue("q", r#"[{"type":"email.send","schemaVersion":2},{"type":"other"},{"type":"email.send","payload":{"deliveryId":"a"}}]"#);
    let stats = server.json("GET", "/v1/queues/q/stats", "").expect(200);
    assert_eq!(stats["rejected"], json!({"schema-violation": 4}));
}

#[test]
fn a_queue_may_take_only_what_has_a_schema() {
    let server = Server::start();
    server.json("PUT", "/v1/queues/q", r#"{"payload":{"requireSchema":true}}"#).expect(201);
    put(&server, 1, "true").expect(201);
    for (job, pointer) in
        [(r#"{"type":"email.send","schemaVersion":2}"#, "/schemaVersion"), (r#"{"type":"email.sent"}"#, "/type")]
    {
        let problem = server.json("POST", "/v1/queues/q/jobs", job).problem(422, "unknown-type-version");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
    }
    server.enqueue("q", r#"{"type":"email.send"}"#);
    // The next one is taken once its schema is there.
    put(&server, 2, "true").expect(201);
    server.enqueue("q", r#"{"type":"email.send","schemaVersion":2}"#);
}

#[test]
fn a_schema_with_jobs_stays_as_it_is() {
    let server = Server::start();
    put(&server, 1, MAIL).expect(201);
    put(&server, 1, "true").expect(200);
    server.enqueue("q", r#"{"type":"email.send"}"#);
    put(&server, 1, MAIL).problem(409, "schema-in-use");
    server.json("DELETE", "/v1/types/email.send/versions/1", "").problem(409, "schema-in-use");
    put(&server, 2, MAIL).expect(201);
    let types = || server.json("GET", "/v1/types", "").expect(200)["types"].clone();
    let version =
        |version: u32, jobs: u32| json!({"version": version, "registered": true, "source": "api", "jobs": jobs});
    assert_eq!(types(), json!([{"type": "email.send", "versions": [version(1, 1), version(2, 0)]}]));
    let job = server.receive("q", 1).remove(0);
    server.settle(&job, r#""outcome":"ack""#);
    put(&server, 1, MAIL).expect(200);
    server.json("DELETE", "/v1/types/email.send/versions/1", "").expect(200);
    assert_eq!(types(), json!([{"type": "email.send", "versions": [version(2, 0)]}]));
    server.enqueue("q", r#"{"type":"email.send"}"#);
}

#[test]
fn a_change_and_a_replay_must_fit_the_schema() {
    let server = Server::start();
    put(&server, 1, MAIL).expect(201);
    let ids =
        server.enqueue("q", r#"[{"type":"email.send","payload":{"deliveryId":"a"}},{"type":"free","payload":{}}]"#);
    let patch = server.json("PATCH", &format!("/v1/jobs/{}", ids[0]), r#"{"payload":{"deliveryId":1}}"#);
    assert_eq!(patch.problem(422, "schema-violation")["errors"][0]["pointer"], "/payload/deliveryId");
    server.json("PATCH", &format!("/v1/jobs/{}", ids[0]), r#"{"payload":{"deliveryId":"b"}}"#).expect(200);

    for job in server.receive("q", 2) {
        server.settle(&job, r#""outcome":"fail","error":{"message":"no","retryable":false}"#);
    }
    let replay = |which: Value| {
        let body = json!({"ids": which, "payloadPatch": {"deliveryId": 5}}).to_string();
        server.json("POST", "/v1/queues/q/dead/replay", &body)
    };
    let problem = replay(json!([ids[0]])).problem(422, "schema-violation");
    assert_eq!(problem["errors"][0]["pointer"], "/payload/deliveryId");
    // Among many, one that does not fit is passed over.
    let started = replay(json!([ids[1], ids[0]])).expect(202);
    let mut ended = Value::Null;
    until("the replay ends", || {
        ended = server.json("GET", &format!("/v1/replays/{}", started["id"].as_str().unwrap()), "").expect(200);
        ended["state"] != "running"
    });
    assert_eq!((&ended["replayed"], &ended["skipped"]), (&json!(1), &json!({"unpatchable": 1})), "{ended}");
    assert_eq!(server.job(&ids[0])["state"], "dead");
}

#[test]
fn what_is_no_schema_is_refused() {
    let server = Server::start();
    for (schema, pointer) in [
        (r#"{"type":"sting"}"#, "/type"),
        (r#"{"properties":{"a":{"$ref":"https://example.org/a"}}}"#, "/properties/a/$ref"),
        (r#"{"$schema":"http://json-schema.org/draft-04/schema#"}"#, "/$schema"),
    ] {
        let problem = put(&server, 1, schema).problem(400, "invalid-request");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
    }
    put(&server, 1, "{").problem(400, "malformed-json");
    put(&server, 1, r#"{"type":"string","type":"object"}"#).problem(400, "invalid-request");
    put(&server, 0, "true").problem(400, "invalid-request");
    put(&server, 1, &format!(r#"{{"title":"{}"}}"#, "x".repeat(64 << 10))).problem(413, "request-too-large");
    let fits = format!(r#"{{"title":"{}"}}"#, "x".repeat((64 << 10) - 12));
    put(&server, 1, &fits).expect(201);
}

#[test]
fn schemas_survive_a_restart_and_the_file_manages_its_own() {
    let server = Server::start();
    put(&server, 1, MAIL).expect(201);
    let types = BTreeMap::from([("email.send".to_owned(), BTreeMap::from([(2, MAIL.to_owned())]))]);
    let server = server.restart(|config| config.types = types);
    violation(&server, r#"{"type":"email.send","payload":{}}"#);
    violation(&server, r#"{"type":"email.send","schemaVersion":2,"payload":{}}"#);
    put(&server, 2, "true").problem(409, "managed-by-file");
    put(&server, 1, "true").expect(200);
    // What the file no longer names stays, and is the API's again.
    let server = server.restart(|_| {});
    violation(&server, r#"{"type":"email.send","schemaVersion":2,"payload":{}}"#);
    put(&server, 2, "true").expect(200);
}
