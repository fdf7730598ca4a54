//! Who is there to work. Volatile: it is not derived from the log and starts empty.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::command::TypeRange;
use crate::query::ConsumerView;

/// A consumer counts as present for so long after its last receive or settle.
const PRESENT_FOR_MS: u64 = 60_000;

/// Consumers that a shard remembers, over all queues; those seen longest ago make room.
const CONSUMERS_MAX: usize = 10_000;

/// So many make room at once: a look at all of them pays for as many newcomers.
const EVICTED: usize = CONSUMERS_MAX / 10;

#[derive(Debug, Clone)]
struct Consumer {
    types: Option<Vec<TypeRange>>,
    last_seen_at: u64,
    /// A long poll of it is open, so it is present however long ago it asked.
    waits: u32,
}

/// The book of consumers, by queue and worker name; those that gave no name are under the empty one.
#[derive(Debug, Default)]
pub struct Presence {
    queues: BTreeMap<u32, BTreeMap<Box<str>, Consumer>>,
}

impl Presence {
    /// A consumer asked for jobs of a queue.
    pub fn seen(&mut self, queue: u32, worker: Option<&str>, types: Option<&[TypeRange]>, now: u64) {
        if self.find(queue, worker).is_none() {
            if self.len() >= CONSUMERS_MAX {
                self.evict();
            }
            let newcomer = Consumer { types: None, last_seen_at: now, waits: 0 };
            self.queues.entry(queue).or_default().insert(worker.unwrap_or_default().into(), newcomer);
        }
        let Some(consumer) = self.find(queue, worker) else { return };
        consumer.last_seen_at = now;
        if consumer.types.as_deref() != types {
            consumer.types = types.map(<[TypeRange]>::to_vec);
        }
    }

    fn find(&mut self, queue: u32, worker: Option<&str>) -> Option<&mut Consumer> {
        self.queues.get_mut(&queue)?.get_mut(worker.unwrap_or_default())
    }

    /// Looked at only by newcomers, and there are far fewer queues than consumers.
    fn len(&self) -> usize {
        self.queues.values().map(BTreeMap::len).sum()
    }

    /// Forgets those seen longest ago; an open long poll keeps its consumer as long as it can.
    fn evict(&mut self) {
        let rank = |consumer: &Consumer| (consumer.waits > 0, consumer.last_seen_at);
        let mut ranks: Vec<(bool, u64)> = self.queues.values().flat_map(BTreeMap::values).map(rank).collect();
        let at = EVICTED.min(ranks.len().saturating_sub(1));
        let (_, bound, _) = ranks.select_nth_unstable(at);
        let bound = *bound;
        // Those seen at the same instant as the bound go too, until enough have gone.
        let mut left = EVICTED;
        for consumers in self.queues.values_mut() {
            consumers.retain(|_, consumer| {
                let goes = left > 0 && rank(consumer) <= bound;
                left -= usize::from(goes);
                !goes
            });
        }
        self.queues.retain(|_, consumers| !consumers.is_empty());
    }

    /// A consumer settled a job of a queue.
    pub fn settled(&mut self, queue: u32, worker: &str, now: u64) {
        if let Some(consumer) = self.find(queue, Some(worker)) {
            consumer.last_seen_at = now;
        }
    }

    /// A long poll of a consumer began (`true`) or ended.
    pub fn waits(&mut self, queue: u32, worker: Option<&str>, begins: bool, now: u64) {
        if let Some(consumer) = self.find(queue, worker) {
            consumer.waits = if begins { consumer.waits + 1 } else { consumer.waits.saturating_sub(1) };
            consumer.last_seen_at = now;
        }
    }

    /// Forgets a queue.
    pub fn forget(&mut self, queue: u32) {
        self.queues.remove(&queue);
    }

    /// Whether anyone is there for the queue, and for this type of it.
    pub(crate) fn capable(&self, queue: u32, kind: &str, schema_version: u32, now: u64) -> (bool, bool) {
        let mut any = false;
        for consumer in self.present(queue, now).map(|(_, consumer)| consumer) {
            any = true;
            if accepts(consumer.types.as_deref(), kind, schema_version) {
                return (true, true);
            }
        }
        (any, false)
    }

    /// Consumers of a queue; who holds how many jobs is filled in by the caller.
    pub(crate) fn consumers(&self, queue: u32, now: u64) -> Vec<ConsumerView> {
        let view = |(worker, consumer): (&str, &Consumer)| ConsumerView {
            worker: (!worker.is_empty()).then(|| worker.into()),
            types: consumer.types.clone(),
            in_flight: 0,
            last_seen_at: consumer.last_seen_at,
        };
        self.present(queue, now).map(view).collect()
    }

    fn present(&self, queue: u32, now: u64) -> impl Iterator<Item = (&str, &Consumer)> {
        let consumers = self.queues.get(&queue).into_iter().flatten().map(|(worker, consumer)| (&**worker, consumer));
        consumers.filter(move |(_, consumer)| consumer.is_present(now))
    }
}

impl Consumer {
    fn is_present(&self, now: u64) -> bool {
        self.waits > 0 || self.last_seen_at.saturating_add(PRESENT_FOR_MS) >= now
    }
}

/// Whether a worker that declared `types` takes jobs of this type and version.
pub(crate) fn accepts(types: Option<&[TypeRange]>, kind: &str, schema_version: u32) -> bool {
    types.is_none_or(|types| {
        types.iter().any(|range| &*range.kind == kind && (range.from..=range.to).contains(&schema_version))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn the_shard_remembers_a_bounded_number_and_those_who_wait_first() {
        let mut presence = Presence::default();
        presence.seen(0, Some("waits"), None, 0);
        presence.waits(0, Some("waits"), true, 0);
        for number in 0..2 * CONSUMERS_MAX as u64 {
            let name = format!("w{number}");
            presence.seen(number as u32 % 7, Some(&name), None, number);
            assert!(presence.len() <= CONSUMERS_MAX);
        }
        assert!(presence.queues[&0].contains_key("waits"));
        let newest = 2 * CONSUMERS_MAX as u64 - 1;
        assert!(presence.queues[&(newest as u32 % 7)].contains_key(&*format!("w{newest}")));
        assert!(presence.len() >= CONSUMERS_MAX - EVICTED);
    }
}
