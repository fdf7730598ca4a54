//! Refusals on the wire (RFC 9457): one table of codes, and how each failure becomes one of them.

use std::borrow::Cow;
use std::time::Duration;

use recado_core::Rejection;
use serde::{Deserialize, Serialize};

use crate::faults::Refused;
use crate::scan::masked;
use crate::{duration, size};

macro_rules! codes {
    ($($code:ident $status:literal $word:literal $title:literal $text:literal;)*) => {
        /// What clients match on.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Code { $(#[doc = $title] $code),* }

        impl Code {
            /// All codes, in the order of their status.
            pub const ALL: &[Self] = &[$(Self::$code),*];

            /// The word on the wire.
            pub fn word(self) -> &'static str {
                match self { $(Self::$code => $word),* }
            }

            /// The HTTP status.
            pub fn status(self) -> u16 {
                match self { $(Self::$code => $status),* }
            }

            /// A short name.
            pub fn title(self) -> &'static str {
                match self { $(Self::$code => $title),* }
            }

            /// What it means and what to do, for `/problems/{code}`.
            pub fn text(self) -> &'static str {
                match self { $(Self::$code => $text),* }
            }
        }
    };
}

codes! {
    InvalidRequest 400 "invalid-request" "The request is not valid"
        "A field, parameter or header is unknown, missing, of the wrong type or out of range. `errors` names each place: `index` is the entry of an array, `pointer` (RFC 6901) the field in it. Nothing was changed.";
    InvalidName 400 "invalid-name" "A name is not valid"
        "Names of queues, types, schedules, hooks and workers have 1 to 120 characters out of letters, digits and _ . : - and do not begin with `recado.`.";
    MalformedJson 400 "malformed-json" "The body is not JSON"
        "`line` and `column` say where reading stopped. JSON is UTF-8, without comments or trailing commas.";
    Unauthenticated 401 "unauthenticated" "A key or signature is needed"
        "Send Authorization: Bearer with a key of this server; what is sent to a hook is signed with its secret, and not too long ago.";
    Forbidden 403 "forbidden" "This is not allowed from here"
        "Without keys, what writes files is allowed only to programs on the server's own machine, over loopback.";
    ForeignOrigin 403 "foreign-origin" "The request comes from another web page"
        "A browser sent it for a page of another origin, or under a host name that is not this server's. Programs send no Origin and no Sec-Fetch-Site. If this server is reached through another name, start it with --public-url.";
    NotFound 404 "not-found" "There is no such thing"
        "No route, queue or id of this name. `nearest` is the most similar name there is.";
    MethodNotAllowed 405 "method-not-allowed" "The method is not allowed here"
        "The header Allow lists the methods of this path.";
    RequestTimeout 408 "request-timeout" "The request took too long to arrive"
        "A body must arrive within 30 s; in a stream 30 s may pass between bytes. Send it again.";
    Gone 410 "gone" "It is not there any more"
        "The id is well formed, but nothing has it: it was forgotten after its time, purged, discarded, or never existed.";
    StaleReceipt 409 "stale-receipt" "The receipt or token was overtaken"
        "The request changed nothing. Of a receipt, `reason` says what overtook the delivery and `jobState` where the job is: drop this delivery; if it had an effect outside, check the effect with the fencing token. Of a guard's token, `reason` is key-taken (another begin took the key), settled (completed before), expired (aborted, its time is over, or its job is gone) or forged: begin again before you go on.";
    DuplicateConflict 409 "duplicate-conflict" "The deduplication key is held with another payload"
        "A job with this key exists and its payload differs (`onDuplicate` is `conflict`).";
    IdempotencyInProgress 409 "idempotency-in-progress" "The same request is in progress"
        "A request with this Idempotency-Key has not been answered yet. Ask again in a moment.";
    ProducerGap 409 "producer-gap" "The producer skipped a batch"
        "`expected` is the number that comes next. Send that batch first.";
    JobNotWaiting 409 "job-not-waiting" "The job is not waiting"
        "Only a job that is ready, delayed or blocked can be changed; one that completed or died cannot be cancelled. A dead job is replayed.";
    QueueNotEmpty 409 "queue-not-empty" "The queue is not empty"
        "Only an empty queue into which no schedule puts jobs is deleted. Purge it, discard its dead jobs, remove the schedule, or delete with ?force=true.";
    ManagedByFile 409 "managed-by-file" "The configuration file manages this queue, type, limit or schedule"
        "Change its section in recado.toml and reload (SIGHUP).";
    ContractIncomplete 409 "contract-incomplete" "The queue's contract is incomplete"
        "In strict mode a queue needs a dead-letter owner, a reachable alert and a runbook. `errors` lists what is missing.";
    SchemaInUse 409 "schema-in-use" "The schema is in use"
        "Jobs of this type and version were checked by another schema. Put the new one under a new version.";
    LimitInUse 409 "limit-in-use" "The shared limit is in use"
        "Queues name it in their `limits`. Take it out of their options first.";
    PreconditionFailed 412 "precondition-failed" "The configuration has changed"
        "If-Match does not name the present ETag, or If-None-Match does. Read the queue again.";
    PayloadTooLarge 413 "payload-too-large" "A payload is too large"
        "`limit` and `actual` are in bytes. Store large things elsewhere and send their address.";
    RequestTooLarge 413 "request-too-large" "The request is too large"
        "A body has at most 32 MiB, a batch 16 MiB and 10,000 jobs, a line of a stream 2 MiB. Send smaller batches or a stream (application/x-ndjson).";
    UnsupportedMediaType 415 "unsupported-media-type" "The content type is not supported"
        "Send Content-Type: application/json (curl: --json), or application/x-ndjson for a stream of jobs.";
    IdempotencyKeyReused 422 "idempotency-key-reused" "The Idempotency-Key was used for another request"
        "The key came with another body within 10 minutes. Use a new key for a new request.";
    SchemaViolation 422 "schema-violation" "A payload does not fit its schema"
        "`errors` names each place and rule. Correct the payload, or enqueue it under the version it was made for.";
    UnknownTypeVersion 422 "unknown-type-version" "The type has no such version"
        "This queue takes only types with a schema. Put the schema first, or correct `type` and `schemaVersion`.";
    SecretInPayload 422 "secret-in-payload" "There seems to be a secret in it"
        "`errors` names the place. Send an id instead of the secret; a false positive goes into the queue's payload.allow.";
    RateLimited 429 "rate-limited" "Too many requests"
        "The limit of this key or address is spent. Come back after `retryAfter`.";
    QueueFull 429 "queue-full" "The queue is full"
        "A limit of the queue is reached; `reason` names it. Consumers go on. Come back after `retryAfter`.";
    HeadersTooLarge 431 "headers-too-large" "The request's head is too large"
        "The request line and headers have at most 16 KiB and 128 lines.";
    Internal 500 "internal" "The server failed"
        "This is a defect or damaged data; the server's log says more. The outcome is unknown: look before you repeat.";
    Overloaded 503 "overloaded" "The server is busy"
        "A limit of the server (connections, commands, memory) is reached. Come back after `retryAfter`.";
    Stopping 503 "stopping" "The server is stopping"
        "Nothing new is begun. If the request was under way its outcome is unknown; repeat it when the server is back.";
    LogFailed 503 "log-failed" "The log failed"
        "Writing to disk failed, and the server stops rather than lose data. The outcome of requests under way is unknown. Restart it when the disk is well.";
    NotLeader 503 "not-leader" "Another node leads"
        "This node cannot reach the one that leads the queue. Nothing was done; come back after `retryAfter`.";
    StorageFull 507 "storage-full" "The disk is full"
        "Producers are refused, consumers go on. Service returns by itself when there is space.";
}

