//! Group commit: takes what was submitted, writes it with as few writes as possible, syncs it.
//!
//! A plain object that is stepped: by a thread in production, by a simulator in tests. It never
//! decides where a batch goes (its position is given) and never retries: the first failed write or
//! sync poisons the log.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use recado_mutants::{Mutant, active};

use crate::disk::{DiskFile, write_all_at};
use crate::error::Error;
use crate::format::{ALIGN, Header, Kind};
use crate::segments::segment_name;
use crate::shared::{Progress, Queued, Shared, lock};
use crate::{Batch, Durability, Step, Urgency};

/// A lazily submitted batch waits this long for its sync.
const LAZY_SYNC_DELAY_MAX: Duration = Duration::from_millis(100);
/// After this long without a batch the watermark is moved past the last one.
const IDLE_DELAY: Duration = Duration::from_secs(1);
/// The gathered bytes are written when there are this many.
const GATHER_BYTES: usize = 4 << 20;

pub(crate) struct Committer {
    shared: Arc<Shared>,
    durability: Durability,
    progress: Progress,
    /// Gathered records; they are contiguous, within one segment, and start at `gathered_at`.
    gathered: Vec<u8>,
    gathered_at: u64,
    /// Taken from the intake; kept to reuse its memory.
    taken: Vec<Queued>,
    file: Option<(u64, Arc<dyn DiskFile>)>,
    /// Segments written to since their last sync.
    dirty: BTreeSet<u64>,
    /// A batch that waits for a sync now.
    is_urgent: bool,
    /// When the oldest lazy batch has to be synced.
    lazy_due: Option<Duration>,
    /// When the watermark is to be moved if nothing else happens.
    idle_due: Option<Duration>,
    now: Duration,
}

impl Committer {
    pub(crate) fn new(shared: Arc<Shared>, durability: Durability) -> Committer {
        let progress = shared.progress();
        Committer {
            shared,
            durability,
            progress,
            gathered: Vec::new(),
            gathered_at: 0,
            taken: Vec::new(),
            file: None,
            dirty: BTreeSet::new(),
            is_urgent: false,
            lazy_due: None,
            idle_due: None,
            now: Duration::ZERO,
        }
    }

    /// Starts the epoch: writes and syncs the fence at the tip.
    pub(crate) fn fence(&mut self, previous_epoch: u64) -> Result<(), Error> {
        let at = self.shared.tip();
        self.append_bare(Kind::Fence, at, previous_epoch)?;
        self.progress.written_end = self.gathered_end();
        self.write_gathered()?;
        self.sync()?;
        self.shared.set_tip(self.shared.geometry.seat(self.progress.written_end));
        Ok(())
    }

    /// The time of the last step.
    pub(crate) fn now(&self) -> Duration {
        self.now
    }

    /// Writes what was submitted and syncs what is due.
    pub(crate) fn step(&mut self, now: Duration) -> Step {
        self.now = now;
        if self.shared.alive().is_err() {
            return Step::Ended;
        }
        match self.run(now) {
            Ok(step) => step,
            Err(error) => {
                self.shared.poison(&error);
                Step::Ended
            }
        }
    }

    fn run(&mut self, now: Duration) -> Result<Step, Error> {
        let closing = {
            let mut intake = lock(&self.shared.intake);
            if intake.stopping {
                return Ok(Step::Ended);
            }
            std::mem::swap(&mut intake.queue, &mut self.taken);
            self.is_urgent |= std::mem::take(&mut intake.flush);
            intake.closing
        };
        let has_written = !self.taken.is_empty();
        if has_written {
            self.write_group(now)?;
        }
        let is_lazy_due = self.lazy_due.is_some_and(|due| due <= now);
        let has_synced = (self.is_urgent || is_lazy_due || closing) && !self.dirty.is_empty();
        if has_synced {
            self.sync()?;
        }
        self.is_urgent = false;
        if closing {
            if has_written {
                return Ok(Step::Worked); // something may have been submitted meanwhile
            }
            self.move_watermark()?;
            return Ok(Step::Ended);
        }
        if self.idle_due.is_some_and(|due| due <= now) {
            self.move_watermark()?;
            return Ok(Step::Worked);
        }
        if has_written || has_synced {
            return Ok(Step::Worked);
        }
        let until = [self.lazy_due, self.idle_due].into_iter().flatten().min();
        Ok(Step::Idle { until })
    }

    fn write_group(&mut self, now: Duration) -> Result<(), Error> {
        let mut taken = std::mem::take(&mut self.taken);
        let mut has_lazy = false;
        for queued in &taken {
            self.append(queued.position, &queued.batch)?;
            match (self.durability, queued.urgency) {
                (Durability::Sync, Urgency::Now | Urgency::Alone) => self.is_urgent = true,
                (Durability::Sync, Urgency::Lazy) => {
                    has_lazy = true;
                    self.lazy_due.get_or_insert(now.saturating_add(LAZY_SYNC_DELAY_MAX));
                }
                (Durability::Os, _) => {}
            }
            self.progress.written = queued.position;
            self.progress.written_end = self.gathered_end();
        }
        taken.clear();
        self.taken = taken;
        self.write_gathered()?;
        if self.durability == Durability::Os {
            self.progress.committed = self.progress.written;
            self.progress.committed_end = self.progress.written_end;
        }
        self.idle_due = Some(now.saturating_add(IDLE_DELAY));
        if self.durability == Durability::Sync && self.is_urgent && !has_lazy {
            // The sync that follows at once wakes; nobody waits for the write alone, and waking takes time.
            self.shared.set_progress(self.progress);
        } else {
            self.publish();
        }
        if self.durability == Durability::Os && self.dirty.len() > 1 {
            // Keeps what a recovery has to write again within a segment or two.
            self.is_urgent = true;
        }
        Ok(())
    }

