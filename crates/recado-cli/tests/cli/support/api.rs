//! A client that hides nothing: every status is an answer, and that none came is told too.

use std::time::Duration;

use serde_json::{Value, json};
use ureq::Agent;
use ureq::http::Request;

use super::{PATIENCE, until};

/// The wait of a long poll that must bring a job.
pub(crate) const LONG_POLL: &str = "30s";

/// A server as its clients see it.
#[derive(Clone)]
pub(crate) struct Api {
    agent: Agent,
    base: String,
}

/// What a server said.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<String>,
    pub(crate) text: String,
}

impl Api {
    pub(crate) fn new(base: &str) -> Api {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .timeout_global(Some(PATIENCE + Duration::from_secs(30)))
            .build();
        Api { agent: Agent::new_with_config(config), base: base.to_owned() }
    }

    pub(crate) fn url(&self) -> &str {
        &self.base
    }

    /// Sends one request, once. `None`: it is not known whether it was carried out.
    pub(crate) fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Option<Answer> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let sent = if body.is_empty() {
            self.agent.run(request.body(()).unwrap())
        } else {
            self.agent.run(request.body(body.to_owned()).unwrap())
        };
        let mut response = sent.ok()?;
        let retry_after = response.headers().get("retry-after").map(|value| value.to_str().unwrap().to_owned());
        let status = response.status().as_u16();
        let text = response.body_mut().read_to_string().ok()?;
        Some(Answer { status, retry_after, text })
    }

    /// One request with a JSON body, or none for null.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &Value) -> Option<Answer> {
        if body.is_null() {
            return self.send(method, path, &[], "");
        }
        self.send(method, path, &[("content-type", "application/json")], &body.to_string())
    }

    #[track_caller]
    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask("POST", path, body).unwrap_or_else(|| panic!("no answer to POST {path}"))
    }

    #[track_caller]
    pub(crate) fn put(&self, path: &str, body: &Value) -> Answer {
        self.ask("PUT", path, body).unwrap_or_else(|| panic!("no answer to PUT {path}"))
    }

    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &Value::Null).unwrap_or_else(|| panic!("no answer to GET {path}"))
    }

    #[track_caller]
    pub(crate) fn delete(&self, path: &str) -> Answer {
        self.ask("DELETE", path, &Value::Null).unwrap_or_else(|| panic!("no answer to DELETE {path}"))
    }
}

/// What tests ask for all the time.
impl Api {
    #[track_caller]
    pub(crate) fn configure(&self, queue: &str, options: &Value) {
        let answer = self.put(&format!("/v1/queues/{queue}"), options);
        assert!(matches!(answer.status, 200 | 201), "{answer:?}");
    }

    /// Enqueues one job or an array.
    #[track_caller]
    pub(crate) fn enqueue_all(&self, queue: &str, jobs: &Value) -> Vec<String> {
        ids(&self.post(&format!("/v1/queues/{queue}/jobs"), jobs).expect(201))
    }

    #[track_caller]
    pub(crate) fn enqueue(&self, queue: &str, job: &Value) -> String {
        self.enqueue_all(queue, job).remove(0)
    }

    /// Asks for jobs with these fields.
    #[track_caller]
    pub(crate) fn receive(&self, queue: &str, fields: &Value) -> Vec<Value> {
        list(&self.post(&format!("/v1/queues/{queue}/receive"), fields).expect(200), "jobs").clone()
    }

    /// Whether there is a job to hand out now. If there is, it is out.
    #[track_caller]
    pub(crate) fn nothing_from(&self, queue: &str) {
        let jobs = self.receive(queue, &json!({ "max": 1000 }));
        assert!(jobs.is_empty(), "{queue}: {jobs:?}");
    }

    /// The next job, which must come.
    #[track_caller]
    pub(crate) fn take(&self, queue: &str) -> Value {
        let mut jobs = self.receive(queue, &json!({ "wait": LONG_POLL }));
        assert!(!jobs.is_empty(), "nothing to receive from {queue}");
        jobs.remove(0)
    }

