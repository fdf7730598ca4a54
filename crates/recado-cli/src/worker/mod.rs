//! A worker as a command: what `work` and `deliver` have in common. The library's worker takes the jobs, keeps
//! their leases and settles them; here are the command line, the stop, the limits of a run, and what is printed.

mod capture;
mod lines;
mod verdict;

use std::future::Future;
use std::ops::RangeInclusive;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use recado::{Cancelled, ConnectOptions, Ctx, JobError, Recado, Summary, Worker, WorkerBuilder};
use recado_contract::{duration, types};
use serde_json::value::RawValue;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::client::Remote;
use crate::commands::receive::weights;
use crate::config::LogFormat;
use crate::failure::{Exit, Failure, Outcome};
use crate::service::{Ends, runtime, start_log};
use crate::ui::Ui;

pub(crate) use capture::Capture;
use lines::Lines;
pub(crate) use verdict::{Retry, Verdict};

/// After a second signal: for what was cut off to be given back.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// The library's own grace is longer by this: runs are cut off here, where it is seen.
const SLACK: Duration = Duration::from_secs(1);

/// What the text of both commands says of the stop.
pub(crate) const SIGNALS: &str = "SIGTERM and SIGINT stop it: it takes nothing more, lets what runs go on for --grace, \
    and gives back the rest, no attempt used. A second signal cuts off what runs.\n\
    It goes on trying while the server cannot be reached. Exit codes: 0 stopped, 64 usage, 77 not allowed, \
    128 + n after a second signal.";

/// From which queues, how many at a time, for how long.
#[derive(clap::Args, Debug)]
pub(crate) struct Settings {
    /// Queue to take jobs of; of several, the first that has one, or by weight as NAME=WEIGHT
    #[arg(short, long = "queue", required = true, value_name = "QUEUE")]
    queues: Vec<String>,
    /// Jobs at the same time
    #[arg(short, long, default_value = "4", value_name = "N")]
    concurrency: usize,
    /// Only jobs of these types, like mail.send@1-3; separated by commas [default: all]
    #[arg(long, value_name = "TYPE", value_delimiter = ',', value_parser = declared)]
    types: Vec<Declared>,
    /// Name under which this worker is seen [default: made up]
    #[arg(long, value_name = "NAME")]
    worker: Option<String>,
    /// How long a job is hidden from others; extended while it runs [default: as the queue says]
    #[arg(long, value_name = "DURATION", value_parser = duration::read)]
    visibility_timeout: Option<Duration>,
    /// How long running jobs may go on after a signal
    #[arg(long, default_value = "25s", value_name = "DURATION", value_parser = duration::read)]
    grace: Duration,
    #[command(flatten)]
    remote: Remote,
}

/// A type of jobs, and its versions.
type Declared = (Box<str>, RangeInclusive<u32>);

fn declared(text: &str) -> Result<Declared, String> {
    types::parse(text).map(|range| (range.kind, range.from..=range.to))
}

/// Does one job. Its future may be dropped at any time, and what it does has to end with it.
pub(crate) trait Handler: Send + Sync + 'static {
    /// Runs it.
    fn run(&self, ctx: &Ctx) -> impl Future<Output = Verdict> + Send;
}

/// Works until a signal. `timeout` is the longest run; a job's own counts too.
pub(crate) fn run<H: Handler>(args: &Settings, ui: Ui, timeout: Option<Duration>, handler: H) -> Outcome {
    start_log(if ui.json { LogFormat::Json } else { LogFormat::Text })?;
    let runtime = runtime()?;
    let outcome = runtime.block_on(work(args, ui, timeout, handler));
    // Whoever does not read what is printed must not hold up the end.
    runtime.shutdown_background();
    outcome
}