/// One thing that is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct FieldError {
    /// Place in the array; absent for a single object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<usize>,
    /// RFC 6901, from the job (or the object that was sent).
    #[serde(serialize_with = "masked")]
    pub pointer: String,
    /// Which rule, where one has a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// What is wrong and what to do.
    #[serde(serialize_with = "masked")]
    pub message: String,
    /// The known word that was probably meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nearest: Option<String>,
}

/// Rule of a [`FieldError`] about a name.
pub const NAME_RULE: &str = "name";

/// The body of every refusal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema), schema(as = Problem))]
pub struct Body {
    /// `/problems/{code}`.
    #[serde(rename = "type")]
    kind: String,
    /// What to match on.
    code: Cow<'static, str>,
    /// A short name.
    title: Cow<'static, str>,
    /// The HTTP status.
    status: u16,
    /// What happened and what to do.
    #[serde(serialize_with = "masked")]
    detail: String,
    /// Each thing that is wrong, where there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    errors: Vec<FieldError>,
    /// What overtook a receipt, or which limit was met.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// When to come back.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<String>,
    /// The most similar name there is.
    #[serde(skip_serializing_if = "Option::is_none")]
    nearest: Option<String>,
    /// The limit that was met.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u64>,
    /// What was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    actual: Option<u64>,
    /// Line of malformed JSON, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    /// Column of malformed JSON, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<usize>,
    /// The producer's next number.
    #[serde(skip_serializing_if = "Option::is_none")]
    expected: Option<u64>,
    /// Where the job is.
    #[serde(skip_serializing_if = "Option::is_none")]
    job_state: Option<Cow<'static, str>>,
    /// The job that is in the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
}

