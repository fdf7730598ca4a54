//! (d) From enqueue to receive at 500 jobs/s, beside what one synced append takes.
//!
//! An open loop: a job is due every 2 ms whether or not the one before was answered, and what it waits
//! for its turn counts. How long the clock of this machine oversleeps does not.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::http::Client;
use crate::load::{self, block_on};
use crate::payload::{self, Keys, PAYLOAD_BYTES};
use crate::raw_disk::ZeroFilled;
use crate::report::Line;
use crate::server::Server;
use crate::{Bench, progress, stats};

const QUEUE: &str = "latency";
const INTERVAL: Duration = Duration::from_millis(2);
/// Producers take turns, so one slow answer does not hold up the next job.
const PRODUCERS: u64 = 8;
/// Jobs at the start that do not count.
const WARM_UP_JOBS: usize = 250;
const APPEND_BYTES: usize = 512;
const APPENDS: usize = 2_000;

pub(crate) fn run(bench: &mut Bench) -> Result<()> {
    let jobs = bench.pick(5_000, 2_000) + WARM_UP_JOBS;
    progress("(d) latency at 500 jobs/s");
    let (mut p50, mut p99, mut append_p50, mut append_p99) = (vec![], vec![], vec![], vec![]);
    let mut answer_p50 = Vec::new();
    for _ in 0..bench.rounds() {
        let dir = bench.scratch.fresh("d-append")?;
        let mut file = ZeroFilled::make(&dir, 8)?;
        let appends: Result<Vec<Duration>> = (0..APPENDS).map(|_| file.append(&[b'x'; APPEND_BYTES])).collect();
        let mut appends = appends?;
        append_p50.push(stats::percentile_ms(&mut appends, 0.5));
        append_p99.push(stats::percentile_ms(&mut appends, 0.99));
        bench.scratch.clear(&dir)?;

        let data = bench.scratch.fresh("d")?;
        let server = Server::start(&bench.server, &data, &[])?;
        let Measured { mut received, mut answered } = measure(server.addr, jobs)?;
        p50.push(stats::percentile_ms(&mut received, 0.5));
        p99.push(stats::percentile_ms(&mut received, 0.99));
        answer_p50.push(stats::percentile_ms(&mut answered, 0.5));
        server.kill()?;
        bench.scratch.clear(&data)?;
    }
    let note = format!("enqueue answered after {:.2} ms", stats::median(&answer_p50));
    bench.report.add(
        Line::new('d', "enqueue to receive at 500 jobs/s, p50", "ms", p50)
            .against("synced append", append_p50)
            .note(note),
    );
    bench
        .report
        .add(Line::new('d', "enqueue to receive at 500 jobs/s, p99", "ms", p99).against("synced append", append_p99));
    Ok(())
}

struct Measured {
    /// From due to received.
    received: Vec<Duration>,
    /// From due to answered.
    answered: Vec<Duration>,
}

fn measure(addr: SocketAddr, jobs: usize) -> Result<Measured> {
    block_on(load::configure(addr, QUEUE))?;
    // When each job was due, in nanoseconds since the start.
    let due: Vec<AtomicU64> = (0..jobs).map(|_| AtomicU64::new(0)).collect();
    let started = Instant::now() + Duration::from_millis(100);
    let (due, mut received, answered) = thread::scope(|scope| -> Result<_> {
        let due = &due;
        let consumer = scope.spawn(move || block_on(consume(addr, due, started)));
        let producer = |turn| scope.spawn(move || block_on(produce(addr, turn, due, started)));
        let producers: Vec<_> = (0..PRODUCERS).map(producer).collect();
        let mut answered = Vec::new();
        for producer in producers {
            answered.extend(join(producer)?);
        }
        Ok((due, join(consumer)?, answered))
    })?;
    ensure!(received.len() == due.len(), "{} of {} jobs came", received.len(), due.len());
    received.drain(..WARM_UP_JOBS);
    Ok(Measured { received, answered })
}

fn join<T>(thread: thread::ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    thread.join().map_err(|_| anyhow::anyhow!("a thread of the client panicked"))?
}

async fn produce(addr: SocketAddr, turn: u64, due: &[AtomicU64], started: Instant) -> Result<Vec<Duration>> {
    let mut client = Client::connect(addr).await?;
    let path = format!("/v1/queues/{QUEUE}/jobs");
    let mut answered = Vec::new();
    for (number, slot) in (0..).zip(due).skip(turn as usize).step_by(PRODUCERS as usize) {
        let body = payload::batch(number, 1, Keys::Plain, PAYLOAD_BYTES);
        let planned = started + INTERVAL * number as u32;
        // This thread has nothing else to do: its own sleep is finer than the runtime's.
        let ahead = planned.saturating_duration_since(Instant::now());
        thread::sleep(ahead);
        let from = if ahead.is_zero() { planned } else { Instant::now() };
        slot.store(from.saturating_duration_since(started).as_nanos() as u64, Ordering::Release);
        client.post(&path, &body).await?;
        answered.push(from.elapsed());
    }
    Ok(answered)
}

async fn consume(addr: SocketAddr, due: &[AtomicU64], started: Instant) -> Result<Vec<Duration>> {
    let mut client = Client::connect(addr).await?;
    let path = format!("/v1/queues/{QUEUE}/receive");
    let mut received = Vec::with_capacity(due.len());
    let mut acks = b"[]".to_vec();
    while received.len() < due.len() {
        let mut body = br#"{"max":10,"wait":"10s","settle":"#.to_vec();
        body.append(&mut acks);
        body.push(b'}');
        let answer = client.post(&path, &body).await?;
        let now = started.elapsed();
        let held = payload::held(answer);
        ensure!(!held.is_empty(), "no job came for 10 s");
        for number in payload::numbers(answer) {
            let due = due.get(number as usize).context("an unknown job came")?.load(Ordering::Acquire);
            received.push(now.saturating_sub(Duration::from_nanos(due)));
        }
        payload::acks(&held, &mut acks);
    }
    client.post("/v1/settle", &acks).await?;
    Ok(received)
}
