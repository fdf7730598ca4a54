//! What may be in a job: secrets and data about people at every place and edge, and never the value in an answer.

use serde_json::{Value, json};

use crate::server::{Server, until};

/// Made up, and in parts: nothing that looks like a key stands in this file.
fn secret() -> String {
    ["sk", "_live_"].concat() + &"a1B2".repeat(6)
}

fn refused(server: &Server, body: &str) -> Value {
    let answer = server.json("POST", "/v1/queues/q/jobs", body);
    assert!(!answer.text().contains(&secret()), "the value is in the answer: {}", answer.text());
    answer.problem(422, "secret-in-payload")
}

#[test]
fn a_secret_is_refused_wherever_it_stands() {
    let server = Server::start();
    let secret = secret();
    let encoded = ["c2tfbGl2ZV9hMUIyYTFCMmExQjJhMUIy", "YTFCMmExQjI="].concat();
    for (job, pointer) in [
        (json!({"type": "t", "payload": {"a": {"key": secret}}}), "/payload/a/key"),
        (json!({"type": "t", "payload": [1, format!("use {secret} for it")]}), "/payload/1"),
        (json!({"type": "t", "payload": {"blob": encoded}}), "/payload/blob"),
        (json!({"type": "t", "payload": {"q": format!("k%3D{}", secret.replace('_', "%5F"))}}), "/payload/q"),
        (json!({"type": "t", "payload": {secret.clone(): 1}}), "/payload"),
        (json!({"type": "t", "headers": {"x-api": format!("key {secret}")}}), "/headers/x-api"),
        (json!({"type": "t", "businessId": secret}), "/businessId"),
        (json!({"type": "t", "group": secret}), "/group"),
        (json!({"type": "t", "idempotencyKey": secret}), "/idempotencyKey"),
        (json!({"type": "t", "dedup": {"key": secret}}), "/dedup/key"),
    ] {
        let problem = refused(&server, &job.to_string());
        assert_eq!(
            (&problem["errors"][0]["pointer"], &problem["errors"][0]["rule"]),
            (&json!(pointer), &json!("stripe-key"))
        );
    }
    let stats = server.json("GET", "/v1/queues/q/stats", "");
    stats.problem(404, "not-found"); // nothing came in, so there is no queue
    server.enqueue("q", r#"{"type":"t"}"#);
    refused(&server, &json!({"type": "t", "payload": secret}).to_string());
    let stats = server.json("GET", "/v1/queues/q/stats", "").expect(200);
    assert_eq!(stats["rejected"], json!({"secret-in-payload": 11}));
    let metrics = server.json("GET", "/metrics", "").text();
    assert!(metrics.contains(r#"recado_rejected_total{queue="q",reason="secret-in-payload"} 11"#), "{metrics}");
}

#[test]
fn the_refusal_prints_the_line_that_lets_one_field_pass() {
    let server = Server::start();
    let token = "9f86d081884c7d659f86d081884c7d65";
    let job = json!({"type": "t", "payload": {"resetToken": token}}).to_string();
    let problem = refused(&server, &job);
    let error = &problem["errors"][0];
    assert_eq!((&error["pointer"], &error["rule"]), (&json!("/payload/resetToken"), &json!("secret-by-name")));
    let line = r#"allow=["/payload/resetToken"]"#;
    assert!(error["message"].as_str().unwrap().contains(line), "{error}");
    assert!(!problem.to_string().contains(token), "{problem}");

    let options = json!({"payload": {"allow": ["/payload/resetToken"]}}).to_string();
    server.json("PUT", "/v1/queues/q", &options).expect(201);
    server.enqueue("q", &job);
    let other = json!({"type": "t", "payload": {"resetToken": token, "other": secret()}}).to_string();
    assert_eq!(refused(&server, &other)["errors"].as_array().unwrap().len(), 1);

    // The line for an entry of an array is good for all of them.
    let many = json!({"type": "t", "payload": {"users": [{"resetToken": token}, {"resetToken": token}]}}).to_string();
    let line = r#"allow=["/payload/users/*/resetToken"]"#;
    assert!(refused(&server, &many)["errors"][0]["message"].as_str().unwrap().contains(line));
    let options = json!({"payload": {"allow": ["/payload/users/*/resetToken"]}}).to_string();
    server.json("PUT", "/v1/queues/q", &options).expect(200);
    server.enqueue("q", &many);
    refused(&server, &job);
}

#[test]
fn every_bad_entry_of_a_batch_and_of_a_stream_is_named() {
    let server = Server::start();
    let secret = secret();
    let bad = json!({"type": "t", "payload": {"k": secret}}).to_string();
    let batch = format!(r#"[{{"type":"t"}},{bad},{{"type":"t"}},{bad}]"#);
    let problem = refused(&server, &batch);
    let indices: Vec<_> = problem["errors"].as_array().unwrap().iter().map(|error| error["index"].clone()).collect();
    assert_eq!(indices, [1, 3]);
    let mixed = format!(r#"[{bad},{{"type":"t","priority":300}}]"#);
    let problem = server.json("POST", "/v1/queues/q/jobs", &mixed).problem(400, "invalid-request");
    assert_eq!(problem["errors"].as_array().unwrap().len(), 2, "{problem}");
    let numbered = format!(r#"{{"producer":{{"name":"p","seq":1}},"jobs":[{bad}]}}"#);
    assert_eq!(refused(&server, &numbered)["errors"][0]["index"], 0);

    let lines = format!("{{\"type\":\"t\"}}\n{bad}\n");
    let answer = server.connect().request(
        "POST",
        "/v1/queues/q/jobs",
        "content-type: application/x-ndjson\r\n",
        lines.as_bytes(),
    );
    let text = answer.text();
    let last: Value = serde_json::from_str(text.trim_end().lines().last().unwrap()).unwrap();
    assert_eq!(
        (&last["problem"]["code"], &last["problem"]["errors"][0]["index"]),
        (&json!("secret-in-payload"), &json!(1))
    );
    assert!(!text.contains(&secret), "{text}");
}

#[test]
fn a_queue_chooses_what_becomes_of_findings() {
    let server = Server::start();
    let with_secret = json!({"type": "t", "payload": {"k": secret()}}).to_string();
    let personal = json!({"type": "t", "payload": {"to": "ada@example.org"}}).to_string();
    // By default data about people is only counted.
    server.enqueue("q", &format!("[{personal},{personal}]"));
    let stats = || server.json("GET", "/v1/queues/q/stats", "").expect(200);
    assert_eq!(stats()["warned"], json!({"personal-data": 2}));

    let put = |options: Value| server.json("PUT", "/v1/queues/q", &options.to_string()).expect(200);
    put(json!({"payload": {"personalData": "reject", "secrets": "warn"}}));
    let problem = refused(&server, &personal);
    assert_eq!((&problem["reason"], &problem["errors"][0]["rule"]), (&json!("personal-data"), &json!("email-address")));
    server.enqueue("q", &with_secret);
    assert_eq!(stats()["warned"], json!({"personal-data": 2, "secret-in-payload": 1}));
    assert_eq!(stats()["rejected"], json!({"personal-data": 1}));
    let metrics = server.json("GET", "/metrics", "").text();
    assert!(metrics.contains(r#"recado_warned_total{queue="q",reason="personal-data"} 2"#), "{metrics}");

    put(json!({"payload": {"personalData": "off", "secrets": "off"}}));
    server.enqueue("q", &format!("[{personal},{with_secret}]"));
    assert_eq!(stats()["warned"], json!({"personal-data": 2, "secret-in-payload": 1}));

    // `[defaults]` hold at once, also for queues that are there.
    put(json!({}));
    refused(&server, &with_secret);
}

#[test]
fn a_change_and_a_replay_are_checked_like_an_enqueue() {
    let server = Server::start();
    let secret = secret();
    let id = server.enqueue("q", r#"{"type":"t","payload":{"n":1},"delay":"1h"}"#).remove(0);
    let patch = json!({"payload": {"k": secret}}).to_string();
    let answer = server.json("PATCH", &format!("/v1/jobs/{id}"), &patch);
    assert_eq!(answer.problem(422, "secret-in-payload")["errors"][0]["pointer"], "/payload/k");
    assert_eq!(server.job(&id)["payload"], json!({"n": 1}));

    server.enqueue("q", r#"{"type":"t","payload":{"n":2}}"#);
    let job = server.receive("q", 1).remove(0);
    server.settle(&job, r#""outcome":"fail","error":{"message":"no","retryable":false}"#);
    let before = server.stats("q")["rejected"].clone();
    let count = |rejected: &Value| rejected["secret-in-payload"].as_u64().unwrap_or(0);
    for dry_run in [true, false] {
        let replay = json!({"filter": {"all": true}, "payloadPatch": {"k": secret}, "dryRun": dry_run}).to_string();
        let answer = server.json("POST", "/v1/queues/q/dead/replay", &replay);
        assert!(!answer.text().contains(&secret), "{}", answer.text());
        let problem = answer.problem(422, "secret-in-payload");
        assert_eq!(problem["errors"][0]["pointer"], "/payloadPatch/k");
        assert!(problem["errors"][0]["message"].as_str().unwrap().contains(r#"allow=["/payload/k"]"#), "{problem}");
        let rejected = if dry_run { before.clone() } else { json!({"secret-in-payload": 1 + count(&before)}) };
        assert_eq!(server.stats("q")["rejected"], rejected, "what is only tried counts nowhere");
    }
    assert_eq!(server.job(job["id"].as_str().unwrap())["state"], "dead");
}

#[test]
fn what_workers_say_is_masked_before_it_is_stored() {
    let server = Server::start();
    let secret = secret();
    let id = server.enqueue("q", r#"{"type":"t"}"#).remove(0);
    let job = server.receive("q", 1).remove(0);
    let progress = json!({"using": secret, "done": 1});
    server.settle(&job, &format!(r#""outcome":"extend","progress":{progress}"#));
    assert_eq!(server.job(&id)["progress"], json!({"using": "***", "done": 1}));
    let message = format!("401 for {secret} from the provider");
    server.settle(
        &job,
        &format!(r#""outcome":"fail","error":{{"kind":"{secret}","message":"{message}","retryable":false}}"#),
    );
    let dead = server.job(&id);
    assert_eq!(dead["errors"][0]["message"], "401 for *** from the provider");
    assert_eq!(dead["errors"][0]["kind"], "***");
    let groups = server.json("GET", "/v1/queues/q/dead/groups", "").text();
    assert!(groups.contains("401 for *** from") && !groups.contains(&secret), "{groups}");

    let id = server.enqueue("q", r#"{"type":"t"}"#).remove(0);
    let job = server.receive("q", 1).remove(0);
    let result = json!({"receipt": "r-1", "password": "Tr0ub4dor&3"});
    let ack = format!(r#""outcome":"ack","result":{result}"#);
    assert_eq!(server.settle(&job, &ack)["ok"], true);
    assert_eq!(server.job(&id)["result"], json!({"receipt": "r-1", "password": "***"}));
    assert_eq!(server.settle(&job, &ack)["repeated"], true, "the same settle again is known");

    let path = "/v1/queues/q/idempotency/step";
    let begun = server.json("POST", &format!("{path}/begin"), "{}").expect(200);
    let done = json!({"token": begun["token"], "result": {"key": secret}}).to_string();
    server.json("POST", &format!("{path}/complete"), &done).expect(200);
    let begun = server.json("POST", &format!("{path}/begin"), "{}").expect(200);
    assert_eq!(begun["result"], json!({"key": "***"}));
}

#[test]
fn no_problem_repeats_a_secret() {
    let server = Server::start();
    let secret = secret();
    for body in [
        format!(r#"{{"type":"t","{secret}":1}}"#),
        format!(r#"{{"type":"t","priority":"{secret}"}}"#),
        format!(r#"{{"type":"t","delay":"{secret}"}}"#),
        format!(r#"{{"type":"{secret} !"}}"#),
        format!(r#"{{"type":"t","payload":{{"{secret}":1,"{secret}":2}}}}"#),
        format!(r#"{{"type":"t","dedup":{{"key":"k","onDuplicate":"{secret}"}}}}"#),
    ] {
        let answer = server.json("POST", "/v1/queues/q/jobs", &body);
        assert!(answer.status == 400 && !answer.text().contains(&secret), "{}", answer.text());
    }
}

#[test]
fn what_a_queue_asks_for_must_be_there() {
    let server = Server::start();
    let options = json!({"payload": {"requireBusinessId": true}, "idempotency": {"required": true}}).to_string();
    server.json("PUT", "/v1/queues/q", &options).expect(201);
    let problem = server.json("POST", "/v1/queues/q/jobs", r#"{"type":"t"}"#).problem(422, "schema-violation");
    let errors = problem["errors"].as_array().unwrap();
    let told: Vec<_> =
        errors.iter().map(|error| (error["pointer"].as_str().unwrap(), error["rule"].as_str().unwrap())).collect();
    assert_eq!(told, [("/businessId", "required"), ("/idempotencyKey", "required")]);
    server.enqueue("q", r#"{"type":"t","businessId":"order-42","idempotencyKey":"mail-42"}"#);
    let stats = server.json("GET", "/v1/queues/q/stats", "").expect(200);
    assert_eq!(stats["rejected"], json!({"schema-violation": 1}));
    until("the job is there", || server.json("GET", "/v1/queues/q/stats", "").expect(200)["ready"] == 1);
}
