//! System calls of the binary that fail as told: strace runs it and injects the errors.
//!
//! This needs no privilege beyond tracing one's own child, which containers allow. The errors are those of the
//! system call, so that all of the binary is tried; what a disk does with the bytes then is not: the tests of the
//! log crate have a disk that loses and tears them.

use std::fs;
use std::path::Path;

use rustix::process::Signal;

use super::{Server, signal_pid, until};

/// Starts a server on `data`, some of whose calls fail as in `fdatasync:error=EIO:when=8` (see `inject` in
/// strace(1)); only those on `file` if one is given.
pub(crate) fn start_failing(data: &Path, flags: &[&str], rule: &str, file: Option<&Path>) -> Server {
    let calls = format!("trace={}", rule.split(':').next().unwrap());
    let rule = format!("inject={rule}");
    // As a grandchild (-D), so that the server is the child, and one that can be told to let go (-I2).
    let mut strace = vec!["strace", "-D", "-I2", "-f", "-qq", "-o", "/dev/null", "-e", &calls, "-e", &rule];
    let file = file.map(|file| file.display().to_string());
    strace.extend(file.iter().flat_map(|file| ["-P", file]));
    strace.push("--");
    Server::spawn(&mut Server::command_through(&strace, data, flags))
}

/// From now on no call fails.
pub(crate) fn stop_failing(server: &Server) {
    signal_pid(tracer(server).expect("it is traced"), Signal::TERM);
    until("the tracer has let go", || tracer(server).is_none().then_some(()));
}

fn tracer(server: &Server) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{}/status", server.process.pid())).unwrap();
    let pid = status.lines().find_map(|line| line.strip_prefix("TracerPid:")).unwrap();
    Some(pid.trim().parse().unwrap()).filter(|pid| *pid != 0)
}
