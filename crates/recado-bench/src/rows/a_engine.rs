//! (a) The engine in this process, without HTTP and JSON: batches of 100 jobs, each awaited.
//!
//! Beside it a bare loop writes the very bytes that the engine's log wrote, with as many syncs, to a file
//! filled with zeros beforehand.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use recado_core::{Command, Enqueue, NewJob, QueueOptions};
use recado_log::{FileLog, RealDisk};
use recado_shard::{Error, FileOptions, Handle, Options, Service};
use tokio::task::JoinSet;

use crate::load::block_on;
use crate::payload::payload;
use crate::raw_disk::ZeroFilled;
use crate::report::Line;
use crate::traced_disk::{self, SharedTrace, TracedDisk};
use crate::{Bench, progress, stats};

const BATCH: u64 = 100;
const PRODUCERS: [usize; 2] = [1, 16];
const PAUSE: Duration = Duration::from_millis(20);
const BARE_MEBIBYTES: u64 = 256;

pub(crate) fn run(bench: &mut Bench) -> Result<()> {
    progress("(a) the engine in this process");
    let time = bench.pick(Duration::from_secs(3), Duration::from_secs(1));
    let dir = bench.scratch.fresh("a-bare")?;
    let mut file = ZeroFilled::make(&dir, BARE_MEBIBYTES)?;
    let (mut engine, mut bare) = ([vec![], vec![]], [vec![], vec![]]);
    let (mut single, mut bytes, mut per_sync) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..bench.rounds() {
        for index in super::order(PRODUCERS.len(), round) {
            let Some(producers) = PRODUCERS.get(index).copied() else { continue };
            let measured = measure(&bench.scratch.fresh("a-engine")?, producers, time)?;
            let syncs = &measured.syncs;
            let took = file.append_all(syncs)?;
            let (Some(engine), Some(bare)) = (engine.get_mut(index), bare.get_mut(index)) else { continue };
            engine.push(measured.jobs as f64 / measured.took.as_secs_f64());
            bare.push(measured.jobs as f64 / took.as_secs_f64());
            let written = syncs.iter().sum::<usize>() as f64;
            bytes.push(written / measured.jobs as f64);
            if producers > 1 {
                per_sync.push(measured.jobs as f64 / syncs.len() as f64);
                let batch = (written / (measured.jobs / BATCH) as f64) as usize;
                single.push(
                    measured.jobs as f64
                        / file.append_all(&vec![batch; (measured.jobs / BATCH) as usize])?.as_secs_f64(),
                );
            }
        }
    }
    bench.scratch.clear(&dir)?;
    let [one, many] = engine;
    let [bare_one, bare_many] = bare;
    let bytes = format!("{:.0} B of log a job", stats::median(&bytes));
    bench.report.add(
        Line::new('a', "in process, batches of 100, 1 producer", "jobs/s", one)
            .against("bare loop", bare_one)
            .note(bytes),
    );
    bench.report.add(
        Line::new('a', "in process, batches of 100, 16 producers", "jobs/s", many.clone())
            .against("bare loop, a sync a batch", single),
    );
    let per_sync = format!("{:.0} jobs a sync", stats::median(&per_sync));
    bench.report.add(
        Line::new('a', "the same, beside the syncs it made itself", "jobs/s", many)
            .against("bare loop", bare_many)
            .note(per_sync),
    );
    Ok(())
}

struct Measured {
    jobs: u64,
    took: Duration,
    /// Bytes written before each sync.
    syncs: Vec<usize>,
}

fn measure(dir: &std::path::Path, producers: usize, time: Duration) -> Result<Measured> {
    let trace = SharedTrace::default();
    let service = start(dir, Arc::clone(&trace))?;
    let measured = block_on(async {
        let handle = service.handle();
        let options = QueueOptions { max_depth: Some(100_000_000), ..QueueOptions::default() };
        handle.call(Command::SetDefaults(options)).await?;
        handle.call(enqueue(0)).await?;
        traced_disk::take(&trace);
        let started = Instant::now();
        let mut running = JoinSet::new();
        for _ in 0..producers {
            running.spawn_local(produce(service.handle(), started + time));
        }
        let mut jobs = 0;
        while let Some(ended) = running.join_next().await {
            jobs += ended??;
        }
        Ok(Measured { jobs, took: started.elapsed(), syncs: traced_disk::take(&trace) })
    })?;
    service.stop()?;
    Ok(measured)
}

fn start(dir: &std::path::Path, trace: SharedTrace) -> Result<Service> {
    let disk = TracedDisk::new(RealDisk::new(dir).context("cannot make the directory")?, trace);
    // The log calls the writer's bell, which exists only once the log does.
    let bell: Arc<std::sync::OnceLock<Arc<dyn Fn() + Send + Sync>>> = Arc::default();
    let ring = Arc::clone(&bell);
    let wake = move || {
        if let Some(ring) = ring.get() {
            ring();
        }
    };
    let (log, _) = FileLog::open(Arc::new(disk), &FileOptions::default(), Arc::new(wake))?;
    let mut options = Options::new(|_, _, _| Err("nothing is patched here".into()))?;
    options.memory_bytes = 8 << 30;
    let service = recado_shard::start(Box::new(log), options, |ring| drop(bell.set(ring)))?;
    Ok(service)
}

async fn produce(handle: Handle, until: Instant) -> Result<u64> {
    let (mut jobs, mut next) = (0, enqueue(0));
    while Instant::now() < until {
        // The bare loop has its bytes at hand; so has the producer, which makes its next batch while it waits.
        let (answer, made) = tokio::join!(handle.call(next), async { enqueue(jobs + BATCH) });
        next = made;
        match answer {
            Ok(_) => jobs += BATCH,
            // The disk cannot prepare segments as fast as they are filled.
            Err(Error::StorageFull { .. } | Error::StorageSlow { .. }) => tokio::time::sleep(PAUSE).await,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(jobs)
}

fn enqueue(first: u64) -> Command {
    let job =
        |number| NewJob { kind: "email.send".into(), schema_version: 1, payload: payload(number), ..NewJob::default() };
    let jobs = (first..first + BATCH).map(job).collect();
    Command::Enqueue(Enqueue { queue: "email".into(), create: true, jobs, producer: None, request: None })
}
