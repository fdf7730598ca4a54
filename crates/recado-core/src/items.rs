//! Items: everything that must outlive the record it was written in.
//!
//! | kind | owner | copy event | its end |
//! |---|---|---|---|
//! | globals | shard | `GlobalsSet` | never |
//! | queue | shard | `QueueSet` | `QueueDeleted` |
//! | job | queue | `JobCopied` | `Removed`, or `Completed` when it is not kept |
//! | saved result | idempotency key | `KeySaved` | `KeyEnded` and no job carries the key |
//! | deduplication window | queue | `DedupSet` | `DedupEnded` |
//! | producer | queue | `ProducerAdvanced` | `QueueDeleted`, or `ProducerForgotten` for a new one |
//! | request | shard | `RequestAnswered` | `RequestEnded` |
//! | guard | queue, or a job of it | `GuardSet` | `GuardEnded`, or its job is gone |
//! | task | queue | `TaskSet` | `TaskForgotten` |
//! | audit entry | shard | `Audited` | 10,000 later entries |
//! | note | queue | `Noted` | `Noted` with an empty text |
//! | schema | shard | `SchemaSet` | `SchemaRemoved` |
//! | shared limit | shard | `LimitSet` | `LimitRemoved` |
//! | schedule, with its last occurrences | shard | `ScheduleSet` | `ScheduleRemoved` |
//! | inbound webhook | shard | `HookSet` | `HookRemoved` |
//! | settle that ended a job | shard | `Settled` | 100,000 later ones |
//!
//! What a job knows of its children, the results they left it included, is part of it.
//!
//! All items stand in one list by the position of the oldest record they need. To free the oldest part of
//! the log, the head of the list is written again at the end of the log, whole, and moves to the tail.

use alloc::vec::Vec;

use crate::reply::Place;
use crate::state::slab::{NONE, Slot};
use crate::state::{Family, State};

/// What an item is; see the table above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ItemKind {
    Globals,
    Queue,
    Job,
    Saved,
    Dedup,
    Producer,
    Request,
    Task,
    Audit,
    Note,
    Settle,
    Guard,
    Schema,
    Limit,
    Schedule,
    Hook,
}

const KINDS: [ItemKind; 16] = [
    ItemKind::Globals,
    ItemKind::Queue,
    ItemKind::Job,
    ItemKind::Saved,
    ItemKind::Dedup,
    ItemKind::Producer,
    ItemKind::Request,
    ItemKind::Task,
    ItemKind::Audit,
    ItemKind::Note,
    ItemKind::Settle,
    ItemKind::Guard,
    ItemKind::Schema,
    ItemKind::Limit,
    ItemKind::Schedule,
    ItemKind::Hook,
];

/// An item's place in the list, packed: kind in the upper 4 bits, number in the lower 28.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ItemRef(u32);

const NUMBER_BITS: u32 = 28;
pub(crate) const ITEMS_MAX: u32 = (1 << NUMBER_BITS) - 1;

impl ItemRef {
    const NONE: Self = Self(NONE);

    pub(crate) fn new(kind: ItemKind, number: u32) -> Self {
        assert!(number <= ITEMS_MAX, "an item's number fits 28 bits");
        let item = Self((kind as u32) << NUMBER_BITS | number);
        assert!(item != Self::NONE, "the last number of a sixteenth kind stands for no item");
        item
    }

    pub(crate) fn kind(self) -> ItemKind {
        KINDS[(self.0 >> NUMBER_BITS) as usize]
    }

    pub(crate) fn number(self) -> Slot {
        self.0 & ITEMS_MAX
    }
}

/// The number under which a task or an audit entry is linked. Their ids grow without end, but those that
/// are there at one time are near the newest, so the lower bits tell them apart.
pub(crate) fn short(id: u64) -> u32 {
    (id & u64::from(ITEMS_MAX)) as u32
}

/// The id of a task or an audit entry that is linked as `number`, given the newest id.
pub(crate) fn whole(number: u32, newest: u64) -> u64 {
    newest - u64::from(short(newest).wrapping_sub(number) & ITEMS_MAX)
}

/// An item's neighbours, and the position of the oldest record it needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub(crate) base: u64,
    older: ItemRef,
    newer: ItemRef,
}

impl Default for Link {
    fn default() -> Self {
        Self { base: u64::MAX, older: ItemRef::NONE, newer: ItemRef::NONE }
    }
}