/// A refusal. Boxed: it is the rare side of every result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Problem(Box<Body>);

impl Problem {
    /// A refusal with the words for this case.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self(Box::new(Body {
            kind: format!("/problems/{}", code.word()),
            code: code.word().into(),
            title: code.title().into(),
            status: code.status(),
            detail: detail.into(),
            errors: Vec::new(),
            reason: None,
            retry_after: matches!(code.status(), 429 | 503 | 507).then(|| duration::text(RETRY_MS_DEFAULT)),
            nearest: None,
            limit: None,
            actual: None,
            line: None,
            column: None,
            expected: None,
            job_state: None,
            id: None,
        }))
    }

    /// A 400 that names each fault.
    pub fn invalid(errors: Vec<FieldError>) -> Self {
        let all_names = errors.iter().all(|error| error.rule.as_deref() == Some(NAME_RULE));
        let code = if all_names { Code::InvalidName } else { Code::InvalidRequest };
        let detail = match errors.as_slice() {
            [] => "the request is not valid".to_owned(),
            [one] => place(one) + &one.message,
            [first, rest @ ..] => format!("{}{} (and {} more in `errors`)", place(first), first.message, rest.len()),
        };
        let nearest = errors.iter().find_map(|error| error.nearest.clone());
        let mut problem = Self::new(code, detail);
        problem.0.errors = errors;
        problem.0.nearest = nearest;
        problem
    }

    /// A 422 by what a queue asks of its jobs.
    pub(crate) fn refused(why: Refused, errors: Vec<FieldError>) -> Self {
        let first = errors.first().map(|error| place(error) + &error.message).unwrap_or_default();
        let mut problem = Self::new(why.code(), first).with_errors(errors);
        problem.0.reason = (why.reason() != why.code().word()).then(|| why.reason().to_owned());
        problem
    }

    /// Several entries are refused: one code if they have one in common, else that the request is not valid.
    fn of_entries(detail: String, all: Vec<Rejection>) -> Self {
        let mut all: Vec<Self> = all.into_iter().map(Self::from).collect();
        let errors: Vec<FieldError> = all.iter().flat_map(|one| one.0.errors.iter().cloned()).collect();
        let mut first = all.swap_remove(0);
        if all.iter().any(|one| one.code() != first.code()) || first.status() == 400 {
            return Self::invalid(errors);
        }
        first.0.detail = detail;
        first.with_errors(errors)
    }

    /// A 400 about one field.
    pub fn field(pointer: &str, message: impl Into<String>) -> Self {
        Self::invalid(vec![FieldError { pointer: pointer.into(), message: message.into(), ..FieldError::default() }])
    }

    /// A 400 about the name of what the path names.
    pub fn name(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidName, message)
    }

    /// A 400 where JSON stopped being JSON.
    pub fn malformed(line: usize, column: usize, what: &str) -> Self {
        let mut problem = Self::new(Code::MalformedJson, format!("line {line}, column {column}: {what}"));
        problem.0.line = Some(line);
        problem.0.column = Some(column);
        problem
    }

    /// Something over a limit.
    pub fn too_large(code: Code, what: &str, limit: usize, actual: Option<usize>) -> Self {
        let text = size::text(limit as u64);
        Self::new(code, format!("{what} at most {text}")).sized(limit as u64, actual.map(|n| n as u64))
    }

    /// With the faults it stands for.
    pub fn with_errors(mut self, errors: Vec<FieldError>) -> Self {
        self.0.errors = errors;
        self
    }

    /// With limit and actual figure.
    pub fn sized(mut self, limit: u64, actual: Option<u64>) -> Self {
        self.0.limit = Some(limit);
        self.0.actual = actual;
        self
    }

    /// With a time to come back.
    pub fn retry_after(mut self, after: Duration) -> Self {
        // Whole seconds, so that body and header say the same.
        let seconds = after.as_millis().div_ceil(1_000).clamp(1, 86_400) as u64;
        self.0.retry_after = Some(format!("{seconds}s"));
        self
    }

    fn nearest(mut self, nearest: Option<Box<str>>) -> Self {
        self.0.nearest = nearest.map(String::from);
        self
    }

    /// With the place in the stream where its first fault is.
    pub fn shift_index(mut self, by: usize) -> Self {
        for error in &mut self.0.errors {
            error.index = Some(error.index.unwrap_or(0) + by);
        }
        self
    }

    /// Of one line of a stream, counted from 1, which is its `index`th job.
    pub fn in_line(mut self, line: usize, index: usize) -> Self {
        if self.0.line.is_some() {
            self.0.line = Some(line);
        }
        self.0.detail = format!("line {line} of the stream: {}", self.0.detail);
        self.shift_index(index)
    }

    /// When to come back, in milliseconds.
    #[must_use]
    pub fn retry_after_ms(&self) -> Option<u64> {
        self.0.retry_after.as_deref().and_then(|text| duration::parse(text).ok())
    }

    /// What happened and what to do.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.0.detail
    }

    /// Each thing that is wrong, where there are several.
    #[must_use]
    pub fn errors(&self) -> &[FieldError] {
        &self.0.errors
    }

    /// The HTTP status.
    pub fn status(&self) -> u16 {
        self.0.status
    }

    /// What to match on.
    pub fn code(&self) -> &str {
        &self.0.code
    }

    /// Why, in a word: the limit that was met, else the code.
    pub fn reason(&self) -> &str {
        self.0.reason.as_deref().unwrap_or(&self.0.code)
    }

    /// The body's bytes.
    pub fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// Used where nothing better was measured, in milliseconds.
