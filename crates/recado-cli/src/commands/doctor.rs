//! `recado doctor`: the operating checklist, looked at.

use std::path::PathBuf;

use serde_json::Value;

use crate::client::{Client, Path, Remote};
use crate::config;
use crate::failure::{Exit, Failure, Outcome};
use crate::server;
use crate::ui::{Paint, Ui, cell, list, plain};

/// A server, or a file.
#[derive(clap::Args, Debug)]
#[command(after_help = "Exits with 0 without failures, 1 with one, 69 when the server cannot be reached.\n\n\
                        Examples:\n  recado doctor\n  recado doctor --config recado.toml   # without a server, for CI")]
pub(crate) struct Args {
    /// Check this configuration file instead of a server
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    remote: Remote,
}

/// Looks, and says what to do.
pub(crate) fn run(args: &Args, ui: Ui) -> Outcome {
    let text = match &args.config {
        Some(file) => server::doctor(&config::read_queues(file)?)?.to_string(),
        None => Client::new(&args.remote)?.get(&Path::v1(&["doctor"]))?.text,
    };
    let answer: Value = serde_json::from_str(&text)
        .map_err(|error| Failure::bad_data(format!("the server's answer is not JSON: {error}")))?;
    let checks = list(&answer, "checks");
    ui.answer(&text, |_| report(checks, ui))?;
    let has_failed = checks.iter().any(|check| cell(check, "status") == "fail");
    Ok(if has_failed { Exit::CheckFailed } else { Exit::Ok })
}

/// The points by queue, and under each that is not well what to do.
fn report(checks: &[Value], ui: Ui) -> String {
    let mut text = String::new();
    let mut about = None;
    let width = checks.iter().map(|check| cell(check, "check").len()).max().unwrap_or(0);
    for check in checks {
        let queue = check.get("queue");
        if about != queue {
            let heading = queue.filter(|queue| !queue.is_null()).map_or("server".to_owned(), plain);
            text.push_str(&format!("{}\n", ui.paint(Paint::Bold, &heading)));
            about = queue;
        }
        let status = cell(check, "status");
        let paint = match status.as_str() {
            "pass" => Paint::Green,
            "warn" => Paint::Yellow,
            _ => Paint::Red,
        };
        let (status, point) = (ui.paint(paint, &status), cell(check, "check"));
        text.push_str(&format!("  {status}  {point:width$}  {}\n", cell(check, "value")));
        if let Some(fix) = check.get("fix").filter(|fix| !fix.is_null()) {
            text.push_str(&format!("        {:width$}  -> {}\n", "", plain(fix)));
        }
    }
    let of = |word: &str| checks.iter().filter(|check| cell(check, "status") == word).count();
    text.push_str(&format!("{} passed, {} warnings, {} failures", of("pass"), of("warn"), of("fail")));
    text
}
