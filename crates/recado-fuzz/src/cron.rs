//! When a schedule is due.

use recado_contract::faults::Faults;
use recado_contract::schedule::{Dst, Given, Timing};

/// Instants of one input.
const INSTANTS: usize = 20;

/// An input is an expression, then what it is read with: a number for the zone, one for `dst`, and an instant. Whatever
/// is taken is due at instants that grow, and asked from any of them on it says the same.
pub(crate) fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let mut lines = text.splitn(4, '\n');
    let cron = lines.next().unwrap_or_default();
    let mut number = || lines.next().and_then(|line| line.parse::<u64>().ok()).unwrap_or_default();
    let zones =
        ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Casablanca"];
    let zone = zones[usize::try_from(number() % zones.len() as u64).unwrap_or_default()];
    let dst = [Dst::Once, Dst::Skip, Dst::Both][usize::try_from(number() % 3).unwrap_or_default()];
    // Up to the year 2200.
    let from = number() % 7_258_118_400_000;
    let mut faults = Faults::default();
    let given = Given { cron: Some(cron), every: None, time_zone: Some(zone), dst: Some(dst) };
    let Some(timing) = Timing::read(&given, from, &mut faults) else {
        let errors = faults.into_errors();
        assert!(errors.iter().any(|error| error.pointer == "/cron" && !error.message.is_empty()), "{errors:?}");
        return;
    };
    let due: Vec<u64> =
        std::iter::successors(timing.next(0, from), |last| timing.next(0, *last)).take(INSTANTS).collect();
    let Some((first, last)) = due.first().zip(due.last()) else { return };
    assert!(*first > from && due.is_sorted_by(|a, b| a < b), "{cron:?} in {zone}: {due:?}");
    for pair in due.windows(2) {
        // From just before, and from somewhere between.
        for after in [pair[1] - 1, pair[0] + (pair[1] - pair[0]) / 2] {
            assert_eq!(timing.next(0, after), Some(pair[1]), "{cron:?} in {zone} after {after}");
        }
    }
    assert_eq!(timing.latest(0, *first, *last), *last, "{cron:?} in {zone}");
}
