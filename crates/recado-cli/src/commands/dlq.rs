//! `recado dlq`: dead letters, listed, understood, replayed, discarded.

use std::thread;
use std::time::Duration;

use clap::Subcommand;
use serde_json::{Map, Value, json};

use super::jobs::{self, Filter};
use super::queues::more;
use crate::client::{CallError, Client, Path, Remote};
use crate::failure::{Exit, Failure, Outcome};
use crate::ui::{Table, Ui, cell, list, plain};

/// Between two looks at a running replay.
const REPLAY_POLL_INTERVAL: Duration = Duration::from_millis(250);

/// What to do with dead letters.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Dlq,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Subcommand)]
enum Dlq {
    /// List dead jobs, newest first
    List {
        /// Queue
        queue: String,
        #[command(flatten)]
        filter: Filter,
    },
    /// Show one dead job with its errors and payload
    Show { id: String },
    /// Print all dead jobs with errors and payloads, one JSON object a line, newest first
    Export {
        /// Queue
        queue: String,
    },
    /// Group dead jobs by what killed them
    Groups {
        /// Queue
        queue: String,
        /// Where the last page ended
        #[arg(long)]
        cursor: Option<String>,
    },
    /// Put dead jobs back in their queue
    #[command(after_help = "Examples:\n  recado dlq replay email job_018f3c5e7b1a7c3d9e2f1a2b3c4d5e6f\n  \
        recado dlq replay email --kind smtp-down --rate 10/s\n  \
        recado dlq replay email --all --dry-run\n  \
        recado dlq replay email --type email.send --patch '{\"templateId\":\"welcome\"}' --wait")]
    Replay(Replay),
    /// Remove dead jobs for good, with a reason for the record
    Discard {
        /// Queue
        queue: String,
        #[command(flatten)]
        selection: Selection,
        /// Why
        #[arg(long)]
        reason: String,
    },
}

#[derive(clap::Args, Debug)]
struct Replay {
    /// Queue
    queue: String,
    #[command(flatten)]
    selection: Selection,
    /// Edit of the payload, as a JSON merge patch
    #[arg(long, value_name = "JSON")]
    patch: Option<String>,
    /// At most this many, like 10/s
    #[arg(long)]
    rate: Option<String>,
    /// Only say what would happen
    #[arg(long)]
    dry_run: bool,
    /// Stop when this many of the first ten fail again
    #[arg(long, value_name = "N")]
    halt_after: Option<u32>,
    /// Run also what has a saved result
    #[arg(long)]
    ignore_key: bool,
    /// Also beyond maxReplays
    #[arg(long)]
    force: bool,
    /// Why, for the record
    #[arg(long)]
    reason: Option<String>,
    /// Wait until the replay has ended
    #[arg(long, conflicts_with = "dry_run")]
    wait: bool,
}

/// Which dead jobs: ids, or a filter.
#[derive(clap::Args, Debug)]
struct Selection {
    /// Ids of the jobs
    ids: Vec<String>,
    /// All dead jobs of the queue
    #[arg(long, conflicts_with = "ids")]
    all: bool,
    /// Of this type
    #[arg(long = "type", value_name = "TYPE", conflicts_with_all = ["ids", "all"])]
    job_type: Option<String>,
    /// Killed by this kind of error
    #[arg(long, conflicts_with_all = ["ids", "all"])]
    kind: Option<String>,
    /// Of this group of `dlq groups`
    #[arg(long, conflicts_with_all = ["ids", "all"])]
    fingerprint: Option<String>,
    /// Of this group (tenant, account)
    #[arg(long, conflicts_with_all = ["ids", "all"])]
    group: Option<String>,
    /// Of this business object
    #[arg(long, value_name = "ID", conflicts_with_all = ["ids", "all"])]
    business_id: Option<String>,
    /// Dead before this time (RFC 3339)
    #[arg(long, value_name = "TIME", conflicts_with_all = ["ids", "all"])]
    died_before: Option<String>,
    /// Dead after this time (RFC 3339)
    #[arg(long, value_name = "TIME", conflicts_with_all = ["ids", "all"])]
    died_after: Option<String>,
}

/// Runs one of them.
pub(crate) fn run(args: &Args, ui: Ui) -> Outcome {
    let client = Client::new(&args.remote)?;
    match &args.command {
        Dlq::List { queue, filter } => list_dead(&client, ui, queue, filter),
        Dlq::Show { id } => jobs::show(&client, ui, id, None),
        Dlq::Export { queue } => export(&client, ui, queue),
        Dlq::Groups { queue, cursor } => groups(&client, ui, queue, cursor.as_deref()),
        Dlq::Replay(args) => replay(&client, ui, args),
        Dlq::Discard { queue, selection, reason } => {
            let mut body = selection.body()?;
            body.insert("reason".to_owned(), json!(reason));
            let answer = client.post(&Path::v1(&["queues", queue, "dead", "discard"]), &body)?;
            ui.answer(&answer.text, |value| format!("{} dead jobs discarded from {queue}", cell(value, "discarded")))?;
            Ok(Exit::Ok)
        }
    }
}

