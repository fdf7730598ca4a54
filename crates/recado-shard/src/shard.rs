//! The single writer, as a function that is called again and again.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use recado_core::{Command, Reply, State};
use recado_log::{Class, Log};
use tokio::sync::watch;

use crate::cache::Cache;
use crate::clock::{Clock, Entropy, Now, SystemClock, SystemEntropy, Timekeeper};
use crate::error::{Error, OpenError};
use crate::feed::{Feed, Listeners};
use crate::guard::Repeats;
use crate::handle::Handle;
use crate::inbox::{Bell, Gate, Inbox, Internal, Request};
use crate::pool::{ReaderPool, Workers};
use crate::recover::{Replayed, forget_news, replay};
use crate::shared::Shared;
use crate::space;
use crate::status::Status;
use crate::tasks::{MergePatch, Tasks};
use crate::trim::Trimmer;
use crate::waiters::Waiters;
use crate::watchers::Watchers;
use crate::writer::{Room, Writer};

/// How a shard is run.
pub struct Options {
    /// Its number, 12 bits: it is part of every id.
    pub number: u16,
    /// Wall and monotonic time.
    pub clock: Arc<dyn Clock>,
    /// Receipts and ids rest on it.
    pub entropy: Box<dyn Entropy>,
    /// Who reads payloads beside the writer.
    pub workers: Arc<dyn Workers>,
    /// Requests that may wait for the writer; more are refused.
    pub command_queue_max: usize,
    /// Payloads kept in memory, in bytes.
    pub payload_cache_bytes: usize,
    /// Memory of the state at which producers are refused, in bytes.
    pub memory_bytes: u64,
    /// Merges a patch into a payload (RFC 7386 over JSON, which this crate does not know).
    pub merge_patch: MergePatch,
}

/// Threads of the default [`ReaderPool`].
const READER_THREADS: usize = 2;

impl Options {
    /// The defaults: system time and entropy, two reader threads, 16,384 requests, 256 MiB of payloads,
    /// 1 GiB of state.
    ///
    /// # Errors
    /// [`OpenError::Thread`].
    pub fn new(
        merge_patch: impl Fn(&[u8], &[u8], Option<&Arc<str>>) -> Result<Vec<u8>, String> + Send + Sync + 'static,
    ) -> Result<Self, OpenError> {
        Ok(Self {
            number: 0,
            clock: Arc::new(SystemClock::default()),
            entropy: Box::new(SystemEntropy),
            workers: Arc::new(ReaderPool::start(READER_THREADS).map_err(OpenError::Thread)?),
            command_queue_max: 16_384,
            payload_cache_bytes: 256 << 20,
            memory_bytes: 1 << 30,
            merge_patch: Arc::new(merge_patch),
        })
    }
}

/// What to do after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Step again at once.
    Now,
    /// Sleep until then on the monotonic clock, or until a request or the log wakes.
    At(Duration),
    /// It is over: [`Shard::close`].
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Serving,
    /// No more requests come; those that came are decided.
    Stopping,
    /// The last batch is on its way.
    Stopped,
    Ended,
}

/// Longest sleep: a step of the wall clock is noticed by then.
const SLEEP_MAX: Duration = Duration::from_secs(1);
/// Pause while there is no room, if nothing wakes before.
const NO_ROOM_PAUSE: Duration = Duration::from_millis(5);
/// Figures are saved so often.
const FIGURES_EVERY: Duration = Duration::from_secs(60);
/// The status is renewed so often.
const STATUS_EVERY: Duration = Duration::from_millis(100);
/// Smallest batch limit that the shard can work with, in bytes.
const BATCH_BYTES_MIN: usize = 2 * space::OWN_BYTES_MAX;

