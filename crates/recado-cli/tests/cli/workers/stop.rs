//! How a worker stops.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use super::{QUEUE, kill_group, one, read, stage, start, stop, until_dead};
use crate::support::api::ids;
use crate::support::{Dir, pass, until};

/// Says its process's number, and does not end by itself.
const HANG: [&str; 4] = ["--", "sh", "-c", "trap '' TERM; echo $$ > pid; sleep 600"];

#[test]
fn a_graceful_stop_under_load_burns_no_attempt_and_does_nothing_twice() {
    const JOBS: usize = 120;
    let (stage, dir) = (stage(), Dir::new());
    let jobs: Vec<_> = (0..JOBS).map(|_| json!({ "type": "any" })).collect();
    let all = stage.enqueue_all(QUEUE, &json!(jobs));
    let note = "echo $RECADO_JOB_ID >> begun; sleep 0.02; echo $RECADO_JOB_ID >> ended";
    let args = ["work", "-c", "5", "--", "sh", "-c", note];
    let lines = |name: &str| -> Vec<String> {
        let text = fs::read_to_string(dir.path().join(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    };
    // Three are stopped in the middle; the last one may finish.
    for part in 1..=4 {
        let worker = start(&stage, &dir, &args);
        until("a part is done", || (lines("ended").len() >= part * JOBS / 4).then_some(()));
        if part == 4 {
            for id in &all {
                stage.until_state(id, "completed");
            }
        }
        stop(worker);
        assert_eq!(lines("begun").len(), lines("ended").len(), "what was begun was finished");
        assert_eq!(stage.stats(QUEUE)["inFlight"], 0, "what was not begun was given back");
    }
    assert_eq!(lines("ended").len(), JOBS, "nothing was done twice");
    assert_eq!(lines("ended").into_iter().collect::<BTreeSet<_>>(), all.iter().cloned().collect());
    let page = stage.get(&format!("/v1/queues/{QUEUE}/jobs?state=completed&limit=1000")).expect(200);
    assert_eq!(ids(&page).len(), JOBS);
    for job in page["jobs"].as_array().unwrap() {
        assert_eq!(job["attempts"], 1, "{job}");
    }
}

#[test]
fn what_outlasts_the_grace_is_killed_and_given_back() {
    let (stage, dir) = (stage(), Dir::new());
    let id = one(&stage, "any");
    let worker = start(&stage, &dir, &[&["work", "--grace", "100ms"], &HANG[..]].concat());
    let pid = read(&dir, "pid");
    let lines = stop(worker);
    until_dead(&pid);
    let job = stage.job(&id);
    assert_eq!((&job["state"], &job["attempts"]), (&json!("ready"), &json!(0)), "{job}");
    assert_eq!(lines[0]["outcome"], "release", "{lines:?}");
    assert_eq!(lines[1]["released"], 1, "{lines:?}");
}

#[test]
fn a_second_signal_ends_it_at_once_and_burns_no_attempt() {
    let (stage, dir) = (stage(), Dir::new());
    let id = one(&stage, "any");
    let worker = start(&stage, &dir, &[&["work", "--grace", "10m"], &HANG[..]].concat());
    let pid = read(&dir, "pid");
    // One that comes before the first was taken is the same signal: again until it shows.
    until("the job is given back", || {
        worker.signal(Signal::TERM);
        pass(Duration::from_millis(50));
        (stage.state(&id) == "ready").then_some(())
    });
    assert_eq!(worker.end().code, Some(128 + 15));
    until_dead(&pid);
    assert_eq!(stage.job(&id)["attempts"], 0);
}

#[test]
fn a_worker_that_is_killed_is_replaced_after_the_timeout() {
    let (stage, dir) = (stage(), Dir::new());
    let id = one(&stage, "any");
    let script = "mkdir first && { echo $$ > pid; exec sleep 600; }; echo '\"by another\"'";
    let args = ["work", "--visibility-timeout", "1s", "--", "sh", "-c", script];
    let killed = start(&stage, &dir, &args);
    let pid = read(&dir, "pid");
    killed.signal(Signal::KILL);
    // Its command knows nothing of it; a supervisor would end both.
    kill_group(&pid);
    killed.end();
    assert_eq!(stage.state(&id), "inFlight", "it is hidden until its timeout");
    let another = start(&stage, &dir, &args);
    stage.until_state(&id, "completed");
    let job = stage.job(&id);
    assert_eq!((&job["result"], &job["deliveries"]), (&json!("by another"), &json!(2)), "{job}");
    stop(another);
}
