//! The HTTP client of the command line: blocking, one request at a time, plain HTTP.
//!
//! It knows the contract's conventions (problems, keys, encoding of names) and none of its resources.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use serde_json::Value;
use ureq::http::{Request, Uri};
use ureq::{Agent, AsSendBody};

use crate::failure::{Exit, Failure};
use crate::problem::Problem;

/// How long an answer may take, beside a long poll's own wait.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The largest answer that is read, in bytes: a page of jobs with payloads stays below it.
const ANSWER_BYTES_MAX: u64 = 1 << 30;

/// Where the server is and who asks.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Server")]
pub(crate) struct Remote {
    /// Address of the server
    #[arg(long, global = true, env = "RECADO_URL", default_value = "http://127.0.0.1:7070", value_name = "URL")]
    pub(crate) url: String,
    /// Key to authenticate with (rk_...)
    #[arg(long, global = true, env = "RECADO_KEY", hide_env_values = true, value_name = "KEY")]
    pub(crate) key: Option<String>,
}

/// A server, seen from outside.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    agent: Agent,
    base: String,
    key: Option<String>,
}

/// A successful answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// The HTTP status, 200 to 299.
    pub(crate) status: u16,
    /// The body, byte for byte: payloads in it must not be parsed and written again.
    pub(crate) text: String,
    /// The version of the resource.
    pub(crate) etag: Option<String>,
}

/// Why there is no successful answer.
#[derive(Debug)]
pub(crate) enum CallError {
    /// Nobody is there: nothing was sent.
    Absent(String),
    /// Nobody answered, or not to the end: whether the request was carried out is unknown.
    Unanswered(String),
    /// The server refused.
    Refused(Box<Problem>),
}

/// What goes out.
#[derive(Debug)]
pub(crate) enum Body {
    /// Nothing.
    None,
    /// A JSON text.
    Json(Vec<u8>),
    /// JSON texts, one a line.
    Ndjson(Vec<u8>),
}

impl Answer {
    /// The body as a value.
    pub(crate) fn value(&self) -> Result<Value, Failure> {
        serde_json::from_str(&self.text)
            .map_err(|error| Failure::bad_data(format!("the server's answer is not JSON: {error}")))
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Absent(why) | CallError::Unanswered(why) => Self::new(Exit::Unavailable, why),
            CallError::Refused(problem) => Self::from(*problem),
        }
    }
}