/// One writer with its state, its log, and all who wait for it.
pub struct Shard {
    /// First, so that who waits for a dropped answer finds out why.
    alarm: Alarm,
    pub(crate) writer: Writer,
    pub(crate) time: Timekeeper,
    pub(crate) backlog: VecDeque<Request>,
    pub(crate) waiters: Waiters,
    pub(crate) watchers: Watchers,
    pub(crate) listeners: Listeners,
    pub(crate) tasks: Tasks,
    pub(crate) trimmer: Trimmer,
    pub(crate) repeats: Repeats,
    pub(crate) merge_patch: MergePatch,
    pub(crate) requests: u64,
    /// When it was last measured how fast memory becomes free.
    pub(crate) memory_measured: Option<Duration>,
    /// When a request last came in.
    pub(crate) last_request: Duration,
    /// Numbers of queues that are being deleted.
    pub(crate) going: BTreeSet<u32>,
    requests_in: Vec<Request>,
    internal_in: Vec<Internal>,
    internal: VecDeque<Internal>,
    phase: Phase,
    /// A step of the wall clock that the state has not been told of.
    clock_step_ms: i64,
    figures_at: Duration,
    /// What had been appended when figures were last saved.
    figures_bytes: u64,
    status_at: Duration,
    status_requests: u64,
    replayed: Replayed,
}

