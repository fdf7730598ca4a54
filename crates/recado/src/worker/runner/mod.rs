//! The worker at work: one task that knows everything, and the runs it started.
//!
//! It holds at most one receive and one settle under way. Ends are settled with the next receive, or by
//! themselves when none is about to be sent; a settle whose answer was lost is sent again, which is harmless
//! (promise 4). A run whose lease was lost is told; what it comes to is settled all the same, and the queue decides.

mod answers;
mod calls;
mod crew;
mod pause;
mod stop;

use std::collections::VecDeque;
use std::future::Future;
use std::mem;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use recado_contract::limits::SETTLE_ENTRIES_MAX;
use recado_core::{Outcome, Receive};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::builder::Plan;
use super::ctx::Ctx;
use super::error::JobError;
use super::held::{Book, Stage};
use super::pace::Pace;
use super::registry::Registry;
use super::run::{Ending, released};
use super::{Summary, Worker};
use crate::backend::{Received, SettleAnswer};
use crate::delivery::Delivery;
use crate::error::Error;
use crate::recado::Recado;

use crew::{Crew, Ended};
use pause::Pause;

/// An end waits so long for others to go with it.
const LINGER: Duration = Duration::from_millis(2);
/// A job fetched ahead waits so long for a free place; then others may have it.
const PATIENCE: Duration = Duration::from_secs(1);

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
    /// Nothing more is taken; what runs may go on until then, or without a limit.
    Stopping(Option<Instant>),
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

/// A receive that is not answered yet.
struct Asked {
    receive: Receive,
    /// The server may have handed out jobs for it: the same again answers with them.
    may_be_taken: bool,
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
    crew: Crew,
    /// Ends to be settled.
    outbox: VecDeque<u64>,
    /// Since when the oldest of them waits.
    outbox_since: Option<Instant>,
    receiving: Under<Received>,
    asked: Option<Asked>,
    settling: Under<SettleAnswer>,
    receive_pause: Pause,
    /// Of ends alone: heartbeats keep their own time.
    ends_pause: Pause,
    /// Entries that go in one settle: fewer while one of them has the others refused too.
    entries_max: usize,
    /// Deliveries whose handlers said how far they are.
    said: (mpsc::UnboundedSender<u64>, mpsc::UnboundedReceiver<u64>),
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
            crew: Crew::new(),
            outbox: VecDeque::new(),
            outbox_since: None,
            receiving: None,
            asked: None,
            settling: None,
            receive_pause: Pause::default(),
            ends_pause: Pause::default(),
            entries_max: SETTLE_ENTRIES_MAX,
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
            self.end_early(now);
            if self.is_over(now) {
                return self.failed.map_or(Ok(self.summary), Err);
            }
            let wake_at = self.wake_at(now);
            tokio::select! {
                biased;
                () = &mut stop, if self.phase == Phase::Working => self.stop(),
                ended = self.crew.ended() => ended.into_iter().for_each(|ended| self.ended(ended)),
                received = under_way(&mut self.receiving) => self.received(received),
                answer = under_way(&mut self.settling) => self.settled(answer),
                () = sleep_until(wake_at) => self.on_time(),
                Some(key) = self.said.1.recv() => self.note_progress(key),
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
        while self.crew.len() < self.places() && self.phase == Phase::Working {
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
        let plans = self.plan.timeout.and_then(|timeout| now.checked_add(timeout));
        let deadline = plans.into_iter().chain(own).min();
        let teller = (key, self.said.0.clone());
        let ctx = match Ctx::new(Arc::clone(&held.delivery), self.recado.clone(), deadline, teller) {
            Ok(ctx) => ctx,
            Err(error) => {
                held.stage = Stage::Ended(Ending::Failed(JobError::invalid_payload(error)).outcome(&[]));
                self.queue_end(key, now);
                return;
            }
        };
        held.stage = Stage::Runs(ctx.clone());
        self.crew.start(key, handler, ctx);
    }

    fn queue_end(&mut self, key: u64, now: Instant) {
        self.outbox.push_back(key);
        self.outbox_since.get_or_insert(now);
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

    /// A run has ended.
    fn ended(&mut self, Ended { key, took, ending }: Ended) {
        let now = Instant::now();
        self.pace.add(took);
        let Some(held) = self.book.held.get_mut(&key) else { return };
        let outcome = ending.outcome(&self.plan.classifiers);
        if held.is_lost && matches!(outcome, Outcome::Release { .. }) {
            // What was lost cannot be given back.
            self.book.held.remove(&key);
            self.summary.overtaken += 1;
            return;
        }
        held.stage = Stage::Ended(outcome);
        self.queue_end(key, now);
    }

    fn note_progress(&mut self, key: u64) {
        let Some(held) = self.book.held.get_mut(&key).filter(|held| held.is_live()) else { return };
        let Stage::Runs(ctx) = &held.stage else { return };
        held.said(ctx.take_progress().to_string().into_bytes(), Instant::now());
        let at = held.lease.extend_at;
        self.book.hasten(at);
    }

    /// When something is to be done though nothing comes.
    fn wake_at(&self, now: Instant) -> Option<Instant> {
        let after_pause = |at: Instant| self.ends_pause.until.map_or(at, |until| at.max(until));
        let ends = self.outbox_since.map(|since| after_pause(since + self.linger()));
        let flush = ends.into_iter().chain(self.book.next_extend()).min().filter(|_| self.settling.is_none());
        let oldest = self.waiting.front().and_then(|key| match self.book.held.get(key)?.stage {
            Stage::Waits(since) => Some(since + PATIENCE),
            _ => None,
        });
        let may_ask = self.receiving.is_none() && (self.phase == Phase::Working || self.asked.is_some());
        let ask = self.receive_pause.until.filter(|until| may_ask && *until > now);
        let phase = match self.phase {
            Phase::Working => None,
            Phase::Stopping(until) => until,
            Phase::Ending(until) => Some(until),
        };
        [flush, oldest, ask, phase].into_iter().flatten().min()
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
