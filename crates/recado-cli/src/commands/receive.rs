//! `recado receive QUEUE...`: takes jobs by hand.

use std::time::Duration;

use recado_contract::duration;
use serde_json::{Map, Value, json};

use super::settle;
use crate::client::{Answer, Client, Path, Remote};
use crate::failure::{Exit, Failure, Outcome};
use crate::ui::{Ui, cell, list, plain};

/// From which queues, how many, how long.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  recado receive email --wait 20s\n  \
    recado receive critical email           the first queue that has a job\n  \
    recado receive critical=5 email=1       by weight")]
pub(crate) struct Args {
    /// Queues, in order; or NAME=WEIGHT
    #[arg(required = true, value_name = "QUEUE")]
    queues: Vec<String>,
    /// How many jobs at most
    #[arg(long, value_name = "N")]
    max: Option<u32>,
    /// Wait this long for a job, up to 60s
    #[arg(long, value_name = "DURATION", value_parser = wait)]
    wait: Option<String>,
    /// Only these types, like mail.send@1-3; separated by commas
    #[arg(long, value_name = "TYPE", value_delimiter = ',')]
    types: Vec<String>,
    /// Name of this worker
    #[arg(long, value_name = "NAME")]
    worker: Option<String>,
    /// How long the jobs stay hidden
    #[arg(long, value_name = "DURATION")]
    visibility_timeout: Option<String>,
    /// The same id again within 5 minutes gets the same jobs again
    #[arg(long, value_name = "ID")]
    attempt_id: Option<String>,
    /// Ack what was received at once, after it is printed
    #[arg(long)]
    ack: bool,
    #[command(flatten)]
    remote: Remote,
}

fn wait(text: &str) -> Result<String, String> {
    duration::read(text).map(|_| text.to_owned())
}

/// Receives, prints, and acks if asked to.
pub(crate) fn run(args: &Args, ui: Ui) -> Outcome {
    let client = Client::new(&args.remote)?;
    let answer = receive(&client, args)?;
    ui.answer(&answer.text, human)?;
    if !args.ack {
        return Ok(Exit::Ok);
    }
    let acks: Vec<Value> = list(&answer.value()?, "jobs").iter().map(ack).collect();
    if acks.is_empty() {
        return Ok(Exit::Ok);
    }
    let settled = client.post(&Path::v1(&["settle"]), &acks)?;
    settle::report(&settled, ui)
}

fn ack(job: &Value) -> Value {
    json!({ "id": job.get("id"), "receipt": job.get("receipt"), "outcome": "ack" })
}

fn receive(client: &Client, args: &Args) -> Result<Answer, Failure> {
    let mut body = Map::new();
    let mut put = |member: &str, value: Option<Value>| {
        if let Some(value) = value {
            body.insert(member.to_owned(), value);
        }
    };
    put("max", args.max.map(Value::from));
    put("wait", args.wait.clone().map(Value::from));
    put("worker", args.worker.clone().map(Value::from));
    put("visibilityTimeout", args.visibility_timeout.clone().map(Value::from));
    put("attemptId", args.attempt_id.clone().map(Value::from));
    put("types", (!args.types.is_empty()).then(|| json!(args.types)));
    let path = match args.queues.as_slice() {
        [queue] if !queue.contains('=') => Path::v1(&["queues", queue, "receive"]),
        queues if queues.iter().any(|queue| queue.contains('=')) => {
            put("weights", Some(weights(queues)?.into_iter().collect()));
            Path::v1(&["receive"])
        }
        queues => {
            put("queues", Some(json!(queues)));
            put("order", Some(json!("strict")));
            Path::v1(&["receive"])
        }
    };
    let wait = args.wait.as_deref().and_then(|text| duration::read(text).ok());
    Ok(client.post_waiting(&path, &body, wait.unwrap_or(Duration::ZERO))?)
}

/// `NAME=WEIGHT` each; a weight that is left out is 1.
pub(crate) fn weights(queues: &[String]) -> Result<Vec<(&str, u32)>, Failure> {
    queues.iter().map(|queue| weighed(queue)).collect()
}

fn weighed(queue: &str) -> Result<(&str, u32), Failure> {
    let (name, weight) = queue.split_once('=').unwrap_or((queue, "1"));
    let wrong = |_| Failure::usage(format!("{queue}: the weight is a whole number, like {name}=5"));
    Ok((name, weight.parse().map_err(wrong)?))
}

fn human(answer: &Value) -> String {
    let jobs = list(answer, "jobs");
    if jobs.is_empty() {
        return match answer.get("emptyBecause").and_then(Value::as_str) {
            Some(reason) => format!("no job: held back by {reason}"),
            None => "no job".to_owned(),
        };
    }
    jobs.iter().map(one).collect::<Vec<_>>().join("\n")
}

fn one(job: &Value) -> String {
    let payload = job.get("payload").map(plain).unwrap_or_default();
    format!(
        "{} {} (queue {}, attempt {} of {})\n  payload  {payload}\n  receipt  {}\n  hidden until {}\n",
        cell(job, "id"),
        cell(job, "type"),
        cell(job, "queue"),
        cell(job, "attempts"),
        cell(job, "maxAttempts"),
        cell(job, "receipt"),
        cell(job, "visibleAt"),
    )
}
