//! What a request may cost. Each limit is refused with its own code and tested at it and one beyond.

use std::time::Duration;

/// Body of any request, in bytes.
pub(crate) const BODY_BYTES_MAX: usize = 32 << 20;
/// Body of an enqueue, in bytes.
pub(crate) const BATCH_BYTES_MAX: usize = 16 << 20;
/// Jobs of one enqueue.
pub(crate) const BATCH_JOBS_MAX: usize = 10_000;
/// From the first to the last byte of a body.
pub(crate) const BODY_TIME_MAX: Duration = Duration::from_secs(30);
/// After a body was refused, so much more of it is read so that the sender sees the answer.
pub(crate) const REFUSED_BODY_BYTES_MAX: usize = 32 << 20;
/// .. for so long.
pub(crate) const REFUSED_BODY_TIME_MAX: Duration = Duration::from_secs(2);

/// One line of a streamed enqueue, in bytes.
pub(crate) const LINE_BYTES_MAX: usize = 2 << 20;
/// Lines of a chunk that is committed as one.
pub(crate) const CHUNK_LINES_MAX: usize = 1_000;
/// Bytes of a chunk.
pub(crate) const CHUNK_BYTES_MAX: usize = 1 << 20;
/// A chunk is not held back longer.
pub(crate) const CHUNK_TIME_MAX: Duration = Duration::from_millis(50);
/// Between two bytes of a stream.
pub(crate) const LINE_GAP_MAX: Duration = Duration::from_secs(30);

/// One payload, in bytes; a queue's own limit is lower.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 1 << 20;
/// Entries in a job's headers.
pub(crate) const HEADER_ENTRIES_MAX: usize = 32;
/// A job's headers, in bytes.
pub(crate) const HEADER_BYTES_MAX: usize = 8 << 10;
/// A result, in bytes.
pub(crate) const RESULT_BYTES_MAX: usize = 64 << 10;
/// A heartbeat's progress, in bytes.
pub(crate) const PROGRESS_BYTES_MAX: usize = 1 << 10;
/// How far ahead a job may be scheduled, and any other duration without a limit of its own.
pub(crate) const DELAY_MS_MAX: u64 = 365 * 86_400_000;
/// A long poll.
pub(crate) const WAIT_MS_MAX: u64 = 60_000;
/// Jobs of one receive.
pub(crate) const RECEIVE_JOBS_MAX: u64 = 1_000;
/// Payload bytes of one receive; one job is always given.
pub(crate) const RECEIVE_BYTES_MAX: u64 = 8 << 20;
/// Queues of one receive.
pub(crate) const RECEIVE_QUEUES_MAX: usize = 100;
/// Types a receiver may declare.
pub(crate) const RECEIVE_TYPES_MAX: usize = 100;
/// Entries of one settle.
pub(crate) const SETTLE_ENTRIES_MAX: usize = 1_000;
/// Ids of one cancel, replay or discard.
pub(crate) const IDS_MAX: usize = 10_000;
/// Entries of a page.
pub(crate) const PAGE_MAX: u64 = 1_000;
/// Entries of a page that did not ask.
pub(crate) const PAGE_DEFAULT: u64 = 100;
/// Reasons and notes, in bytes.
pub(crate) const REASON_BYTES_MAX: usize = 1 << 10;
/// A name (queue, type, worker), in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 120;
/// A key or group, in bytes.
pub(crate) const KEY_BYTES_MAX: usize = 256;
/// Errors one problem names.
pub(crate) const ERRORS_MAX: usize = 100;

/// A request's line and headers, in bytes.
pub(crate) const HEAD_BYTES_MAX: usize = 16 << 10;
/// Headers of a request.
pub(crate) const HEAD_LINES_MAX: usize = 128;
/// From the end of one answer to the end of the next request's head: an idle connection is closed then.
pub(crate) const HEAD_TIME_MAX: Duration = Duration::from_secs(75);
/// While a peer takes nothing of its answer; then the connection ends, and jobs in it go back.
pub(crate) const WRITE_STALL_MAX: Duration = Duration::from_secs(30);
/// Connections. One more is accepted, told 503 `overloaded`, and closed.
pub(crate) const CONNECTIONS_MAX: usize = 10_000;
/// Surplus connections that are told at the same time; others are closed without a word.
pub(crate) const REFUSALS_MAX: usize = 256;
/// Time a surplus connection gets to read its refusal.
pub(crate) const REFUSAL_TIME_MAX: Duration = Duration::from_secs(1);
/// What is in flight at a stop gets so long to end.
pub(crate) const STOP_TIME_MAX: Duration = Duration::from_secs(10);
