//! What holds consumers back: rate limits and shared limits, through the real binary and across its deaths.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::api::{Api, LONG_POLL, list};
use crate::support::stage::Stage;
use crate::support::{Dir, Server, command, finish, until};
use rustix::process::Signal;

fn jobs(count: usize) -> Value {
    json!(vec![json!({ "type": "t" }); count])
}

/// An empty receive.
#[track_caller]
fn empty(api: &Api, queue: &str) -> Value {
    let answer = api.post(&format!("/v1/queues/{queue}/receive"), &json!({ "max": 9 })).expect(200);
    assert_eq!(answer["jobs"], json!([]), "{answer}");
    answer
}

/// The value of a metric's row, by the row's beginning.
#[track_caller]
fn metric(api: &Api, row: &str) -> f64 {
    let text = api.get("/metrics").text;
    let line = text.lines().find_map(|line| line.strip_prefix(row)).unwrap_or_else(|| panic!("no {row} in {text}"));
    line.trim().parse().unwrap()
}

#[test]
fn a_rate_limit_paces_deliveries_and_wakes_who_waits() {
    let mut stage = Stage::new();
    let rate = json!({ "jobs": 10, "per": "1s", "burst": 2 });
    stage.configure("q", &json!({ "rateLimit": rate }));
    stage.enqueue_all("q", &jobs(6));
    let begin = Instant::now();
    assert_eq!(stage.receive("q", &json!({ "max": 9 })).len(), 2, "the burst");
    for _ in 0..3 {
        assert_eq!(stage.receive("q", &json!({ "max": 9, "wait": LONG_POLL })).len(), 1);
    }
    let took = begin.elapsed();
    assert!(took >= Duration::from_millis(300), "five of ten a second with a burst of two took {took:?}");

    // So slow that no token comes while this test looks.
    stage.configure("q", &json!({ "rateLimit": { "jobs": 1, "per": "1h" } }));
    let answer = empty(&stage, "q");
    assert_eq!((&answer["emptyBecause"], &answer["limit"]), (&json!("queue-rate-limit"), &Value::Null), "{answer}");
    let stats = stage.stats("q");
    assert_eq!(stats["heldBack"], json!({ "queue-rate-limit": 1 }), "{stats}");
    assert_eq!(stats["rate"], json!({ "jobs": 1, "per": "1h", "available": 0 }), "{stats}");
    assert_eq!(metric(&stage, "recado_queue_held_back{queue=\"q\",reason=\"queue-rate-limit\"}"), 1.0);
    // A new service does not begin with a burst.
    stage.crash();
    assert_eq!(empty(&stage, "q")["emptyBecause"], "queue-rate-limit");
    stage.configure("q", &json!({}));
    stage.take("q");
}

#[test]
fn one_group_at_its_rate_does_not_hold_up_another() {
    let stage = Stage::new();
    stage.configure("q", &json!({ "groups": { "rateLimit": { "jobs": 2, "per": "1h" } } }));
    let of = |group: &str| json!({ "type": "t", "group": group });
    stage.enqueue_all("q", &json!([of("big"), of("big"), of("big"), of("small")]));
    let given = stage.receive("q", &json!({ "max": 9 }));
    let groups: Vec<&str> = given.iter().map(|job| job["group"].as_str().unwrap()).collect();
    assert_eq!(groups, ["big", "small", "big"]);
    assert_eq!(empty(&stage, "q")["emptyBecause"], "group-rate-limit");
    assert_eq!(stage.stats("q")["heldBack"], json!({ "group-rate-limit": 1 }));
}

/// One tenant with 100,000 jobs does not hold up another's single job.
#[test]
fn fair_groups_take_turns_whatever_their_backlog() {
    let stage = Stage::new();
    let big = json!(vec![json!({ "type": "t", "group": "big" }); 5_000]);
    for _ in 0..20 {
        stage.enqueue_all("q", &big);
    }
    let small = stage.enqueue("q", &json!({ "type": "t", "group": "small" }));
    let given = stage.receive("q", &json!({ "max": 2 }));
    assert!(given.iter().any(|job| job["id"] == json!(small)), "{given:?}");
    assert_eq!(stage.stats("q")["ready"], 99_999);
}

