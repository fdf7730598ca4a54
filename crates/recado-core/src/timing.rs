//! How long jobs of a type take: a histogram that decays by what is added to it, so that a queue that rests forgets
//! nothing. A visibility timeout of `auto` follows from it. It is saved with the other figures.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use minicbor::{Decode, Encode};

use crate::figures::{bucket, upper};
use crate::options::AUTO_VISIBILITY_MS;

/// Types of a queue that have a histogram of their own; all others share one.
pub(crate) const TYPES_MAX: usize = 16;

/// Completions before the server chooses by them.
pub(crate) const COMPLETIONS_MIN: u32 = 20;

/// All counts are halved when there are so many.
const COMPLETIONS_MAX: u32 = 1_024;

/// Shorter times are not told apart: the shortest timeout is far above.
const SHORTEST_MS: u64 = 256;

/// What the server chooses lies between these, in milliseconds.
const AUTO_MS: (u64, u64) = (5_000, 12 * 3_600_000);

/// The completions of one type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Timing {
    /// Its type; `None` for those that have none of their own.
    pub(crate) kind: Option<Arc<str>>,
    /// Count by bucket, in their order.
    counts: Vec<(u16, u16)>,
    pub(crate) completions: u32,
    /// The time that 95 of 100 completions do not exceed.
    pub(crate) p95_ms: u64,
    pub(crate) last_at: u64,
}

impl Timing {
    pub(crate) fn new(kind: Option<Arc<str>>) -> Self {
        Self { kind, ..Self::default() }
    }

    pub(crate) fn add(&mut self, at: u64, took_ms: u64) {
        // Two buckets of the other histograms are one here.
        let bucket = bucket(took_ms.max(SHORTEST_MS)) as u16 | 1;
        match self.counts.binary_search_by_key(&bucket, |(bucket, _)| *bucket) {
            Ok(there) => self.counts[there].1 += 1,
            Err(place) => self.counts.insert(place, (bucket, 1)),
        }
        self.completions += 1;
        self.last_at = at;
        if self.completions >= COMPLETIONS_MAX {
            self.counts.iter_mut().for_each(|(_, count)| *count /= 2);
            self.counts.retain(|(_, count)| *count > 0);
            self.completions = self.counts.iter().map(|(_, count)| u32::from(*count)).sum();
        }
        self.measure();
    }

    fn measure(&mut self) {
        // The rarest twentieth is counted from above.
        let mut left = self.completions / 20;
        let slowest = self.counts.iter().rev().find(|(_, count)| {
            let holds = u32::from(*count) > left;
            left = left.saturating_sub(u32::from(*count));
            holds
        });
        self.p95_ms = slowest.map_or(0, |(bucket, _)| upper(usize::from(*bucket)));
    }

    /// There are enough completions to choose by.
    pub(crate) fn is_measured(&self) -> bool {
        self.completions >= COMPLETIONS_MIN
    }

    /// What `auto` means for this type, in milliseconds.
    pub(crate) fn auto_ms(&self) -> u64 {
        if self.is_measured() {
            (self.p95_ms + self.p95_ms / 2).clamp(AUTO_MS.0, AUTO_MS.1)
        } else {
            AUTO_VISIBILITY_MS
        }
    }

    pub(crate) fn save(&self) -> SavedTiming {
        SavedTiming { kind: self.kind.as_deref().map(Box::from), counts: self.counts.clone(), last_at: self.last_at }
    }

    /// Exactly what was saved.
    pub(crate) fn restore(&mut self, saved: &SavedTiming) {
        self.counts.clone_from(&saved.counts);
        self.completions = self.counts.iter().map(|(_, count)| u32::from(*count)).sum();
        self.last_at = saved.last_at;
        self.measure();
    }
}

/// See [`crate::Event::FiguresSaved`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct SavedTiming {
    /// The type; `None` for all without a histogram of their own.
    #[n(0)]
    pub kind: Option<Box<str>>,
    /// Completions by bucket.
    #[n(1)]
    pub counts: Vec<(u16, u16)>,
    /// The last one.
    #[n(2)]
    pub last_at: u64,
}

impl SavedTiming {
    pub(crate) fn encoded_bytes_max(&self) -> usize {
        const ENTRY_BYTES_MAX: usize = 7;
        32 + self.kind.as_deref().map_or(0, str::len) + ENTRY_BYTES_MAX * self.counts.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_is_half_more_than_the_p95_once_there_are_enough() {
        let mut timing = Timing::default();
        for n in 0..19 {
            timing.add(n, 60_000);
        }
        assert_eq!(timing.auto_ms(), AUTO_VISIBILITY_MS);
        timing.add(20, 60_000);
        assert!((90_000..=101_250).contains(&timing.auto_ms()), "{}", timing.auto_ms());
        // One of twenty is not among the 95 of 100.
        let mut timing = Timing::default();
        (0..95).for_each(|n| timing.add(n, 100));
        (0..5).for_each(|n| timing.add(n, 3_600_000));
        assert_eq!(timing.auto_ms(), AUTO_MS.0);
        timing.add(0, 3_600_000);
        assert!(timing.auto_ms() >= 5_400_000, "{}", timing.auto_ms());
        (0..50).for_each(|n| timing.add(n, 365 * 86_400_000));
        assert_eq!(timing.auto_ms(), AUTO_MS.1);
    }

    #[test]
    fn what_is_old_decays_and_what_is_saved_comes_back() {
        let mut timing = Timing::default();
        (0..5_000).for_each(|n| timing.add(n, 600_000));
        assert!(timing.p95_ms >= 600_000 && timing.completions < COMPLETIONS_MAX);
        // Of the last thousand or so completions all are fast now.
        (0..5_000).for_each(|n| timing.add(n, 10));
        assert!(timing.p95_ms < 300, "{}", timing.p95_ms);
        let mut again = Timing::new(timing.kind.clone());
        again.restore(&timing.save());
        assert_eq!(again, timing);
    }
}
