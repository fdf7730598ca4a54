//! `recado queues`: the table of queues, and what can be done with one.

use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use clap::Subcommand;
use serde_json::{Map, Value, json};

use crate::client::{Answer, Body, CallError, Client, Path, Remote};
use crate::failure::{Exit, Failure, Outcome};
use crate::ui::{Table, Ui, cell, list, plain};

/// The list, or one queue.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Queues>,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Subcommand)]
enum Queues {
    /// List the queues (also without a subcommand)
    List {
        /// How many a page, up to 1000
        #[arg(long, default_value_t = 1_000)]
        limit: u32,
        /// Where the last page ended
        #[arg(long)]
        cursor: Option<String>,
    },
    /// Show the configuration of a queue
    Show { name: String },
    /// Change options of a queue, or create it
    #[command(after_help = "Examples:\n  recado queues set email visibilityTimeout=30s maxAttempts=3\n  \
                            recado queues set email groups.ordered=true maxInFlight=null\n  \
                            recado queues set email --file email.json")]
    Set {
        name: String,
        /// OPTION=VALUE; a dot goes into an option, null takes it back to its default
        #[arg(value_name = "OPTION=VALUE", required_unless_present = "file")]
        options: Vec<String>,
        /// Replace the whole configuration by a JSON file (- for standard input)
        #[arg(long, value_name = "FILE", conflicts_with = "options")]
        file: Option<PathBuf>,
    },
    /// Stop handing out jobs; enqueue and settle go on
    Pause {
        name: String,
        /// Why, for those who wonder
        #[arg(long)]
        reason: Option<String>,
    },
    /// Hand out jobs again
    Resume {
        name: String,
        /// Why
        #[arg(long)]
        reason: Option<String>,
    },
    /// Remove waiting jobs; dead ones stay
    Purge {
        name: String,
        /// Which: ready, delayed, blocked; separated by commas
        #[arg(long, value_delimiter = ',')]
        states: Vec<String>,
        /// Why, for the record
        #[arg(long)]
        reason: Option<String>,
    },
    /// Delete a queue
    Delete {
        name: String,
        /// Also with jobs in it
        #[arg(long)]
        force: bool,
    },
    /// Depth, ages, rates, times and consumers of a queue
    Stats { name: String },
}

/// Runs one of them.
pub(crate) fn run(args: &Args, ui: Ui) -> Outcome {
    let client = Client::new(&args.remote)?;
    match &args.command {
        None => list_queues(&client, ui, 1_000, None),
        Some(Queues::List { limit, cursor }) => list_queues(&client, ui, *limit, cursor.as_deref()),
        Some(Queues::Show { name }) => {
            let answer = client.get(&Path::v1(&["queues", name]))?;
            ui.answer(&answer.text, show)?;
            Ok(Exit::Ok)
        }
        Some(Queues::Set { name, options, file }) => set(&client, ui, name, options, file.as_ref()),
        Some(Queues::Pause { name, reason }) => act(&client, ui, name, "pause", reason.as_deref()),
        Some(Queues::Resume { name, reason }) => act(&client, ui, name, "resume", reason.as_deref()),
        Some(Queues::Purge { name, states, reason }) => purge(&client, ui, name, states, reason.as_deref()),
        Some(Queues::Delete { name, force }) => {
            let path = Path::v1(&["queues", name]).query("force", force.then_some("true"));
            let answer = client.delete(&path)?;
            done(ui, &answer, &format!("queue {name} deleted"))
        }
        Some(Queues::Stats { name }) => {
            let answer = client.get(&Path::v1(&["queues", name, "stats"]))?;
            ui.answer(&answer.text, stats)?;
            Ok(Exit::Ok)
        }
    }
}

