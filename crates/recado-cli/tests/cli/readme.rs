//! The README's examples, as a reader would run them.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;

use crate::support::api::{Api, ids, list};
use crate::support::{Dir, Process, RECADO, Run, Server, command_through, finish, until};

const README: &str = include_str!("../../../../README.md");
/// Where the examples expect the server.
const URL: &str = "http://127.0.0.1:7070";

/// The part under a heading.
fn section(heading: &str) -> &'static str {
    let from = README.find(&format!("## {heading}\n")).unwrap_or_else(|| panic!("no section {heading}"));
    let text = &README[from + 3..];
    &text[..text.find("\n## ").unwrap_or(text.len())]
}

/// The blocks of one language in it.
fn blocks(text: &'static str, language: &str) -> Vec<&'static str> {
    let fence = format!("```{language}\n");
    let parts = text.split(fence.as_str()).skip(1);
    parts.map(|part| part.split("```").next().unwrap_or_default()).collect()
}

/// A reader at a terminal: curl's refusals are failures, `recado` is in the path.
fn reader(dir: &Dir, server: &Server, script: &str) -> Command {
    let strict = "set -euo pipefail; curl() { command curl -sS --fail-with-body \"$@\"; }\n";
    let script = format!("{strict}{}", script.replace(URL, &server.url));
    let mut command = command_through("bash", dir.path(), &["-c", &script]);
    let bin = Path::new(RECADO).parent().unwrap().display();
    command.env("PATH", format!("{bin}:{}", std::env::var("PATH").unwrap_or_default()));
    command.env("RECADO_URL", &server.url);
    command
}

/// Runs an example, which must succeed.
fn follow(dir: &Dir, server: &Server, script: &str) -> Run {
    println!("{script}");
    let run = finish(&mut reader(dir, server, script)).expect(0);
    assert!(!run.out.contains("\"ok\":false"), "{run:#?}");
    run
}

fn state(api: &Api, id: &str) -> Value {
    api.job(id)["state"].clone()
}

/// Lets the worker of the README run until it has done a job.
fn work_until_done(dir: &Dir, server: &Server, worker: &str, api: &Api, id: &str) {
    println!("{worker}");
    let mut command = reader(dir, server, worker);
    let mut process = Process::spawn(command.process_group(0));
    let line = process.line();
    assert!(line.as_ref().is_some_and(|line| line.starts_with("sending {")), "{line:?}: {:#?}", process.end());
    until("the worker acks", || (state(api, id) == "completed").then_some(()));
    assert_eq!(api.job(id)["result"], serde_json::json!({ "sent": true }));
    kill_process_group(Pid::from_raw(i32::try_from(process.pid()).unwrap()).unwrap(), Signal::KILL).unwrap();
    process.end();
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

#[test]
fn five_minutes_with_curl() {
    let missing: Vec<&str> = ["bash", "curl", "python3"].into_iter().filter(|program| !is_there(program)).collect();
    if !missing.is_empty() {
        return println!("skipped: {missing:?} not installed");
    }
    let text = section("Five minutes with curl");
    let [serve, enqueue, worker, fail, look, configure] = blocks(text, "sh")[..] else {
        panic!("the examples have changed: change this test with them");
    };
    assert_eq!(serve.trim(), "target/release/recado serve");
    assert!(text.contains(&format!("It prints `listening on {URL}`")));
    let dir = Dir::new();
    let server = Server::start(&dir.path().join("recado-data"));
    let api = Api::new(&server.url);

    let made = follow(&dir, &server, enqueue).json();
    let id = ids(&made).remove(0);
    let mut shown: Value = serde_json::from_str(blocks(text, "json")[0]).unwrap();
    assert!(shown["jobs"][0]["id"].as_str().unwrap().starts_with("job_"));
    shown["jobs"][0]["id"] = id.as_str().into();
    assert_eq!(made, shown, "the answer is the one that is shown");
    work_until_done(&dir, &server, worker, &api, &id);

    let job = ids(&follow(&dir, &server, enqueue).json()).remove(0);
    let delivery = api.take("email");
    let fail = fail.replacen("\"id\":\"...\"", &format!("\"id\":{}", delivery["id"]), 1);
    let fail = fail.replacen("\"receipt\":\"...\"", &format!("\"receipt\":{}", delivery["receipt"]), 1);
    follow(&dir, &server, &fail);
    assert_eq!(state(&api, &job), "delayed", "it is retried after a wait");

    for line in look.lines() {
        let answer = follow(&dir, &server, line).json();
        assert!(answer.is_object(), "{answer}");
    }
    follow(&dir, &server, configure);
    let queue = api.get("/v1/queues/email").expect(200);
    assert_eq!(queue["config"]["owner"], "mail-team@example.com");
    from_the_command_line(&dir, &server, text);
    server.stop();
}

/// The commands in the running text.
fn from_the_command_line(dir: &Dir, server: &Server, text: &str) {
    let commands: Vec<&str> = text.split('`').filter(|part| part.starts_with("recado ")).collect();
    assert!(commands.len() >= 4, "{commands:?}");
    for command in commands {
        follow(dir, server, command);
        if !command.contains("enqueue") && !command.contains("receive") {
            follow(dir, server, &format!("{command} --json")).json();
        }
    }
    let listed = server.json(&["jobs", "email"]);
    let is_there = list(&listed, "jobs").iter().any(|job| job["payload"]["deliveryId"] == "mail-1002");
    assert!(is_there, "{listed}");
}
