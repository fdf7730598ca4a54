//! `recado enqueue QUEUE --file jobs.ndjson`: many jobs, streamed.
//!
//! The file is sent in chunks as the contract cuts them (1,000 lines, 1 MiB or 50 ms), one request
//! a chunk: what was accepted is known after every chunk, a slow pipe is not held up, and a failure
//! says at which line to go on. A single endless request would have to be read while it is written.

use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal, Read};
use std::path::Path as FilePath;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};

use crate::client::{Body, CallError, Client, Path};
use crate::failure::{Exit, Failure, Outcome};
use crate::problem::describe;
use crate::ui::Ui;

/// Lines in one chunk.
const CHUNK_LINES_MAX: usize = 1_000;
/// Bytes in one chunk, if it has more than one line.
const CHUNK_BYTES_MAX: usize = 1 << 20;
/// How long a line waits for others.
const CHUNK_WAIT_MAX: Duration = Duration::from_millis(50);
/// Longest line, in bytes, as the contract limits it.
const LINE_BYTES_MAX: u64 = 2 << 20;
/// Lines read ahead.
const LINES_AHEAD: usize = 4_096;

/// A line that is not blank, and its number in the file.
struct Line {
    number: u64,
    bytes: Vec<u8>,
}

/// A line, or why there are no more.
type NextLine = Result<Line, Failure>;

#[derive(Default)]
struct Chunk {
    bytes: Vec<u8>,
    numbers: Vec<u64>,
}

/// Where the jobs come from and go to.
struct Source<'a> {
    queue: &'a str,
    file: &'a FilePath,
}

impl Source<'_> {
    /// How to enqueue the rest.
    fn go_on(&self, line: u64) -> String {
        if self.file == FilePath::new("-") {
            return format!("; go on with line {line} of the input");
        }
        format!("; go on with: tail -n +{line} {} | recado enqueue {} --file -", self.file.display(), self.queue)
    }
}

/// What came of a chunk.
struct Sent {
    accepted: usize,
    problem: Option<Value>,
}

/// Enqueues every line of `file`.
pub(crate) fn run(client: &Client, queue: &str, file: &FilePath, ui: Ui) -> Outcome {
    let (input, bytes): (Box<dyn Read + Send>, Option<u64>) = if file == FilePath::new("-") {
        (Box::new(std::io::stdin()), None)
    } else {
        let what = || format!("cannot read {}", file.display());
        let opened = File::open(file).map_err(|error| Failure::io(what(), &error))?;
        let length = opened.metadata().map_err(|error| Failure::io(what(), &error))?.len();
        (Box::new(opened), Some(length))
    };
    let (sender, lines) = sync_channel(LINES_AHEAD);
    // Not joined: after a failure it may wait for a pipe that never ends.
    std::thread::spawn(move || read_lines(input, &sender));
    let source = Source { queue, file };
    let bar = progress(bytes, ui);
    let path = Path::v1(&["queues", queue, "jobs"]);
    let mut accepted = 0_u64;
    let mut next = None;
    while let Some(chunk) = collect(&lines, &mut next).map_err(|failure| advise(failure, accepted))? {
        let first = chunk.numbers.first().copied().unwrap_or(1);
        let size = chunk.bytes.len() as u64;
        let sent = match send(client, &path, chunk.bytes) {
            Ok(sent) => sent,
            Err(error) => {
                bar.abandon();
                return Err(broken(error, accepted, first, &source));
            }
        };
        accepted += sent.accepted as u64;
        if let Some(problem) = sent.problem {
            bar.abandon();
            let line = chunk.numbers.get(sent.accepted).copied().unwrap_or(first);
            return Err(refused(&problem, &chunk.numbers, accepted, line, &source));
        }
        bar.inc(size);
        bar.set_message(accepted.to_string());
    }
    bar.finish_and_clear();
    if ui.json {
        ui.line(json!({ "done": true, "accepted": accepted }).to_string())?;
    } else {
        ui.line(format!("{accepted} jobs enqueued in {queue}"))?;
    }
    Ok(Exit::Ok)
}

fn read_lines(input: impl Read, sender: &SyncSender<NextLine>) {
    let mut input = BufReader::with_capacity(1 << 16, input);
    let mut number = 0;
    loop {
        let mut bytes = Vec::new();
        let read = input.by_ref().take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut bytes);
        number += 1;
        let line = match read {
            Ok(0) => return,
            Ok(_) if bytes.iter().all(u8::is_ascii_whitespace) => continue,
            Ok(length) if length as u64 > LINE_BYTES_MAX => Err(Failure::bad_data(format!(
                "line {number} is longer than 2 MiB: a payload is at most 1 MiB, keep large data elsewhere"
            ))),
            Ok(_) => Ok(Line { number, bytes }),
            Err(error) => Err(Failure::io(format!("cannot read line {number}"), &error)),
        };
        let ended = line.is_err();
        if sender.send(line).is_err() || ended {
            return;
        }
    }
}

