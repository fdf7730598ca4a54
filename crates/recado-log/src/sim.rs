//! A disk in memory that does what real ones do at the worst moment: loses power, tears writes at
//! sectors, overtakes one write with another, fails, runs full. The same seed does the same again.
//!
//! A file is what a read shows (`now`), what survives power loss for sure (`durable`), and the writes
//! in between. A failed sync forgets those writes without making them durable: reads go on to show
//! them, another sync has nothing to do, and power loss takes them away. The death of a process keeps
//! everything that was written.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::disk::{Disk, DiskFile};

pub mod chaos;

const SECTOR_BYTES: usize = 512;

/// What happens to an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It fails; of a write a part may have been done, of a sync anything.
    Io,
    /// It is done, but the next sync of data fails, as when a cache could not be written back.
    NextSync,
    /// It fails for lack of space.
    Full,
    /// A write writes only a part of its bytes; other operations are not changed.
    Short,
    /// A write does a part of its work, then the process is dead: this and all later operations fail.
    Crash,
    /// The same, because the power goes; [`SimDisk::lose_power`] is what has to come next.
    PowerLoss,
}

/// The disk. Its clones are the same disk.
#[derive(Clone)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct Inode {
    now: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<(usize, Vec<u8>)>,
}

#[derive(Clone, Debug)]
enum NameChange {
    Link(String, u64),
    Rename(String, String),
    Remove(String),
}

#[derive(Default)]
struct State {
    random: u64,
    /// Grows at every crash; handles of a dead process do nothing.
    process: u64,
    is_dead: bool,
    is_without_power: bool,
    next_sync_fails: bool,
    is_read_only: bool,
    inodes: BTreeMap<u64, Inode>,
    next_inode: u64,
    names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    name_changes: Vec<NameChange>,
    locks: BTreeSet<String>,
    /// Operations that change something, so far.
    operations: u64,
    faults: BTreeMap<u64, Fault>,
    /// Reads, so far.
    reads: u64,
    /// Those that fail.
    read_faults: BTreeSet<u64>,
    capacity_bytes: Option<usize>,
}

impl SimDisk {
    /// An empty disk.
    pub fn new(seed: u64) -> SimDisk {
        let state = State { random: seed ^ 0x9e37_79b9_7f4a_7c15, ..State::default() };
        SimDisk { state: Arc::new(Mutex::new(state)) }
    }

    /// The disk as a process sees it that lives until the next [`SimDisk::kill`] or
    /// [`SimDisk::lose_power`].
    pub fn disk(&self) -> Arc<dyn Disk> {
        let process = self.state().process;
        Arc::new(Handle { state: Arc::clone(&self.state), process })
    }

    /// The process dies; what it wrote stays.
    pub fn kill(&self) {
        let mut state = self.state();
        state.process += 1;
        state.is_dead = false;
        state.locks.clear();
    }

    /// The power goes: of what was not synced some sectors, and some names, are there, some not.
    pub fn lose_power(&self) {
        self.kill();
        let mut state = self.state();
        state.is_without_power = false;
        let mut inodes = std::mem::take(&mut state.inodes);
        for inode in inodes.values_mut() {
            inode.lose_power(&mut state.random);
        }
        state.inodes = inodes;
        let changes = std::mem::take(&mut state.name_changes);
        for change in changes {
            if coin(&mut state.random) {
                state.apply_durably(change);
            }
        }
        state.names = state.durable_names.clone();
    }

    /// A [`Fault::Crash`] or [`Fault::PowerLoss`] has ended the process.
    pub fn is_dead(&self) -> bool {
        self.state().is_dead
    }

    /// A [`Fault::PowerLoss`] has happened.
    pub fn is_without_power(&self) -> bool {
        self.state().is_without_power
    }

    /// The operation number `operation` (see [`SimDisk::operations`]) is hit.
    pub fn fail_at(&self, operation: u64, fault: Fault) {
        self.state().faults.insert(operation, fault);
    }

    /// After so many more reads one fails; the next one finds all as it was.
    pub fn fail_read_after(&self, reads: u64) {
        let mut state = self.state();
        let number = state.reads + reads;
        state.read_faults.insert(number);
    }

    /// From now on everything can be read.
    pub fn clear_read_faults(&self) {
        self.state().read_faults.clear();
    }

    /// No fault is left to come.
    pub fn clear_faults(&self) {
        self.clear_read_faults();
        let mut state = self.state();
        state.faults.clear();
        state.next_sync_fails = false;
    }

    /// Operations that change something (writes, syncs, changes of names), so far.
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// The files may take this much together, in bytes.
    pub fn set_capacity(&self, bytes: Option<usize>) {
        self.state().capacity_bytes = bytes;
    }

    /// Bytes in all files.
    pub fn used_bytes(&self) -> usize {
        self.state().used()
    }

    /// Refuses every change.
    pub fn set_read_only(&self, is_read_only: bool) {
        self.state().is_read_only = is_read_only;
    }

