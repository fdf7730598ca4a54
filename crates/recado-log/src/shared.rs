//! What the owner of a log, its two engines and its readers share.
//!
//! Three small locks, never held during a write or a sync of data: the intake (what was submitted),
//! the progress (how far it is durable), the table (which segments there are, and who pinned them).
//! No lock is taken while another is held. The table is held while a file is opened or renamed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use crate::disk::{Disk, DiskFile};
use crate::error::Error;
use crate::geometry::Geometry;
use crate::segments::{open_segment, segment_name};
use crate::{Batch, Class, Position, Urgency};

/// Called whenever the answer of `written`, `committed`, `room` or `is_short_of_space` changed.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// Open files; a log may have more segments than a process may have files.
const OPEN_FILES_MAX: usize = 64;
/// End of the last prepared segment that no batch takes: each open writes a fence, each close a
/// watermark, also while the disk is full.
const FENCE_ROOM_BYTES: u64 = 8 << 10;

/// Locks; a thread that panicked with the lock held has poisoned the log already.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A batch on its way to the disk.
pub(crate) struct Queued {
    pub(crate) position: u64,
    pub(crate) batch: Batch,
    pub(crate) urgency: Urgency,
}

/// What the committer is asked to do.
#[derive(Default)]
pub(crate) struct Intake {
    pub(crate) queue: Vec<Queued>,
    /// Sync what is written.
    pub(crate) flush: bool,
    /// Write and sync everything, then the watermark, then end.
    pub(crate) closing: bool,
    /// End at once.
    pub(crate) stopping: bool,
    /// The committer's thread waits without a deadline.
    pub(crate) endless: bool,
    /// Something was committed on another thread since the committer's own one last waited.
    pub(crate) committed_elsewhere: bool,
}

impl Intake {
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty() && !self.flush && !self.closing && !self.stopping
    }
}

/// How far the log is. Ends are the first byte behind the batch of the same name.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    pub(crate) written: u64,
    pub(crate) written_end: u64,
    pub(crate) committed: u64,
    pub(crate) committed_end: u64,
    /// The watermark: every byte below is synced.
    pub(crate) synced_end: u64,
}

struct Segment {
    file: Option<Arc<dyn DiskFile>>,
    used: u64,
}

/// The segments, pins included.
#[derive(Default)]
struct Table {
    segments: BTreeMap<u64, Segment>,
    /// Segments below are trimmed; they are there only while pinned or not yet freed.
    first: u64,
    /// Nothing is freed before this position is synced.
    free_after: u64,
    pins: BTreeMap<u64, u64>,
    /// Damage was met in them.
    damaged: BTreeSet<u64>,
    clock: u64,
}

/// Wakes the preparer.
#[derive(Default)]
pub(crate) struct Chores {
    pub(crate) due: bool,
    pub(crate) stopping: bool,
}

pub(crate) struct Shared {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) geometry: Geometry,
    /// Epoch of this writer.
    pub(crate) epoch: u64,
    wake: Wake,
    pub(crate) intake: Mutex<Intake>,
    work: Condvar,
    progress: Mutex<Progress>,
    table: Mutex<Table>,
    pub(crate) chores: Mutex<Chores>,
    chore: Condvar,
    /// Position of the next batch.
    tip: AtomicU64,
    /// End of the last prepared segment.
    prepared_end: AtomicU64,
    /// Bytes before the last segment that are not for producers, at least a segment.
    reserved: AtomicU64,
    short: AtomicBool,
    poison: OnceLock<Arc<str>>,
}