const RETRY_MS_DEFAULT: u64 = 1_000;

/// Used where somebody has to do something first.
const ACTED_UPON: Duration = Duration::from_secs(60);

fn place(error: &FieldError) -> String {
    match (error.index, error.pointer.as_str()) {
        (None, "") => String::new(),
        (None, pointer) => format!("{pointer}: "),
        (Some(index), pointer) => format!("[{index}]{pointer}: "),
    }
}

impl From<Rejection> for Problem {
    fn from(rejection: Rejection) -> Self {
        let detail = rejection.to_string();
        let new = |code| Self::new(code, detail.clone());
        match rejection {
            Rejection::QueueNotFound { nearest, .. } => new(Code::NotFound).nearest(nearest),
            Rejection::FingerprintNotFound => new(Code::NotFound),
            Rejection::NotATarget(_) | Rejection::MoveRunning(_) => new(Code::InvalidRequest),
            // A well-formed id that is not there is 410; ids that are not well formed do not get here.
            Rejection::JobNotFound | Rejection::JobGone(_) | Rejection::TaskNotFound => new(Code::Gone),
            Rejection::QueueFull { reason, limit, actual, .. } => {
                let mut problem = new(Code::QueueFull).sized(limit, Some(actual));
                problem.0.reason = Some(reason.to_owned());
                // What has to be acted upon does not drain by itself.
                let acts = ["dead-letter-max", "idempotency-max", "lanes", "guards", "producers"].contains(&reason);
                if acts { problem.retry_after(ACTED_UPON) } else { problem }
            }
            Rejection::SchemaInUse { .. } => new(Code::SchemaInUse),
            Rejection::SchemaNotFound { .. } => new(Code::NotFound),
            Rejection::TooManySchemas { limit, .. } => {
                let mut problem = new(Code::QueueFull).sized(limit, None).retry_after(ACTED_UPON);
                problem.0.reason = Some("schemas".to_owned());
                problem
            }
            Rejection::LimitNotFound { nearest, .. } => new(Code::NotFound).nearest(nearest),
            Rejection::LimitInUse { .. } => new(Code::LimitInUse),
            Rejection::TooManyLimits { limit } => {
                let mut problem = new(Code::QueueFull).sized(limit, None).retry_after(ACTED_UPON);
                problem.0.reason = Some("limits".to_owned());
                problem
            }
            Rejection::ScheduleNotFound { nearest, .. } => new(Code::NotFound).nearest(nearest),
            Rejection::TooManySchedules { limit, .. } => {
                let mut problem = new(Code::QueueFull).sized(limit, None).retry_after(ACTED_UPON);
                problem.0.reason = Some("schedules".to_owned());
                problem
            }
            Rejection::HookNotFound { nearest, .. } => new(Code::NotFound).nearest(nearest),
            Rejection::TooManyHooks { limit } => {
                let mut problem = new(Code::QueueFull).sized(limit, None).retry_after(ACTED_UPON);
                problem.0.reason = Some("hooks".to_owned());
                problem
            }
            Rejection::TooManyQueues { limit } => {
                let mut problem = new(Code::QueueFull).sized(limit, None).retry_after(ACTED_UPON);
                problem.0.reason = Some("queues".to_owned());
                problem
            }
            Rejection::OutOfMemory { limit } => new(Code::Overloaded).sized(limit, None),
            Rejection::PayloadTooLarge { index, pointer, limit, actual, .. } => {
                let error = at(Some(index), &pointer, &detail);
                new(Code::PayloadTooLarge).with_errors(vec![error]).sized(limit, Some(actual))
            }
            Rejection::Invalid { index, pointer, message } => Self::invalid(vec![at(Some(index), &pointer, &message)]),
            Rejection::DuplicateConflict { index, id } => {
                let mut problem =
                    new(Code::DuplicateConflict).with_errors(vec![at(Some(index), "/dedup/key", &detail)]);
                problem.0.id = Some(id.to_string());
                problem
            }
            Rejection::Entries(all) => Self::of_entries(detail, all),
            Rejection::ProducerGap { expected, .. } => {
                let mut problem = new(Code::ProducerGap);
                problem.0.expected = Some(expected);
                problem
            }
            Rejection::RequestKeyReused => new(Code::IdempotencyKeyReused),
            Rejection::JobNotWaiting { id, state } => {
                let mut problem = new(Code::JobNotWaiting);
                problem.0.job_state = Some(state.word().into());
                problem.0.id = Some(id.to_string());
                problem
            }
            Rejection::QueueNotEmpty { .. } | Rejection::QueueScheduled { .. } => new(Code::QueueNotEmpty),
            Rejection::ManagedByFile(_) => new(Code::ManagedByFile),
            Rejection::PreconditionFailed => new(Code::PreconditionFailed),
            Rejection::Stale { reason, state } => {
                let mut problem = new(Code::StaleReceipt);
                problem.0.reason = Some(reason.word().to_owned());
                problem.0.job_state = state.map(|state| state.word().into());
                problem
            }
            Rejection::TokenOutdated { reason } => {
                let mut problem = new(Code::StaleReceipt);
                problem.0.reason = Some(reason.word().to_owned());
                problem
            }
            Rejection::ChildResultsTooLarge { limit, actual, .. } => {
                let error = at(None, "/result", &detail);
                new(Code::PayloadTooLarge).with_errors(vec![error]).sized(limit, Some(actual))
            }
            Rejection::ResultTooLargeNow { limit, actual } => new(Code::StorageFull).sized(limit, Some(actual)),
            Rejection::NoRoomNow { is_full } => new(if is_full { Code::StorageFull } else { Code::Overloaded }),
        }
    }
}

