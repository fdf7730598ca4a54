//! Rolling figures of a queue: rates, shares, and times as histograms. They follow from events, so replay
//! rebuilds what the log still holds; a copy is saved every minute for what it does not.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use minicbor::{Decode, Encode};

use crate::query::HistogramView;
use crate::timing::{SavedTiming, TYPES_MAX, Timing};

/// Three percentiles in milliseconds; `None` without a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Percentiles {
    pub p50_ms: Option<u64>,
    pub p95_ms: Option<u64>,
    pub p99_ms: Option<u64>,
}

const SUB_BITS: u32 = 4;
const BUCKETS: usize = 32 + ((64 - 5) << SUB_BITS);

/// Counts by value, log-linear: below 32 exact, above within 1/16. The way HdrHistogram counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u32>,
    total: u64,
}

pub(crate) fn bucket(value: u64) -> usize {
    if value < 32 {
        return value as usize;
    }
    let exponent = 63 - value.leading_zeros();
    let shift = exponent - SUB_BITS;
    32 + (((exponent - 5) << SUB_BITS) as usize) + ((value >> shift) as usize - (1 << SUB_BITS))
}

/// Largest value that falls into a bucket.
pub(crate) fn upper(bucket: usize) -> u64 {
    if bucket < 32 {
        return bucket as u64;
    }
    let above = bucket - 32;
    let exponent = (above >> SUB_BITS) as u32 + 5;
    let sub = (above & ((1 << SUB_BITS) - 1)) as u64 + (1 << SUB_BITS);
    let shift = exponent - SUB_BITS;
    ((sub + 1) << shift).wrapping_sub(1)
}

impl Histogram {
    /// Counts a value.
    pub fn add(&mut self, value: u64) {
        self.add_many(bucket(value), 1);
    }

    fn add_many(&mut self, bucket: usize, count: u32) {
        if self.counts.len() <= bucket {
            self.counts.resize((bucket + 1).min(BUCKETS), 0);
        }
        if let Some(there) = self.counts.get_mut(bucket) {
            *there = there.saturating_add(count);
            self.total += u64::from(count);
        }
    }

    fn clear(&mut self) {
        self.counts.clear();
        self.total = 0;
    }

    fn sparse(&self) -> Vec<(u16, u32)> {
        let used = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        used.map(|(bucket, count)| (bucket as u16, *count)).collect()
    }
}

/// The value below which `percent` of the samples of all `parts` lie.
fn percentile(parts: &[&Histogram], percent: u64) -> Option<u64> {
    let total: u64 = parts.iter().map(|part| part.total).sum();
    if total == 0 {
        return None;
    }
    let rank = (total * percent).div_ceil(100).max(1);
    let longest = parts.iter().map(|part| part.counts.len()).max().unwrap_or(0);
    let mut seen = 0;
    for bucket in 0..longest {
        seen += parts.iter().filter_map(|part| part.counts.get(bucket)).map(|n| u64::from(*n)).sum::<u64>();
        if seen >= rank {
            return Some(upper(bucket));
        }
    }
    None
}

/// Samples of the last five to ten minutes, and all since this process began.
#[derive(Clone, Debug, Default)]
pub(crate) struct Times {
    present: Histogram,
    past: Histogram,
    present_since: u64,
    all: [u64; BOUNDS_MS.len()],
    sum_ms: u64,
    count: u64,
}

const WINDOW_MS: u64 = 300_000;

/// Upper bounds of the buckets that metrics show, in milliseconds.
pub(crate) const BOUNDS_MS: [u64; 18] =
    [1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000, 1_800_000, 3_600_000];

impl Times {
    pub(crate) fn add(&mut self, at: u64, value_ms: u64) {
        if at >= self.present_since + WINDOW_MS {
            let is_stale = at >= self.present_since + 2 * WINDOW_MS;
            core::mem::swap(&mut self.present, &mut self.past);
            self.present.clear();
            if is_stale {
                self.past.clear();
            }
            self.present_since = at;
        }
        self.present.add(value_ms);
        if let Some(bucket) = BOUNDS_MS.iter().position(|bound| value_ms <= *bound) {
            self.all[bucket] += 1;
        }
        self.sum_ms = self.sum_ms.saturating_add(value_ms);
        self.count += 1;
    }

