//! Shared limits.

use super::{Answer, LimitFigures, LimitView};
use crate::event::BreakerOf;
use crate::state::State;

pub(super) fn all(state: &State, now: u64) -> Answer {
    let view = |number: &u32| {
        let limit = &state.limits[number];
        Some(LimitView {
            figures: figures(state, now, *number)?,
            source: limit.record.source,
            options: limit.record.options.clone(),
            queues: limit.queues.iter().map(|queue| state.queue(*queue).name.clone()).collect(),
        })
    };
    Answer::Limits(state.limit_names.values().filter_map(view).collect())
}

pub(super) fn figures(state: &State, now: u64, number: u32) -> Option<LimitFigures> {
    let limit = state.limits.get(&number)?;
    let options = &limit.record.options;
    Some(LimitFigures {
        name: limit.name.clone(),
        in_flight: limit.in_flight,
        max_in_flight: options.max_in_flight,
        rate: options.rate.map(|rate| (rate, limit.bucket.available(rate, state.elapsed(now)))),
        deliveries: limit.deliveries,
        held_back: state.hold_of_limit(number),
        breaker: state.breaker_view(BreakerOf::Limit(number), now),
    })
}
