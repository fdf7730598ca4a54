//! `recado schedules`: jobs at given times.

use std::path::PathBuf;
use std::time::Duration;

use clap::Subcommand;
use serde_json::{Map, Value, json};

use super::enqueue::{Job, json_text, payload_text, put, raw};
use super::queues::{more, read_text, with_reason};
use crate::client::{Body, Client, Path, Remote};
use crate::failure::{Exit, Failure, Outcome};
use crate::ui::{Table, Ui, cell, list, plain};

/// The list, or one schedule.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Schedules>,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Subcommand)]
enum Schedules {
    /// List the schedules (also without a subcommand)
    List {
        /// How many a page, up to 1000
        #[arg(long, default_value_t = 1_000)]
        limit: u32,
        /// Where the last page ended
        #[arg(long)]
        cursor: Option<String>,
    },
    /// Show a schedule
    Show { name: String },
    /// Create a schedule or replace its definition
    #[command(after_help = "Examples:\n  \
        recado schedules put nightly-report reports report.build '{\"kind\":\"daily\"}' --cron '0 2 * * *' --time-zone Europe/Berlin\n  \
        recado schedules put sweep cleanup sweep.run --every 15m\n  \
        recado schedules put nightly-report --file nightly-report.json")]
    Put(Box<Put>),
    /// Skip its occurrences until it is resumed
    Pause {
        name: String,
        /// Why, for those who wonder
        #[arg(long)]
        reason: Option<String>,
    },
    /// Let it make jobs again
    Resume {
        name: String,
        /// Why
        #[arg(long)]
        reason: Option<String>,
    },
    /// Make its job now
    Run { name: String },
    /// Say when it is due next
    Next {
        name: String,
        /// How many times, up to 100
        #[arg(short, default_value_t = 5, value_name = "N")]
        n: u32,
    },
    /// Show what became of its last occurrences, newest first
    Occurrences {
        name: String,
        /// How many a page, up to 1000
        #[arg(long, default_value_t = 100)]
        limit: u32,
        /// Where the last page ended
        #[arg(long)]
        cursor: Option<String>,
    },
    /// Remove a schedule; jobs that it made stay
    Delete { name: String },
}