    /// Gathers the records of one batch.
    fn append(&mut self, position: u64, batch: &Batch) -> Result<(), Error> {
        let geometry = self.shared.geometry;
        let (head, tail) = (batch.head.as_ref(), batch.tail.as_ref());
        let body = head.len() + tail.len();
        let parts = geometry.extent(position, body).parts;
        let (mut end, mut sent) = (position, 0);
        for part in 0..parts {
            let at = geometry.seat(end);
            let until = sent + geometry.part_bytes(at, body - sent);
            let head = &head[sent.min(head.len())..until.min(head.len())];
            let tail = &tail[sent.saturating_sub(batch.head.len())..until.saturating_sub(batch.head.len())];
            let header = Header {
                kind: Kind::Data,
                position: at,
                link: position,
                epoch: self.shared.epoch,
                watermark: self.progress.synced_end,
                part,
                parts,
                head_bytes: u32_of(head.len()),
                tail_bytes: u32_of(tail.len()),
                head_crc: crc32c::crc32c(head),
                tail_crc: crc32c::crc32c(tail),
            };
            self.gather(&header, head, tail)?;
            (end, sent) = (header.end(), until);
        }
        assert_eq!(sent, body, "the parts cover the batch");
        Ok(())
    }

    /// Gathers a record without a body.
    fn append_bare(&mut self, kind: Kind, at: u64, link: u64) -> Result<(), Error> {
        let header = Header {
            kind,
            position: at,
            link,
            epoch: self.shared.epoch,
            watermark: self.progress.synced_end,
            part: 0,
            parts: 1,
            head_bytes: 0,
            tail_bytes: 0,
            head_crc: 0,
            tail_crc: 0,
        };
        self.gather(&header, &[], &[])
    }

    fn gather(&mut self, header: &Header, head: &[u8], tail: &[u8]) -> Result<(), Error> {
        if header.position != self.gathered_end() || self.gathered.len() >= GATHER_BYTES {
            self.write_gathered()?;
        }
        if self.gathered.is_empty() {
            self.gathered_at = header.position;
        }
        self.gathered.extend_from_slice(&header.encode());
        self.gathered.extend_from_slice(head);
        self.gathered.extend_from_slice(tail);
        self.gathered.resize(self.gathered.len().next_multiple_of(ALIGN as usize), 0);
        assert_eq!(self.gathered_end(), header.end(), "records stand where they say");
        Ok(())
    }

    fn gathered_end(&self) -> u64 {
        self.gathered_at + self.gathered.len() as u64
    }

    fn write_gathered(&mut self) -> Result<(), Error> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        let geometry = self.shared.geometry;
        let number = geometry.segment(self.gathered_at);
        assert_eq!(number, geometry.segment(self.gathered_end() - 1), "a write stays within its segment");
        let file = self.file(number)?;
        write_all_at(&*file, &self.gathered, geometry.offset(self.gathered_at))
            .map_err(|source| self.failure("write", number, source))?;
        self.dirty.insert(number);
        self.gathered_at = self.gathered_end();
        self.gathered.clear();
        Ok(())
    }

    fn file(&mut self, number: u64) -> Result<Arc<dyn DiskFile>, Error> {
        if let Some((open, file)) = &self.file
            && *open == number
        {
            return Ok(Arc::clone(file));
        }
        let file = self.shared.file(number)?;
        let Some(file) = file else {
            unreachable!("room was checked: segment {number} is prepared");
        };
        self.file = Some((number, Arc::clone(&file)));
        Ok(file)
    }

    fn sync(&mut self) -> Result<(), Error> {
        assert!(self.gathered.is_empty(), "what is synced is written");
        while let Some(number) = self.dirty.pop_first() {
            let file = self.file(number)?;
            let synced = file.sync_data();
            let synced = if active(Mutant::FailedSyncRetried) { synced.or_else(|_| file.sync_data()) } else { synced };
            synced.map_err(|source| self.failure("sync", number, source))?;
        }
        self.lazy_due = None;
        self.progress.synced_end = self.progress.written_end;
        self.progress.committed = self.progress.written;
        self.progress.committed_end = self.progress.written_end;
        self.publish();
        if self.durability == Durability::Os {
            self.shared.notify_chores(); // trimmed segments may have waited for it
        }
        Ok(())
    }

    /// Writes an empty record behind the last batch that proves all before it synced. The next batch
    /// is written over it: its place was promised already.
    fn move_watermark(&mut self) -> Result<(), Error> {
        self.idle_due = None;
        if !self.dirty.is_empty() {
            self.sync()?;
        }
        let at = self.shared.geometry.seat(self.progress.written_end);
        if !self.shared.is_prepared(at) {
            return Ok(());
        }
        self.append_bare(Kind::Watermark, at, 0)?;
        self.write_gathered()?;
        while let Some(number) = self.dirty.pop_first() {
            let file = self.file(number)?;
            file.sync_data().map_err(|source| self.failure("sync", number, source))?;
        }
        Ok(())
    }

    fn publish(&self) {
        self.shared.set_progress(self.progress);
        self.shared.wake();
    }

    fn failure(&self, action: &'static str, number: u64, source: std::io::Error) -> Error {
        Error::io(action, &self.shared.disk.path(&segment_name(number)), source)
    }
}

fn u32_of(count: usize) -> u32 {
    assert!(count <= u32::MAX as usize, "a part is much smaller");
    count as u32
}
