//! `POST /v1/settle`, and the settles that come with a receive.

use std::borrow::Cow;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use recado_contract::gate;
use recado_contract::job::cut;
use recado_core::{Failure, JobId, Outcome, Rejection, Settle, Settled};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::new_job::span;
use super::{App, answer, body, job_id};
use crate::faults::Faults;
use crate::json::{self, OneOrMany};
use crate::limits::{
    ERROR_KIND_CHARS_MAX, ERROR_MESSAGE_BYTES_MAX, PROGRESS_BYTES_MAX, REASON_BYTES_MAX, RESULT_BYTES_MAX,
    SETTLE_ENTRIES_MAX,
};
use crate::openapi::Everywhere;
use crate::problem::{Code, Problem};
use crate::{options, query, time};

/// One delivery's end or extension.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Settle)]
pub(crate) struct SettleBody<'a> {
    /// The job.
    id: Box<str>,
    /// As it was received.
    receipt: Box<str>,
    /// What became of the delivery.
    outcome: OutcomeWord,
    /// `ack`: free JSON, at most 64 KiB.
    #[serde(borrow, default)]
    #[schema(value_type = serde_json::Value)]
    result: Option<&'a RawValue>,
    /// `fail`: why.
    error: Option<FailureBody>,
    /// `release`: hidden for so long.
    delay: Option<Box<str>>,
    /// `release`: why.
    reason: Option<Box<str>>,
    /// `extend`: hidden for so long from now; the queue's by default.
    visibility_timeout: Option<Box<str>>,
    /// `extend`: free JSON, at most 1 KiB.
    #[serde(borrow, default)]
    #[schema(value_type = serde_json::Value)]
    progress: Option<&'a RawValue>,
}

/// What became of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Outcome)]
enum OutcomeWord {
    /// Done.
    Ack,
    /// Failed.
    Fail,
    /// Given back.
    Release,
    /// Still at work.
    Extend,
}

/// Why a delivery failed.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Failure)]
struct FailureBody {
    /// The worker's word, `error` by default.
    kind: Option<String>,
    /// For people; cut at 1 KiB.
    message: String,
    /// False: dead at once; true by default.
    retryable: Option<bool>,
    /// Instead of the backoff.
    retry_after: Option<Box<str>>,
}

/// What can be settled at once.
#[derive(ToSchema)]
#[serde(untagged)]
#[schema(as = SettleRequest)]
#[allow(dead_code)] // only described
pub(crate) enum SettleRequest<'a> {
    /// One.
    One(SettleBody<'a>),
    /// Several, independent of each other.
    Many(Vec<SettleBody<'a>>),
}

/// What became of each.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = SettleAnswer)]
struct SettledList<'a> {
    /// In the order of the request.
    settled: Vec<SettledBody<'a>>,
    /// Of these jobs a cancel was asked for.
    cancel_requested: Vec<String>,
}

/// What became of one.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Settled)]
pub(crate) struct SettledBody<'a> {
    /// The job, as it was named.
    id: Cow<'a, str>,
    /// It counts.
    ok: bool,
    /// It counted before.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    repeated: bool,
    /// After an extend.
    #[serde(skip_serializing_if = "Option::is_none")]
    visible_at: Option<String>,
    /// Why it does not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = crate::problem::Body)]
    problem: Option<Problem>,
}

/// Settles as checked: those for the shard, and those whose answer is known.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    ids: Vec<Box<str>>,
    /// Of each entry: `None` is asked of the shard.
    known: Vec<Option<Problem>>,
    /// What the shard is asked.
    pub(crate) asked: Vec<Settle>,
}

impl Checked {
    /// Checks all entries: what is wrong with one is that entry's own problem.
    pub(crate) fn new(entries: Vec<SettleBody<'_>>, at: &str, faults: &mut Faults) -> Self {
        let mut checked = Self::default();
        if entries.len() > SETTLE_ENTRIES_MAX {
            faults.at(at, format!("at most {SETTLE_ENTRIES_MAX} entries; send the rest in another request"));
            return checked;
        }
        for entry in entries {
            match entry.check() {
                Ok(settle) => {
                    checked.asked.push(settle);
                    checked.known.push(None);
                }
                Err(problem) => checked.known.push(Some(problem)),
            }
            checked.ids.push(entry.id);
        }
        checked
    }

    /// Puts the shard's answers in order, and lists jobs whose cancel was asked for.
    pub(crate) fn answered(&self, answers: Vec<Result<Settled, Rejection>>) -> (Vec<SettledBody<'_>>, Vec<JobId>) {
        let mut answers = answers.into_iter();
        let mut cancelled = Vec::new();
        let missing = || Problem::new(Code::Internal, "the shard did not answer this entry");
        let entries = self.ids.iter().zip(&self.known).map(|(id, known)| {
            let answered = match known {
                Some(problem) => Err(problem.clone()),
                None => answers.next().map_or_else(|| Err(missing()), |answer| answer.map_err(Problem::from)),
            };
            if let Ok(settled) = &answered
                && settled.cancel_requested
                && !cancelled.contains(&settled.id)
            {
                cancelled.push(settled.id);
            }
            SettledBody::new(id, answered)
        });
        (entries.collect(), cancelled)
    }
}

