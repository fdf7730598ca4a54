//! `recado doctor`: every point of the checklist, well and not well, of a server and of a file.

use serde_json::{Value, json};

use crate::support::stage::Stage;
use crate::support::{Dir, Run, Server, command, finish, until};

/// The point of this word, of a queue or of the server.
#[track_caller]
fn point<'a>(answer: &'a Value, queue: Option<&str>, check: &str) -> &'a Value {
    let of = |one: &&Value| one["queue"] == json!(queue) && one["check"] == check;
    answer["checks"].as_array().unwrap().iter().find(of).unwrap_or_else(|| panic!("no {queue:?} {check} in {answer}"))
}

#[track_caller]
fn status<'a>(answer: &'a Value, queue: Option<&str>, check: &str) -> &'a str {
    let found = point(answer, queue, check);
    assert_eq!(found["fix"].is_null(), found["status"] == "pass", "what is not well says what to do: {found}");
    found["status"].as_str().unwrap()
}

/// A queue that has all that is asked for.
const GOOD: &str = r#"
[queues.email]
owner = "mail@example.org"
visibilityTimeout = "auto"
timeout = "1m"
maxInFlight = 10
payload = { requireSchema = true, requireBusinessId = true }
idempotency = { required = true }
deadLetter = { runbook = "email.md" }
"#;

const RUNBOOK: &str = "# Mails\n## Review\nlook\n## Correct\nmend\n## Replay\nagain\n## Discard\nno more\n";

#[test]
fn a_file_is_judged_without_a_server() {
    let dir = Dir::new();
    let doctor = |code| -> Run {
        finish(&mut command(dir.path(), &["doctor", "--json", "--config", "recado.toml"])).expect(code)
    };
    dir.write("recado.toml", GOOD);
    doctor(65).says("recado.toml line 9: deadLetter.runbook: cannot read email.md");
    dir.write("email.md", RUNBOOK);
    let good = doctor(0).json();
    for check in good["checks"].as_array().unwrap() {
        assert_eq!(check["status"], "pass", "{check}");
    }

    dir.write("email.md", "# Mails\n## Review\n## Replay\n");
    let poor = doctor(0).json();
    assert_eq!(point(&poor, Some("email"), "runbook")["value"], "no heading for correct, discard");

    dir.write(
        "recado.toml",
        "[defaults]\nbackoff = { jitter = \"none\" }\n[queues.email]\npayload = { secrets = \"off\" }\n",
    );
    let bad = doctor(1).json();
    for (check, expected) in [
        ("owner", "fail"),
        ("runbook", "warn"),
        ("retries", "pass"),
        ("backoff", "warn"),
        ("visibility", "pass"),
        ("timeout", "warn"),
        ("secrets", "fail"),
        ("schema", "warn"),
        ("idempotency", "warn"),
        ("business-id", "warn"),
    ] {
        assert_eq!(status(&bad, Some("email"), check), expected, "{check}");
    }
    let run = finish(&mut command(dir.path(), &["doctor", "--config", "recado.toml"])).expect(1);
    for part in ["email\n  fail  owner", "-> set owner", "2 failures"] {
        assert!(run.out.contains(part), "{part} in {}", run.out);
    }
    finish(&mut command(dir.path(), &["doctor", "--url", "http://127.0.0.1:9"])).expect(69);

    // A file that names no queue is judged by what holds for all.
    dir.write("recado.toml", "[defaults]\nowner = \"ops\"\n");
    let mut elsewhere = command(dir.path(), &["doctor", "--json", "--config", "recado.toml"]);
    let any = finish(elsewhere.env("RECADO_URL", "http://127.0.0.1:9")).expect(0).json();
    assert_eq!(status(&any, Some("*"), "owner"), "pass");
    dir.write("recado.toml", "");
    assert_eq!(status(&doctor(1).json(), Some("*"), "owner"), "fail");
}