impl Shared {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        geometry: Geometry,
        epoch: u64,
        wake: Wake,
        numbers: BTreeSet<u64>,
        progress: Progress,
    ) -> Shared {
        let first = numbers.first().copied().unwrap_or(0);
        let next = numbers.last().map_or(0, |last| last + 1);
        let closed = |number| (number, Segment { file: None, used: 0 });
        let segments = numbers.into_iter().map(closed).collect();
        Shared {
            disk,
            geometry,
            epoch,
            wake,
            intake: Mutex::default(),
            work: Condvar::new(),
            progress: Mutex::new(progress),
            table: Mutex::new(Table { segments, first, ..Table::default() }),
            chores: Mutex::default(),
            chore: Condvar::new(),
            tip: AtomicU64::new(geometry.seat(progress.written_end)),
            prepared_end: AtomicU64::new(geometry.base(next)),
            reserved: AtomicU64::new(geometry.segment_bytes),
            short: AtomicBool::new(false),
            poison: OnceLock::new(),
        }
    }

    pub(crate) fn wake(&self) {
        (self.wake)();
    }

    // Failure.

    pub(crate) fn poison(&self, error: &Error) {
        self.poison_with(error.to_string());
    }

    pub(crate) fn poison_with(&self, reason: String) {
        let _ = self.poison.set(reason.into()); // the first reason stays
        self.wake();
        self.notify_chores();
    }

    pub(crate) fn alive(&self) -> Result<(), Error> {
        match self.poison.get() {
            Some(reason) => Err(Error::Poisoned { reason: Arc::clone(reason) }),
            None => Ok(()),
        }
    }

    // The committer's side.

    pub(crate) fn notify_work(&self) {
        self.work.notify_one();
    }

    /// Something was committed on another thread, and the committer's own one has to see to what follows.
    pub(crate) fn notify_deadline(&self) {
        let mut intake = lock(&self.intake);
        intake.committed_elsewhere = true;
        let endless = intake.endless;
        drop(intake);
        if endless {
            self.notify_work();
        }
    }

    /// Waits until there is something to commit, or for `timeout`.
    pub(crate) fn wait_for_work(&self, timeout: Option<Duration>) {
        let mut intake = lock(&self.intake);
        intake.endless = timeout.is_none();
        let mut intake = match timeout {
            None => {
                let rest = |intake: &mut Intake| intake.is_idle() && !intake.committed_elsewhere;
                self.work.wait_while(intake, rest).unwrap_or_else(PoisonError::into_inner)
            }
            Some(timeout) => {
                let rest = |intake: &mut Intake| intake.is_idle();
                self.work.wait_timeout_while(intake, timeout, rest).unwrap_or_else(PoisonError::into_inner).0
            }
        };
        (intake.endless, intake.committed_elsewhere) = (false, false);
    }

    pub(crate) fn progress(&self) -> Progress {
        *lock(&self.progress)
    }

    pub(crate) fn set_progress(&self, progress: Progress) {
        *lock(&self.progress) = progress;
    }

    // The preparer's side.

    pub(crate) fn notify_chores(&self) {
        lock(&self.chores).due = true;
        self.chore.notify_one();
    }

    /// Waits until a segment may have to be prepared or freed, or for `timeout`.
    pub(crate) fn wait_for_chores(&self, timeout: Option<Duration>) {
        let chores = lock(&self.chores);
        let rest = |chores: &mut Chores| !chores.due && !chores.stopping;
        let mut chores = match timeout {
            None => self.chore.wait_while(chores, rest).unwrap_or_else(PoisonError::into_inner),
            Some(timeout) => {
                self.chore.wait_timeout_while(chores, timeout, rest).unwrap_or_else(PoisonError::into_inner).0
            }
        };
        chores.due = false;
    }

    pub(crate) fn is_short(&self) -> bool {
        self.short.load(Ordering::Acquire)
    }

    pub(crate) fn set_short(&self, short: bool) {
        if self.short.swap(short, Ordering::AcqRel) != short {
            self.wake();
        }
    }

    /// Number of the next segment to prepare.
    pub(crate) fn next_segment(&self) -> u64 {
        self.geometry.segment(self.prepared_end.load(Ordering::Acquire))
    }

    pub(crate) fn add_prepared(&self, number: u64, file: Arc<dyn DiskFile>) {
        assert_eq!(number, self.next_segment(), "segments are prepared in order");
        let mut table = lock(&self.table);
        table.clock += 1;
        let used = table.clock;
        table.segments.insert(number, Segment { file: Some(file), used });
        table.close_oldest();
        drop(table);
        self.prepared_end.store(self.geometry.base(number + 1), Ordering::Release);
        self.wake();
    }

    // Space.

    pub(crate) fn tip(&self) -> u64 {
        self.tip.load(Ordering::Acquire)
    }

    pub(crate) fn set_tip(&self, tip: u64) {
        self.tip.store(tip, Ordering::Release);
    }

    /// Where a batch of `class` has to end.
    pub(crate) fn limit(&self, class: Class) -> u64 {
        let prepared = self.prepared_end.load(Ordering::Acquire);
        let settle = prepared.saturating_sub(self.geometry.segment_bytes);
        match class {
            Class::Produce => settle.saturating_sub(self.reserved.load(Ordering::Acquire)),
            Class::Settle => settle,
            Class::Copy => prepared.saturating_sub(FENCE_ROOM_BYTES),
        }
    }

    /// Sets what is kept from producers; the answer is whether more segments have to be prepared for it.
    pub(crate) fn reserve(&self, bytes: u64) -> bool {
        let before = self.reserved_segments();
        self.reserved.store(bytes.max(self.geometry.segment_bytes), Ordering::Release);
        self.reserved_segments() > before
    }

    pub(crate) fn reserved_segments(&self) -> u64 {
        self.reserved.load(Ordering::Acquire).div_ceil(self.geometry.segment_bytes)
    }

    /// True when a record without a body may be written at `position`.
    pub(crate) fn is_prepared(&self, position: u64) -> bool {
        position < self.prepared_end.load(Ordering::Acquire)
    }

    // The table.

    /// The file of a segment, `None` when it was freed or is not prepared.
    pub(crate) fn file(&self, number: u64) -> Result<Option<Arc<dyn DiskFile>>, Error> {
        let mut table = lock(&self.table);
        table.clock += 1;
        let clock = table.clock;
        let Some(segment) = table.segments.get_mut(&number) else {
            return Ok(None);
        };
        segment.used = clock;
        if let Some(file) = &segment.file {
            return Ok(Some(Arc::clone(file)));
        }
        // Under the lock, so that the name cannot pass to another segment meanwhile.
        let file = open_segment(&*self.disk, number)?;
        segment.file = Some(Arc::clone(&file));
        table.close_oldest();
        Ok(Some(file))
    }

    /// Damage was met in a segment; the answer is whether it is still there.
    pub(crate) fn note_damage(&self, number: u64) -> bool {
        let mut table = lock(&self.table);
        let is_there = table.segments.contains_key(&number);
        table.damaged.extend(is_there.then_some(number));
        is_there
    }

    pub(crate) fn is_damaged(&self, number: u64) -> bool {
        lock(&self.table).damaged.contains(&number)
    }

    /// First position that is not trimmed.
    pub(crate) fn first(&self) -> Position {
        Position(self.geometry.start(lock(&self.table).first))
    }

    /// First position whose bytes are still there, because they are not trimmed or because of a pin.
    pub(crate) fn first_kept(&self) -> Position {
        Position(self.geometry.start(lock(&self.table).kept_from()))
    }

    /// Bytes kept only because of a pin.
    pub(crate) fn pinned_bytes(&self) -> u64 {
        let table = lock(&self.table);
        let pinned = table.first - table.kept_from();
        pinned * self.geometry.segment_bytes
    }

    /// Lets go of the segments wholly below `below`, once everything committed until now is synced.
    /// The answer is whether that still has to be synced.
    pub(crate) fn trim(&self, below: u64) -> bool {
        let progress = self.progress();
        // The last record stays: it carries the epoch.
        let first = self.geometry.segment(below.min(progress.committed_end.saturating_sub(1)));
        let mut table = lock(&self.table);
        if first > table.first {
            table.first = first;
            table.free_after = progress.committed_end;
        }
        progress.synced_end < table.free_after
    }

    /// The oldest segment if it may be freed now.
    pub(crate) fn freeable(&self) -> Option<u64> {
        let synced = self.progress().synced_end;
        let table = lock(&self.table);
        let (number, _) = table.segments.first_key_value()?;
        (*number < table.kept_from() && synced >= table.free_after).then_some(*number)
    }

    /// Takes the oldest segment out of the log by giving its file another name.
    pub(crate) fn free(&self, number: u64, name: &str) -> std::io::Result<()> {
        let mut table = lock(&self.table);
        assert!(number < table.kept_from(), "what is trimmed can no longer be pinned");
        self.disk.rename(&segment_name(number), name)?;
        table.segments.remove(&number);
        Ok(())
    }

    /// Pins the segment of `position`; the answer is its number.
    pub(crate) fn pin(&self, position: u64) -> Result<u64, Error> {
        let number = self.geometry.segment(position);
        let mut table = lock(&self.table);
        if number < table.kept_from() {
            return Err(Error::Trimmed { first: Position(self.geometry.start(table.first)) });
        }
        *table.pins.entry(number).or_default() += 1;
        Ok(number)
    }

    pub(crate) fn unpin(&self, number: u64) {
        let mut table = lock(&self.table);
        let pins = table.pins.get_mut(&number);
        assert!(pins.is_some(), "a pin is dropped once");
        if let Some(pins) = pins {
            *pins -= 1;
            if *pins == 0 {
                table.pins.remove(&number);
            }
        }
        drop(table);
        self.notify_chores();
    }
}

