//! What an open does to a log before its first answer.
//!
//! First it is only read ([`Plan::make`]): a damaged log, or one of a newer version, is refused with
//! nothing touched. Then ([`Plan::carry_out`]) a torn tail is zeroed and everything behind the newest
//! watermark is written again in place and synced: after the death of a process it may stand only in
//! the page cache, and after a failed sync a second sync of the same pages would prove nothing.

use std::collections::BTreeSet;
use std::path::PathBuf;

use recado_mutants::{Mutant, active};

use crate::Position;
use crate::disk::{Disk, DiskFile, read_exact_at, write_all_at, zero_at};
use crate::error::Error;
use crate::format::RECORD_HEADER_BYTES;
use crate::geometry::Geometry;
use crate::segments::{Segments, open_segment, segment_name};
use crate::walk::{Behind, End, Walk, search};

/// What an open found and did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// Epoch of this writer. It grows at every open.
    pub epoch: u64,
    /// First position that is there.
    pub first: Position,
    /// Position of the next batch.
    pub tip: Position,
    /// The torn tail that was cut away, if there was one. It held nothing that was committed.
    pub cut: Option<Cut>,
    /// Whole batches in the log.
    pub batches: u64,
    /// Bytes that were written again because no watermark proved them durable.
    pub rewritten_bytes: u64,
}

/// A torn tail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The file it starts in.
    pub file: PathBuf,
    /// Where in the file it starts, in bytes.
    pub offset: u64,
    /// Its length, as far as anything could be recognised.
    pub bytes: u64,
}

/// What is wrong, where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bad {
    pub(crate) position: u64,
    pub(crate) end: End,
}

/// A log as it was found, and where it is to end.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Where the log ends: behind its last whole batch, fence or watermark.
    pub(crate) tip: u64,
    pub(crate) epoch: u64,
    pub(crate) watermark: u64,
    pub(crate) last: Option<u64>,
    pub(crate) batches: u64,
    /// End of the recognisable bytes behind the tip; equals `tip` when there are none.
    pub(crate) remains_end: u64,
    /// The record that ended the walk.
    pub(crate) bad: Bad,
    /// Records behind `bad` that stand where they say.
    pub(crate) behind: Behind,
    /// True when a record behind `bad` proves that `bad` was durable once.
    pub(crate) is_corrupt: bool,
}

impl Plan {
    /// Reads the log.
    pub(crate) fn make(disk: &dyn Disk, segments: &Segments) -> Result<Plan, Error> {
        let (walk, end) = walk_until(disk, segments, u64::MAX)?;
        let walked_end = walk.at;
        let behind = search(disk, segments, walked_end)?;
        let damaged = damaged_tail(disk, segments, walk.watermark, walked_end)?;
        let bad = damaged.unwrap_or(Bad { position: walked_end, end });
        let walk = if damaged.is_some() { walk_until(disk, segments, bad.position)?.0 } else { walk };
        let takes_more = active(Mutant::TornTailTakesOneMore) && bad.end.is_remains();
        let tip = walk.last.filter(|_| takes_more).unwrap_or(walk.whole_until());
        let mut remains_end = if bad.end.is_remains() { bad.position + RECORD_HEADER_BYTES as u64 } else { tip };
        if tip < walked_end {
            remains_end = remains_end.max(walked_end);
        }
        if let Some(end) = behind.ends.values().max() {
            remains_end = remains_end.max(*end);
        }
        Ok(Plan {
            tip,
            epoch: walk.epoch.unwrap_or(0),
            watermark: walk.watermark.max(segments.geometry.start(segments.first())),
            last: walk.last,
            batches: walk.batches,
            remains_end,
            bad,
            is_corrupt: behind.watermark > bad.position,
            behind,
        })
    }

    /// Refuses a log that has lost something it once had for sure.
    pub(crate) fn refuse_corrupt(&self, disk: &dyn Disk, geometry: Geometry) -> Result<(), Error> {
        if !self.is_corrupt {
            return Ok(());
        }
        Err(Error::Corrupt {
            file: disk.path(&segment_name(geometry.segment(self.bad.position))),
            offset: geometry.offset(self.bad.position),
            position: Position(self.bad.position),
            what: self.bad.end.what(),
        })
    }

