//! Schedules, and what became of their occurrences.

use alloc::boxed::Box;
use core::ops::Bound;

use super::cursor::{Mark, Walk, after_name};
use super::{Answer, Answered, Page, ScheduleView};
use crate::decide::find_schedule;
use crate::state::{Schedule, State};

pub(super) fn list(state: &State, page: &Page) -> Answered {
    let after = page.name()?;
    let start = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    let mut names = state.schedule_names.range::<str, _>((start, Bound::Unbounded));
    let size = page.size();
    let schedules: alloc::vec::Vec<ScheduleView> =
        names.by_ref().take(size).map(|(_, number)| view(&state.schedules[number])).collect();
    let more = names.next().is_some();
    let cursor = schedules.last().filter(|_| more).map(|last| after_name(&last.name));
    Ok(Answer::Schedules { schedules, cursor })
}

pub(super) fn one(state: &State, name: &str) -> Answered {
    Ok(Answer::Schedule(Box::new(view(find_schedule(state, name)?))))
}

pub(super) fn occurrences(state: &State, name: &str, page: &Page) -> Answered {
    let schedule = find_schedule(state, name)?;
    let before = page.mark()?.map_or(u64::MAX, |mark| mark.spot as u64);
    let mut walk = Walk::new(page);
    let older = schedule.record.occurrences.iter().rev().skip_while(|occurrence| occurrence.number >= before);
    let _ = older.copied().all(|it| walk.look(Mark::at(u128::from(it.number)), || Some(it)));
    let (occurrences, cursor) = walk.end();
    Ok(Answer::Occurrences { occurrences, cursor })
}

fn view(schedule: &Schedule) -> ScheduleView {
    let record = &schedule.record;
    ScheduleView {
        name: record.name.clone(),
        source: record.source,
        text: schedule.text.clone(),
        catch_up_window_ms: record.options.catch_up_window_ms,
        version: record.version,
        since: record.since,
        paused: record.paused,
        paused_reason: record.paused_reason.clone(),
        next: record.next,
        decided_to: record.decided_to,
        last: record.occurrences.last().copied(),
        fired: record.fired,
        skipped: record.skipped,
    }
}
