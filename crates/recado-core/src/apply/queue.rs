//! Facts about queues.

use alloc::boxed::Box;

use super::operator::drop_note;
use crate::event::{BreakerOf, QueueRecord};
use crate::items::{ItemKind, Link};
use crate::options::{QueueOptions, Source};
use crate::reply::State as JobState;
use crate::state::{Group, Queue, Slot, State, domain};

pub(super) fn queue_set(state: &mut State, position: u64, record: &QueueRecord) {
    let number = record.number;
    state.last_queue = state.last_queue.max(number);
    ensure_queue(state, number);
    state.unlink_item(ItemKind::Queue, number);
    let breaker = BreakerOf::Queue(number);
    state.to_move.remove(&breaker);
    state.disarm_breaker(breaker);
    let queue = state.queue_mut(number);
    queue.record = record.clone();
    queue.name = (*record.name).into();
    state.arm_breaker(breaker);
    state.names.insert(record.name.clone(), number);
    resolve_settings(state, number);
    state.count_config_change();
    state.link_item(ItemKind::Queue, number, position);
    state.wake(number);
}

/// A queue that an event is about. In a trimmed log the queue's own record may stand behind events about
/// its jobs (a pause writes it anew); until then they stand in a queue without a name.
pub(super) fn ensure_queue(state: &mut State, number: u32) {
    if !state.queues.contains_key(&number) {
        let record = QueueRecord {
            number,
            name: Box::default(),
            source: Source::Auto,
            options: QueueOptions::default(),
            revision: 0,
            paused: false,
            paused_reason: None,
            purged_at: 0,
            breaker: None,
        };
        let hash = state.secret.hash(domain::GROUP, u64::from(number), &[]);
        let no_group = state.groups.insert(Group::new(hash, number));
        let settings = record.options.settings(&state.defaults);
        let queue = Queue {
            record,
            name: "".into(),
            settings,
            link: Link::default(),
            lanes: Default::default(),
            lanes_by_name: Default::default(),
            newest_lane: 0,
            open_lanes: Default::default(),
            next_turn: 0,
            no_group,
            delayed: Default::default(),
            aside: Default::default(),
            workers: Default::default(),
            in_flight: Default::default(),
            dead: Default::default(),
            finished: Default::default(),
            counts: Default::default(),
            held_by_key: 0,
            held_by_group_limit: 0,
            held_by_group_order: 0,
            held_by_group_rate: 0,
            parents: 0,
            fingerprints: Default::default(),
            fingerprints_by_size: Default::default(),
            keys: 0,
            producers: 0,
            dedups: 0,
            notes: 0,
            guards: 0,
            by_age: Default::default(),
            limits: Default::default(),
            bucket: Default::default(),
            trials: Default::default(),
            group_rest: Default::default(),
            is_metered: false,
            figures: Default::default(),
            is_going: false,
        };
        state.queues.insert(number, Box::new(queue));
    }
}

/// Settings follow from options; jobs stand anew where the rules of groups changed.
pub(super) fn resolve_settings(state: &mut State, number: u32) {
    let settings = state.queue(number).record.options.settings(&state.defaults);
    let ended_at = state.queue(number).retention_ends_at();
    let before = core::mem::replace(&mut state.queue_mut(number).settings, settings);
    let retains = |s: &crate::options::Settings| (s.retention_ms.is_some(), s.fifo.is_some());
    if retains(&before) != retains(&state.queue(number).settings) {
        state.order_by_age(number);
    }
    state.move_age_timer(number, ended_at);
    state.note_finished(number);
    state.wake(number);
    state.settle_breaker(BreakerOf::Queue(number));
    state.join_limits(number);
    state.change_rates(number, [before.rate, before.group_rate]);
    let queue = state.queue_mut(number);
    let after = &queue.settings;
    queue.is_metered =
        after.rate.is_some() || after.group_rate.is_some() || after.breaker.is_some() || !after.limits.is_empty();
    let rules =
        |s: &crate::options::Settings| (s.ordered, s.fair, s.group_max_in_flight, s.group_rate, s.fifo.is_some());
    if rules(&before) == rules(after) {
        return;
    }
    let in_lines = state.queue(number).lanes().flat_map(|(_, lane)| lane.ready.values().copied());
    let mut ready: alloc::vec::Vec<Slot> = in_lines.collect();
    // Groups without a job in line are in no ring, whatever the rules are.
    let groups: alloc::collections::BTreeSet<Slot> = ready.iter().map(|slot| state.jobs[*slot].group).collect();
    let aside = state.queue(number).aside.values().copied();
    ready.extend(aside.filter(|slot| state.jobs[*slot].state == JobState::Ready));
    groups.into_iter().for_each(|group| state.refresh(group));
    for slot in ready {
        state.unstand(slot);
        state.stand(slot);
    }
}

pub(super) fn queue_deleted(state: &mut State, number: u32) {
    let Some(queue) = state.queues.get(&number) else { return };
    let jobs = queue.jobs();
    // As many as there are, and not a look at those of other queues behind them.
    let [dedups_left, keys_left, notes_left, guards_left] =
        [queue.dedups, queue.keys, queue.notes, queue.guards].map(|count| count as usize);
    assert_eq!(jobs, 0, "a queue is deleted when its last job is gone");
    state.forget_rates(number);
    state.disarm_breaker(BreakerOf::Queue(number));
    state.to_move.remove(&BreakerOf::Queue(number));
    state.leave_all_limits(number);
    state.unlink_item(ItemKind::Queue, number);
    let producers = state.idle_producers.range((number, 0, 0)..=(number, u64::MAX, Slot::MAX));
    for slot in producers.map(|(_, _, slot)| *slot).collect::<alloc::vec::Vec<_>>() {
        state.drop_producer(slot);
    }
    let dedups = state
        .dedups
        .iter()
        .map(|(slot, _)| slot)
        .filter(|slot| state.dedup_window(*slot).queue == number)
        .take(dedups_left);
    for slot in dedups.collect::<alloc::vec::Vec<_>>() {
        state.drop_dedup(slot);
    }
    let keys = state.keys.iter().filter(|(_, key)| key.queue == number).map(|(slot, _)| slot).take(keys_left);
    for slot in keys.collect::<alloc::vec::Vec<_>>() {
        state.end_saved(slot);
    }
    let notes = state.notes.iter().filter(|(_, note)| note.queue == number).map(|(slot, _)| slot).take(notes_left);
    for slot in notes.collect::<alloc::vec::Vec<_>>() {
        drop_note(state, slot);
    }
    let guards = state.guards.iter().filter(|(_, guard)| guard.record.queue == number).map(|(slot, _)| slot);
    for slot in guards.take(guards_left).collect::<alloc::vec::Vec<_>>() {
        state.drop_guard(slot);
    }
    // Whoever waits for its jobs waits in vain.
    state.wake(number);
    state.count_config_change();
    if let Some(queue) = state.queues.remove(&number) {
        state.names.remove(&queue.record.name);
        state.groups.remove(queue.no_group);
    }
}
