//! The local log: opens a data directory, hands batches to the committer, and runs the two engines
//! on threads, or leaves that to its owner.
//!
//! The owner's side does no I/O: a submit computes where the batch will lie, checks that there is
//! room, and queues it. Only a submit that asks for it ([`Urgency::Alone`]) then does the committer's work itself.

use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::committer::Committer;
use crate::disk::Disk;
use crate::error::Error;
use crate::geometry::Geometry;
use crate::preparer::Preparer;
use crate::recovery::{Plan, Recovery, epoch_after};
use crate::segments::{self, PREPARING, Segments};
use crate::shared::{Progress, Queued, Shared, Wake, lock};
use crate::{Batch, Class, FileReader, Limits, Log, Position, Reader, Urgency, Usage};

/// What `committed` means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Synced: survives power loss.
    #[default]
    Sync,
    /// Written: survives the death of the process, not power loss.
    Os,
}

/// How a log is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// What `committed` means.
    pub durability: Durability,
    /// Size of a segment of a new log, in bytes: a multiple of 4 KiB from 64 KiB to 1 GiB. A log keeps
    /// the size it was made with.
    pub segment_bytes: u64,
    /// Largest batch, in bytes; never more than what fits in one segment.
    pub batch_bytes_max: usize,
    /// Batches that should be in flight at most; told through [`Log::limits`].
    pub window: usize,
    /// Segments kept prepared ahead of the one in use, at least 3: two of them are never for producers. What
    /// [`Log::reserve`] asks for beyond one segment comes on top.
    pub prepared_ahead: u64,
    /// Freed segments kept to be used again; the others are removed.
    pub spares_max: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            durability: Durability::Sync,
            segment_bytes: 64 << 20,
            batch_bytes_max: 16 << 20,
            window: 1024,
            prepared_ahead: 3,
            spares_max: 2,
        }
    }
}

impl Options {
    fn validate(&self) -> Result<(), Error> {
        if !Geometry::is_valid(self.segment_bytes) {
            return Err(Error::Options { what: "segment_bytes must be a multiple of 4 KiB from 64 KiB to 1 GiB" });
        }
        if self.prepared_ahead < 3 {
            return Err(Error::Options { what: "prepared_ahead must be at least 3" });
        }
        if self.window == 0 || self.batch_bytes_max == 0 {
            return Err(Error::Options { what: "window and batch_bytes_max must be at least 1" });
        }
        Ok(())
    }
}

/// What a step of an engine came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Something was done; there may be more.
    Worked,
    /// There is nothing to do, until something is submitted, trimmed or unpinned, or until this time.
    Idle {
        /// On the clock that `now` comes from.
        until: Option<Duration>,
    },
    /// The log was closed, dropped or poisoned; no step will do anything.
    Ended,
}

/// The moving parts of a log, for an owner that steps them. `now` is any clock that only goes forward.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
    committer: Arc<Mutex<Committer>>,
    preparer: Arc<Mutex<Preparer>>,
}

impl Engine {
    /// Writes what was submitted and syncs what is due.
    pub fn commit(&self, now: Duration) -> Step {
        let mut committer = lock(&self.committer);
        let _guard = Guard(&self.shared); // dropped before the lock: nobody goes on with what is half done
        committer.step(now)
    }

    /// Does one piece of preparing and freeing segments.
    pub fn prepare(&self, now: Duration) -> Step {
        let mut preparer = lock(&self.preparer);
        let _guard = Guard(&self.shared);
        preparer.step(now)
    }

    fn finish(&self) {
        let now = lock(&self.committer).now();
        while self.commit(now) != Step::Ended {}
    }
}

/// The log in a directory.
pub struct FileLog {
    shared: Arc<Shared>,
    engine: Engine,
    reader: Arc<FileReader>,
    limits: Limits,
    /// Position of the next batch.
    tip: u64,
    threads: Option<Threads>,
    _lock: Box<dyn std::any::Any + Send + Sync>,
}

struct Threads {
    /// Start of the clock by which the engines are stepped.
    started: Instant,
    committer: JoinHandle<()>,
    preparer: JoinHandle<()>,
}

