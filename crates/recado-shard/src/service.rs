//! A shard in production: a thread that steps it and parks in between.

use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

use recado_log::{FileLog, Log, RealDisk, Recovery};

use crate::clock::Clock;
use crate::error::{Error, OpenError};
use crate::handle::Handle;
use crate::inbox::Bell;
use crate::recover::Replayed;
use crate::shard::{Next, Options, Shard};

/// How the local log is opened.
pub type FileOptions = recado_log::Options;

/// A shard at work. Dropped without [`Service::stop`] it goes on until the process ends.
pub struct Service {
    handle: Handle,
    thread: JoinHandle<Result<(), Error>>,
    recovery: Option<Recovery>,
    replayed: Replayed,
}

impl Service {
    /// For everyone who uses the shard.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// What the local log found when it was opened.
    #[must_use]
    pub fn recovery(&self) -> Option<&Recovery> {
        self.recovery.as_ref()
    }

    /// What was replayed.
    #[must_use]
    pub fn replayed(&self) -> Replayed {
        self.replayed
    }

    /// Refuses new requests, ends long polls with empty answers, decides what has come in. Does not block.
    pub fn begin_stop(&self) {
        self.handle.begin_stop();
    }

    /// [`Service::begin_stop`], then waits until all is committed and the log is closed.
    ///
    /// # Errors
    /// [`Error::LogFailed`].
    pub fn stop(self) -> Result<(), Error> {
        self.begin_stop();
        self.join()
    }

    /// Waits for the end of the shard, which comes by [`Service::begin_stop`] or by a failure.
    ///
    /// # Errors
    /// [`Error::LogFailed`].
    pub fn join(self) -> Result<(), Error> {
        let reason = "the writer broke off: see the log of this process";
        self.thread.join().unwrap_or_else(|_| Err(Error::LogFailed { reason: reason.into() }))
    }
}

/// A batch of the API has up to 16 MiB of jobs; what is stored beside each comes on top, in bytes.
const BATCH_BYTES_MAX: usize = 32 << 20;

/// Opens the log in `dir` (made if it is not there) and starts a shard on it.
///
/// # Errors
/// [`OpenError`].
pub fn start_file(dir: &Path, file: &FileOptions, options: Options) -> Result<Service, OpenError> {
    let disk = RealDisk::new(dir).map_err(|source| {
        let source = Arc::new(source);
        recado_log::Error::Io { action: "open the data directory", path: dir.to_path_buf(), source }
    })?;
    let bell = Bell::default();
    let woken = bell.clone();
    let file = FileOptions { batch_bytes_max: file.batch_bytes_max.max(BATCH_BYTES_MAX), ..file.clone() };
    let (log, recovery) = FileLog::open(Arc::new(disk), &file, Arc::new(move || woken.ring()))?;
    let mut service = start_with(Box::new(log), options, bell)?;
    service.recovery = Some(recovery);
    Ok(service)
}

/// Starts a shard on any log. `wake_by` is told how to wake the writer, before the first step: the log
/// calls it whenever something was written, committed or became free.
///
/// # Errors
/// [`OpenError`].
pub fn start(
    log: Box<dyn Log>,
    options: Options,
    wake_by: impl FnOnce(Arc<dyn Fn() + Send + Sync>),
) -> Result<Service, OpenError> {
    let bell = Bell::default();
    let woken = bell.clone();
    wake_by(Arc::new(move || woken.ring()));
    start_with(log, options, bell)
}

fn start_with(log: Box<dyn Log>, options: Options, bell: Bell) -> Result<Service, OpenError> {
    let clock = Arc::clone(&options.clock);
    let shard = Shard::open_with(log, options, bell.clone())?;
    let (handle, replayed) = (shard.handle(), shard.replayed());
    let run = move || run(shard, &*clock, &bell);
    let thread = thread::Builder::new().name("recado-shard".into()).spawn(run).map_err(OpenError::Thread)?;
    Ok(Service { handle, thread, recovery: None, replayed })
}

/// Who is answered alone and asks again within this time finds the writer awake: to wake a thread takes as long.
const AWAKE_MAX: Duration = Duration::from_micros(100);

fn run(mut shard: Shard, clock: &dyn Clock, bell: &Bell) -> Result<(), Error> {
    bell.is_mine();
    let has_cores = thread::available_parallelism().is_ok_and(|cores| cores.get() > 1);
    let mut asks_again = false;
    loop {
        match shard.step() {
            Next::Now => {}
            // A ring between the step and here is not lost: the thread then does not sleep.
            Next::At(at) => {
                let awake = if asks_again && has_cores && shard.is_asked_by_one() { AWAKE_MAX } else { Duration::ZERO };
                let rang = bell.sleep(awake, at.saturating_sub(clock.elapsed()));
                asks_again = rang.is_some_and(|after| after <= AWAKE_MAX);
            }
            Next::Ended => return shard.close(),
        }
    }
}

/// Waits for a future without an async runtime.
pub fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}