fn list_queues(client: &Client, ui: Ui, limit: u32, cursor: Option<&str>) -> Outcome {
    let path = Path::v1(&["queues"]).query("limit", Some(limit.to_string())).query("cursor", cursor);
    let answer = client.get(&path)?;
    ui.answer(&answer.text, |value| {
        let mut table =
            Table::new(&["QUEUE", "READY", "DELAYED", "IN FLIGHT", "DEAD", "OLDEST", "FAILURES", "STATE", "SOURCE"]);
        for queue in list(value, "queues") {
            let stats = queue.get("stats").unwrap_or(&Value::Null);
            let paused = queue.get("paused").is_some_and(is_set);
            table.row(vec![
                cell(queue, "name"),
                cell(stats, "ready"),
                cell(stats, "delayed"),
                cell(stats, "inFlight"),
                cell(stats, "dead"),
                cell(stats, "oldestJobAge"),
                share(stats.get("failureRate")),
                if paused { "paused" } else { "open" }.to_owned(),
                cell(queue, "source"),
            ]);
        }
        table.render("no queues yet: the first enqueue creates one") + &more(value)
    })?;
    Ok(Exit::Ok)
}

/// What to type for the next page.
pub(crate) fn more(page: &Value) -> String {
    match page.get("cursor").and_then(Value::as_str) {
        Some(cursor) => format!("more with --cursor {cursor}\n"),
        None => String::new(),
    }
}

/// `paused` is false, null, true, or an object that says since when and why.
fn is_set(value: &Value) -> bool {
    !matches!(value, Value::Null | Value::Bool(false))
}

fn share(value: Option<&Value>) -> String {
    match value.and_then(Value::as_f64) {
        Some(share) => format!("{:.1} %", share * 100.0),
        None => "-".to_owned(),
    }
}

fn show(value: &Value) -> String {
    let mut text = format!("queue {} (source {})\n", cell(value, "name"), cell(value, "source"));
    if value.get("paused").is_some_and(is_set) {
        text.push_str("paused\n");
    }
    for warning in list(value, "warnings") {
        text.push_str(&format!("warning: {}\n", plain(warning)));
    }
    if let Some(redrive) = value.pointer("/sqs/redrive").filter(|redrive| redrive.is_object()) {
        let (target, receives) = (cell(redrive, "target"), cell(redrive, "maxReceives"));
        text.push_str(&format!("hands off to {target} after {receives} receives\n"));
    }
    if let Some(retention) = value.pointer("/sqs/retention").and_then(Value::as_str) {
        text.push_str(&format!("jobs expire {retention} after they were enqueued\n"));
    }
    let mut table = Table::new(&["OPTION", "IN EFFECT", "SET TO"]);
    let config = value.get("config").unwrap_or(&Value::Null);
    if let Some(effective) = value.get("effective").and_then(Value::as_object) {
        for (option, value) in effective {
            table.row(vec![option.clone(), plain(value), config.get(option).map(plain).unwrap_or_default()]);
        }
    }
    text + "\n" + &table.render("no options")
}

fn stats(value: &Value) -> String {
    let mut table = Table::new(&["FIGURE", "VALUE"]);
    for (name, value) in value.as_object().into_iter().flatten() {
        match value {
            Value::Object(members) if members.is_empty() => {}
            Value::Object(members) => {
                for (member, value) in members {
                    table.row(vec![format!("{name}.{member}"), plain(value)]);
                }
            }
            Value::Array(entries) => {
                for entry in entries {
                    table.row(vec![name.clone(), members(entry)]);
                }
            }
            other => table.row(vec![name.clone(), plain(other)]),
        }
    }
    table.render("no figures")
}

/// What stands in an entry of a list, on one line.
fn members(entry: &Value) -> String {
    let Some(members) = entry.as_object() else { return plain(entry) };
    let member = |(name, value): (&String, &Value)| match value.as_array() {
        Some(values) => format!("{name} {}", values.iter().map(plain).collect::<Vec<_>>().join(" ")),
        None => format!("{name} {}", plain(value)),
    };
    members.iter().map(member).collect::<Vec<_>>().join(", ")
}

fn act(client: &Client, ui: Ui, name: &str, verb: &str, reason: Option<&str>) -> Outcome {
    let answer = client.post(&Path::v1(&["queues", name, verb]), &with_reason(Map::new(), reason))?;
    done(ui, &answer, &format!("queue {name}: {verb}d"))
}

