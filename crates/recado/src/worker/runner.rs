//! The worker at work: one task that knows everything, and the runs it started.
//!
//! It holds at most one receive and one settle under way. Ends are settled with the next receive, or by
//! themselves when none is about to be sent; a settle whose answer was lost is sent again, which is harmless
//! (promise 4). A run whose lease was lost is told, and settles nothing.

use std::collections::VecDeque;
use std::future::Future;
use std::mem;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use recado_contract::limits::{RECEIVE_JOBS_MAX, SETTLE_ENTRIES_MAX};
use recado_contract::problem::Problem;
use recado_core::{JobId, Outcome, Receive, Settle};
use tokio::sync::mpsc;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;

use super::builder::Plan;
use super::ctx::{Cancelled, Ctx, Said};
use super::held::{Book, Held, Stage};
use super::pace::Pace;
use super::registry::Registry;
use super::run::{self, Ending, released};
use super::{Summary, Worker};
use crate::backend::{Received, SettleAnswer, Settled};
use crate::delivery::Delivery;
use crate::error::Error;
use crate::recado::Recado;

/// How long a receive waits for a job.
const POLL: Duration = Duration::from_secs(20);
/// An end waits so long for others to go with it.
const LINGER: Duration = Duration::from_millis(2);
/// Results that go in one request, in bytes.
const ENDS_BYTES_MAX: usize = 4 << 20;
/// A job fetched ahead waits so long for a free place; then others may have it.
const PATIENCE: Duration = Duration::from_secs(1);
/// Progress of a job is sent at most so often.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);
/// After a call that failed: the first wait, and the longest.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// After the grace period: for handlers to be dropped, and for what is left to be settled.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// How long a runner goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Until it is stopped.
    Serve,
    /// Until nothing is due.
    Drain,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Working,
    /// Nothing more is taken; what runs may go on until then.
    Stopping(Instant),
    /// What still runs was cut off; what is left is settled until then.
    Ending(Instant),
}

/// What a settle is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sent {
    End,
    Extend,
}

type Under<T> = Option<(Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>, Vec<(u64, Sent)>)>;

/// Waits that grow while calls fail.
struct Pause {
    next: Duration,
    until: Option<Instant>,
}

impl Default for Pause {
    fn default() -> Self {
        Self { next: PAUSE.0, until: None }
    }
}

impl Pause {
    fn after_failure(&mut self) {
        self.until = Some(Instant::now() + self.next.mul_f64(0.5 + rand::random::<f64>() / 2.0));
        self.next = (self.next * 2).min(PAUSE.1);
    }

    fn is_over(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| until <= now)
    }
}

pub(super) struct Runner {
    recado: Recado,
    plan: Arc<Plan>,
    registry: Arc<Registry>,
    mode: Mode,
    phase: Phase,
    book: Book,
    /// Fetched ahead, in the order they came.
    waiting: VecDeque<u64>,
    runs: JoinSet<Ending>,
    /// Which delivery a run is of, and since when.
    running: std::collections::HashMap<Id, (u64, Instant)>,
    /// Ends to be settled.
    outbox: VecDeque<u64>,
    /// Since when the oldest of them waits.
    outbox_since: Option<Instant>,
    receiving: Under<Received>,
    /// What the present receive asks for: the same again after its answer was lost.
    asked: Option<Receive>,
    settling: Under<SettleAnswer>,
    receive_pause: Pause,
    settle_pause: Pause,
    /// What handlers say of their progress.
    said: (mpsc::UnboundedSender<Said>, mpsc::UnboundedReceiver<Said>),
    pace: Pace,
    summary: Summary,
    failed: Option<Error>,
}