impl FileLog {
    /// Opens the log in `disk`, makes it if the directory is empty, and runs it on two threads.
    /// `wake` is called, from any thread, whenever an answer of the log may have changed.
    ///
    /// # Errors
    /// [`Error::InUse`], [`Error::ReadOnly`], [`Error::NewerFormat`] and [`Error::Corrupt`] leave the
    /// directory as it was; [`Error::Io`], [`Error::Options`].
    pub fn open(disk: Arc<dyn Disk>, options: &Options, wake: Wake) -> Result<(FileLog, Recovery), Error> {
        let (mut log, engine, recovery) = FileLog::open_stepped(disk, options, wake)?;
        let start = |name: &str, body: Box<dyn FnOnce() + Send>| {
            thread::Builder::new()
                .name(name.into())
                .spawn(body)
                .map_err(|source| Error::io("start a thread for", &log.shared.disk.path(""), source))
        };
        let started = Instant::now();
        let (shared, stepped) = (Arc::clone(&log.shared), engine.clone());
        let committer = start("recado-commit", Box::new(move || run_committer(&shared, &stepped, started)))?;
        let shared = Arc::clone(&log.shared);
        let preparer = start("recado-prepare", Box::new(move || run_preparer(&shared, &engine, started)))?;
        log.threads = Some(Threads { started, committer, preparer });
        Ok((log, recovery))
    }

    /// As [`FileLog::open`], without threads: nothing is written until the engine is stepped.
    ///
    /// # Errors
    /// As [`FileLog::open`].
    pub fn open_stepped(
        disk: Arc<dyn Disk>,
        options: &Options,
        wake: Wake,
    ) -> Result<(FileLog, Engine, Recovery), Error> {
        options.validate()?;
        let lock = segments::lock(&*disk)?;
        let mut segments = Segments::find(&*disk, options.segment_bytes)?;
        let geometry = segments.geometry;
        let plan = Plan::make(&*disk, &segments)?;
        plan.refuse_corrupt(&*disk, geometry)?;
        let rewritten_bytes = plan.carry_out(&*disk, &segments)?;
        segments.set_strays_aside(&*disk)?;
        if disk.remove(PREPARING).is_ok() {
            disk.sync_dir().map_err(|source| Error::io("sync", &disk.path(""), source))?;
        }
        let recovery = Recovery {
            epoch: epoch_after(plan.epoch, &*disk),
            first: Position(geometry.start(segments.first())),
            tip: Position(plan.tip),
            cut: plan.cut(&*disk, geometry),
            batches: plan.batches,
            rewritten_bytes,
        };
        FileLog::start(disk, options, wake, segments, &plan, recovery, lock)
    }

    fn start(
        disk: Arc<dyn Disk>,
        options: &Options,
        wake: Wake,
        segments: Segments,
        plan: &Plan,
        mut recovery: Recovery,
        lock: Box<dyn std::any::Any + Send + Sync>,
    ) -> Result<(FileLog, Engine, Recovery), Error> {
        let geometry = segments.geometry;
        let last = plan.last.unwrap_or(0);
        let progress = Progress {
            written: last,
            written_end: plan.tip,
            committed: last,
            committed_end: plan.tip,
            synced_end: plan.tip,
        };
        let shared = Arc::new(Shared::new(disk, geometry, recovery.epoch, wake, segments.numbers, progress));
        let mut preparer =
            Preparer::new(Arc::clone(&shared), options.prepared_ahead, options.spares_max, segments.free);
        while preparer.try_step(Duration::ZERO)? == Step::Worked {}
        let is_new = plan.epoch == 0;
        if !shared.is_prepared(plan.tip) || (is_new && shared.is_short()) {
            return Err(Error::io(
                "prepare segments in",
                &shared.disk.path(""),
                std::io::ErrorKind::StorageFull.into(),
            ));
        }
        let mut committer = Committer::new(Arc::clone(&shared), options.durability);
        committer.fence(plan.epoch)?;
        recovery.tip = Position(shared.tip());
        let engine = Engine {
            shared: Arc::clone(&shared),
            committer: Arc::new(Mutex::new(committer)),
            preparer: Arc::new(Mutex::new(preparer)),
        };
        let fits = usize::try_from(geometry.room_in_segment()).unwrap_or(usize::MAX);
        let log = FileLog {
            reader: Arc::new(FileReader::new(Arc::clone(&shared))),
            engine: engine.clone(),
            limits: Limits { batch_bytes_max: options.batch_bytes_max.min(fits), window: options.window },
            tip: shared.tip(),
            shared,
            threads: None,
            _lock: lock,
        };
        Ok((log, engine, recovery))
    }

    /// The reader, with what only a local log can do.
    pub fn file_reader(&self) -> Arc<FileReader> {
        Arc::clone(&self.reader)
    }

