//! What the writer and its callers share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use recado_core::{JobId, LOST, Place, Secret};
use recado_log::{Position, Reader};
use tokio::sync::watch;

use crate::cache::Cache;
use crate::error::{Error, Unread};
use crate::feed::Feed;
use crate::inbox::{Gate, Inbox};
use crate::pool::Workers;
use crate::status::Status;

/// Unreadable bytes are told of so often at most.
const UNREADABLE_TOLD_EVERY: Duration = Duration::from_secs(1);

pub(crate) struct Shared {
    pub(crate) inbox: Inbox,
    pub(crate) cache: Cache,
    pub(crate) reader: Arc<dyn Reader>,
    pub(crate) workers: Arc<dyn Workers>,
    pub(crate) secret: OnceLock<Secret>,
    pub(crate) failed: watch::Sender<Option<Arc<str>>>,
    pub(crate) feed: Feed,
    pub(crate) status: Mutex<Status>,
    pub(crate) unreadable: AtomicU64,
    /// When an operator was last told of unreadable bytes.
    pub(crate) unreadable_told: Mutex<Option<Instant>>,
    pub(crate) unpatched: AtomicU64,
    /// See [`crate::Handle::config_version`].
    pub(crate) config_version: AtomicU64,
    /// Milliseconds in which a queue that refused a producer loses one job, as measured then.
    pub(crate) drain: Mutex<BTreeMap<Box<str>, u64>>,
    /// When a producer that was refused for memory should come back, in milliseconds; 0 is not known.
    pub(crate) memory_retry_ms: AtomicU64,
}

impl Shared {
    /// Why a promise was dropped without an answer.
    pub(crate) fn gone(&self) -> Error {
        self.inbox.gate().refusal().unwrap_or(Error::Stopping)
    }

    pub(crate) fn fail(&self, reason: &Arc<str>) {
        self.inbox.close(Gate::Failed(Arc::clone(reason)));
        self.feed.end();
        self.failed.send_if_modified(|failed| {
            let first = failed.is_none();
            if first {
                *failed = Some(Arc::clone(reason));
            }
            first
        });
    }

    /// Bytes that cannot be read are an operator's business: all are counted, one in a while is told.
    pub(crate) fn report_unreadable(&self, job: Option<JobId>, place: Place, reason: &str) {
        let count = self.unreadable.fetch_add(1, Ordering::Relaxed) + 1;
        let mut told = self.unreadable_told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.is_some_and(|told| told.elapsed() < UNREADABLE_TOLD_EVERY) {
            return;
        }
        *told = Some(Instant::now());
        let job = job.map(tracing::field::display);
        tracing::error!(job, ?place, reason, count, "stored bytes cannot be read: run `recado log check`");
    }

    pub(crate) fn count_unpatched(&self) {
        self.unpatched.fetch_add(1, Ordering::Relaxed);
    }

    /// The bytes at a place, from memory or from the log. It blocks: for reader threads only.
    pub(crate) fn read(&self, place: Place) -> Result<Bytes, Unread> {
        let bytes = self.cache.get(place).map_or_else(|| self.reader.get(log_place(place)), Ok);
        kept(bytes?)
    }

    pub(crate) fn with_status<T>(&self, change: impl FnOnce(&mut Status) -> T) -> T {
        change(&mut self.status.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Bytes that are what was once stored.
pub(crate) fn kept(bytes: Bytes) -> Result<Bytes, Unread> {
    if bytes == LOST { Err(Unread::Lost) } else { Ok(bytes) }
}

/// The core's place as the log's.
pub(crate) fn log_place(place: Place) -> recado_log::Place {
    recado_log::Place { position: Position(place.position), offset: place.offset, length: place.length }
}
