//! The instants of a cron expression in a time zone.
//!
//! Between two changes of a zone's offset, wall clock and instants differ by that offset alone, so the expression is
//! asked for its next wall-clock time within each such stretch. What happens between two stretches is the gap (times
//! that do not come) and the second pass (times that come again).

use croner::Cron;
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone, db};
use jiff::{SignedDuration, Timestamp};

use super::Dst;
use super::cron::Expression;
use crate::nearest::nearest;

/// Changes of the offset that are walked over to find an instant: the 29 February that is a given weekday may be 40
/// years away.
const STRETCHES_MAX: usize = 1_000;

/// No two wall clocks differ by as much.
const FAR: SignedDuration = SignedDuration::from_hours(50);

/// The time zone of this name.
pub(super) fn zone(text: &str) -> Result<TimeZone, String> {
    // The database's name for a zone that nobody knows would be taken for UTC.
    TimeZone::get(text).ok().filter(|zone| !zone.is_unknown()).ok_or_else(|| {
        let shown: String = text.chars().take(64).collect();
        let hint = match nearest(
            text,
            db().available().map(|name| name.to_string()).collect::<Vec<_>>().iter().map(|name| &**name),
        ) {
            Some(name) => format!("did you mean `{name}`?"),
            None => "write a place, as in \"Europe/Berlin\", or \"UTC\"".to_owned(),
        };
        format!("`{shown}` is no name of the IANA time zone database; {hint}")
    })
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Calendar {
    cron: Cron,
    zone: TimeZone,
    /// Times in a gap are made up for behind it.
    carries: bool,
    /// Times of a second pass count.
    repeats: bool,
}

impl Calendar {
    pub(super) fn new(expression: Expression, zone: TimeZone, dst: Dst) -> Self {
        let Expression { cron, is_open } = expression;
        Self { cron, zone, carries: !is_open && dst != Dst::Skip, repeats: is_open || dst == Dst::Both }
    }

    /// The first instant after `after`, in milliseconds since the epoch.
    pub(super) fn next(&self, after: u64) -> Option<u64> {
        let second = i64::try_from(after / 1_000).ok()?.checked_add(1)?;
        let from = Timestamp::from_second(second).ok()?;
        let found = if self.ends_gap(from)? { from } else { self.first_from(from)? };
        u64::try_from(found.as_millisecond()).ok()
    }

    /// A gap ends at this very instant, in which something is to be made up for.
    fn ends_gap(&self, at: Timestamp) -> Option<bool> {
        let (earlier, later) = (self.zone.to_offset(before(at)?), self.zone.to_offset(at));
        if !self.carries || later.seconds() <= earlier.seconds() {
            return Some(false);
        }
        let civil = self.cron.find_next_occurrence(&earlier.to_datetime(at), true).ok()?;
        Some(civil < later.to_datetime(at))
    }

    /// The first instant at or after a whole second, but for what is made up for there.
    fn first_from(&self, mut from: Timestamp) -> Option<Timestamp> {
        for _ in 0..STRETCHES_MAX {
            let offset = self.zone.to_offset(from);
            if let Some(end) = self.second_pass_end(from, offset).filter(|_| !self.repeats) {
                from = end;
                continue;
            }
            let civil: DateTime = self.cron.find_next_occurrence(&offset.to_datetime(from), true).ok()?;
            let at = offset.to_timestamp(civil).ok()?;
            let Some(change) = self.zone.following(before(from)?).find(|change| change.timestamp() > from) else {
                return Some(at);
            };
            let (end, later) = (change.timestamp(), change.offset());
            if at < end {
                return Some(at);
            }
            if self.carries && civil < later.to_datetime(end) {
                return Some(end);
            }
            // Nothing is due until that time, but for what a clock that is set back shows again.
            let is_set_back = later.seconds() < offset.seconds();
            from = if is_set_back { end } else { end.max(at.checked_sub(FAR).ok()?) };
        }
        None
    }

    /// The end of the stretch in which the wall clock shows times for the second time, if `from` is in one.
    fn second_pass_end(&self, from: Timestamp, offset: Offset) -> Option<Timestamp> {
        let change = self.zone.preceding(from.checked_add(SignedDuration::from_secs(1)).ok()?).next()?;
        let earlier = self.zone.to_offset(before(change.timestamp())?);
        let back = i64::from(earlier.seconds()) - i64::from(offset.seconds());
        let end = change.timestamp().checked_add(SignedDuration::from_secs(back)).ok()?;
        (back > 0 && end > from).then_some(end)
    }
}

fn before(at: Timestamp) -> Option<Timestamp> {
    at.checked_sub(SignedDuration::from_secs(1)).ok()
}