impl Runner {
    pub(super) fn new(worker: &Worker, mode: Mode) -> Self {
        Self {
            recado: worker.recado.clone(),
            plan: Arc::clone(&worker.plan),
            registry: Arc::clone(&worker.registry),
            mode,
            phase: Phase::Working,
            book: Book::default(),
            waiting: VecDeque::new(),
            runs: JoinSet::new(),
            running: std::collections::HashMap::new(),
            outbox: VecDeque::new(),
            outbox_since: None,
            receiving: None,
            asked: None,
            settling: None,
            receive_pause: Pause::default(),
            settle_pause: Pause::default(),
            said: mpsc::unbounded_channel(),
            pace: Pace::default(),
            summary: Summary::default(),
            failed: None,
        }
    }

    /// Works until `stop`, and then to the end of what is begun.
    pub(super) async fn run(mut self, stop: impl Future<Output = ()>) -> Result<Summary, Error> {
        let mut stop = pin!(stop);
        loop {
            let now = Instant::now();
            self.start_waiting(now);
            self.ask(now);
            self.flush(now);
            if self.is_over(now) {
                return self.failed.map_or(Ok(self.summary), Err);
            }
            let wake_at = self.wake_at(now);
            tokio::select! {
                biased;
                () = &mut stop, if self.phase == Phase::Working => self.stop(),
                Some(ended) = self.runs.join_next_with_id() => self.ended(ended),
                received = under_way(&mut self.receiving) => self.received(received),
                answer = under_way(&mut self.settling) => self.settled(answer),
                Some((key, share)) = self.said.1.recv() => self.note_progress(key, share),
                () = sleep_until(wake_at) => self.on_time(),
            }
        }
    }

    fn places(&self) -> usize {
        match self.mode {
            Mode::Serve => self.plan.concurrency,
            Mode::Drain => 1,
        }
    }

    /// Gives free places to what waits.
    fn start_waiting(&mut self, now: Instant) {
        while self.running.len() < self.places() && self.phase == Phase::Working {
            let Some(key) = self.waiting.pop_front() else { return };
            self.start(key, now);
        }
    }

    fn start(&mut self, key: u64, now: Instant) {
        let Some(held) = self.book.held.get_mut(&key) else { return };
        let Some(handler) = self.registry.find(&held.delivery.kind, held.delivery.schema_version) else {
            // The types were declared, so it should not have come.
            tracing::error!(job = %held.delivery.id, kind = %held.delivery.kind, "no handler for this job: it is given back");
            held.stage = Stage::Ended(released("no handler"));
            self.queue_end(key, now);
            return;
        };
        let own = held.delivery.timeout_at.map(|at| held.lease.here(at));
        let deadline = self.plan.timeout.map(|timeout| now + timeout).into_iter().chain(own).min();
        let ctx = Ctx::new(held.delivery.clone(), self.recado.clone(), deadline, (key, self.said.0.clone()));
        held.stage = Stage::Runs(ctx.clone());
        let run = self.runs.spawn(run::run(handler, ctx));
        self.running.insert(run.id(), (key, now));
    }

    /// Asks for more when what is fetched ahead runs low.
    fn ask(&mut self, now: Instant) {
        if self.phase != Phase::Working || self.receiving.is_some() || !self.receive_pause.is_over(now) {
            return;
        }
        let ahead = match self.mode {
            Mode::Serve => self.pace.ahead(self.plan.concurrency, self.plan.prefetch_max),
            Mode::Drain => 0,
        };
        let want = (self.places() + ahead).saturating_sub(self.running.len() + self.waiting.len());
        if want == 0 || self.waiting.len() > ahead / 2 {
            return;
        }
        let asked = self.asked.take().unwrap_or_else(|| Receive {
            max: want.min(RECEIVE_JOBS_MAX as usize),
            attempt_id: Some(format!("{:032x}", rand::random::<u128>()).into()),
            ..self.plan.receive.clone()
        });
        let (sent, settles) = self.take_ends(SETTLE_ENTRIES_MAX);
        let wait = if self.mode == Mode::Drain { Duration::ZERO } else { POLL };
        let (recado, receive) = (self.recado.clone(), asked.clone());
        self.asked = Some(asked);
        let receiving = async move { recado.backend().receive(&receive, &settles, wait).await };
        self.receiving = Some((Box::pin(receiving), sent));
    }