    pub(crate) fn percentiles(&self, now: u64) -> Percentiles {
        let age_ms = now.saturating_sub(self.present_since);
        let parts: &[&Histogram] = match age_ms {
            age if age < WINDOW_MS => &[&self.present, &self.past],
            age if age < 2 * WINDOW_MS => &[&self.present],
            _ => &[],
        };
        Percentiles { p50_ms: percentile(parts, 50), p95_ms: percentile(parts, 95), p99_ms: percentile(parts, 99) }
    }

    pub(crate) fn histogram(&self) -> HistogramView {
        let mut seen = 0;
        let buckets = BOUNDS_MS.iter().zip(&self.all).map(|(bound, count)| {
            seen += count;
            (*bound, seen)
        });
        HistogramView { buckets: buckets.collect(), sum_ms: self.sum_ms, count: self.count }
    }

    fn save(&self) -> SavedTimes {
        SavedTimes { since: self.present_since, present: self.present.sparse(), past: self.past.sparse() }
    }

    /// Exactly what was saved: where nothing was lost, this changes nothing.
    fn restore(&mut self, saved: &SavedTimes) {
        self.present_since = saved.since;
        for (histogram, sparse) in [(&mut self.present, &saved.present), (&mut self.past, &saved.past)] {
            histogram.clear();
            for (bucket, count) in sparse {
                histogram.add_many(usize::from(*bucket), *count);
            }
        }
    }

    fn forget_totals(&mut self) {
        self.all = [0; BOUNDS_MS.len()];
        self.sum_ms = 0;
        self.count = 0;
    }
}

/// Counts of the last `N` slots of time.
#[derive(Clone, Debug)]
pub(crate) struct Recent<const N: usize> {
    slots: [u32; N],
    newest: u64,
}

impl<const N: usize> Default for Recent<N> {
    fn default() -> Self {
        Self { slots: [0; N], newest: 0 }
    }
}

impl<const N: usize> Recent<N> {
    fn move_to(&mut self, slot: u64) {
        let steps = slot.saturating_sub(self.newest).min(N as u64);
        for step in 0..steps {
            self.slots[((slot - step) % N as u64) as usize] = 0;
        }
        self.newest = self.newest.max(slot);
    }

    /// The slot is older than all that are kept.
    pub(crate) fn is_past(&self, slot: u64) -> bool {
        slot + N as u64 <= self.newest
    }

    pub(crate) fn add(&mut self, slot: u64, count: u32) {
        self.move_to(slot);
        if slot + N as u64 > self.newest {
            let there = &mut self.slots[(slot % N as u64) as usize];
            *there = there.saturating_add(count);
        }
    }

    pub(crate) fn sum(&self, slot: u64) -> u64 {
        let fresh = |age: u64| slot.checked_sub(age).filter(|at| *at <= self.newest && at + N as u64 > self.newest);
        (0..N as u64).filter_map(fresh).map(|at| u64::from(self.slots[(at % N as u64) as usize])).sum()
    }
}

const RATE_SLOTS: usize = 60;
const RATE_SLOT_MS: u64 = 1_000;
const SHARE_SLOTS: usize = 30;
const SHARE_SLOT_MS: u64 = 10_000;

/// Events that are counted since this process began, by the words of `recado_jobs_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    Enqueued,
    Received,
    Completed,
    Failed,
    Retried,
    Dead,
    Replayed,
    Discarded,
    Released,
    Extended,
    Expired,
    Cancelled,
    Deduplicated,
    Skipped,
    VisibilityTimeout,
    Forwarded,
    Arrived,
}

/// Words of [`Count`], in its order.
pub(crate) const COUNT_WORDS: [&str; 17] = [
    "enqueued",
    "received",
    "completed",
    "failed",
    "retried",
    "dead",
    "replayed",
    "discarded",
    "released",
    "extended",
    "expired",
    "cancelled",
    "deduplicated",
    "skipped",
    "visibility-timeout",
    "forwarded",
    "arrived",
];

#[derive(Clone, Debug, Default)]
struct Rates {
    enqueued: Recent<RATE_SLOTS>,
    received: Recent<RATE_SLOTS>,
    completed: Recent<RATE_SLOTS>,
    /// Attempts that ended well or badly.
    attempts: Recent<SHARE_SLOTS>,
    failures: Recent<SHARE_SLOTS>,
    retries: Recent<SHARE_SLOTS>,
}