#[test]
fn a_shared_limit_of_the_file_holds_for_all_its_queues() {
    let dir = Dir::new();
    let refused = |text: &str, says: &str| {
        dir.write("recado.toml", text);
        finish(&mut command(dir.path(), &["serve", "--listen", "127.0.0.1:0"])).expect(65).says(says);
    };
    refused(
        "[queues.a]\nlimits = [\"stripe\"]\n",
        "recado.toml line 2: the file has no limit `stripe`; write [limits.stripe]",
    );
    refused(
        "[queues.a]\nlimits = [\"stripo\"]\n[limits.stripe]\nmaxInFlight = 1\n",
        "recado.toml line 2: the file has no limit `stripo`; did you mean `stripe`?",
    );
    refused("[limits.stripe]\nmaxInflight = 1\n", "recado.toml line 2");
    refused("[limits.stripe]\n", "recado.toml line 1: [limits.stripe]: a limit that limits nothing");
    refused("[limits]\nstripe = 1\n", "a limit is a section: write [limits.stripe]");
    let text = |limit: &str| {
        format!("[limits.stripe]\n{limit}\n[queues.a]\nlimits = [\"stripe\"]\n[queues.b]\nlimits = [\"stripe\"]\n")
    };
    dir.write("recado.toml", &text("maxInFlight = 1"));
    let data = dir.path().join("data");
    let server = Server::start_with(&data, &["--durability", "os"]);
    let api = Api::new(&server.url);
    api.enqueue_all("a", &jobs(2));
    api.enqueue_all("b", &jobs(2));
    let held = api.take("a");
    let answer = empty(&api, "b");
    assert_eq!((&answer["emptyBecause"], &answer["limit"]), (&json!("shared-limit"), &json!("stripe")), "{answer}");
    let limit = api.get("/v1/limits/stripe").expect(200);
    let expected = json!({ "name": "stripe", "inFlight": 1, "maxInFlight": 1, "rate": null, "breaker": null, "heldBack": "shared-limit",
        "source": "file", "config": { "maxInFlight": 1 }, "queues": ["a", "b"] });
    assert_eq!(limit, expected);
    assert_eq!(api.stats("b")["limits"][0]["inFlight"], 1);
    assert_eq!(api.stats("b")["heldBack"], json!({ "shared-limit": 2 }));
    assert_eq!(metric(&api, "recado_limit_in_flight{limit=\"stripe\"}"), 1.0);
    assert_eq!(metric(&api, "recado_limit_max_in_flight{limit=\"stripe\"}"), 1.0);
    api.put("/v1/limits/stripe", &json!({ "maxInFlight": 9 })).problem(409, "managed-by-file");

    // The job that is out counts under the limit in the next life too, and its end lets the other queue go on.
    server.process.signal(Signal::KILL);
    server.process.end();
    let server = Server::start_with(&data, &["--durability", "os"]);
    let api = Api::new(&server.url);
    assert_eq!(empty(&api, "b")["limit"], "stripe");
    let waiting = api.clone();
    let poll = thread::spawn(move || waiting.take("b"));
    until("it waits", || (api.stats("b")["consumers"] != json!([])).then_some(()));
    api.ack(&held);
    poll.join().unwrap();

    dir.write("recado.toml", &text("maxInFlight = 2"));
    server.process.signal(Signal::HUP);
    until("the reload lets one more out", || api.receive("a", &json!({})).pop());
    assert_eq!(metric(&api, "recado_limit_deliveries_total{limit=\"stripe\"}"), 2.0);
    server.stop();
}