impl<'a> SettledBody<'a> {
    fn new(id: &'a str, answered: Result<Settled, Problem>) -> Self {
        let id = Cow::Borrowed(id);
        match answered {
            Ok(settled) => Self {
                id,
                ok: true,
                repeated: settled.repeated,
                visible_at: settled.visible_at.map(time::text),
                problem: None,
            },
            Err(problem) => Self { id, ok: false, repeated: false, visible_at: None, problem: Some(problem) },
        }
    }
}

impl SettleBody<'_> {
    fn check(&self) -> Result<Settle, Problem> {
        let mut faults = Faults::default();
        let mut outcome = self.outcome(&mut faults);
        faults.finish()?;
        gate::mask(&mut outcome);
        Ok(Settle { job: Some(job_id(&self.id)?), receipt: self.receipt.clone(), outcome })
    }

    fn outcome(&self, faults: &mut Faults) -> Outcome {
        use OutcomeWord::{Ack, Extend, Fail, Release};
        for (field, set, of) in [
            ("result", self.result.is_some(), Ack),
            ("error", self.error.is_some(), Fail),
            ("delay", self.delay.is_some(), Release),
            ("reason", self.reason.is_some(), Release),
            ("visibilityTimeout", self.visibility_timeout.is_some(), Extend),
            ("progress", self.progress.is_some(), Extend),
        ] {
            if set && self.outcome != of {
                let of = format!("{of:?}").to_lowercase();
                faults.at(&format!("/{field}"), format!("goes with outcome `{of}` only"));
            }
        }
        let bytes = |raw: Option<&RawValue>| raw.map(|raw| raw.get().as_bytes().to_vec());
        match self.outcome {
            Ack => {
                faults.check_free("/result", self.result, RESULT_BYTES_MAX);
                Outcome::Ack { result: bytes(self.result) }
            }
            Fail => match &self.error {
                Some(error) => Outcome::Fail(error.failure(faults)),
                None => {
                    faults.at("/error", "outcome `fail` needs error {kind, message, retryable, retryAfter}");
                    Outcome::Fail(Failure::default())
                }
            },
            Release => Outcome::Release {
                delay_ms: span("/delay", self.delay.as_deref(), 0, faults),
                reason: self.reason.as_deref().map(|reason| cut(reason, REASON_BYTES_MAX).into()),
            },
            Extend => {
                faults.check_free("/progress", self.progress, PROGRESS_BYTES_MAX);
                let visibility = self.visibility_timeout.as_deref();
                Outcome::Extend {
                    visibility_ms: options::visibility_ms(visibility, "/visibilityTimeout", faults),
                    progress: bytes(self.progress),
                }
            }
        }
    }
}

impl FailureBody {
    fn failure(&self, faults: &mut Faults) -> Failure {
        let kind = self.kind.as_deref().filter(|kind| !kind.is_empty()).unwrap_or("error");
        Failure {
            kind: kind.chars().take(ERROR_KIND_CHARS_MAX).collect::<String>().into(),
            message: cut(&self.message, ERROR_MESSAGE_BYTES_MAX).into(),
            retryable: self.retryable.unwrap_or(true),
            retry_after_ms: span("/error/retryAfter", self.retry_after.as_deref(), 0, faults),
        }
    }
}

/// Ack, fail, release or extend deliveries; entries are independent.
#[utoipa::path(
    post, path = "/v1/settle", operation_id = "settle", tag = "work",
    request_body(content = SettleRequest, content_type = "application/json"),
    responses((status = 200, description = "each entry says what became of it", body = SettledList), Everywhere),
)]
pub(crate) async fn settle(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    query::Params::parse(request.uri().query(), &[])?;
    let body = body::json(request).await?;
    let entries = match json::parse_many::<SettleBody<'_>>(json::text(&body)?)? {
        OneOrMany::One(entry) => vec![entry],
        OneOrMany::Many(entries) => entries,
    };
    let mut faults = Faults::default();
    let mut checked = Checked::new(entries, "", &mut faults);
    faults.finish()?;
    let asked = std::mem::take(&mut checked.asked);
    let answers = if asked.is_empty() { Vec::new() } else { app.shard.settle(asked).await? };
    let (settled, cancelled) = checked.answered(answers);
    let cancel_requested = cancelled.iter().map(ToString::to_string).collect();
    Ok(answer(StatusCode::OK, &SettledList { settled, cancel_requested }))
}