fn at(index: Option<usize>, pointer: &str, message: &str) -> FieldError {
    FieldError { index, pointer: pointer.to_owned(), message: message.to_owned(), ..FieldError::default() }
}

impl Problem {
    /// Without `index`: the request was one object, or what it names is not in an array.
    pub fn single(mut self) -> Self {
        for error in &mut self.0.errors {
            error.index = None;
        }
        let first = self.0.errors.first().map(|error| place(error) + &error.message);
        if let (Some(detail), 400 | 422) = (first, self.0.status) {
            self.0.detail = detail;
        }
        self
    }
}

impl From<recado_shard::Error> for Problem {
    fn from(error: recado_shard::Error) -> Self {
        use recado_shard::Error;
        match error {
            Error::Rejected(rejection) => rejection.into(),
            Error::Overloaded { retry_after } => {
                Self::new(Code::Overloaded, "the server has more to do than it can; slow down").retry_after(retry_after)
            }
            Error::Stopping => Self::new(Code::Stopping, "the server is stopping; repeat the request when it is back"),
            Error::LogFailed { reason } => Self::new(
                Code::LogFailed,
                format!("the log failed and the server stops; the outcome is unknown: {reason}"),
            ),
            Error::StorageFull { retry_after } => {
                Self::new(Code::StorageFull, "the disk is full; producers wait until there is space")
                    .retry_after(retry_after)
            }
            Error::StorageSlow { retry_after } => {
                let detail = "the disk does not keep up; slow down";
                Self::new(Code::Overloaded, detail).retry_after(retry_after)
            }
            Error::TooLarge { limit, actual } => Self::new(
                Code::RequestTooLarge,
                "the request does not fit into one record of the log; send smaller batches",
            )
            .sized(limit, Some(actual)),
            error @ Error::Unreadable { .. } => {
                tracing::error!(?error, "stored bytes cannot be read");
                Self::new(Code::Internal, "stored bytes cannot be read; run `recado log check`")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_documented() {
        let mut words: Vec<_> = Code::ALL.iter().map(|code| code.word()).collect();
        words.sort_unstable();
        let count = words.len();
        words.dedup();
        assert_eq!(words.len(), count);
        for code in Code::ALL {
            assert!(code.text().ends_with('.') && !code.title().ends_with('.'), "{code:?}");
        }
    }

    #[test]
    fn what_somebody_has_to_act_upon_is_tried_again_in_a_minute() {
        let full = |reason| Rejection::QueueFull { queue: "q".into(), reason, limit: 1, actual: 2 };
        let reasons = ["dead-letter-max", "idempotency-max", "lanes", "guards", "producers"];
        let others = [Rejection::TooManyQueues { limit: 1 }, Rejection::TooManySchemas { what: "bytes", limit: 1 }];
        for rejection in reasons.map(full).into_iter().chain(others) {
            let told = rejection.to_string();
            assert_eq!(Problem::from(rejection).retry_after_ms(), Some(60_000), "{told}");
        }
    }
}