#[test]
fn a_shared_limit_is_put_used_and_removed() {
    let stage = Stage::new();
    let put = |limit: &str, options: &Value| stage.put(&format!("/v1/limits/{limit}"), options);
    let problem = put("stripe", &json!({})).problem(400, "invalid-request");
    assert!(problem["detail"].as_str().unwrap().contains("maxInFlight"), "{problem}");
    put("stripe", &json!({ "maxInFlight": 0 })).problem(400, "invalid-request");
    put("no%20name", &json!({ "maxInFlight": 1 })).problem(400, "invalid-name");
    put("stripe", &json!({ "maxInFlight": 5, "rateLimit": { "jobs": 2, "per": "1h" } })).expect(201);
    let problem = stage.put("/v1/queues/q", &json!({ "limits": ["stripo"] })).problem(400, "invalid-request");
    let error = &problem["errors"][0];
    assert_eq!((&error["pointer"], &error["index"]), (&json!("/limits"), &Value::Null), "{problem}");
    assert!(error["message"].as_str().unwrap().contains("did you mean `stripe`?"), "{problem}");
    stage.configure("q", &json!({ "limits": ["stripe"] }));
    stage.configure("r", &json!({ "limits": ["stripe"], "rateLimit": { "jobs": 100, "per": "1s" } }));
    stage.enqueue_all("q", &jobs(2));
    stage.enqueue_all("r", &jobs(2));
    let given = stage.post("/v1/receive", &json!({ "queues": ["r", "q"], "order": "strict", "max": 9 })).expect(200);
    assert_eq!(list(&given, "jobs").len(), 2, "{given}");
    assert_eq!(empty(&stage, "q")["limit"], "stripe");
    let limits = stage.get("/v1/limits").expect(200);
    let rate = json!({ "jobs": 2, "per": "1h", "available": 0 });
    assert_eq!((&limits["limits"][0]["rate"], &limits["limits"][0]["inFlight"]), (&rate, &json!(2)), "{limits}");
    stage.delete("/v1/limits/stripe").problem(409, "limit-in-use");
    stage.get("/v1/limits/absent").problem(404, "not-found");
    for queue in ["q", "r"] {
        stage.configure(queue, &json!({}));
    }
    stage.take("q");
    assert_eq!(stage.delete("/v1/limits/stripe").expect(200), json!({ "name": "stripe", "deleted": true }));
    assert_eq!(stage.get("/v1/limits").expect(200), json!({ "limits": [] }));
}

/// Whoever has waited longest gets what a shared limit sets free, whatever the queue.
#[test]
fn queues_under_one_limit_are_served_in_the_order_of_their_workers() {
    let stage = Stage::new();
    stage.put("/v1/limits/pool", &json!({ "maxInFlight": 1 })).expect(201);
    for queue in ["a", "b"] {
        stage.configure(queue, &json!({ "limits": ["pool"] }));
        stage.enqueue_all(queue, &jobs(9));
    }
    let mut held = stage.take("a");
    let mut polls = Vec::new();
    for (queue, worker) in [("b", "first"), ("a", "second"), ("b", "third")] {
        let api = stage.clone();
        let ask = json!({ "wait": LONG_POLL, "worker": worker });
        polls.push((queue, thread::spawn(move || api.receive(queue, &ask))));
        let is_there = || list(&stage.stats(queue), "consumers").iter().any(|consumer| consumer["worker"] == worker);
        until("it waits", || is_there().then_some(()));
    }
    for (queue, poll) in polls {
        stage.ack(&held);
        held = poll.join().unwrap().pop().unwrap_or_else(|| panic!("another was before it, and it got nothing"));
        assert_eq!(held["queue"], queue);
    }
}

/// Open hands out nothing and uses up no attempt, in the next life too; then one probe at a time.
#[test]
fn a_circuit_breaker_opens_lets_probes_out_and_closes() {
    let mut stage = Stage::new();
    let breaker = json!({ "failureRate": 0.5, "minJobs": 4, "coolDown": "1h" });
    stage.configure("q", &json!({ "breaker": breaker, "backoff": { "kind": "fixed", "base": "0s" } }));
    let ids = stage.enqueue_all("q", &jobs(6));
    let out = stage.receive("q", &json!({ "max": 4 }));
    stage.ack(&out[0]);
    stage.ack(&out[1]);
    stage.fail(&out[2], true);
    assert_eq!(stage.stats("q")["breaker"]["state"], "closed");
    stage.fail(&out[3], true);
    for _ in 0..2 {
        assert_eq!(empty(&stage, "q")["emptyBecause"], "breaker-open");
        let stats = stage.stats("q");
        let breaker = &stats["breaker"];
        assert_eq!(breaker["state"], "open", "{stats}");
        assert!(breaker["until"].is_string() && breaker["since"].is_string(), "{stats}");
        assert_eq!(stats["heldBack"], json!({ "breaker-open": 4 }), "{stats}");
        assert_eq!(metric(&stage, "recado_breaker_open{queue=\"q\"}"), 1.0);
        stage.crash();
    }
    assert_eq!(stage.job(&ids[5])["attempts"], 0);
    assert_eq!(stage.job(&ids[5])["heldBack"], "breaker-open");

    // A breaker with another cool-down keeps where it is, so this one is off and on again.
    stage.configure("q", &json!({ "backoff": { "kind": "fixed", "base": "0s" } }));
    let breaker = json!({ "failureRate": 0.5, "minJobs": 1, "coolDown": "200ms" });
    stage.configure("q", &json!({ "breaker": breaker, "backoff": { "kind": "fixed", "base": "0s" } }));
    let first = stage.take("q");
    stage.fail(&first, true);
    for result in [false, true] {
        // Whoever waits gets the probe when the cool-down is over, and nobody else does.
        let probe = stage.receive("q", &json!({ "max": 9, "wait": LONG_POLL }));
        assert_eq!(probe.len(), 1, "one probe: {probe:?}");
        assert_eq!(stage.stats("q")["breaker"]["state"], "halfOpen");
        assert_eq!(empty(&stage, "q")["emptyBecause"], "breaker-open");
        if result { stage.ack(&probe[0]) } else { stage.fail(&probe[0], true) }
    }
    assert_eq!(stage.stats("q")["breaker"]["state"], "closed");
    assert_eq!(stage.receive("q", &json!({ "max": 9 })).len(), 3);
    assert_eq!(metric(&stage, "recado_breaker_open{queue=\"q\"}"), 0.0);
    assert_eq!(metric(&stage, "recado_breaker_moves_total{queue=\"q\",to=\"open\"}"), 2.0);
    assert_eq!(metric(&stage, "recado_breaker_moves_total{queue=\"q\",to=\"closed\"}"), 1.0);
}