impl Client {
    /// A client of the server that the flags or the environment name.
    pub(crate) fn new(remote: &Remote) -> Result<Self, Failure> {
        let base = remote.url.trim_end_matches('/').to_owned();
        let wrong = |why: &str| Failure::usage(format!("--url {base}: {why}"));
        let uri: Uri = base.parse().map_err(|_| wrong("not an address, it looks like http://127.0.0.1:7070"))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => {
                return Err(wrong("this build speaks plain http only: go through a local proxy or a tunnel"));
            }
            _ => return Err(wrong("not an address, it looks like http://127.0.0.1:7070")),
        }
        let host = uri.host().unwrap_or_default();
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .max_redirects(0)
            .user_agent(concat!("recado/", env!("CARGO_PKG_VERSION")));
        if is_loopback(host) {
            // A proxy for the outside world is never the way to this machine.
            config = config.proxy(None);
        }
        Ok(Self { agent: Agent::new_with_config(config.build()), base, key: remote.key.clone() })
    }

    /// A client without a key, for a server of our own.
    pub(crate) fn local(url: &str) -> Result<Self, Failure> {
        Self::new(&Remote { url: url.to_owned(), key: None })
    }

    /// `GET`.
    pub(crate) fn get(&self, path: &Path) -> Result<Answer, CallError> {
        self.send("GET", path, Body::None, &[], Duration::ZERO)
    }

    /// `GET` that may be answered only after `wait`.
    pub(crate) fn get_waiting(&self, path: &Path, wait: Duration) -> Result<Answer, CallError> {
        self.send("GET", path, Body::None, &[], wait)
    }

    /// `POST` of a JSON value.
    pub(crate) fn post(&self, path: &Path, body: &impl Serialize) -> Result<Answer, CallError> {
        self.send("POST", path, json(body)?, &[], Duration::ZERO)
    }

    /// `POST` that may be answered only after `wait`.
    pub(crate) fn post_waiting(&self, path: &Path, body: &impl Serialize, wait: Duration) -> Result<Answer, CallError> {
        self.send("POST", path, json(body)?, &[], wait)
    }

    /// `DELETE`.
    pub(crate) fn delete(&self, path: &Path) -> Result<Answer, CallError> {
        self.send("DELETE", path, Body::None, &[], Duration::ZERO)
    }

    /// Any request, with headers, which may be answered only after `wait`.
    pub(crate) fn send(
        &self,
        method: &str,
        path: &Path,
        body: Body,
        headers: &[(&str, &str)],
        wait: Duration,
    ) -> Result<Answer, CallError> {
        let mut request = Request::builder().method(method).uri(format!("{}{}", self.base, path.0));
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let patience = PATIENCE + wait;
        match body {
            Body::None => self.run(request.body(()), patience),
            Body::Json(bytes) => self.run(request.header("content-type", "application/json").body(bytes), patience),
            Body::Ndjson(bytes) => {
                let request = request.header("content-type", "application/x-ndjson");
                self.run(request.body(bytes), patience)
            }
        }
    }

    fn run<B: AsSendBody>(
        &self,
        request: Result<Request<B>, ureq::http::Error>,
        patience: Duration,
    ) -> Result<Answer, CallError> {
        let request = request.map_err(|error| CallError::Absent(format!("{}: {error}", self.base)))?;
        let configured = self.agent.configure_request(request).timeout_global(Some(patience)).build();
        let mut response = self.agent.run(configured).map_err(|error| self.unreachable(&error))?;
        let status = response.status().as_u16();
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        let etag = header("etag").map(str::to_owned);
        let body = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string();
        let text = body.map_err(|error| self.unreachable(&error))?;
        if (200..300).contains(&status) {
            return Ok(Answer { status, text, etag });
        }
        Err(CallError::Refused(Box::new(Problem::read(status, &text))))
    }

    fn unreachable(&self, error: &ureq::Error) -> CallError {
        let base = &self.base;
        match error {
            ureq::Error::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => CallError::Absent(format!(
                "{base}: no server answers there; start one with `recado serve`, or name another with \
                     --url or RECADO_URL"
            )),
            ureq::Error::HostNotFound => CallError::Absent(format!("{base}: no such host; check --url or RECADO_URL")),
            ureq::Error::Timeout(ureq::Timeout::Connect | ureq::Timeout::Resolve) => {
                CallError::Absent(format!("{base}: no connection in time; check --url or RECADO_URL"))
            }
            ureq::Error::Timeout(_) => {
                CallError::Unanswered(format!("{base}: no answer in time; whether it was done is unknown"))
            }
            other => {
                CallError::Unanswered(format!("{base}: the connection broke ({other}); whether it was done is unknown"))
            }
        }
    }
}

fn json(body: &impl Serialize) -> Result<Body, CallError> {
    let bytes = serde_json::to_vec(body)
        .map_err(|error| CallError::Absent(format!("the request cannot be written as JSON: {error}")))?;
    Ok(Body::Json(bytes))
}

fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// A path and query, every part encoded.
#[derive(Clone, Debug)]
pub(crate) struct Path(String);

impl Path {
    /// `/v1/` and the segments.
    pub(crate) fn v1(segments: &[&str]) -> Self {
        let mut text = "/v1".to_owned();
        for segment in segments {
            text.push('/');
            encode(segment, &mut text);
        }
        Self(text)
    }

    /// One more query parameter, if there is a value.
    pub(crate) fn query(mut self, name: &str, value: Option<impl AsRef<str>>) -> Self {
        if let Some(value) = value {
            self.0.push(if self.0.contains('?') { '&' } else { '?' });
            self.0.push_str(name);
            self.0.push('=');
            encode(value.as_ref(), &mut self.0);
        }
        self
    }
}

/// Percent-encodes all but what every server takes as it is.
fn encode(text: &str, into: &mut String) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte) {
            into.push(char::from(byte));
        } else {
            into.push('%');
            into.push(char::from(HEX[usize::from(byte >> 4)]));
            into.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_their_place() {
        let path = Path::v1(&["queues", "a/b ?ñ", "jobs"])
            .query("state", Some("ready,dead"))
            .query("type", None::<&str>)
            .query("after", Some("2026-06-02T09:00:00+02:00"));
        assert_eq!(path.0, "/v1/queues/a%2Fb%20%3F%C3%B1/jobs?state=ready%2Cdead&after=2026-06-02T09:00:00%2B02:00");
    }

    #[test]
    fn addresses() {
        for (url, ok) in [
            ("http://127.0.0.1:7070", true),
            ("http://localhost:7070/", true),
            ("https://example.org", false),
            ("127.0.0.1:7070", false),
            ("", false),
        ] {
            let client = Client::local(url);
            assert_eq!(client.is_ok(), ok, "{url}");
        }
    }
}
