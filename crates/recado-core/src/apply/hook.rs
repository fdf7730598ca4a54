//! Facts about inbound webhooks.

use super::State;
use crate::event::HookRecord;
use crate::items::{ItemKind, Link};
use crate::state::Hook;

pub(super) fn hook_set(state: &mut State, position: u64, record: &HookRecord) {
    let before = state.hooks.get(&record.number).map(|hook| &hook.record);
    if before != Some(record) {
        state.count_config_change();
    }
    if state.hooks.contains_key(&record.number) {
        state.unlink_item(ItemKind::Hook, record.number);
    }
    let text = (*record.text).into();
    state.hooks.insert(record.number, Hook { record: record.clone(), text, link: Link::default() });
    state.hook_names.insert(record.name.clone(), record.number);
    state.link_item(ItemKind::Hook, record.number, position);
}

pub(super) fn hook_removed(state: &mut State, number: u32) {
    let Some(hook) = state.hooks.get(&number) else { return };
    let name = hook.record.name.clone();
    state.hook_names.remove(&name);
    state.unlink_item(ItemKind::Hook, number);
    state.hooks.remove(&number);
    state.count_config_change();
}
