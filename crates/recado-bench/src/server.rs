//! The real server: `recado serve` as a process of its own, ended with SIGKILL.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::machine;
use crate::progress;

/// The server's binary: as told, or built by the cargo that runs us, or from beside our own.
pub(crate) fn find(told: Option<PathBuf>) -> Result<PathBuf> {
    let path = match (told, std::env::var_os("CARGO")) {
        (Some(path), _) => path,
        (None, Some(cargo)) => {
            progress("building the server");
            let built = Command::new(cargo)
                .args(["build", "--release", "-p", "recado-cli"])
                .status()
                .context("cannot run cargo")?;
            ensure!(built.success(), "the server does not build");
            beside()?
        }
        (None, None) => beside()?,
    };
    ensure!(path.is_file(), "{} is not there: build it, or name it with --server", path.display());
    std::path::absolute(path).context("cannot tell the current directory")
}

fn beside() -> Result<PathBuf> {
    Ok(std::env::current_exe().context("cannot tell where this binary is")?.with_file_name("recado"))
}

/// A running server.
pub(crate) struct Server {
    child: Child,
    /// Where it listens.
    pub(crate) addr: SocketAddr,
    /// From the start of the process to the first answer that says it is ready.
    pub(crate) ready_after: Duration,
}

impl Server {
    /// Starts it on a port that the system picks, synced, and waits until it is ready.
    pub(crate) fn start(binary: &Path, data: &Path, more: &[&str]) -> Result<Self> {
        let started = Instant::now();
        // In a directory of its own so that no configuration file is found.
        let parent = data.parent().context("the data needs a directory")?;
        let mut command = Command::new(binary);
        command.arg("serve").arg("--data").arg(data).args(["--listen", "127.0.0.1:0", "--durability", "sync"]);
        command.args(more).current_dir(parent).stdin(Stdio::null()).stdout(Stdio::piped());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("RECADO_") {
                command.env_remove(name);
            }
        }
        let mut child = command.env("RECADO_LOG", "error").spawn().context("cannot start the server")?;
        let stdout = child.stdout.take().context("the server has no output")?;
        let mut server = Self { child, addr: SocketAddr::from(([127, 0, 0, 1], 0)), ready_after: Duration::ZERO };
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let addr = line.trim().strip_prefix("listening on http://").and_then(|addr| addr.parse().ok());
        server.addr = addr.with_context(|| format!("the server did not say where it listens: `{}`", line.trim()))?;
        server.wait_ready()?;
        server.ready_after = started.elapsed();
        Ok(server)
    }

    fn wait_ready(&self) -> Result<()> {
        let mut stream = TcpStream::connect(self.addr)?;
        let request = format!("GET /readyz HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", self.addr);
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        ensure!(answer.starts_with("HTTP/1.1 200"), "the server is not ready: {answer}");
        Ok(())
    }

    /// Its resident memory, in bytes.
    pub(crate) fn resident_bytes(&self) -> Result<u64> {
        machine::resident_bytes(self.child.id())
    }

    /// Time it has had on a core.
    pub(crate) fn cpu_time(&self) -> Result<Duration> {
        machine::cpu_time(self.child.id())
    }

    /// Ends it with SIGKILL.
    pub(crate) fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
