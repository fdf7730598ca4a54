//! Enqueues on their way to a server.
//!
//! Each queue has a few *lanes*, each a producer of its own to the server, with a name that no other process
//! and no earlier life of this one has: batches of one lane are numbered and go one after the other, so a
//! repeat of a batch whose answer was lost makes no second job, however late it arrives. What waits while a
//! lane is under way goes together in its next batch.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use recado_core::NewJob;
use reqwest::Method;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::super::{ANSWER_TIME_MAX, Placed};
use super::http::{Http, Patience};
use super::wire;
use crate::error::Error;

/// Batches of one queue that are under way at the same time.
const LANES_MAX: usize = 4;
/// Jobs that go together although each stands for itself.
const TOGETHER_JOBS_MAX: usize = 1_000;
/// .. and their payloads, in bytes.
const TOGETHER_BYTES_MAX: usize = 1 << 20;

type Answer = Result<Vec<Option<Placed>>, Error>;

/// Jobs of one caller, who waits.
struct Order {
    jobs: Vec<NewJob>,
    /// None: as long as it takes.
    deadline: Option<Instant>,
    promise: oneshot::Sender<Answer>,
}

/// A producer's name and the number of its last batch that was taken.
struct Lane {
    name: String,
    seq: u64,
}

impl Lane {
    fn new() -> Self {
        Self { name: format!("recado-rs:{:032x}", rand::random::<u128>()), seq: 0 }
    }
}

#[derive(Default)]
struct Line {
    waiting: VecDeque<Order>,
    idle: Vec<Lane>,
    at_work: usize,
}

struct Queue {
    name: Box<str>,
    line: Mutex<Line>,
}

impl Queue {
    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct Lanes {
    http: Arc<Http>,
    deadline: Duration,
    queues: Mutex<HashMap<Box<str>, Arc<Queue>>>,
}

impl Lanes {
    pub(super) fn new(http: Arc<Http>, deadline: Duration) -> Self {
        Self { http, deadline, queues: Mutex::default() }
    }

    /// Dropping the future does not take back what is under way.
    pub(super) async fn enqueue(&self, queue: &str, jobs: Vec<NewJob>) -> Answer {
        let (promise, promised) = oneshot::channel();
        let queue = self.queue(queue);
        let lane = {
            let mut line = queue.line();
            line.waiting.push_back(Order { jobs, deadline: Instant::now().checked_add(self.deadline), promise });
            let lane = match line.idle.pop() {
                None if line.at_work < LANES_MAX => Some(Lane::new()),
                idle => idle,
            };
            line.at_work += usize::from(lane.is_some());
            lane
        };
        if let Some(lane) = lane {
            tokio::spawn(work(Arc::clone(&self.http), AtWork(queue), lane));
        }
        promised.await.unwrap_or(Err(Error::RuntimeEnded))
    }

