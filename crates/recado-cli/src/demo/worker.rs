//! Worker threads as anyone would write them: receive, do, settle, and try again when nobody answers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{PATIENCE, number, text};
use crate::client::{CallError, Client, Path};
use crate::failure::Failure;
use crate::ui::list;

/// How long a worker's receive waits for a job; also how long a crew takes to leave.
const POLL_WAIT: Duration = Duration::from_millis(300);
/// How long a worker whose server does not answer waits before it tries again, unless it is told sooner.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// A job in a worker's hands.
#[derive(Clone, Debug)]
pub(super) struct Work {
    pub(super) id: String,
    pub(super) job_type: String,
    pub(super) attempt: i64,
    pub(super) payload: Value,
    receipt: String,
}

/// How the work went.
#[derive(Clone, Debug)]
pub(super) enum Verdict {
    /// Done, with a result.
    Done(Value),
    /// Failed, with a kind and a message.
    Failed(&'static str, String),
}

/// What a worker tells.
#[derive(Debug)]
pub(super) enum Event {
    /// It received a job.
    Received { worker: String, work: Work },
    /// Its settle was answered.
    Settled {
        worker: String,
        work: Work,
        verdict: Verdict,
        /// The server's entry: `ok`, `repeated`, `problem`.
        answer: Value,
    },
    /// It cannot go on.
    Broken(Failure),
}

/// What to do with a job.
pub(super) type Handler = Arc<dyn Fn(&Work) -> Verdict + Send + Sync>;

/// What all workers of a crew know.
#[derive(Clone)]
pub(super) struct Orders {
    /// Where the server is.
    pub(super) url: String,
    /// From which queue.
    pub(super) queue: String,
    /// How many jobs at a time.
    pub(super) max: usize,
    /// Where to tell.
    pub(super) events: Sender<Event>,
    /// What to do.
    pub(super) handler: Handler,
}

/// Workers that leave when the crew is dropped.
pub(super) struct Crew {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
pub(super) struct Shared {
    ending: AtomicBool,
    restarts: Mutex<u64>,
    restarted: Condvar,
}

impl Shared {
    /// True once the crew leaves.
    pub(super) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }

    /// Waits a moment, shorter when the server is said to be back.
    pub(super) fn pause(&self) {
        let restarts = self.restarts.lock().unwrap_or_else(PoisonError::into_inner);
        // Timeout, news and spurious wake-up are all the same here: try again.
        let _ = self.restarted.wait_timeout(restarts, RETRY_INTERVAL);
    }

    /// Says that the server is back.
    fn tell_restart(&self) {
        *self.restarts.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.restarted.notify_all();
    }
}

impl Crew {
    /// Starts `size` workers: `worker-1`, `worker-2`, ...
    pub(super) fn start(size: usize, orders: &Orders) -> Self {
        let shared = Arc::new(Shared::default());
        let start = |index: usize| {
            let (orders, shared) = (orders.clone(), Arc::clone(&shared));
            thread::spawn(move || {
                let name = format!("worker-{}", index + 1);
                if let Err(failure) = work(&name, &orders, &shared) {
                    // The listener is gone only when the act has ended.
                    let _ = orders.events.send(Event::Broken(failure));
                }
            })
        };
        let threads = (0..size).map(start).collect();
        Self { shared, threads }
    }

    /// What the workers share, for others that must retry as they do.
    pub(super) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// Says that the server is back.
    pub(super) fn tell_restart(&self) {
        self.shared.tell_restart();
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.shared.ending.store(true, Ordering::Relaxed);
        self.shared.tell_restart();
        for thread in self.threads.drain(..) {
            // A panic of a worker was printed; the act's own checks decide what it means.
            let _ = thread.join();
        }
    }
}

fn work(name: &str, orders: &Orders, shared: &Shared) -> Result<(), Failure> {
    let client = Client::local(&orders.url)?;
    let receive = Path::v1(&["queues", &orders.queue, "receive"]);
    let wanted = json!({
        "max": orders.max, "worker": name, "wait": format!("{}ms", POLL_WAIT.as_millis()),
    });
    while !shared.is_ending() {
        let Some(answer) = answered(shared, || client.post_waiting(&receive, &wanted, POLL_WAIT))? else {
            return Ok(());
        };
        let value = answer.value()?;
        let work: Vec<Work> = list(&value, "jobs").iter().map(take).collect();
        if work.is_empty() {
            continue;
        }
        let mut verdicts = Vec::new();
        for work in &work {
            let received = Event::Received { worker: name.to_owned(), work: work.clone() };
            let _ = orders.events.send(received);
            verdicts.push((orders.handler)(work));
        }
        let entries: Vec<Value> = work.iter().zip(&verdicts).map(|(work, verdict)| entry(work, verdict)).collect();
        // The same settle until it is answered: repeated, it changes nothing.
        let path = Path::v1(&["settle"]);
        let Some(answer) = answered(shared, || client.post(&path, &entries))? else {
            return Ok(());
        };
        let settled = answer.value()?;
        let answers = list(&settled, "settled");
        for ((work, verdict), answer) in work.into_iter().zip(verdicts).zip(answers) {
            let _ =
                orders.events.send(Event::Settled { worker: name.to_owned(), work, verdict, answer: answer.clone() });
        }
    }
    Ok(())
}

/// Calls until somebody answers, for as long as anybody would be patient; `None` when the crew leaves.
pub(super) fn answered<T>(
    shared: &Shared,
    mut call: impl FnMut() -> Result<T, CallError>,
) -> Result<Option<T>, Failure> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match call() {
            Ok(answer) => return Ok(Some(answer)),
            Err(CallError::Refused(problem)) => return Err((*problem).into()),
            Err(_) if shared.is_ending() => return Ok(None),
            Err(_) if Instant::now() < deadline => shared.pause(),
            Err(error) => return Err(error.into()),
        }
    }
}

fn take(job: &Value) -> Work {
    Work {
        id: text(job, "id").to_owned(),
        job_type: text(job, "type").to_owned(),
        attempt: number(job, "attempts"),
        payload: job.get("payload").cloned().unwrap_or(Value::Null),
        receipt: text(job, "receipt").to_owned(),
    }
}

fn entry(work: &Work, verdict: &Verdict) -> Value {
    let (id, receipt) = (&work.id, &work.receipt);
    match verdict {
        Verdict::Done(result) => {
            json!({ "id": id, "receipt": receipt, "outcome": "ack", "result": result })
        }
        Verdict::Failed(kind, message) => json!({
            "id": id, "receipt": receipt, "outcome": "fail", "error": { "kind": kind, "message": message },
        }),
    }
}
