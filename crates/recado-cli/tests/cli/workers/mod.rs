//! Workers without Rust: `recado work` and `recado deliver`.

mod deliver;
mod endpoint;
mod stop;
mod work;

use std::fs;

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

use crate::support::stage::Stage;
use crate::support::{Dir, Process, command, until};

/// The queue of these tests. What is retried is retried when the test is over.
const QUEUE: &str = "q";

fn stage() -> Stage {
    let stage = Stage::new();
    let (backoff, payload) = (json!({ "kind": "fixed", "base": "1h", "jitter": "none" }), json!({ "maxSize": "1MiB" }));
    stage.configure(QUEUE, &json!({ "backoff": backoff, "payload": payload }));
    stage
}

/// Starts `recado work` or `recado deliver`, and waits until it says that it works.
fn start(stage: &Stage, cwd: &Dir, args: &[&str]) -> Process {
    let all = [&args[..1], &["-q", QUEUE, "--json", "--url", stage.url()], &args[1..]].concat();
    let mut process = Process::spawn(&mut command(cwd.path(), &all));
    let Some(line) = process.line() else { panic!("it ended: {:#?}", process.end()) };
    let started: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(started["event"], "started", "{line}");
    process
}

/// SIGTERM, and a clean end; what it printed.
#[track_caller]
fn stop(worker: Process) -> Vec<Value> {
    worker.signal(Signal::TERM);
    let run = worker.end().expect(0);
    run.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn one(stage: &Stage, kind: &str) -> String {
    stage.enqueue(QUEUE, &json!({ "type": kind }))
}

/// Waits until there is something in a file; what is there.
fn read(dir: &Dir, name: &str) -> String {
    until(&format!("something in {name}"), || {
        let text = fs::read_to_string(dir.path().join(name)).ok()?;
        text.ends_with('\n').then(|| text.trim().to_owned())
    })
}

/// Waits until a process is no more, or nothing but a zombie.
fn until_dead(pid: &str) {
    until(&format!("the end of process {pid}"), || {
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return Some(()) };
        let state = stat.rsplit(") ").next()?.chars().next()?;
        matches!(state, 'Z' | 'X').then_some(())
    });
}

fn kill_group(leader: &str) {
    let leader = Pid::from_raw(leader.parse().unwrap()).unwrap();
    kill_process_group(leader, Signal::KILL).unwrap();
}
