//! The command line's grammar, and which command runs.

use clap::{Parser, Subcommand};

use crate::commands::{
    backup, completions, deliver, dlq, doctor, enqueue, hooks, init, jobs, log, queues, receive, schedules, serve,
    settle, types, version, work,
};
use crate::demo;
use crate::failure::Outcome;
use crate::ui::Ui;

/// A durable job queue: one binary, HTTP and JSON, no other service needed.
#[derive(Debug, Parser)]
#[command(
    name = "recado",
    version,
    max_term_width = 100,
    after_help = "Exit codes: 0 done, 1 a check failed, 64 usage, 65 bad data, 69 unavailable, 74 cannot read or \
                  write, 75 try again later, 77 not allowed.\nStart with `recado demo`."
)]
pub(crate) struct Cli {
    /// Print JSON for scripts
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What the program can be told to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the server
    Serve(serve::Args),
    /// See the queue at work: four acts in under 20 seconds
    Demo(demo::Args),
    /// Put jobs in a queue
    Enqueue(Box<enqueue::Args>),
    /// Take jobs from queues
    Receive(receive::Args),
    /// Finish a received job: ack, fail, release, extend
    Settle(settle::Args),
    /// Run a command for each job
    Work(Box<work::Args>),
    /// POST each job to a web address, signed
    Deliver(Box<deliver::Args>),
    /// List, show and change queues
    Queues(queues::Args),
    /// List, show and cancel jobs
    Jobs(Box<jobs::Args>),
    /// Schemas of job types: list, show, put, remove, drain
    Types(types::Args),
    /// Jobs at given times: list, put, pause, run, foretell
    Schedules(Box<schedules::Args>),
    /// Inbound webhooks: list, show, put, remove
    Hooks(hooks::Args),
    /// Dead letters: list, show, replay, discard
    Dlq(Box<dlq::Args>),
    /// Look at the operating checklist of a server, or of a configuration file
    Doctor(doctor::Args),
    /// Write a commented recado.toml, a runbook, and a section for the contributor guide
    Init(init::Args),
    /// Check or repair the log of a stopped server
    Log(log::Args),
    /// Copy a data directory
    Backup(backup::Args),
    /// Print the version
    Version,
    /// Print completions for a shell
    Completions(completions::Args),
}

impl Command {
    /// Runs it.
    pub(crate) fn run(self, ui: Ui) -> Outcome {
        match self {
            Self::Serve(args) => serve::run(&args, ui),
            Self::Demo(args) => demo::run(&args, ui),
            Self::Enqueue(args) => enqueue::run(&args, ui),
            Self::Receive(args) => receive::run(&args, ui),
            Self::Settle(args) => settle::run(&args, ui),
            Self::Work(args) => work::run(&args, ui),
            Self::Deliver(args) => deliver::run(&args, ui),
            Self::Queues(args) => queues::run(&args, ui),
            Self::Jobs(args) => jobs::run(&args, ui),
            Self::Types(args) => types::run(&args, ui),
            Self::Schedules(args) => schedules::run(&args, ui),
            Self::Hooks(args) => hooks::run(&args, ui),
            Self::Dlq(args) => dlq::run(&args, ui),
            Self::Doctor(args) => doctor::run(&args, ui),
            Self::Init(args) => init::run(&args, ui),
            Self::Log(args) => log::run(&args, ui),
            Self::Backup(args) => backup::run(&args, ui),
            Self::Version => version::run(ui),
            Self::Completions(args) => completions::run(&args),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_grammar_is_sound() {
        super::Cli::command().debug_assert();
    }
}