    fn end_threads(&mut self) {
        lock(&self.shared.chores).stopping = true;
        self.shared.notify_chores();
        if let Some(threads) = self.threads.take() {
            // A thread that panicked has poisoned the log.
            let _ = threads.committer.join();
            let _ = threads.preparer.join();
        }
    }
}

impl Log for FileLog {
    fn next(&self) -> Position {
        Position(self.tip)
    }

    fn submit(&mut self, batch: Batch, urgency: Urgency) -> Result<Position, Error> {
        self.shared.alive()?;
        let bytes = batch.head.len() + batch.tail.len();
        if bytes > self.limits.batch_bytes_max {
            return Err(Error::TooLarge { limit: self.limits.batch_bytes_max, actual: bytes });
        }
        let geometry = self.shared.geometry;
        let end = geometry.extent(self.tip, bytes).end;
        if end > self.shared.limit(Class::Copy) {
            return Err(Error::Full { needed: bytes as u64, room: self.room(Class::Copy) });
        }
        let position = self.tip;
        lock(&self.shared.intake).queue.push(Queued { position, batch, urgency });
        self.tip = geometry.seat(end);
        self.shared.set_tip(self.tip);
        if geometry.segment(self.tip) != geometry.segment(position) {
            self.shared.notify_chores();
        }
        match &self.threads {
            Some(threads) if urgency == Urgency::Alone => {
                self.engine.commit(threads.started.elapsed());
                self.shared.notify_deadline();
            }
            _ => self.shared.notify_work(),
        }
        Ok(Position(position))
    }

    fn written(&self) -> Position {
        Position(self.shared.progress().written)
    }

    fn committed(&self) -> Result<Position, Error> {
        self.shared.alive()?;
        Ok(Position(self.shared.progress().committed))
    }

    fn flush(&mut self) {
        lock(&self.shared.intake).flush = true;
        self.shared.notify_work();
    }

    fn room(&self, class: Class) -> u64 {
        self.shared.geometry.room(self.tip, self.shared.limit(class))
    }

    fn reserve(&mut self, bytes: u64) {
        if self.shared.reserve(bytes) {
            self.shared.notify_chores();
        }
    }

    fn is_short_of_space(&self) -> bool {
        self.shared.is_short()
    }

    fn trim(&mut self, below: Position) -> Result<(), Error> {
        self.shared.alive()?;
        if self.shared.trim(below.0) {
            self.flush(); // with durability `Os` the copies may not be synced yet
        }
        self.shared.notify_chores();
        Ok(())
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn usage(&self) -> Usage {
        let first = self.shared.first();
        Usage {
            first,
            log_bytes: self.tip.saturating_sub(first.0),
            pinned_bytes: self.shared.pinned_bytes(),
            unit_bytes: self.shared.geometry.segment_bytes,
        }
    }

    fn reader(&self) -> Arc<dyn Reader> {
        Arc::clone(&self.reader) as Arc<dyn Reader>
    }

    fn close(mut self: Box<Self>) -> Result<(), Error> {
        lock(&self.shared.intake).closing = true;
        self.shared.notify_work();
        match self.threads.take() {
            None => self.engine.finish(),
            Some(threads) => {
                let _ = threads.committer.join(); // a thread that panicked has poisoned the log
                lock(&self.shared.chores).stopping = true;
                self.shared.notify_chores();
                let _ = threads.preparer.join();
            }
        }
        self.shared.alive()
    }
}

/// A log that is dropped, not closed, ends as if the process had been killed.
impl Drop for FileLog {
    fn drop(&mut self) {
        lock(&self.shared.intake).stopping = true;
        self.shared.notify_work();
        self.end_threads();
    }
}

fn run_committer(shared: &Arc<Shared>, engine: &Engine, started: Instant) {
    loop {
        match engine.commit(started.elapsed()) {
            Step::Worked => {}
            Step::Idle { until } => {
                shared.wait_for_work(until.map(|until| until.saturating_sub(started.elapsed())));
            }
            Step::Ended => return,
        }
    }
}

fn run_preparer(shared: &Arc<Shared>, engine: &Engine, started: Instant) {
    loop {
        match engine.prepare(started.elapsed()) {
            Step::Worked => {}
            Step::Idle { until } => {
                shared.wait_for_chores(until.map(|until| until.saturating_sub(started.elapsed())));
            }
            Step::Ended => return,
        }
    }
}

/// A broken invariant ends the log, not only the thread that met it.
struct Guard<'a>(&'a Shared);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.poison_with("a thread of the log panicked, see the standard error output".into());
        }
    }
}
