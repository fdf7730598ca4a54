//! `recado demo`: the newcomer's first minute.
//!
//! A real server is started as a process of its own and played with over HTTP by real worker threads; the
//! demo knows nothing that any other program could not know. Each act states a promise, shows what
//! happens, and checks it against what the server says and what the workers did. The exit code is 0 only
//! if every act ended as promised.

mod act_crash;
mod act_dead;
mod act_flight;
mod act_once;
mod server;
mod stage;
mod worker;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use self::server::Server;
use self::stage::Stage;
use crate::client::{Client, Path};
use crate::failure::{Exit, Failure, Outcome};
use crate::ui::{Ui, list};

/// Longest wait for anything that must happen; on an idle machine it takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(15);

/// How to play.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Leave the server running and say what to try with curl
    #[arg(long)]
    keep: bool,
    /// Data directory, kept afterwards [default: a temporary one]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

/// What an act has at hand.
struct Play<'a> {
    stage: &'a Stage,
    server: &'a Server,
    client: Client,
    prefix: String,
}

impl Play<'_> {
    /// The name of a queue of this run.
    fn queue(&self, name: &str) -> String {
        format!("{}.{name}", self.prefix)
    }

    /// Makes a queue with these options.
    fn configure(&self, queue: &str, options: &Value) -> Result<(), Failure> {
        let body = crate::client::Body::Json(options.to_string().into_bytes());
        let path = Path::v1(&["queues", queue]);
        self.client.send("PUT", &path, body, &[], Duration::ZERO)?;
        self.stage.say(&format!("queue {queue}: {}", brief(options)))
    }

    /// Enqueues jobs, all or none, and answers their ids.
    fn enqueue(&self, queue: &str, jobs: &Value) -> Result<Vec<String>, Failure> {
        let answer = self.client.post(&Path::v1(&["queues", queue, "jobs"]), jobs)?;
        ids(&answer.value()?)
    }

    /// The figures of a queue.
    fn stats(&self, queue: &str) -> Result<Value, Failure> {
        self.client.get(&Path::v1(&["queues", queue, "stats"]))?.value()
    }

    /// A job, as soon as it has ended.
    fn ended(&self, id: &str) -> Result<Value, Failure> {
        let path = Path::v1(&["jobs", id]).query("wait", Some("10s"));
        self.client.get_waiting(&path, Duration::from_secs(10))?.value()
    }
}

/// Plays the four acts.
pub(crate) fn run(args: &Args, ui: Ui) -> Outcome {
    let stage = Stage::new(ui);
    let server = Server::start(args.data.as_deref(), args.keep)?;
    let played = play(&stage, &server);
    match played {
        Ok(()) if args.keep => keep(&stage, server),
        Ok(()) => {
            server.stop()?;
            Ok(Exit::Ok)
        }
        Err(failure) => {
            server.yield_to_interrupt();
            let told = server.last_words();
            let mut message = format!("the demo did not end as promised: {}", failure.message);
            if !told.is_empty() {
                message.push_str(&format!("\nthe server's log ends with:\n{told}"));
            }
            stage.end(false)?;
            drop(server);
            let exit = match failure.exit {
                Exit::Ok => Exit::Ok,
                Exit::Unavailable => Exit::Unavailable,
                _ => Exit::CheckFailed,
            };
            Err(Failure::new(exit, message))
        }
    }
}

fn play(stage: &Stage, server: &Server) -> Result<(), Failure> {
    let client = Client::local(server.url())?;
    stage.title(&format!(
        "Recado demo: a real server at {}, its data in {}; four acts, all over HTTP",
        server.url(),
        server.data().display()
    ))?;
    let prefix = prefix(&client)?;
    let play = Play { stage, server, client, prefix };
    act_flight::play(&play)?;
    act_once::play(&play)?;
    act_dead::play(&play)?;
    act_crash::play(&play)?;
    stage.end(true)
}

/// Names of queues that no earlier run on the same data used: `demo`, then `demo2`, `demo3`.
fn prefix(client: &Client) -> Result<String, Failure> {
    let path = Path::v1(&["queues"]).query("limit", Some("1000"));
    let answer = client.get(&path)?.value()?;
    let names: Vec<&str> = list(&answer, "queues").iter().filter_map(|queue| queue.get("name")?.as_str()).collect();
    let free = |prefix: &String| {
        let start = format!("{prefix}.");
        !names.iter().any(|name| name.starts_with(&start))
    };
    let candidates = std::iter::once("demo".to_owned()).chain((2..).map(|run| format!("demo{run}")));
    candidates.into_iter().find(free).ok_or_else(|| Failure::bad_data("no free queue names"))
}

fn keep(stage: &Stage, server: Server) -> Outcome {
    let url = server.url().to_owned();
    let data = server.data().to_owned();
    let pid = server.leave_running()?;
    stage.note(&format!(
        "The server goes on at {url} (process {pid}, data in {}). Try:\n\n  \
         curl --json '{{\"type\":\"email.send\",\"payload\":{{\"deliveryId\":\"mail-1\"}}}}' {url}/v1/queues/email/jobs\n  \
         curl --json '{{\"wait\":\"20s\"}}' {url}/v1/queues/email/receive\n  \
         curl --json '{{\"id\":\"JOB\",\"receipt\":\"RECEIPT\",\"outcome\":\"ack\"}}' {url}/v1/settle\n  \
         curl {url}/v1/queues/email/stats\n  \
         recado queues --url {url}\n\nStop it with: kill {pid}",
        data.display()
    ))?;
    Ok(Exit::Ok)
}

/// The ids of an enqueue's answer, in order.
fn ids(answer: &Value) -> Result<Vec<String>, Failure> {
    let read = |job: &Value| job.get("id").and_then(Value::as_str).map(str::to_owned);
    let ids: Option<Vec<String>> = list(answer, "jobs").iter().map(read).collect();
    ids.ok_or_else(|| Failure::bad_data(format!("an enqueue answered without ids: {answer}")))
}

/// An act's check.
fn ensure(kept: bool, broken: impl FnOnce() -> String) -> Result<(), Failure> {
    if kept { Ok(()) } else { Err(Failure::new(Exit::CheckFailed, broken())) }
}

/// A number of an answer; -1 when it is not there, which no check expects.
fn number(value: &Value, member: &str) -> i64 {
    value.get(member).and_then(Value::as_i64).unwrap_or(-1)
}

/// A text of an answer, or nothing.
fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value.get(member).and_then(Value::as_str).unwrap_or_default()
}

/// The end of an id: enough to tell a handful apart.
fn short(id: &str) -> String {
    let from = id.len().saturating_sub(6);
    format!("job ..{}", id.get(from..).unwrap_or(id))
}

/// Options on one line: `maxInFlight 2, visibilityTimeout 500ms`.
fn brief(options: &Value) -> String {
    let members = options.as_object().into_iter().flatten();
    let one = |(name, value): (&String, &Value)| match value.as_str() {
        Some(text) => format!("{name} {text}"),
        None => format!("{name} {value}"),
    };
    members.map(one).collect::<Vec<_>>().join(", ")
}

/// The time left until `deadline`.
fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

/// An owner for the demo's dead letters: every queue has one.
fn owner() -> Value {
    json!("demo@example.org")
}
