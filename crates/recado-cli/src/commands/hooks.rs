//! `recado hooks`: what other services may send, and what becomes of it.

use std::path::PathBuf;
use std::time::Duration;

use clap::Subcommand;
use serde_json::Value;

use super::queues::read_config;
use crate::client::{Body, Client, Path, Remote};
use crate::failure::{Exit, Outcome};
use crate::ui::{Table, Ui, cell, list};

/// The list, or one hook.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Hooks>,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Subcommand)]
enum Hooks {
    /// List the hooks (also without a subcommand)
    List,
    /// Show a hook
    Show {
        #[arg(value_name = "HOOK")]
        name: String,
    },
    /// Create or replace a hook
    #[command(
        after_help = "Example of a file:\n  {\"queue\": \"billing\", \"type\": \"stripe.event\", \"scheme\": \"stripe\",\n   \
                            \"secrets\": [\"env:STRIPE_SECRET\"], \"only\": {\"/type\": [\"invoice.paid\"]},\n   \
                            \"payload\": {\"event\": \"/id\", \"invoice\": \"/data/object/id\"}}\n\
                            The server must have been started with STRIPE_SECRET in its environment."
    )]
    Put {
        #[arg(value_name = "HOOK")]
        name: String,
        /// What it is, as JSON (- for standard input)
        file: PathBuf,
    },
    /// Remove a hook; the jobs that it made stay
    Remove {
        #[arg(value_name = "HOOK")]
        name: String,
    },
}

/// Runs one of them.
pub(crate) fn run(args: &Args, ui: Ui) -> Outcome {
    let client = Client::new(&args.remote)?;
    match &args.command {
        None | Some(Hooks::List) => {
            let answer = client.get(&Path::v1(&["hooks"]))?;
            let all = answer.value()?;
            ui.answer(&answer.text, |_| table(&all))?;
        }
        Some(Hooks::Show { name }) => {
            let answer = client.get(&path(name))?;
            ui.answer(&answer.text, |_| answer.text.clone())?;
        }
        Some(Hooks::Put { name, file }) => {
            let body = Body::Json(read_config(file)?.to_string().into_bytes());
            let answer = client.send("PUT", &path(name), body, &[], Duration::ZERO)?;
            ui.answer(&answer.text, |_| format!("{name} takes what is sent to /v1/hooks/{name}"))?;
        }
        Some(Hooks::Remove { name }) => {
            let answer = client.delete(&path(name))?;
            ui.answer(&answer.text, |_| format!("{name} takes nothing any more"))?;
        }
    }
    Ok(Exit::Ok)
}

fn path(name: &str) -> Path {
    Path::v1(&["hooks", name])
}

fn table(all: &Value) -> String {
    let mut table = Table::new(&["HOOK", "SCHEME", "QUEUE", "TYPE", "SECRETS"]);
    for hook in list(all, "hooks") {
        let config = hook.get("config").unwrap_or(&Value::Null);
        let is_missing = |secret: &&Value| secret.get("set") != Some(&Value::Bool(true));
        let missing: Vec<String> =
            list(hook, "secrets").iter().filter(is_missing).map(|secret| cell(secret, "variable")).collect();
        let secrets = if missing.is_empty() { "set".to_owned() } else { format!("missing: {}", missing.join(", ")) };
        table.row(vec![
            cell(hook, "name"),
            cell(config, "scheme"),
            cell(config, "queue"),
            cell(config, "type"),
            secrets,
        ]);
    }
    table.render("no hook yet: see `recado hooks put --help`")
}