#[test]
fn a_server_is_judged_by_what_it_has_done() {
    let dir = Dir::new();
    dir.write("email.md", RUNBOOK);
    dir.write("recado.toml", GOOD);
    let server = Server::start(&dir.path().join("data"));
    let answer: Value = server.run(&["doctor", "--json"]).expect(0).json();
    for check in ["version", "log", "disk", "commit", "memory", "open-files", "file-system"] {
        status(&answer, None, check);
    }
    for check in ["made-by", "owner", "runbook", "dead-letters", "consumers", "depth", "max-in-flight"] {
        assert_eq!(status(&answer, Some("email"), check), "pass", "{check}");
    }
    let shown = server.json(&["queues", "show", "email"]);
    assert_eq!(shown["effective"]["deadLetter"]["runbook"]["markdown"], RUNBOOK);
    server.stop();

    let stage = Stage::new();
    let doctor = || stage.get("/v1/doctor").expect(200);
    stage.configure("one", &json!({ "maxAttempts": 1, "maxDepth": 2, "visibilityTimeout": "100ms" }));
    stage.enqueue_all("one", &json!([{ "type": "t" }, { "type": "t" }]));
    assert_eq!(status(&doctor(), Some("one"), "depth"), "warn");
    for job in stage.receive("one", &json!({ "max": 2 })) {
        stage.fail(&job, false);
    }
    let answer = doctor();
    assert_eq!(status(&answer, Some("one"), "made-by"), "pass");
    assert_eq!(status(&answer, Some("one"), "failures"), "warn");
    assert_eq!(status(&answer, Some("one"), "dead-letters"), "warn");
    assert!(point(&answer, Some("one"), "dead-letters")["value"].as_str().unwrap().starts_with("2, "), "{answer}");
    assert_eq!(status(&answer, Some("one"), "consumers"), "pass");

    // A worker that knows only another type.
    stage.enqueue_all("two", &json!([{ "type": "t" }]));
    until("that nobody can do it", || {
        stage.post("/v1/queues/two/receive", &json!({ "types": ["other"], "worker": "w" })).expect(200);
        let answer = doctor();
        answer["checks"].as_array()?.iter().find(|one| one["check"] == "capable-workers").cloned()
    });
    assert_eq!(status(&doctor(), Some("two"), "made-by"), "warn", "the enqueue made it");
    stage.post("/v1/queues/two/pause", &json!({})).expect(200);
    assert_eq!(status(&doctor(), Some("two"), "paused"), "warn");
}

#[test]
fn what_init_writes_is_kept_and_judged_well() {
    let dir = Dir::new();
    let init = || finish(&mut command(dir.path(), &["init", "--json"])).expect(0).json();
    let outcomes = |answer: &Value| -> Vec<String> {
        let files = answer["files"].as_array().unwrap();
        files.iter().map(|file| file["outcome"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(outcomes(&init()), ["written"; 3]);
    let untouched = finish(&mut command(dir.path(), &["doctor", "--json", "--config", "recado.toml"])).expect(1).json();
    assert_eq!(status(&untouched, Some("email"), "owner"), "fail", "nobody reads the placeholder");
    let text = std::fs::read_to_string(dir.path().join("recado.toml")).unwrap();
    dir.write("recado.toml", &text.replace("CHANGE-ME", "ops"));
    assert_eq!(outcomes(&init()), ["kept"; 3]);
    assert!(std::fs::read_to_string(dir.path().join("recado.toml")).unwrap().contains("ops@example.org"));
    let answer = finish(&mut command(dir.path(), &["doctor", "--json", "--config", "recado.toml"])).expect(0).json();
    assert_eq!(point(&answer, Some("email"), "owner")["value"], "ops@example.org");
    assert_eq!(status(&answer, Some("email"), "runbook"), "pass");

    dir.write("CONTRIBUTING.md", "# How we work\n\nWell.");
    assert_eq!(outcomes(&init()), ["kept", "kept", "extended"]);
    let guide = std::fs::read_to_string(dir.path().join("CONTRIBUTING.md")).unwrap();
    assert!(guide.starts_with("# How we work\n\nWell.\n\n## Queues\n"), "{guide}");
    finish(&mut command(dir.path(), &["init", "no/such/place"]))
        .expect(65)
        .says("cannot write no/such/place/recado.toml");
    // It serves as it is.
    let server = Server::start(&dir.path().join("data"));
    server.run(&["enqueue", "email", "email.send", "{}"]).expect(0);
    server.run(&["enqueue", "emial", "email.send", "{}"]).expect(65).says("email");
    server.stop();
}