fn list_dead(client: &Client, ui: Ui, queue: &str, filter: &Filter) -> Outcome {
    let path = Path::v1(&["queues", queue, "jobs"]).query("state", Some("dead"));
    let answer = client.get(&filter.apply(path))?;
    ui.answer(&answer.text, |value| {
        let mut table = Table::new(&["JOB", "TYPE", "ATTEMPTS", "DIED", "KIND", "LAST ERROR"]);
        for job in list(value, "jobs") {
            let last = list(job, "errors").last().unwrap_or(&Value::Null);
            table.row(vec![
                cell(job, "id"),
                cell(job, "type"),
                cell(job, "attempts"),
                cell(last, "at"),
                cell(last, "kind"),
                cell(last, "message").chars().take(80).collect(),
            ]);
        }
        table.render("no dead jobs\n") + &more(value)
    })?;
    Ok(Exit::Ok)
}

fn export(client: &Client, ui: Ui, queue: &str) -> Outcome {
    let mut cursor = None;
    loop {
        let page = Path::v1(&["queues", queue, "jobs"]).query("state", Some("dead")).query("limit", Some("1000"));
        let page = client.get(&page.query("cursor", cursor.as_deref()))?.value()?;
        for job in list(&page, "jobs") {
            match client.get(&Path::v1(&["jobs", &cell(job, "id")])) {
                // Payloads stay as they were sent: a line break in JSON can only stand between its parts.
                Ok(answer) => ui.line(answer.text.trim_end().replace(['\r', '\n'], " "))?,
                // It was replayed or discarded meanwhile.
                Err(CallError::Refused(problem)) if problem.status == 404 => {}
                Err(error) => return Err(error.into()),
            }
        }
        match page.get("cursor").and_then(Value::as_str) {
            Some(next) => cursor = Some(next.to_owned()),
            None => return Ok(Exit::Ok),
        }
    }
}

fn groups(client: &Client, ui: Ui, queue: &str, cursor: Option<&str>) -> Outcome {
    let path = Path::v1(&["queues", queue, "dead", "groups"]).query("cursor", cursor);
    let answer = client.get(&path)?;
    ui.answer(&answer.text, |value| {
        let mut table = Table::new(&["FINGERPRINT", "COUNT", "TYPE", "KIND", "LAST", "MESSAGE", "NOTE"]);
        for group in list(value, "groups") {
            table.row(vec![
                cell(group, "fingerprint"),
                cell(group, "count"),
                cell(group, "type"),
                cell(group, "kind"),
                cell(group, "last"),
                cell(group, "message").chars().take(60).collect(),
                cell(group, "note"),
            ]);
        }
        table.render("no dead jobs\n") + &more(value)
    })?;
    Ok(Exit::Ok)
}

impl Selection {
    fn body(&self) -> Result<Map<String, Value>, Failure> {
        let mut body = Map::new();
        if !self.ids.is_empty() {
            body.insert("ids".to_owned(), json!(self.ids));
            return Ok(body);
        }
        let mut filter = Map::new();
        if self.all {
            filter.insert("all".to_owned(), json!(true));
        }
        for (member, value) in [
            ("type", &self.job_type),
            ("kind", &self.kind),
            ("fingerprint", &self.fingerprint),
            ("group", &self.group),
            ("businessId", &self.business_id),
            ("diedBefore", &self.died_before),
            ("diedAfter", &self.died_after),
        ] {
            if let Some(value) = value {
                filter.insert(member.to_owned(), json!(value));
            }
        }
        if filter.is_empty() {
            return Err(Failure::usage("which dead jobs? give their ids, a filter like --type or --kind, or --all"));
        }
        body.insert("filter".to_owned(), Value::Object(filter));
        Ok(body)
    }
}

fn replay(client: &Client, ui: Ui, args: &Replay) -> Outcome {
    let mut body = args.selection.body()?;
    let mut put = |member: &str, value: Option<Value>| {
        if let Some(value) = value {
            body.insert(member.to_owned(), value);
        }
    };
    put("payloadPatch", args.patch.as_deref().map(patch).transpose()?);
    put("rate", args.rate.clone().map(Value::from));
    put("dryRun", args.dry_run.then_some(json!(true)));
    put("haltAfter", args.halt_after.map(Value::from));
    put("ignoreKey", args.ignore_key.then_some(json!(true)));
    put("force", args.force.then_some(json!(true)));
    put("reason", args.reason.clone().map(Value::from));
    let mut answer = client.post(&Path::v1(&["queues", &args.queue, "dead", "replay"]), &body)?;
    let mut value = answer.value()?;
    while args.wait && value.get("state").and_then(Value::as_str) == Some("running") {
        thread::sleep(REPLAY_POLL_INTERVAL);
        let id = cell(&value, "id");
        answer = client.get(&Path::v1(&["replays", &id]))?;
        value = answer.value()?;
    }
    ui.answer(&answer.text, describe)?;
    let halted = value.get("state").and_then(Value::as_str) == Some("halted");
    Ok(if halted { Exit::CheckFailed } else { Exit::Ok })
}

fn patch(text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text).map_err(|error| Failure::bad_data(format!("--patch is not JSON: {error}")))
}

fn describe(replay: &Value) -> String {
    let mut lines = Vec::new();
    for (member, value) in replay.as_object().into_iter().flatten() {
        if !value.is_null() {
            lines.push(format!("{member:<12} {}", plain(value)));
        }
    }
    lines.join("\n")
}
