//! Time and luck enter here and nowhere else, so that a simulator can supply both.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A wall clock and a monotonic one.
pub trait Clock: Send + Sync {
    /// Milliseconds since the Unix epoch. It may be stepped.
    fn wall_ms(&self) -> u64;
    /// Time since a fixed, arbitrary start. It never goes back.
    fn elapsed(&self) -> Duration;
}

/// The system's clocks.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    start: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { start: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn wall_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }
}

/// Unpredictable bits: receipts rest on them.
pub trait Entropy: Send {
    /// 64 of them.
    fn next(&mut self) -> u64;
}

/// The thread's generator, seeded by the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn next(&mut self) -> u64 {
        rand::random()
    }
}

/// A step of the wall clock up to here is taken as elapsed time, in milliseconds.
pub(crate) const CLOCK_STEP_MS: u64 = 5_000;

/// One reading of both clocks; everything of one turn of the loop happens at it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    /// Wall clock in milliseconds; goes back only by a step beyond [`CLOCK_STEP_MS`].
    pub(crate) wall: u64,
    /// Monotonic clock.
    pub(crate) elapsed: Duration,
}

/// Reads the clocks and compares them.
pub(crate) struct Timekeeper {
    clock: Arc<dyn Clock>,
    /// What the wall clock last said.
    wall: u64,
    /// What was last given out.
    given: u64,
    elapsed: Duration,
}

impl Timekeeper {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let (wall, elapsed) = (clock.wall_ms(), clock.elapsed());
        Self { clock, wall, given: wall, elapsed }
    }

    /// The time, and by how much the wall clock was stepped since the last reading, if it was.
    /// Readings are compared pairwise: a slow drift is no step, however far it leads.
    pub(crate) fn read(&mut self) -> (Now, Option<i64>) {
        let (wall, elapsed) = (self.clock.wall_ms(), self.clock.elapsed());
        let passed = elapsed.saturating_sub(self.elapsed).as_millis();
        let expected = self.wall.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX));
        let stepped = wall.abs_diff(expected) > CLOCK_STEP_MS;
        self.given = if stepped { wall } else { self.given.max(wall) };
        (self.wall, self.elapsed) = (wall, elapsed);
        let step = stepped.then(|| i64::try_from(i128::from(wall) - i128::from(expected)).unwrap_or(0));
        (Now { wall: self.given, elapsed }, step)
    }

    /// Monotonic time now, for budgets within one turn.
    pub(crate) fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }
}

/// By how much the wall clock was stepped back while nobody served. A step forward is no other than down time.
pub(crate) fn stepped_back(now: Now, last_at: u64) -> Option<i64> {
    let delta_ms = i64::try_from(i128::from(now.wall) - i128::from(last_at)).unwrap_or(0);
    if delta_ms.unsigned_abs() <= CLOCK_STEP_MS || delta_ms > 0 {
        return None;
    }
    tracing::warn!(delta_ms, "the wall clock was stepped back: running timeouts keep what was left of them");
    Some(delta_ms)
}
