//! A disk that notes what the log's committer writes between two syncs, so that a bare loop can write
//! the same.

use std::any::Any;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use recado_log::{Disk, DiskFile, RealDisk};

/// The thread whose writes are not noted: it prepares segments.
const PREPARER: &str = "recado-prepare";

/// Bytes written before each sync.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    unsynced: usize,
    syncs: Vec<usize>,
}

/// A trace that is being made.
pub(crate) type SharedTrace = Arc<Mutex<Trace>>;

/// Takes what was noted so far and begins anew.
pub(crate) fn take(trace: &SharedTrace) -> Vec<usize> {
    std::mem::take(&mut *lock(trace)).syncs
}

fn lock(trace: &SharedTrace) -> MutexGuard<'_, Trace> {
    trace.lock().unwrap_or_else(PoisonError::into_inner)
}

/// See the module.
pub(crate) struct TracedDisk {
    disk: RealDisk,
    trace: SharedTrace,
}

impl TracedDisk {
    /// Notes in `trace` what is written through it.
    pub(crate) fn new(disk: RealDisk, trace: SharedTrace) -> Self {
        Self { disk, trace }
    }

    fn traced(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(TracedFile { file, trace: Arc::clone(&self.trace) })
    }
}

impl Disk for TracedDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.open(name).map(|file| self.traced(file))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.create(name).map(|file| self.traced(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.disk.sync_dir()
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn Any + Send + Sync>> {
        self.disk.lock(name)
    }

    fn entropy(&self) -> u64 {
        self.disk.entropy()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.disk.path(name)
    }
}

struct TracedFile {
    file: Arc<dyn DiskFile>,
    trace: SharedTrace,
}

fn is_noted() -> bool {
    std::thread::current().name() != Some(PREPARER)
}

impl DiskFile for TracedFile {
    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let written = self.file.write_at(bytes, offset)?;
        if is_noted() {
            lock(&self.trace).unsynced += written;
        }
        Ok(written)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()?;
        if is_noted() {
            let mut trace = lock(&self.trace);
            let bytes = std::mem::take(&mut trace.unsynced);
            trace.syncs.push(bytes);
        }
        Ok(())
    }
}
