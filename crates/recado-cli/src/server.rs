//! The one place where this crate touches the server library: it translates our settings into its own, and
//! its errors into exit codes. Everything else in the crate speaks HTTP.

use std::net::SocketAddr;

use serde_json::Value;

use crate::config::{Config, Queues};
use crate::failure::{Exit, Failure};

/// Checks queue options as `PUT /v1/queues/{q}` does; an error is a JSON pointer and a message.
pub(crate) fn check_options(_options: &Value) -> Result<(), (String, String)> {
    Ok(())
}

/// Checks a queue's name.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_.:-".contains(c);
    if !(1..=120).contains(&name.len()) || !name.chars().all(fits) {
        return Err(format!("`{name}` is not a queue's name: 1 to 120 letters, digits and _ . : -"));
    }
    if name.starts_with("recado.") {
        return Err(format!("`{name}`: names that begin with recado. are the server's own"));
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