    /// Ends that are to be settled, with what is sent for each.
    fn take_ends(&mut self, max: usize) -> (Vec<(u64, Sent)>, Vec<Settle>) {
        let mut bytes = 0;
        let fits = |key: &&u64| {
            bytes += self.book.held.get(*key).map_or(0, Held::end_bytes);
            bytes <= ENDS_BYTES_MAX
        };
        // The first one always goes.
        let count = self.outbox.iter().take(max).take_while(fits).count().max(1).min(self.outbox.len());
        let keys: Vec<u64> = self.outbox.drain(..count).collect();
        self.outbox_since = (!self.outbox.is_empty()).then(Instant::now);
        let end = |key: u64| Some(((key, Sent::End), self.book.held.get(&key)?.end()?));
        keys.into_iter().filter_map(end).unzip()
    }

    /// Sends ends that no receive took along, and heartbeats.
    fn flush(&mut self, now: Instant) {
        if self.settling.is_some() || !self.settle_pause.is_over(now) {
            return;
        }
        let extends = self.book.due_extends(self.plan.receive.visibility_ms, now, SETTLE_ENTRIES_MAX);
        let is_due = self.outbox_since.is_some_and(|since| since + self.linger() <= now);
        if extends.is_empty() && !is_due {
            return;
        }
        let (mut sent, mut settles) = self.take_ends(SETTLE_ENTRIES_MAX - extends.len());
        for (key, settle) in extends {
            sent.push((key, Sent::Extend));
            settles.push(settle);
        }
        let recado = self.recado.clone();
        let settling = async move { recado.backend().settle(&settles).await };
        self.settling = Some((Box::pin(settling), sent));
    }

    fn linger(&self) -> Duration {
        if self.phase == Phase::Working && self.mode == Mode::Serve { LINGER } else { Duration::ZERO }
    }

    fn queue_end(&mut self, key: u64, now: Instant) {
        self.outbox.push_back(key);
        self.outbox_since.get_or_insert(now);
    }

    /// A receive was answered, or not.
    fn received(&mut self, (received, sent): (Result<Received, Error>, Vec<(u64, Sent)>)) {
        match received {
            Ok(Received { jobs, answer }) => {
                (self.asked, self.receive_pause) = (None, Pause::default());
                let is_drained = self.mode == Mode::Drain && jobs.is_empty() && self.running.is_empty();
                self.answered(sent, answer);
                self.take_in(jobs);
                if is_drained {
                    self.stop();
                }
            }
            Err(error) => {
                self.send_again(sent);
                self.receive_pause.after_failure();
                // A queue that is not there yet may come.
                if self.mode == Mode::Drain || !(error.is_transient() || error.code() == Some("not-found")) {
                    self.fail(error);
                } else {
                    tracing::warn!(%error, "jobs cannot be received: trying again");
                }
            }
        }
    }

    fn take_in(&mut self, jobs: Vec<Delivery>) {
        let now = Instant::now();
        for delivery in jobs {
            let key = self.book.add(delivery, now);
            self.waiting.push_back(key);
        }
        if self.phase != Phase::Working {
            self.give_back_waiting(|_| true);
        }
    }

    /// Gives back what waits for a place, as far as it should.
    fn give_back_waiting(&mut self, should: impl Fn(Instant) -> bool) {
        let now = Instant::now();
        for key in mem::take(&mut self.waiting) {
            let Some(held) = self.book.held.get_mut(&key) else { continue };
            match held.stage {
                Stage::Waits(since) if should(since) => {
                    held.stage = Stage::Ended(released("fetched ahead and not begun"));
                    self.queue_end(key, now);
                }
                _ => self.waiting.push_back(key),
            }
        }
    }

