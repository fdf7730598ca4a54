//! Facts about what is found by a key and outlives its job: saved results, producers, requests.

use super::queue::ensure_queue;
use crate::event::Span;
use crate::id::Hash;
use crate::items::{ItemKind, Link};
use crate::state::{ProducerEntry, RequestEntry, State, Timer};

pub(super) fn key_saved(state: &mut State, position: u64, hash: Hash, queue: u32, until: u64, result: Option<Span>) {
    ensure_queue(state, queue);
    let slot = state.find_or_make_key(queue, hash);
    state.save_result(position, slot, until, result.map(|span| span.at(position)));
}

pub(super) fn producer_advanced(state: &mut State, position: u64, (queue, hash): (u32, Hash), seq: u64, at: u64) {
    let slot = match state.producers.find(hash.0) {
        Some(slot) => slot,
        None => {
            state.queue_mut(queue).producers += 1;
            state.producers.insert(ProducerEntry { hash, queue, seq, at, link: Link::default() })
        }
    };
    let producer = &mut state.producers[slot];
    state.idle_producers.remove(&(queue, producer.at, slot));
    (producer.seq, producer.at) = (seq, at);
    state.idle_producers.insert((queue, at, slot));
    state.link_item(ItemKind::Producer, slot, position);
}

pub(super) fn request_answered(
    state: &mut State,
    position: u64,
    (request, body): (Hash, Hash),
    answer: Span,
    until: u64,
) {
    if let Some(slot) = state.requests.find(request.0) {
        state.timers.clear(false, state.requests[slot].until, Timer::Request(slot));
        state.unlink_item(ItemKind::Request, slot);
        state.requests.remove(slot);
    }
    let slot = state.requests.insert(RequestEntry {
        hash: request,
        body,
        answer: answer.at(position),
        until,
        link: Link::default(),
    });
    state.timers.set(false, until, Timer::Request(slot));
    state.link_item(ItemKind::Request, slot, position);
}