/// The next chunk, or `None` at the end. `next` holds what no longer fitted into the last one: a line,
/// or the failure that ended the reading, which must not take the lines before it along.
fn collect(lines: &Receiver<NextLine>, next: &mut Option<NextLine>) -> Result<Option<Chunk>, Failure> {
    let mut chunk = Chunk::default();
    let mut until = None;
    while chunk.numbers.len() < CHUNK_LINES_MAX {
        let read = match (next.take(), until) {
            (Some(read), _) => read,
            (None, None) => match lines.recv() {
                Ok(read) => read,
                Err(_) => return Ok(None),
            },
            (None, Some(until)) => match lines.recv_timeout(remaining(until)) {
                Ok(read) => read,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            },
        };
        let fits = |line: &Line| chunk.bytes.is_empty() || chunk.bytes.len() + line.bytes.len() <= CHUNK_BYTES_MAX;
        match read {
            Ok(line) if fits(&line) => {
                chunk.bytes.extend_from_slice(line.bytes.trim_ascii_end());
                chunk.bytes.push(b'\n');
                chunk.numbers.push(line.number);
            }
            Err(failure) if chunk.bytes.is_empty() => return Err(failure),
            other => {
                *next = Some(other);
                break;
            }
        }
        until.get_or_insert_with(|| Instant::now() + CHUNK_WAIT_MAX);
    }
    Ok(Some(chunk))
}

fn remaining(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}

fn send(client: &Client, path: &Path, bytes: Vec<u8>) -> Result<Sent, CallError> {
    let answer = client.send("POST", path, Body::Ndjson(bytes), &[], Duration::ZERO)?;
    let last = answer.text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    let ending: Value = serde_json::from_str(last).unwrap_or(Value::Null);
    let accepted = ending.get("accepted").and_then(Value::as_u64);
    let Some(accepted) = accepted.and_then(|count| usize::try_from(count).ok()) else {
        return Err(CallError::Unanswered(
            "the answer ended before its last line; whether the rest was done is unknown".to_owned(),
        ));
    };
    Ok(Sent { accepted, problem: ending.get("problem").cloned() })
}

/// A chunk that was refused as a whole, or whose answer was lost.
fn broken(error: CallError, accepted: u64, first: u64, source: &Source<'_>) -> Failure {
    let unknown = matches!(&error, CallError::Unanswered(_));
    let mut failure = advise(Failure::from(error), accepted);
    failure.message.push_str(&source.go_on(first));
    if unknown {
        failure.message.push_str(
            "\nthe jobs of the last chunk may have been accepted: without a dedup key they could be enqueued twice",
        );
    }
    failure
}

/// A chunk that was refused for what is in it: the server counts from the request's first line.
fn refused(problem: &Value, numbers: &[u64], accepted: u64, line: u64, source: &Source<'_>) -> Failure {
    let mut problem = problem.clone();
    if let Some(errors) = problem.get_mut("errors").and_then(Value::as_array_mut) {
        for error in errors {
            let index = error.get("index").and_then(Value::as_u64).and_then(|index| usize::try_from(index).ok());
            if let Some(number) = index.and_then(|index| numbers.get(index)) {
                error["line"] = json!(number);
            }
        }
    }
    let status = problem.get("status").and_then(Value::as_u64).and_then(|status| u16::try_from(status).ok());
    let exit = crate::problem::Problem { status: status.unwrap_or(400), value: problem.clone() }.exit();
    let mut message = describe(&problem);
    problem["accepted"] = json!(accepted);
    problem["nextLine"] = json!(line);
    message.push_str(&format!("\naccepted {accepted} jobs before that"));
    message.push_str(&source.go_on(line));
    Failure { exit, message, problem: Some(problem) }
}

fn advise(mut failure: Failure, accepted: u64) -> Failure {
    failure.message.push_str(&format!("\naccepted {accepted} jobs before that"));
    if let Some(problem) = &mut failure.problem {
        problem["accepted"] = json!(accepted);
    }
    failure
}

/// A bar on a terminal, nothing elsewhere: progress goes to standard error, answers to standard output.
fn progress(bytes: Option<u64>, ui: Ui) -> ProgressBar {
    if ui.json || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let (bar, template) = match bytes {
        Some(bytes) => {
            (ProgressBar::new(bytes), "{wide_bar} {msg} jobs  {bytes}/{total_bytes}  {bytes_per_sec}  {eta}")
        }
        None => (ProgressBar::new_spinner(), "{spinner} {msg} jobs  {bytes}  {bytes_per_sec}"),
    };
    bar.set_draw_target(ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}
