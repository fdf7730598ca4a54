//! What commands can come to.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use super::endpoint::{Endpoint, answer};
use super::{QUEUE, one, read, stage, start, stop, until_dead};
use crate::support::api::{kinds, list};
use crate::support::{Dir, command, finish};

/// Runs the script that is named like the job's type.
const BY_TYPE: [&str; 4] = ["--", "sh", "-c", "exec sh ./$RECADO_JOB_TYPE"];

#[test]
fn what_an_exit_means() {
    let (stage, dir) = (stage(), Dir::new());
    // Script; state, result, and of the failure: kind, a part of the message, whether it is tried again.
    let done = |result: Value| ("completed", result, None);
    let fails =
        |kind, message, again| (if again { "delayed" } else { "dead" }, Value::Null, Some((kind, message, again)));
    let rows = [
        ("echo; echo ' {\"sent\": [1]} '", done(json!({ "sent": [1] }))),
        ("echo sent 12 mails", done(Value::Null)),
        ("true", done(Value::Null)),
        ("echo careful >&2", done(Value::Null)),
        ("echo '1 2'", done(Value::Null)),
        ("head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2", done(Value::Null)),
        ("echo no such mailbox >&2; exit 65", fails("exit-65", "no such mailbox", false)),
        ("echo first >&2; echo busy >&2; echo >&2; exit 75", fails("exit-75", "busy", true)),
        ("echo '{}'; exit 3", fails("exit-3", "ended with exit code 3", true)),
        ("no-such-command-here", fails("exit-127", "not found", true)),
        ("kill -KILL $$", fails("signal-9", "killed by signal 9", true)),
        ("yes no | head -c 3000000 >&2; echo the end >&2; exit 1", fails("exit-1", "the end", true)),
    ];
    let enqueue = |(index, (script, _)): (usize, &(&str, _))| {
        let kind = format!("job-{index}");
        dir.write(&kind, script);
        // More than a pipe holds, and most do not read it.
        stage.enqueue(QUEUE, &json!({ "type": kind, "payload": "x".repeat(500_000) }))
    };
    let ids: Vec<_> = rows.iter().enumerate().map(enqueue).collect();
    let worker = start(&stage, &dir, &[&["work", "-c", "3"], &BY_TYPE[..]].concat());
    for (id, (script, (state, result, failure))) in ids.iter().zip(&rows) {
        stage.until_state(id, state);
        let job = stage.job(id);
        assert_eq!((&job["result"], &job["attempts"]), (result, &json!(1)), "{script}: {job}");
        let errors = list(&job, "errors");
        assert_eq!(errors.len(), usize::from(failure.is_some()), "{script}: {job}");
        if let Some((kind, message, again)) = failure {
            let error = &errors[0];
            assert_eq!((&error["kind"], &error["retryable"]), (&json!(kind), &json!(again)), "{script}");
            assert!(error["message"].as_str().unwrap().contains(message), "{script}: {error}");
        }
    }
    let lines = stop(worker);
    let (summary, runs) = lines.split_last().unwrap();
    assert_eq!(runs.len(), rows.len(), "{runs:?}");
    let of = |outcome: &str| runs.iter().filter(|run| run["outcome"] == outcome).count();
    assert_eq!((of("ack"), of("fail")), (6, 6), "{runs:?}");
    assert_eq!((&summary["completed"], &summary["failed"]), (&json!(6), &json!(6)), "{summary}");
}

