//! `recado completions SHELL`.

use std::io::Write;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::failure::{Exit, Outcome};

/// Which shell.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Shell to complete for
    shell: Shell,
}

/// Writes the script to standard output: `recado completions bash > /etc/bash_completion.d/recado`.
pub(crate) fn run(args: &Args) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "recado", &mut script);
    std::io::stdout().lock().write_all(&script)?;
    Ok(Exit::Ok)
}
