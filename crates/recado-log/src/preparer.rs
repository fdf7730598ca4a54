//! Keeps segments ready ahead of the tip and frees those that were trimmed.
//!
//! A plain object that is stepped, like the committer, and beside it: it never touches a segment that
//! holds a record of the log. This is the only place where disk space is claimed, so a full disk shows
//! here, is no failure, and is tried again; every other failure poisons the log.
//!
//! A segment gets its name only when its header is synced, and names change one at a time, each
//! durable before the next: so after a crash the segments are contiguous and each has its header. Before a
//! segment is freed the one behind it is marked, durably, as the start of the log.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::Step;
use crate::disk::{DiskFile, write_all_at, zero_at};
use crate::error::Error;
use crate::format::SegmentHeader;
use crate::segments::{PREPARING, damaged_name, free_name, mark_start, segment_name};
use crate::shared::{Shared, lock};

/// A full disk is tried again after this long, or at once when a segment is freed.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// One step fills this much, and syncs it: one large sync would hold up those of the committer.
const FILL_BYTES: u64 = 4 << 20;

struct Filling {
    file: Arc<dyn DiskFile>,
    at: u64,
}

pub(crate) struct Preparer {
    shared: Arc<Shared>,
    ahead: u64,
    spares_max: usize,
    /// Freed files, to be used again.
    spares: VecDeque<String>,
    filling: Option<Filling>,
    retry_at: Option<Duration>,
    /// Something failed that is final whatever the reason.
    has_failed: bool,
}

impl Preparer {
    pub(crate) fn new(shared: Arc<Shared>, ahead: u64, spares_max: usize, spares: Vec<String>) -> Preparer {
        Preparer { shared, ahead, spares_max, spares: spares.into(), filling: None, retry_at: None, has_failed: false }
    }

    /// Does one bounded piece of work.
    pub(crate) fn step(&mut self, now: Duration) -> Step {
        if self.shared.alive().is_err() || lock(&self.shared.chores).stopping {
            return Step::Ended;
        }
        self.try_step(now).unwrap_or_else(|error| {
            self.shared.poison(&error);
            Step::Ended
        })
    }

    /// As `step`, for an open, which fails where a running log is poisoned.
    pub(crate) fn try_step(&mut self, now: Duration) -> Result<Step, Error> {
        let done = self.run(now);
        if self.has_failed || !done.as_ref().is_err_and(Error::is_out_of_space) {
            return done;
        }
        self.retry_at = Some(now.saturating_add(RETRY_DELAY));
        self.give_back();
        self.shared.set_short(true);
        Ok(Step::Worked)
    }

    fn run(&mut self, now: Duration) -> Result<Step, Error> {
        if let Some(number) = self.shared.freeable() {
            self.free(number)?;
            self.retry_at = None;
            return Ok(Step::Worked);
        }
        let ready_until = self.shared.next_segment();
        // One segment for settles is among those that are always kept ahead.
        let ahead = self.ahead + self.shared.reserved_segments() - 1;
        let wanted = ready_until <= self.shared.geometry.segment(self.shared.tip()) + ahead;
        if !wanted {
            self.shared.set_short(false);
            self.retry_at = None;
            return self.drop_spares();
        }
        if let Some(at) = self.retry_at
            && now < at
        {
            return Ok(Step::Idle { until: Some(at) });
        }
        if let Some(spare) = self.spares.pop_front() {
            let done = self.reuse(&spare, ready_until);
            if done.is_err() {
                self.spares.push_front(spare);
            }
            done?;
        } else {
            self.fill(ready_until)?;
        }
        Ok(Step::Worked)
    }

    fn free(&mut self, number: u64) -> Result<(), Error> {
        self.mark_start(number + 1)?;
        let is_damaged = self.shared.is_damaged(number);
        let name = if is_damaged { damaged_name(number) } else { free_name(number) };
        self.shared.free(number, &name).map_err(|source| self.failure("free", &segment_name(number), source))?;
        if !is_damaged {
            self.spares.push_back(name);
        }
        self.sync_dir()?;
        self.shared.wake();
        Ok(())
    }

    /// The segment is in use: after a failed sync nobody knows which of its records are durable.
    fn mark_start(&mut self, number: u64) -> Result<(), Error> {
        let Some(file) = self.shared.file(number)? else {
            unreachable!("the last record stays, so a segment follows the one that is freed");
        };
        mark_start(&*file, number).map_err(|source| {
            self.has_failed = true;
            self.failure("mark the start of the log in", &segment_name(number), source)
        })
    }

    fn drop_spares(&mut self) -> Result<Step, Error> {
        if self.spares.len() <= self.spares_max {
            return Ok(Step::Idle { until: None });
        }
        if let Some(name) = self.spares.pop_back() {
            self.shared.disk.remove(&name).map_err(|source| self.failure("remove", &name, source))?;
        }
        Ok(Step::Worked)
    }

    fn reuse(&mut self, name: &str, number: u64) -> Result<(), Error> {
        let file = self.shared.disk.open(name).map_err(|source| self.failure("open", name, source))?;
        let size = file.size().map_err(|source| self.failure("measure", name, source))?;
        if size != self.shared.geometry.segment_bytes {
            return self.shared.disk.remove(name).map_err(|source| self.failure("remove", name, source));
        }
        self.finish(file, name, number)
    }

    fn fill(&mut self, number: u64) -> Result<(), Error> {
        let size = self.shared.geometry.segment_bytes;
        let mut filling = match self.filling.take() {
            Some(filling) => filling,
            None => {
                let file = self.shared.disk.create(PREPARING);
                Filling { file: file.map_err(|source| self.failure("create", PREPARING, source))?, at: 0 }
            }
        };
        let until = size.min(filling.at + FILL_BYTES);
        zero_at(&*filling.file, filling.at, until).map_err(|source| self.failure("fill", PREPARING, source))?;
        filling.file.sync_data().map_err(|source| self.failure("sync", PREPARING, source))?;
        filling.at = until;
        if until == size {
            return self.finish(filling.file, PREPARING, number);
        }
        self.filling = Some(filling);
        Ok(())
    }

    /// Makes a file of the right length the segment `number`.
    fn finish(&mut self, file: Arc<dyn DiskFile>, name: &str, number: u64) -> Result<(), Error> {
        let header = SegmentHeader { number, segment_bytes: self.shared.geometry.segment_bytes };
        write_all_at(&*file, &header.encode(), 0).map_err(|source| self.failure("write", name, source))?;
        file.sync_data().map_err(|source| self.failure("sync", name, source))?;
        let target = segment_name(number);
        self.shared.disk.rename(name, &target).map_err(|source| self.failure("rename", name, source))?;
        self.sync_dir()?;
        self.shared.add_prepared(number, file);
        Ok(())
    }

    /// Removes what a full disk left half made.
    fn give_back(&mut self) {
        self.filling = None;
        // It may not be there, and if it cannot be removed it is emptied by the next try.
        let _ = self.shared.disk.remove(PREPARING);
    }

    /// A failed sync of names is final, whatever the reason: which names are durable is unknown.
    fn sync_dir(&mut self) -> Result<(), Error> {
        self.shared.disk.sync_dir().map_err(|source| {
            self.has_failed = true;
            Error::io("sync", &self.shared.disk.path(""), source)
        })
    }

    fn failure(&self, action: &'static str, name: &str, source: std::io::Error) -> Error {
        Error::io(action, &self.shared.disk.path(name), source)
    }
}