/// All rolling figures of a queue; nothing is allocated before the first sample.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) totals: [u64; COUNT_WORDS.len()],
    rates: Option<Box<Rates>>,
    pub(crate) wait: Times,
    pub(crate) processing: Times,
    /// By type, in no order; a lane knows the place of its own.
    pub(crate) timings: Vec<Timing>,
}

impl Figures {
    /// The place of a type's timing. Where there are too many types, those that `is_used` does not name give way,
    /// the longest unused first; if all are used, it is the one that is shared.
    pub(crate) fn timing_of(&mut self, kind: &str, is_used: impl Fn(usize) -> bool) -> usize {
        if let Some(place) = self.timings.iter().position(|timing| timing.kind.as_deref() == Some(kind)) {
            return place;
        }
        let own = self.timings.iter().enumerate().filter(|(_, timing)| timing.kind.is_some());
        if own.clone().count() < TYPES_MAX {
            self.timings.push(Timing::new(Some(kind.into())));
            return self.timings.len() - 1;
        }
        let unused = own.filter(|(place, _)| !is_used(*place)).min_by_key(|(_, timing)| timing.last_at);
        if let Some((place, _)) = unused {
            self.timings[place] = Timing::new(Some(kind.into()));
            return place;
        }
        let shared = self.timings.iter().position(|timing| timing.kind.is_none());
        shared.unwrap_or_else(|| {
            self.timings.push(Timing::new(None));
            self.timings.len() - 1
        })
    }

    pub(crate) fn count(&mut self, what: Count, at: u64) {
        self.totals[what as usize] += 1;
        let rates = self.rates.get_or_insert_default();
        let (second, tens) = (at / RATE_SLOT_MS, at / SHARE_SLOT_MS);
        match what {
            Count::Enqueued => rates.enqueued.add(second, 1),
            Count::Received => rates.received.add(second, 1),
            Count::Completed => {
                rates.completed.add(second, 1);
                rates.attempts.add(tens, 1);
            }
            Count::Failed => {
                rates.attempts.add(tens, 1);
                rates.failures.add(tens, 1);
            }
            Count::Retried => rates.retries.add(tens, 1),
            _ => {}
        }
    }

    /// Enqueued, received, completed per second over the last minute.
    pub(crate) fn rates(&self, now: u64) -> [f64; 3] {
        let second = now / RATE_SLOT_MS;
        let Some(rates) = &self.rates else { return [0.0; 3] };
        [&rates.enqueued, &rates.received, &rates.completed].map(|recent| recent.sum(second) as f64 / RATE_SLOTS as f64)
    }

    /// Share of failures and of retries among the attempts that ended in the last five minutes.
    pub(crate) fn shares(&self, now: u64) -> [Option<f64>; 2] {
        let tens = now / SHARE_SLOT_MS;
        let Some(rates) = &self.rates else { return [None; 2] };
        let attempts = rates.attempts.sum(tens);
        let share = |recent: &Recent<SHARE_SLOTS>| (attempts > 0).then(|| recent.sum(tens) as f64 / attempts as f64);
        [share(&rates.failures), share(&rates.retries)]
    }

    /// Jobs completed in the last minute.
    pub(crate) fn completed_in_a_minute(&self, now: u64) -> u64 {
        self.rates.as_ref().map_or(0, |rates| rates.completed.sum(now / RATE_SLOT_MS))
    }

    /// Milliseconds between two completions, over the last minute in which there was one.
    pub(crate) fn drain_interval_ms(&self) -> Option<u64> {
        let completed = &self.rates.as_ref()?.completed;
        let count = completed.sum(completed.newest);
        (count > 0).then(|| (RATE_SLOTS as u64 * RATE_SLOT_MS).div_ceil(count))
    }

    /// What is written every minute.
    pub(crate) fn save(&self) -> Option<SavedFigures> {
        let has_samples = self.wait.count + self.processing.count > 0;
        has_samples.then(|| SavedFigures {
            wait: self.wait.save(),
            processing: self.processing.save(),
            timings: self.timings.iter().filter(|timing| timing.completions > 0).map(Timing::save).collect(),
        })
    }

