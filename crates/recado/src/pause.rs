//! Waits between attempts that fail: each twice as long as the one before.

use std::time::Duration;

pub(crate) struct Pauses {
    next: Duration,
    max: Duration,
}

impl Pauses {
    pub(crate) fn new(first: Duration, max: Duration) -> Self {
        Self { next: first, max }
    }

    /// Half of it is luck, so that those who were cut off together do not come back together.
    pub(crate) fn next(&mut self) -> Duration {
        let pause = self.next.mul_f64(0.5 + rand::random::<f64>() / 2.0);
        self.next = (self.next * 2).min(self.max);
        pause
    }
}
