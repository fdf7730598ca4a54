//! How far ahead it is right to fetch.

use std::time::Duration;

/// What is fetched ahead should begin within this time.
const HORIZON: Duration = Duration::from_millis(100);

/// How much the newest run counts.
const NEWEST: f64 = 0.2;

/// How long runs take, of late.
#[derive(Default)]
pub(super) struct Pace {
    mean_s: Option<f64>,
}

impl Pace {
    pub(super) fn add(&mut self, took: Duration) {
        let took = took.as_secs_f64();
        self.mean_s = Some(self.mean_s.map_or(took, |mean| mean + (took - mean) * NEWEST));
    }

    /// Jobs that so many places will have begun within the horizon, beyond those running. Before the first
    /// run has ended nothing is known, and nothing is fetched ahead.
    pub(super) fn ahead(&self, places: usize, max: usize) -> usize {
        let Some(mean_s) = self.mean_s else { return 0 };
        let begun = places as f64 * HORIZON.as_secs_f64() / mean_s.max(1e-9);
        (begun as usize).min(max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fast_handlers_fetch_ahead_and_slow_ones_do_not() {
        let mut pace = Pace::default();
        assert_eq!(pace.ahead(16, 128), 0, "nothing is known");
        pace.add(Duration::from_micros(10));
        assert_eq!(pace.ahead(16, 128), 128);
        for _ in 0..100 {
            pace.add(Duration::from_secs(2));
        }
        assert_eq!(pace.ahead(16, 128), 0);
        for _ in 0..100 {
            pace.add(Duration::from_millis(50));
        }
        assert!((31..=32).contains(&pace.ahead(16, 128)));
    }
}
