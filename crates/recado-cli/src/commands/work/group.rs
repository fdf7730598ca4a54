//! A process and all that it starts, which end together.

use std::io;
use std::process::{ExitStatus, Stdio};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::signal::unix::{SignalKind, signal};

/// A process that leads a group of its own. Dropped, all of the group are killed; who made a session of their
/// own has left it.
pub(super) struct Group {
    child: Child,
    leader: Pid,
    exits: tokio::signal::unix::Signal,
}

impl Group {
    pub(super) fn spawn(mut command: Command) -> io::Result<Self> {
        // Listened for from before the start, so that no exit is missed.
        let exits = signal(SignalKind::child())?;
        let command = command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn()?;
        let leader = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let leader = leader.ok_or_else(|| io::Error::other("the process has no number"))?;
        Ok(Self { child, leader, exits })
    }

    /// Its pipes, once.
    pub(super) fn pipes(&mut self) -> (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>) {
        (self.child.stdin.take(), self.child.stdout.take(), self.child.stderr.take())
    }

    /// Waits for the leader's end, and leaves it unreaped: until then its number is nobody else's, and its group
    /// can be signalled.
    pub(super) async fn ended(&mut self) -> io::Result<()> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        while waitid(WaitId::Pid(self.leader), options)?.is_none() {
            self.exits.recv().await;
        }
        Ok(())
    }

    pub(super) fn signal(&self, signal: Signal) {
        // It fails when nobody is left, which is as well.
        let _ = kill_process_group(self.leader, signal);
    }

    /// Kills what is left of the group; how its leader ended.
    pub(super) async fn reap(mut self) -> io::Result<ExitStatus> {
        self.signal(Signal::KILL);
        self.child.wait().await
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Once it is reaped its number may be another's. The runtime reaps what is dropped here.
        if self.child.id().is_some() {
            self.signal(Signal::KILL);
        }
    }
}
