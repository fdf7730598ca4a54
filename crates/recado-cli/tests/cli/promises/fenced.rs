//! A settle under the last receipt counts until it is overtaken, and who is too late is told why.

use serde_json::{Value, json};

use crate::support::api::{failure, id, kinds};
use crate::support::stage::Stage;
use crate::support::until;

/// A job whose visibility timeout has passed.
fn lapsed(stage: &Stage, queue: &str, job: &Value, then: &str) -> Value {
    let id = stage.enqueue(queue, job);
    let delivery = stage.take(queue);
    assert_eq!(delivery["id"], id.as_str());
    stage.until_state(&id, then);
    delivery
}

fn configure(stage: &Stage, queue: &str, max_attempts: u64) {
    stage.configure(queue, &json!({ "visibilityTimeout": "100ms", "maxAttempts": max_attempts }));
}

fn job() -> Value {
    json!({ "type": "a", "visibilityTimeout": "100ms" })
}

/// Arranges a delivery whose settle comes late.
type Arrange = fn(&Stage, &str) -> Value;

/// What a late settle comes to: it counts and the job is then in this state, or it is refused for this reason
/// and the job (if it is there) stays in this state.
enum End {
    Counts(&'static str),
    Refused(&'static str, Option<&'static str>),
}

fn nobody_took_it(stage: &Stage, queue: &str) -> Value {
    configure(stage, queue, 9);
    lapsed(stage, queue, &job(), "ready")
}

fn died_of_it(stage: &Stage, queue: &str) -> Value {
    configure(stage, queue, 1);
    lapsed(stage, queue, &job(), "dead")
}

fn received_again(stage: &Stage, queue: &str) -> Value {
    let delivery = nobody_took_it(stage, queue);
    let again = stage.receive(queue, &json!({ "visibilityTimeout": "1h" }));
    assert_eq!(again[0]["id"], delivery["id"]);
    assert!(again[0]["fencingToken"].as_u64() > delivery["fencingToken"].as_u64());
    delivery
}

fn received_again_and_done(stage: &Stage, queue: &str) -> Value {
    let delivery = nobody_took_it(stage, queue);
    stage.ack(&stage.take(queue));
    delivery
}

fn replayed(stage: &Stage, queue: &str) -> Value {
    let delivery = died_of_it(stage, queue);
    stage.post(&format!("/v1/queues/{queue}/dead/replay"), &json!({ "filter": { "all": true } })).expect(202);
    stage.until_state(&id(&delivery), "ready");
    delivery
}

fn cancelled(stage: &Stage, queue: &str) -> Value {
    let delivery = nobody_took_it(stage, queue);
    stage.delete(&format!("/v1/jobs/{}", id(&delivery))).expect(200);
    delivery
}

fn purged(stage: &Stage, queue: &str) -> Value {
    let delivery = nobody_took_it(stage, queue);
    stage.post(&format!("/v1/queues/{queue}/purge"), &json!({ "reason": "test" })).expect(200);
    until("it is gone", || (stage.stats(queue)["depth"] == 0).then_some(()));
    delivery
}

fn expired(stage: &Stage, queue: &str) -> Value {
    configure(stage, queue, 9);
    let mut job = job();
    job["expiresAfter"] = json!("1s");
    let delivery = until("it is received before it expires", || {
        stage.enqueue(queue, &job);
        stage.receive(queue, &json!({})).pop()
    });
    stage.until_state(&id(&delivery), "expired");
    delivery
}

/// Two jobs with one key: the first's timeout passes, the second is received.
fn key_received_after(stage: &Stage, queue: &str, max_attempts: u64, state: &str) -> (Value, Value) {
    configure(stage, queue, max_attempts);
    let mut job = job();
    job["idempotencyKey"] = json!("k");
    let delivery = lapsed(stage, queue, &job, state);
    stage.enqueue(queue, &json!({ "type": "b", "idempotencyKey": "k" }));
    let second = stage.receive(queue, &json!({ "types": ["b"], "visibilityTimeout": "1h" }));
    assert_eq!(second.len(), 1, "the key is free: {second:?}");
    (delivery, second[0].clone())
}

fn key_received(stage: &Stage, queue: &str) -> Value {
    key_received_after(stage, queue, 9, "ready").0
}

fn key_completed(stage: &Stage, queue: &str) -> Value {
    let (delivery, second) = key_received_after(stage, queue, 9, "ready");
    stage.ack(&second);
    stage.until_state(&id(&delivery), "completed");
    delivery
}

fn dead_and_key_received(stage: &Stage, queue: &str) -> Value {
    key_received_after(stage, queue, 1, "dead").0
}

fn dead_and_key_completed(stage: &Stage, queue: &str) -> Value {
    let (delivery, second) = key_received_after(stage, queue, 1, "dead");
    stage.ack(&second);
    delivery
}

const ROWS: &[(&str, Arrange, End)] = &[
    ("in-time-for-nobody", nobody_took_it, End::Counts("completed")),
    ("took-back-a-death", died_of_it, End::Counts("completed")),
    ("received-again", received_again, End::Refused("received-again", Some("inFlight"))),
    ("received-again-and-done", received_again_and_done, End::Refused("received-again", Some("completed"))),
    ("replayed", replayed, End::Refused("replayed", Some("ready"))),
    ("cancelled", cancelled, End::Refused("cancelled", Some("cancelled"))),
    ("purged", purged, End::Refused("purged", None)),
    ("expired", expired, End::Refused("expired", Some("expired"))),
    ("key-received", key_received, End::Refused("key-taken", Some("ready"))),
    ("key-completed", key_completed, End::Refused("key-taken", Some("completed"))),
    ("dead-and-key-received", dead_and_key_received, End::Refused("key-taken", Some("dead"))),
    ("dead-and-key-completed", dead_and_key_completed, End::Refused("key-taken", Some("dead"))),
];

fn look(stage: &Stage, id: &str) -> Value {
    let answer = stage.get(&format!("/v1/jobs/{id}"));
    assert!(matches!(answer.status, 200 | 410), "{answer:?}");
    answer.value()
}

fn settles_late(stage: &Stage, queue: &str, delivery: &Value, end: &End) {
    let ack = json!({ "outcome": "ack", "result": "late" });
    let job = id(delivery);
    match end {
        End::Counts(state) => {
            stage.settled(delivery, &ack);
            assert_eq!(stage.state(&job), *state, "{queue}");
            assert_eq!(kinds(&stage.job(&job)), ["visibility-timeout", "late-ack"], "{queue}");
            let stats = stage.stats(queue);
            assert_eq!((&stats["dead"], &stats["depth"]), (&json!(0), &json!(0)), "{queue}");
            let again = stage.settle(delivery, &ack);
            assert_eq!((&again["ok"], &again["repeated"]), (&json!(true), &json!(true)), "{queue}: {again}");
        }
        End::Refused(reason, state) => {
            let before = look(stage, &job);
            // There is nothing to extend of a dead one, whatever its key.
            let extend = (*state != Some("dead")).then(|| json!({ "outcome": "extend" }));
            for outcome in [ack, failure(true), failure(false)].into_iter().chain(extend) {
                let refused = stage.settle(delivery, &outcome);
                let problem = &refused["problem"];
                assert_eq!(refused["ok"], false, "{queue}: {refused}");
                assert_eq!((&problem["code"], &problem["status"]), (&json!("stale-receipt"), &json!(409)), "{queue}");
                assert_eq!((&problem["reason"], &problem["jobState"]), (&json!(reason), &json!(state)), "{queue}");
            }
            assert_eq!(look(stage, &job), before, "{queue}: an overtaken settle changes nothing");
        }
    }
}

#[test]
fn promise_4_fenced() {
    let stage = Stage::new();
    for (queue, arrange, end) in ROWS {
        let delivery = arrange(&stage, queue);
        settles_late(&stage, queue, &delivery, end);
    }
}

/// Receipts outlive the process that made them.
#[test]
fn promise_4_fenced_across_a_kill() {
    let mut stage = Stage::new();
    let late: Vec<Value> = ROWS.iter().map(|(queue, arrange, _)| arrange(&stage, queue)).collect();
    stage.crash();
    for ((queue, _, end), delivery) in ROWS.iter().zip(&late) {
        settles_late(&stage, queue, delivery, end);
    }
    stage.crash();
    // A refusal or an answer that was given is given again.
    for ((queue, _, end), delivery) in ROWS.iter().zip(&late) {
        let again = stage.settle(delivery, &json!({ "outcome": "ack", "result": "late" }));
        assert_eq!(again["ok"], json!(matches!(end, End::Counts(_))), "{queue}: {again}");
    }
    for (queue, ..) in ROWS.iter().filter(|row| matches!(row.2, End::Counts(_))) {
        stage.nothing_from(queue);
    }
}

#[test]
fn promise_4_fenced_the_same_settle_again_is_repeated_another_is_not() {
    let mut stage = Stage::new();
    stage.configure("q", &json!({ "backoff": { "kind": "fixed", "base": "1h" } }));
    let outcomes =
        [json!({ "outcome": "ack", "result": 1 }), failure(true), json!({ "outcome": "release", "delay": "1h" })];
    let states = ["completed", "delayed", "delayed"];
    stage.enqueue_all("q", &json!(vec![json!({ "type": "t" }); outcomes.len()]));
    let out = stage.receive("q", &json!({ "max": outcomes.len() }));
    for (delivery, outcome) in out.iter().zip(&outcomes) {
        stage.settled(delivery, outcome);
    }
    for _ in 0..2 {
        for (n, delivery) in out.iter().enumerate() {
            for (m, outcome) in outcomes.iter().enumerate() {
                let settled = stage.settle(delivery, outcome);
                if n == m {
                    assert_eq!((&settled["ok"], &settled["repeated"]), (&json!(true), &json!(true)), "{settled}");
                } else {
                    assert_eq!(settled["problem"]["reason"], "settled", "{settled}");
                    assert_eq!(settled["problem"]["jobState"], states[n], "{settled}");
                }
            }
            assert_eq!(stage.state(&id(delivery)), states[n]);
        }
        stage.crash();
    }
}

/// What is said again is known again although the job is gone, also after a kill.
#[test]
fn promise_4_fenced_when_the_job_is_gone() {
    let mut stage = Stage::new();
    stage.configure("q", &json!({ "keepCompleted": { "for": "1h", "max": 0 } }));
    let [ack, other] = [1, 2].map(|result| json!({ "outcome": "ack", "result": result }));
    stage.enqueue("q", &json!({ "type": "t" }));
    let delivery = stage.take("q");
    stage.settled(&delivery, &ack);
    for _ in 0..2 {
        stage.get(&format!("/v1/jobs/{}", id(&delivery))).problem(410, "gone");
        let again = stage.settle(&delivery, &ack);
        assert_eq!((&again["ok"], &again["repeated"]), (&json!(true), &json!(true)), "{again}");
        for outcome in [&other, &failure(true), &json!({ "outcome": "extend" })] {
            assert_eq!(stage.settle(&delivery, outcome)["problem"]["reason"], "settled");
        }
        stage.crash();
    }
}

#[test]
fn promise_4_fenced_against_what_was_never_given_out() {
    let stage = Stage::new();
    let first = stage.enqueue("q", &json!({ "type": "t" }));
    stage.enqueue("q", &json!({ "type": "t" }));
    let out = stage.receive("q", &json!({ "max": 2 }));
    let forged = |receipt: &Value| {
        let entry = json!({ "id": first, "receipt": receipt, "outcome": "ack" });
        stage.post("/v1/settle", &json!([entry])).expect(200)["settled"][0].clone()
    };
    let mut turned = out[0]["receipt"].as_str().unwrap().to_owned();
    let last = if turned.pop() == Some('0') { '1' } else { '0' };
    turned.push(last);
    for receipt in [json!("x"), json!(turned), out[1]["receipt"].clone()] {
        let refused = forged(&receipt);
        assert_eq!(refused["problem"]["reason"], "forged", "{refused}");
        assert_eq!(stage.state(&first), "inFlight");
    }
    stage.ack(&out[0]);
}
