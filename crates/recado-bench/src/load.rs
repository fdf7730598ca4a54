//! Producers and consumers over HTTP, all on one thread: they share the server's cores.

use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::task::JoinSet;

use crate::http::Client;
use crate::payload::{self, Keys, PAYLOAD_BYTES};

/// Runs a future on this thread, with the network and timers.
pub(crate) fn block_on<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, future)
}

/// Makes a queue that takes as much as a row needs.
pub(crate) async fn configure(addr: SocketAddr, queue: &str) -> Result<()> {
    let body = br#"{"maxDepth":100000000,"idempotency":{"max":100000000}}"#;
    Client::connect(addr).await?.send("PUT", &format!("/v1/queues/{queue}"), body).await?;
    Ok(())
}

/// Not counted at the start of a measurement.
pub(crate) const WARM_UP: Duration = Duration::from_millis(200);

/// What came of posting for a while.
pub(crate) struct Posted {
    /// Successes.
    pub(crate) per_second: f64,
    /// Answers that said to come back later.
    pub(crate) refused: u64,
}

/// What is posted again and again.
pub(crate) struct Post {
    /// Where to.
    pub(crate) path: String,
    /// The action of Amazon SQS, if it is one.
    pub(crate) action: Option<&'static str>,
    /// What.
    pub(crate) body: Vec<u8>,
}

impl Post {
    /// JSON.
    pub(crate) fn json(path: impl Into<String>, body: Vec<u8>) -> Self {
        Self { path: path.into(), action: None, body }
    }

    /// An action of Amazon SQS.
    pub(crate) fn sqs(action: &'static str, body: Vec<u8>) -> Self {
        Self { path: "/".into(), action: Some(action), body }
    }
}

/// Posts the same again and again over `connections` for `time`.
pub(crate) async fn post_for(addr: SocketAddr, post: Post, connections: usize, time: Duration) -> Result<Posted> {
    let (path, body) = (Rc::new(post.path), Rc::new(post.body));
    let mut clients = Vec::new();
    for _ in 0..connections {
        let mut client = Client::connect(addr).await?;
        post.action.into_iter().for_each(|action| client.speak_sqs(action));
        clients.push(client);
    }
    let from = Instant::now() + WARM_UP;
    let until = from + time;
    let mut producers = JoinSet::new();
    for mut client in clients {
        let (path, body) = (Rc::clone(&path), Rc::clone(&body));
        producers.spawn_local(async move {
            let (mut answers, mut refused) = (0_u64, 0);
            loop {
                refused += client.post_patiently(&path, &body).await?;
                let now = Instant::now();
                if now >= until {
                    return anyhow::Ok((answers, refused));
                }
                answers += u64::from(now >= from);
            }
        });
    }
    let (mut answers, mut refused) = (0, 0);
    while let Some(ended) = producers.join_next().await {
        let (own_answers, own_refused) = ended??;
        answers += own_answers;
        refused += own_refused;
    }
    Ok(Posted { per_second: answers as f64 / time.as_secs_f64(), refused })
}

/// What to put into a queue.
#[derive(Clone, Copy)]
pub(crate) struct Fill {
    /// How many jobs.
    pub(crate) jobs: u64,
    /// In one request.
    pub(crate) batch: u64,
    /// What they carry.
    pub(crate) keys: Keys,
    /// Size of a payload.
    pub(crate) payload_bytes: usize,
}

impl Fill {
    /// Plain jobs, a thousand at a time.
    pub(crate) fn plain(jobs: u64) -> Self {
        Self { jobs, batch: 1_000, keys: Keys::Plain, payload_bytes: PAYLOAD_BYTES }
    }
}

const FILLERS: u64 = 4;