impl Shard {
    /// Replays the log and begins the service; nothing is answered before that is committed.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(log: Box<dyn Log>, options: Options) -> Result<Self, OpenError> {
        Self::open_with(log, options, Bell::default())
    }

    pub(crate) fn open_with(log: Box<dyn Log>, options: Options, bell: Bell) -> Result<Self, OpenError> {
        let limit = log.limits().batch_bytes_max;
        if limit < BATCH_BYTES_MIN {
            return Err(OpenError::BatchTooSmall { limit: BATCH_BYTES_MIN, actual: limit });
        }
        let mut state = State::new(options.number);
        let reader = log.reader();
        let replayed = replay(&mut state, &*reader, log.usage().first)?;
        let Replayed { batches, events, bytes, took, .. } = replayed;
        tracing::info!(batches, events, bytes, took_ms = took.as_millis() as u64, "replayed the log");
        state.set_memory_limit(options.memory_bytes);
        let shared = Arc::new(Shared {
            inbox: Inbox::new(options.command_queue_max, bell),
            cache: Cache::new(options.payload_cache_bytes),
            reader,
            workers: options.workers,
            secret: OnceLock::new(),
            failed: watch::Sender::new(None),
            feed: Feed::default(),
            status: Mutex::new(Status { memory_limit_bytes: options.memory_bytes, ..Status::default() }),
            unreadable: AtomicU64::new(0),
            unreadable_told: Mutex::default(),
            unpatched: AtomicU64::new(0),
            config_version: AtomicU64::new(0),
            drain: Mutex::default(),
            memory_retry_ms: AtomicU64::new(0),
        });
        let mut time = Timekeeper::new(options.clock);
        let (now, _) = time.read();
        let mut entropy = options.entropy;
        let secret = (entropy.next(), entropy.next());
        let mut writer = Writer::new(log, state, shared, entropy, replayed.last.0);
        writer.start(now, replayed.last_at, secret);
        writer.submit(now)?;
        assert!(writer.shared.secret.set(writer.state.secret()).is_ok(), "a shard starts once");
        forget_news(&mut writer.state);
        let figures_bytes = writer.appended_bytes;
        Ok(Self {
            alarm: Alarm(Arc::clone(&writer.shared)),
            writer,
            time,
            backlog: VecDeque::new(),
            waiters: Waiters::default(),
            watchers: Watchers::default(),
            listeners: Listeners::default(),
            tasks: Tasks::default(),
            trimmer: Trimmer::default(),
            repeats: Repeats::default(),
            merge_patch: options.merge_patch,
            requests: 0,
            memory_measured: None,
            last_request: now.elapsed,
            going: BTreeSet::new(),
            requests_in: Vec::new(),
            internal_in: Vec::new(),
            internal: VecDeque::new(),
            phase: Phase::Serving,
            clock_step_ms: 0,
            figures_at: now.elapsed + FIGURES_EVERY,
            figures_bytes,
            status_at: now.elapsed,
            status_requests: 0,
            replayed,
        })
    }

    /// What everyone else uses.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle { shared: Arc::clone(&self.writer.shared) }
    }

    /// What the replay found.
    #[must_use]
    pub fn replayed(&self) -> Replayed {
        self.replayed
    }

    /// Begins to stop: step until [`Next::Ended`], then [`Shard::close`].
    pub fn begin_stop(&self) {
        self.handle().begin_stop();
    }

    /// Whoever asks waits for each answer before asking again.
    pub(crate) fn is_asked_by_one(&self) -> bool {
        self.writer.is_quiet()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.phase != Phase::Serving
    }

    /// One turn: what has come in, what is due, what waits, a batch for the log, answers that may leave.
    /// It blocks only while the log commits a batch beside which there is nothing to do. Given the same clock,
    /// entropy, log, workers and requests it does the same.
    pub fn step(&mut self) -> Next {
        if self.phase == Phase::Ended {
            return Next::Ended;
        }
        match self.turn() {
            Ok(next) => next,
            Err(error) => {
                self.poison(&error);
                Next::Ended
            }
        }
    }

    fn turn(&mut self) -> Result<Next, recado_log::Error> {
        let (now, stepped) = self.time.read();
        self.writer.deliver(now)?;
        self.tell_news();
        self.take(now);
        let (tick_again, no_room) = match self.step_clock(now, stepped)? {
            true => self.work(now)?,
            false => (false, true),
        };
        if tick_again || self.tasks.is_busy {
            self.writer.goes_on();
        }
        if self.backlog.is_empty() || no_room || self.writer.is_batch_full() {
            self.writer.submit(now)?;
        }
        // Before the answer to whoever changed a configuration leaves.
        let version = self.writer.state.config_version();
        self.writer.shared.config_version.store(version, Ordering::Release);
        // The log may have worked within the submit.
        self.writer.deliver(Now { elapsed: self.time.elapsed(), ..now })?;
        self.tell_news();
        self.show_status(now);
        if self.phase == Phase::Stopped && self.writer.is_idle() {
            self.phase = Phase::Ended;
            self.writer.shared.feed.end();
            return Ok(Next::Ended);
        }
        Ok(self.next(now, tick_again, no_room))
    }

    /// Everything that decides: whether more timers are due, and whether room ran out.
    fn work(&mut self, now: Now) -> Result<(bool, bool), recado_log::Error> {
        let mut no_room = self.own_affairs(now)?;
        no_room |= self.serve(now)?;
        self.writer.shared.inbox.set_backlog(self.backlog.len());
        let (tick_again, no_room_to_tick) = self.tick(now)?;
        no_room |= no_room_to_tick;
        no_room |= self.step_tasks(now)?;
        no_room |= self.serve_waiters(now)?;
        self.serve_news(now);
        no_room |= self.end_waits(now)?;
        no_room |= self.trim(now, self.last_request)?;
        self.make_space(now)?;
        self.serve_watchers(now);
        self.note_news(now);
        self.forget_queues();
        self.save_figures(now)?;
        self.advance_stop(now)?;
        Ok((tick_again, no_room))
    }

    fn take(&mut self, now: Now) {
        let gate = self.writer.shared.inbox.take(&mut self.requests_in, &mut self.internal_in, self.backlog.len());
        if !self.requests_in.is_empty() {
            self.last_request = now.elapsed;
        }
        self.backlog.extend(self.requests_in.drain(..));
        self.internal.extend(self.internal_in.drain(..));
        if matches!(gate, Gate::Stopping) && self.phase == Phase::Serving {
            self.phase = Phase::Stopping;
        }
    }

    /// The wall clock was stepped: running leases and backoffs move with it. Nothing may be decided by
    /// the new time before that: false when there is no room for it yet.
    fn step_clock(&mut self, now: Now, stepped: Option<i64>) -> Result<bool, recado_log::Error> {
        if let Some(delta_ms) = stepped {
            tracing::warn!(delta_ms, "the wall clock was stepped: running timeouts keep their length");
            self.clock_step_ms = self.clock_step_ms.saturating_add(delta_ms);
        }
        if self.clock_step_ms == 0 {
            return Ok(true);
        }
        let command = Command::StepClock { delta_ms: self.clock_step_ms };
        if self.writer.claim(now, Class::Copy, space::bound(&self.writer.state, &command))? != Room::Yes {
            return Ok(false);
        }
        if let Err(rejection) = self.writer.run(now, &command) {
            unreachable!("a step of the clock is never refused: {rejection}");
        }
        self.clock_step_ms = 0;
        Ok(true)
    }

    /// Gives back what was not delivered and takes what was read. True when room ran out.
    fn own_affairs(&mut self, now: Now) -> Result<bool, recado_log::Error> {
        while let Some(internal) = self.internal.pop_front() {
            match internal {
                Internal::Copies(fetched) => self.trimmer.add_fetched(fetched, now),
                Internal::Patched(patched) => self.tasks.add_patched(*patched),
                Internal::Unlisten(job) => self.unlisten(now, job),
                Internal::GiveBack { nonce, .. } if self.repeats.has(nonce) => {}
                Internal::GiveBack { job, nonce, delay_ms } => {
                    let command = Command::GiveBack { job, nonce, delay_ms };
                    if self.writer.claim(now, Class::Settle, space::bound(&self.writer.state, &command))? != Room::Yes {
                        self.internal.push_front(Internal::GiveBack { job, nonce, delay_ms });
                        return Ok(true);
                    }
                    if let Err(rejection) = self.writer.run(now, &command) {
                        // Its lease has ended, or an operator was faster.
                        tracing::debug!(%job, %rejection, "a job was not given back");
                    }
                }
            }
        }
        Ok(false)
    }

    /// Timers that are due: whether there are more, and whether room ran out.
    fn tick(&mut self, now: Now) -> Result<(bool, bool), recado_log::Error> {
        if self.writer.state.next_due(now.wall).is_none_or(|due| due > now.wall) {
            return Ok((false, false));
        }
        // What does not fit in a batch is left to the next tick.
        let bytes = space::bound(&self.writer.state, &Command::Tick).min(self.writer.command_bytes_max());
        if self.writer.claim(now, Class::Settle, bytes)? != Room::Yes {
            return Ok((false, true));
        }
        match self.writer.run(now, &Command::Tick) {
            Ok(Reply::Ticked { more }) => Ok((more, false)),
            other => unreachable!("a tick answers ticked, not {other:?}"),
        }
    }

    fn save_figures(&mut self, now: Now) -> Result<(), recado_log::Error> {
        if now.elapsed < self.figures_at {
            return Ok(());
        }
        self.figures_at = now.elapsed + FIGURES_EVERY;
        let nothing_new = self.figures_bytes == self.writer.appended_bytes && !self.writer.has_draft();
        if !nothing_new {
            self.write_figures(now)?;
            self.writer.submit(now)?;
            self.figures_bytes = self.writer.appended_bytes;
        }
        Ok(())
    }

    fn write_figures(&mut self, now: Now) -> Result<(), recado_log::Error> {
        let mut command = Command::SaveFigures { after: None };
        // They are for people; while storage is short it is needed for jobs.
        while !self.writer.log.is_short_of_space()
            && self.writer.claim_beside(now, Class::Settle, space::bound(&self.writer.state, &command))? == Room::Yes
        {
            match self.writer.run(now, &command) {
                Ok(Reply::FiguresSaved { next: Some(after) }) => command = Command::SaveFigures { after: Some(after) },
                Ok(Reply::FiguresSaved { next: None }) => break,
                other => unreachable!("saving figures answers figures saved, not {other:?}"),
            }
        }
        Ok(())
    }

    /// Once all that came is decided, everyone who waits is sent home and the figures are saved.
    fn advance_stop(&mut self, now: Now) -> Result<(), recado_log::Error> {
        if self.phase == Phase::Stopping && self.backlog.is_empty() {
            self.dismiss_waiters(now);
            self.dismiss_watchers(now);
            self.write_figures(now)?;
            self.phase = Phase::Stopped;
        }
        if self.phase == Phase::Stopped && self.writer.submit(now)? {
            self.writer.flush();
        }
        Ok(())
    }

    fn next(&self, now: Now, tick_again: bool, no_room: bool) -> Next {
        let is_busy = !self.backlog.is_empty()
            || !self.internal.is_empty()
            || tick_again
            || self.tasks.is_busy
            || self.waiters.woken().is_some();
        if no_room || (is_busy && self.writer.is_starved()) {
            return Next::At(now.elapsed + NO_ROOM_PAUSE);
        }
        if is_busy {
            return Next::Now;
        }
        let wall = |at: u64| now.elapsed + Duration::from_millis(at.saturating_sub(now.wall));
        let due = self.writer.state.next_due(now.wall).map(wall);
        let task = self.tasks.due_at.map(wall);
        let waits = [self.waiters.next_deadline(), self.watchers.next_deadline(), self.trimmer.next_at];
        let first = waits.into_iter().chain([due, task]).flatten().min();
        let latest = (now.elapsed + SLEEP_MAX).min(self.figures_at);
        match first.unwrap_or(latest).min(latest) {
            at if at <= now.elapsed => Next::Now,
            at => Next::At(at),
        }
    }

    fn show_status(&mut self, now: Now) {
        let since = now.elapsed.saturating_sub(self.status_at);
        if since < STATUS_EVERY && !self.writer.is_idle() {
            return;
        }
        if since >= STATUS_EVERY {
            let per_second = (self.requests - self.status_requests) as f64 / since.as_secs_f64();
            if self.requests > self.status_requests {
                self.writer.shared.inbox.set_rate(per_second as u64);
            }
            (self.status_at, self.status_requests) = (now.elapsed, self.requests);
        }
        let writer = &self.writer;
        let (log, live_bytes, memory_bytes) =
            (writer.log.usage(), writer.state.live_bytes(), writer.state.memory_bytes());
        writer.shared.with_status(|status| {
            status.storage_full = writer.log.is_short_of_space();
            (status.log, status.live_bytes, status.memory_bytes) = (log, live_bytes, memory_bytes);
            status.waiting = self.waiters.len();
            (status.commit, status.batches, status.requests) =
                (writer.commit_times, writer.commit_times.count, self.requests);
        });
    }

    /// The log has failed: what was applied ahead of it cannot be undone, so this ends here.
    fn poison(&mut self, error: &recado_log::Error) {
        let reason: Arc<str> = match error {
            recado_log::Error::Poisoned { reason } => Arc::clone(reason),
            other => other.to_string().into(),
        };
        tracing::error!(%reason, "the log has failed: all requests are answered with an unknown outcome");
        self.fail(&reason);
    }

    fn fail(&mut self, reason: &Arc<str>) {
        self.phase = Phase::Ended;
        let shared = Arc::clone(&self.writer.shared);
        shared.fail(reason);
        // Behind the closed gate this finds all there will ever be.
        self.requests_in.clear();
        self.internal_in.clear();
        shared.inbox.take(&mut self.requests_in, &mut self.internal_in, 0);
        self.backlog.extend(self.requests_in.drain(..));
        self.internal_in.clear();
        let error = Error::LogFailed { reason: Arc::clone(reason) };
        self.writer.fail_all(&error);
        for request in self.backlog.drain(..) {
            request.fail(error.clone());
        }
        self.waiters.fail_all(&error);
        self.watchers.fail_all(&error);
        self.writer.state = State::new(0);
    }

    /// Ends the service: what was submitted is committed and the directory released.
    ///
    /// # Errors
    /// [`Error::LogFailed`].
    pub fn close(self) -> Result<(), Error> {
        assert_eq!(self.phase, Phase::Ended, "a shard is stepped to its end before it is closed");
        let Self { alarm, writer, .. } = self;
        let shared = Arc::clone(&writer.shared);
        if let Some(failed @ Error::LogFailed { .. }) = shared.inbox.gate().refusal() {
            return Err(failed);
        }
        let closed = writer.log.close().map_err(|error| {
            let reason: Arc<str> = error.to_string().into();
            shared.fail(&reason);
            Error::LogFailed { reason }
        });
        drop(alarm);
        closed
    }
}

/// Tells everyone when the writer is gone. A shard that is dropped without being closed ends as if its
/// process had been killed; callers must not wait for it for ever.
struct Alarm(Arc<Shared>);

impl Drop for Alarm {
    fn drop(&mut self) {
        if matches!(self.0.inbox.gate(), Gate::Open) {
            self.0.fail(&"the writer has ended: see the log of this process".into());
        }
        // Their promises are dropped with them, which their callers notice.
        self.0.inbox.take(&mut Vec::new(), &mut Vec::new(), 0);
    }
}
