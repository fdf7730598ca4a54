//! Guards of a server.

use std::time::Duration;

use bytes::Bytes;
use recado_contract::{duration, time};
use recado_core::{GuardAction, GuardBegin, GuardUse};
use recado_shard::Once;
use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::super::{ANSWER_TIME_MAX, Times};
use super::{AT_ONCE, Remote};
use crate::error::Error;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BeginBody<'a> {
    ttl: String,
    hold_for: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    receipt: Option<&'a str>,
    attempt_id: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct UseBody<'a> {
    token: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hold_for: Option<String>,
}

/// An answer; fields that go with other states are absent.
#[derive(Deserialize)]
struct BegunBody<'a> {
    state: &'a str,
    token: Option<Box<str>>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    until: Option<&'a str>,
}

/// Shortest time for the answer to what gives a hold.
const HOLD_TIME_MIN: Duration = Duration::from_secs(1);

/// For the answer to what gives a hold. Holds are extended three times within theirs: an answer that hangs must leave
/// time for another, and one that comes most of the hold.
fn hold_times(hold_ms: u64) -> Times {
    Times { answer: Duration::from_millis(hold_ms / 6).clamp(HOLD_TIME_MIN, ANSWER_TIME_MAX), ..AT_ONCE }
}

impl Remote {
    /// A begin whose answer got lost is made again, and known by its attempt.
    pub(crate) async fn begin_guard(&self, begin: &GuardBegin) -> Result<Once, Error> {
        let body = BeginBody {
            ttl: duration::text(begin.ttl_ms),
            hold_for: duration::text(begin.hold_ms),
            job: begin.job.map(|id| id.to_string()),
            receipt: begin.receipt.as_deref(),
            attempt_id: format!("{:032x}", rand::random::<u128>()),
        };
        let body = write(&body)?;
        let path = path(&begin.queue, &begin.key, "begin");
        let answer = self.ask(Method::POST, &path, Some(body), hold_times(begin.hold_ms)).await?;
        read(&answer).map_err(|what| self.http.protocol(what))
    }

    pub(crate) async fn use_guard(&self, wanted: &GuardUse) -> Result<(), Error> {
        let (verb, result, hold_for) = match &wanted.action {
            GuardAction::Complete { result } => ("complete", result.as_deref(), None),
            GuardAction::Abort => ("abort", None, None),
            GuardAction::Extend { hold_ms } => ("extend", None, Some(duration::text(*hold_ms))),
        };
        let result = result.map(serde_json::from_slice).transpose().map_err(Error::json("the result is not JSON"))?;
        let body = write(&UseBody { token: &wanted.token, result, hold_for })?;
        let path = path(&wanted.queue, &wanted.key, verb);
        let times = match &wanted.action {
            GuardAction::Extend { hold_ms } => hold_times(*hold_ms),
            _ => AT_ONCE,
        };
        self.ask(Method::POST, &path, Some(body), times).await.map(drop)
    }
}

fn write(body: &impl Serialize) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(body).map_err(Error::json("a guard cannot be written"))
}

fn read(answer: &[u8]) -> Result<Once, String> {
    let body: BegunBody<'_> = serde_json::from_slice(answer).map_err(|error| error.to_string())?;
    match (body.state, body.token, body.until) {
        ("new", Some(token), _) => Ok(Once::New(token)),
        ("done", ..) => Ok(Once::Done(body.result.map(|raw| Bytes::copy_from_slice(raw.get().as_bytes())))),
        ("processing", _, Some(until)) => time::parse(until).map(Once::Processing),
        (state, ..) => Err(format!("a begin answered `{state}` without what goes with it")),
    }
}

fn path(queue: &str, key: &str, verb: &str) -> String {
    let mut path = format!("/v1/queues/{queue}/idempotency/");
    for byte in key.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'~' | b':' => path.push(char::from(byte)),
            _ => path.push_str(&format!("%{byte:02X}")),
        }
    }
    path.push('/');
    path + verb
}
