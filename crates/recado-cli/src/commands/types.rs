//! `recado types`: schemas of job types, and which versions still have jobs.

use std::path::PathBuf;
use std::time::Duration;

use clap::Subcommand;
use serde_json::{Value, json};

use super::queues::read_config;
use crate::client::{Body, Client, Path, Remote};
use crate::failure::{Exit, Failure, Outcome};
use crate::ui::{Table, Ui, cell, list};

/// The list, or one version.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Types>,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Subcommand)]
enum Types {
    /// List the types that have a schema (also without a subcommand)
    List,
    /// Show the schema of a version
    Show {
        #[arg(value_name = "TYPE")]
        name: String,
        /// Version
        #[arg(default_value_t = 1)]
        version: u32,
    },
    /// Give a version its schema (JSON Schema 2020-12)
    Put {
        #[arg(value_name = "TYPE")]
        name: String,
        /// Version
        version: u32,
        /// The schema (- for standard input)
        file: PathBuf,
    },
    /// Take the schema of a version away, once it has no jobs
    Remove {
        #[arg(value_name = "TYPE")]
        name: String,
        /// Version
        version: u32,
    },
    /// Say which versions still have jobs that workers must be able to do
    #[command(after_help = "Exits with 1 while one of the asked versions still has jobs.\n\n\
                            Examples:\n  recado types drain\n  recado types drain email.send --version 1")]
    Drain {
        /// Only this type
        #[arg(value_name = "TYPE")]
        name: Option<String>,
        /// Only this version
        #[arg(long = "version", requires = "name", value_name = "N")]
        number: Option<u32>,
    },
}

/// Runs one of them.
pub(crate) fn run(args: &Args, ui: Ui) -> Outcome {
    let client = Client::new(&args.remote)?;
    match &args.command {
        None | Some(Types::List) => {
            let all = all(&client)?;
            ui.answer(&json!({ "types": all }).to_string(), |_| table(&rows(&all)))?;
            Ok(Exit::Ok)
        }
        Some(Types::Show { name, version }) => {
            let answer = client.get(&path(name, *version))?;
            ui.answer(&answer.text, |_| answer.text.clone())?;
            Ok(Exit::Ok)
        }
        Some(Types::Put { name, version, file }) => {
            let body = Body::Json(read_config(file)?.to_string().into_bytes());
            let answer = client.send("PUT", &path(name, *version), body, &[], Duration::ZERO)?;
            ui.answer(&answer.text, |_| format!("{name} version {version} has its schema"))?;
            Ok(Exit::Ok)
        }
        Some(Types::Remove { name, version }) => {
            let answer = client.delete(&path(name, *version))?;
            ui.answer(&answer.text, |_| format!("{name} version {version} has no schema any more"))?;
            Ok(Exit::Ok)
        }
        Some(Types::Drain { name, number }) => drain(&client, ui, name.as_deref(), *number),
    }
}

fn path(name: &str, version: u32) -> Path {
    Path::v1(&["types", name, "versions", &version.to_string()])
}

/// Every type, over all pages.
fn all(client: &Client) -> Result<Vec<Value>, Failure> {
    let (mut all, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let page = client.get(&Path::v1(&["types"]).query("cursor", cursor.as_deref()))?.value()?;
        all.extend_from_slice(list(&page, "types"));
        cursor = page.get("cursor").and_then(Value::as_str).map(str::to_owned);
        if cursor.is_none() {
            return Ok(all);
        }
    }
}

/// Type and version, one a row.
fn rows(types: &[Value]) -> Vec<(String, Value)> {
    let versions = |it: &Value| {
        let name = cell(it, "type");
        list(it, "versions").iter().map(|version| (name.clone(), version.clone())).collect::<Vec<_>>()
    };
    types.iter().flat_map(versions).collect()
}

fn table(rows: &[(String, Value)]) -> String {
    let mut table = Table::new(&["TYPE", "VERSION", "JOBS", "SCHEMA"]);
    for (name, version) in rows {
        table.row(vec![name.clone(), cell(version, "version"), cell(version, "jobs"), cell(version, "source")]);
    }
    table.render("no type has a schema yet: see `recado types put --help`")
}

fn drain(client: &Client, ui: Ui, name: Option<&str>, version: Option<u32>) -> Outcome {
    let number = |row: &Value, member: &str| row.get(member).and_then(Value::as_u64).unwrap_or(0);
    let mut rows = rows(&all(client)?);
    if let Some(name) = name.filter(|name| !rows.iter().any(|(known, _)| known == name)) {
        return Err(Failure::new(Exit::CheckFailed, format!("no version of `{name}` has a schema")));
    }
    rows.retain(|(kind, row)| {
        let is_asked = name.is_none_or(|name| kind == name)
            && version.is_none_or(|version| number(row, "version") == u64::from(version));
        is_asked && number(row, "jobs") > 0
    });
    let entry = |(name, row): &(String, Value)| json!({ "type": name, "version": number(row, "version"), "jobs": number(row, "jobs") });
    let answer = json!({ "drained": rows.is_empty(), "versions": rows.iter().map(entry).collect::<Vec<_>>() });
    ui.answer(&answer.to_string(), |_| match rows.is_empty() {
        true => "drained: no job is left of these versions\n".to_owned(),
        false => table(&rows),
    })?;
    Ok(if rows.is_empty() { Exit::Ok } else { Exit::CheckFailed })
}
