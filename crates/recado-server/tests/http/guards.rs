//! Guards: work under a key that is done once, as its holders and those who wait see it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::client::{Answer, Conn};
use crate::server::{Server, until};

fn path(key: &str, verb: &str) -> String {
    format!("/v1/queues/q/idempotency/{key}/{verb}")
}

fn server() -> Server {
    let server = Server::start();
    server.json("PUT", "/v1/queues/q", "{}").expect(201);
    server
}

fn begin(server: &Server, key: &str, body: &Value) -> Value {
    server.json("POST", &path(key, "begin"), &body.to_string()).expect(200)
}

/// Begins what nobody is at, and answers with the token.
fn begin_new(server: &Server, key: &str, body: &Value) -> String {
    let begun = begin(server, key, body);
    assert_eq!(begun["state"], "new", "{begun}");
    begun["token"].as_str().unwrap().to_owned()
}

fn say(server: &Server, key: &str, verb: &str, body: &Value) -> Answer {
    server.json("POST", &path(key, verb), &body.to_string())
}

#[test]
fn of_50_that_begin_at_once_one_does_it() {
    let server = server();
    let address = server.address;
    let gate = std::sync::Arc::new(std::sync::Barrier::new(50));
    let threads: Vec<_> = (0..50)
        .map(|_| {
            let gate = gate.clone();
            std::thread::spawn(move || {
                let mut conn = Conn::open(address);
                gate.wait();
                conn.json("POST", &path("k", "begin"), "{}").expect(200)["state"].as_str().unwrap().to_owned()
            })
        })
        .collect();
    let mut states = BTreeMap::<String, usize>::new();
    for thread in threads {
        *states.entry(thread.join().unwrap()).or_default() += 1;
    }
    assert_eq!(states, BTreeMap::from([("new".to_owned(), 1), ("processing".to_owned(), 49)]));
}

