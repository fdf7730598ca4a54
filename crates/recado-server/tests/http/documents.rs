//! What the server says about itself.

use serde_json::Value;

use crate::server::Server;

#[test]
fn the_description_has_every_route_and_every_answer() {
    let server = Server::start();
    let document = server.json("GET", "/openapi.json", "").expect(200);
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    let paths = document["paths"].as_object().unwrap();
    for (path, methods) in [
        ("/v1/queues/{q}/jobs", "get post"),
        ("/v1/queues/{q}/receive", "post"),
        ("/v1/receive", "post"),
        ("/v1/settle", "post"),
        ("/v1/jobs", "get"),
        ("/v1/jobs/{id}", "delete get patch"),
        ("/v1/jobs/cancel", "post"),
        ("/v1/queues", "get"),
        ("/v1/queues/{q}", "delete get put"),
        ("/v1/queues/{q}/pause", "post"),
        ("/v1/queues/{q}/resume", "post"),
        ("/v1/queues/{q}/purge", "post"),
        ("/v1/queues/{q}/stats", "get"),
        ("/v1/queues/{q}/dead/groups", "get"),
        ("/v1/queues/{q}/dead/groups/{id}/acknowledge", "post"),
        ("/v1/queues/{q}/dead/replay", "post"),
        ("/v1/queues/{q}/dead/discard", "post"),
        ("/v1/queues/{q}/idempotency/{key}/begin", "post"),
        ("/v1/queues/{q}/idempotency/{key}/complete", "post"),
        ("/v1/queues/{q}/idempotency/{key}/abort", "post"),
        ("/v1/queues/{q}/idempotency/{key}/extend", "post"),
        ("/v1/replays", "get"),
        ("/v1/replays/{id}", "delete get"),
        ("/v1/types", "get"),
        ("/v1/types/{type}/versions/{n}", "delete get put"),
        ("/v1/limits", "get"),
        ("/v1/limits/{limit}", "delete get put"),
        ("/v1/schedules", "get"),
        ("/v1/schedules/{schedule}", "delete get put"),
        ("/v1/schedules/{schedule}/pause", "post"),
        ("/v1/schedules/{schedule}/resume", "post"),
        ("/v1/schedules/{schedule}/run", "post"),
        ("/v1/schedules/{schedule}/next", "get"),
        ("/v1/schedules/{schedule}/occurrences", "get"),
        ("/v1/events", "get"),
        ("/v1/hooks", "get"),
        ("/v1/hooks/{hook}", "delete get post put"),
        ("/v1/audit", "get"),
        ("/v1/doctor", "get"),
        ("/v1/info", "get"),
        ("/v1/backup", "post"),
        ("/healthz", "get"),
        ("/readyz", "get"),
        ("/metrics", "get"),
        ("/problems/{id}", "get"),
        ("/openapi.json", "get"),
        ("/", "get"),
    ] {
        let mut known: Vec<_> =
            paths[path].as_object().unwrap_or_else(|| panic!("{path} is missing")).keys().map(String::as_str).collect();
        known.sort_unstable();
        assert_eq!(known.join(" "), methods, "{path}");
    }
    assert_eq!(paths.len(), 47, "a route is missing in this test");
    let mut ids = std::collections::BTreeSet::new();
    for (path, item) in paths {
        for (method, operation) in item.as_object().unwrap() {
            let answers = operation["responses"].as_object().unwrap();
            for status in ["400", "403", "431", "503"] {
                let problem = &answers[status]["content"]["application/problem+json"]["schema"]["$ref"];
                assert_eq!(problem, "#/components/schemas/Problem", "{method} {path} {status}");
            }
            assert!(answers.keys().any(|status| status.starts_with('2') || status == "307"), "{method} {path}");
            assert!(operation["summary"].is_string(), "{method} {path}");
            // Generated clients name their methods by it.
            let id = operation["operationId"].as_str().unwrap();
            assert!(id.bytes().all(|b| b.is_ascii_alphabetic()), "{method} {path}: {id}");
            assert!(ids.insert(id), "{method} {path}: {id} stands twice");
        }
    }
    every_reference_is_there(&document, &document);
}

