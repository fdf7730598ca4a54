//! The `recado` binary: a server, a command line for it, and a demo.
//!
//! Every command is a file under `commands/`. All but `serve`, `log` and `backup` are HTTP clients of a
//! running server and know nothing of the engine: what they can do, any program can do over HTTP.

mod cli;
mod client;
mod commands;
mod config;
mod demo;
mod failure;
mod problem;
mod server;
mod service;
mod ui;
mod worker;

use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use crate::cli::Cli;
use crate::failure::{Exit, Failure};
use crate::ui::Ui;

pub use crate::config::check as check_config;

/// Runs the command that this process was started with.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let ui = Ui::new(cli.json);
    let exit = cli.command.run(ui).unwrap_or_else(|failure| report(ui, &failure));
    ExitCode::from(exit as u8)
}

/// Help and version were asked for and succeed; everything else clap reports is a usage error.
fn usage(error: &clap::Error) -> ExitCode {
    // A reader of the help that went away is no failure of ours.
    let _ = error.print();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
        _ => ExitCode::from(Exit::Usage as u8),
    }
}

fn report(ui: Ui, failure: &Failure) -> Exit {
    match &failure.problem {
        Some(problem) if ui.json => eprintln!("{problem}"),
        _ if failure.message.is_empty() => {}
        _ if ui.json => {
            let code = match failure.exit {
                Exit::Usage => "usage",
                Exit::BadData => "bad-data",
                Exit::Unavailable => "unavailable",
                Exit::Io => "io",
                Exit::TryAgain => "try-again",
                Exit::NotAllowed => "not-allowed",
                Exit::Ok | Exit::CheckFailed => "failed",
            };
            eprintln!("{}", serde_json::json!({ "code": code, "detail": failure.message }));
        }
        _ => eprintln!("recado: {}", failure.message),
    }
    failure.exit
}
