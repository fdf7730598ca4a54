//! How a server ends.

use std::net::TcpListener;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Dir, Process, Server, command, finish, until};

/// A worker in a long poll; it is there when the queue lists it as a consumer.
fn waiting_worker(dir: &Dir, server: &Server) -> Process {
    let args = ["receive", "email", "--wait", "50s", "--worker", "patient", "--json", "--url", &server.url];
    let worker = Process::spawn(&mut command(dir.path(), &args));
    until("the worker waits", || {
        let stats = server.run(&["queues", "stats", "email", "--json"]);
        let stats: Value = serde_json::from_str(&stats.out).ok()?;
        let consumers = stats["consumers"].as_array()?;
        consumers.iter().any(|consumer| consumer["worker"] == "patient").then_some(())
    });
    worker
}

#[test]
fn a_graceful_stop_answers_what_is_in_flight() {
    for signal in [Signal::TERM, Signal::INT] {
        let dir = Dir::new();
        let data = dir.path().join("data");
        let server = Server::start(&data);
        let worker = waiting_worker(&dir, &server);
        server.process.signal(signal);
        // The poll is answered, not cut: empty, or 503 stopping.
        let answered = worker.end();
        assert!(matches!(answered.code, Some(0 | 75)), "{answered:#?}");
        let run = server.process.end().expect(0);
        assert_eq!(run.out, "", "nothing but the first line");
        // The directory is free again.
        Server::start(&data).stop();
    }
}

#[test]
fn what_was_acknowledged_is_there_after_a_stop_and_after_a_kill() {
    let dir = Dir::new();
    let data = dir.path().join("data");
    for signal in [Signal::TERM, Signal::KILL] {
        let server = Server::start(&data);
        server.run(&["enqueue", "email", "email.send"]).expect(0);
        server.process.signal(signal);
        server.process.end();
    }
    let server = Server::start(&data);
    assert_eq!(server.json(&["queues", "stats", "email"])["ready"], 2);
    server.stop();
}

#[test]
fn a_port_in_use_is_told() {
    let dir = Dir::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    finish(&mut command(dir.path(), &["serve", "--data", "data", "--listen", &address])).expect(69).says(&address);
}

#[test]
fn logs_are_json_when_asked_for() {
    let dir = Dir::new();
    let server = Server::start_with(&dir.path().join("data"), &["--log-format", "json"]);
    let run = server.stop();
    assert!(!run.err.is_empty());
    for line in run.err.lines() {
        let entry: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(entry["level"].is_string(), "{line}");
    }
}
