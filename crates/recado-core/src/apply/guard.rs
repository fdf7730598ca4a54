//! Facts about guards. Each says the whole guard, so that it does not matter what a trimmed log shows before.

use super::queue::ensure_queue;
use crate::event::GuardRecord;
use crate::id::Hash;
use crate::state::State;

pub(super) fn guard_set(state: &mut State, position: u64, record: &GuardRecord) {
    ensure_queue(state, record.queue);
    state.set_guard(position, *record);
}

pub(super) fn guard_ended(state: &mut State, key: Hash) {
    if let Some(slot) = state.guards.find(key.0) {
        state.drop_guard(slot);
    }
}
