//! What a request may hold. Each limit is refused with its own code and tested at it and one beyond.

/// Body of an enqueue, in bytes.
pub const BATCH_BYTES_MAX: usize = 16 << 20;
/// Jobs of one enqueue.
pub const BATCH_JOBS_MAX: usize = 10_000;
/// One payload, in bytes; a queue's own limit is lower.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;
/// Entries in a job's headers.
pub const HEADER_ENTRIES_MAX: usize = 32;
/// A job's headers, in bytes.
pub const HEADER_BYTES_MAX: usize = 8 << 10;
/// A result, in bytes.
pub const RESULT_BYTES_MAX: usize = 64 << 10;
/// A heartbeat's progress, in bytes.
pub const PROGRESS_BYTES_MAX: usize = 1 << 10;
/// How far ahead a job may be scheduled, and any other duration without a limit of its own.
pub const DELAY_MS_MAX: u64 = 365 * 86_400_000;
/// A long poll.
pub const WAIT_MS_MAX: u64 = 60_000;
/// Jobs of one receive.
pub const RECEIVE_JOBS_MAX: u64 = 1_000;
/// Payload bytes of one receive; one job is always given.
pub const RECEIVE_BYTES_MAX: u64 = 8 << 20;
/// Queues of one receive.
pub const RECEIVE_QUEUES_MAX: usize = 100;
/// Types a receiver may declare.
pub const RECEIVE_TYPES_MAX: usize = 100;
/// Entries of one settle.
pub const SETTLE_ENTRIES_MAX: usize = 1_000;
/// Ids of one cancel, replay or discard.
pub const IDS_MAX: usize = 10_000;
/// Entries of a page.
pub const PAGE_MAX: u64 = 1_000;
/// Entries of a page that did not ask.
pub const PAGE_DEFAULT: u64 = 100;
/// Reasons and notes, in bytes.
pub const REASON_BYTES_MAX: usize = 1 << 10;
/// Queues whose settings an edge remembers.
pub const QUEUES_KNOWN_MAX: usize = 10_000;
/// A name (queue, type, worker), in bytes.
pub const NAME_BYTES_MAX: usize = 120;
/// A key or group, in bytes.
pub const KEY_BYTES_MAX: usize = 256;
/// Errors one problem names.
pub const ERRORS_MAX: usize = 100;
/// Versions of a schema, from 1.
pub const SCHEMA_VERSION_MAX: u64 = i32::MAX as u64;
/// Weight of a queue in a receive.
pub const WEIGHT_MAX: u64 = 1_000;
/// A visibility timeout, in milliseconds.
pub const VISIBILITY_MS: (u64, u64) = (100, 12 * 3_600_000);
/// Longest run of one attempt, in milliseconds.
pub const TIMEOUT_MS: (u64, u64) = (1_000, 7 * 86_400_000);
/// Deliveries of a rate limit, and its burst.
pub const RATE_JOBS_MAX: u64 = 1_000_000;
/// The time of a rate limit, in milliseconds.
pub const RATE_PER_MS: (u64, u64) = (1, 31 * 86_400_000);
/// The window of a circuit breaker, in milliseconds.
pub const BREAKER_WINDOW_MS: (u64, u64) = (1_000, 3_600_000);
/// Attempts that a circuit breaker asks for.
pub const BREAKER_JOBS_MAX: u64 = 100_000;
/// How long a circuit breaker stays open, in milliseconds.
pub const COOL_DOWN_MS: (u64, u64) = (100, 86_400_000);
/// Equal intervals of a schedule, in milliseconds.
pub const EVERY_MS: (u64, u64) = (1_000, 365 * 86_400_000);
/// Instants of a schedule that are foretold.
pub const FORETOLD_MAX: u64 = 100;
/// Attempts of a job.
pub const ATTEMPTS_MAX: u64 = 1_000;
/// Factor of an exponential backoff.
pub const BACKOFF_FACTOR: (f64, f64) = (1.0, 100.0);
/// Waits of a listed backoff.
pub const BACKOFF_DELAYS_MAX: usize = 100;
/// The kind of an error, in characters; what is longer is cut.
pub const ERROR_KIND_CHARS_MAX: usize = 120;
/// The message of an error, in bytes; what is longer is cut.
pub const ERROR_MESSAGE_BYTES_MAX: usize = 1 << 10;
