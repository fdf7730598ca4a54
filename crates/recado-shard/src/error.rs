//! What a caller of the shard can be told instead of an answer.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use recado_core::{DecodeError, Place, Rejection};
use recado_log::Position;

/// Why a request has no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The core refused it; nothing was changed.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// The command queue is full; nothing was done.
    #[error("too many requests are waiting: come back in {retry_after:?}")]
    Overloaded {
        /// When it is worth another try.
        retry_after: Duration,
    },
    /// The shard takes no more requests. A bulk action that was under way goes on when it is back; of anything else
    /// nothing was done.
    #[error("the server is stopping: send it again once it is back")]
    Stopping,
    /// The log failed. The outcome is unknown: it may have become durable.
    #[error("the log has failed ({reason}): the outcome is unknown, restart the server and ask again")]
    LogFailed {
        /// The first failure.
        reason: Arc<str>,
    },
    /// Storage is short; nothing was done.
    #[error("storage is full: free disk space or let consumers finish jobs, then come back in {retry_after:?}")]
    StorageFull {
        /// When it is worth another try.
        retry_after: Duration,
    },
    /// Room is not prepared as fast as it is asked for; nothing was done.
    #[error("the disk is slow: come back in {retry_after:?}")]
    StorageSlow {
        /// When it is worth another try.
        retry_after: Duration,
    },
    /// No batch of the log could hold it; nothing was done.
    #[error("the request needs {actual} bytes, a batch takes {limit}: split it")]
    TooLarge {
        /// The limit in bytes.
        limit: u64,
        /// Its size in bytes, with what is stored beside the payloads.
        actual: u64,
    },
    /// Bytes that a job points to cannot be read.
    #[error("bytes {}+{} of batch {} cannot be read: {reason}", place.offset, place.length, place.position)]
    Unreadable {
        /// Where they should be.
        place: Place,
        /// Why.
        reason: Arc<str>,
    },
}

/// When refused for lack of space: space comes back by itself as jobs are finished or a disk is freed.
const FULL_RETRY_AFTER: Duration = Duration::from_secs(5);
/// When refused because the disk is slow.
const SLOW_RETRY_AFTER: Duration = Duration::from_secs(1);

impl Error {
    /// There is no space.
    pub(crate) const FULL: Self = Self::StorageFull { retry_after: FULL_RETRY_AFTER };
    /// There is no room yet.
    pub(crate) const SLOW: Self = Self::StorageSlow { retry_after: SLOW_RETRY_AFTER };
}

/// Why bytes at a place were not read.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Unread {
    #[error(transparent)]
    Log(#[from] recado_log::Error),
    /// See [`recado_core::LOST`].
    #[error("they were damaged, and are lost since the log was trimmed")]
    Lost,
}

impl Unread {
    /// The place was freed meanwhile: what was there has moved or is gone.
    pub(crate) fn is_trimmed(&self) -> bool {
        matches!(self, Self::Log(recado_log::Error::Trimmed { .. }))
    }
}

/// Why a shard could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The log could not be opened or read.
    #[error(transparent)]
    Log(#[from] recado_log::Error),
    /// A batch that this version cannot read.
    #[error("batch {position}: {source}")]
    Decode {
        /// Where it stands.
        position: Position,
        /// What is wrong.
        source: DecodeError,
    },
    /// The log's batches cannot even hold the shard's own records.
    #[error("this log takes batches of {actual} bytes; the shard needs at least {limit}")]
    BatchTooSmall {
        /// What is needed, in bytes.
        limit: usize,
        /// What the log takes, in bytes.
        actual: usize,
    },
    /// The system gave no thread.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] io::Error),
}