    fn settled(&mut self, (answer, sent): (Result<SettleAnswer, Error>, Vec<(u64, Sent)>)) {
        match answer {
            Ok(answer) => {
                self.settle_pause = Pause::default();
                self.answered(sent, answer);
            }
            Err(error) => {
                self.send_again(sent);
                self.settle_pause.after_failure();
                if error.is_transient() {
                    tracing::warn!(%error, "jobs cannot be settled: trying again");
                } else {
                    // Nothing can be settled any more.
                    self.fail(error);
                    self.runs.abort_all();
                    self.phase = Phase::Ending(Instant::now());
                }
            }
        }
    }

    /// What was not answered is sent again; a heartbeat is due again by itself.
    fn send_again(&mut self, sent: Vec<(u64, Sent)>) {
        let now = Instant::now();
        for (key, _) in sent.into_iter().filter(|(_, sent)| *sent == Sent::End) {
            self.queue_end(key, now);
        }
    }

    fn answered(&mut self, sent: Vec<(u64, Sent)>, answer: SettleAnswer) {
        for ((key, sent), settled) in sent.into_iter().zip(answer.settled) {
            match sent {
                Sent::End => self.end_answered(key, settled),
                Sent::Extend => self.extend_answered(key, settled),
            }
        }
        for id in answer.cancel_requested {
            self.cancel_requested(id);
        }
    }

    fn end_answered(&mut self, key: u64, settled: Result<Settled, Problem>) {
        let problem = match settled {
            Ok(_) => {
                let Some(held) = self.book.held.remove(&key) else { return };
                if let Stage::Ended(outcome) = held.stage {
                    self.count(&outcome);
                }
                return;
            }
            Err(problem) => problem,
        };
        if matches!(problem.status(), 429 | 503 | 507) {
            // The receipt stays good.
            self.settle_pause.after_failure();
            self.queue_end(key, Instant::now());
            return;
        }
        if let Some(held) = self.book.held.remove(&key) {
            self.summary.overtaken += 1;
            let reason = problem.reason();
            tracing::warn!(job = %held.delivery.id, reason, "a run ended too late: it changed nothing");
        }
    }

