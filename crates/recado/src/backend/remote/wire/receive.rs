//! What a worker asks for, and what became of its jobs.

use std::collections::BTreeMap;
use std::time::Duration;

use recado_contract::{duration, types};
use recado_core::{Failure, Outcome, Receive, Settle};
use serde::Serialize;
use serde_json::value::RawValue;

use super::{raw, write};
use crate::error::Error;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReceiveOut<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    queues: Option<Vec<&'a str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    weights: Option<BTreeMap<&'a str, u32>>,
    max: usize,
    wait: String,
    worker: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    visibility_timeout: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    types: Option<Vec<String>>,
    settle: Vec<SettleOut<'a>>,
    attempt_id: Option<&'a str>,
}

pub(in crate::backend::remote) fn receive(
    receive: &Receive,
    settle: &[Settle],
    wait: Duration,
) -> Result<Vec<u8>, Error> {
    let names = || receive.queues.iter().map(|(name, _)| &**name).collect();
    let weights = || receive.queues.iter().map(|(name, weight)| (&**name, *weight)).collect();
    let out = ReceiveOut {
        queues: receive.strict.then(names),
        order: receive.strict.then_some("strict"),
        weights: (!receive.strict).then(weights),
        max: receive.max,
        wait: format!("{}ms", wait.as_millis()),
        worker: receive.worker.as_deref(),
        visibility_timeout: receive.visibility_ms.map(duration::text),
        types: receive.types.as_ref().map(|own| own.iter().map(types::text).collect()),
        settle: settle.iter().map(SettleOut::new).collect::<Result<_, _>>()?,
        attempt_id: receive.attempt_id.as_deref(),
    };
    write("this receive cannot be written", &out)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SettleOut<'a> {
    id: String,
    receipt: &'a str,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<FailureOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    visibility_timeout: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<&'a RawValue>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FailureOut<'a> {
    kind: &'a str,
    message: &'a str,
    retryable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<String>,
}

impl<'a> SettleOut<'a> {
    fn new(settle: &'a Settle) -> Result<Self, Error> {
        let mut out = Self {
            id: settle.job.map(|id| id.to_string()).unwrap_or_default(),
            receipt: &settle.receipt,
            outcome: "ack",
            result: None,
            error: None,
            delay: None,
            reason: None,
            visibility_timeout: None,
            progress: None,
        };
        match &settle.outcome {
            Outcome::Ack { result } => out.result = result.as_deref().map(raw).transpose()?,
            Outcome::Fail(Failure { kind, message, retryable, retry_after_ms }) => {
                out.outcome = "fail";
                let retry_after = retry_after_ms.map(duration::text);
                out.error = Some(FailureOut { kind, message, retryable: *retryable, retry_after });
            }
            Outcome::Release { delay_ms, reason } => {
                out.outcome = "release";
                (out.delay, out.reason) = (delay_ms.map(duration::text), reason.as_deref());
            }
            Outcome::Extend { visibility_ms, progress } => {
                out.outcome = "extend";
                out.visibility_timeout = visibility_ms.map(duration::text);
                out.progress = progress.as_deref().map(raw).transpose()?;
            }
        }
        Ok(out)
    }
}

pub(in crate::backend::remote) fn settle(settle: &[Settle]) -> Result<Vec<u8>, Error> {
    let entries: Vec<_> = settle.iter().map(SettleOut::new).collect::<Result<_, _>>()?;
    write("these settles cannot be written", &entries)
}
