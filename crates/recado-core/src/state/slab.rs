//! Tables that grow in parts, so that growing never stops the writer.

use alloc::vec::Vec;
use core::ops::{Index as At, IndexMut as AtMut};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// Number of a slot. Reused after removal: never kept in the log.
pub(crate) type Slot = u32;

/// No slot.
pub(crate) const NONE: Slot = u32::MAX;

const CHUNK: usize = 1024;

/// Values by slot; chunks never move.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    chunks: Vec<Vec<Option<T>>>,
    free: Vec<Slot>,
    len: usize,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), free: Vec::new(), len: 0 }
    }
}

impl<T> Slab<T> {
    pub(crate) fn insert(&mut self, value: T) -> Slot {
        self.len += 1;
        if let Some(slot) = self.free.pop() {
            self.chunks[slot as usize / CHUNK][slot as usize % CHUNK] = Some(value);
            return slot;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        let last = self.chunks.len() - 1;
        self.chunks[last].push(Some(value));
        let slot = last * CHUNK + self.chunks[last].len() - 1;
        assert!(slot < NONE as usize, "a table holds at most 2^32 - 2 entries");
        slot as Slot
    }

    pub(crate) fn remove(&mut self, slot: Slot) -> T {
        let Some(value) = self.chunks[slot as usize / CHUNK][slot as usize % CHUNK].take() else {
            panic!("slot {slot} is empty");
        };
        self.free.push(slot);
        self.len -= 1;
        value
    }

    pub(crate) fn get(&self, slot: Slot) -> Option<&T> {
        self.chunks.get(slot as usize / CHUNK)?.get(slot as usize % CHUNK)?.as_ref()
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// All slots, empty ones too, are below this.
    pub(crate) fn slots(&self) -> Slot {
        (self.chunks.len() * CHUNK) as Slot
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Slot, &T)> {
        let numbered = self.chunks.iter().flatten().enumerate();
        numbered.filter_map(|(slot, value)| Some((slot as Slot, value.as_ref()?)))
    }
}

impl<T> At<Slot> for Slab<T> {
    type Output = T;
    fn index(&self, slot: Slot) -> &T {
        match self.get(slot) {
            Some(value) => value,
            None => panic!("slot {slot} is empty"),
        }
    }
}

impl<T> AtMut<Slot> for Slab<T> {
    fn index_mut(&mut self, slot: Slot) -> &mut T {
        match &mut self.chunks[slot as usize / CHUNK][slot as usize % CHUNK] {
            Some(value) => value,
            None => panic!("slot {slot} is empty"),
        }
    }
}

const PARTS: usize = 256;

/// Slots by a hash of what they hold. The key itself stays in the table, so an entry costs five bytes
/// and the slack of the part it is in; one of 256 parts grows at a time.
#[derive(Debug)]
pub(crate) struct Index {
    parts: Vec<HashTable<Slot>>,
}

impl Default for Index {
    fn default() -> Self {
        Self { parts: (0..PARTS).map(|_| HashTable::new()).collect() }
    }
}

/// So many numbers stand side by side in an [`Index`].
const NEIGHBOURS: u64 = 64;

/// Spreads numbers that are given out one after the other, but keeps neighbours together: what is looked up
/// in their order, like the jobs of a log, meets memory that is at hand.
pub(crate) fn spread(number: u64) -> u64 {
    let mixed = (number / NEIGHBOURS).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = mixed ^ (mixed >> 29);
    // An index takes the place from the lowest bits, and tells neighbours apart by the highest seven.
    (mixed - mixed % NEIGHBOURS + number % NEIGHBOURS) ^ (number << 57)
}

impl Index {
    fn part(hash: u64) -> usize {
        (hash >> 32) as usize % PARTS
    }

    pub(crate) fn find(&self, hash: u64, is_it: impl Fn(Slot) -> bool) -> Option<Slot> {
        self.parts[Self::part(hash)].find(hash, |slot| is_it(*slot)).copied()
    }

    pub(crate) fn insert(&mut self, hash: u64, slot: Slot, hash_of: impl Fn(Slot) -> u64) {
        self.parts[Self::part(hash)].insert_unique(hash, slot, |slot| hash_of(*slot));
    }

    pub(crate) fn remove(&mut self, hash: u64, slot: Slot) {
        match self.parts[Self::part(hash)].find_entry(hash, |there| *there == slot) {
            Ok(entry) => drop(entry.remove()),
            Err(_) => panic!("slot {slot} is not in its index"),
        }
    }
}

/// A [`Slab`] whose values are found by a 128-bit hash that they carry.
#[derive(Debug)]
pub(crate) struct Table<T> {
    slab: Slab<T>,
    index: Index,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { slab: Slab::default(), index: Index::default() }
    }
}

/// A value that carries its own hash.
pub(crate) trait Keyed {
    fn key(&self) -> u128;
}

impl<T: Keyed> Table<T> {
    pub(crate) fn find(&self, key: u128) -> Option<Slot> {
        self.index.find(key as u64, |slot| self.slab[slot].key() == key)
    }

    pub(crate) fn get_by(&self, key: u128) -> Option<&T> {
        self.find(key).map(|slot| &self.slab[slot])
    }

    pub(crate) fn insert(&mut self, value: T) -> Slot {
        let hash = value.key() as u64;
        let slot = self.slab.insert(value);
        let slab = &self.slab;
        self.index.insert(hash, slot, |slot| slab[slot].key() as u64);
        slot
    }

    /// The value with this key, made if need be, and whether it was made.
    pub(crate) fn find_or_insert(&mut self, key: u128, make: impl FnOnce() -> T) -> (Slot, bool) {
        let (slab, hash) = (&mut self.slab, key as u64);
        let part = &mut self.index.parts[Index::part(hash)];
        match part.entry(hash, |slot| slab[*slot].key() == key, |slot| slab[*slot].key() as u64) {
            Entry::Occupied(there) => (*there.get(), false),
            Entry::Vacant(free) => {
                let slot = slab.insert(make());
                free.insert(slot);
                (slot, true)
            }
        }
    }

    pub(crate) fn remove(&mut self, slot: Slot) -> T {
        self.index.remove(self.slab[slot].key() as u64, slot);
        self.slab.remove(slot)
    }

    /// Changes a value, its key too, where it is.
    pub(crate) fn rekey(&mut self, slot: Slot, change: impl FnOnce(&mut T)) {
        self.index.remove(self.slab[slot].key() as u64, slot);
        change(&mut self.slab[slot]);
        let slab = &self.slab;
        self.index.insert(slab[slot].key() as u64, slot, |slot| slab[slot].key() as u64);
    }

    pub(crate) fn get(&self, slot: Slot) -> Option<&T> {
        self.slab.get(slot)
    }

    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }

    pub(crate) fn slots(&self) -> Slot {
        self.slab.slots()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Slot, &T)> {
        self.slab.iter()
    }
}

impl<T> At<Slot> for Table<T> {
    type Output = T;
    fn index(&self, slot: Slot) -> &T {
        &self.slab[slot]
    }
}

impl<T> AtMut<Slot> for Table<T> {
    fn index_mut(&mut self, slot: Slot) -> &mut T {
        &mut self.slab[slot]
    }
}