impl Link {
    fn is_linked(&self) -> bool {
        self.base != u64::MAX
    }
}

/// Ends of the list.
#[derive(Debug)]
pub(crate) struct Order {
    oldest: ItemRef,
    newest: ItemRef,
}

impl Default for Order {
    fn default() -> Self {
        Self { oldest: ItemRef::NONE, newest: ItemRef::NONE }
    }
}

/// An item to be written again, with the bytes it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyPlan {
    pub(crate) kind: ItemKind,
    pub(crate) number: u32,
    pub(crate) base: u64,
    /// What must be read.
    pub places: Vec<Place>,
    /// What was read, in the same order.
    pub bytes: Vec<Vec<u8>>,
}

impl State {
    fn link(&mut self, item: ItemRef) -> &mut Link {
        let number = item.number();
        let newest = self.last_number;
        let link = match item.kind() {
            ItemKind::Globals => Some(&mut self.globals_link),
            ItemKind::Queue => self.queues.get_mut(&number).map(|queue| &mut queue.link),
            ItemKind::Job => Some(&mut self.jobs[number].link),
            ItemKind::Saved => self.keys[number].saved.as_mut().map(|saved| &mut saved.link),
            ItemKind::Dedup => self.dedups[number].window.as_mut().map(|window| &mut window.link),
            ItemKind::Producer => Some(&mut self.producers[number].link),
            ItemKind::Request => Some(&mut self.requests[number].link),
            ItemKind::Task => self.tasks.get_mut(&whole(number, newest)).map(|task| &mut task.link),
            ItemKind::Audit => self.audit.get_mut(&whole(number, newest)).map(|entry| &mut entry.link),
            ItemKind::Note => Some(&mut self.notes[number].link),
            ItemKind::Settle => Some(&mut self.settles.table[number].link),
            ItemKind::Guard => Some(&mut self.guards[number].link),
            ItemKind::Schema => self.schemas.get_mut(&number).map(|schema| &mut schema.link),
            ItemKind::Limit => self.limits.get_mut(&number).map(|limit| &mut limit.link),
            ItemKind::Schedule => self.schedules.get_mut(&number).map(|schedule| &mut schedule.link),
            ItemKind::Hook => self.hooks.get_mut(&number).map(|hook| &mut hook.link),
        };
        match link {
            Some(link) => link,
            None => panic!("item {item:?} is linked but not there"),
        }
    }

    /// Puts an item at the newest end, or moves it there: everything it needs stands at or behind `position`.
    /// What an item costs must not change while it is linked.
    pub(crate) fn link_item(&mut self, kind: ItemKind, number: u32, position: u64) {
        self.unlink_item(kind, number);
        let item = ItemRef::new(kind, number);
        let before = self.order.newest;
        *self.link(item) = Link { base: position, older: before, newer: ItemRef::NONE };
        if before == ItemRef::NONE {
            self.order.oldest = item;
        } else {
            self.link(before).newer = item;
        }
        self.order.newest = item;
        self.weigh_item(kind, number);
    }

    /// Takes an item out; one that is not in the list stays out.
    pub(crate) fn unlink_item(&mut self, kind: ItemKind, number: u32) {
        let item = ItemRef::new(kind, number);
        let link = *self.link(item);
        if !link.is_linked() {
            return;
        }
        self.unweigh_item(kind, number);
        *self.link(item) = Link::default();
        match link.older {
            ItemRef::NONE => self.order.oldest = link.newer,
            older => self.link(older).newer = link.newer,
        }
        match link.newer {
            ItemRef::NONE => self.order.newest = link.older,
            newer => self.link(newer).older = link.older,
        }
    }

    fn link_of(&self, item: ItemRef) -> Link {
        let number = item.number();
        match item.kind() {
            ItemKind::Globals => self.globals_link,
            ItemKind::Queue => self.queues[&number].link,
            ItemKind::Job => self.jobs[number].link,
            ItemKind::Saved => self.keys[number].saved.as_ref().map_or_else(Link::default, |saved| saved.link),
            ItemKind::Dedup => self.dedups[number].window.as_ref().map_or_else(Link::default, |window| window.link),
            ItemKind::Producer => self.producers[number].link,
            ItemKind::Request => self.requests[number].link,
            ItemKind::Task => self.tasks[&whole(number, self.last_number)].link,
            ItemKind::Audit => self.audit[&whole(number, self.last_number)].link,
            ItemKind::Note => self.notes[number].link,
            ItemKind::Settle => self.settles.table[number].link,
            ItemKind::Guard => self.guards[number].link,
            ItemKind::Schema => self.schemas[&number].link,
            ItemKind::Limit => self.limits[&number].link,
            ItemKind::Schedule => self.schedules[&number].link,
            ItemKind::Hook => self.hooks[&number].link,
        }
    }

