//! The files of a data directory: their names, and which of them are segments of the log.
//!
//! `<number>.log` is a segment, in use or prepared; its header was synced before it got the name. The log
//! starts with the last one that bears a start mark, which is synced before anything in front of it is
//! freed, or with number 0: so a file that somebody removed is never taken for one that was trimmed.
//! `<number>.free` is a trimmed one, kept to be used again. `prepare.tmp` is being made. `LOCK` is
//! locked by the process that has the directory. `*.cut` is what a repair cut away, `*.damaged` a trimmed
//! segment in which damage was met: these are for people. Nothing else is looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::Position;
use crate::disk::{Disk, DiskFile, read_exact_at, write_all_at};
use crate::error::{self, Error};
use crate::format::{FORMAT, SEGMENT_HEADER_BYTES, SegmentFault, SegmentHeader, StartMark};
use crate::geometry::Geometry;

pub(crate) const LOCK: &str = "LOCK";
pub(crate) const PREPARING: &str = "prepare.tmp";

pub(crate) fn segment_name(number: u64) -> String {
    format!("{number:016x}.log")
}

pub(crate) fn free_name(number: u64) -> String {
    format!("{number:016x}.free")
}

pub(crate) fn damaged_name(number: u64) -> String {
    format!("{number:016x}.log.damaged")
}

pub(crate) fn segment_number(name: &str) -> Option<u64> {
    number_of(name, ".log")
}

fn number_of(name: &str, suffix: &str) -> Option<u64> {
    let digits = name.strip_suffix(suffix)?;
    if digits.len() != 16 {
        return None;
    }
    u64::from_str_radix(digits, 16).ok()
}

/// Takes the lock of a data directory.
pub(crate) fn lock(disk: &dyn Disk) -> Result<Box<dyn std::any::Any + Send + Sync>, Error> {
    disk.lock(LOCK).map_err(|source| {
        let path = disk.path(LOCK);
        if source.kind() == std::io::ErrorKind::WouldBlock {
            Error::InUse { path }
        } else if error::is_read_only(&source) {
            Error::ReadOnly { path }
        } else {
            Error::io("lock", &path, source)
        }
    })
}

/// What is in a data directory. The segments are contiguous and of one size.
pub(crate) struct Segments {
    pub(crate) geometry: Geometry,
    pub(crate) numbers: BTreeSet<u64>,
    /// Names of files to use again or to remove.
    pub(crate) free: Vec<String>,
}

/// A segment that breaks the log.
pub(crate) struct Broken {
    pub(crate) number: u64,
    pub(crate) what: &'static str,
    pub(crate) cure: Cure,
}

/// What a repair can do about a broken segment before it looks at the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cure {
    /// Write its header anew: only that is known to be damaged.
    Header,
    /// Fill its file up from this length.
    Fill(u64),
    /// Let the log start with this segment: what stood before it is not there.
    Start(u64),
    /// End the log before it.
    Cut,
}

impl Segments {
    /// Reads the directory and changes nothing. `segment_bytes` is for an empty one.
    pub(crate) fn find(disk: &dyn Disk, segment_bytes: u64) -> Result<Segments, Error> {
        match Segments::find_with_faults(disk, segment_bytes)? {
            (segments, None) => Ok(segments),
            (segments, Some(broken)) => Err(Error::Corrupt {
                file: disk.path(&segment_name(broken.number)),
                offset: 0,
                position: Position(segments.geometry.base(broken.number)),
                what: broken.what,
            }),
        }
    }

    /// As [`Segments::find`], but with the first segment that breaks the log; it ends before that one,
    /// unless what is broken is its start.
    pub(crate) fn find_with_faults(disk: &dyn Disk, segment_bytes: u64) -> Result<(Segments, Option<Broken>), Error> {
        let names = disk.list().map_err(|source| Error::io("list", &disk.path(""), source))?;
        let mut found = BTreeMap::new();
        let mut free = Vec::new();
        let mut size = None;
        for name in names {
            if number_of(&name, ".free").is_some() {
                free.push(name);
                continue;
            }
            let Some(number) = segment_number(&name) else {
                continue;
            };
            let segment = read_header(disk, &name, number)?;
            if segment.header.is_some_and(|header| header.number != number) {
                free.push(name);
                continue;
            }
            if let Some(header) = segment.header {
                size.get_or_insert(header.segment_bytes);
            }
            found.insert(number, segment);
        }
        let size = size.or(found.first_key_value().map(|(_, first)| first.length));
        let size = size.filter(|size| Geometry::is_valid(*size)).unwrap_or(segment_bytes);
        if let Some(start) = found.iter().rfind(|(_, segment)| segment.start == StartMark::Present) {
            let live = found.split_off(&start.0.to_owned());
            free.extend(found.into_keys().map(segment_name));
            found = live;
        }
        let (numbers, broken) = Segments::contiguous(found, size);
        Ok((Segments { geometry: Geometry { segment_bytes: size }, numbers, free }, broken))
    }

