//! What the tests share: running the binary, a server of their own, conditions with deadlines.

pub(crate) mod api;
pub(crate) mod clock;
pub(crate) mod stage;
pub(crate) mod trace;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Longest wait for anything; a loaded machine needs a part of it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// Size of a segment of the logs that are made here.
const SEGMENT_BYTES: u64 = 4 << 20;

/// The binary.
pub(crate) const RECADO: &str = env!("CARGO_BIN_EXE_recado");

/// A directory of one test, removed at its end.
pub(crate) struct Dir(PathBuf);

impl Dir {
    pub(crate) fn new() -> Dir {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("recado-test-{}-{number}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Dir(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    pub(crate) fn entries(&self) -> Vec<String> {
        let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
        fs::read_dir(&self.0).unwrap().map(|entry| name(entry.unwrap())).collect()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        // What a test leaves behind must not hide why it failed.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What a run of the binary came to.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Run {
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Run {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    #[track_caller]
    pub(crate) fn says(self, part: &str) -> Run {
        assert!(self.err.contains(part), "no `{part}` in {self:#?}");
        self
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }
}

/// The binary, without what this process's environment says to it, in an empty directory.
pub(crate) fn command(cwd: &Path, args: &[&str]) -> Command {
    command_through(RECADO, cwd, args)
}

/// Another program, for which the same holds.
pub(crate) fn command_through(program: &str, cwd: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("RECADO_") || name == "RUST_LOG" {
            command.env_remove(name);
        }
    }
    command.args(args).current_dir(cwd).stdin(Stdio::null());
    command
}

/// Runs the binary to its end.
pub(crate) fn run(args: &[&str]) -> Run {
    let dir = Dir::new();
    finish(&mut command(dir.path(), args))
}

/// Runs a command to its end, which must come.
pub(crate) fn finish(command: &mut Command) -> Run {
    Process::spawn(command).end()
}

/// Runs the binary with this on its standard input.
pub(crate) fn run_with_input(args: &[&str], input: &str) -> Run {
    let dir = Dir::new();
    let mut process = Process::spawn(command(dir.path(), args).stdin(Stdio::piped()));
    let mut stdin = process.child.stdin.take().unwrap();
    let input = input.to_owned();
    // It may end before it has read all of it.
    thread::spawn(move || stdin.write_all(input.as_bytes()));
    process.end()
}

/// A process whose standard output is read line by line, and which ends with its test.
pub(crate) struct Process {
    child: Child,
    lines: Receiver<String>,
    err: Option<thread::JoinHandle<String>>,
}

impl Process {
    pub(crate) fn spawn(command: &mut Command) -> Process {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let mut stderr = child.stderr.take().unwrap();
        let err = thread::spawn(move || {
            let mut text = String::new();
            let _ = stderr.read_to_string(&mut text);
            text
        });
        Process { child, lines, err: Some(err) }
    }

    /// The next line, or `None` at the end.
    pub(crate) fn line(&mut self) -> Option<String> {
        self.lines.recv_timeout(PATIENCE).ok()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        signal_pid(self.pid(), signal);
    }

    /// Waits for its end; the rest of what it said.
    pub(crate) fn end(mut self) -> Run {
        let mut out = String::new();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => out.push_str(&(line + "\n")),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("it does not end, and said {out}"),
            }
        }
        // Its standard output is closed, so it has ended or is about to.
        let status = self.child.wait().unwrap();
        let err = self.err.take().map(|err| err.join().unwrap()).unwrap_or_default();
        Run { code: status.code(), out, err }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn signal_pid(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// Looks again and again until there is an answer.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "not in time: {what}");
        thread::yield_now();
    }
}

/// Lets time pass: how long a fault lasts. It is never a reason to believe that something has happened.
pub(crate) fn pass(time: Duration) {
    thread::sleep(time);
}

/// Makes an empty log whose segments are small.
pub(crate) fn make_small_log(data: &Path) {
    make_log(data, SEGMENT_BYTES);
}

/// Makes an empty log of such segments, which it keeps.
pub(crate) fn make_log(data: &Path, segment_bytes: u64) {
    let file =
        recado_log::Options { segment_bytes, durability: recado_log::Durability::Os, ..recado_log::Options::default() };
    let options = recado_shard::Options::new(|patch, payload, _| recado_server::merge_patch(patch, payload)).unwrap();
    recado_shard::start_file(data, &file, options).unwrap().stop().unwrap();
}

/// A server on a port of its own.
pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) url: String,
}

impl Server {
    pub(crate) fn start(data: &Path) -> Server {
        Server::start_with(data, &[])
    }

    /// A new directory gets a log of small segments first: a server zero-fills several at its start, and a
    /// log keeps the size of segment that it was made with.
    pub(crate) fn start_with(data: &Path, flags: &[&str]) -> Server {
        Server::spawn(&mut Server::command(data, flags))
    }

    /// What `start_with` runs.
    pub(crate) fn command(data: &Path, flags: &[&str]) -> Command {
        Server::command_through(&[], data, flags)
    }

    /// The same, run by another program with these arguments.
    pub(crate) fn command_through(program: &[&str], data: &Path, flags: &[&str]) -> Command {
        if !data.exists() {
            make_small_log(data);
        }
        let cwd = data.parent().unwrap();
        let data = data.display().to_string();
        let serve = [RECADO, "serve", "--listen", "127.0.0.1:0", "--data", &data];
        let all = [program, &serve, flags].concat();
        command_through(all[0], cwd, &all[1..])
    }

    pub(crate) fn spawn(command: &mut Command) -> Server {
        let mut process = Process::spawn(command);
        let Some(line) = process.line() else {
            panic!("no first line: {:#?}", process.end());
        };
        let url = line.strip_prefix("listening on ").unwrap_or_else(|| panic!("{line}")).to_owned();
        assert!(url.starts_with("http://127.0.0.1:"), "{url}");
        Server { process, url }
    }

    /// A command for this server.
    pub(crate) fn run(&self, args: &[&str]) -> Run {
        run(&[args, &["--url", &self.url]].concat())
    }

    /// A command's JSON answer.
    #[track_caller]
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        self.run(&[args, &["--json"]].concat()).expect(0).json()
    }

    /// SIGTERM, and a clean end.
    #[track_caller]
    pub(crate) fn stop(self) -> Run {
        self.process.signal(Signal::TERM);
        self.process.end().expect(0)
    }
}
