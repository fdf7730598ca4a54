//! For the tests of programs that use this library: a queue in memory with a clock that is moved by hand, and
//! assertions. [`Worker::drain`](crate::Worker::drain) runs what is due.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use recado_contract::schema::Schemas;
use recado_core::{Page, Query};
use recado_log::sim::SimDisk;
use recado_log::{Durability, FileLog};
use recado_shard::{FileOptions, Handle, OpenError, Service};

use crate::backend::{Backend, Embedded, shard_options};
use crate::error::Error;
use crate::job::{Job, millis};
use crate::recado::Recado;

/// Time of a queue in memory: it stands still until it is moved.
#[derive(Clone)]
pub struct Clock {
    time: Arc<HandClock>,
    shard: Handle,
}

struct HandClock {
    began_ms: u64,
    elapsed: Mutex<Duration>,
}

impl recado_shard::Clock for HandClock {
    fn wall_ms(&self) -> u64 {
        self.began_ms + millis(self.elapsed())
    }

    fn elapsed(&self) -> Duration {
        *self.elapsed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock {
    /// Lets time pass: when this is done, what has become due in it is due.
    ///
    /// # Errors
    /// [`Error::Refused`] when the queue was closed.
    pub async fn advance(&self, by: Duration) -> Result<(), Error> {
        *self.time.elapsed.lock().unwrap_or_else(PoisonError::into_inner) += by;
        // The shard looks at its clock with each request, and at its timers after it.
        for _ in 0..2 {
            self.shard.query(Query::Queues(Page { cursor: None, limit: 1 })).await?;
        }
        Ok(())
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(recado_shard::Clock::wall_ms(&*self.time))
    }
}

/// Large enough for any batch of a test, in bytes.
const SEGMENT_BYTES: u64 = 4 << 20;
const CACHE_BYTES: usize = 16 << 20;
const MEMORY_BYTES: u64 = 256 << 20;

impl Recado {
    /// A queue of its own in memory, and its clock.
    ///
    /// # Errors
    /// [`Error::Open`] when the system gives no thread.
    pub async fn in_memory() -> Result<(Self, Clock), Error> {
        let began_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, millis);
        let time = Arc::new(HandClock { began_ms, elapsed: Mutex::default() });
        let own = Arc::clone(&time);
        let schemas = Arc::new(Schemas::default());
        let merging = Arc::clone(&schemas);
        let started = tokio::task::spawn_blocking(move || start(own, merging)).await;
        let started = started.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        let service = started.map_err(|source| Error::Open { dir: "memory".into(), source: Arc::new(source) })?;
        let clock = Clock { time: Arc::clone(&time), shard: service.handle() };
        Ok((Self::over(Backend::Embedded(Embedded::new(service, time, schemas))), clock))
    }
}

fn start(clock: Arc<HandClock>, schemas: Arc<Schemas>) -> Result<Service, OpenError> {
    let options = FileOptions {
        durability: Durability::Os,
        segment_bytes: SEGMENT_BYTES,
        batch_bytes_max: SEGMENT_BYTES as usize / 2,
        ..FileOptions::default()
    };
    // The log wakes the shard, which is made after it.
    let bell: Arc<OnceLock<Arc<dyn Fn() + Send + Sync>>> = Arc::default();
    let woken = Arc::clone(&bell);
    let wake = Arc::new(move || {
        if let Some(ring) = woken.get() {
            ring();
        }
    });
    let (log, _) = FileLog::open(SimDisk::new(0).disk(), &options, wake)?;
    let shard = shard_options(clock, schemas, CACHE_BYTES, MEMORY_BYTES)?;
    recado_shard::start(Box::new(log), shard, |ring| drop(bell.set(ring)))
}

/// Asserts that a job of this type waits in its queue for which `is_meant` is true, and gives it back.
///
/// # Panics
/// When there is none, with those that wait.
pub async fn assert_enqueued<J: Job + Debug>(recado: &Recado, is_meant: impl Fn(&J) -> bool) -> J {
    let (mut meant, others): (Vec<J>, Vec<J>) = waiting::<J>(recado).await.into_iter().partition(is_meant);
    assert!(!meant.is_empty(), "no such `{}` waits in `{}`; these do: {others:#?}", J::NAME, J::QUEUE);
    meant.swap_remove(0)
}

/// Asserts that no job of this type waits in its queue for which `is_meant` is true.
///
/// # Panics
/// When there is one, with it.
pub async fn refute_enqueued<J: Job + Debug>(recado: &Recado, is_meant: impl Fn(&J) -> bool) {
    let meant: Vec<J> = waiting::<J>(recado).await.into_iter().filter(is_meant).collect();
    assert!(meant.is_empty(), "`{}` should not wait in `{}`, but it does: {meant:#?}", J::NAME, J::QUEUE);
}

async fn waiting<J: Job>(recado: &Recado) -> Vec<J> {
    let jobs = match recado.jobs::<J>(J::QUEUE, &["ready", "delayed", "blocked"]).await {
        Ok(jobs) => jobs,
        Err(error) if error.code() == Some("not-found") => Vec::new(),
        Err(error) => panic!("the queue does not answer: {error}"),
    };
    let read = |job: crate::JobStatus| match job.payload::<J>() {
        Ok(payload) => payload,
        Err(error) => panic!("job {} cannot be read: {error}", job.id()),
    };
    jobs.into_iter().map(read).collect()
}
