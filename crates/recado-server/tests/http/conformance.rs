//! The life of a job, written once for every way to reach the engine. A client of another protocol
//! implements [`Client`] and runs [`all`].
//!
//! A protocol that cannot say all that a case asks of it leaves out what it [lacks](Client::lacks).

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::client::Answer;
use crate::server::Server;

/// A job in a worker's hands.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub(crate) queue: String,
    pub(crate) id: String,
    pub(crate) receipt: String,
    pub(crate) attempts: u64,
    pub(crate) payload: Value,
}

/// What not every protocol can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// A delivery has failed.
    Fail,
    /// A delivery is given back unused.
    Release,
    /// A receipt that was settled already, or overtaken, is refused.
    Stale,
    Delay,
    Priority,
    DedupKey,
    /// What becomes of a duplicate, other than that the first is kept.
    OnDuplicate,
    IdempotencyKey,
}

/// What the suite needs of a client. Refusals are codes; a stale receipt's is `stale-receipt: reason`.
pub(crate) trait Client {
    /// What it cannot say.
    fn lacks(&self) -> &'static [Needs];
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

type Case = (&'static str, &'static [Needs], fn(&mut dyn Client, &str));

const CASES: &[Case] = &[
    ("acked", &[], acked),
    ("hidden", &[], hidden_while_in_flight),
    ("retried", &[Needs::Fail], failed_is_retried_then_dead),
    ("permanent", &[Needs::Fail], a_permanent_failure_is_dead_at_once),
    ("released", &[Needs::Release], a_release_uses_no_attempt),
    ("timed-out", &[], a_timeout_is_a_failure),
    ("overtaken", &[Needs::Stale], a_timeout_overtakes_a_receipt),
    ("repeated", &[], the_same_settle_again_is_fine),
    ("settled", &[Needs::Release, Needs::Stale], another_settle_is_refused),
    ("extended", &[], extended),
    ("cancelled", &[], cancelled),
    ("cancelled-in-flight", &[], a_cancel_in_flight_still_lets_an_ack_complete),
    ("stopped", &[Needs::Fail], a_cancel_in_flight_ends_what_fails),
    ("replayed", &[Needs::Fail, Needs::Stale], replayed),
    ("delayed", &[Needs::Delay], delayed),
    ("deduplicated", &[Needs::DedupKey], one_key_makes_one_job),
    ("replaced", &[Needs::OnDuplicate], a_duplicate_is_refused_or_takes_the_place),
    ("idempotent", &[Needs::IdempotencyKey], one_key_makes_one_effect),
    ("prioritised", &[Needs::Priority], higher_priority_first),
    ("ordered", &[], first_in_first_out),
    ("forged", &[], a_forged_receipt_changes_nothing),
];

/// Runs every case that this client can say, each on a queue of its own.
pub(crate) fn all(client: &mut dyn Client) {
    for (queue, needs, case) in CASES {
        if needs.iter().all(|need| !client.lacks().contains(need)) {
            println!("case {queue}");
            case(client, queue);
        }
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

fn a_timeout_is_a_failure(client: &mut dyn Client, queue: &str) {
    client.configure(queue, json!({"visibilityTimeout": "100ms"}));
    let id = client.enqueue(queue, json!({"type": "t"})).unwrap();
    let first = take(client, queue);
    let second = take(client, queue);
    assert_eq!((second.id.as_str(), second.attempts), (id.as_str(), 2));
    assert_ne!(first.receipt, second.receipt);
}

fn a_timeout_overtakes_a_receipt(client: &mut dyn Client, queue: &str) {
    client.configure(queue, json!({"visibilityTimeout": "100ms"}));
    client.enqueue(queue, json!({"type": "t"})).unwrap();
    let first = take(client, queue);
    client.configure(queue, json!({"visibilityTimeout": "1h"}));
    let second = take(client, queue);
    let late = client.settle(&first, json!({"outcome": "ack"}));
    assert_eq!(late, Err("stale-receipt: received-again".into()));
    client.settle(&second, json!({"outcome": "ack"})).unwrap();
}

fn the_same_settle_again_is_fine(client: &mut dyn Client, queue: &str) {
    client.enqueue(queue, json!({"type": "t"})).unwrap();
    let delivery = take(client, queue);
    client.settle(&delivery, json!({"outcome": "ack"})).unwrap();
    client.settle(&delivery, json!({"outcome": "ack"})).unwrap();
}

fn another_settle_is_refused(client: &mut dyn Client, queue: &str) {
    client.enqueue(queue, json!({"type": "t"})).unwrap();
    let delivery = take(client, queue);
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
    assert!(client.receive(queue, "2s").is_none(), "the extension did not count");
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
    settled_after_a_cancel(client, queue, json!({"outcome": "ack"}), "completed");
}

fn a_cancel_in_flight_ends_what_fails(client: &mut dyn Client, queue: &str) {
    settled_after_a_cancel(client, queue, json!({"outcome": "fail", "error": {"message": "stopped"}}), "cancelled");
}

fn settled_after_a_cancel(client: &mut dyn Client, queue: &str, outcome: Value, expected: &str) {
    let id = client.enqueue(queue, json!({"type": "t"})).unwrap();
    let delivery = take(client, queue);
    client.cancel(&id).unwrap();
    assert_eq!(client.state(&id).as_deref(), Some("inFlight"));
    client.settle(&delivery, outcome).unwrap();
    assert_eq!(client.state(&id).as_deref(), Some(expected));
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
    let id = client.enqueue(queue, json!({"type": "t", "delay": "1s"})).unwrap();
    assert_eq!(client.state(&id).as_deref(), Some("delayed"));
    assert!(client.receive(queue, "0s").is_none());
    let delivery = take(client, queue);
    assert_eq!(delivery.id, id);
    client.settle(&delivery, json!({"outcome": "ack"})).unwrap();
}

fn with_key(n: u64, on_duplicate: &str) -> Value {
    json!({"type": "t", "payload": n, "dedup": {"key": "k", "for": "5m", "onDuplicate": on_duplicate}})
}

fn one_key_makes_one_job(client: &mut dyn Client, queue: &str) {
    let first = client.enqueue(queue, with_key(1, "keep")).unwrap();
    assert_eq!(client.enqueue(queue, with_key(2, "keep")).unwrap(), first);
    let delivery = take(client, queue);
    assert_eq!(delivery.payload, json!(1));
    client.settle(&delivery, json!({"outcome": "ack"})).unwrap();
    assert_eq!(client.enqueue(queue, with_key(2, "keep")).unwrap(), first, "its window is open");
    assert!(client.receive(queue, "0s").is_none());
}

fn a_duplicate_is_refused_or_takes_the_place(client: &mut dyn Client, queue: &str) {
    let first = client.enqueue(queue, with_key(1, "keep")).unwrap();
    assert_eq!(client.enqueue(queue, with_key(2, "conflict")), Err("duplicate-conflict".into()));
    assert_eq!(client.enqueue(queue, with_key(3, "replace")).unwrap(), first);
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
    fn lacks(&self) -> &'static [Needs] {
        &[]
    }

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
            queue: queue.to_owned(),
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

/// The suite through the face of Amazon SQS: producers and workers speak it. What it has no words for, an operator's
/// looks and actions, goes by HTTP to the same jobs.
struct Sqs {
    http: Http,
    is_fifo: bool,
    made: HashSet<String>,
    sent: u64,
}

impl Sqs {
    fn new(is_fifo: bool) -> Self {
        let http = Http(Server::start_with(|config| config.public_url = None));
        Self { http, is_fifo, made: HashSet::new(), sent: 0 }
    }

    fn name(&self, queue: &str) -> String {
        if self.is_fifo { format!("{queue}.fifo") } else { queue.to_owned() }
    }

    /// A call about a queue, which is made when it is new.
    fn call(&mut self, queue: &str, action: &str, mut body: Value) -> Answer {
        let name = self.name(queue);
        if self.made.insert(name.clone()) {
            let attributes = if self.is_fifo { json!({"FifoQueue": "true"}) } else { json!({}) };
            self.http.0.sqs_ok("CreateQueue", &json!({"QueueName": name, "Attributes": attributes}));
        }
        body["QueueUrl"] = json!(format!("http://localhost/000000000000/{name}"));
        self.http.0.sqs(action, &body)
    }
}

/// The suite's word for a refusal of SQS.
fn refusal(answer: &Answer) -> String {
    let body: Value = serde_json::from_slice(&answer.body).unwrap();
    let (kind, message) = (body["__type"].as_str().unwrap(), body["message"].as_str().unwrap());
    match kind.rsplit('#').next().unwrap() {
        "ReceiptHandleIsInvalid" => "stale-receipt: forged".into(),
        _ if message.ends_with("The receipt handle has expired.") => "stale-receipt: received-again".into(),
        _ => format!("{kind}: {message}"),
    }
}

impl Client for Sqs {
    fn lacks(&self) -> &'static [Needs] {
        use Needs::{DedupKey, Delay, Fail, IdempotencyKey, OnDuplicate, Priority, Release, Stale};
        if self.is_fifo {
            &[Fail, Release, Delay, Priority, OnDuplicate, IdempotencyKey]
        } else {
            &[Fail, Release, Stale, Priority, DedupKey, OnDuplicate, IdempotencyKey]
        }
    }

    fn configure(&mut self, queue: &str, options: Value) {
        self.call(queue, "GetQueueAttributes", json!({}));
        let name = self.name(queue);
        self.http.configure(&name, options);
    }

    fn enqueue(&mut self, queue: &str, job: Value) -> Result<String, String> {
        let mut message = json!({"MessageBody": job["payload"].to_string()});
        if let Some(delay) = job["delay"].as_str() {
            message["DelaySeconds"] = json!(seconds(delay));
        }
        if self.is_fifo {
            self.sent += 1;
            let unique = self.sent.to_string();
            message["MessageGroupId"] = json!("g");
            message["MessageDeduplicationId"] = json!(job["dedup"]["key"].as_str().unwrap_or(&unique));
        }
        let answer = self.call(queue, "SendMessage", message);
        if answer.status != 200 {
            return Err(refusal(&answer));
        }
        let body: Value = serde_json::from_slice(&answer.body).unwrap();
        Ok(job_of(&body))
    }

    fn receive(&mut self, queue: &str, wait: &str) -> Option<Delivery> {
        let asked = json!({"WaitTimeSeconds": seconds(wait), "MessageSystemAttributeNames": ["All"]});
        let answer = self.call(queue, "ReceiveMessage", asked);
        assert_eq!(answer.status, 200, "{}", answer.text());
        let body: Value = serde_json::from_slice(&answer.body).unwrap();
        let message = body["Messages"].get(0)?.clone();
        Some(Delivery {
            queue: queue.to_owned(),
            id: job_of(&message),
            receipt: message["ReceiptHandle"].as_str()?.to_owned(),
            attempts: message["Attributes"]["ApproximateReceiveCount"].as_str()?.parse().unwrap(),
            payload: serde_json::from_str(message["Body"].as_str()?).unwrap(),
        })
    }

    fn settle(&mut self, delivery: &Delivery, outcome: Value) -> Result<(), String> {
        let mut body = json!({"ReceiptHandle": delivery.receipt});
        let action = match outcome["outcome"].as_str().unwrap() {
            "ack" => "DeleteMessage",
            "extend" => {
                body["VisibilityTimeout"] = json!(seconds(outcome["visibilityTimeout"].as_str().unwrap()));
                "ChangeMessageVisibility"
            }
            other => panic!("SQS has no word for {other}"),
        };
        let answer = self.call(&delivery.queue, action, body);
        if answer.status == 200 { Ok(()) } else { Err(refusal(&answer)) }
    }

    fn state(&mut self, id: &str) -> Option<String> {
        self.http.state(id)
    }

    fn wait(&mut self, id: &str) -> String {
        self.http.wait(id)
    }

    fn cancel(&mut self, id: &str) -> Result<(), String> {
        self.http.cancel(id)
    }

    fn replay(&mut self, queue: &str) {
        let name = self.name(queue);
        self.http.replay(&name);
    }
}

fn job_of(message: &Value) -> String {
    format!("job_{}", message["MessageId"].as_str().unwrap().replace('-', ""))
}

/// A duration of whole seconds or hours, as the cases write them.
fn seconds(text: &str) -> u64 {
    let (number, unit) = text.split_at(text.len() - 1);
    let unit_s = match unit {
        "s" => 1,
        "h" => 3_600,
        _ => panic!("SQS has no word for {text}"),
    };
    number.parse::<u64>().unwrap() * unit_s
}

#[test]
fn over_http() {
    all(&mut Http(Server::start()));
}

#[test]
fn over_sqs() {
    all(&mut Sqs::new(false));
}

#[test]
fn over_sqs_fifo() {
    all(&mut Sqs::new(true));
}
