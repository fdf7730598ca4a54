//! Copies a log, while it is in use, into a directory that can be opened as a log.
//!
//! Positions point into the log, so the copy keeps every record at its position: segments are copied
//! as they are, up to the end of what was committed when the backup began, and zeros follow. Then the
//! copy is checked like any log; a backup that was not proven to open is not reported as one. Payloads that
//! are damaged here are damaged there, and reported: they must not keep everything else from being saved.

use crate::Position;
use crate::check::{Damage, Verdict, check};
use crate::disk::{Disk, read_exact_at, write_all_at, zero_at};
use crate::error::Error;
use crate::format::{Header, Kind, SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::segments::{mark_start, segment_name};
use crate::shared::{Progress, Shared};

/// What a backup holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// First position in it.
    pub first: Position,
    /// Its last batch.
    pub last: Position,
    /// Batches in it.
    pub batches: u64,
    /// Bytes copied.
    pub bytes: u64,
    /// Payloads that are damaged in the log, and so in the copy: it opens, they cannot be read. At most 100.
    pub damaged_tails: Vec<Damage>,
}

/// Copies from segment `first`, which is pinned, to the committed end of `progress`.
pub(crate) fn copy(shared: &Shared, first: u64, progress: Progress, to: &dyn Disk) -> Result<Backup, Error> {
    let geometry = shared.geometry;
    let names = to.list().map_err(|source| Error::io("list", &to.path(""), source))?;
    if !names.is_empty() {
        return Err(Error::NotEmpty { path: to.path("") });
    }
    let seat = geometry.seat(progress.committed_end);
    let mut bytes = 0;
    for number in first..=geometry.segment(seat) {
        let until = progress.committed_end.clamp(geometry.start(number), geometry.base(number + 1));
        bytes += until - geometry.base(number);
        copy_segment(shared, number, until, seat, to)?;
    }
    if first > 0 {
        let name = segment_name(first);
        let start = to.open(&name).and_then(|file| mark_start(&*file, first));
        start.map_err(|source| Error::io("write", &to.path(&name), source))?;
    }
    to.sync_dir().map_err(|source| Error::io("sync", &to.path(""), source))?;
    let report = check(to)?;
    if let Verdict::Corrupt(bad) | Verdict::TornTail(bad) = &report.verdict {
        return Err(bad.error());
    }
    Ok(Backup {
        first: Position(geometry.start(first)),
        last: Position(progress.committed),
        batches: report.batches,
        bytes,
        damaged_tails: report.damaged_tails,
    })
}

/// Copies a segment up to the position `until`; the watermark at `seat` proves the copy.
fn copy_segment(shared: &Shared, number: u64, until: u64, seat: u64, to: &dyn Disk) -> Result<(), Error> {
    let geometry = shared.geometry;
    let name = segment_name(number);
    let target = to.create(&name).map_err(|source| Error::io("create", &to.path(&name), source))?;
    let write = |source| Error::io("write", &to.path(&name), source);
    let mut buffer = vec![0; 1 << 20];
    let end = until - geometry.base(number);
    let mut at = SEGMENT_HEADER_BYTES;
    if at < end {
        let Some(source) = shared.file(number)? else {
            return Err(Error::Trimmed { first: shared.first() });
        };
        while at < end {
            let count = usize::try_from(end - at).unwrap_or(usize::MAX).min(buffer.len());
            read_exact_at(&*source, &mut buffer[..count], at)
                .map_err(|source| Error::io("read", &shared.disk.path(&name), source))?;
            write_all_at(&*target, &buffer[..count], at).map_err(write)?;
            at += count as u64;
        }
    }
    zero_at(&*target, at, geometry.segment_bytes).map_err(write)?;
    if number == geometry.segment(seat) {
        let proof = Header {
            kind: Kind::Watermark,
            position: seat,
            link: 0,
            epoch: shared.epoch,
            watermark: seat,
            part: 0,
            parts: 1,
            head_bytes: 0,
            tail_bytes: 0,
            head_crc: 0,
            tail_crc: 0,
        };
        write_all_at(&*target, &proof.encode(), geometry.offset(seat)).map_err(write)?;
    }
    let header = SegmentHeader { number, segment_bytes: geometry.segment_bytes };
    write_all_at(&*target, &header.encode(), 0).map_err(write)?;
    target.sync_data().map_err(|source| Error::io("sync", &to.path(&name), source))
}