#[test]
fn a_command_gets_the_job() {
    let (stage, dir) = (stage(), Dir::new());
    dir.write("payload", "cat");
    let names = "JOB_ID QUEUE JOB_TYPE SCHEMA_VERSION ATTEMPT MAX_ATTEMPTS IDEMPOTENCY_KEY BUSINESS_ID GROUP";
    dir.write("rest", &format!("for name in {names}; do eval echo \\\"\\$RECADO_$name\\\"; done > rest.txt"));
    let payload = r#"{"b" : 1.0, "a":[ "\u00f1 ñ" ] ,"n":12345678901234567890123}"#;
    let body = format!(r#"{{"type":"payload","payload":{payload}}}"#);
    let headers = [("content-type", "application/json")];
    let answer = stage.send("POST", "/v1/queues/q/jobs", &headers, &body).unwrap().expect(201);
    let first = answer["jobs"][0]["id"].as_str().unwrap().to_owned();
    let second = stage.enqueue(
        QUEUE,
        &json!({ "type": "rest", "schemaVersion": 3, "idempotencyKey": "clé", "businessId": "order 7", "group": "a" }),
    );
    let mut with_another = command(dir.path(), &[&["work", "-q", QUEUE, "--url", stage.url()], &BY_TYPE[..]].concat());
    with_another.env("RECADO_IDEMPOTENCY_KEY", "of another job").env("RECADO_GROUP", "of another job");
    // To a server on this machine it needs no root certificates, and goes through no proxy.
    with_another.env("SSL_CERT_FILE", "/dev/null").env_remove("SSL_CERT_DIR");
    with_another.env("http_proxy", "http://127.0.0.1:1").env("HTTP_PROXY", "http://127.0.0.1:1");
    let worker = crate::support::Process::spawn(&mut with_another);
    stage.until_state(&first, "completed");
    let shown = stage.get(&format!("/v1/jobs/{first}")).text;
    assert!(shown.contains(&format!("\"result\":{payload}")), "{shown}");
    stage.until_state(&second, "completed");
    let rest = read(&dir, "rest.txt");
    let expected = [&*second, QUEUE, "rest", "3", "1", "5", "clé", "order 7", "a"];
    assert_eq!(rest.lines().collect::<Vec<_>>(), expected);
    dir.write("rest", "echo \"[$RECADO_IDEMPOTENCY_KEY$RECADO_GROUP]\"");
    let third = one(&stage, "rest");
    stage.until_state(&third, "completed");
    assert_eq!(stage.job(&third)["result"], json!([]), "nothing of another job's");
    worker.signal(rustix::process::Signal::INT);
    let run = worker.end().expect(0);
    assert!(run.out.contains(&format!("{second} rest attempt 1 of 5")), "{run:#?}");
    assert!(run.out.contains("stopped: 3 done, 0 failed, 0 given back, 0 overtaken, 0 refused"), "{run:#?}");
}

#[test]
fn a_worker_takes_only_the_types_it_declares_and_hands_on_the_trace() {
    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    let (stage, dir) = (stage(), Dir::new());
    let (producer, kept) = (format!("00-{TRACE}-b7ad6b7169203331-01"), "tenant");
    let job = |kind: &str, version: u32| {
        let headers = json!({ "traceparent": &producer, kept: "acme" });
        stage.enqueue(QUEUE, &json!({ "type": kind, "schemaVersion": version, "headers": headers }))
    };
    let (other, newer, ours) = (job("other", 1), job("ours", 4), job("ours", 3));
    let say = "echo \"{\\\"headers\\\":$RECADO_HEADERS,\\\"trace\\\":\\\"$RECADO_TRACEPARENT\\\"}\"";
    let worker = start(&stage, &dir, &["work", "--types", "mail.send,ours@1-3", "--", "sh", "-c", say]);
    stage.until_state(&ours, "completed");
    let result = &stage.job(&ours)["result"];
    assert_eq!(result["headers"], json!({ "traceparent": producer, kept: "acme" }));
    let span = result["trace"].as_str().unwrap();
    assert!(span.starts_with(&format!("00-{TRACE}-")) && span != producer, "{span}");
    for id in [other, newer] {
        let job = stage.job(&id);
        let seen = (&job["state"], &job["attempts"], &job["heldBack"]);
        assert_eq!(seen, (&json!("ready"), &json!(0), &json!("no-capable-worker")), "{job}");
    }
    stop(worker);
    finish(&mut command(dir.path(), &["work", "-q", QUEUE, "--types", "ours@3-1", "--", "true"]))
        .expect(64)
        .says("type@1-3");
}

#[test]
fn a_command_that_hangs_is_killed_with_all_it_started() {
    // The worker's limit, and the job's own.
    for (flags, job) in [
        (&["work", "--timeout", "1s"][..], json!({ "type": "hang" })),
        (&["work"], json!({ "type": "hang", "timeout": "1s" })),
    ] {
        let (stage, dir) = (stage(), Dir::new());
        dir.write("hang", "trap '' TERM; sleep 600 & echo $! > grandchild; sleep 600");
        let id = stage.enqueue(QUEUE, &job);
        let worker = start(&stage, &dir, &[flags, &BY_TYPE].concat());
        stage.until_state(&id, "delayed");
        // A job's own limit is the server's too, which may be first: then the worker's word comes as a late one.
        let job = stage.job(&id);
        assert!(kinds(&job).iter().all(|kind| *kind == "timeout"), "{job:#}");
        assert_eq!(job["attempts"], 1);
        until_dead(&read(&dir, "grandchild"));
        stop(worker);
    }
}

#[test]
fn what_a_command_leaves_behind_ends_with_it() {
    let (stage, dir) = (stage(), Dir::new());
    // It holds the output open, which must not hold up the job.
    dir.write("leave", "sleep 600 & echo $! > left; echo 7");
    let id = one(&stage, "leave");
    let worker = start(&stage, &dir, &[&["work"], &BY_TYPE[..]].concat());
    stage.until_state(&id, "completed");
    assert_eq!(stage.job(&id)["result"], json!(7));
    until_dead(&read(&dir, "left"));
    stop(worker);
}

#[test]
fn a_cancelled_job_s_command_is_told() {
    let (stage, dir) = (stage(), Dir::new());
    dir.write("long", "trap 'exit 1' TERM; echo > begun; sleep 600 & wait");
    let id = one(&stage, "long");
    let worker = start(&stage, &dir, &[&["work"], &BY_TYPE[..]].concat());
    read(&dir, "begun");
    stage.delete(&format!("/v1/jobs/{id}")).expect(202);
    stage.until_state(&id, "cancelled");
    stop(worker);
}

#[test]
fn a_command_that_is_not_there_takes_no_job() {
    let (stage, dir) = (stage(), Dir::new());
    let id = one(&stage, "any");
    dir.write("not-a-program", "");
    for name in ["./missing", "no-such-command-here", "./not-a-program", "/"] {
        let args = ["work", "-q", QUEUE, "--url", stage.url(), "--", name];
        finish(&mut command(dir.path(), &args)).expect(64).says("no such command");
    }
    assert_eq!(stage.job(&id)["deliveries"], 0);
}

#[test]
fn a_command_that_goes_away_uses_no_attempt() {
    let (stage, dir) = (stage(), Dir::new());
    let handler = dir.write("handler", "#!/bin/sh\n");
    fs::set_permissions(&handler, fs::Permissions::from_mode(0o755)).unwrap();
    let worker = start(&stage, &dir, &["work", "--", "./handler"]);
    fs::remove_file(&handler).unwrap();
    let id = one(&stage, "any");
    stage.until_state(&id, "delayed");
    let job = stage.job(&id);
    assert_eq!((&job["attempts"], kinds(&job)), (&json!(0), vec!["snoozed"]));
    stop(worker);
}

#[test]
fn a_key_that_is_refused_ends_the_worker() {
    let problem = r#"{"type":"/problems/unauthenticated","code":"unauthenticated","title":"Unauthenticated","status":401,
        "detail":"give a key"}"#;
    let server = Endpoint::start(move |_| answer(401, "content-type: application/problem+json\r\n", problem));
    let url = format!("http://127.0.0.1:{}", server.port);
    crate::support::run(&["work", "-q", "q", "--url", &url, "--key", "rk_old", "--", "true"])
        .expect(77)
        .says("give a key");
    assert_eq!(server.requests()[0].header("authorization"), "Bearer rk_old");
}

#[test]
fn wrong_arguments_are_told() {
    for (args, code, says) in [
        (&["work", "--", "true"][..], 64, "--queue"),
        (&["work", "-q", "q"], 64, "COMMAND"),
        (&["work", "-q", "a b", "--", "true"], 64, "/queues/0"),
        (&["work", "-q", "q=x", "--", "true"], 64, "q=5"),
        (&["work", "-q", "q", "-c", "0", "--", "true"], 64, "/concurrency"),
        (&["work", "-q", "q", "--grace", "soon", "--", "true"], 64, "duration"),
        (&["work", "-q", "q", "--url", "nowhere", "--", "true"], 64, "http://host:port"),
        (&["deliver", "-q", "q"], 64, "--to"),
        (&["deliver", "-q", "q", "--to", "ftp://example.org"], 64, "http and https"),
        (&["deliver", "-q", "q", "--to", "example.org"], 64, "https://example.org/hook"),
        (&["deliver", "-q", "q", "--to", "https://no-such-host.invalid/"], 69, "cannot be looked up"),
    ] {
        crate::support::run(args).expect(code).says(says);
    }
}