#[test]
fn a_shared_breaker_holds_back_all_its_queues() {
    let stage = Stage::new();
    let breaker = json!({ "minJobs": 1, "coolDown": "1h" });
    stage.put("/v1/limits/stripe", &json!({ "breaker": breaker })).expect(201);
    for queue in ["q", "r"] {
        stage.configure(queue, &json!({ "limits": ["stripe"] }));
        stage.enqueue_all(queue, &jobs(2));
    }
    let delivery = stage.take("q");
    stage.fail(&delivery, false);
    let answer = empty(&stage, "r");
    assert_eq!((&answer["emptyBecause"], &answer["limit"]), (&json!("breaker-open"), &json!("stripe")), "{answer}");
    let limit = stage.get("/v1/limits/stripe").expect(200);
    assert_eq!((&limit["breaker"]["state"], &limit["heldBack"]), (&json!("open"), &json!("breaker-open")), "{limit}");
    assert_eq!(metric(&stage, "recado_breaker_open{limit=\"stripe\"}"), 1.0);
    stage.put("/v1/limits/stripe", &json!({ "maxInFlight": 5 })).expect(200);
    stage.take("r");
}

/// Jobs complete so fast that the choice is the shortest one; what follows from slow ones is a matter of the core.
#[test]
fn the_visibility_timeout_follows_from_how_long_jobs_take() {
    let mut stage = Stage::new();
    let run = |stage: &Stage, kind: &str, count: usize| {
        stage.enqueue_all("q", &json!(vec![json!({ "type": kind }); count]));
        for _ in 0..count {
            let delivery = stage.take("q");
            stage.ack(&delivery);
        }
    };
    run(&stage, "quick", 19);
    let choice = |stage: &Stage| stage.stats("q")["effective"]["visibilityTimeout"].clone();
    assert_eq!(choice(&stage), json!({ "value": "30s", "why": "default" }));
    run(&stage, "quick", 1);
    run(&stage, "rare", 1);
    stage.stop();
    stage.start();
    assert_eq!(choice(&stage)["why"], "measured", "it survives a restart");
    let types = stage.stats("q")["effective"]["types"].clone();
    let of = |kind: &str| types.as_array().unwrap().iter().find(|it| it["type"] == kind).unwrap().clone();
    assert_eq!(of("quick")["completions"], 20);
    assert_eq!(of("rare")["visibilityTimeout"], json!({ "value": "30s", "why": "default" }));
    // On a machine that takes its time it may be more than the shortest one, but less than the default.
    let hidden = |kind: &str| {
        stage.enqueue("q", &json!({ "type": kind, "headers": {} }));
        let delivery = stage.take("q");
        assert_eq!(delivery["type"], kind);
        delivery["visibleAt"].as_str().unwrap().to_owned()
    };
    assert!(hidden("quick") < hidden("rare"), "5s and 30s from now");
    assert_eq!(stage.stats("q")["warnings"], json!([]));
}