    /// Names of the files.
    pub fn names(&self) -> Vec<String> {
        self.state().names.keys().cloned().collect()
    }

    /// The bytes of a file as a read shows them; empty when there is none.
    pub fn contents(&self, name: &str) -> Vec<u8> {
        let state = self.state();
        state.names.get(name).map(|inode| state.inodes[inode].now.clone()).unwrap_or_default()
    }

    /// Puts a file there, durably.
    pub fn put(&self, name: &str, bytes: Vec<u8>) {
        let mut state = self.state();
        let inode = state.next_inode;
        state.next_inode += 1;
        state.inodes.insert(inode, Inode { durable: bytes.clone(), now: bytes, unsynced: Vec::new() });
        state.names.insert(name.into(), inode);
        state.durable_names.insert(name.into(), inode);
    }

    /// Removes a file, durably.
    pub fn delete(&self, name: &str) {
        let mut state = self.state();
        state.names.remove(name);
        state.durable_names.remove(name);
    }

    /// Another disk with the same durable and undurable bytes and no faults, no locks, no process.
    pub fn copy(&self, seed: u64) -> SimDisk {
        let copy = SimDisk::new(seed);
        {
            let (from, mut to) = (self.state(), copy.state());
            let clone = |inode: &Inode| Inode {
                now: inode.now.clone(),
                durable: inode.durable.clone(),
                unsynced: inode.unsynced.clone(),
            };
            to.inodes = from.inodes.iter().map(|(number, inode)| (*number, clone(inode))).collect();
            to.next_inode = from.next_inode;
            to.names = from.names.clone();
            to.durable_names = from.durable_names.clone();
            to.name_changes = from.name_changes.clone();
        }
        copy
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inode {
    fn lose_power(&mut self, random: &mut u64) {
        for (offset, bytes) in std::mem::take(&mut self.unsynced) {
            let end = offset + bytes.len();
            if end > self.durable.len() && coin(random) {
                self.durable.resize(end, 0);
            }
            let mut at = offset;
            while at < end.min(self.durable.len()) {
                let sector_end = ((at / SECTOR_BYTES + 1) * SECTOR_BYTES).min(end).min(self.durable.len());
                if coin(random) {
                    self.durable[at..sector_end].copy_from_slice(&bytes[at - offset..sector_end - offset]);
                }
                at = sector_end;
            }
        }
        self.now = self.durable.clone();
    }

    fn write(&mut self, bytes: &[u8], offset: usize) {
        let end = offset + bytes.len();
        if self.now.len() < end {
            self.now.resize(end, 0);
        }
        self.now[offset..end].copy_from_slice(bytes);
        self.unsynced.push((offset, bytes.to_vec()));
    }

    fn sync(&mut self) {
        for (offset, bytes) in self.unsynced.drain(..) {
            let end = offset + bytes.len();
            if self.durable.len() < end {
                self.durable.resize(end, 0);
            }
            self.durable[offset..end].copy_from_slice(&bytes);
        }
    }

    /// Some of it may have reached the disk; the rest is not tried again.
    fn fail_sync(&mut self, random: &mut u64) {
        let now = std::mem::take(&mut self.now);
        self.lose_power(random);
        self.now = now;
    }
}

impl State {
    fn used(&self) -> usize {
        self.names.values().map(|inode| self.inodes[inode].now.len()).sum()
    }

    fn check_process(&self, process: u64) -> io::Result<()> {
        if self.process == process && !self.is_dead {
            return Ok(());
        }
        Err(io::Error::other("simulated crash"))
    }

    /// Counts an operation; the answer is the fault that hits it, if it can still do something.
    fn begin(&mut self, process: u64) -> io::Result<Option<Fault>> {
        self.check_process(process)?;
        if self.is_read_only {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        let fault = self.faults.remove(&self.operations);
        self.operations += 1;
        self.next_sync_fails |= fault == Some(Fault::NextSync);
        self.is_without_power |= fault == Some(Fault::PowerLoss);
        self.is_dead |= matches!(fault, Some(Fault::Crash | Fault::PowerLoss));
        Ok(fault)
    }

    fn apply_durably(&mut self, change: NameChange) {
        match change {
            NameChange::Link(name, inode) => {
                self.durable_names.insert(name, inode);
            }
            NameChange::Rename(from, to) => {
                if let Some(inode) = self.durable_names.remove(&from) {
                    self.durable_names.insert(to, inode);
                }
            }
            NameChange::Remove(name) => {
                self.durable_names.remove(&name);
            }
        }
    }

    fn change_names(&mut self, change: NameChange, fault: Option<Fault>) -> io::Result<()> {
        failure(fault)?;
        match &change {
            NameChange::Link(name, inode) => {
                self.names.insert(name.clone(), *inode);
            }
            NameChange::Rename(from, to) => {
                let Some(inode) = self.names.remove(from) else {
                    return Err(io::ErrorKind::NotFound.into());
                };
                self.names.insert(to.clone(), inode);
            }
            NameChange::Remove(name) => {
                if self.names.remove(name).is_none() {
                    return Err(io::ErrorKind::NotFound.into());
                }
            }
        }
        self.name_changes.push(change);
        Ok(())
    }
}

fn failure(fault: Option<Fault>) -> io::Result<()> {
    match fault {
        None | Some(Fault::Short | Fault::NextSync) => Ok(()),
        Some(Fault::Io) => Err(io::Error::other("simulated failure")),
        Some(Fault::Full) => Err(io::ErrorKind::StorageFull.into()),
        Some(Fault::Crash | Fault::PowerLoss) => Err(io::Error::other("simulated crash")),
    }
}

/// SplitMix64.
fn draw(random: &mut u64) -> u64 {
    *random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut word = *random;
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

fn coin(random: &mut u64) -> bool {
    draw(random) >> 63 == 1
}

struct Handle {
    state: Arc<Mutex<State>>,
    process: u64,
}

impl Handle {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self, inode: u64) -> Arc<dyn DiskFile> {
        Arc::new(SimFile { state: Arc::clone(&self.state), process: self.process, inode })
    }
}

impl Disk for Handle {
    fn list(&self) -> io::Result<Vec<String>> {
        let state = self.state();
        state.check_process(self.process)?;
        Ok(state.names.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let state = self.state();
        state.check_process(self.process)?;
        let inode = state.names.get(name).copied().ok_or(io::ErrorKind::NotFound)?;
        Ok(self.file(inode))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.state();
        let fault = state.begin(self.process)?;
        let inode = state.next_inode;
        state.next_inode += 1;
        state.change_names(NameChange::Link(name.into(), inode), fault)?;
        state.inodes.insert(inode, Inode::default());
        Ok(self.file(inode))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        let fault = state.begin(self.process)?;
        state.change_names(NameChange::Rename(from.into(), to.into()), fault)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        let fault = state.begin(self.process)?;
        state.change_names(NameChange::Remove(name.into()), fault)
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut state = self.state();
        let fault = state.begin(self.process)?;
        failure(fault)?;
        for change in std::mem::take(&mut state.name_changes) {
            state.apply_durably(change);
        }
        Ok(())
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn Any + Send + Sync>> {
        let mut state = self.state();
        state.check_process(self.process)?;
        if state.is_read_only {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        if !state.locks.insert(name.into()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(Lock { state: Arc::clone(&self.state), process: self.process, name: name.into() }))
    }

    fn entropy(&self) -> u64 {
        draw(&mut self.state().random)
    }

    fn path(&self, name: &str) -> PathBuf {
        PathBuf::from("sim").join(name)
    }
}

struct Lock {
    state: Arc<Mutex<State>>,
    process: u64,
    name: String,
}

impl Drop for Lock {
    fn drop(&mut self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.process == self.process {
            state.locks.remove(&self.name);
        }
    }
}

struct SimFile {
    state: Arc<Mutex<State>>,
    process: u64,
    inode: u64,
}

impl SimFile {
    fn state(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.check_process(self.process)?;
        Ok(state)
    }
}

impl State {
    fn inode(&mut self, inode: u64) -> io::Result<&mut Inode> {
        self.inodes.get_mut(&inode).ok_or(io::ErrorKind::NotFound.into())
    }
}

impl DiskFile for SimFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.state()?.inode(self.inode)?.now.len() as u64)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.state()?;
        let number = state.reads;
        state.reads += 1;
        if state.read_faults.remove(&number) {
            return Err(io::Error::other("simulated failure of a read"));
        }
        let now = &state.inode(self.inode)?.now;
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(now.len());
        let count = bytes.len().min(now.len() - from);
        bytes[..count].copy_from_slice(&now[from..from + count]);
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut state = self.state()?;
        let fault = state.begin(self.process)?;
        let offset = usize::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let growth = (offset + bytes.len()).saturating_sub(state.inode(self.inode)?.now.len());
        if growth > 0 && state.capacity_bytes.is_some_and(|capacity| state.used() + growth > capacity) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let count = match fault {
            None | Some(Fault::NextSync) => bytes.len(),
            Some(Fault::Full) => 0,
            Some(_) => 1 + (draw(&mut state.random) % bytes.len() as u64) as usize,
        };
        state.inode(self.inode)?.write(&bytes[..count], offset);
        failure(fault)?;
        Ok(count)
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.state()?;
        let mut fault = state.begin(self.process)?;
        if std::mem::take(&mut state.next_sync_fails) && !state.is_dead {
            fault = Some(Fault::Io);
        }
        if matches!(fault, Some(Fault::Io | Fault::Full)) {
            let mut random = state.random;
            state.inode(self.inode)?.fail_sync(&mut random);
            state.random = random;
        }
        failure(fault)?;
        state.inode(self.inode)?.sync();
        Ok(())
    }
}
