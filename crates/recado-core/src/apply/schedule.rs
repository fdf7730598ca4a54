//! Facts about schedules.

use super::State;
use crate::items::{ItemKind, Link};
use crate::schedule::{Occurrence, ScheduleRecord};
use crate::state::Schedule;

pub(super) fn schedule_set(state: &mut State, position: u64, record: &ScheduleRecord) {
    let number = record.number;
    let before = state.schedules.get(&number).map(|schedule| &schedule.record);
    let (is_there, is_changed) = (before.is_some(), before != Some(record));
    if is_changed {
        state.count_config_change();
    }
    if is_there {
        state.unlink_item(ItemKind::Schedule, number);
    }
    let text = (*record.options.text).into();
    state.schedules.insert(number, Schedule { record: record.clone(), text, link: Link::default() });
    state.schedule_names.insert(record.name.clone(), number);
    state.link_item(ItemKind::Schedule, number, position);
}

pub(super) fn schedule_removed(state: &mut State, number: u32) {
    if state.schedules.contains_key(&number) {
        state.unlink_item(ItemKind::Schedule, number);
        if let Some(schedule) = state.schedules.remove(&number) {
            state.schedule_names.remove(&schedule.record.name);
        }
        state.count_config_change();
    }
}

pub(super) fn occurred(state: &mut State, number: u32, occurrence: Occurrence, next: Option<u64>) {
    if !state.schedules.contains_key(&number) {
        return;
    }
    // The record that holds it stays where it is in the log, but costs more now.
    state.unweigh_item(ItemKind::Schedule, number);
    if let Some(schedule) = state.schedules.get_mut(&number) {
        schedule.record.take(occurrence, next);
    }
    state.weigh_item(ItemKind::Schedule, number);
}
