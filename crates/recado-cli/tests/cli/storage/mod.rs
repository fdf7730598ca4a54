//! A disk that is full, and one that fails.

mod small;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::{Value, json};

use self::small::Full;
use crate::support::api::{Api, id, ids, list};
use crate::support::trace::{start_failing, stop_failing};
use crate::support::{Dir, RECADO, Run, Server, command_through, make_small_log, run, until};

/// Enqueues until the disk is full; how many were taken.
fn enqueue_until_full(api: &Api) -> u64 {
    let job = large();
    let mut taken = 0;
    let answer = until("the disk is full", || {
        let answer = api.post("/v1/queues/q/jobs", &job);
        taken += u64::from(answer.status == 201);
        (answer.status != 201).then_some(answer)
    });
    answer.problem(507, "storage-full");
    taken
}

/// A small one may still fit where this is refused.
fn large() -> Value {
    json!({ "type": "t", "payload": "x".repeat(60_000) })
}

/// Service returns by itself.
fn until_service_returns(api: &Api) {
    let job = large();
    until("service returns", || (api.post("/v1/queues/q/jobs", &job).status == 201).then_some(()));
}

#[test]
fn promise_9_bounded_by_a_full_disk() {
    for full in Full::all() {
        let api = Api::new(&full.server.url);
        api.configure("q", &json!({ "visibilityTimeout": "1h" }));
        api.enqueue_all("q", &json!(vec![json!({ "type": "t" }); 20]));
        let taken = enqueue_until_full(&api);
        assert!(taken > 0, "what was prepared is used");
        api.get("/healthz").expect(200);
        // Consumers go on: what was handed out can be settled in each way, and what is looked at is seen.
        let out = api.receive("q", &json!({ "max": 20 }));
        assert!(!out.is_empty(), "receives go on");
        for (n, delivery) in out.iter().enumerate() {
            match n % 4 {
                0 => api.fail(delivery, n % 8 == 0),
                1 => api.settled(delivery, &json!({ "outcome": "release" })),
                2 => api.settled(delivery, &json!({ "outcome": "extend" })),
                _ => api.ack(delivery),
            }
        }
        let before = api.stats("q");
        let expected = taken + 20 - out.len() as u64 / 4;
        assert_eq!(before["depth"].as_u64().unwrap() + before["dead"].as_u64().unwrap(), expected);
        full.make_room();
        until_service_returns(&api);
        let delivery = api.take("q");
        api.ack(&delivery);
        assert_eq!(api.job(&id(&delivery))["state"], "completed");
        full.server.stop();
    }
}

/// Consumers make the room that producers wait for: what they finish leaves the log, and what is kept of it for lookups
/// gives way. What an idempotency key saved does not.
#[test]
fn promise_9_bounded_and_consumers_make_room_on_a_full_disk() {
    for (options, full) in [json!({}), json!({ "keepCompleted": "0s" })].iter().flat_map(with_full_disks) {
        let api = Api::new(&full.server.url);
        api.configure("q", options);
        let once = json!({ "type": "t", "idempotencyKey": "once" });
        api.enqueue("paid", &once);
        api.settled(&api.take("paid"), &json!({ "outcome": "ack", "result": 42 }));
        enqueue_until_full(&api);
        until("all is done", || {
            for delivery in api.receive("q", &json!({ "max": 50 })) {
                api.ack(&delivery);
            }
            (api.stats("q")["depth"] == 0).then_some(())
        });
        until_service_returns(&api);
        let again = api.enqueue("paid", &once);
        until("the second is skipped", || (api.state(&again) == "completed").then_some(()));
        assert_eq!(api.job(&again)["result"], 42);
        full.server.stop();
    }
}

fn with_full_disks(options: &Value) -> impl Iterator<Item = (&Value, Full)> {
    Full::all().into_iter().map(move |full| (options, full))
}

/// From now on each write of this process to a file fails.
fn fail_all_writes(pid: u32) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap());
    let none = Rlimit { current: Some(0), maximum: None };
    let before = prlimit(pid, Resource::Fsize, none).unwrap();
    assert_ne!(before.current, none.current);
}

/// A write that failed ends the service, with the reason, and is not tried again; what was answered is there.
#[test]
fn a_failed_write_ends_the_server_and_loses_nothing() {
    let dir = Dir::new();
    let data = dir.path().join("data");
    make_small_log(&data);
    // The signal that comes with the refused write would end the process before it can say why.
    let script = "trap '' XFSZ; exec \"$1\" serve --listen 127.0.0.1:0 --data data";
    let server = Server::spawn(&mut command_through("sh", dir.path(), &["-c", script, "sh", RECADO]));
    let api = Api::new(&server.url);
    let jobs = api.enqueue_all("q", &json!([{ "type": "t" }, { "type": "t" }]));
    let delivery = api.take("q");
    fail_all_writes(server.process.pid());
    // Nobody knows what became of it: 503, or no answer at all.
    for request in [&json!({ "type": "t" }), &json!([{ "type": "t" }])] {
        if let Some(answer) = api.ask("POST", "/v1/queues/q/jobs", request) {
            answer.problem(503, "log-failed");
        }
    }
    says_why_it_ended(&server.process.end(), "File too large");
    let server = Server::start(&data);
    let api = Api::new(&server.url);
    assert_eq!(api.job(&jobs[0])["state"], "inFlight");
    assert_eq!(api.job(&jobs[1])["state"], "ready");
    api.ack(&delivery);
    server.stop();
}

