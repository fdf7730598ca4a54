//! Bodies of HTTP v1, sent to a real server on a real port.
//!
//! Whatever is refused is refused with a problem, and again the same; a job or configuration that was accepted is
//! accepted again as it is shown, and then shown the same.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use sha2::Sha256;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use ureq::Agent;
use ureq::http::Request;

const JSON: &str = "application/json";
const LINES: &str = "application/x-ndjson";

/// Where a body goes, by the first byte of the input: `a` is the first.
const ROUTES: [(&str, &str, &str); 16] = [
    ("POST", "/v1/queues/q/jobs", JSON),
    ("POST", "/v1/queues/q/jobs", LINES),
    ("POST", "/v1/queues/q/receive", JSON),
    ("POST", "/v1/receive", JSON),
    ("POST", "/v1/settle", JSON),
    ("PUT", "/v1/queues/q", JSON),
    ("PATCH", "/v1/jobs/job_00000000000000000000000000000000", JSON),
    ("POST", "/v1/jobs/cancel", JSON),
    ("POST", "/v1/queues/q/dead/replay", JSON),
    ("POST", "/v1/queues/q/dead/discard", JSON),
    ("POST", "/v1/queues/q/purge", JSON),
    ("POST", "/v1/queues/q/pause", JSON),
    ("POST", "/v1/queues/q/resume", JSON),
    ("PUT", "/v1/schedules/s", JSON),
    ("PUT", "/v1/hooks/put", JSON),
    ("POST", "/v1/hooks/signed", JSON),
];

/// Whoever sends to the last of them signs the body.
const SIGNED: usize = 15;

/// A variable that every environment has stands for the secret.
const SECRET: &str = "PATH";

/// A server is given up after so many inputs: what they left in it would slow the next ones down.
const INPUTS_MAX: u64 = 1_000;

/// Longer than the longest poll.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(90);

pub(crate) fn run(input: &[u8]) {
    static STAGE: Mutex<Option<Stage>> = Mutex::new(None);
    let Some((first, body)) = input.split_first() else { return };
    let mut place = STAGE.lock().unwrap_or_else(PoisonError::into_inner);
    // A server that showed a defect is not used again.
    let mut stage = place.take().filter(|stage| stage.inputs < INPUTS_MAX).unwrap_or_else(Stage::new);
    stage.inputs += 1;
    stage.send(usize::from(first.wrapping_sub(b'a')) % ROUTES.len(), body);
    *place = Some(stage);
}

struct Stage {
    server: Option<recado_server::Running>,
    runtime: Runtime,
    agent: Agent,
    address: SocketAddr,
    inputs: u64,
    _dir: TempDir,
}

/// An answer: its status, and its body as text and as JSON where it is.
struct Answer {
    status: u16,
    text: String,
}

impl Answer {
    fn value(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }
}

impl Stage {
    fn new() -> Stage {
        let dir = TempDir::new().unwrap();
        let runtime = Runtime::new().unwrap();
        let server = runtime.block_on(recado_server::start(config(dir.path().join("data")))).unwrap();
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .timeout_global(Some(ANSWER_TIME_MAX))
            .build()
            .into();
        let stage = Stage { address: server.local_addr(), server: Some(server), runtime, agent, inputs: 0, _dir: dir };
        let hook = json!({"queue": "hooked", "type": "t", "scheme": "hmac", "hmac": {"header": "x-signature"},
            "secrets": [format!("env:{SECRET}")], "payload": {"a": "/a", "b": "/b/0/c"}, "businessId": "/d"});
        assert_eq!(stage.ask("PUT", ROUTES[SIGNED].1, JSON, hook.to_string().as_bytes()).status, 201);
        stage
    }

    fn ask(&self, method: &str, path: &str, content_type: &str, body: &[u8]) -> Answer {
        let uri = format!("http://{}{path}", self.address);
        let request = Request::builder().method(method).uri(uri).header("content-type", content_type);
        let request = request.header("x-signature", signature(body));
        let mut response = self.agent.run(request.body(body).unwrap()).unwrap();
        let text = response.body_mut().read_to_string().unwrap();
        Answer { status: response.status().as_u16(), text }
    }

    fn send(&self, route: usize, body: &[u8]) {
        let (method, path, content_type) = ROUTES[route];
        let answer = self.ask(method, path, content_type, body);
        check(&answer);
        match (answer.status, route) {
            (201, 0) => self.jobs_again(&answer.value(), body),
            (200 | 201, 5) => {
                self.configuration_again(path, &answer.value());
                // The next input finds a queue of defaults.
                assert_eq!(self.ask(method, path, JSON, b"{}").status, 200);
            }
            (200 | 201, 13) => {
                self.configuration_again(path, &answer.value());
                assert_eq!(self.ask("DELETE", path, JSON, b"").status, 200);
            }
            (200, 1) => lines(&answer.text),
            // What the server holds by now has no part in these.
            (400 | 413 | 415 | 422, _) => {
                let again = self.ask(method, path, content_type, body);
                assert_eq!((again.status, again.text), (answer.status, answer.text), "the same refusal");
            }
            _ => {}
        }
    }