fn purge(client: &Client, ui: Ui, name: &str, states: &[String], reason: Option<&str>) -> Outcome {
    let mut body = Map::new();
    if !states.is_empty() {
        body.insert("states".to_owned(), json!(states));
    }
    let answer = client.post(&Path::v1(&["queues", name, "purge"]), &with_reason(body, reason))?;
    ui.answer(&answer.text, |value| format!("{} jobs purged from {name}", cell(value, "purged")))?;
    Ok(Exit::Ok)
}

/// Adds the reason, when there is one.
pub(crate) fn with_reason(mut body: Map<String, Value>, reason: Option<&str>) -> Value {
    if let Some(reason) = reason {
        body.insert("reason".to_owned(), json!(reason));
    }
    Value::Object(body)
}

/// An answer whose body may be empty.
fn done(ui: Ui, answer: &Answer, text: &str) -> Outcome {
    match (ui.json, answer.text.trim().is_empty()) {
        (true, false) => ui.line(answer.text.trim_end())?,
        (true, true) => ui.line("{}")?,
        (false, _) => ui.line(text)?,
    }
    Ok(Exit::Ok)
}

/// A change is made to what is there: the options named, no others, and only if nobody else changed
/// the queue in between.
fn set(client: &Client, ui: Ui, name: &str, options: &[String], file: Option<&PathBuf>) -> Outcome {
    let path = Path::v1(&["queues", name]);
    let (config, etag) = match file {
        Some(file) => (read_config(file)?, None),
        None => match client.get(&path) {
            Ok(answer) => (answer.value()?.get("config").cloned().unwrap_or(json!({})), answer.etag),
            Err(CallError::Refused(problem)) if problem.status == 404 => (json!({}), None),
            Err(error) => return Err(error.into()),
        },
    };
    let mut config = config;
    for option in options {
        let (pointer, value) = option
            .split_once('=')
            .ok_or_else(|| Failure::usage(format!("{option}: write OPTION=VALUE, like maxAttempts=3")))?;
        let value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
        assign(&mut config, pointer, value);
    }
    let headers = etag.as_deref().map(|etag| ("if-match", etag));
    let body = Body::Json(config.to_string().into_bytes());
    let answer = client.send("PUT", &path, body, headers.as_slice(), Duration::ZERO)?;
    ui.answer(&answer.text, show)?;
    Ok(Exit::Ok)
}

/// Reads JSON from a file, or from standard input.
pub(crate) fn read_config(file: &PathBuf) -> Result<Value, Failure> {
    let text = read_text(file)?;
    serde_json::from_str(&text).map_err(|error| Failure::bad_data(format!("{} is not JSON: {error}", file.display())))
}

/// Reads a file, or standard input.
pub(crate) fn read_text(file: &PathBuf) -> Result<String, Failure> {
    let mut text = String::new();
    let read = if file.as_os_str() == "-" {
        std::io::stdin().lock().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(file)
    };
    read.map_err(|error| Failure::io(format!("cannot read {}", file.display()), &error))
}

/// Sets what `pointer` names; null removes it.
fn assign(config: &mut Value, pointer: &str, value: Value) {
    let mut place = config;
    let mut names = pointer.split('.').peekable();
    while let Some(name) = names.next() {
        if !place.is_object() {
            *place = json!({});
        }
        if names.peek().is_none() {
            if let Some(members) = place.as_object_mut() {
                if value.is_null() {
                    members.remove(name);
                } else {
                    members.insert(name.to_owned(), value);
                }
            }
            return;
        }
        place = &mut place[name];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_set_in_place() {
        let mut config = json!({ "maxAttempts": 5, "groups": { "fair": true }, "rateLimit": { "jobs": 1 } });
        assign(&mut config, "maxAttempts", json!(3));
        assign(&mut config, "groups.ordered", json!(true));
        assign(&mut config, "breaker.minJobs", json!(7));
        assign(&mut config, "rateLimit", Value::Null);
        assert_eq!(
            config,
            json!({ "maxAttempts": 3, "groups": { "fair": true, "ordered": true }, "breaker": { "minJobs": 7 } })
        );
    }
}
