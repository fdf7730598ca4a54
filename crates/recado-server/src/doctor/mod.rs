//! The operating checklist, looked at: each point with its figure and, where it is not well, what to do.
//!
//! [`contract`] judges what is configured and needs no server, [`figures`] what a queue has done, [`machine`] where the
//! server runs. It changes nothing, and no point carries a word of a payload.

mod contract;
mod figures;
mod machine;

use std::collections::BTreeMap;

use recado_core::{QueueOptions, QueueView, Source, Stats};
use recado_shard::Status as ShardStatus;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::options::{self, FieldError};

pub(crate) use machine::Place;

/// How well a point is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = CheckStatus)]
pub enum Status {
    /// As it should be.
    Pass,
    /// It works, and will not for long or not for everybody.
    Warn,
    /// Others should not rely on it.
    Fail,
}

/// One point of the checklist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Check {
    /// The queue that it is about; null is the server.
    pub queue: Option<String>,
    /// Its word, which never changes.
    pub check: &'static str,
    /// How well it is.
    pub status: Status,
    /// What was found.
    pub value: String,
    /// What to do; null where nothing is to be done.
    pub fix: Option<String>,
}

/// The points of one queue, or of the server.
struct Sheet {
    queue: Option<String>,
    checks: Vec<Check>,
}

impl Sheet {
    fn new(queue: Option<&str>) -> Self {
        Self { queue: queue.map(str::to_owned), checks: Vec::new() }
    }

    fn add(&mut self, check: &'static str, status: Status, value: impl Into<String>, fix: Option<String>) {
        self.checks.push(Check { queue: self.queue.clone(), check, status, value: value.into(), fix });
    }

    fn pass(&mut self, check: &'static str, value: impl Into<String>) {
        self.add(check, Status::Pass, value, None);
    }

    fn warn(&mut self, check: &'static str, value: impl Into<String>, fix: impl Into<String>) {
        self.add(check, Status::Warn, value, Some(fix.into()));
    }

    fn fail(&mut self, check: &'static str, value: impl Into<String>, fix: impl Into<String>) {
        self.add(check, Status::Fail, value, Some(fix.into()));
    }
}

/// The queue of the points that hold for every queue that a file does not name.
const ANY_QUEUE: &str = "*";

/// Judges options of queues over their defaults, without a server: of those that are named, and of any other.
///
/// # Errors
/// What is wrong with an option.
pub fn of_options(defaults: &Value, queues: &BTreeMap<String, Value>) -> Result<Vec<Check>, Vec<FieldError>> {
    let defaults = options::parse(defaults)?;
    let mut checks = Vec::new();
    let mut judge = |name: &str, options: &QueueOptions| {
        let mut sheet = Sheet::new(Some(name));
        contract::judge(&options.settings(&defaults), &mut sheet);
        checks.append(&mut sheet.checks);
    };
    if queues.is_empty() {
        judge(ANY_QUEUE, &QueueOptions::default());
    }
    for (name, options) in queues {
        judge(name, &options::parse(options)?);
    }
    Ok(checks)
}

/// Judges a queue of a server by what is configured and by its figures.
pub(crate) fn of_queue(view: &QueueView, stats: &Stats) -> Vec<Check> {
    let mut sheet = Sheet::new(Some(&view.name));
    if view.source == Source::Auto {
        let fix = format!("name it in recado.toml ([queues.{}]), or delete it if a wrong name made it", view.name);
        sheet.warn("made-by", "the first request that named it", fix);
    } else {
        sheet.pass("made-by", if view.source == Source::File { "recado.toml" } else { "the API" });
    }
    contract::judge(&view.settings, &mut sheet);
    figures::judge(view, stats, &mut sheet);
    sheet.checks
}

/// Judges the server and where it runs.
pub(crate) fn of_server(place: &Place, status: &ShardStatus) -> Vec<Check> {
    let mut sheet = Sheet::new(None);
    machine::judge(place, status, &mut sheet);
    sheet.checks
}