    fn count(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Ack { .. } => self.summary.completed += 1,
            Outcome::Fail(_) => self.summary.failed += 1,
            Outcome::Release { .. } => self.summary.released += 1,
            Outcome::Extend { .. } => {}
        }
    }

    fn extend_answered(&mut self, key: u64, settled: Result<Settled, Problem>) {
        let Some(held) = self.book.held.get_mut(&key).filter(|held| held.is_live()) else { return };
        match settled {
            Ok(Settled { visible_at: Some(at), .. }) => held.lease.extended(at),
            Ok(_) => {}
            Err(problem) if problem.code() == "stale-receipt" => {
                tracing::warn!(job = %held.delivery.id, reason = problem.reason(), "the lease was lost");
                held.is_lost = true;
                match &held.stage {
                    Stage::Runs(ctx) => ctx.cancel(Cancelled::LeaseLost),
                    _ => {
                        self.book.held.remove(&key);
                        self.waiting.retain(|waiting| *waiting != key);
                    }
                }
            }
            Err(problem) => tracing::warn!(job = %held.delivery.id, code = problem.code(), "a heartbeat was refused"),
        }
    }

    fn cancel_requested(&mut self, id: JobId) {
        let Some((key, held)) = self.book.of_job(id) else { return };
        match &held.stage {
            Stage::Runs(ctx) => ctx.cancel(Cancelled::Requested),
            Stage::Waits(_) => {
                held.stage = Stage::Ended(released("cancelled"));
                self.waiting.retain(|waiting| *waiting != key);
                self.queue_end(key, Instant::now());
            }
            Stage::Ended(_) => {}
        }
    }

    /// A run has ended.
    fn ended(&mut self, ended: Result<(Id, Ending), JoinError>) {
        let (id, ending) = match ended {
            Ok(ended) => ended,
            Err(error) if error.is_cancelled() => (error.id(), Ending::Aborted),
            // A handler's panic was caught already: this one came while its future was dropped.
            Err(error) => (error.id(), Ending::Panicked(error.to_string())),
        };
        let Some((key, began)) = self.running.remove(&id) else { return };
        let now = Instant::now();
        self.pace.add(now - began);
        let Some(held) = self.book.held.get_mut(&key) else { return };
        if held.is_lost {
            self.book.held.remove(&key);
            self.summary.overtaken += 1;
            return;
        }
        held.stage = Stage::Ended(ending.outcome(&self.plan.classifiers));
        self.queue_end(key, now);
    }

    fn note_progress(&mut self, key: u64, share: f64) {
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
        let Some(held) = self.book.held.get_mut(&key).filter(|held| held.is_live()) else { return };
        held.progress = Some(share.to_string().into_bytes());
        held.lease.extend_at = held.lease.extend_at.min(Instant::now() + PROGRESS_EVERY);
    }

    fn on_time(&mut self) {
        let now = Instant::now();
        match self.phase {
            Phase::Working => self.give_back_waiting(|since| since + PATIENCE <= now),
            Phase::Stopping(until) if until <= now => {
                self.runs.abort_all();
                self.phase = Phase::Ending(now + LAST_WORDS);
            }
            Phase::Stopping(_) | Phase::Ending(_) => {}
        }
    }

    fn fail(&mut self, error: Error) {
        self.failed.get_or_insert(error);
        self.stop();
    }

    /// Takes nothing more.
    fn stop(&mut self) {
        if self.phase != Phase::Working {
            return;
        }
        self.phase = Phase::Stopping(Instant::now() + self.plan.grace);
        self.give_back_waiting(|_| true);
        if let Some((receiving, sent)) = self.receiving.take() {
            // What it took along is settled by itself: the same again is no harm.
            drop(receiving);
            self.send_again(sent);
        }
        if let Some(asked) = self.asked.take() {
            let recado = self.recado.clone();
            let reclaiming = async move {
                let jobs = recado.backend().reclaim(&asked).await?;
                Ok(Received { jobs, answer: SettleAnswer::default() })
            };
            self.receiving = Some((Box::pin(reclaiming), Vec::new()));
        }
    }

    fn is_over(&self, now: Instant) -> bool {
        match self.phase {
            Phase::Working => false,
            Phase::Ending(until) if until <= now => {
                let left = self.book.held.len();
                tracing::warn!(left, "not all jobs could be given back: they are visible again after their timeout");
                true
            }
            Phase::Stopping(_) | Phase::Ending(_) => {
                self.book.held.is_empty() && self.receiving.is_none() && self.settling.is_none()
            }
        }
    }

    /// When something is to be done though nothing comes.
    fn wake_at(&self, now: Instant) -> Option<Instant> {
        let after_pause = |at: Instant, pause: &Pause| pause.until.map_or(at, |until| at.max(until));
        let flush = self.outbox_since.map(|since| since + self.linger());
        let flush = flush.into_iter().chain(self.book.next_extend()).min();
        let flush = flush.filter(|_| self.settling.is_none()).map(|at| after_pause(at, &self.settle_pause));
        let oldest = self.waiting.front().and_then(|key| match self.book.held.get(key)?.stage {
            Stage::Waits(since) => Some(since + PATIENCE),
            _ => None,
        });
        let phase = match self.phase {
            Phase::Working if self.receiving.is_none() => self.receive_pause.until.filter(|until| *until > now),
            Phase::Working => None,
            Phase::Stopping(until) | Phase::Ending(until) => Some(until),
        };
        [flush, oldest, phase].into_iter().flatten().min()
    }
}

/// Waits for what is under way, and takes it out.
async fn under_way<T>(under: &mut Under<T>) -> (Result<T, Error>, Vec<(u64, Sent)>) {
    let Some((future, _)) = under else { return std::future::pending().await };
    let done = future.await;
    (done, under.take().map(|(_, sent)| sent).unwrap_or_default())
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
