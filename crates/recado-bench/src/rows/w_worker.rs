//! (w) The library's worker: no-op jobs at concurrency 16, over a server and over a queue in this process.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use recado::{BoxError, Job, Recado, Summary, Worker};
use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;
use tokio::sync::Notify;

use crate::report::Line;
use crate::server::Server;
use crate::{Bench, progress, stats};

const CONCURRENCY: usize = 16;
const BATCH: usize = 1_000;
/// With `number` and `due_ns` as digits, and the names, 200 bytes of JSON.
const PADDING: usize = 140;
const INTERVAL: Duration = Duration::from_millis(2);
/// Jobs at the start that do not count.
const WARM_UP_JOBS: usize = 250;

/// Does nothing.
#[derive(Serialize, Deserialize)]
struct Noop {
    number: u64,
    due_ns: u64,
    padding: String,
}

impl Job for Noop {
    const NAME: &'static str = "noop";
    const QUEUE: &'static str = "noop";
    type Output = ();
}

impl Noop {
    fn new(number: u64, due_ns: u64) -> Self {
        Self { number, due_ns, padding: "x".repeat(PADDING) }
    }
}

pub(crate) fn run(bench: &mut Bench) -> Result<()> {
    let (jobs, timed) = (bench.pick(100_000, 20_000), bench.pick(5_000, 2_000) + WARM_UP_JOBS);
    progress(&format!("(w) a worker and {jobs} jobs"));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("the runtime")?;
    let (mut remote, mut embedded) = (Figures::default(), Figures::default());
    for _ in 0..bench.rounds() {
        let data = bench.scratch.fresh("w")?;
        let server = Server::start(&bench.server, &data, &[])?;
        let recado = runtime.block_on(Recado::connect(&format!("http://{}", server.addr)))?;
        remote.measure(&runtime, &recado, jobs, timed)?;
        server.kill()?;
        bench.scratch.clear(&data)?;

        let data = bench.scratch.fresh("w-embedded")?;
        embedded.measure_in(&runtime, &data, jobs, timed)?;
        bench.scratch.clear(&data)?;
    }
    let calls = |figures: &Figures| format!("{:.3} calls a job", stats::median(&figures.calls));
    let rate = |what: &str, figures: &Figures| {
        Line::new('w', format!("worker, {CONCURRENCY} at a time, {what}"), "jobs/s", figures.rates.clone())
            .note(calls(figures))
    };
    let lines = [
        rate("over a server", &remote),
        rate("in process", &embedded).against("over a server", remote.rates.clone()),
        Line::new('w', "enqueue to handler at 500 jobs/s, over a server, p50", "ms", remote.p50),
        Line::new('w', "enqueue to handler at 500 jobs/s, over a server, p99", "ms", remote.p99),
        Line::new('w', "enqueue to handler at 500 jobs/s, in process, p50", "ms", embedded.p50),
        Line::new('w', "enqueue to handler at 500 jobs/s, in process, p99", "ms", embedded.p99),
    ];
    lines.into_iter().for_each(|line| bench.report.add(line));
    Ok(())
}

/// Of one way, a round each.
#[derive(Default)]
struct Figures {
    rates: Vec<f64>,
    calls: Vec<f64>,
    p50: Vec<f64>,
    p99: Vec<f64>,
}

impl Figures {
    fn measure_in(&mut self, runtime: &Runtime, data: &Path, jobs: usize, timed: usize) -> Result<()> {
        let recado = runtime.block_on(Recado::open(data))?;
        self.measure(runtime, &recado, jobs, timed)?;
        Ok(runtime.block_on(recado.close())?)
    }

