//! Facts about the shard itself: its memory, and the beginning of a service.

use alloc::vec::Vec;

use recado_mutants::{Mutant, active};

use super::queue::resolve_settings;
use crate::event::{Globals, TaskKind};
use crate::items::ItemKind;
use crate::state::{Slot, State};

/// Longest grace that a lease gets after a start.
const GRACE_MAX_MS: u64 = 60_000;

pub(super) fn globals_set(state: &mut State, position: u64, globals: &Globals) {
    if state.secret != globals.secret {
        state.secret = globals.secret;
        state.hash_anew();
    }
    state.seq = state.seq.max(globals.seq);
    state.last_queue = state.last_queue.max(globals.queue);
    state.last_number = state.last_number.max(globals.number);
    state.fence = state.fence.max(globals.fence);
    state.line_at = state.line_at.max(globals.line_at);
    state.skew_ms = globals.skew_ms;
    if state.defaults != globals.defaults {
        state.defaults = globals.defaults.clone();
        // Also of the queues that are still to come.
        state.count_config_change();
        let numbers: Vec<u32> = state.queues.keys().copied().collect();
        numbers.into_iter().for_each(|number| resolve_settings(state, number));
    }
    state.link_item(ItemKind::Globals, 0, position);
}

pub(super) fn started(state: &mut State, at: u64, served_elapsed_at: u64) {
    state.started_at = at;
    let elapsed_at = state.elapsed(at);
    let in_flight = state.queues.values().flat_map(|queue| queue.in_flight.values().copied());
    for slot in in_flight.collect::<Vec<_>>() {
        state.unstand(slot);
        if active(Mutant::AttemptsLostOnRestart) {
            state.jobs[slot].attempts = 0;
        }
        if let Some(lease) = state.jobs[slot].lease_mut() {
            let ends = lease.timeout_elapsed_at.map_or(lease.ends_elapsed_at, |t| t.min(lease.ends_elapsed_at));
            let grace_ends = elapsed_at.saturating_add(lease.visibility_ms.min(GRACE_MAX_MS));
            // Once its end has fallen into down time, a second start does not make it a lease that was let lapse.
            lease.interrupted |= ends <= elapsed_at;
            lease.ends_elapsed_at = lease.ends_elapsed_at.max(grace_ends);
            if active(Mutant::LeasesLostOnRestart) {
                lease.ends_elapsed_at = elapsed_at;
            }
            lease.timeout_elapsed_at = lease.timeout_elapsed_at.map(|t| t.max(grace_ends));
        }
        state.stand(slot);
    }
    // Who held a guard could not extend it meanwhile. One that was let lapse before stays as it is.
    let undone = state.guards.iter().filter(|(_, guard)| guard.record.done.is_none());
    for slot in undone.map(|(slot, _)| slot).collect::<Vec<_>>() {
        let guard = &state.guards[slot];
        if guard.holds(served_elapsed_at) && !active(Mutant::GuardsLapsedByRestart) {
            let grace_ends = elapsed_at.saturating_add(guard.record.hold_ms.min(GRACE_MAX_MS));
            state.hold_guard(slot, guard.record.ends_elapsed_at.max(grace_ends));
        } else {
            state.lapse_guard(slot);
        }
    }
    if active(Mutant::SavedResultLostOnRestart) {
        let keys: Vec<Slot> = state.keys.iter().map(|(slot, _)| slot).collect();
        keys.into_iter().for_each(|slot| state.end_saved(slot));
    }
    state.empty_buckets(at);
    // What a trimmed log shows may look worse than it was.
    state.to_move.clear();
    for queue in state.queues.values_mut() {
        queue.figures.forget_totals();
        queue.trials.forget_totals();
    }
    for limit in state.limits.values_mut() {
        limit.deliveries = 0;
        limit.trials.forget_totals();
    }
    // How far a purge or delete is was written in numbers of lanes and groups, which are others now. What it
    // has done is gone, so it begins again; the rest of its cursors are places in time.
    for task in
        state.tasks.values_mut().filter(|task| matches!(task.record.kind, TaskKind::Purge | TaskKind::DeleteQueue))
    {
        task.record.cursor = Default::default();
    }
    // The last dead job of a note may have gone before what is left of the log; one that comes takes it back.
    let stale = state.notes.iter().filter(|(_, note)| {
        !state.queues.get(&note.queue).is_some_and(|queue| queue.fingerprints.contains_key(&note.fingerprint))
    });
    let stale: Vec<Slot> = stale.map(|(slot, _)| slot).collect();
    state.stale_notes.extend(stale);
}