    /// Kind, number and base of all items from the oldest on, for checks.
    pub(crate) fn items_in_order(&self) -> Vec<(ItemKind, u32, u64)> {
        let mut items = Vec::new();
        let mut older = ItemRef::NONE;
        let mut at = self.order.oldest;
        while at != ItemRef::NONE {
            let link = self.link_of(at);
            assert_eq!(link.older, older, "the list of items reads the same from both ends");
            items.push((at.kind(), at.number(), link.base));
            older = core::mem::replace(&mut at, link.newer);
        }
        assert_eq!(self.order.newest, older, "the list of items has its end");
        items
    }

    /// Position of the oldest record that any item needs; the log can be trimmed below it.
    #[must_use]
    pub fn oldest_position(&self) -> Option<u64> {
        (self.order.oldest != ItemRef::NONE).then(|| self.link_of(self.order.oldest).base)
    }

    /// Items to write again so that the log below `below` can be freed, oldest first.
    #[must_use]
    pub fn oldest_copies(&self, below: u64, max_items: usize) -> Vec<CopyPlan> {
        let mut plans = Vec::new();
        let mut at = self.order.oldest;
        while at != ItemRef::NONE && plans.len() < max_items {
            let link = self.link_of(at);
            if link.base >= below {
                break;
            }
            plans.push(CopyPlan {
                kind: at.kind(),
                number: at.number(),
                base: link.base,
                places: self.places_of(at.kind(), at.number()),
                bytes: Vec::new(),
            });
            at = link.newer;
        }
        plans
    }

    /// The item is still what `plan` says.
    pub(crate) fn is_current(&self, plan: &CopyPlan) -> bool {
        self.is_there(plan)
            && self.link_of(ItemRef::new(plan.kind, plan.number)).base == plan.base
            && self.places_of(plan.kind, plan.number) == plan.places
            && plan.places.len() == plan.bytes.len()
    }

    /// An item of this kind and number is there, whether or not it is still the same.
    pub(crate) fn is_there(&self, plan: &CopyPlan) -> bool {
        let number = plan.number;
        match plan.kind {
            ItemKind::Globals => true,
            ItemKind::Queue => self.queues.contains_key(&number),
            ItemKind::Job => self.jobs.get(number).is_some(),
            ItemKind::Saved => self.keys.get(number).is_some_and(|key| key.saved.is_some()),
            ItemKind::Dedup => self.dedups.get(number).is_some_and(|entry| entry.window.is_some()),
            ItemKind::Producer => self.producers.get(number).is_some(),
            ItemKind::Request => self.requests.get(number).is_some(),
            ItemKind::Task => self.tasks.contains_key(&whole(number, self.last_number)),
            ItemKind::Audit => self.audit.contains_key(&whole(number, self.last_number)),
            ItemKind::Note => self.notes.get(number).is_some(),
            ItemKind::Settle => self.settles.table.get(number).is_some(),
            ItemKind::Guard => self.guards.get(number).is_some(),
            ItemKind::Schema => self.schemas.contains_key(&number),
            ItemKind::Limit => self.limits.contains_key(&number),
            ItemKind::Schedule => self.schedules.contains_key(&number),
            ItemKind::Hook => self.hooks.contains_key(&number),
        }
    }

    fn places_of(&self, kind: ItemKind, number: u32) -> Vec<Place> {
        match kind {
            ItemKind::Job => {
                let job = &self.jobs[number];
                job.places().chain(self.family_of(job).into_iter().flat_map(Family::places)).collect()
            }
            ItemKind::Saved => self.keys[number].saved.iter().filter_map(|saved| saved.result).collect(),
            ItemKind::Request => alloc::vec![self.requests[number].answer],
            ItemKind::Guard => self.guards[number].result.into_iter().collect(),
            ItemKind::Task => self.tasks[&whole(number, self.last_number)].patch.into_iter().collect(),
            _ => Vec::new(),
        }
    }
}
