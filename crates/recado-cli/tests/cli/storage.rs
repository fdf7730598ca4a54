//! A disk that is full, and one that fails.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::json;

use crate::support::api::{Api, id};
use crate::support::{Dir, RECADO, Server, command_through, make_small_log, until};

/// Room for some segments of 4 MiB.
const DISK: &str = "48m";

/// Runs `then` where `disk` is a small disk of its own, which nobody else sees and which ends with it.
fn on_small_disk(disk: &Path, then: &str) -> Command {
    let script = format!("mount -t tmpfs -o size={DISK} none \"$1\" && {then}");
    let disk = disk.display().to_string();
    let home = Path::new(&disk).parent().unwrap();
    command_through("unshare", home, &["-rm", "sh", "-c", &script, "sh", &disk, RECADO])
}

/// A server on a small disk, and that disk as it is seen from here; none where a test may not mount one.
fn server_on_small_disk(dir: &Dir) -> Option<(Server, PathBuf)> {
    let disk = dir.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let tried = on_small_disk(&disk, "true").output();
    if !tried.as_ref().is_ok_and(|output| output.status.success()) {
        println!("skipped: no small disk can be mounted here: {tried:?}");
        return None;
    }
    make_small_log(&dir.path().join("empty"));
    let serve = "cp -r empty \"$1/data\" && exec \"$2\" serve --listen 127.0.0.1:0 --data \"$1/data\"";
    let server = Server::spawn(&mut on_small_disk(&disk, serve));
    let seen = PathBuf::from(format!("/proc/{}/root{}", server.process.pid(), disk.display()));
    Some((server, seen))
}

/// Fills the disk to its last byte.
fn fill(disk: &Path) -> PathBuf {
    let path = disk.join("filler");
    let mut file = File::create(&path).unwrap();
    for size in [1 << 20, 4096, 1] {
        while file.write_all(&vec![1; size]).is_ok() {}
    }
    path
}

/// Enqueues until the disk is full; how many were taken.
fn enqueue_until_full(api: &Api) -> u64 {
    let job = json!({ "type": "t", "payload": "x".repeat(60_000) });
    let mut taken = 0;
    let answer = until("the disk is full", || {
        let answer = api.post("/v1/queues/q/jobs", &job);
        taken += u64::from(answer.status == 201);
        (answer.status != 201).then_some(answer)
    });
    answer.problem(507, "storage-full");
    taken
}

#[test]
fn promise_9_bounded_by_a_full_disk() {
    let dir = Dir::new();
    let Some((server, disk)) = server_on_small_disk(&dir) else { return };
    let api = Api::new(&server.url);
    api.configure("q", &json!({ "visibilityTimeout": "1h" }));
    api.enqueue_all("q", &json!(vec![json!({ "type": "t" }); 20]));
    let filler = fill(&disk);
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
    // Space comes back, and so does the service, by itself.
    fs::remove_file(filler).unwrap();
    until("service returns", || (api.post("/v1/queues/q/jobs", &json!({ "type": "t" })).status == 201).then_some(()));
    let delivery = api.take("q");
    api.ack(&delivery);
    assert_eq!(api.job(&id(&delivery))["state"], "completed");
    server.stop();
}

/// Consumers make the room that producers wait for: what they finish leaves the log.
#[test]
fn promise_9_bounded_and_consumers_make_room_on_a_full_disk() {
    let dir = Dir::new();
    let Some((server, disk)) = server_on_small_disk(&dir) else { return };
    let api = Api::new(&server.url);
    api.configure("q", &json!({ "keepCompleted": "0s" }));
    let filler = fill(&disk);
    enqueue_until_full(&api);
    until("all is done", || {
        for delivery in api.receive("q", &json!({ "max": 50 })) {
            api.ack(&delivery);
        }
        (api.stats("q")["depth"] == 0).then_some(())
    });
    until("service returns", || (api.post("/v1/queues/q/jobs", &json!({ "type": "t" })).status == 201).then_some(()));
    assert!(filler.exists());
    server.stop();
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
    let ended = server.process.end();
    assert!(ended.code.is_some_and(|code| code != 0), "{ended:#?}");
    assert!(ended.err.contains("File too large"), "it says why: {ended:#?}");
    let server = Server::start(&data);
    let api = Api::new(&server.url);
    assert_eq!(api.job(&jobs[0])["state"], "inFlight");
    assert_eq!(api.job(&jobs[1])["state"], "ready");
    api.ack(&delivery);
    server.stop();
}
