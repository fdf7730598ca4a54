//! The life of a job, written once for every way to reach the engine. A client of another protocol
//! implements [`Client`] and runs [`all`].

use serde_json::{Value, json};

use crate::server::Server;

/// A job in a worker's hands.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub(crate) id: String,
    pub(crate) receipt: String,
    pub(crate) attempts: u64,
    pub(crate) payload: Value,
}

/// What the suite needs of a client. Refusals are codes; a stale receipt's is `stale-receipt: reason`.
pub(crate) trait Client {
    fn configure(&mut self, queue: &str, options: Value);
    fn enqueue(&mut self, queue: &str, job: Value) -> Result<String, String>;
    fn receive(&mut self, queue: &str, wait: &str) -> Option<Delivery>;
    fn settle(&mut self, delivery: &Delivery, outcome: Value) -> Result<(), String>;
    /// Where it is; none when it is gone.
    fn state(&mut self, id: &str) -> Option<String>;
    /// Waits until it has ended or died.
    fn wait(&mut self, id: &str) -> String;
    fn cancel(&mut self, id: &str) -> Result<(), String>;
    /// Replays all dead jobs.
    fn replay(&mut self, queue: &str);
}

type Case = (&'static str, fn(&mut dyn Client, &str));

/// Runs every case, each on a queue of its own.
pub(crate) fn all(client: &mut dyn Client) {
    let cases: &[Case] = &[
        ("acked", acked),
        ("hidden", hidden_while_in_flight),
        ("retried", failed_is_retried_then_dead),
        ("permanent", a_permanent_failure_is_dead_at_once),
        ("released", a_release_uses_no_attempt),
        ("timed-out", a_timeout_is_a_failure_and_its_receipt_is_overtaken),
        ("repeated", the_same_settle_again_is_fine_another_is_not),
        ("extended", extended),
        ("cancelled", cancelled),
        ("cancelled-in-flight", a_cancel_in_flight_still_lets_an_ack_complete),
        ("replayed", replayed),
        ("delayed", delayed),
        ("deduplicated", one_key_makes_one_job),
        ("idempotent", one_key_makes_one_effect),
        ("prioritised", higher_priority_first),
        ("ordered", first_in_first_out),
        ("forged", a_forged_receipt_changes_nothing),
    ];
    for (queue, case) in cases {
        println!("case {queue}");
        case(client, queue);
    }
}

fn take(client: &mut dyn Client, queue: &str) -> Delivery {
    client.receive(queue, "20s").unwrap_or_else(|| panic!("nothing to receive from {queue}"))
}

fn acked(client: &mut dyn Client, queue: &str) {
    let id = client.enqueue(queue, json!({"type": "t", "payload": {"n": 1}})).unwrap();
    assert_eq!(client.state(&id).as_deref(), Some("ready"));
    let delivery = take(client, queue);
    assert_eq!((delivery.id.as_str(), delivery.attempts, &delivery.payload), (id.as_str(), 1, &json!({"n": 1})));
    assert_eq!(client.state(&id).as_deref(), Some("inFlight"));
    client.settle(&delivery, json!({"outcome": "ack", "result": {"sent": true}})).unwrap();
    assert_eq!(client.state(&id).as_deref(), Some("completed"));
    assert!(client.receive(queue, "0s").is_none());
}

fn hidden_while_in_flight(client: &mut dyn Client, queue: &str) {
    client.enqueue(queue, json!({"type": "t"})).unwrap();
    let delivery = take(client, queue);
    assert!(client.receive(queue, "0s").is_none(), "a second worker saw it");
    client.settle(&delivery, json!({"outcome": "ack"})).unwrap();
}

fn failed_is_retried_then_dead(client: &mut dyn Client, queue: &str) {
    client.configure(queue, json!({"maxAttempts": 2, "backoff": {"kind": "fixed", "base": "1ms"}}));
    let id = client.enqueue(queue, json!({"type": "t"})).unwrap();
    let fail = json!({"outcome": "fail", "error": {"kind": "smtp", "message": "no route"}});
    let first = take(client, queue);
    client.settle(&first, fail.clone()).unwrap();
    let second = take(client, queue);
    assert_eq!((second.id.as_str(), second.attempts), (id.as_str(), 2));
    client.settle(&second, fail).unwrap();
    assert_eq!(client.wait(&id), "dead");
    assert!(client.receive(queue, "0s").is_none());
}

fn a_permanent_failure_is_dead_at_once(client: &mut dyn Client, queue: &str) {
    let id = client.enqueue(queue, json!({"type": "t"})).unwrap();
    let delivery = take(client, queue);
    client
        .settle(&delivery, json!({"outcome": "fail", "error": {"message": "bad address", "retryable": false}}))
        .unwrap();
    assert_eq!(client.state(&id).as_deref(), Some("dead"));
}

fn a_release_uses_no_attempt(client: &mut dyn Client, queue: &str) {
    let id = client.enqueue(queue, json!({"type": "t"})).unwrap();
    let first = take(client, queue);
    client.settle(&first, json!({"outcome": "release"})).unwrap();
    assert_eq!(client.state(&id).as_deref(), Some("ready"));
    let second = take(client, queue);
    assert_eq!(second.attempts, 1);
    client.settle(&second, json!({"outcome": "release", "delay": "1h"})).unwrap();
    assert_eq!(client.state(&id).as_deref(), Some("delayed"));
}

fn a_timeout_is_a_failure_and_its_receipt_is_overtaken(client: &mut dyn Client, queue: &str) {
    client.configure(queue, json!({"visibilityTimeout": "100ms"}));
    let id = client.enqueue(queue, json!({"type": "t"})).unwrap();
    let first = take(client, queue);
    let second = take(client, queue);
    assert_eq!((second.id.as_str(), second.attempts), (id.as_str(), 2));
    let late = client.settle(&first, json!({"outcome": "ack"}));
    assert_eq!(late, Err("stale-receipt: received-again".into()));
    client.settle(&second, json!({"outcome": "ack"})).unwrap();
}

fn the_same_settle_again_is_fine_another_is_not(client: &mut dyn Client, queue: &str) {
    client.enqueue(queue, json!({"type": "t"})).unwrap();
    let delivery = take(client, queue);
    client.settle(&delivery, json!({"outcome": "ack"})).unwrap();
    client.settle(&delivery, json!({"outcome": "ack"})).unwrap();
    let other = client.settle(&delivery, json!({"outcome": "release"}));
    assert_eq!(other, Err("stale-receipt: settled".into()));
}

fn extended(client: &mut dyn Client, queue: &str) {
    client.configure(queue, json!({"visibilityTimeout": "1s"}));
    let id = client.enqueue(queue, json!({"type": "t"})).unwrap();
    let delivery = take(client, queue);
    client
        .settle(&delivery, json!({"outcome": "extend", "visibilityTimeout": "1h", "progress": {"percent": 10}}))
        .unwrap();
    assert!(client.receive(queue, "1500ms").is_none(), "the extension did not count");
    client.settle(&delivery, json!({"outcome": "ack"})).unwrap();
    assert_eq!(client.state(&id).as_deref(), Some("completed"));
}

fn cancelled(client: &mut dyn Client, queue: &str) {
    let id = client.enqueue(queue, json!({"type": "t"})).unwrap();
    client.cancel(&id).unwrap();
    assert_eq!(client.state(&id).as_deref(), Some("cancelled"));
    assert!(client.receive(queue, "0s").is_none());
}

fn a_cancel_in_flight_still_lets_an_ack_complete(client: &mut dyn Client, queue: &str) {
    for (outcome, expected) in [
        (json!({"outcome": "ack"}), "completed"),
        (json!({"outcome": "fail", "error": {"message": "stopped"}}), "cancelled"),
    ] {
        let id = client.enqueue(queue, json!({"type": "t"})).unwrap();
        let delivery = take(client, queue);
        client.cancel(&id).unwrap();
        assert_eq!(client.state(&id).as_deref(), Some("inFlight"));
        client.settle(&delivery, outcome).unwrap();
        assert_eq!(client.state(&id).as_deref(), Some(expected));
    }
}

fn replayed(client: &mut dyn Client, queue: &str) {
    let id = client.enqueue(queue, json!({"type": "t"})).unwrap();
    let first = take(client, queue);
    client.settle(&first, json!({"outcome": "fail", "error": {"message": "x", "retryable": false}})).unwrap();
    client.replay(queue);
    let second = take(client, queue);
    assert_eq!((second.id.as_str(), second.attempts), (id.as_str(), 1));
    let late = client.settle(&first, json!({"outcome": "ack"}));
    assert_eq!(late, Err("stale-receipt: received-again".into()));
    client.settle(&second, json!({"outcome": "ack"})).unwrap();
}

fn delayed(client: &mut dyn Client, queue: &str) {
    let id = client.enqueue(queue, json!({"type": "t", "delay": "300ms"})).unwrap();
    assert_eq!(client.state(&id).as_deref(), Some("delayed"));
    assert!(client.receive(queue, "0s").is_none());
    let delivery = take(client, queue);
    assert_eq!(delivery.id, id);
    client.settle(&delivery, json!({"outcome": "ack"})).unwrap();
}

fn one_key_makes_one_job(client: &mut dyn Client, queue: &str) {
    let job = |n: u64, on_duplicate: &str| json!({"type": "t", "payload": n, "dedup": {"key": "k", "for": "5m", "onDuplicate": on_duplicate}});
    let first = client.enqueue(queue, job(1, "keep")).unwrap();
    assert_eq!(client.enqueue(queue, job(2, "keep")).unwrap(), first);
    assert_eq!(client.enqueue(queue, job(2, "conflict")), Err("duplicate-conflict".into()));
    assert_eq!(client.enqueue(queue, job(3, "replace")).unwrap(), first);
    let delivery = take(client, queue);
    assert_eq!(delivery.payload, json!(3));
    client.settle(&delivery, json!({"outcome": "ack"})).unwrap();
    assert!(client.receive(queue, "0s").is_none());
}

fn one_key_makes_one_effect(client: &mut dyn Client, queue: &str) {
    let job = json!({"type": "t", "idempotencyKey": "welcome:42"});
    let first = client.enqueue(queue, job.clone()).unwrap();
    let second = client.enqueue(queue, job).unwrap();
    assert_ne!(first, second);
    let delivery = take(client, queue);
    assert!(client.receive(queue, "0s").is_none(), "both were in flight");
    client.settle(&delivery, json!({"outcome": "ack", "result": 7})).unwrap();
    assert_eq!(client.wait(&second), "completed");
    assert!(client.receive(queue, "0s").is_none());
}

fn higher_priority_first(client: &mut dyn Client, queue: &str) {
    for priority in [0, 255, 7] {
        client.enqueue(queue, json!({"type": "t", "payload": priority, "priority": priority})).unwrap();
    }
    for expected in [255, 7, 0] {
        let delivery = take(client, queue);
        assert_eq!(delivery.payload, json!(expected));
        client.settle(&delivery, json!({"outcome": "ack"})).unwrap();
    }
}

fn first_in_first_out(client: &mut dyn Client, queue: &str) {
    for n in 0..20 {
        client.enqueue(queue, json!({"type": "t", "payload": n})).unwrap();
    }
    for n in 0..20 {
        let delivery = take(client, queue);
        assert_eq!(delivery.payload, json!(n));
        client.settle(&delivery, json!({"outcome": "ack"})).unwrap();
    }
}

fn a_forged_receipt_changes_nothing(client: &mut dyn Client, queue: &str) {
    let id = client.enqueue(queue, json!({"type": "t"})).unwrap();
    let delivery = take(client, queue);
    for receipt in ["x".to_owned(), "0".repeat(delivery.receipt.len())] {
        let forged = Delivery { receipt, ..delivery.clone() };
        assert_eq!(client.settle(&forged, json!({"outcome": "ack"})), Err("stale-receipt: forged".into()));
    }
    assert_eq!(client.state(&id).as_deref(), Some("inFlight"));
    client.settle(&delivery, json!({"outcome": "ack"})).unwrap();
}

/// The suite over HTTP.
struct Http(Server);

impl Client for Http {
    fn configure(&mut self, queue: &str, options: Value) {
        let answer = self.0.json("PUT", &format!("/v1/queues/{queue}"), &options.to_string());
        assert!(matches!(answer.status, 200 | 201), "{answer:?}");
    }

    fn enqueue(&mut self, queue: &str, job: Value) -> Result<String, String> {
        let answer = self.0.json("POST", &format!("/v1/queues/{queue}/jobs"), &job.to_string());
        let body: Value = serde_json::from_slice(&answer.body).unwrap();
        match answer.status {
            201 => Ok(body["jobs"][0]["id"].as_str().unwrap().to_owned()),
            _ => Err(body["code"].as_str().unwrap().to_owned()),
        }
    }

    fn receive(&mut self, queue: &str, wait: &str) -> Option<Delivery> {
        let answer = self.0.json("POST", &format!("/v1/queues/{queue}/receive"), &json!({"wait": wait}).to_string());
        let job = answer.expect(200)["jobs"].get(0)?.clone();
        Some(Delivery {
            id: job["id"].as_str()?.to_owned(),
            receipt: job["receipt"].as_str()?.to_owned(),
            attempts: job["attempts"].as_u64()?,
            payload: job["payload"].clone(),
        })
    }

    fn settle(&mut self, delivery: &Delivery, mut outcome: Value) -> Result<(), String> {
        outcome["id"] = json!(delivery.id);
        outcome["receipt"] = json!(delivery.receipt);
        let answer = self.0.json("POST", "/v1/settle", &json!([outcome]).to_string()).expect(200);
        let settled = &answer["settled"][0];
        if settled["ok"] == true {
            return Ok(());
        }
        let problem = &settled["problem"];
        match problem["reason"].as_str() {
            Some(reason) => Err(format!("{}: {reason}", problem["code"].as_str().unwrap())),
            None => Err(problem["code"].as_str().unwrap().to_owned()),
        }
    }

    fn state(&mut self, id: &str) -> Option<String> {
        let answer = self.0.json("GET", &format!("/v1/jobs/{id}"), "");
        (answer.status == 200).then(|| answer.expect(200)["state"].as_str().unwrap().to_owned())
    }

    fn wait(&mut self, id: &str) -> String {
        let job = self.0.json("GET", &format!("/v1/jobs/{id}?wait=30s"), "").expect(200);
        job["state"].as_str().unwrap().to_owned()
    }

    fn cancel(&mut self, id: &str) -> Result<(), String> {
        let answer = self.0.json("DELETE", &format!("/v1/jobs/{id}"), "");
        match answer.status {
            200 | 202 => Ok(()),
            _ => Err(serde_json::from_slice::<Value>(&answer.body).unwrap()["code"].as_str().unwrap().to_owned()),
        }
    }

    fn replay(&mut self, queue: &str) {
        let path = format!("/v1/queues/{queue}/dead/replay");
        self.0.json("POST", &path, r#"{"filter":{"all":true}}"#).expect(202);
    }
}

#[test]
fn over_http() {
    all(&mut Http(Server::start()));
}
