//! `recado log check|repair DIR`: looks at the log of a stopped server, byte by byte.

use std::path::PathBuf;

use clap::Subcommand;

use crate::failure::Outcome;
use crate::server;
use crate::ui::Ui;

/// What to do with the log.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Log,
}

#[derive(Debug, Subcommand)]
enum Log {
    /// Read every record and report; nothing is changed
    Check {
        /// Data directory
        dir: PathBuf,
    },
    /// Cut the log at its first damage, after copying what is cut
    Repair {
        /// Data directory
        dir: PathBuf,
    },
}

/// Runs one of them.
pub(crate) fn run(args: &Args, ui: Ui) -> Outcome {
    match &args.command {
        Log::Check { dir } => server::log_check(dir, ui),
        Log::Repair { dir } => server::log_repair(dir, ui),
    }
}
