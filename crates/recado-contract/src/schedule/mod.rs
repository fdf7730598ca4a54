//! When a schedule is due: cron expressions, time zones and their changes, equal intervals. Only instants leave this
//! room; the log has them, so that neither another version of the zones' rules nor of this code changes what was decided.
//!
//! A cron expression names times of a wall clock. Where that clock is moved, some times do not come and some come
//! twice. An expression whose hour is open (`*` or `/` in it) is about time that passes: it is due whenever the wall
//! clock shows one of its times. One with fixed hours is about times of the day, for which [`Dst`] says what holds.

mod calendar;
mod cron;

use self::calendar::Calendar;
use crate::duration;
use crate::faults::Faults;
use crate::limits::EVERY_MS;

/// What holds for fixed hours where the wall clock is moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dst {
    /// A time that does not come is made up for at once after the gap; of one that comes twice the first counts.
    #[default]
    Once,
    /// A time that does not come is left out; of one that comes twice the first counts.
    Skip,
    /// A time that does not come is made up for at once after the gap; one that comes twice counts twice.
    Both,
}

/// When a schedule is due, as it was written down.
#[derive(Clone, Copy, Debug, Default)]
pub struct Given<'a> {
    /// 5 or 6 fields.
    pub cron: Option<&'a str>,
    /// A duration, instead.
    pub every: Option<&'a str>,
    /// Name of a time zone; UTC when absent.
    pub time_zone: Option<&'a str>,
    /// For fixed hours.
    pub dst: Option<Dst>,
}

/// When a schedule is due.
#[derive(Clone, Debug)]
pub struct Timing(Kind);

#[derive(Clone, Debug)]
enum Kind {
    /// In equal intervals, in milliseconds.
    Every(u64),
    Cron(Box<Calendar>),
}

/// The last instant that is due is looked for within the last so many milliseconds first: few are due in a span in which
/// one is.
const LOOK_BACK_MS: [u64; 6] = [60_000, 3_600_000, 86_400_000, 32 * 86_400_000, 366 * 86_400_000, u64::MAX];

impl Timing {
    /// Reads it; `None` when something is wrong, which is noted.
    pub fn read(given: &Given<'_>, now: u64, faults: &mut Faults) -> Option<Self> {
        match (given.cron, given.every) {
            (Some(text), None) => Self::cron(text, given, now, faults),
            (None, Some(text)) => Self::every(text, given, faults),
            (Some(_), Some(_)) => {
                faults.at("/every", "send cron or every, not both");
                None
            }
            (None, None) => {
                faults.at("/cron", "is missing: say when, as in cron = \"0 8 * * MON-FRI\" or every = \"15m\"");
                None
            }
        }
    }

    fn every(text: &str, given: &Given<'_>, faults: &mut Faults) -> Option<Self> {
        for (is_set, pointer) in [(given.time_zone.is_some(), "/timeZone"), (given.dst.is_some(), "/dst")] {
            if is_set {
                faults.at(pointer, "goes with cron: equal intervals know no time zone");
            }
        }
        match duration::parse(text) {
            Ok(ms) => {
                faults.time_range("/every", Some(ms), EVERY_MS.0, EVERY_MS.1);
                (ms > 0).then_some(Self(Kind::Every(ms)))
            }
            Err(message) => {
                faults.at("/every", message);
                None
            }
        }
    }

    fn cron(text: &str, given: &Given<'_>, now: u64, faults: &mut Faults) -> Option<Self> {
        let zone = calendar::zone(given.time_zone.unwrap_or("UTC")).map_err(|why| faults.at("/timeZone", why));
        let expression = cron::parse(text).map_err(|why| faults.at("/cron", why));
        let calendar = Calendar::new(expression.ok()?, zone.ok()?, given.dst.unwrap_or_default());
        if calendar.next(now).is_none() {
            faults.at("/cron", "never comes: no such day is in these months");
        }
        Some(Self(Kind::Cron(Box::new(calendar))))
    }

    /// The first instant after `after`; equal intervals are counted from `since`.
    #[must_use]
    pub fn next(&self, since: u64, after: u64) -> Option<u64> {
        match &self.0 {
            Kind::Every(ms) => {
                let passed = after.saturating_sub(since) / ms;
                since.checked_add(passed.checked_add(1)?.checked_mul(*ms)?)
            }
            Kind::Cron(calendar) => calendar.next(after),
        }
    }

    /// The last instant up to `now`, given one.
    #[must_use]
    pub fn latest(&self, since: u64, one: u64, now: u64) -> u64 {
        if let Kind::Every(ms) = &self.0 {
            return one + now.saturating_sub(one) / ms * ms;
        }
        for back_ms in LOOK_BACK_MS {
            let from = now.saturating_sub(back_ms);
            let first = if from <= one { Some(one) } else { self.next(since, from) };
            if let Some(first) = first.filter(|first| *first <= now) {
                let due = std::iter::successors(Some(first), |last| self.next(since, *last));
                return due.take_while(|at| *at <= now).last().unwrap_or(first);
            }
        }
        one
    }
}

/// The name of a time zone as the database writes it.
///
/// # Errors
/// Why it is none.
pub fn zone_name(text: &str) -> Result<String, String> {
    calendar::zone(text).map(|zone| zone.iana_name().unwrap_or(text).to_owned())
}

#[cfg(test)]
mod tests;