    /// Sends jobs again as they are shown, and looks whether they are shown the same.
    fn jobs_again(&self, enqueued: &Value, body: &[u8]) {
        let ids = enqueued["jobs"].as_array().unwrap();
        for entry in ids.iter().take(3).filter(|entry| entry["deduplicated"] == false) {
            let shown = self.shown(entry["id"].as_str().unwrap());
            let payload = shown["payload"].get().as_bytes();
            let is_there = payload == b"null" || body.windows(payload.len()).any(|part| part == payload);
            assert!(is_there, "a payload is kept byte for byte: {}", shown["payload"]);
            let again = self.ask("POST", "/v1/queues/again/jobs", JSON, &serde_json::to_vec(&as_new(&shown)).unwrap());
            if again.status == 503 {
                return; // it holds too much by now
            }
            assert_eq!(again.status, 201, "what is shown is accepted: {}", again.text);
            let shown_again = self.shown(again.value()["jobs"][0]["id"].as_str().unwrap());
            assert_eq!(text(&as_new(&shown_again)), text(&as_new(&shown)));
        }
    }

    /// A job as it is shown, its members as they are written.
    fn shown(&self, id: &str) -> BTreeMap<String, Box<RawValue>> {
        let answer = self.ask("GET", &format!("/v1/jobs/{id}"), JSON, b"");
        assert_eq!(answer.status, 200, "{}", answer.text);
        serde_json::from_str(&answer.text).unwrap()
    }

    fn configuration_again(&self, path: &str, shown: &Value) {
        let again = self.ask("PUT", path, JSON, shown["config"].to_string().as_bytes());
        assert_eq!((again.status, &again.value()["config"]), (200, &shown["config"]), "{}", again.text);
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            self.runtime.block_on(server.stop()).unwrap();
        }
    }
}

fn config(data_dir: PathBuf) -> recado_server::Config {
    recado_server::Config {
        data_dir,
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        durability: recado_log::Durability::Os,
        payload_cache_bytes: 1 << 20,
        memory_bytes: 64 << 20,
        public_url: None,
        insecure_no_auth: false,
        auto_create_queues: true,
        defaults: recado_core::QueueOptions::default(),
        queues: BTreeMap::new(),
        sqs: recado_server::SqsConfig::default(),
        limits: BTreeMap::new(),
        types: BTreeMap::new(),
        schedules: BTreeMap::new(),
    }
}

/// What the hook of [`SIGNED`] asks for; no other route looks at it.
fn signature(body: &[u8]) -> String {
    let secret = std::env::var(SECRET).unwrap_or_default();
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.trim().as_bytes()).unwrap();
    mac.update(body);
    mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What may be said of a body: done, or a problem that is the sender's, or that it should come later.
fn check(answer: &Answer) {
    if answer.status < 300 {
        return;
    }
    let problem = answer.value();
    assert!(matches!(answer.status, 400..500 | 503 | 507), "{problem}");
    assert_eq!(problem["status"], answer.status, "{problem}");
    let code = problem["code"].as_str().unwrap_or_else(|| panic!("a problem without a code: {problem}"));
    assert_eq!(problem["type"], format!("/problems/{code}"), "{problem}");
    assert!(problem["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{problem}");
}

/// An NDJSON answer ends with how far it came.
fn lines(text: &str) {
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let last = lines.last().unwrap_or_else(|| panic!("no line"));
    assert!(last["accepted"].is_u64() && (last["done"] == true || last["problem"].is_object()), "{text}");
    let jobs = |line: &Value| line["jobs"].as_array().map_or(0, Vec::len) as u64;
    assert_eq!(lines.iter().map(jobs).sum::<u64>(), last["accepted"], "{text}");
}

/// The members of a job that a producer may give, but for those that keys and time make another job of.
fn as_new(shown: &BTreeMap<String, Box<RawValue>>) -> BTreeMap<String, Box<RawValue>> {
    const GIVEN: [&str; 9] = [
        "type",
        "schemaVersion",
        "payload",
        "businessId",
        "priority",
        "group",
        "idempotencyKey",
        "maxAttempts",
        "headers",
    ];
    shown.iter().filter(|(name, _)| GIVEN.contains(&name.as_str())).map(|(n, v)| (n.clone(), v.clone())).collect()
}

fn text(job: &BTreeMap<String, Box<RawValue>>) -> Value {
    json!(job.iter().map(|(name, value)| (name, value.get())).collect::<BTreeMap<_, _>>())
}
