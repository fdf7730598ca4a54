//! What can be seen of the shard from outside, without asking the writer.

use std::sync::Arc;
use std::time::Duration;

use recado_log::Usage;

/// Figures of one shard, at most a tenth of a second old.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// Why it ended, if its log failed.
    pub failed: Option<Arc<str>>,
    /// It takes no more requests.
    pub stopping: bool,
    /// Producers are refused until there is space again.
    pub storage_full: bool,
    /// Size of the log.
    pub log: Usage,
    /// Bytes of live items in it.
    pub live_bytes: u64,
    /// Memory of the state, in bytes.
    pub memory_bytes: u64,
    /// Its budget, in bytes.
    pub memory_limit_bytes: u64,
    /// Payloads kept in memory, in bytes.
    pub cached_bytes: u64,
    /// Requests waiting for the writer.
    pub queued: usize,
    /// How many may.
    pub queued_max: usize,
    /// Long polls.
    pub waiting: usize,
    /// Batches committed since it was opened.
    pub batches: u64,
    /// Requests decided since it was opened.
    pub requests: u64,
    /// Jobs or answers whose bytes could not be read since it was opened.
    pub unreadable: u64,
    /// Dead jobs that a replay passed over because their payload could not be read or patched.
    pub unpatched: u64,
    /// Time from submit to commit.
    pub commit: CommitTimes,
}

/// Upper bounds of the buckets of [`CommitTimes`], in microseconds.
pub const COMMIT_BOUNDS_US: [u64; 16] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    10_000_000,
];

/// A histogram of the time from submit to commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommitTimes {
    /// How many took at most [`COMMIT_BOUNDS_US`], not cumulative.
    pub buckets: [u64; COMMIT_BOUNDS_US.len()],
    /// Sum of all, in microseconds.
    pub sum_us: u64,
    /// How many there were.
    pub count: u64,
}

impl CommitTimes {
    pub(crate) fn add(&mut self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = COMMIT_BOUNDS_US.partition_point(|bound| *bound < us);
        if let Some(count) = self.buckets.get_mut(bucket) {
            *count += 1;
        }
        self.sum_us = self.sum_us.saturating_add(us);
        self.count += 1;
    }
}