#[test]
fn the_result_comes_back_byte_for_byte_also_after_a_restart() {
    let server = server();
    let key = "order%2042%2Freceipt%20%C3%BC";
    let token = begin_new(&server, key, &json!({}));
    let result = "{ \"b\" : 1.50,\t\"a\":[ 1e2,\"\\u00fc\" ] }";
    let body = format!(r#"{{"token":"{token}","result":{result}}}"#);
    let answer = server.json("POST", &path(key, "complete"), &body);
    assert_eq!(answer.expect(200), json!({"state": "done"}));
    let expected = format!(r#"{{"state":"done","result":{result}}}"#);
    assert_eq!(server.json("POST", &path(key, "begin"), "").text(), expected);
    let again = server.json("POST", &path(key, "complete"), &body);
    assert_eq!(again.expect(200), json!({"state": "done", "repeated": true}));
    let another = say(&server, key, "complete", &json!({"token": token, "result": "another"}));
    assert_eq!(another.problem(409, "stale-receipt")["reason"], "settled");
    let held = begin_new(&server, "held", &json!({"holdFor": "12h"}));
    let server = server.restart(|_| {});
    assert_eq!(server.json("POST", &path(key, "begin"), "").text(), expected);
    assert_eq!(begin(&server, "held", &json!({}))["state"], "processing");
    let longest = "x".repeat((64 << 10) - 2);
    say(&server, "held", "complete", &json!({"token": held, "result": longest})).expect(200);
    assert_eq!(begin(&server, "held", &json!({}))["result"], longest);
    let token = begin_new(&server, "no-result", &json!({}));
    say(&server, "no-result", "complete", &json!({"token": token})).expect(200);
    assert_eq!(begin(&server, "no-result", &json!({})), json!({"state": "done", "result": null}));
}

#[test]
fn a_holder_past_its_deadline_is_overtaken() {
    let server = server();
    let late = begin_new(&server, "k", &json!({"holdFor": "100ms"}));
    let mut taken = Value::Null;
    until("the deadline passes", || {
        taken = begin(&server, "k", &json!({}));
        taken["state"] == "new"
    });
    let token = taken["token"].as_str().unwrap();
    assert_ne!(token, late);
    for (verb, body) in [
        ("complete", json!({"token": late, "result": 1})),
        ("extend", json!({"token": late})),
        ("abort", json!({"token": late})),
    ] {
        let problem = say(&server, "k", verb, &body).problem(409, "stale-receipt");
        assert_eq!(problem["reason"], "key-taken", "{verb}");
    }
    say(&server, "k", "complete", &json!({"token": token, "result": 2})).expect(200);
    assert_eq!(begin(&server, "k", &json!({})), json!({"state": "done", "result": 2}));
    let problem = say(&server, "k", "abort", &json!({"token": token})).problem(409, "stale-receipt");
    assert_eq!(problem["reason"], "settled");
}

#[test]
fn a_holder_that_extends_keeps_it() {
    let server = server();
    let token = begin_new(&server, "k", &json!({"holdFor": "100ms"}));
    let extended = say(&server, "k", "extend", &json!({"token": token, "holdFor": "12h"})).expect(200);
    assert_eq!(extended["state"], "processing");
    let processing = begin(&server, "k", &json!({}));
    assert_eq!(processing, json!({"state": "processing", "until": extended["until"]}));
    assert_eq!(say(&server, "k", "abort", &json!({"token": token})).expect(200), json!({"state": "aborted"}));
    let again = say(&server, "k", "abort", &json!({"token": token})).expect(200);
    assert_eq!(again, json!({"state": "aborted", "repeated": true}));
    let problem = say(&server, "k", "complete", &json!({"token": token})).problem(409, "stale-receipt");
    assert_eq!(problem["reason"], "expired");
    begin_new(&server, "k", &json!({}));
}

#[test]
fn a_result_is_kept_for_its_time() {
    let server = server();
    let token = begin_new(&server, "k", &json!({"ttl": "300ms"}));
    let kept = begin_new(&server, "kept", &json!({"ttl": "365d"}));
    for (key, token) in [("k", &token), ("kept", &kept)] {
        say(&server, key, "complete", &json!({"token": token, "result": 1})).expect(200);
    }
    until("its time is over", || begin(&server, "k", &json!({"holdFor": "12h"}))["state"] == "new");
    assert_eq!(begin(&server, "kept", &json!({}))["state"], "done");
}

#[test]
fn with_a_job_it_lives_as_long_as_the_job() {
    let server = Server::start();
    server.json("PUT", "/v1/queues/q", r#"{"maxAttempts":1,"keepCompleted":"0s"}"#).expect(201);
    let id = server.enqueue("q", r#"{"type":"t","idempotencyKey":"k"}"#).remove(0);
    let job = server.receive("q", 1).remove(0);
    let hold = json!({"ttl": "1ms", "holdFor": "100ms", "job": id, "receipt": job["receipt"]});
    let token = begin_new(&server, "k", &hold);
    say(&server, "k", "complete", &json!({"token": token, "result": [1]})).expect(200);
    server.settle(&job, r#""outcome":"fail","error":{"message":"m"}"#);
    assert_eq!(server.job(&id)["state"], "dead");
    let problem = say(&server, "l", "begin", &hold).problem(409, "stale-receipt");
    assert_eq!((&problem["reason"], &problem["jobState"]), (&json!("dead"), &json!("dead")));
    // A dead job keeps it, over a restart and into its next life.
    let server = server.restart(|_| {});
    server.json("POST", "/v1/queues/q/dead/replay", r#"{"filter":{"all":true}}"#).expect(202);
    let mut jobs = Vec::new();
    until("it is back", || {
        jobs = server.receive("q", 1);
        !jobs.is_empty()
    });
    let hold = json!({"job": id, "receipt": jobs[0]["receipt"]});
    assert_eq!(begin(&server, "k", &hold), json!({"state": "done", "result": [1]}));
    assert_eq!(server.settle(&jobs[0], r#""outcome":"ack""#)["ok"], true);
    begin_new(&server, "k", &json!({}));
    say(&server, "l", "begin", &json!({"job": id})).problem(410, "gone");
}

#[test]
fn a_worker_that_has_lost_its_lease_begins_nothing() {
    let server = Server::start();
    server.json("PUT", "/v1/queues/q", r#"{"visibilityTimeout":"100ms"}"#).expect(201);
    let id = server.enqueue("q", r#"{"type":"t"}"#).remove(0);
    let job = server.receive("q", 1).remove(0);
    let hold = json!({"job": id, "receipt": job["receipt"]});
    let mut reason = Value::Null;
    until("the lease has lapsed", || {
        let answer = say(&server, "k", "begin", &hold);
        if answer.status == 409 {
            reason = answer.problem(409, "stale-receipt")["reason"].clone();
        }
        answer.status == 409
    });
    assert_eq!(reason, "visibility-timeout");
    assert_eq!(server.receive("q", 1).len(), 1);
    let problem = say(&server, "k", "begin", &hold).problem(409, "stale-receipt");
    assert_eq!(problem["reason"], "received-again");
}

#[test]
fn every_parameter_is_checked() {
    let server = server();
    server.json("PUT", "/v1/queues/other", "{}").expect(201);
    let id = server.enqueue("other", r#"{"type":"t"}"#).remove(0);
    let token = begin_new(&server, "k", &json!({"ttl": "365d", "holdFor": "12h"}));
    for (verb, body, pointer) in [
        ("begin", json!({"ttl": "0s"}), "/ttl"),
        ("begin", json!({"ttl": "366d"}), "/ttl"),
        ("begin", json!({"ttl": 5}), "/ttl"),
        ("begin", json!({"holdFor": "99ms"}), "/holdFor"),
        ("begin", json!({"holdFor": "13h"}), "/holdFor"),
        ("begin", json!({"holdFor": "1h30m"}), "/holdFor"),
        ("begin", json!({"receipt": "x"}), "/receipt"),
        ("begin", json!({"job": "x"}), "/job"),
        ("begin", json!({"job": id}), "/job"),
        ("begin", json!({"hold": "1m"}), "/hold"),
        ("complete", json!({}), "/token"),
        ("complete", json!({"token": token, "results": 1}), "/results"),
        ("abort", json!({"token": token, "result": 1}), "/result"),
        ("extend", json!({"token": token, "holdFor": "99ms"}), "/holdFor"),
    ] {
        let problem = say(&server, "k", verb, &body).problem(400, "invalid-request");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{verb} {body}");
        assert_eq!(problem["errors"][0].get("index"), None, "{verb} {body}");
    }
    let twice = format!(r#"{{"token":"{token}","result":{{"a":1,"a":2}}}}"#);
    let problem = server.json("POST", &path("k", "complete"), &twice).problem(400, "invalid-request");
    assert_eq!(problem["errors"][0]["pointer"], "/result/a");
    let large = json!({"token": token, "result": "x".repeat((64 << 10) - 1)});
    let problem = say(&server, "k", "complete", &large).problem(413, "payload-too-large");
    assert_eq!((&problem["limit"], &problem["actual"]), (&json!(65_536), &json!(65_537)));
    for forged in ["", "x", &token[1..], &format!("{token}0"), &token.to_uppercase().replace('A', "B")] {
        let problem = say(&server, "k", "abort", &json!({"token": forged})).problem(409, "stale-receipt");
        assert_eq!(problem["reason"], "forged", "{forged}");
    }
    say(&server, &"k".repeat(256), "begin", &json!({})).expect(200);
    say(&server, &"k".repeat(257), "begin", &json!({})).problem(400, "invalid-request");
    say(&server, "%2E%2E", "begin", &json!({})).problem(400, "invalid-request");
    say(&server, "a%0Ab", "begin", &json!({})).problem(400, "invalid-request");
    say(&server, "k", "begin?ttl=1s", &json!({})).problem(400, "invalid-request");
    let gone = json!({"job": "job_00000000000000000000000000000000"});
    say(&server, "k", "begin", &gone).problem(410, "gone");
    let nowhere = server.json("POST", "/v1/queues/qq/idempotency/k/begin", "{}").problem(404, "not-found");
    assert_eq!(nowhere["nearest"], "q");
    server.json("POST", "/v1/queues/qq/idempotency/k/abort", r#"{"token":"x"}"#).problem(404, "not-found");
    // None of it has touched the hold.
    say(&server, "k", "complete", &json!({"token": token})).expect(200);
}

#[test]
fn guards_of_a_queue_are_limited() {
    let server = Server::start();
    server.json("PUT", "/v1/queues/q", r#"{"idempotency":{"max":1}}"#).expect(201);
    let token = begin_new(&server, "a", &json!({}));
    let problem = say(&server, "b", "begin", &json!({})).problem(429, "queue-full");
    assert_eq!((&problem["reason"], &problem["limit"], &problem["actual"]), (&json!("guards"), &json!(1), &json!(2)));
    say(&server, "a", "abort", &json!({"token": token})).expect(200);
    begin_new(&server, "b", &json!({}));
}