fn every_reference_is_there(value: &Value, document: &Value) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(target)) = fields.get("$ref") {
                assert!(document.pointer(target.trim_start_matches('#')).is_some(), "{target}");
            }
            fields.values().for_each(|field| every_reference_is_there(field, document));
        }
        Value::Array(entries) => entries.iter().for_each(|entry| every_reference_is_there(entry, document)),
        _ => {}
    }
}

#[test]
fn the_description_knows_the_fields_of_a_job() {
    let server = Server::start();
    let document = server.json("GET", "/openapi.json", "").expect(200);
    let id = server.enqueue("q", r#"{"type":"t"}"#).remove(0);
    let schedule = r#"{"queue":"q","job":{"type":"t"},"cron":"0 0 1 1 *"}"#;
    server.json("PUT", "/v1/schedules/s", schedule).expect(201);
    let ran = server.json("POST", "/v1/schedules/s/run", "").expect(200);
    let schedule = server.json("GET", "/v1/schedules/s", "").expect(200);
    for (schema, object) in [
        ("Job", server.job(&id)),
        ("Stats", server.json("GET", "/v1/queues/q/stats", "").expect(200)),
        ("ScheduleConfig", schedule["config"].clone()),
        ("Schedule", schedule),
        ("Occurrence", ran),
    ] {
        let known = document["components"]["schemas"][schema]["properties"].as_object().unwrap();
        for field in object.as_object().unwrap().keys() {
            assert!(known.contains_key(field), "{schema}.{field}");
        }
    }
}

#[test]
fn health_and_readiness() {
    let server = Server::start();
    for path in ["/healthz", "/readyz"] {
        assert_eq!(server.json("GET", path, "").expect(200), serde_json::json!({"status": "ok"}));
    }
    let head = server.connect().request("HEAD", "/healthz", "", b"");
    assert_eq!(head.status, 200);
    let info = server.json("GET", "/v1/info", "").expect(200);
    assert_eq!((info["name"].as_str(), info["durability"].as_str()), (Some("recado"), Some("os")));
}

#[test]
fn the_root_says_what_this_is() {
    let server = Server::start();
    let answer = server.json("GET", "/", "");
    assert_eq!(answer.status, 200);
    assert!(answer.text().contains("/openapi.json"), "{}", answer.text());
}

#[test]
fn every_problem_has_a_page() {
    let server = Server::start();
    for code in "invalid-request invalid-name malformed-json unauthenticated forbidden foreign-origin not-found \
                 method-not-allowed request-timeout gone stale-receipt duplicate-conflict idempotency-in-progress \
                 producer-gap job-not-waiting queue-not-empty managed-by-file contract-incomplete schema-in-use \
                 precondition-failed payload-too-large request-too-large unsupported-media-type schema-violation \
                 unknown-type-version secret-in-payload idempotency-key-reused queue-full rate-limited \
                 headers-too-large internal overloaded stopping log-failed not-leader storage-full"
        .split_whitespace()
    {
        let answer = server.json("GET", &format!("/problems/{code}"), "");
        assert_eq!(answer.status, 200, "{code}");
        assert!(answer.text().contains(code));
    }
    server.json("GET", "/problems/stale-recipt", "").problem(404, "not-found");
}

#[test]
fn metrics() {
    let server = Server::start();
    server.json("PUT", "/v1/queues/q", r#"{"maxDepth":2}"#).expect(201);
    server.enqueue("q", r#"[{"type":"t"},{"type":"t"}]"#);
    server.json("POST", "/v1/queues/q/jobs", r#"{"type":"t"}"#).problem(429, "queue-full");
    let job = server.receive("q", 1).remove(0);
    server.settle(&job, r#""outcome":"ack""#);
    let answer = server.json("GET", "/metrics", "");
    assert!(answer.header("content-type").unwrap().starts_with("text/plain; version=0.0.4"));
    let text = answer.text();
    for line in [
        "recado_queue_depth{queue=\"q\",state=\"ready\"} 1",
        "recado_queue_oldest_dead_age_seconds{queue=\"q\"} 0",
        "recado_jobs_total{queue=\"q\",event=\"enqueued\"} 2",
        "recado_jobs_total{queue=\"q\",event=\"completed\"} 1",
        "recado_rejected_total{queue=\"q\",reason=\"max-depth\"} 1",
        "recado_job_wait_seconds_count{queue=\"q\"} 1",
        "recado_job_processing_seconds_bucket{queue=\"q\",le=\"+Inf\"} 1",
        "recado_consumers{queue=\"q\"} 1",
    ] {
        assert!(text.lines().any(|known| known == line), "{line}\n{text}");
    }
    for name in [
        "recado_queue_oldest_job_age_seconds{",
        "recado_log_commit_seconds_count ",
        "recado_log_bytes ",
        "recado_log_pinned_bytes ",
        "recado_log_unreadable_total ",
    ] {
        assert!(text.lines().any(|known| known.starts_with(name)), "{name}");
    }
    // Rows of one metric stand together, after its type.
    let mut closed = Vec::new();
    let mut open = "";
    for line in text.lines().filter(|line| line.starts_with("# TYPE")) {
        let name = line.split(' ').nth(2).unwrap();
        assert!(!closed.contains(&name), "{name} twice");
        closed.push(open);
        open = name;
    }
}

#[test]
fn an_idempotency_key_is_kept_or_refused() {
    let server = Server::start();
    let ask = |path: &str, body: &str| {
        let headers = "content-type: application/json\r\nidempotency-key: k\r\n";
        server.connect().request("POST", path, headers, body.as_bytes())
    };
    ask("/v1/queues/q/jobs", r#"{"type":"t"}"#).expect(201);
    for (path, body) in [("/v1/settle", "[]"), ("/v1/queues/q/receive", "{}"), ("/v1/queues/q/pause", "{}")] {
        let problem = ask(path, body).problem(400, "invalid-request");
        assert!(problem["detail"].as_str().unwrap().contains("Idempotency-Key"), "{path}: {problem}");
    }
    assert_eq!(server.json("GET", "/v1/queues/q", "").expect(200)["paused"], false);
}

#[test]
fn metrics_as_openmetrics_for_those_who_ask() {
    let server = Server::start();
    server.enqueue("q", r#"{"type":"t"}"#);
    let ask = |accept: &str| server.connect().request("GET", "/metrics", &format!("accept: {accept}\r\n"), b"");
    // What Prometheus sends.
    let open = ask("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1");
    assert!(open.header("content-type").unwrap().starts_with("application/openmetrics-text; version=1.0.0"));
    let text = open.text();
    assert!(text.ends_with("# EOF\n"));
    assert!(text.contains("# TYPE recado_jobs counter\n") && !text.contains("# TYPE recado_jobs_total"));
    assert!(text.contains("recado_jobs_total{queue=\"q\",event=\"enqueued\"} 1\n"));
    for plain in
        ["*/*", "text/plain", "application/openmetrics-text;q=0.1,text/plain", "application/openmetrics-text;q=0"]
    {
        assert!(ask(plain).header("content-type").unwrap().starts_with("text/plain"), "{plain}");
    }
}

#[test]
fn figures_of_many_queues_are_gathered_in_steps() {
    let server = Server::start();
    let mut connection = server.connect();
    for n in 0..120 {
        connection.json("PUT", &format!("/v1/queues/q{n:03}"), "{}").expect(201);
    }
    let page = server.json("GET", "/v1/queues?limit=1000", "").expect(200);
    assert_eq!(page["queues"].as_array().unwrap().len(), 100);
    let path = format!("/v1/queues?limit=1000&cursor={}", page["cursor"].as_str().unwrap());
    let rest = server.json("GET", &path, "").expect(200);
    assert_eq!((rest["queues"].as_array().unwrap().len(), rest["queues"][19]["name"].as_str()), (20, Some("q119")));
    let text = server.json("GET", "/metrics", "").text();
    assert_eq!(text.lines().filter(|line| line.starts_with("recado_consumers{")).count(), 120);
}

#[test]
fn a_backup_while_serving() {
    let server = Server::start();
    let ids = server.enqueue("q", r#"[{"type":"t","payload":1}]"#);
    let to = tempfile::tempdir().unwrap();
    let body = serde_json::json!({"to": to.path()}).to_string();
    let done = server.json("POST", "/v1/backup", &body).expect(200);
    assert!(done["bytes"].as_u64().unwrap() > 0);
    server.json("POST", "/v1/backup", &body).problem(400, "invalid-request");
    let copy = Server::start_in(to, |_| {});
    assert_eq!(copy.job(&ids[0])["payload"], 1);
}
