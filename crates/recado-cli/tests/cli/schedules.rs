//! Schedules, by command, by file, and through the death of the server; the wall clock of some is set by the test.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::api::{Api, list};
use crate::support::{Dir, Server, clock, command, finish, until};

/// What became of a schedule's occurrences, oldest first.
fn occurrences(api: &Api, name: &str) -> Vec<Value> {
    let page = api.get(&format!("/v1/schedules/{name}/occurrences")).expect(200);
    list(&page, "occurrences").iter().rev().cloned().collect()
}

/// The same as soon as there are so many.
fn occurred(api: &Api, name: &str, count: usize) -> Vec<Value> {
    until(&format!("{count} occurrences of {name}"), || {
        Some(occurrences(api, name)).filter(|occurrences| occurrences.len() >= count)
    })
}

fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value[member].as_str().unwrap_or_else(|| panic!("no {member} in {value}"))
}

#[test]
fn a_schedule_from_its_put_to_its_end() {
    let dir = Dir::new();
    let server = Server::start(&dir.path().join("data"));
    let api = Api::new(&server.url);
    let put = ["schedules", "put", "beat", "pulse", "pulse.beat", r#"{"n":1}"#, "--every", "1s", "--overlap", "allow"];
    let shown = server.run(&put).expect(0).out;
    assert!(shown.contains("schedule beat (source api)") && shown.contains("catchUp"), "{shown}");
    // The same again changes nothing.
    let before = server.json(&["schedules", "show", "beat"])["next"].clone();
    server.run(&put).expect(0);
    assert!(text(&server.json(&["schedules", "show", "beat"]), "next") >= before.as_str().unwrap());
    let job = api.take("pulse");
    assert_eq!((&job["type"], &job["payload"]), (&json!("pulse.beat"), &json!({"n": 1})));
    assert_eq!(job["headers"]["recado-schedule"], "beat");
    let first = occurred(&api, "beat", 1).remove(0);
    assert_eq!(first["scheduledFor"], job["headers"]["recado-scheduled-for"]);
    assert_eq!((&first["outcome"], &first["reason"], &first["jobId"]), (&json!("fired"), &Value::Null, &job["id"]));

    server.run(&["schedules", "pause", "beat", "--reason", "holiday"]).expect(0);
    let skipped = until("an occurrence is skipped", || {
        occurrences(&api, "beat").into_iter().find(|it| it["outcome"] == "skipped")
    });
    assert_eq!((&skipped["reason"], &skipped["jobId"]), (&json!("paused"), &Value::Null));
    let shown = server.run(&["schedules", "show", "beat"]).expect(0).out;
    assert!(shown.contains("paused: holiday"), "{shown}");
    let table = server.run(&["schedules"]).expect(0).out;
    assert!(table.starts_with("SCHEDULE ") && table.contains("every 1s") && table.contains("paused"), "{table}");
    let ran = server.json(&["schedules", "run", "beat"]);
    assert_eq!((&ran["outcome"], &ran["reason"]), (&json!("fired"), &json!("manual")));
    assert_eq!(api.job(text(&ran, "jobId"))["state"], "ready");
    server.run(&["schedules", "resume", "beat"]).expect(0);
    let fired = server.json(&["schedules", "show", "beat"])["fired"].as_u64().unwrap();
    until("it fires again", || {
        let now = server.json(&["schedules", "show", "beat"])["fired"].as_u64().unwrap();
        (now > fired).then_some(())
    });
    let metrics = api.get("/metrics").text;
    for row in [
        "recado_schedule_occurrences_total{schedule=\"beat\",outcome=\"fired\"} ",
        "recado_schedule_paused{schedule=\"beat\"} 0",
    ] {
        assert!(metrics.contains(row), "{row}");
    }

    server.run(&["queues", "delete", "pulse"]).expect(65).says("schedule `beat` puts jobs in queue `pulse`");
    server.run(&["schedules", "delete", "beat"]).expect(0);
    server.run(&["schedules", "show", "beat"]).expect(65).says("there is no schedule `beat`");
    let trail = api.get("/v1/audit?queue=pulse").expect(200);
    let actions: Vec<&str> = list(&trail, "entries").iter().map(|entry| text(entry, "action")).collect();
    let expected = ["schedule-removed", "schedule-resumed", "schedule-run", "schedule-paused", "schedule-put"];
    assert_eq!(actions, expected);
    server.stop();
}

#[test]
fn what_is_no_schedule_is_refused_with_its_place() {
    let dir = Dir::new();
    let server = Server::start(&dir.path().join("data"));
    let put = |flags: &[&str]| server.run(&[&["schedules", "put", "s", "q", "t"], flags].concat());
    put(&["--cron", "0 25 * * *"]).expect(65).says("/cron: field 2 (hour): `25` is no hour from 0 to 23; write *, */6");
    put(&["--cron", "0 0 30 2 *"]).expect(65).says("never comes");
    put(&["--cron", "@daily"]).expect(65).says("write `0 0 * * *`");
    put(&["--cron", "0 8 * * *", "--time-zone", "Europe/Berln"]).expect(65).says("did you mean `Europe/Berlin`?");
    put(&["--cron", "0 8 * * *", "--time-zone", "+02:00"]).expect(65).says("/timeZone").says("\"Europe/Berlin\"");
    put(&["--every", "1h30m"]).expect(65).says("/every").says("as in \"30s\"");
    put(&["--every", "1h", "--time-zone", "UTC"]).expect(65).says("/timeZone: goes with cron");
    put(&["--every", "1h", "--catch-up-window", "x"]).expect(65).says("/catchUpWindow");
    put(&[]).expect(64).says("--cron");
    put(&["--every", "1h", "--cron", "* * * * *"]).expect(64);
    put(&["--every", "1h", "--overlap", "maybe"]).expect(64).says("allow");
    let secret = r#"{"password":"hunter2-and-more"}"#;
    server.run(&["schedules", "put", "s", "q", "t", secret, "--every", "1h"]).expect(65).says("/job/payload/password");
    server.run(&["schedules", "next", "s"]).expect(65).says("there is no schedule `s`");
    put(&["--every", "1h"]).expect(0);
    server.run(&["schedules", "next", "s", "-n", "101"]).expect(65).says("from 1 to 100");
    server.run(&["schedules", "run", "sh"]).expect(65).says("not-found");
    assert_eq!(list(&server.json(&["schedules", "next", "s", "-n", "7"]), "next").len(), 7);
    server.stop();
}

/// However often the server dies, and wherever: no instant makes two jobs, and none is forgotten.
#[test]
fn each_occurrence_fires_once_through_kill_9() {
    let dir = Dir::new();
    let data = dir.path().join("data");
    let mut server = Server::start(&data);
    let definition = json!({
        "queue": "q", "job": {"type": "t"}, "every": "1s", "catchUp": "all", "overlap": "allow",
    });
    assert_eq!(Api::new(&server.url).put("/v1/schedules/s", &definition).status, 201);
    for round in 1..=6 {
        let api = Api::new(&server.url);
        let seen = occurred(&api, "s", 2 * round).len();
        // At another moment of its second each time.
        crate::support::pass(std::time::Duration::from_millis(170 * round as u64));
        server.process.signal(Signal::KILL);
        server.process.end();
        server = Server::start(&data);
        assert!(occurrences(&Api::new(&server.url), "s").len() >= seen, "an answered occurrence is there again");
    }
    let api = Api::new(&server.url);
    api.post("/v1/schedules/s/pause", &json!({})).expect(200);
    let all: Vec<Value> = occurrences(&api, "s").into_iter().filter(|it| it["outcome"] == "fired").collect();
    let times: Vec<i64> = all.iter().map(|it| at(text(it, "scheduledFor"))).collect();
    for pair in times.windows(2) {
        assert_eq!(pair[1] - pair[0], 1_000, "every second once: {times:?}");
    }
    let jobs = api.get("/v1/queues/q/jobs?limit=1000").expect(200);
    let mut made: Vec<(i64, &str)> = Vec::new();
    for job in list(&jobs, "jobs") {
        made.push((at(text(&job["headers"], "recado-scheduled-for")), text(job, "id")));
    }
    made.sort_unstable();
    let fired: Vec<(i64, &str)> = all.iter().map(|it| (at(text(it, "scheduledFor")), text(it, "jobId"))).collect();
    assert_eq!(made, fired, "each occurrence has its job, and no other has one");
    server.stop();
}

fn at(time: &str) -> i64 {
    time.parse::<jiff::Timestamp>().unwrap().as_millisecond()
}

/// A server whose wall clock is set.
fn start_at(dir: &Dir, time: &str) -> Server {
    clock::set(&dir.path().join("clock"), time);
    let mut command = Server::command(&dir.path().join("data"), &[]);
    clock::fake(&mut command, &dir.path().join("clock"));
    Server::spawn(&mut command)
}

#[test]
fn a_changed_clock_and_down_time_fire_as_they_should() {
    let dir = Dir::new();
    // Just before the night in which Berlin's clock shows two o'clock twice.
    let server = start_at(&dir, "@2026-10-24 23:59:57");
    let api = Api::new(&server.url);
    let put = |api: &Api, name: &str, more: Value| {
        let mut definition = json!({"queue": name, "job": {"type": "t"}, "overlap": "allow", "catchUpWindow": "1d"});
        definition.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert_eq!(api.put(&format!("/v1/schedules/{name}"), &definition).status, 201, "{definition}");
    };
    put(&api, "once", json!({"cron": "30 2 * * *", "timeZone": "Europe/Berlin"}));
    put(&api, "both", json!({"cron": "30 2 * * *", "timeZone": "Europe/Berlin", "dst": "both", "catchUp": "all"}));
    put(&api, "quarters", json!({"cron": "*/15 * * * *", "timeZone": "Europe/Berlin", "catchUp": "all"}));
    put(&api, "none", json!({"cron": "0 * * * *", "catchUp": "none"}));
    put(&api, "one", json!({"cron": "0 * * * *"}));
    let next = api.get("/v1/schedules/both/next?n=2").expect(200);
    assert_eq!(next["next"], json!(["2026-10-25T00:30:00.000Z", "2026-10-25T01:30:00.000Z"]));
    // On time: midnight is, and two o'clock in Berlin.
    let first = occurred(&api, "quarters", 1).remove(0);
    assert_eq!((text(&first, "scheduledFor"), text(&first, "outcome")), ("2026-10-25T00:00:00.000Z", "fired"));
    server.process.signal(Signal::KILL);
    server.process.end();

    // Down until the night is over.
    let server = start_at(&dir, "@2026-10-25 03:30:00");
    let api = Api::new(&server.url);
    let fired = |name: &str, count: usize| {
        let all = occurred(&api, name, count);
        all.iter()
            .map(|it| format!("{} {}", &text(it, "scheduledFor")[11..16], it["reason"].as_str().unwrap_or("fired")))
            .collect::<Vec<_>>()
    };
    assert_eq!(fired("once", 1), ["00:30 fired"]);
    assert_eq!(fired("both", 2), ["00:30 fired", "01:30 fired"]);
    // Eight quarters of an hour that was there twice, and what came after.
    let quarters = [
        "00:00", "00:15", "00:30", "00:45", "01:00", "01:15", "01:30", "01:45", "02:00", "02:15", "02:30", "02:45",
        "03:00", "03:15", "03:30",
    ];
    assert_eq!(fired("quarters", 15), quarters.map(|time| format!("{time} fired")));
    assert_eq!(fired("none", 3), ["00:00 fired", "01:00 catch-up", "03:00 catch-up"]);
    assert_eq!(fired("one", 3), ["00:00 fired", "01:00 catch-up", "03:00 fired"]);
    let lump = occurrences(&api, "one").remove(1);
    assert_eq!(text(&lump, "before"), "2026-10-25T03:00:00.000Z", "one entry for all that one stands for");

    // The clock is set back: what has fired does not fire again.
    clock::set(&dir.path().join("clock"), "@2026-10-25 00:59:57");
    put(&api, "witness", json!({"every": "1s"}));
    occurred(&api, "witness", 4);
    assert_eq!(fired("one", 3).len(), 3);
    server.stop();
}

/// The file is edited while the server is down: what was due meanwhile was due by what the file said before.
#[test]
fn what_was_due_by_an_older_definition_is_decided_by_it() {
    let dir = Dir::new();
    let clock = dir.path().join("clock");
    let start = |time: &str, cron: &str| {
        let rest =
            "queue = \"q\"\njob = { type = \"t\" }\ncatchUp = \"all\"\noverlap = \"allow\"\ncatchUpWindow = \"1d\"\n";
        dir.write("recado.toml", &format!("[schedules.s]\ncron = \"{cron}\"\n{rest}"));
        clock::set(&clock, time);
        let mut command = command(dir.path(), &["serve", "--listen", "127.0.0.1:0", "--data", "data"]);
        clock::fake(&mut command, &clock);
        Server::spawn(&mut command)
    };
    start("@2026-10-24 23:50:00", "0 * * * *").stop();
    let server = start("@2026-10-25 02:30:00", "45 * * * *");
    let api = Api::new(&server.url);
    let fired: Vec<String> = occurrences(&api, "s")
        .iter()
        .map(|it| format!("{} {}", &text(it, "scheduledFor")[11..16], text(it, "outcome")))
        .collect();
    assert_eq!(fired, ["00:00 fired", "01:00 fired", "02:00 fired"]);
    let next = api.get("/v1/schedules/s").expect(200)["next"].clone();
    assert_eq!(next, "2026-10-25T02:45:00.000Z");
    server.stop();
}

#[test]
fn each_occurrence_has_a_key_where_its_queue_wants_one() {
    let dir = Dir::new();
    let server = Server::start(&dir.path().join("data"));
    let api = Api::new(&server.url);
    api.put("/v1/queues/keyed", &json!({"idempotency": {"required": true}})).expect(201);
    let definition = json!({"queue": "keyed", "job": {"type": "t"}, "every": "1h"});
    assert_eq!(api.put("/v1/schedules/s", &definition).status, 201);
    let ran = server.json(&["schedules", "run", "s"]);
    let job = api.job(text(&ran, "jobId"));
    let made_for = text(&job["headers"], "recado-scheduled-for").to_owned();
    assert_eq!(job["idempotencyKey"], format!("schedule:s:{made_for}"));
    server.stop();
}

#[test]
fn the_file_names_schedules_and_a_reload_brings_another() {
    let dir = Dir::new();
    let refused = |text: &str, says: &[&str]| {
        dir.write("recado.toml", text);
        let mut run = finish(&mut command(dir.path(), &["serve", "--listen", "127.0.0.1:0"])).expect(65);
        for part in says {
            run = run.says(part);
        }
    };
    refused("[schedules]\nnightly = 3\n", &["recado.toml line 2", "write [schedules.nightly]"]);
    refused(
        "[schedules.nightly]\nqueue = \"q\"\njob = { type = \"t\" }\ncron = \"0 2 * *\"\n",
        &["line 4", "[schedules.nightly] cron", "this one has 4"],
    );
    refused(
        "[schedules.nightly]\nqueue = \"q\"\njob = { type = \"t\", prio = 1 }\nevery = \"1h\"\n",
        &["line 3", "job.prio", "unknown field"],
    );
    refused("[schedules.nightly]\nqueue = \"q\"\nevery = \"1h\"\n", &["line 1", "job"]);
    // What its queue would refuse, it refuses before it is a schedule.
    refused(
        "[schedules.nightly]\nqueue = \"q\"\njob = { type = \"t\", payload = { password = \"hunter2-and-more\" } }\nevery = \"1h\"\n",
        &["schedule `nightly` of the configuration file", "/job/payload/password"],
    );

    let first = "[schedules.nightly]\nqueue = \"q\"\ncron = \"0 2 * * *\"\ntimeZone = \"Europe/Berlin\"\n\
                 [schedules.nightly.job]\ntype = \"report.build\"\npayload = { kind = \"daily\" }\n";
    dir.write("recado.toml", first);
    let server = Server::spawn(&mut command(dir.path(), &["serve", "--listen", "127.0.0.1:0", "--data", "data"]));
    let shown = server.json(&["schedules", "show", "nightly"]);
    assert_eq!((&shown["source"], &shown["config"]["job"]["payload"]), (&json!("file"), &json!({"kind": "daily"})));
    server.run(&["schedules", "delete", "nightly"]).expect(65).says("managed-by-file");
    server.run(&["schedules", "put", "nightly", "q", "t", "--every", "1h"]).expect(65).says("managed-by-file");
    dir.write("recado.toml", "[schedules.beat]\nqueue = \"q\"\njob = { type = \"t\" }\nevery = \"1s\"\n");
    server.process.signal(Signal::HUP);
    let api = Api::new(&server.url);
    until("the other schedule is there", || {
        let all = server.json(&["schedules"]);
        (list(&all, "schedules").len() == 2).then_some(())
    });
    occurred(&api, "beat", 1);
    // What the file no longer names goes on, and is anybody's.
    until("the first is given back", || {
        (server.json(&["schedules", "show", "nightly"])["source"] == "auto").then_some(())
    });
    server.run(&["schedules", "delete", "nightly"]).expect(0);
    server.stop();
}
