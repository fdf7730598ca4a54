//! The newcomer's first minute.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Dir, Process, command, finish, run, signal_pid, until};

fn demo(dir: &Dir, args: &[&str]) -> Command {
    let mut command = command(dir.path(), &[&["demo"], args].concat());
    command.env("TMPDIR", dir.path());
    command
}

#[test]
fn every_act_ends_as_promised_and_nothing_is_left_behind() {
    let dir = Dir::new();
    let run = finish(&mut demo(&dir, &["--json"])).expect(0);
    let lines: Vec<Value> = run.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for act in ["a", "b", "c", "d"] {
        for kind in ["promise", "kept"] {
            let found = lines.iter().filter(|line| line["act"] == act && line["kind"] == kind).count();
            assert_eq!(found, 1, "{kind} of act {act}: {}", run.out);
        }
    }
    assert_eq!(lines.last().map(|line| line["ok"].clone()), Some(Value::Bool(true)));
    assert_eq!(dir.entries(), [""; 0]);
}

#[test]
fn text_has_no_colour_when_nobody_looks() {
    let dir = Dir::new();
    let run = finish(&mut demo(&dir, &[])).expect(0);
    assert!(run.out.contains("All four acts ended as promised"), "{}", run.out);
    assert!(!run.out.contains('\u{1b}'));
}

#[test]
fn an_interrupt_ends_the_server_and_removes_the_directory() {
    let dir = Dir::new();
    let mut process = Process::spawn(&mut demo(&dir, &["--json"]));
    let title = process.line().expect("a title");
    let url = url_in(&title);
    process.signal(Signal::INT);
    let ended = process.end();
    assert_eq!(ended.code, Some(130), "{ended:#?}");
    assert_eq!(dir.entries(), [""; 0]);
    run(&["queues", "--url", &url]).expect(69);
}

#[test]
fn a_reader_that_goes_away_leaves_no_server_behind() {
    let dir = Dir::new();
    let mut child = demo(&dir, &["--json"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut title = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut title).unwrap();
    child.wait().unwrap();
    assert_eq!(dir.entries(), [""; 0]);
    run(&["queues", "--url", &url_in(&title)]).expect(69);
}

#[test]
fn kept_data_and_server_stay_and_can_be_played_on_again() {
    let dir = Dir::new();
    let data = dir.path().join("kept");
    let text = data.display().to_string();
    let ended = finish(&mut demo(&dir, &["--keep", "--data", &text])).expect(0);
    let (_, pid) = ended.out.split_once("Stop it with: kill ").expect("says how to stop it");
    let pid: u32 = pid.trim().parse().unwrap();
    let url = url_in(&ended.out);
    let stats = run(&["queues", "stats", "demo.orders", "--json", "--url", &url]).expect(0).json();
    assert_eq!(stats["completed"], 1_000);
    signal_pid(pid, Signal::TERM);
    until("the server ends", || (!Path::new(&format!("/proc/{pid}")).exists() || is_zombie(pid)).then_some(()));
    let again = finish(&mut demo(&dir, &["--data", &text])).expect(0);
    assert!(again.out.contains("demo2.orders"), "{}", again.out);
    assert!(data.exists());
}

/// A process that ended and whose parent did not look.
fn is_zombie(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'))
}

fn url_in(text: &str) -> String {
    let from = text.find("http://").expect("an address");
    let end = |c: char| !(c.is_ascii_alphanumeric() || ":/.".contains(c));
    let url = &text[from..];
    url[..url.find(end).unwrap_or(url.len())].to_owned()
}
