//! What commands that run until they are told to stop have in common: a runtime, the signals, the log.

use std::io::{self, IsTerminal};

use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::config::LogFormat;
use crate::failure::Failure;

/// A runtime on all cores.
pub(crate) fn runtime() -> Result<Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.map_err(|error| Failure::io("cannot start the runtime", &error))
}

/// The signals that end the process.
pub(crate) struct Ends {
    term: Signal,
    int: Signal,
}

impl Ends {
    /// Signals that come from now on are not lost.
    pub(crate) fn new() -> Result<Self, Failure> {
        Ok(Self { term: listen(SignalKind::terminate())?, int: listen(SignalKind::interrupt())? })
    }

    /// Comes when one of them came; says which.
    pub(crate) async fn next(&mut self) -> (&'static str, i32) {
        tokio::select! {
            _ = self.term.recv() => ("SIGTERM", 15),
            _ = self.int.recv() => ("SIGINT", 2),
        }
    }
}

/// Listens for a signal.
pub(crate) fn listen(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| Failure::io("cannot listen for signals", &error))
}

/// `RECADO_LOG`, else `RUST_LOG`, else `info` and above.
pub(crate) fn start_log(format: LogFormat) -> Result<(), Failure> {
    let named = ["RECADO_LOG", "RUST_LOG"].into_iter().find_map(|name| {
        let filter = std::env::var(name).ok().filter(|filter| !filter.is_empty())?;
        Some((name, filter))
    });
    let (name, filter) = named.unwrap_or(("RECADO_LOG", "info".to_owned()));
    let filter = EnvFilter::try_new(&filter)
        .map_err(|error| Failure::usage(format!("{name}: `{filter}` is not a log filter, like info: {error}")))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    match format {
        LogFormat::Text => {
            let color = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            builder.with_ansi(color).init();
        }
        LogFormat::Json => builder.json().init(),
    }
    Ok(())
}
