//! The client commands against a real server.

use serde_json::{Value, json};

use crate::support::{Dir, Server, run_with_input};

#[test]
fn a_job_from_enqueue_to_ack() {
    let dir = Dir::new();
    let server = Server::start(&dir.path().join("data"));
    let payload = r#"{"deliveryId":"mail-1001", "amount":1.50}"#;
    let made = server.json(&[
        "enqueue",
        "email",
        "email.send",
        payload,
        "--business-id",
        "order-42",
        "--priority",
        "7",
        "--max-attempts",
        "3",
        "--header",
        "traceparent=00-1",
    ]);
    let id = made["jobs"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!((&made["created"], &made["jobs"][0]["deduplicated"]), (&json!(true), &json!(false)));

    let shown = server.run(&["jobs", "show", &id, "--json"]).expect(0);
    assert!(shown.out.contains(payload), "byte for byte: {}", shown.out);
    let job = shown.json();
    for (member, value) in [
        ("state", json!("ready")),
        ("businessId", json!("order-42")),
        ("priority", json!(7)),
        ("maxAttempts", json!(3)),
        ("headers", json!({ "traceparent": "00-1" })),
    ] {
        assert_eq!(job[member], value, "{member}");
    }
    let text = server.run(&["queues"]).expect(0).out;
    assert!(text.starts_with("QUEUE ") && text.contains("email"), "{text}");
    let list = server.json(&["queues"]);
    assert_eq!(list["queues"][0]["name"], "email");
    assert_eq!(server.json(&["jobs", "email"])["jobs"][0]["id"], id.as_str());
    assert_eq!(server.json(&["jobs", "--business-id", "order-42"])["jobs"][0]["id"], id.as_str());

    let received = server.json(&["receive", "email", "--worker", "w", "--wait", "20s"]);
    let receipt = received["jobs"][0]["receipt"].as_str().unwrap();
    server.run(&["settle", "extend", &id, receipt, "--progress", "{\"sent\":50}"]).expect(0);
    assert_eq!(server.json(&["jobs", "show", &id])["progress"], json!({ "sent": 50 }));
    let settled = server.json(&["settle", "ack", &id, receipt, "--result", "{\"sent\":true}"]);
    assert_eq!(settled["settled"][0]["ok"], true);
    assert_eq!(server.json(&["jobs", "show", &id, "--wait", "10s"])["state"], "completed");
    assert_eq!(server.json(&["queues", "stats", "email"])["completed"], 1);
    // A forged receipt: the command ran, and what it was to do was refused.
    let forged = server.run(&["settle", "ack", &id, "forged"]).expect(1);
    assert!(forged.out.contains("stale-receipt"), "{forged:#?}");
    assert_eq!(server.run(&["receive", "email"]).expect(0).out, "no job\n");
    server.stop();
}

#[test]
fn dead_letters_are_listed_replayed_and_discarded() {
    let dir = Dir::new();
    let server = Server::start(&dir.path().join("data"));
    server.run(&["queues", "set", "email", "maxAttempts=1", "owner=ops@example.org"]).expect(0);
    let mut ids = Vec::new();
    for n in 0..3 {
        let payload = format!("{{\n\"n\": {n}, \"templateId\": \"wlecome\"}}");
        let made = server.json(&["enqueue", "email", "email.send", &payload]);
        ids.push(made["jobs"][0]["id"].as_str().unwrap().to_owned());
        let received = server.json(&["receive", "email"]);
        let receipt = received["jobs"][0]["receipt"].as_str().unwrap();
        let fail = ["settle", "fail", &ids[n], receipt, "--kind", "template", "--message", "no such template"];
        server.run(&fail).expect(0);
    }
    let dead = server.json(&["dlq", "list", "email"]);
    assert_eq!(dead["jobs"].as_array().unwrap().len(), 3);
    assert!(server.run(&["dlq", "list", "email"]).expect(0).out.contains("no such template"));
    assert!(server.run(&["dlq", "show", &ids[0]]).expect(0).out.contains("wlecome"));
    let exported = server.run(&["dlq", "export", "email"]).expect(0).out;
    let exported: Vec<Value> = exported.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let found: Vec<&str> = exported.iter().map(|job| job["id"].as_str().unwrap()).collect();
    assert_eq!(found, [&ids[2], &ids[1], &ids[0]]);
    assert_eq!((&exported[2]["payload"]["n"], &exported[2]["errors"][0]["kind"]), (&json!(0), &json!("template")));
    server.run(&["dlq", "export", "emial"]).expect(65).says("email");
    assert_eq!(server.json(&["dlq", "groups", "email"])["groups"][0]["count"], 3);

    let dry = server.json(&["dlq", "replay", "email", "--kind", "template", "--dry-run"]);
    assert_eq!(dry["matched"], 3, "{dry}");
    let patch = "{\"templateId\":\"welcome\"}";
    let replay = server.json(&["dlq", "replay", "email", &ids[0], "--patch", patch, "--reason", "typo"]);
    assert!(replay["id"].as_str().unwrap().starts_with("rpl_"), "{replay}");
    let received = server.json(&["receive", "email", "--wait", "20s"]);
    assert_eq!(received["jobs"][0]["payload"]["templateId"], "welcome");
    server.run(&["dlq", "discard", "email", "--all", "--reason", "test"]).expect(0);
    assert_eq!(server.json(&["dlq", "list", "email"])["jobs"], json!([]));
    server.stop();
}

#[test]
fn a_file_of_jobs_goes_in_and_a_bad_line_is_named() {
    let dir = Dir::new();
    let server = Server::start(&dir.path().join("data"));
    let line = |n: usize| format!("{{\"type\":\"t\",\"payload\":{{\"n\":{n}}}}}\n");
    let jobs: String = (0..2_500).map(line).collect();
    let file = dir.write("jobs.ndjson", &jobs);
    let done = server.json(&["enqueue", "bulk", "--file", &file]);
    assert_eq!(done, json!({ "done": true, "accepted": 2_500 }));
    assert_eq!(server.json(&["queues", "stats", "bulk"])["ready"], 2_500);

    let piped = run_with_input(&["enqueue", "piped", "--file", "-", "--url", &server.url], &jobs);
    assert_eq!(piped.expect(0).out, "2500 jobs enqueued in piped\n");

    // Line 1,502 of the file: a blank one stands before it.
    let mut broken: Vec<String> = (0..2_500).map(line).collect();
    broken[1_500] = "\n{\"type\":\"t\",\"dealy\":\"1s\"}\n".to_owned();
    let file = dir.write("broken.ndjson", &broken.concat());
    let run = server.run(&["enqueue", "broken", "--file", &file]).expect(65);
    let run = run.says("line 1502").says("delay").says("accepted 1000 jobs").says("tail -n +1001");
    assert_eq!(run.out, "");
    assert_eq!(server.json(&["queues", "stats", "broken"])["ready"], 1_000);
    server.stop();
}

#[test]
fn problems_say_what_to_do_and_set_the_exit_code() {
    let dir = Dir::new();
    let server = Server::start(&dir.path().join("data"));
    server.run(&["enqueue", "email", "email.send"]).expect(0);
    server.run(&["queues", "show", "emial"]).expect(65).says("not-found").says("nearest: email");
    server.run(&["enqueue", "bad name", "t"]).expect(65).says("invalid-name");
    server.run(&["jobs", "show", "job_00000000000000000000000000000000"]).expect(65).says("gone");
    server.run(&["queues", "set", "email", "maxDepth=1"]).expect(0);
    let full = server.run(&["enqueue", "email", "email.send", "--json"]).expect(75);
    let problem: Value = serde_json::from_str(&full.err).unwrap();
    assert_eq!((&problem["code"], full.out.as_str()), (&json!("queue-full"), ""));
    server.run(&["queues", "delete", "email"]).expect(65).says("queue-not-empty");
    server.run(&["queues", "pause", "email", "--reason", "test"]).expect(0);
    let held = server.run(&["receive", "email"]).expect(0);
    assert_eq!(held.out, "no job: held back by paused\n");
    server.run(&["queues", "resume", "email"]).expect(0);
    assert_eq!(server.json(&["queues", "purge", "email", "--reason", "test"])["purged"], 1);
    server.run(&["queues", "delete", "email"]).expect(0);
    server.stop();
}