/// Fills a queue over a few connections.
pub(crate) async fn fill(addr: SocketAddr, queue: &str, fill: Fill) -> Result<()> {
    let path = Rc::new(format!("/v1/queues/{queue}/jobs"));
    let next = Arc::new(AtomicU64::new(0));
    let mut fillers = JoinSet::new();
    for _ in 0..FILLERS {
        let (path, next) = (Rc::clone(&path), Arc::clone(&next));
        let mut client = Client::connect(addr).await?;
        fillers.spawn_local(async move {
            loop {
                let first = next.fetch_add(fill.batch, Ordering::Relaxed);
                if first >= fill.jobs {
                    return anyhow::Ok(());
                }
                let count = fill.batch.min(fill.jobs - first);
                client.post_patiently(&path, &payload::batch(first, count, fill.keys, fill.payload_bytes)).await?;
            }
        });
    }
    while let Some(ended) = fillers.join_next().await {
        ended??;
    }
    Ok(())
}

/// How consumers work.
#[derive(Clone, Copy)]
pub(crate) struct Drain {
    /// How many jobs in all; they must be there.
    pub(crate) jobs: u64,
    /// How many consumers.
    pub(crate) consumers: usize,
    /// How many jobs each asks for.
    pub(crate) by: u64,
    /// The acks travel with the next receive, or else in a request of their own.
    pub(crate) piggybacked: bool,
}

/// Receives and acks; the time from the first request to the last ack's answer.
pub(crate) async fn drain(addr: SocketAddr, queue: &str, drain: Drain) -> Result<Duration> {
    let left = Arc::new(AtomicU64::new(drain.jobs));
    let path: Rc<str> = format!("/v1/queues/{queue}/receive").into();
    let mut clients = Vec::new();
    for _ in 0..drain.consumers {
        clients.push(Client::connect(addr).await?);
    }
    let started = Instant::now();
    let mut consumers = JoinSet::new();
    for client in clients {
        let consumer = Consumer { client, path: Rc::clone(&path), left: Arc::clone(&left), drain, acked: 0 };
        consumers.spawn_local(consumer.run());
    }
    let mut acked = 0;
    while let Some(ended) = consumers.join_next().await {
        acked += ended??;
    }
    let took = started.elapsed();
    ensure!(acked == drain.jobs, "{acked} of {} jobs were acked", drain.jobs);
    Ok(took)
}

struct Consumer {
    client: Client,
    path: Rc<str>,
    /// Jobs that nobody has asked for yet.
    left: Arc<AtomicU64>,
    drain: Drain,
    acked: u64,
}

impl Consumer {
    async fn run(mut self) -> Result<u64> {
        let (mut body, mut acks) = (Vec::new(), Vec::new());
        let mut held = Vec::new();
        loop {
            let take = |left: u64| Some(left - left.min(self.drain.by));
            let left = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).unwrap_or(0);
            let max = left.min(self.drain.by);
            if max == 0 {
                break;
            }
            body.clear();
            body.extend_from_slice(format!(r#"{{"max":{max}"#).as_bytes());
            let carried = held.len();
            if carried > 0 {
                body.extend_from_slice(br#","settle":"#);
                payload::acks(&held, &mut body);
            }
            body.push(b'}');
            let answer = self.client.post(&self.path, &body).await?;
            held = payload::held(answer);
            let settled = if carried > 0 { payload::settled(answer) } else { 0 };
            ensure!(settled == carried, "{settled} of {carried} acks were taken: {answer}");
            self.acked += settled as u64;
            ensure!(!held.is_empty(), "the queue has fewer jobs than it was given: {answer}");
            self.left.fetch_add(max - held.len() as u64, Ordering::Relaxed);
            if !self.drain.piggybacked {
                self.settle(&mut held, &mut acks).await?;
            }
        }
        self.settle(&mut held, &mut acks).await?;
        Ok(self.acked)
    }

    async fn settle(&mut self, held: &mut Vec<payload::Held>, body: &mut Vec<u8>) -> Result<()> {
        if held.is_empty() {
            return Ok(());
        }
        body.clear();
        payload::acks(held, body);
        let settled = payload::settled(self.client.post("/v1/settle", body).await.context("settle")?);
        ensure!(settled == held.len(), "{settled} of {} acks were taken", held.len());
        self.acked += settled as u64;
        held.clear();
        Ok(())
    }
}