/// A definition.
#[derive(clap::Args, Debug)]
struct Put {
    name: String,
    /// Queue that takes its jobs
    #[arg(required_unless_present = "file", conflicts_with = "file")]
    queue: Option<String>,
    /// Type of the job, like report.build
    #[arg(value_name = "TYPE", required_unless_present = "file")]
    job_type: Option<String>,
    /// Payload as JSON text, or - for standard input
    payload: Option<String>,
    /// When: minute, hour, day of the month, month, weekday; or 6 fields with the second first
    #[arg(long, value_name = "EXPRESSION", conflicts_with_all = ["file", "every"], required_unless_present_any = ["file", "every"])]
    cron: Option<String>,
    /// In equal intervals instead, like 15m
    #[arg(long, value_name = "DURATION", conflicts_with = "file")]
    every: Option<String>,
    /// Time zone of the expression, like Europe/Berlin [default: UTC]
    #[arg(long, value_name = "ZONE", conflicts_with = "file")]
    time_zone: Option<String>,
    /// Where the clock is moved, for fixed hours [default: once]
    #[arg(long, value_parser = ["once", "skip", "both"], conflicts_with = "file")]
    dst: Option<String>,
    /// What becomes of occurrences that were missed [default: one]
    #[arg(long, value_parser = ["one", "none", "all"], conflicts_with = "file")]
    catch_up: Option<String>,
    /// Those missed longer ago are skipped [default: 1h]
    #[arg(long, value_name = "DURATION", conflicts_with = "file")]
    catch_up_window: Option<String>,
    /// While an earlier job of it is unfinished [default: skip]
    #[arg(long, value_parser = ["skip", "allow"], conflicts_with = "file")]
    overlap: Option<String>,
    /// The definition as JSON, with all that a job may have (- for standard input)
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

/// Runs one of them.
pub(crate) fn run(args: &Args, ui: Ui) -> Outcome {
    let client = Client::new(&args.remote)?;
    match &args.command {
        None => list_schedules(&client, ui, 1_000, None),
        Some(Schedules::List { limit, cursor }) => list_schedules(&client, ui, *limit, cursor.as_deref()),
        Some(Schedules::Show { name }) => {
            let answer = client.get(&path(name, &[]))?;
            ui.answer(&answer.text, show)?;
            Ok(Exit::Ok)
        }
        Some(Schedules::Put(args)) => {
            let body = Body::Json(definition(args)?);
            let answer = client.send("PUT", &path(&args.name, &[]), body, &[], Duration::ZERO)?;
            ui.answer(&answer.text, show)?;
            Ok(Exit::Ok)
        }
        Some(Schedules::Pause { name, reason }) => act(&client, ui, name, "pause", reason.as_deref()),
        Some(Schedules::Resume { name, reason }) => act(&client, ui, name, "resume", reason.as_deref()),
        Some(Schedules::Run { name }) => {
            let answer = client.post(&path(name, &["run"]), &json!({}))?;
            ui.answer(&answer.text, |value| match value.get("outcome").and_then(Value::as_str) {
                Some("fired") => format!("schedule {name}: {} enqueued", cell(value, "jobId")),
                _ => format!("schedule {name}: skipped ({}), see {}", cell(value, "reason"), cell(value, "jobId")),
            })?;
            Ok(Exit::Ok)
        }
        Some(Schedules::Next { name, n }) => {
            let answer = client.get(&path(name, &["next"]).query("n", Some(n.to_string())))?;
            ui.answer(&answer.text, |value| match list(value, "next") {
                [] => "never again".to_owned(),
                times => times.iter().map(plain).collect::<Vec<_>>().join("\n"),
            })?;
            Ok(Exit::Ok)
        }
        Some(Schedules::Occurrences { name, limit, cursor }) => {
            let path = path(name, &["occurrences"]).query("limit", Some(limit.to_string()));
            let answer = client.get(&path.query("cursor", cursor.as_deref()))?;
            ui.answer(&answer.text, occurrences)?;
            Ok(Exit::Ok)
        }
        Some(Schedules::Delete { name }) => {
            let answer = client.delete(&path(name, &[]))?;
            ui.answer(&answer.text, |_| format!("schedule {name} deleted"))?;
            Ok(Exit::Ok)
        }
    }
}

fn path(name: &str, rest: &[&str]) -> Path {
    Path::v1(&[&["schedules", name], rest].concat())
}

/// The definition as it is put; the payload byte for byte.
fn definition(args: &Put) -> Result<Vec<u8>, Failure> {
    if let Some(file) = &args.file {
        return Ok(read_text(file)?.into_bytes());
    }
    let mut job = Job::new();
    put(&mut job, "type", args.job_type.as_ref())?;
    if let Some(payload) = &args.payload {
        job.insert("payload", json_text(&payload_text(payload)?, "payload")?);
    }
    let mut definition = Job::new();
    definition.insert("job", raw(&job)?);
    put(&mut definition, "queue", args.queue.as_ref())?;
    put(&mut definition, "cron", args.cron.as_ref())?;
    put(&mut definition, "every", args.every.as_ref())?;
    put(&mut definition, "timeZone", args.time_zone.as_ref())?;
    put(&mut definition, "dst", args.dst.as_ref())?;
    put(&mut definition, "catchUp", args.catch_up.as_ref())?;
    put(&mut definition, "catchUpWindow", args.catch_up_window.as_ref())?;
    put(&mut definition, "overlap", args.overlap.as_ref())?;
    Ok(raw(&definition)?.get().as_bytes().to_vec())
}

fn list_schedules(client: &Client, ui: Ui, limit: u32, cursor: Option<&str>) -> Outcome {
    let path = Path::v1(&["schedules"]).query("limit", Some(limit.to_string())).query("cursor", cursor);
    let answer = client.get(&path)?;
    ui.answer(&answer.text, |value| {
        let mut table = Table::new(&["SCHEDULE", "QUEUE", "TYPE", "WHEN", "NEXT", "LAST", "STATE", "SOURCE"]);
        for schedule in list(value, "schedules") {
            let config = schedule.get("config").unwrap_or(&Value::Null);
            table.row(vec![
                cell(schedule, "name"),
                cell(config, "queue"),
                cell(config.get("job").unwrap_or(&Value::Null), "type"),
                when(config),
                cell(schedule, "next"),
                last(schedule),
                if is_paused(schedule) { "paused" } else { "on" }.to_owned(),
                cell(schedule, "source"),
            ]);
        }
        table.render("no schedules yet: see `recado schedules put --help`") + &more(value)
    })?;
    Ok(Exit::Ok)
}

fn is_paused(schedule: &Value) -> bool {
    schedule.get("paused") == Some(&Value::Bool(true))
}

/// `0 2 * * * Europe/Berlin`, or `every 15m`.
fn when(config: &Value) -> String {
    match config.get("every") {
        Some(every) => format!("every {}", plain(every)),
        None => format!("{} {}", cell(config, "cron"), cell(config, "timeZone")),
    }
}

/// `fired`, or `skipped (overlap)`.
fn last(schedule: &Value) -> String {
    match schedule.get("last") {
        Some(last) if last.is_object() => outcome(last),
        _ => "-".to_owned(),
    }
}

fn outcome(occurrence: &Value) -> String {
    match occurrence.get("reason") {
        Some(Value::String(reason)) => format!("{} ({reason})", cell(occurrence, "outcome")),
        _ => cell(occurrence, "outcome"),
    }
}

fn show(value: &Value) -> String {
    let config = value.get("config").unwrap_or(&Value::Null);
    let mut text = format!("schedule {} (source {})\n", cell(value, "name"), cell(value, "source"));
    if is_paused(value) {
        text.push_str(&format!("paused: {}\n", cell(value, "pausedReason")));
    }
    text.push_str(&format!("next {}, last {}, ", cell(value, "next"), last(value)));
    text.push_str(&format!("{} fired, {} skipped\n\n", cell(value, "fired"), cell(value, "skipped")));
    let mut table = Table::new(&["OPTION", "VALUE"]);
    for (option, value) in config.as_object().into_iter().flatten() {
        table.row(vec![option.clone(), plain(value)]);
    }
    text + &table.render("no options")
}

fn occurrences(value: &Value) -> String {
    let mut table = Table::new(&["SCHEDULED FOR", "BEFORE", "OUTCOME", "JOB"]);
    for occurrence in list(value, "occurrences") {
        table.row(vec![
            cell(occurrence, "scheduledFor"),
            cell(occurrence, "before"),
            outcome(occurrence),
            cell(occurrence, "jobId"),
        ]);
    }
    table.render("it was never due") + &more(value)
}

fn act(client: &Client, ui: Ui, name: &str, verb: &str, reason: Option<&str>) -> Outcome {
    let answer = client.post(&path(name, &[verb]), &with_reason(Map::new(), reason))?;
    ui.answer(&answer.text, |value| format!("schedule {name}: {verb}d, next {}", cell(value, "next")))?;
    Ok(Exit::Ok)
}