    pub(crate) fn cut(&self, disk: &dyn Disk, geometry: Geometry) -> Option<Cut> {
        (self.remains_end > self.tip).then(|| Cut {
            file: disk.path(&segment_name(geometry.segment(self.tip))),
            offset: geometry.offset(self.tip),
            bytes: self.remains_end - self.tip,
        })
    }

    /// Zeroes what is cut, writes the unproven end of the log again, and makes both durable. The
    /// answer is the number of bytes written again.
    pub(crate) fn carry_out(&self, disk: &dyn Disk, segments: &Segments) -> Result<u64, Error> {
        let proven = if active(Mutant::UnprovenServed) { self.tip } else { self.watermark };
        let cut = pieces(segments, self.tip, self.remains_end);
        let unproven = pieces(segments, proven, self.tip);
        let numbers: BTreeSet<u64> = cut.iter().chain(&unproven).map(|(number, ..)| *number).collect();
        for number in numbers {
            let file = open_segment(disk, number)?;
            let failure = |action, source| Error::io(action, &disk.path(&segment_name(number)), source);
            for (_, from, to) in cut.iter().filter(|(piece, ..)| *piece == number) {
                zero_at(&*file, *from, *to).map_err(|source| failure("zero", source))?;
            }
            for (_, from, to) in unproven.iter().filter(|(piece, ..)| *piece == number) {
                rewrite(&*file, *from, *to).map_err(|source| failure("rewrite", source))?;
            }
            file.sync_data().map_err(|source| failure("sync", source))?;
        }
        // A prepared segment may owe its name, though never its header, to the page cache.
        disk.sync_dir().map_err(|source| Error::io("sync", &disk.path(""), source))?;
        Ok(unproven.iter().map(|(_, from, to)| to - from).sum())
    }
}

/// Walks to the end, or to `limit` when that comes first.
fn walk_until<'a>(disk: &'a dyn Disk, segments: &'a Segments, limit: u64) -> Result<(Walk<'a>, End), Error> {
    let mut walk = Walk::new(disk, segments, false);
    while walk.at < limit {
        if let Err(end) = walk.step()? {
            return Ok((walk, end));
        }
    }
    Ok((walk, End::Tail))
}

/// The first record with a damaged tail behind the watermark. Tails before it are proven to have been
/// durable, so their damage never cuts a log: who fetches them is told.
fn damaged_tail(disk: &dyn Disk, segments: &Segments, watermark: u64, end: u64) -> Result<Option<Bad>, Error> {
    let mut walk = Walk::new(disk, segments, true);
    walk.start_at(watermark);
    while walk.at < end {
        if let Err(end) = walk.step()? {
            return Ok(Some(Bad { position: walk.at, end }));
        }
    }
    Ok(None)
}

/// The range, cut at segment ends and without their headers, as (segment, from offset, to offset).
pub(crate) fn pieces(segments: &Segments, from: u64, to: u64) -> Vec<(u64, u64, u64)> {
    let geometry = segments.geometry;
    let mut pieces = Vec::new();
    for number in segments.numbers.range(geometry.segment(from)..).copied() {
        let (start, end) = (from.max(geometry.start(number)), to.min(geometry.base(number + 1)));
        if start < end {
            pieces.push((number, start - geometry.base(number), end - geometry.base(number)));
        }
    }
    pieces
}

fn rewrite(file: &dyn DiskFile, from: u64, to: u64) -> std::io::Result<()> {
    let mut bytes = vec![0; 1 << 20];
    let mut at = from;
    while at < to {
        let count = usize::try_from(to - at).unwrap_or(usize::MAX).min(bytes.len());
        read_exact_at(file, &mut bytes[..count], at)?;
        write_all_at(file, &bytes[..count], at)?;
        at += count as u64;
    }
    Ok(())
}

/// The next epoch: a counter in the high half, so that it grows, and random bits in the low half, so
/// that no bytes written before can pretend it.
pub(crate) fn epoch_after(epoch: u64, disk: &dyn Disk) -> u64 {
    let count = (epoch >> 32) + 1;
    assert!(count < 1 << 32, "a log is opened fewer than four billion times");
    count << 32 | (disk.entropy() & 0xffff_ffff)
}
