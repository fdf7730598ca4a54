//! `recado enqueue QUEUE TYPE [PAYLOAD|-]` and `recado enqueue QUEUE --file jobs.ndjson`.
//!
//! The payload is sent byte for byte. What a job may hold is the server's to judge; only what would not
//! even make a request (a payload that is no JSON) is refused here.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::enqueue_file;
use crate::client::{Body, Client, Path, Remote};
use crate::failure::{Exit, Failure, Outcome};
use crate::ui::{Ui, cell, list};

/// Largest payload read from standard input, in bytes; the server's own limit is 1 MiB.
const STDIN_BYTES_MAX: u64 = 32 << 20;

/// One job, or a file of them.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  recado enqueue email email.send '{\"deliveryId\":\"mail-1001\"}'\n  \
    recado enqueue email --file jobs.ndjson\n  tail -f events.ndjson | recado enqueue email --file -")]
pub(crate) struct Args {
    /// Queue, created when it does not exist
    queue: String,
    /// Type of the job, like email.send
    #[arg(value_name = "TYPE", required_unless_present = "file", conflicts_with = "file")]
    job_type: Option<String>,
    /// Payload as JSON text, or - for standard input
    #[arg(conflicts_with = "file")]
    payload: Option<String>,
    /// Read jobs from a file, one JSON object a line (- for standard input)
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Version of the type's schema
    #[arg(long, value_name = "N", conflicts_with = "file")]
    schema_version: Option<u32>,
    /// Id of the business object, for finding the job again
    #[arg(long, value_name = "ID", conflicts_with = "file")]
    business_id: Option<String>,
    /// 0 to 255, higher first
    #[arg(long, value_name = "N", conflicts_with = "file")]
    priority: Option<u8>,
    /// Wait this long before the first delivery, like 5m
    #[arg(long, value_name = "DURATION", conflicts_with_all = ["file", "run_at"])]
    delay: Option<String>,
    /// Do not deliver before this time (RFC 3339)
    #[arg(long, value_name = "TIME", conflicts_with = "file")]
    run_at: Option<String>,
    /// Jobs that belong together: a tenant, an account
    #[arg(long, value_name = "GROUP", conflicts_with = "file")]
    group: Option<String>,
    /// Two enqueues with one key make one job
    #[arg(long, value_name = "KEY", conflicts_with = "file")]
    dedup_key: Option<String>,
    /// How long the deduplication key holds: a duration, or `unfinished`
    #[arg(long, value_name = "DURATION", requires = "dedup_key")]
    dedup_for: Option<String>,
    /// What a second job with the key does
    #[arg(long, value_parser = ["keep", "replace", "conflict"], requires = "dedup_key")]
    on_duplicate: Option<String>,
    /// Two jobs with one key make one business effect
    #[arg(long, value_name = "KEY", conflicts_with = "file")]
    idempotency_key: Option<String>,
    /// Attempts before the job is dead
    #[arg(long, value_name = "N", conflicts_with = "file")]
    max_attempts: Option<u32>,
    /// Backoff as JSON, like '{"kind":"fixed","base":"10s"}'
    #[arg(long, value_name = "JSON", conflicts_with = "file")]
    backoff: Option<String>,
    /// How long the job stays hidden once received
    #[arg(long, value_name = "DURATION", conflicts_with = "file")]
    visibility_timeout: Option<String>,
    /// Longest run of one attempt
    #[arg(long, value_name = "DURATION", conflicts_with = "file")]
    timeout: Option<String>,
    /// Drop the job if it was not started within this time
    #[arg(long, value_name = "DURATION", conflicts_with = "file")]
    expires_after: Option<String>,
    /// A header, kept with the job; may be repeated
    #[arg(long, value_name = "NAME=VALUE", conflicts_with = "file")]
    header: Vec<String>,
    /// Name of the producer, for exactly-once batches; needs --seq
    #[arg(long, value_name = "NAME", requires = "seq", conflicts_with = "file")]
    producer: Option<String>,
    /// Number of this batch of the producer, from 1
    #[arg(long, value_name = "N", requires = "producer")]
    seq: Option<u64>,
    /// Idempotency-Key of the HTTP request: the same request twice is done once
    #[arg(long, value_name = "KEY", conflicts_with = "file")]
    request_key: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

/// A job's members in the making; raw, so that nothing is rewritten on its way.
pub(super) type Job = BTreeMap<&'static str, Box<RawValue>>;

/// Enqueues.
pub(crate) fn run(args: &Args, ui: Ui) -> Outcome {
    let client = Client::new(&args.remote)?;
    if let Some(file) = &args.file {
        return enqueue_file::run(&client, &args.queue, file, ui);
    }
    let job = job(args)?;
    let body = match (&args.producer, args.seq) {
        (Some(name), Some(seq)) => {
            let jobs = raw(&[&job])?;
            let producer = raw(&json!({ "name": name, "seq": seq }))?;
            raw(&BTreeMap::from([("producer", producer), ("jobs", jobs)]))?
        }
        _ => raw(&job)?,
    };
    let key = args.request_key.as_deref().map(|key| ("idempotency-key", key));
    let path = Path::v1(&["queues", &args.queue, "jobs"]);
    let body = Body::Json(body.get().as_bytes().to_vec());
    let answer = client.send("POST", &path, body, key.as_slice(), Duration::ZERO)?;
    ui.answer(&answer.text, |value| human(&args.queue, value))?;
    Ok(Exit::Ok)
}

fn job(args: &Args) -> Result<Job, Failure> {
    let mut job = Job::new();
    put(&mut job, "type", args.job_type.as_ref())?;
    if let Some(payload) = &args.payload {
        job.insert("payload", json_text(&payload_text(payload)?, "payload")?);
    }
    put(&mut job, "schemaVersion", args.schema_version)?;
    put(&mut job, "businessId", args.business_id.as_ref())?;
    put(&mut job, "priority", args.priority)?;
    put(&mut job, "delay", args.delay.as_ref())?;
    put(&mut job, "runAt", args.run_at.as_ref())?;
    put(&mut job, "group", args.group.as_ref())?;
    put(&mut job, "idempotencyKey", args.idempotency_key.as_ref())?;
    put(&mut job, "maxAttempts", args.max_attempts)?;
    put(&mut job, "visibilityTimeout", args.visibility_timeout.as_ref())?;
    put(&mut job, "timeout", args.timeout.as_ref())?;
    put(&mut job, "expiresAfter", args.expires_after.as_ref())?;
    if let Some(key) = &args.dedup_key {
        let mut dedup = Job::new();
        put(&mut dedup, "key", Some(key))?;
        put(&mut dedup, "for", args.dedup_for.as_ref())?;
        put(&mut dedup, "onDuplicate", args.on_duplicate.as_ref())?;
        job.insert("dedup", raw(&dedup)?);
    }
    if let Some(backoff) = &args.backoff {
        job.insert("backoff", json_text(backoff, "--backoff")?);
    }
    if !args.header.is_empty() {
        job.insert("headers", raw(&headers(&args.header)?)?);
    }
    Ok(job)
}

fn headers(given: &[String]) -> Result<BTreeMap<&str, &str>, Failure> {
    let mut headers = BTreeMap::new();
    for header in given {
        let (name, value) =
            header.split_once('=').ok_or_else(|| Failure::usage(format!("--header {header}: write NAME=VALUE")))?;
        if headers.insert(name, value).is_some() {
            return Err(Failure::usage(format!("--header {name}: given twice")));
        }
    }
    Ok(headers)
}

/// The payload itself, or from standard input.
pub(super) fn payload_text(argument: &str) -> Result<String, Failure> {
    if argument != "-" {
        return Ok(argument.to_owned());
    }
    let mut text = String::new();
    std::io::stdin()
        .lock()
        .take(STDIN_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(|error| Failure::bad_data(format!("cannot read the payload from standard input: {error}")))?;
    Ok(text)
}

/// A JSON text as it stands, without the blanks around it.
pub(super) fn json_text(text: &str, what: &str) -> Result<Box<RawValue>, Failure> {
    serde_json::from_str::<Box<RawValue>>(text).map_err(|error| {
        Failure::bad_data(format!("the {what} is not JSON: {error}; a string needs its quotes, like '\"text\"'"))
    })
}

/// Sets a member that was given.
pub(super) fn put(job: &mut Job, member: &'static str, value: Option<impl Serialize>) -> Result<(), Failure> {
    if let Some(value) = value {
        job.insert(member, raw(&value)?);
    }
    Ok(())
}

/// A value as JSON text.
pub(super) fn raw(value: &impl Serialize) -> Result<Box<RawValue>, Failure> {
    to_raw_value(value).map_err(|error| Failure::bad_data(format!("cannot be written as JSON: {error}")))
}

fn human(queue: &str, answer: &Value) -> String {
    if answer.get("duplicate") == Some(&Value::Bool(true)) {
        return "this batch of the producer was already enqueued: nothing done".to_owned();
    }
    let mut lines = Vec::new();
    for job in list(answer, "jobs") {
        let id = cell(job, "id");
        lines.push(if job.get("deduplicated") == Some(&Value::Bool(true)) {
            format!("{id} already there under this key, state {}", cell(job, "state"))
        } else {
            format!("{id} enqueued in {queue}")
        });
    }
    if answer.get("created") == Some(&Value::Bool(true)) {
        lines.push(format!("queue {queue} was created with the defaults"));
    }
    lines.join("\n")
}
