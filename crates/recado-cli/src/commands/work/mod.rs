//! `recado work -q QUEUE -- COMMAND`: runs a command for each job.
//!
//! A run ends with all of its processes: whatever the command started in its process group is killed when the
//! command has ended, when the time is over, and when the worker stops.

mod group;
mod output;

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use recado::{Cancelled, Ctx};
use recado_contract::duration;
use rustix::process::Signal;
use tokio::process::Command;

use self::group::Group;
use self::output::{LastLine, feed, pass_on, read};
use crate::failure::{Exit, Failure, Outcome};
use crate::ui::Ui;
use crate::worker::{self, Capture, Handler, Retry, SIGNALS, Verdict};

/// A command that cannot be started is no fault of the job: it is tried again after this.
const START_PAUSE: Duration = Duration::from_secs(5);
/// A command has ended, but what it left behind holds its output open: for so long.
const LAST_OUTPUT: Duration = Duration::from_secs(2);
/// `EX_DATAERR`: the job will never succeed.
const PERMANENT: i32 = 65;

/// Which command.
#[derive(clap::Args, Debug)]
#[command(after_help = HELP.to_owned() + SIGNALS)]
pub(crate) struct Args {
    /// Longest run of the command; then it is killed, and the attempt has failed [default: none]
    #[arg(long, value_name = "DURATION", value_parser = duration::read)]
    timeout: Option<Duration>,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    // Last, since its headings go on until others come.
    #[command(flatten)]
    worker: worker::Settings,
}

const HELP: &str = "The payload is on the command's standard input, the rest in its environment: RECADO_JOB_ID, RECADO_QUEUE, \
    RECADO_JOB_TYPE, RECADO_SCHEMA_VERSION, RECADO_ATTEMPT, RECADO_MAX_ATTEMPTS, RECADO_FENCING_TOKEN, \
    RECADO_HEADERS (a JSON object), RECADO_TRACEPARENT and, where the job has them, RECADO_IDEMPOTENCY_KEY, RECADO_BUSINESS_ID, RECADO_GROUP.\n\
    Exit code 0: done; standard output, if it is JSON of at most 64 KiB, is the result. 65: dead at once. \
    Any other: tried again. The last line of standard error is the message.\n\n\
    Example:\n  recado work -q email -c 16 --timeout 1m -- ./send-mail --fast\n\n";

/// Works.
pub(crate) fn run(args: &Args, ui: Ui) -> Outcome {
    let handler = Program { command: args.command.clone() };
    handler.check()?;
    worker::run(&args.worker, ui, args.timeout, handler)
}

/// What runs for each job.
struct Program {
    command: Vec<OsString>,
}

impl Program {
    fn name(&self) -> &OsStr {
        self.command.first().map_or(OsStr::new(""), OsString::as_os_str)
    }

    /// A wrong name is told before the first job is taken.
    fn check(&self) -> Result<(), Failure> {
        let name = self.name();
        let is_program = |path: &Path| path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok();
        let is_there = match name.as_bytes().contains(&b'/') {
            true => is_program(Path::new(name)),
            false => {
                env::var_os("PATH").is_some_and(|path| env::split_paths(&path).any(|dir| is_program(&dir.join(name))))
            }
        };
        let name = name.to_string_lossy();
        is_there
            .then_some(())
            .ok_or_else(|| Failure::new(Exit::Usage, format!("{name}: no such command, or it may not be run")))
    }

    fn command(&self, ctx: &Ctx) -> Command {
        let mut command = Command::new(self.name());
        command.args(&self.command[1..]);
        command.env("RECADO_JOB_ID", ctx.id().to_string());
        command.env("RECADO_QUEUE", ctx.queue());
        command.env("RECADO_JOB_TYPE", ctx.kind());
        command.env("RECADO_SCHEMA_VERSION", ctx.schema_version().to_string());
        command.env("RECADO_ATTEMPT", ctx.attempt().to_string());
        command.env("RECADO_MAX_ATTEMPTS", ctx.max_attempts().to_string());
        command.env("RECADO_FENCING_TOKEN", ctx.fencing_token().to_string());
        command.env("RECADO_HEADERS", ctx.headers());
        command.env("RECADO_TRACEPARENT", ctx.trace().to_string());
        for (name, value) in [
            ("RECADO_IDEMPOTENCY_KEY", ctx.idempotency_key()),
            ("RECADO_BUSINESS_ID", ctx.business_id()),
            ("RECADO_GROUP", ctx.group()),
        ] {
            // A worker that itself runs under a worker has another job's.
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }
}

impl Handler for Program {
    async fn run(&self, ctx: &Ctx) -> Verdict {
        let cannot = |what: &str, error: std::io::Error| {
            let reason = format!("{} cannot be {what}: {error}", self.name().display());
            tracing::error!(job = %ctx.id(), "{reason}");
            Verdict::GivenBack { reason, delay: START_PAUSE }
        };
        let mut group = match Group::spawn(self.command(ctx)) {
            Ok(group) => group,
            Err(error) => return cannot("started", error),
        };
        match talk(&mut group, ctx).await {
            Ok((output, last_line)) => match group.reap().await {
                Ok(status) => verdict(status, output, last_line),
                Err(error) => cannot("waited for", error),
            },
            Err(error) => cannot("waited for", error),
        }
    }
}

/// Gives the payload, takes what the command says, until it has ended.
async fn talk(group: &mut Group, ctx: &Ctx) -> std::io::Result<(Capture, LastLine)> {
    let (mut output, mut last_line) = (Capture::default(), LastLine::default());
    let (stdin, stdout, stderr) = group.pipes();
    let payload = ctx.payload().get().as_bytes();
    // In one box, so that it can be dropped before what it fills is used.
    let mut talking = Box::pin(async {
        tokio::join!(
            feed(stdin, payload),
            read(stdout, &mut output),
            pass_on(stderr, &mut last_line, tokio::io::stderr())
        );
    });
    let (mut is_quiet, mut is_told) = (false, false);
    loop {
        tokio::select! {
            ended = group.ended() => break ended?,
            () = &mut talking, if !is_quiet => is_quiet = true,
            why = ctx.cancelled(), if !is_told => {
                // It may clean up, and still succeed.
                is_told = true;
                if why == Cancelled::Requested {
                    group.signal(Signal::TERM);
                }
            }
        }
    }
    if !is_quiet {
        // What still holds its output open is about to be killed.
        let _ = tokio::time::timeout(LAST_OUTPUT, &mut talking).await;
    }
    drop(talking);
    Ok((output, last_line))
}

fn verdict(status: ExitStatus, output: Capture, last_line: LastLine) -> Verdict {
    let (kind, said) = match (status.code(), status.signal()) {
        (Some(0), _) => return output.done(),
        (Some(code), _) => (format!("exit-{code}"), format!("ended with exit code {code}")),
        (None, signal) => {
            let signal = signal.unwrap_or_default();
            (format!("signal-{signal}"), format!("killed by signal {signal}"))
        }
    };
    let retry = if status.code() == Some(PERMANENT) { Retry::Never } else { Retry::Backoff };
    Verdict::failed(kind, last_line.text().unwrap_or(said), retry)
}