    /// What one settle came to: its fields are those of the answer.
    #[track_caller]
    pub(crate) fn settle(&self, delivery: &Value, outcome: &Value) -> Value {
        let entry = settle_of(delivery, outcome);
        let answer = self.post("/v1/settle", &json!([entry])).expect(200);
        list(&answer, "settled")[0].clone()
    }

    #[track_caller]
    pub(crate) fn settled(&self, delivery: &Value, outcome: &Value) {
        let settled = self.settle(delivery, outcome);
        assert_eq!((&settled["ok"], &settled["repeated"]), (&json!(true), &Value::Null), "{settled}");
    }

    #[track_caller]
    pub(crate) fn ack(&self, delivery: &Value) {
        self.settled(delivery, &json!({ "outcome": "ack" }));
    }

    #[track_caller]
    pub(crate) fn fail(&self, delivery: &Value, retryable: bool) {
        self.settled(delivery, &failure(retryable));
    }

    #[track_caller]
    pub(crate) fn job(&self, id: &str) -> Value {
        self.get(&format!("/v1/jobs/{id}")).expect(200)
    }

    #[track_caller]
    pub(crate) fn state(&self, id: &str) -> String {
        self.job(id)["state"].as_str().unwrap().to_owned()
    }

    /// Waits for a state that must come.
    #[track_caller]
    pub(crate) fn until_state(&self, id: &str, state: &str) {
        until(&format!("{id} becomes {state}"), || (self.state(id) == state).then_some(()));
    }

    #[track_caller]
    pub(crate) fn stats(&self, queue: &str) -> Value {
        self.get(&format!("/v1/queues/{queue}/stats")).expect(200)
    }

    /// The actions in a queue's audit trail, newest first.
    #[track_caller]
    pub(crate) fn audit(&self, queue: &str) -> Vec<String> {
        let page = self.get(&format!("/v1/audit?queue={queue}")).expect(200);
        list(&page, "entries").iter().map(|entry| entry["action"].as_str().unwrap().to_owned()).collect()
    }
}

impl Answer {
    #[track_caller]
    pub(crate) fn value(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The body, after the status is as expected.
    #[track_caller]
    pub(crate) fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        self.value()
    }

    /// The problem, after status and code are as expected; where to come back later makes sense, it says when.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16, code: &str) -> Value {
        let problem = self.expect(status);
        assert_eq!(problem["code"], code, "{problem}");
        if matches!(status, 429 | 503 | 507) {
            let seconds: u64 = self.retry_after.as_deref().unwrap_or_default().parse().unwrap_or_default();
            assert!(seconds >= 1, "no Retry-After: {self:?}");
            assert!(problem["retryAfter"].is_string(), "{problem}");
        }
        problem
    }
}

/// A list in an answer.
#[track_caller]
pub(crate) fn list<'a>(value: &'a Value, field: &str) -> &'a Vec<Value> {
    value[field].as_array().unwrap_or_else(|| panic!("no list {field}: {value}"))
}

/// The ids in a list of jobs.
#[track_caller]
pub(crate) fn ids(value: &Value) -> Vec<String> {
    list(value, "jobs").iter().map(|job| job["id"].as_str().unwrap().to_owned()).collect()
}

/// The kinds of a job's errors.
#[track_caller]
pub(crate) fn kinds(job: &Value) -> Vec<&str> {
    list(job, "errors").iter().map(|error| error["kind"].as_str().unwrap()).collect()
}

/// The settle of a delivery with this outcome.
pub(crate) fn settle_of(delivery: &Value, outcome: &Value) -> Value {
    let mut entry = outcome.clone();
    entry["id"] = delivery["id"].clone();
    entry["receipt"] = delivery["receipt"].clone();
    entry
}

pub(crate) fn failure(retryable: bool) -> Value {
    json!({ "outcome": "fail", "error": { "kind": "smtp", "message": "no route", "retryable": retryable } })
}

/// The id of a job.
#[track_caller]
pub(crate) fn id(job: &Value) -> String {
    job["id"].as_str().unwrap().to_owned()
}
