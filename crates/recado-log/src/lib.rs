//! The only durable thing in Recado: bytes in, positions out.
//!
//! A log knows bytes, not jobs. One writer submits *batches*; a batch is all or nothing and has one
//! [`Position`]. Readers follow from any position that was not trimmed. The verbs of [`Log`] and
//! [`Reader`] are those that a replicated log can offer too, so nothing above this crate may assume
//! that a position is a file offset, that a batch is one record, or that reading is cheap.

mod backup;
mod check;
mod committer;
mod disk;
mod error;
mod file_log;
mod format;
mod geometry;
mod pin;
mod preparer;
mod reader;
mod recovery;
mod segments;
mod shared;
#[cfg(any(test, feature = "sim"))]
pub mod sim;
mod walk;

pub use backup::Backup;
pub use check::{Damage, Repair, Report, Verdict, check, repair};
pub use disk::{Disk, DiskFile, RealDisk};
pub use error::Error;
pub use file_log::{Durability, Engine, FileLog, Options, Step};
pub use pin::Pin;
pub use reader::FileReader;
pub use recovery::{Cut, Recovery};
pub use shared::Wake;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

/// Where a batch stands in the log. Positions grow, may have gaps, and are never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A run of bytes in the tail of one batch: the batch's position, then offset and length in bytes
/// within the tail (of the whole batch, however many records it was written as).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Place {
    /// Position of the batch.
    pub position: Position,
    /// First byte, counted from the start of the batch's tail.
    pub offset: u32,
    /// Number of bytes.
    pub length: u32,
}

/// What is submitted: `head` is read by every replay, `tail` (payload bytes) only on demand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Events, opaque to the log.
    pub head: Bytes,
    /// Payload bytes, reachable through [`Reader::get`].
    pub tail: Bytes,
}

/// How soon a batch must be durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// It is synced with the next group commit.
    Now,
    /// As [`Urgency::Now`], from an owner that has nothing else to do until then: the log may work within the call
    /// instead of waking a thread for it.
    Alone,
    /// It may wait up to 100 ms for its sync (it is written at once). Only for batches whose loss
    /// in a power failure is harmless: design rule "a batch that holds only receives".
    Lazy,
}

/// Who claims space. Each class may use what the classes before it may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Producers: may use everything but the last segment and what is reserved for settles before it.
    Produce,
    /// Settles and everything an operator needs to free space: may use the settle reserve too.
    Settle,
    /// Copies made to trim: may use everything.
    Copy,
}

/// What a log can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest head plus tail of one batch, in bytes.
    pub batch_bytes_max: usize,
    /// Batches that may be submitted and not yet committed.
    pub window: usize,
}

/// How large the log is, for metrics and for pacing the trimming.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// First position that is still there.
    pub first: Position,
    /// Bytes from `first` to the tip, prepared but unused segments not counted.
    pub log_bytes: u64,
    /// Bytes of segments held only because a reader pinned them.
    pub pinned_bytes: u64,
    /// Unit in which space is claimed and freed, in bytes (a segment).
    pub unit_bytes: u64,
}

/// The writer. It has one owner, the shard's thread; no call blocks on a sync, but one that asks for it
/// ([`Urgency::Alone`]).
pub trait Log: Send {
    /// The position the next batch will get. It is known before the batch is built, so that state
    /// can point into a batch that is still being filled.
    fn next(&self) -> Position;

    /// Hands a batch over. The answer equals what [`Log::next`] said before.
    ///
    /// # Errors
    /// [`Error::Full`] when there is no room for it (nothing was written: ask [`Log::room`] first),
    /// [`Error::TooLarge`], [`Error::Poisoned`] once any write or sync has failed.
    fn submit(&mut self, batch: Batch, urgency: Urgency) -> Result<Position, Error>;

    /// Newest batch that survives the death of this process, with all before it; position 0, where no
    /// batch ever stands, when the log has none.
    fn written(&self) -> Position;

    /// Newest batch that is durable as configured, with all before it.
    ///
    /// # Errors
    /// [`Error::Poisoned`] once any write or sync has failed; it never recovers.
    fn committed(&self) -> Result<Position, Error>;

    /// Starts the sync of lazily submitted batches at once.
    fn flush(&mut self);

    /// Bytes of head plus tail that `class` may still submit, as one batch: every further batch costs a
    /// header more.
    fn room(&self, class: Class) -> u64;

    /// Keeps so many bytes, at least a unit, from producers: room for what has to be settled whatever happens.
    /// Segments are prepared for it as far as the disk has space; until then producers wait.
    fn reserve(&mut self, bytes: u64);

    /// True while a whole disk (or another lack of space) keeps the next segment from being prepared.
    fn is_short_of_space(&self) -> bool;

    /// Frees what lies wholly below `below`. Idempotent; pinned parts are freed when unpinned.
    ///
    /// # Errors
    /// [`Error::Poisoned`], [`Error::Io`].
    fn trim(&mut self, below: Position) -> Result<(), Error>;

    /// Batches that may be in flight, and their size.
    fn limits(&self) -> Limits;

    /// Size figures.
    fn usage(&self) -> Usage;

    /// A reader, usable from any thread while the log is open.
    fn reader(&self) -> Arc<dyn Reader>;

    /// Commits what was submitted, moves the watermark past it, releases the directory.
    ///
    /// # Errors
    /// [`Error::Poisoned`], [`Error::Io`].
    fn close(self: Box<Self>) -> Result<(), Error>;
}

/// Reads beside the writer, never blocking it.
pub trait Reader: Send + Sync {
    /// The first batch at or after `from`, with the position to go on from; `None` at the end of what
    /// is written. `with_tail` false leaves `Batch::tail` empty and skips its bytes.
    ///
    /// # Errors
    /// [`Error::Trimmed`] when `from` is no longer there, [`Error::Corrupt`], [`Error::Io`].
    fn read(&self, from: Position, with_tail: bool) -> Result<Option<Entry>, Error>;

    /// The bytes at a place.
    ///
    /// # Errors
    /// As [`Reader::read`].
    fn get(&self, place: Place) -> Result<Bytes, Error>;

    /// Keeps everything from `from` on until the pin is dropped.
    ///
    /// # Errors
    /// [`Error::Trimmed`] when it is already gone.
    fn pin(&self, from: Position) -> Result<Pin, Error>;

    /// The newest committed batch and the first batch that is still there.
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    fn bounds(&self) -> Result<(Position, Position), Error>;

    /// Copies the log, from its first position to what is committed now, into the empty directory
    /// `to`, which can then be opened as a log. The log goes on meanwhile; nothing is trimmed.
    ///
    /// # Errors
    /// [`Error::Unsupported`] when this kind of log has no files, [`Error::NotEmpty`],
    /// [`Error::Corrupt`], [`Error::Io`].
    fn backup(&self, to: &Path) -> Result<Backup, Error> {
        let _ = to;
        Err(Error::Unsupported { what: "backup: use the backup of the engine that keeps the log" })
    }
}

/// One batch as read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its position.
    pub position: Position,
    /// Where the next one may stand.
    pub next: Position,
    /// Its bytes.
    pub batch: Batch,
}
