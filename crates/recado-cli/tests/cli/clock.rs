//! The wall clock of the running binary is stepped, forward and back. The monotonic one, by which the server tells a
//! step from the passing of time, goes on as it is.
//!
//! Elapsed time is measured here by this process's own monotonic clock.

use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp, Unit};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::api::{Api, failure, id};
use crate::support::{Dir, Server, clock, until};

const DAY_S: i64 = 86_400;
/// Of the lease and of the backoff that are waited for.
const SHORT: Duration = Duration::from_secs(2);

/// A server whose wall clock is set by the test.
struct Clocked {
    // Before the directory, so that it ends first.
    server: Option<Server>,
    api: Api,
    dir: Dir,
}

impl Clocked {
    fn new() -> Clocked {
        let dir = Dir::new();
        let mut clocked = Clocked { server: None, api: Api::new(""), dir };
        clocked.set(0);
        clocked.start();
        clocked
    }

    fn start(&mut self) {
        let mut command = Server::command(&self.dir.path().join("data"), &["--durability", "os"]);
        clock::fake(&mut command, &self.dir.path().join("clock"));
        let server = Server::spawn(&mut command);
        self.api = Api::new(&server.url);
        self.server = Some(server);
    }

    fn kill(&mut self) {
        let server = self.server.take().unwrap();
        server.process.signal(Signal::KILL);
        server.process.end();
    }

    /// So many seconds beside the machine's clock.
    fn set(&self, offset_s: i64) {
        clock::set(&self.dir.path().join("clock"), &format!("{offset_s:+}"));
    }

    /// As `set`; when this returns the server has noticed, which a lease that moves along shows.
    fn step(&self, offset_s: i64, witness: &Value) {
        let was = self.api.job(&id(witness))["visibleAt"].clone();
        self.set(offset_s);
        until("the step is noticed", || (self.api.job(&id(witness))["visibleAt"] != was).then_some(()));
    }
}

/// So many seconds from now, by the machine's clock.
fn in_seconds(seconds: i64) -> String {
    (Timestamp::now() + SignedDuration::from_secs(seconds)).to_string()
}

fn time(job: &Value, field: &str) -> Timestamp {
    job[field].as_str().unwrap().parse().unwrap()
}

/// The next job, which comes no sooner than `SHORT` after `since`; its last error is of this kind.
#[track_caller]
fn take_again(api: &Api, queue: &str, since: Instant, kind: &str) {
    let again = api.take(queue);
    assert!(since.elapsed() >= SHORT, "{queue}: too soon: {again}");
    assert_eq!(again["errors"].as_array().unwrap().last().unwrap()["kind"], kind, "{again}");
    api.ack(&again);
}

/// Leases and backoffs have their length whatever the wall clock does; `runAt` and delays follow it.
#[test]
fn promise_3_hidden_while_in_flight_when_the_wall_clock_is_stepped() {
    let clocked = Clocked::new();
    let api = &clocked.api;
    api.configure("held", &json!({ "visibilityTimeout": "1h" }));
    api.configure("lease", &json!({ "visibilityTimeout": "2s" }));
    api.configure("retry", &json!({ "backoff": { "kind": "fixed", "base": "2s", "jitter": "none" } }));
    let job = json!({ "type": "t" });
    api.enqueue("held", &job);
    let held = api.take("held");
    let soon = api.enqueue("later", &json!({ "type": "t", "runAt": in_seconds(DAY_S / 2) }));
    let delayed = api.enqueue("later", &json!({ "type": "t", "delay": "12h" }));
    let late = api.enqueue("later", &json!({ "type": "t", "runAt": in_seconds(2 * DAY_S) }));
    let run_at = api.job(&late)["runAt"].clone();
    let mut line = Vec::new();
    let mut offset_before = 0;
    for offset in [DAY_S, -DAY_S] {
        line.push(api.enqueue("line", &job));
        api.enqueue_all("lease", &job);
        api.enqueue_all("retry", &job);
        let (leased_at, visible_at) = (Instant::now(), time(&api.job(&id(&held)), "visibleAt"));
        api.take("lease");
        let out = api.take("retry");
        let failed_at = Instant::now();
        api.settled(&out, &failure(true));
        clocked.step(offset, &held);
        let moved = time(&api.job(&id(&held)), "visibleAt").duration_since(visible_at);
        assert_eq!(moved.round(Unit::Minute).unwrap(), SignedDuration::from_secs(offset - offset_before));
        take_again(api, "lease", leased_at, "visibility-timeout");
        take_again(api, "retry", failed_at, "smtp");
        api.nothing_from("held");
        offset_before = offset;
    }
    // What the clock passed on its way forward was due, and what it has not reached is not.
    assert_eq!([&soon, &delayed].map(|id| api.state(id)), ["ready", "ready"]);
    assert_eq!((api.state(&late).as_str(), &api.job(&late)["runAt"]), ("delayed", &run_at));
    line.push(api.enqueue("line", &job));
    let in_line: Vec<String> = api.receive("line", &json!({ "max": 9 })).iter().map(id).collect();
    assert_eq!(in_line, line, "first in, first out");
    clocked.set(3 * DAY_S);
    for _ in 0..3 {
        api.ack(&api.take("later"));
    }
    api.ack(&held);
}

/// The clock that a machine wakes up with is another than the one it went to sleep with.
#[test]
fn promise_2_at_least_once_when_the_wall_clock_was_stepped_while_the_server_was_down() {
    let mut clocked = Clocked::new();
    clocked.api.configure("lease", &json!({ "visibilityTimeout": "2s", "maxAttempts": 2 }));
    clocked.api.configure("retry", &json!({ "backoff": { "kind": "fixed", "base": "2s", "jitter": "none" } }));
    // Forward is no other than a long down time; what is left of a lease after a step back is served.
    for (offset, kind) in [(DAY_S, "interrupted"), (-DAY_S, "visibility-timeout")] {
        clocked.api.enqueue_all("lease", &json!({ "type": "t" }));
        clocked.api.enqueue_all("retry", &json!({ "type": "t" }));
        clocked.api.take("lease");
        let out = clocked.api.take("retry");
        clocked.api.settled(&out, &failure(true));
        clocked.kill();
        clocked.set(offset);
        let started_at = Instant::now();
        clocked.start();
        take_again(&clocked.api, "lease", started_at, kind);
        clocked.api.ack(&clocked.api.take("retry"));
    }
}
