//! Builds the state from the log: the same events, applied again.

use std::time::{Duration, Instant};

use recado_core::State;
use recado_log::{Position, Reader};

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
    /// How long it took.
    pub took: Duration,
}

pub(crate) fn replay(state: &mut State, reader: &dyn Reader, from: Position) -> Result<Replayed, OpenError> {
    let started = Instant::now();
    let mut replayed = Replayed::default();
    let mut next = from;
    while let Some(entry) = reader.read(next, false)? {
        let position = entry.position;
        let apply = |event| {
            recado_core::apply(state, position.0, &event);
            replayed.events += 1;
        };
        recado_core::decode_batch(&entry.batch.head, apply).map_err(|source| OpenError::Decode { position, source })?;
        replayed.batches += 1;
        replayed.bytes += entry.batch.head.len() as u64;
        replayed.last = position;
        assert!(entry.next > position, "reading goes forward");
        next = entry.next;
    }
    replayed.took = started.elapsed();
    Ok(replayed)
}
