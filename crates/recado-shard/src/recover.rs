//! Builds the state from the log: the same events, applied again.

use std::time::{Duration, Instant};

use recado_core::State;
use recado_log::{Position, Reader};
use recado_mutants::{Mutant, active};

use crate::error::OpenError;

/// What was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Batches.
    pub batches: u64,
    /// Events in them.
    pub events: u64,
    /// Bytes of events; payloads are not read.
    pub bytes: u64,
    /// Position of the last batch.
    pub last: Position,
    /// When the last batch was made, by the wall clock of that moment.
    pub last_at: u64,
    /// How long it took.
    pub took: Duration,
}

/// Batches after which a replay drops what it has piled up for those who wait.
const FORGET_EVERY: u64 = 1_024;

/// Who was woken or ended in the past is of no concern to anyone now, and would fill the memory.
pub(crate) fn forget_news(state: &mut State) {
    drop((state.take_wakes(), state.take_ended(), state.take_cancel_news(), state.take_breaker_news()));
}

/// Half of the events of a batch, for a mistake.
fn half(head: &[u8]) -> u64 {
    let mut events = 0_u64;
    match recado_core::decode_batch(head, |_| events += 1) {
        Ok(_) => events.div_ceil(2),
        Err(_) => 0,
    }
}

pub(crate) fn replay(state: &mut State, reader: &dyn Reader, from: Position) -> Result<Replayed, OpenError> {
    let started = Instant::now();
    let mut replayed = Replayed::default();
    let mut next = from;
    while let Some(entry) = reader.read(next, false)? {
        let position = entry.position;
        let is_halved = active(Mutant::BatchHalved) && reader.read(entry.next, false)?.is_none();
        let until = if is_halved { replayed.events + half(&entry.batch.head) } else { u64::MAX };
        let apply = |event| {
            if replayed.events < until {
                recado_core::apply(state, position.0, event);
                replayed.events += 1;
            }
        };
        let head = recado_core::decode_batch(&entry.batch.head, apply)
            .map_err(|source| OpenError::Decode { position, source })?;
        replayed.batches += 1;
        replayed.bytes += entry.batch.head.len() as u64;
        replayed.last = position;
        replayed.last_at = head.at;
        if replayed.batches.is_multiple_of(FORGET_EVERY) {
            forget_news(state);
        }
        assert!(entry.next > position, "reading goes forward");
        next = entry.next;
    }
    replayed.took = started.elapsed();
    Ok(replayed)
}