    fn measure(&mut self, runtime: &Runtime, recado: &Recado, jobs: usize, timed: usize) -> Result<()> {
        let (took, summary) = runtime.block_on(drain(recado, jobs))?;
        self.rates.push(jobs as f64 / took.as_secs_f64());
        self.calls.push(summary.calls as f64 / jobs as f64);
        let mut waits = runtime.block_on(latency(recado, timed))?;
        self.p50.push(stats::percentile_ms(&mut waits, 0.5));
        self.p99.push(stats::percentile_ms(&mut waits, 0.99));
        Ok(())
    }
}

/// A backlog, from the start of the worker until the last job is acked.
async fn drain(recado: &Recado, jobs: usize) -> Result<(Duration, Summary)> {
    let numbers: Vec<u64> = (0..jobs as u64).collect();
    for batch in numbers.chunks(BATCH) {
        recado.enqueue_all(batch.iter().map(|number| Noop::new(*number, 0))).await?;
    }
    let (done, all) = (Arc::new(AtomicU64::new(0)), Arc::new(Notify::new()));
    let (counted, tell) = (Arc::clone(&done), Arc::clone(&all));
    let run = move |_, _: Noop| {
        if counted.fetch_add(1, Ordering::Relaxed) + 1 == jobs as u64 {
            tell.notify_one();
        }
        async { Ok::<_, BoxError>(()) }
    };
    let worker = Worker::builder(recado).concurrency(CONCURRENCY).handle(run).build()?;
    let began = Instant::now();
    // It stops when all have run, and is done when all are acked.
    let summary = worker.run_until(async move { all.notified().await }).await?;
    ensure!(summary.completed == jobs as u64, "{} of {jobs} jobs were completed", summary.completed);
    Ok((began.elapsed(), summary))
}

/// From when a job was due to be enqueued, one every 2 ms, until its handler began.
async fn latency(recado: &Recado, jobs: usize) -> Result<Vec<Duration>> {
    let waits = Arc::new(Mutex::new(Vec::with_capacity(jobs)));
    let (seen, all) = (Arc::clone(&waits), Arc::new(Notify::new()));
    let (tell, started) = (Arc::clone(&all), Instant::now() + Duration::from_millis(200));
    let run = move |_, job: Noop| {
        let wait = started.elapsed().saturating_sub(Duration::from_nanos(job.due_ns));
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.push((job.number, wait));
        if seen.len() == jobs {
            tell.notify_one();
        }
        async { Ok::<_, BoxError>(()) }
    };
    let worker = Worker::builder(recado).concurrency(CONCURRENCY).handle(run).build()?;
    let stop = async move { all.notified().await };
    let (worked, produced) = tokio::join!(worker.run_until(stop), produce(recado, jobs, started));
    produced?;
    worked?;
    let mut waits = waits.lock().unwrap_or_else(PoisonError::into_inner).clone();
    waits.sort_unstable();
    Ok(waits.into_iter().skip(WARM_UP_JOBS).map(|(_, wait)| wait).collect())
}

async fn produce(recado: &Recado, jobs: usize, started: Instant) -> Result<()> {
    let recado = recado.clone();
    let (jobs_in, mut to_send) = tokio::sync::mpsc::unbounded_channel();
    // A thread sleeps finer than the runtime.
    let clock = std::thread::spawn(move || {
        for number in 0..jobs as u64 {
            let planned = started + INTERVAL * number as u32;
            let ahead = planned.saturating_duration_since(Instant::now());
            std::thread::sleep(ahead);
            let from = if ahead.is_zero() { planned } else { Instant::now() };
            let due_ns = from.saturating_duration_since(started).as_nanos() as u64;
            if jobs_in.send(Noop::new(number, due_ns)).is_err() {
                return;
            }
        }
    });
    let mut sending = tokio::task::JoinSet::new();
    while let Some(job) = to_send.recv().await {
        let recado = recado.clone();
        sending.spawn(async move { recado.enqueue(job).await });
    }
    while let Some(sent) = sending.join_next().await {
        sent.context("an enqueue broke off")??;
    }
    clock.join().map_err(|_| anyhow::anyhow!("the clock's thread panicked"))
}
