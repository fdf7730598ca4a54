//! `recado settle ack|fail|release|extend ID RECEIPT`: finishes a received job by hand.

use clap::Subcommand;
use serde_json::{Map, Value, json};

use crate::client::{Answer, Client, Path, Remote};
use crate::failure::{Exit, Failure, Outcome};
use crate::problem::describe;
use crate::ui::{Ui, cell, list};

/// What became of a job.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    outcome: Settle,
    #[command(flatten)]
    remote: Remote,
}

/// Which delivery.
#[derive(clap::Args, Debug)]
struct Delivery {
    /// Id of the job
    id: String,
    /// Receipt of the delivery
    receipt: String,
}

#[derive(Debug, Subcommand)]
enum Settle {
    /// It is done
    Ack {
        #[command(flatten)]
        delivery: Delivery,
        /// Result to keep, as JSON
        #[arg(long, value_name = "JSON")]
        result: Option<String>,
    },
    /// It failed: it is tried again, or dead
    Fail {
        #[command(flatten)]
        delivery: Delivery,
        /// What went wrong
        #[arg(long, default_value = "failed by hand")]
        message: String,
        /// One word for the sort of error
        #[arg(long)]
        kind: Option<String>,
        /// Do not try again
        #[arg(long)]
        permanent: bool,
        /// Try again after this time, whatever the backoff says
        #[arg(long, value_name = "DURATION", conflicts_with = "permanent")]
        retry_after: Option<String>,
    },
    /// Give it back; no attempt is used
    Release {
        #[command(flatten)]
        delivery: Delivery,
        /// Not before this time has passed
        #[arg(long, value_name = "DURATION")]
        delay: Option<String>,
        /// Why
        #[arg(long)]
        reason: Option<String>,
    },
    /// Keep it hidden longer
    Extend {
        #[command(flatten)]
        delivery: Delivery,
        /// From now on
        #[arg(long, value_name = "DURATION")]
        visibility_timeout: Option<String>,
        /// How far it is, as JSON
        #[arg(long, value_name = "JSON")]
        progress: Option<String>,
    },
}

/// Settles one job.
pub(crate) fn run(args: &Args, ui: Ui) -> Outcome {
    let client = Client::new(&args.remote)?;
    let answer = client.post(&Path::v1(&["settle"]), &entry(&args.outcome)?)?;
    report(&answer, ui)
}

fn entry(settle: &Settle) -> Result<Value, Failure> {
    let (outcome, delivery) = match settle {
        Settle::Ack { delivery, .. } => ("ack", delivery),
        Settle::Fail { delivery, .. } => ("fail", delivery),
        Settle::Release { delivery, .. } => ("release", delivery),
        Settle::Extend { delivery, .. } => ("extend", delivery),
    };
    let mut entry = Map::new();
    entry.insert("id".to_owned(), json!(delivery.id));
    entry.insert("receipt".to_owned(), json!(delivery.receipt));
    entry.insert("outcome".to_owned(), json!(outcome));
    let mut put = |member: &str, value: Option<Value>| {
        if let Some(value) = value {
            entry.insert(member.to_owned(), value);
        }
    };
    match settle {
        Settle::Ack { result, .. } => put("result", json_of("--result", result.as_deref())?),
        Settle::Fail { message, kind, permanent, retry_after, .. } => {
            let mut error = json!({ "message": message, "retryable": !permanent });
            if let Some(kind) = kind {
                error["kind"] = json!(kind);
            }
            if let Some(after) = retry_after {
                error["retryAfter"] = json!(after);
            }
            put("error", Some(error));
        }
        Settle::Release { delay, reason, .. } => {
            put("delay", delay.clone().map(Value::from));
            put("reason", reason.clone().map(Value::from));
        }
        Settle::Extend { visibility_timeout, progress, .. } => {
            put("visibilityTimeout", visibility_timeout.clone().map(Value::from));
            put("progress", json_of("--progress", progress.as_deref())?);
        }
    }
    Ok(Value::Object(entry))
}

fn json_of(flag: &str, text: Option<&str>) -> Result<Option<Value>, Failure> {
    text.map(serde_json::from_str).transpose().map_err(|error| {
        Failure::bad_data(format!("{flag} is not JSON: {error}; a string needs its quotes, like '\"text\"'"))
    })
}

/// Prints what became of each entry; one that was refused makes the command fail.
pub(crate) fn report(answer: &Answer, ui: Ui) -> Outcome {
    let value = answer.value()?;
    let entries = list(&value, "settled");
    ui.answer(&answer.text, |_| entries.iter().map(one).collect::<Vec<_>>().join("\n"))?;
    let all = entries.iter().all(|entry| entry.get("ok") == Some(&Value::Bool(true)));
    Ok(if all { Exit::Ok } else { Exit::CheckFailed })
}

fn one(entry: &Value) -> String {
    let id = cell(entry, "id");
    if let Some(problem) = entry.get("problem") {
        return format!("{id} refused\n{}", describe(problem));
    }
    let repeated = entry.get("repeated") == Some(&Value::Bool(true));
    let again = if repeated { " (it was already)" } else { "" };
    match entry.get("visibleAt").and_then(Value::as_str) {
        Some(until) => format!("{id} hidden until {until}"),
        None => format!("{id} settled{again}"),
    }
}
