//! Tails of batches kept in memory, so that most payloads are answered without reading the log.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{PoisonError, RwLock};

use bytes::Bytes;
use recado_core::Place;

/// Two rings, first in first out: tails that were just written, and tails that were read ahead.
/// They are apart so that draining an old backlog does not push out what is new.
pub(crate) struct Cache {
    written: RwLock<Ring>,
    ahead: RwLock<Ring>,
}

impl Cache {
    /// A quarter of the budget is for reading ahead.
    pub(crate) fn new(budget_bytes: usize) -> Self {
        let ahead = budget_bytes / 4;
        Self { written: RwLock::new(Ring::new(budget_bytes - ahead)), ahead: RwLock::new(Ring::new(ahead)) }
    }

    pub(crate) fn put_written(&self, position: u64, tail: Bytes) {
        self.written.write().unwrap_or_else(PoisonError::into_inner).put(position, tail);
    }

    pub(crate) fn put_ahead(&self, position: u64, tail: Bytes) {
        self.ahead.write().unwrap_or_else(PoisonError::into_inner).put(position, tail);
    }

    /// Fills the slots it has bytes for; true when no slot is left empty.
    pub(crate) fn fill(&self, places: &[Place], slots: &mut [Option<Bytes>]) -> bool {
        assert_eq!(places.len(), slots.len(), "one slot a place");
        let mut complete = true;
        for ring in [&self.written, &self.ahead] {
            let ring = ring.read().unwrap_or_else(PoisonError::into_inner);
            complete = true;
            for (place, slot) in places.iter().zip(slots.iter_mut()) {
                if slot.is_none() {
                    *slot = ring.get(*place);
                    complete &= slot.is_some();
                }
            }
            if complete {
                break;
            }
        }
        complete
    }

    pub(crate) fn get(&self, place: Place) -> Option<Bytes> {
        let mut slot = [None];
        self.fill(&[place], &mut slot);
        let [bytes] = slot;
        bytes
    }

    pub(crate) fn has(&self, position: u64) -> bool {
        [&self.written, &self.ahead]
            .iter()
            .any(|ring| ring.read().unwrap_or_else(PoisonError::into_inner).tails.contains_key(&position))
    }

    pub(crate) fn ahead_budget(&self) -> usize {
        self.ahead.read().unwrap_or_else(PoisonError::into_inner).budget
    }

    pub(crate) fn bytes(&self) -> usize {
        [&self.written, &self.ahead].iter().map(|ring| ring.read().unwrap_or_else(PoisonError::into_inner).bytes).sum()
    }
}

struct Ring {
    budget: usize,
    bytes: usize,
    tails: BTreeMap<u64, Bytes>,
    /// Positions, oldest first.
    order: VecDeque<u64>,
}

impl Ring {
    fn new(budget: usize) -> Self {
        Self { budget, bytes: 0, tails: BTreeMap::new(), order: VecDeque::new() }
    }

    fn put(&mut self, position: u64, tail: Bytes) {
        if tail.is_empty() || tail.len() > self.budget || self.tails.contains_key(&position) {
            return;
        }
        self.bytes += tail.len();
        self.tails.insert(position, tail);
        self.order.push_back(position);
        while self.bytes > self.budget {
            let Some(oldest) = self.order.pop_front() else { break };
            self.bytes -= self.tails.remove(&oldest).map_or(0, |tail| tail.len());
        }
        assert_eq!(self.tails.len(), self.order.len(), "each tail stands in line once");
    }

    fn get(&self, place: Place) -> Option<Bytes> {
        if place.length == 0 {
            return Some(Bytes::new());
        }
        let tail = self.tails.get(&place.position)?;
        let from = usize::try_from(place.offset).ok()?;
        let to = from.checked_add(usize::try_from(place.length).ok()?)?;
        (to <= tail.len()).then(|| tail.slice(from..to))
    }
}
