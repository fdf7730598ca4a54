//! `recado serve`: runs the server until it is told to stop.
//!
//! SIGTERM and SIGINT stop it gracefully, a second one at once; SIGHUP reads the file's queues again. A log
//! that failed ends the process with the reason: it must be started again, by a supervisor or a person.

use std::io::Write;

use tokio::signal::unix::SignalKind;

use crate::config::{self, Config, Flags};
use crate::failure::{Exit, Failure, Outcome};
use crate::server::Running;
use crate::service::{Ends, listen, runtime, start_log};
use crate::ui::Ui;

/// The flags are the configuration's first layer.
#[derive(clap::Args, Debug)]
#[command(after_help = "Each setting is looked for in this order: the flag, RECADO_* in the environment \
    (RECADO_LISTEN, RECADO_PAYLOAD_CACHE, ...), recado.toml, the default.\n\
    SIGTERM and SIGINT stop the server gracefully; SIGHUP reads [defaults], [queues], [limits], [types] and [schedules] again.")]
pub(crate) struct Args {
    #[command(flatten)]
    flags: Flags,
}

/// Serves.
pub(crate) fn run(args: &Args, ui: Ui) -> Outcome {
    if ui.json {
        return Err(Failure::usage("serve has no --json: write --log-format json"));
    }
    let config = config::load(&args.flags)?;
    start_log(config.log_format)?;
    runtime()?.block_on(serve(&config))
}

async fn serve(config: &Config) -> Outcome {
    // Before the start, so that a signal during a long recovery is not lost and ends it at once.
    let mut ends = Ends::new()?;
    let mut hangup = listen(SignalKind::hangup())?;
    let running = tokio::select! {
        running = Running::start(config) => running?,
        (name, _) = ends.next() => {
            tracing::info!("{name} during the start: nothing was served");
            return Ok(Exit::Ok);
        }
    };
    announce(&format!("listening on http://{}", running.local_addr()));
    loop {
        tokio::select! {
            (name, _) = ends.next() => {
                tracing::info!("{name}: stopping, a second signal ends at once");
                break;
            }
            _ = hangup.recv() => reload(&running, config).await,
            reason = running.failed() => return Err(Failure::new(Exit::Io, reason)),
        }
    }
    tokio::select! {
        stopped = running.stop() => stopped?,
        (name, number) = ends.next() => {
            tracing::warn!("{name} again: ending at once; what was acknowledged is safe");
            std::process::exit(128 + number);
        }
    }
    tracing::info!("stopped");
    Ok(Exit::Ok)
}

/// The first line of standard output. A supervisor that does not read it must not stop the server.
fn announce(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

async fn reload(running: &Running, config: &Config) {
    let Some(file) = config.queues.file.as_deref() else {
        tracing::warn!("SIGHUP: there is no configuration file to read again");
        return;
    };
    let applied = match config::read_queues(file) {
        Ok(queues) => running.reload(&queues).await,
        Err(failure) => Err(failure),
    };
    match applied {
        Ok(()) => tracing::info!("{} read again; [server] needs a restart", file.display()),
        Err(why) => tracing::error!("{} was not applied, nothing changed: {}", file.display(), why.message),
    }
}
