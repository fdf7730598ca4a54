//! Facts about shared limits.

use super::State;
use crate::event::{BreakerOf, LimitRecord};
use crate::items::{ItemKind, Link};
use crate::state::Limit;

pub(super) fn limit_set(state: &mut State, position: u64, record: &LimitRecord) {
    let number = record.number;
    let before = state.limits.get(&number).map(|limit| limit.record.options.rate);
    let breaker = BreakerOf::Limit(number);
    if before.is_some() {
        state.unlink_item(ItemKind::Limit, number);
        state.disarm_breaker(breaker);
        state.to_move.remove(&breaker);
    }
    let limit = state.limits.entry(number).or_insert_with(|| Limit {
        record: record.clone(),
        name: (*record.name).into(),
        link: Link::default(),
        queues: Default::default(),
        in_flight: 0,
        bucket: Default::default(),
        trials: Default::default(),
        deliveries: 0,
    });
    limit.record = record.clone();
    state.arm_breaker(breaker);
    state.settle_breaker(breaker);
    state.link_item(ItemKind::Limit, number, position);
    match before {
        Some(rate) => state.change_limit_rate(number, rate),
        None => {
            state.limit_names.insert(record.name.clone(), number);
            // In a trimmed log a queue may be shown before the limit that it names.
            for queue in state.queues_naming(&record.name) {
                state.join_limits(queue);
            }
        }
    }
    state.wake_limit(number);
}

pub(super) fn limit_removed(state: &mut State, number: u32) {
    let Some(limit) = state.limits.get(&number) else { return };
    let name = limit.record.name.clone();
    state.limit_names.remove(&name);
    for queue in state.queues_naming(&name) {
        state.join_limits(queue);
    }
    state.forget_limit_rate(number);
    state.disarm_breaker(BreakerOf::Limit(number));
    state.to_move.remove(&BreakerOf::Limit(number));
    state.unlink_item(ItemKind::Limit, number);
    state.limits.remove(&number);
}