    /// The segments from the first one on, up to one that breaks the log.
    fn contiguous(found: BTreeMap<u64, Found>, size: u64) -> (BTreeSet<u64>, Option<Broken>) {
        let broken_start = found.first_key_value().and_then(|(number, first)| broken_start(*number, first.start));
        let mut numbers = BTreeSet::new();
        for (number, found) in found {
            let expected = numbers.last().map_or(number, |last| last + 1);
            let (what, cure) = match found.header {
                _ if expected != number => ("segment file is missing", Cure::Cut),
                _ if found.length < size => ("segment file is too short", Cure::Fill(found.length)),
                _ if found.length > size => ("segment file is too long", Cure::Cut),
                None => ("segment header is damaged", Cure::Header),
                Some(header) if header.segment_bytes != size => ("segment has another size than the first", Cure::Cut),
                Some(_) => {
                    numbers.insert(number);
                    continue;
                }
            };
            return (numbers, broken_start.or(Some(Broken { number: expected, what, cure })));
        }
        (numbers, broken_start)
    }

    /// Gives files that are free, but have the name of a segment, a name of their own.
    pub(crate) fn set_strays_aside(&mut self, disk: &dyn Disk) -> Result<(), Error> {
        let first = self.first();
        if self.free.iter().filter_map(|name| segment_number(name)).any(|number| number < first) {
            // The mark that says so may stand only in the page cache.
            let failure = |source| Error::io("write", &disk.path(&segment_name(first)), source);
            mark_start(&*open_segment(disk, first)?, first).map_err(failure)?;
        }
        for index in 0..self.free.len() {
            let stray = self.free[index].clone();
            let Some(number) = segment_number(&stray) else {
                continue;
            };
            let names = (number..=u64::MAX).map(free_name);
            let Some(name) = names.into_iter().find(|name| !self.free.contains(name)) else {
                continue;
            };
            disk.rename(&stray, &name).map_err(|source| Error::io("rename", &disk.path(&stray), source))?;
            disk.sync_dir().map_err(|source| Error::io("sync", &disk.path(""), source))?;
            self.free[index] = name;
        }
        Ok(())
    }

    /// Number of the first segment, 0 in an empty directory.
    pub(crate) fn first(&self) -> u64 {
        self.numbers.first().copied().unwrap_or(0)
    }
}

/// Opens the file of a segment.
pub(crate) fn open_segment(disk: &dyn Disk, number: u64) -> Result<Arc<dyn DiskFile>, Error> {
    let name = segment_name(number);
    disk.open(&name).map_err(|source| Error::io("open", &disk.path(&name), source))
}

/// What is wrong when `first` is the lowest number that is there.
fn broken_start(first: u64, mark: StartMark) -> Option<Broken> {
    let before = first.checked_sub(1)?;
    let cure = Cure::Start(first);
    match mark {
        StartMark::Present => None,
        StartMark::Absent => Some(Broken { number: before, what: "segment file is missing", cure }),
        StartMark::Damaged => Some(Broken { number: first, what: "mark of the log's start is damaged", cure }),
    }
}

/// A file with the name of a segment.
struct Found {
    length: u64,
    /// None when it is damaged.
    header: Option<SegmentHeader>,
    start: StartMark,
}

fn read_header(disk: &dyn Disk, name: &str, number: u64) -> Result<Found, Error> {
    let path = disk.path(name);
    let file = disk.open(name).map_err(|source| Error::io("open", &path, source))?;
    let length = file.size().map_err(|source| Error::io("measure", &path, source))?;
    // Of a shorter file, what is there: a mark of the log's start can be all of it.
    let mut bytes = [0; SEGMENT_HEADER_BYTES as usize];
    let there = usize::try_from(length).unwrap_or(bytes.len()).min(bytes.len());
    read_exact_at(&*file, &mut bytes[..there], 0).map_err(|source| Error::io("read", &path, source))?;
    let header = match SegmentHeader::decode(&bytes) {
        Ok(header) => Some(header),
        Err(SegmentFault::Damaged) => None,
        Err(SegmentFault::Newer(found)) => return Err(Error::NewerFormat { path, found, known: FORMAT }),
    };
    Ok(Found { length, header, start: StartMark::decode(&bytes, number) })
}

/// Marks the segment as the one that the log starts with, durably.
pub(crate) fn mark_start(file: &dyn DiskFile, number: u64) -> std::io::Result<()> {
    write_all_at(file, &StartMark::encode(number), StartMark::OFFSET)?;
    file.sync_data()
}
