//! A server with a directory that outlives it.

use std::ops::Deref;
use std::path::PathBuf;
use std::time::Duration;

use super::api::Api;
use super::{Dir, Process, Server, pass};
use rustix::process::Signal;

/// A server that can be killed and started again on what it left.
pub(crate) struct Stage {
    // Before the directory, so that it ends first.
    server: Option<Server>,
    api: Api,
    flags: Vec<&'static str>,
    data: PathBuf,
    _dir: Dir,
}

impl Stage {
    /// What survives a kill is told; what survives a power loss is not tried here.
    pub(crate) fn new() -> Stage {
        Stage::with(&["--durability", "os"])
    }

    pub(crate) fn with(flags: &[&'static str]) -> Stage {
        let dir = Dir::new();
        let data = dir.path().join("data");
        let server = Server::start_with(&data, flags);
        let api = Api::new(&server.url);
        Stage { server: Some(server), api, flags: flags.to_vec(), data, _dir: dir }
    }

    /// SIGKILL. What comes next is `start`.
    pub(crate) fn kill(&mut self) {
        let server = self.server.take().expect("it runs");
        server.process.signal(Signal::KILL);
        server.process.end();
    }

    /// SIGTERM, and a clean end. What comes next is `start`.
    pub(crate) fn stop(&mut self) {
        self.server.take().expect("it runs").stop();
    }

    /// Starts a server that is killed so soon that it may still be starting. What comes next is `start`.
    pub(crate) fn start_in_vain(&mut self, life: Duration) {
        let process = Process::spawn(&mut Server::command(&self.data, &self.flags));
        pass(life);
        process.signal(Signal::KILL);
        process.end();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.server.as_ref().expect("it runs").process.signal(signal);
    }

    pub(crate) fn start(&mut self) {
        let server = Server::start_with(&self.data, &self.flags);
        self.api = Api::new(&server.url);
        self.server = Some(server);
    }

    /// SIGKILL, and a new process on the same directory.
    pub(crate) fn crash(&mut self) {
        self.kill();
        self.start();
    }
}

impl Deref for Stage {
    type Target = Api;

    fn deref(&self) -> &Api {
        &self.api
    }
}