impl Table {
    fn kept_from(&self) -> u64 {
        let pinned = self.pins.first_key_value().map_or(self.first, |(number, _)| *number);
        self.first.min(pinned)
    }

    fn close_oldest(&mut self) {
        let open = self.segments.iter().filter(|(_, segment)| segment.file.is_some());
        if open.clone().count() <= OPEN_FILES_MAX {
            return;
        }
        let oldest = open.min_by_key(|(_, segment)| segment.used).map(|(number, _)| *number);
        if let Some(segment) = oldest.and_then(|number| self.segments.get_mut(&number)) {
            segment.file = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;
    use crate::sim::SimDisk;

    #[test]
    fn a_commit_just_before_the_wait_without_a_deadline_is_seen() {
        let disk = SimDisk::new(1).disk();
        let wake: Wake = Arc::new(|| ());
        let geometry = Geometry { segment_bytes: 64 << 10 };
        let shared = Arc::new(Shared::new(disk, geometry, 1, wake, BTreeSet::new(), Progress::default()));
        let waiter = Arc::clone(&shared);
        shared.notify_deadline();
        let (done, returned) = channel();
        thread::spawn(move || {
            waiter.wait_for_work(None);
            done.send(())
        });
        returned.recv_timeout(Duration::from_secs(60)).expect("the wait never ended");
    }
}
