//! Medians and percentiles.

use std::time::Duration;

/// The middle one of a few rounds; of an even number the lower middle.
pub(crate) fn median(rounds: &[f64]) -> f64 {
    let mut sorted = rounds.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN)
}

/// The value that `share` of the samples do not exceed, in milliseconds.
pub(crate) fn percentile_ms(samples: &mut [Duration], share: f64) -> f64 {
    samples.sort_unstable();
    let rank = (samples.len() as f64 * share).ceil() as usize;
    samples.get(rank.saturating_sub(1)).map_or(f64::NAN, |sample| sample.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        for (rounds, expected) in [(&[3.0, 1.0, 2.0][..], 2.0), (&[5.0], 5.0), (&[4.0, 1.0], 1.0)] {
            assert!((median(rounds) - expected).abs() < f64::EPSILON, "{rounds:?}");
        }
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn percentiles() {
        let mut samples: Vec<Duration> = (1..=100).rev().map(Duration::from_millis).collect();
        for (share, expected) in [(0.5, 50.0), (0.99, 99.0), (1.0, 100.0), (0.001, 1.0)] {
            assert!((percentile_ms(&mut samples, share) - expected).abs() < 1e-9, "{share}");
        }
    }
}
