//! Facts about schemas.

use super::State;
use crate::event::SchemaRecord;
use crate::items::{ItemKind, Link};
use crate::state::Schema;

pub(super) fn schema_set(state: &mut State, position: u64, record: &SchemaRecord) {
    let before = state.schemas.get(&record.number).map(|schema| &schema.record.text);
    let (is_there, is_changed) = (before.is_some(), before != Some(&record.text));
    if is_changed {
        state.count_config_change();
    }
    if is_there {
        state.unlink_item(ItemKind::Schema, record.number);
    }
    let text = (*record.text).into();
    state.schemas.insert(record.number, Schema { record: record.clone(), text, link: Link::default() });
    state.link_item(ItemKind::Schema, record.number, position);
}

pub(super) fn schema_removed(state: &mut State, number: u32) {
    if state.schemas.contains_key(&number) {
        state.unlink_item(ItemKind::Schema, number);
        state.schemas.remove(&number);
        state.count_config_change();
    }
}
