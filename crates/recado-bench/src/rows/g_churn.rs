//! (g) Whether one old job keeps a log long: a day of churn on a simulated clock while one job never leaves.
//!
//! The engine runs in this process. Its log is written but not synced: what is measured is its length.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use recado_core::{Command, Enqueue, Failure, NewJob, Outcome, Receive, Settle, When};
use recado_log::Durability;
use recado_shard::{Clock, FileOptions, Handle, Options, block_on, start_file};

use crate::payload::payload;
use crate::report::Line;
use crate::{Bench, machine, progress};

const QUEUE: &str = "churn";
const DAY_S: u64 = 86_400;
const JOBS_PER_S: u64 = 50;
/// One of so many fails once.
const FAILS_ONE_OF: usize = 50;
/// Any start of the simulated day.
const START_MS: u64 = 1_800_000_000_000;
/// Beyond the end of the day: the job that never leaves.
const OLD_JOB_DELAY_MS: u64 = 300 * 86_400_000;
/// Between two looks at the log.
const LOOK_EVERY_S: u64 = 30;

/// Both clocks are one, and it moves when it is told to.
struct SimulatedClock(AtomicU64);

impl Clock for SimulatedClock {
    fn wall_ms(&self) -> u64 {
        START_MS + self.0.load(Ordering::Acquire)
    }

    fn elapsed(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Acquire))
    }
}

#[derive(Default)]
struct Peak {
    log_bytes: u64,
    live_bytes: u64,
    bound_bytes: u64,
    /// Largest part of its bound that the log took.
    share: f64,
    file_bytes: u64,
}

pub(crate) fn run(bench: &mut Bench) -> Result<()> {
    let seconds = bench.pick(DAY_S, DAY_S / 24);
    progress(&format!("(g) {seconds} simulated seconds of churn"));
    let data = bench.scratch.fresh("g")?;
    let clock = Arc::new(SimulatedClock(AtomicU64::new(0)));
    let mut options = Options::new(|_, _, _| Err("nothing is patched here".into()))?;
    options.clock = Arc::clone(&clock) as Arc<dyn Clock>;
    let file = FileOptions { durability: Durability::Os, ..FileOptions::default() };
    let service = start_file(&data, &file, options)?;
    let handle = service.handle();
    let old = NewJob { when: When::After(OLD_JOB_DELAY_MS), ..job(0) };
    block_on(handle.call(enqueue(vec![old])))?;
    let (mut peak, mut jobs) = (Peak::default(), 1);
    for second in 0..seconds {
        clock.0.fetch_add(1_000, Ordering::AcqRel);
        block_on(churn(&handle, jobs, second))?;
        jobs += JOBS_PER_S;
        if second % LOOK_EVERY_S == 0 {
            look(&handle, &data, &mut peak)?;
        }
        if second % (DAY_S / 8) == 0 && second > 0 {
            progress(&format!("(g) hour {}", second / 3_600));
        }
    }
    let written = handle.status().log.first.0 + handle.status().log.log_bytes;
    ensure!(written > 0, "nothing was written");
    service.stop()?;
    bench.scratch.clear(&data)?;
    let hours = seconds as f64 / 3_600.0;
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let what = format!("longest log in {hours:.0} h of {JOBS_PER_S} jobs/s, one old job");
    bench.report.add(
        Line::new('g', what, "MiB", vec![mib(peak.log_bytes)]).against("bound", vec![mib(peak.bound_bytes)]).note(
            format!(
                "{:.1} MiB live, {:.0} MiB written, files {:.0} MiB",
                mib(peak.live_bytes),
                mib(written),
                mib(peak.file_bytes)
            ),
        ),
    );
    ensure!(peak.share <= 1.0, "the log outgrew its bound: {:.2} of it", peak.share);
    Ok(())
}

/// The log against its bound: twice what is live, what is pinned, and two segments.
fn look(handle: &Handle, data: &std::path::Path, peak: &mut Peak) -> Result<()> {
    let status = handle.status();
    if let Some(reason) = status.failed {
        bail!("the log failed: {reason}");
    }
    let bound = 2 * status.live_bytes + status.log.pinned_bytes + 2 * status.log.unit_bytes;
    if status.log.log_bytes > peak.log_bytes {
        (peak.log_bytes, peak.live_bytes, peak.bound_bytes) = (status.log.log_bytes, status.live_bytes, bound);
    }
    peak.share = peak.share.max(status.log.log_bytes as f64 / bound as f64);
    peak.file_bytes = peak.file_bytes.max(machine::directory_bytes(data)?);
    Ok(())
}

/// One second: jobs come, all that wait are received, nearly all are acked.
async fn churn(handle: &Handle, first: u64, second: u64) -> Result<()> {
    handle.call(enqueue((first..first + JOBS_PER_S).map(job).collect())).await?;
    let receive = Receive {
        queues: vec![(QUEUE.into(), 1)],
        max: 2 * JOBS_PER_S as usize,
        max_bytes: 8 << 20,
        worker: Some("worker-1".into()),
        ..Receive::default()
    };
    let received = handle.receive(receive, Vec::new(), Duration::ZERO).await?;
    let secret = handle.secret();
    let settle = |(index, (delivered, _)): (usize, &(recado_core::Delivered, recado_shard::FilledJob))| Settle {
        job: Some(delivered.job.id),
        receipt: delivered.receipt.text(secret).into(),
        outcome: outcome(index, second, delivered.job.attempts),
    };
    let settles: Vec<Settle> = received.jobs.iter().enumerate().map(settle).collect();
    received.guard.confirm();
    ensure!(settles.len() as u64 >= JOBS_PER_S, "only {} jobs came", settles.len());
    for settled in handle.settle(settles).await? {
        settled?;
    }
    Ok(())
}

fn outcome(index: usize, second: u64, attempts: u32) -> Outcome {
    if attempts == 1 && index == second as usize % FAILS_ONE_OF {
        let message = "the mail server did not answer within 30 s".into();
        return Outcome::Fail(Failure { kind: "timeout".into(), message, retryable: true, retry_after_ms: None });
    }
    Outcome::Ack { result: Some(br#"{"sent":true}"#.to_vec()) }
}

fn job(number: u64) -> NewJob {
    NewJob { kind: "email.send".into(), schema_version: 1, payload: payload(number), ..NewJob::default() }
}

fn enqueue(jobs: Vec<NewJob>) -> Command {
    Command::Enqueue(Enqueue { queue: QUEUE.into(), create: true, jobs, producer: None, request: None })
}