    pub(crate) fn restore(&mut self, saved: &SavedFigures) {
        self.wait.restore(&saved.wait);
        self.processing.restore(&saved.processing);
        for timing in &saved.timings {
            let is_full = self.timings.len() > TYPES_MAX;
            let is_it = |there: &&mut Timing| there.kind.as_deref() == timing.kind.as_deref();
            match self.timings.iter_mut().find(is_it) {
                Some(there) => there.restore(timing),
                None if is_full => {}
                None => {
                    let mut new = Timing::new(timing.kind.as_deref().map(Arc::from));
                    new.restore(timing);
                    self.timings.push(new);
                }
            }
        }
    }

    /// Totals count from the start of this process.
    pub(crate) fn forget_totals(&mut self) {
        self.totals = [0; COUNT_WORDS.len()];
        self.wait.forget_totals();
        self.processing.forget_totals();
    }
}

/// See [`crate::Event::FiguresSaved`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct SavedFigures {
    /// Time from ready to received.
    #[n(0)]
    pub wait: SavedTimes,
    /// Time from received to settled.
    #[n(1)]
    pub processing: SavedTimes,
    /// The same by type, of completions only.
    #[n(2)]
    #[cbor(default)]
    pub timings: Vec<SavedTiming>,
}

/// A rolling histogram: buckets with their counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct SavedTimes {
    /// Start of the present window.
    #[n(0)]
    pub since: u64,
    /// Samples of the present window.
    #[n(1)]
    pub present: Vec<(u16, u32)>,
    /// Samples of the window before.
    #[n(2)]
    pub past: Vec<(u16, u32)>,
}

impl SavedFigures {
    pub(crate) fn encoded_bytes_max(&self) -> usize {
        const ENTRY_BYTES_MAX: usize = 9;
        let entries = |times: &SavedTimes| times.present.len() + times.past.len();
        let timings: usize = self.timings.iter().map(SavedTiming::encoded_bytes_max).sum();
        64 + ENTRY_BYTES_MAX * (entries(&self.wait) + entries(&self.processing)) + timings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_its_own_upper_bound_and_not_more() {
        for value in (0..5_000).chain([u64::from(u32::MAX), 1 << 40, u64::MAX / 3]) {
            let here = bucket(value);
            assert!(upper(here) >= value, "{value}");
            assert_eq!(bucket(upper(here)), here, "{value}");
            assert!(value < 32 || upper(here) - value <= value / 16, "{value}");
        }
    }

    #[test]
    fn percentiles_are_those_of_the_samples_within_a_sixteenth() {
        let mut times = Times::default();
        for value in 1..=1_000 {
            times.add(WINDOW_MS * 10, value);
        }
        let found = times.percentiles(WINDOW_MS * 10);
        assert!((500..=532).contains(&found.p50_ms.unwrap()), "{found:?}");
        assert!((950..=1_010).contains(&found.p95_ms.unwrap()), "{found:?}");
        assert_eq!(times.percentiles(WINDOW_MS * 13), Percentiles::default());
    }

    #[test]
    fn saving_and_restoring_changes_nothing_and_windows_still_turn() {
        let mut times = Times::default();
        for minute in 0..30 {
            times.add(WINDOW_MS * 10 + minute * 60_000, 1 + minute * 1_000);
            let before = (times.present.clone(), times.past.clone(), times.present_since);
            times.restore(&times.save());
            assert_eq!(before, (times.present.clone(), times.past.clone(), times.present_since));
        }
        let now = WINDOW_MS * 10 + 29 * 60_000;
        let lowest = percentile(&[&times.present, &times.past], 1).unwrap();
        assert!(lowest > 15_000, "samples older than two windows are forgotten: {lowest} at {now}");
    }

    #[test]
    fn a_rate_forgets_what_is_older_than_its_window() {
        let mut recent = Recent::<60>::default();
        recent.add(1_000, 6);
        recent.add(1_030, 4);
        assert_eq!((recent.sum(1_030), recent.sum(1_061), recent.sum(1_200)), (10, 4, 0));
        recent.add(5_000, 1);
        assert_eq!(recent.sum(5_000), 1);
    }
}
