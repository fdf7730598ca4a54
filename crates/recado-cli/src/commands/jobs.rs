//! `recado jobs`: finds, shows and cancels jobs.

use std::time::Duration;

use clap::Subcommand;
use recado_contract::duration;
use serde_json::{Map, Value, json};

use super::queues::{more, with_reason};
use crate::client::{Client, Path, Remote};
use crate::failure::{Exit, Failure, Outcome};
use crate::ui::{Table, Ui, cell, list, plain, printable};

/// `jobs QUEUE` lists; the rest has its own words.
#[derive(clap::Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Jobs>,
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Subcommand)]
enum Jobs {
    /// List jobs of a queue (also without this word)
    List(Box<ListArgs>),
    /// Show one job
    Show {
        id: String,
        /// Wait up to this long for its end
        #[arg(long, value_name = "DURATION")]
        wait: Option<String>,
    },
    /// Cancel jobs
    Cancel {
        /// Ids of the jobs
        #[arg(required_unless_present = "business_id", conflicts_with = "business_id")]
        ids: Vec<String>,
        /// All jobs of this business object
        #[arg(long, value_name = "ID")]
        business_id: Option<String>,
        /// Why, for the record
        #[arg(long)]
        reason: Option<String>,
    },
}

/// Which jobs of which queue.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct ListArgs {
    /// Queue; left out, --business-id searches all queues
    #[arg(value_name = "QUEUE", required_unless_present = "business_id")]
    queue: Option<String>,
    /// States, separated by commas
    #[arg(long, value_name = "STATE")]
    state: Option<String>,
    #[command(flatten)]
    filter: Filter,
    /// Print payloads too
    #[arg(long)]
    payload: bool,
}

/// What `jobs` and `dlq list` can look for.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct Filter {
    /// Jobs of this type
    #[arg(long = "type", value_name = "TYPE")]
    job_type: Option<String>,
    /// Jobs of this group
    #[arg(long)]
    group: Option<String>,
    /// Jobs of this business object
    #[arg(long, value_name = "ID")]
    business_id: Option<String>,
    /// The job with this deduplication key
    #[arg(long, value_name = "KEY")]
    dedup_key: Option<String>,
    /// Jobs with this idempotency key
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Jobs whose last error is of this kind
    #[arg(long)]
    kind: Option<String>,
    /// Before this time (RFC 3339)
    #[arg(long, value_name = "TIME")]
    before: Option<String>,
    /// After this time (RFC 3339)
    #[arg(long, value_name = "TIME")]
    after: Option<String>,
    /// How many a page, up to 1000
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
    /// Where the last page ended
    #[arg(long)]
    cursor: Option<String>,
}

impl Filter {
    /// As query parameters.
    pub(crate) fn apply(&self, path: Path) -> Path {
        path.query("type", self.job_type.as_ref())
            .query("group", self.group.as_ref())
            .query("businessId", self.business_id.as_ref())
            .query("dedupKey", self.dedup_key.as_ref())
            .query("idempotencyKey", self.idempotency_key.as_ref())
            .query("kind", self.kind.as_ref())
            .query("before", self.before.as_ref())
            .query("after", self.after.as_ref())
            .query("limit", self.limit.map(|limit| limit.to_string()))
            .query("cursor", self.cursor.as_ref())
    }
}

/// Runs one of them.
pub(crate) fn run(args: &Args, ui: Ui) -> Outcome {
    let client = Client::new(&args.remote)?;
    match &args.command {
        None => list_jobs(&client, ui, &args.list),
        Some(Jobs::List(list)) => list_jobs(&client, ui, list),
        Some(Jobs::Show { id, wait }) => show(&client, ui, id, wait.as_deref()),
        Some(Jobs::Cancel { ids, business_id, reason }) => {
            cancel(&client, ui, ids, business_id.as_deref(), reason.as_deref())
        }
    }
}

fn list_jobs(client: &Client, ui: Ui, args: &ListArgs) -> Outcome {
    let path = match &args.queue {
        Some(queue) => Path::v1(&["queues", queue, "jobs"]),
        None => Path::v1(&["jobs"]),
    };
    let path =
        args.filter.apply(path.query("state", args.state.as_ref())).query("payload", args.payload.then_some("true"));
    let answer = client.get(&path)?;
    ui.answer(&answer.text, |value| {
        let mut headings = vec!["JOB", "TYPE", "STATE", "ATTEMPTS", "DUE", "HELD BACK"];
        if args.payload {
            headings.push("PAYLOAD");
        }
        let mut table = Table::new(&headings);
        for job in list(value, "jobs") {
            let mut row = vec![
                cell(job, "id"),
                cell(job, "type"),
                cell(job, "state"),
                format!("{}/{}", cell(job, "attempts"), cell(job, "maxAttempts")),
                cell(job, "runAt"),
                cell(job, "heldBack"),
            ];
            if args.payload {
                row.push(job.get("payload").map(plain).unwrap_or_default());
            }
            table.row(row);
        }
        table.render("no such jobs\n") + &more(value)
    })?;
    Ok(Exit::Ok)
}

/// Shows one job, after its end if asked to wait for it.
pub(crate) fn show(client: &Client, ui: Ui, id: &str, wait: Option<&str>) -> Outcome {
    let patience = match wait {
        Some(text) => duration::read(text).map_err(|why| Failure::usage(format!("--wait: {why}")))?,
        None => Duration::ZERO,
    };
    let answer = client.get_waiting(&Path::v1(&["jobs", id]).query("wait", wait), patience)?;
    ui.answer(&answer.text, describe)?;
    Ok(Exit::Ok)
}

/// Everything about a job, a line a member; what is null is left out.
pub(crate) fn describe(job: &Value) -> String {
    let mut text =
        format!("{} {} in {}: {}\n", cell(job, "id"), cell(job, "type"), cell(job, "queue"), cell(job, "state"));
    for (member, value) in job.as_object().into_iter().flatten() {
        let told = ["id", "type", "queue", "state", "errors"].contains(&member.as_str());
        if !told && !value.is_null() {
            text.push_str(&format!("  {member:<16} {}\n", plain(value)));
        }
    }
    for error in list(job, "errors") {
        text.push_str(&format!(
            "  error in attempt {} at {}: {}: {}\n",
            cell(error, "attempt"),
            cell(error, "at"),
            cell(error, "kind"),
            cell(error, "message")
        ));
    }
    text
}

fn cancel(client: &Client, ui: Ui, ids: &[String], business_id: Option<&str>, reason: Option<&str>) -> Outcome {
    if let ([id], None, None) = (ids, business_id, reason) {
        let answer = client.delete(&Path::v1(&["jobs", id]))?;
        let text =
            if answer.status == 202 { "is in flight: its worker was told, an ack still counts" } else { "cancelled" };
        ui.answer(&answer.text, |_| format!("{} {text}", printable(id)))?;
        return Ok(Exit::Ok);
    }
    let mut body = Map::new();
    match business_id {
        Some(business_id) => body.insert("businessId".to_owned(), json!(business_id)),
        None => body.insert("ids".to_owned(), json!(ids)),
    };
    let answer = client.post(&Path::v1(&["jobs", "cancel"]), &with_reason(body, reason))?;
    ui.answer(&answer.text, |value| {
        let members = value.as_object().into_iter().flatten();
        let lines = members.map(|(member, value)| format!("{member}: {}", plain(value)));
        lines.collect::<Vec<_>>().join("\n")
    })?;
    Ok(Exit::Ok)
}
