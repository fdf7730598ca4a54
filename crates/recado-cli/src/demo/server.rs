//! The demo's server: this same binary, as a process of its own, in a temporary directory.
//!
//! Whatever ends the demo (its last act, a broken promise, Ctrl-C) ends the process and removes the
//! directory, unless they were asked to stay.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::{Exit, Failure};

/// Longest wait for the first line of a server: its recovery comes before.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest wait for a graceful end.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// Between two looks at a process that ends.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(5);
/// How much of the server's log a failed demo shows, in lines.
const LAST_WORDS_LINES: usize = 40;

/// A server process and where it lives.
pub(super) struct Server {
    owned: Arc<Mutex<Owned>>,
    data: PathBuf,
    log: PathBuf,
    cwd: PathBuf,
    url: String,
}

/// What must not outlive the demo.
#[derive(Default)]
struct Owned {
    child: Option<Child>,
    dir: Option<PathBuf>,
}

impl Owned {
    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Both fail only when the process has ended already, which is what is wanted.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn clear(&mut self) {
        self.kill();
        if let Some(dir) = self.dir.take() {
            let _ = fs::remove_dir_all(dir);
        }
    }
}

impl Drop for Server {
    /// The thread that waits for signals shares what is owned, so it does not go by itself.
    fn drop(&mut self) {
        self.lock().clear();
    }
}

impl Server {
    /// Starts a server on a port that the system picks.
    pub(super) fn start(data: Option<&Path>, keep: bool) -> Result<Self, Failure> {
        let dir = make_dir()?;
        let owned = Arc::new(Mutex::new(Owned { child: None, dir: Some(dir.clone()) }));
        end_on_signals(&owned)?;
        let data = match data {
            Some(data) => std::path::absolute(data)
                .map_err(|error| Failure::io(format!("cannot use {}", data.display()), &error))?,
            None => dir.join("data"),
        };
        let mut server = Self { owned, data, log: dir.join("server.log"), cwd: dir, url: String::new() };
        server.url = server.spawn("127.0.0.1:0")?;
        if keep {
            // From here on nothing but an explicit end removes what the server works on.
            server.lock().dir = None;
        }
        Ok(server)
    }

    /// Where it answers.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Where its data is.
    pub(super) fn data(&self) -> &Path {
        &self.data
    }

    /// Ends it with SIGKILL: it can neither write nor say anything any more.
    pub(super) fn kill(&self) {
        self.lock().kill();
    }

    /// Starts it again on the same data and port, and answers how long that took.
    pub(super) fn restart(&self) -> Result<Duration, Failure> {
        let started = Instant::now();
        self.spawn(self.url.trim_start_matches("http://"))?;
        Ok(started.elapsed())
    }

    /// Ends it gracefully and removes its directory.
    pub(super) fn stop(self) -> Result<(), Failure> {
        let mut owned = self.lock();
        let Some(child) = owned.child.as_mut() else {
            return Ok(());
        };
        terminate(child)?;
        let deadline = Instant::now() + STOP_TIMEOUT;
        let status = loop {
            let ended = child.try_wait().map_err(|error| Failure::io("cannot wait for the server", &error))?;
            match ended {
                Some(status) => break Some(status),
                None if Instant::now() > deadline => break None,
                None => thread::sleep(STOP_POLL_INTERVAL),
            }
        };
        owned.clear();
        match status {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(Failure::new(Exit::CheckFailed, format!("the server did not stop cleanly: {status}"))),
            None => Err(Failure::new(
                Exit::CheckFailed,
                format!("the server did not stop within {} s of SIGTERM", STOP_TIMEOUT.as_secs()),
            )),
        }
    }

    /// Lets it go on without the demo; answers its process id.
    pub(super) fn leave_running(self) -> Result<u32, Failure> {
        let mut owned = self.lock();
        owned.dir = None;
        let child = owned.child.take();
        let gone = || Failure::new(Exit::Unavailable, "the server has ended");
        child.map(|child| child.id()).ok_or_else(gone)
    }

    /// Does not come back when an interrupt is ending the demo: what fails then is no broken promise.
    pub(super) fn yield_to_interrupt(&self) {
        // Either the interrupt was first, and its thread keeps the lock until it ends the process,
        // or there was none yet.
        drop(self.lock());
    }