/// Enqueues until the server says that it cannot go on, or says nothing. The ids of what it took.
fn enqueue_until_failed(api: &Api) -> Vec<String> {
    let mut taken = Vec::new();
    until("the disk fails", || match api.ask("POST", "/v1/queues/q/jobs", &json!({ "type": "t" })) {
        Some(answer) if answer.status == 201 => {
            taken.extend(ids(&answer.value()));
            None
        }
        // Nobody knows what became of this one.
        answer => Some(answer.map(|answer| answer.problem(503, "log-failed"))),
    });
    taken
}

fn says_why_it_ended(ended: &Run, why: &str) {
    assert!(ended.code.is_some_and(|code| code != 0), "{ended:#?}");
    assert!(ended.err.contains(why), "it says why: {ended:#?}");
}

/// One sync, or one write, fails once; the next would succeed. It is not tried again: after a failed sync a good one
/// proves nothing.
#[test]
fn one_failed_call_ends_the_server_and_the_next_start_is_clean() {
    for rule in ["fdatasync:error=EIO:when=20", "pwrite64:error=EIO:when=20"] {
        let dir = Dir::new();
        let data = dir.path().join("data");
        let server = start_failing(&data, &[], rule, None);
        let taken = enqueue_until_failed(&Api::new(&server.url));
        assert!(!taken.is_empty(), "{rule}");
        says_why_it_ended(&server.process.end(), "Input/output error");
        let server = Server::start(&data);
        let api = Api::new(&server.url);
        for id in &taken {
            assert_eq!(api.state(id), "ready", "{rule}");
        }
        let depth = api.stats("q")["depth"].as_u64().unwrap();
        assert!(depth - taken.len() as u64 <= 1, "{rule}: {depth} of {}", taken.len());
        api.enqueue("q", &json!({ "type": "t" }));
        server.stop();
        let report = run(&["log", "check", &data.display().to_string(), "--json"]).expect(0).json();
        assert_eq!(report["verdict"], "whole", "{rule}: {report}");
    }
}

/// A call that was interrupted is made again, and nobody notices.
#[test]
fn interrupted_calls_are_no_failures() {
    let dir = Dir::new();
    let rule = "pwrite64,pread64,fdatasync:error=EINTR:when=3+3";
    let server = start_failing(&dir.path().join("data"), &["--payload-cache", "0B"], rule, None);
    let api = Api::new(&server.url);
    for n in 0..20 {
        api.enqueue("q", &json!({ "type": "t", "payload": n }));
        let delivery = api.take("q");
        assert_eq!(delivery["payload"], n);
        api.ack(&delivery);
    }
    server.stop();
}

/// A job whose bytes cannot be read is given back for later, no attempt used, and the log of the process tells it.
#[test]
fn promise_2_at_least_once_when_the_disk_does_not_read() {
    let dir = Dir::new();
    // A start reads the file in fewer calls; who fetches payloads, a call for each, comes to that many.
    let (data, rule) = (dir.path().join("data"), "pread64:error=EIO:when=60+");
    let first = data.join("0000000000000000.log");
    let server = start_failing(&data, &["--payload-cache", "0B"], rule, Some(&first));
    let api = Api::new(&server.url);
    api.configure("q", &json!({ "visibilityTimeout": "1h" }));
    let jobs: Vec<Value> = (0..200).map(|n| json!({ "type": "t", "payload": n })).collect();
    let mut all = api.enqueue_all("q", &json!(jobs));
    let mut received = Vec::new();
    until("the disk does not read", || {
        let out = api.receive("q", &json!({}));
        received.extend(out.iter().map(id));
        out.is_empty().then_some(())
    });
    assert!(received.len() < jobs.len(), "none failed");
    stop_failing(&server);
    // What could not be read comes later, or when somebody says so; the others come at once.
    let page = api.get("/v1/queues/q/jobs?state=delayed").expect(200);
    let held_back = list(&page, "jobs");
    assert!(!held_back.is_empty(), "a job that cannot be read is not tried again at once");
    for job in held_back {
        assert_eq!(job["attempts"], 0, "{job}");
        api.ask("PATCH", &format!("/v1/jobs/{}", id(job)), &json!({ "delay": "0s" })).unwrap().expect(200);
    }
    while received.len() < jobs.len() {
        received.push(id(&api.take("q")));
    }
    all.sort();
    received.sort();
    assert_eq!(received, all);
    server.stop().says("Input/output error");
}