async fn work<H: Handler>(args: &Settings, ui: Ui, timeout: Option<Duration>, handler: H) -> Outcome {
    let mut ends = Ends::new()?;
    let lines = Lines::new(ui);
    let (stop, cut_off) = (CancellationToken::new(), CancellationToken::new());
    let bench = Arc::new(Bench { handler, timeout, cut_off: cut_off.clone(), lines: lines.clone() });
    let run = move |ctx| Arc::clone(&bench).run(ctx);
    let builder = builder(args).await?;
    let builder = match args.types.as_slice() {
        [] => builder.handle_raw(run),
        types => types
            .iter()
            .fold(builder, |builder, (kind, versions)| builder.handle_type(kind, versions.clone(), run.clone())),
    };
    let worker = builder.build();
    let worker = worker.map_err(|error| Failure { exit: Exit::Usage, ..error.into() })?;
    lines.started(&args.queues, args.concurrency).await;
    let mut working = pin!(worker.run_until(stop.cancelled()));
    let ended = tokio::select! {
        ended = &mut working => ended,
        (name, _) = ends.next() => {
            tracing::info!("{name}: stopping, what runs may go on for {:?}; a second signal cuts it off", args.grace);
            stop.cancel();
            wind_up(working, &mut ends, args.grace, &cut_off).await
        }
    };
    lines.stopped(&ended?).await;
    Ok(Exit::Ok)
}

type Ended = Result<Summary, recado::Error>;

/// Lets what runs go on for the grace period or until a second signal, then cuts it off and gives it back. After a
/// second signal the process ends here.
async fn wind_up(
    mut working: Pin<&mut impl Future<Output = Ended>>,
    ends: &mut Ends,
    grace: Duration,
    cut_off: &CancellationToken,
) -> Ended {
    let second = tokio::select! {
        ended = &mut working => return ended,
        () = tokio::time::sleep(grace) => None,
        second = ends.next() => Some(second),
    };
    cut_off.cancel();
    let Some((name, number)) = second else {
        return tokio::select! {
            ended = working => ended,
            (_, number) = ends.next() => std::process::exit(128 + number),
        };
    };
    tracing::warn!("{name} again: what runs is cut off and given back");
    if tokio::time::timeout(LAST_WORDS, working).await.is_err() {
        tracing::warn!("not all could be given back: it is visible again after its timeout");
    }
    std::process::exit(128 + number)
}

async fn builder(args: &Settings) -> Result<WorkerBuilder, Failure> {
    let mut options = ConnectOptions::default();
    options.key.clone_from(&args.remote.key);
    let recado = Recado::connect_with(&args.remote.url, options).await?;
    let mut builder = Worker::builder(&recado).concurrency(args.concurrency).grace(args.grace + SLACK);
    builder = if args.queues.iter().any(|queue| queue.contains('=')) {
        builder.weighted(weights(&args.queues)?)
    } else {
        args.queues.iter().fold(builder, |builder, queue| builder.queue(queue))
    };
    if let Some(name) = &args.worker {
        builder = builder.name(name);
    }
    if let Some(visibility) = args.visibility_timeout {
        builder = builder.visibility(visibility);
    }
    Ok(builder)
}

/// Where jobs are done.
struct Bench<H> {
    handler: H,
    timeout: Option<Duration>,
    cut_off: CancellationToken,
    lines: Lines,
}

impl<H: Handler> Bench<H> {
    async fn run(self: Arc<Self>, ctx: Ctx) -> Result<Box<RawValue>, JobError> {
        let began = Instant::now();
        let own = self.timeout.map(|timeout| began + timeout);
        let deadline = own.into_iter().chain(ctx.deadline()).min();
        // Whichever comes first, the others are dropped, and a run ends where it is dropped.
        let verdict = tokio::select! {
            biased;
            verdict = self.handler.run(&ctx) => verdict,
            () = self.cut_off.cancelled() => Verdict::given_back("the worker stopped"),
            () = lease_lost(&ctx) => Verdict::given_back("the lease was lost"),
            () = at(deadline) => Verdict::timed_out(began.elapsed()),
        };
        self.lines.ended(&ctx, &verdict, began.elapsed()).await;
        verdict.into_result()
    }
}

async fn lease_lost(ctx: &Ctx) {
    if ctx.cancelled().await != Cancelled::LeaseLost {
        // Someone cancelled the job: how its run ends still counts.
        std::future::pending().await
    }
}

async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