    /// The end of its log.
    pub(super) fn last_words(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LAST_WORDS_LINES)..].join("\n")
    }

    fn spawn(&self, listen: &str) -> Result<String, Failure> {
        let program = std::env::current_exe().map_err(|error| Failure::io("cannot find the recado binary", &error))?;
        let log = File::options()
            .create(true)
            .append(true)
            .open(&self.log)
            .map_err(|error| Failure::io(format!("cannot write {}", self.log.display()), &error))?;
        let mut command = Command::new(program);
        command
            .args(["serve", "--listen", listen, "--data"])
            .arg(&self.data)
            // No recado.toml of the user, and a group of its own: Ctrl-C is the demo's to handle.
            .current_dir(&self.cwd)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("RECADO_") {
                command.env_remove(name);
            }
        }
        let stdout = {
            // Under the lock: an interrupt finds either no process or this one.
            let mut owned = self.lock();
            let mut child = command.spawn().map_err(|error| Failure::io("cannot start the server", &error))?;
            let stdout = child.stdout.take();
            owned.child = Some(child);
            stdout
        };
        let line = first_line(stdout).map_err(|why| {
            let told = self.last_words();
            Failure::new(Exit::Unavailable, format!("the server did not start: {why}\n{told}"))
        })?;
        let url = line.strip_prefix("listening on ").ok_or_else(|| {
            Failure::new(Exit::Unavailable, format!("the server's first line is `{line}`, not its address"))
        })?;
        Ok(url.to_owned())
    }

    fn lock(&self) -> MutexGuard<'_, Owned> {
        lock(&self.owned)
    }
}

fn lock(owned: &Mutex<Owned>) -> MutexGuard<'_, Owned> {
    // What is inside is valid whatever a thread that panicked was doing.
    owned.lock().unwrap_or_else(PoisonError::into_inner)
}

fn terminate(child: &Child) -> Result<(), Failure> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let sent = pid.map(|pid| kill_process(pid, Signal::TERM));
    match sent {
        Some(Err(error)) => Err(Failure::io("cannot stop the server", &error.into())),
        _ => Ok(()),
    }
}

/// The first line of a server, read by a thread so that the wait has an end.
fn first_line(stdout: Option<ChildStdout>) -> Result<String, String> {
    let stdout = stdout.ok_or("it has no standard output")?;
    let (sender, lines) = sync_channel(1);
    thread::spawn(move || {
        let mut line = String::new();
        let read = BufReader::new(stdout).read_line(&mut line);
        // A receiver that gave up has said why.
        let _ = sender.send(read.map(|_| line.trim_end().to_owned()));
    });
    match lines.recv_timeout(START_TIMEOUT) {
        Ok(Ok(line)) if line.is_empty() => Err("it ended".to_owned()),
        Ok(Ok(line)) => Ok(line),
        Ok(Err(error)) => Err(error.to_string()),
        Err(RecvTimeoutError::Timeout) => Err(format!("no first line within {} s", START_TIMEOUT.as_secs())),
        Err(RecvTimeoutError::Disconnected) => Err("it ended".to_owned()),
    }
}

/// A directory that was not there before.
fn make_dir() -> Result<PathBuf, Failure> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let name = format!("recado-demo-{}-{}", std::process::id(), now.subsec_nanos());
    let dir = std::env::temp_dir().join(name);
    fs::create_dir(&dir).map_err(|error| Failure::io(format!("cannot make {}", dir.display()), &error))?;
    Ok(dir)
}

/// Ctrl-C and SIGTERM end the demo at any moment: server and directory first.
fn end_on_signals(owned: &Arc<Mutex<Owned>>) -> Result<(), Failure> {
    let failed = |error| Failure::io("cannot listen for signals", &error);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let guard = runtime.enter();
    let mut int = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut term = signal(SignalKind::terminate()).map_err(failed)?;
    drop(guard);
    let owned = Arc::clone(owned);
    thread::spawn(move || {
        let number = runtime.block_on(async {
            tokio::select! {
                _ = int.recv() => 2,
                _ = term.recv() => 15,
            }
        });
        // Never given back: nothing is started or told any more.
        let mut owned = lock(&owned);
        owned.clear();
        eprintln!("\nrecado: interrupted: the demo's server was ended");
        std::process::exit(128 + number);
    });
    Ok(())
}
