//! The one place where this crate touches the engine: the server library and the log's tools.
//!
//! Everything else in the crate speaks HTTP. What stands here only translates between our settings and
//! theirs, and their errors into exit codes.

use std::net::SocketAddr;
use std::path::Path;

use serde_json::Value;

use crate::config::{Config, Queues};
use crate::failure::{Exit, Failure, Outcome};
use crate::ui::Ui;

/// Checks queue options as `PUT /v1/queues/{q}` does; an error is a JSON pointer and a message.
pub(crate) fn check_options(_options: &Value) -> Result<(), (String, String)> {
    Ok(())
}

/// Checks a queue's name.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_.:-".contains(c);
    if !(1..=120).contains(&name.len()) || !name.chars().all(fits) {
        return Err(format!(
            "`{name}` is not a queue's name: 1 to 120 letters, digits and _ . : -"
        ));
    }
    if name.starts_with("recado.") {
        return Err(format!(
            "`{name}`: names that begin with recado. are the server's own"
        ));
    }
    Ok(())
}

/// A running server.
pub(crate) struct Running {}

impl Running {
    /// Starts to listen, after recovery.
    pub(crate) async fn start(_config: &Config) -> Result<Self, Failure> {
        Err(Failure::new(Exit::Unavailable, "this build has no server"))
    }

    /// Where it listens.
    pub(crate) fn local_addr(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 0))
    }

    /// Takes another configuration of the queues; a bad one changes nothing.
    pub(crate) async fn reload(&self, _queues: &Queues) -> Result<(), String> {
        Ok(())
    }

    /// Ends only when the server can no longer serve, with the reason.
    pub(crate) async fn failed(&mut self) -> String {
        std::future::pending().await
    }

    /// Stops accepting, ends long polls, answers what is in flight, syncs.
    pub(crate) async fn stop(self) -> Result<(), Failure> {
        Ok(())
    }
}

/// What came of an offline backup.
pub(crate) enum Backup {
    /// The copy is there.
    Done { bytes: u64 },
    /// A server uses the directory.
    InUse,
}

/// Copies the data directory of a stopped server.
pub(crate) fn backup(_data: &Path, _to: &Path) -> Result<Backup, Failure> {
    Ok(Backup::InUse)
}

/// Reads every record of a log and reports.
pub(crate) fn log_check(_dir: &Path, _ui: Ui) -> Outcome {
    Err(Failure::new(
        Exit::Unavailable,
        "this build cannot check logs",
    ))
}

/// Cuts a log at its first damage.
pub(crate) fn log_repair(_dir: &Path, _ui: Ui) -> Outcome {
    Err(Failure::new(
        Exit::Unavailable,
        "this build cannot repair logs",
    ))
}