    fn queue(&self, name: &str) -> Arc<Queue> {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = queues.get(name) {
            return Arc::clone(queue);
        }
        let queue = Arc::new(Queue { name: name.into(), line: Mutex::default() });
        queues.insert(name.into(), Arc::clone(&queue));
        queue
    }
}

/// A lane that sends. Its task may also end in the middle, with the runtime it is on.
struct AtWork(Arc<Queue>);

impl Drop for AtWork {
    fn drop(&mut self) {
        let mut line = self.0.line();
        line.at_work -= 1;
        if line.at_work == 0 {
            // Nobody would send what still waits.
            line.waiting.clear();
        }
    }
}

/// Sends what waits until nothing does.
async fn work(http: Arc<Http>, at_work: AtWork, mut lane: Lane) {
    let queue = &at_work.0;
    loop {
        let batch = {
            let mut line = queue.line();
            let batch = next_batch(&mut line.waiting);
            if batch.is_empty() {
                line.idle.push(lane);
                return;
            }
            batch
        };
        send(&http, &queue.name, &mut lane, batch).await;
    }
}

/// A caller's own batch goes alone: it is in or refused as a whole.
fn next_batch(waiting: &mut VecDeque<Order>) -> Vec<Order> {
    let mut batch: Vec<Order> = Vec::new();
    let mut bytes = 0;
    while let Some(order) = waiting.front() {
        let [job] = order.jobs.as_slice() else {
            if batch.is_empty() {
                batch.extend(waiting.pop_front());
            }
            break;
        };
        bytes += job.family_bytes();
        if batch.len() == TOGETHER_JOBS_MAX || (bytes > TOGETHER_BYTES_MAX && !batch.is_empty()) {
            break;
        }
        batch.extend(waiting.pop_front());
    }
    batch
}

/// Sends a batch. One that is refused is halved until the refusal meets only those it is about.
async fn send(http: &Http, queue: &str, lane: &mut Lane, batch: Vec<Order>) {
    let mut todo = vec![batch];
    while let Some(mut batch) = todo.pop() {
        match post(http, queue, lane, &batch).await {
            Ok(placed) => answer(batch, placed),
            Err(error @ Error::Refused(_)) if batch.len() > 1 && !error.is_outcome_unknown() => {
                tracing::debug!(%error, jobs = batch.len(), "a batch was refused: its halves go by themselves");
                let second = batch.split_off(batch.len() / 2);
                todo.extend([second, batch]);
            }
            Err(error) => {
                // A limit that one job has met is there for all behind it.
                if is_about_the_queue(&error) {
                    batch.extend(todo.drain(..).flatten());
                }
                batch.into_iter().for_each(|order| drop(order.promise.send(Err(error.clone()))));
            }
        }
    }
}

fn is_about_the_queue(error: &Error) -> bool {
    match error {
        Error::Refused(problem) => matches!(problem.status(), 401 | 403 | 404 | 429 | 507),
        _ => true,
    }
}

fn answer(batch: Vec<Order>, placed: Option<Vec<Placed>>) {
    let mut placed = placed.map(Vec::into_iter);
    for order in batch {
        let entries = order.jobs.iter().map(|_| placed.as_mut().and_then(Iterator::next)).collect();
        // Whoever does not wait any more does not want to know.
        drop(order.promise.send(Ok(entries)));
    }
}

/// Sends one numbered batch until it is answered or its time is over.
async fn post(http: &Http, queue: &str, lane: &mut Lane, batch: &[Order]) -> Result<Option<Vec<Placed>>, Error> {
    let path = format!("/v1/queues/{queue}/jobs");
    let last = |latest: Instant, order: &Order| order.deadline.map(|deadline| deadline.max(latest));
    let mut patience = Patience::until(batch.iter().try_fold(Instant::now(), last));
    let jobs = || batch.iter().flat_map(|order| &order.jobs);
    let mut body = wire::enqueue(&lane.name, lane.seq + 1, jobs())?;
    loop {
        let answered = http.call(Method::POST, &path, Some(body.clone()), ANSWER_TIME_MAX).await;
        let error = match answered.and_then(|answer| wire::enqueued(&answer).map_err(|what| http.protocol(what))) {
            Ok(placed) => {
                lane.seq += 1;
                return Ok(placed);
            }
            Err(error) => error,
        };
        if error.code() == Some("producer-gap") && lane.seq > 0 {
            // The server forgot this lane (it was restored, or the queue deleted): nothing of the batch is there.
            *lane = Lane::new();
            body = wire::enqueue(&lane.name, lane.seq + 1, jobs())?;
            continue;
        }
        if let Err(error) = patience.wait_after(error).await {
            if error.is_outcome_unknown() {
                // The number may be taken, or may be yet: the next batch under it would pass for this one.
                *lane = Lane::new();
            }
            return Err(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(sizes: &[usize]) -> VecDeque<Order> {
        let order = |size: &usize| Order {
            jobs: vec![NewJob { payload: vec![b'1'; 600 << 10], ..NewJob::default() }; *size],
            deadline: None,
            promise: oneshot::channel().0,
        };
        sizes.iter().map(order).collect()
    }

    #[test]
    fn single_jobs_go_together_and_a_batch_goes_alone() {
        let mut line = waiting(&[1, 2, 1, 1]);
        let sizes = std::iter::from_fn(|| Some(next_batch(&mut line)).filter(|batch| !batch.is_empty()));
        let sizes: Vec<Vec<usize>> = sizes.map(|batch| batch.iter().map(|order| order.jobs.len()).collect()).collect();
        // Two payloads of 600 KiB are more than go together.
        assert_eq!(sizes, [vec![1], vec![2], vec![1], vec![1]]);
    }
}
