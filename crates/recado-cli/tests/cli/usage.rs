//! Usage errors, help, completions, version, and a server that is not there.

use crate::support::{Dir, command, finish, run, run_with_input};

#[test]
fn usage_errors_exit_64() {
    for args in [
        &[][..],
        &["frobnicate"],
        &["enqueue"],
        &["enqueue", "email"],
        &["enqueue", "email", "email.send", "--priority", "256"],
        &["enqueue", "email", "email.send", "--delay", "1s", "--run-at", "2026-06-02T09:00:00Z"],
        &["enqueue", "email", "email.send", "--file", "x"],
        &["enqueue", "email", "email.send", "--header", "novalue"],
        &["enqueue", "email", "email.send", "--producer", "p"],
        &["receive"],
        &["receive", "email", "--wait", "30"],
        &["settle", "ack", "job_1"],
        &["jobs"],
        &["dlq"],
        &["dlq", "discard", "email", "--all"],
        &["dlq", "replay", "email"],
        &["queues", "set", "email"],
        &["schedules", "put", "nightly"],
        &["schedules", "put", "nightly", "reports", "report.build"],
        &["completions", "tcsh"],
        &["serve", "--sqs"],
        &["queues", "--url", "https://jobs.example.org"],
        &["queues", "--url", "localhost:7070"],
    ] {
        let run = run(args);
        assert_eq!(run.code, Some(64), "{args:?}: {run:#?}");
        assert_eq!(run.out, "", "{args:?}");
        assert!(!run.err.is_empty(), "{args:?}");
    }
}

#[test]
fn help_and_version_succeed() {
    assert!(run(&["--help"]).expect(0).out.contains("Exit codes"));
    assert!(run(&["dlq", "replay", "--help"]).expect(0).out.contains("--patch"));
    let version = run(&["version", "--json"]).expect(0).json();
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(run(&["version"]).expect(0).out, format!("recado {}\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(run(&["--version"]).expect(0).out, run(&["version"]).out);
}

#[test]
fn completions_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let run = run(&["completions", shell]).expect(0);
        assert!(run.out.contains("enqueue") && run.out.contains("dlq"), "{shell}");
    }
}

#[test]
fn a_server_that_is_not_there_is_69_and_says_what_to_do() {
    let dir = Dir::new();
    for args in [&["queues"][..], &["enqueue", "email", "email.send"], &["jobs", "show", "job_1"]] {
        // Port 9 (discard) is nobody's on a machine that tests.
        let args = [args, &["--url", "http://127.0.0.1:9"]].concat();
        run(&args).expect(69).says("recado serve");
    }
    let mut queues = command(dir.path(), &["queues", "--json"]);
    let run = finish(queues.env("RECADO_URL", "http://127.0.0.1:9")).expect(69);
    let problem: serde_json::Value = serde_json::from_str(&run.err).unwrap();
    assert_eq!(problem["code"], "unavailable");
}

#[test]
fn data_that_is_no_json_is_65_before_anything_is_sent() {
    let url = ["--url", "http://127.0.0.1:9"];
    let enqueue = ["enqueue", "email", "email.send"];
    run(&[&enqueue[..], &["{\"a\":}"], &url].concat()).expect(65).says("line 1 column 6");
    run_with_input(&[&enqueue[..], &["-"], &url].concat(), "nothing").expect(65).says("its quotes");
    run(&["enqueue", "email", "--file", "no-such-file"]).expect(65).says("no-such-file");
}
