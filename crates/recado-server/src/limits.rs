//! What a request may cost, beside what the contract limits. Each limit is refused with its own code and
//! tested at it and one beyond.

use std::time::Duration;

pub(crate) use recado_contract::limits::*;

/// Body of any request, in bytes.
pub(crate) const BODY_BYTES_MAX: usize = 32 << 20;
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
/// An event that is sent to a hook, in bytes.
pub(crate) const HOOK_BODY_BYTES_MAX: usize = 4 << 20;
/// Events on their way into hooks at one time: nobody has proven yet who sends them.
pub(crate) const HOOKS_AT_ONCE_MAX: usize = 256;
/// What is kept of a hook, in bytes.
pub(crate) const HOOK_TEXT_BYTES_MAX: usize = 16 << 10;
/// Secrets of a hook.
pub(crate) const HOOK_SECRETS_MAX: usize = 2;
/// Fields that a hook takes out of an event, and places and values by which it chooses.
pub(crate) const HOOK_FIELDS_MAX: usize = 32;
/// One of these fields, in bytes.
pub(crate) const HOOK_VALUE_BYTES_MAX: usize = 1 << 10;
/// The id of an event, in bytes: with the hook's name it is a key.
pub(crate) const HOOK_EVENT_ID_BYTES_MAX: usize = 128;
/// How far the time that is signed may be from the server's, in milliseconds.
pub(crate) const HOOK_TOLERANCE_MS: (u64, u64) = (1_000, 3_600_000);
/// Readers of events at one time.
pub(crate) const EVENT_READERS_MAX: usize = 1_000;
/// Queues that one of them may name.
pub(crate) const EVENT_QUEUES_MAX: usize = 100;
/// How long others wait for work under a key that did not say.
pub(crate) const GUARD_HOLD_MS_DEFAULT: u64 = 60_000;
/// How long the result of work under a key is kept that did not say.
pub(crate) const GUARD_TTL_MS_DEFAULT: u64 = 86_400_000;
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
/// A surplus connection that has asked nothing by then is told in general words, and its body is waited for so long.
pub(crate) const REFUSAL_ASK_TIME_MAX: Duration = Duration::from_millis(200);
/// Time a surplus connection gets to ask and to read its refusal.
pub(crate) const REFUSAL_TIME_MAX: Duration = Duration::from_secs(1);
/// What is in flight at a stop gets so long to end.
pub(crate) const STOP_TIME_MAX: Duration = Duration::from_secs(10);
