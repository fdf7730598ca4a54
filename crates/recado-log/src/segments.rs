//! The files of a data directory: their names, and which of them are segments of the log.
//!
//! `<number>.log` is a segment, in use or prepared; its header was synced before it got the name.
//! `<number>.free` is a trimmed one, kept to be used again. `prepare.tmp` is being made. `LOCK` is
//! locked by the process that has the directory. `*.cut` is what a repair cut away. Nothing else is
//! looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::Position;
use crate::disk::{Disk, DiskFile, read_exact_at};
use crate::error::{self, Error};
use crate::format::{FORMAT, SEGMENT_HEADER_BYTES, SegmentFault, SegmentHeader};
use crate::geometry::Geometry;

pub(crate) const LOCK: &str = "LOCK";
pub(crate) const PREPARING: &str = "prepare.tmp";

pub(crate) fn segment_name(number: u64) -> String {
    format!("{number:016x}.log")
}

pub(crate) fn free_name(number: u64) -> String {
    format!("{number:016x}.free")
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
    /// Only its header is known to be damaged.
    pub(crate) is_header: bool,
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

    /// As [`Segments::find`], but stops before the first segment that breaks the log.
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
            let segment = read_header(disk, &name)?;
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
        let (numbers, broken) = Segments::contiguous(found, size);
        Ok((Segments { geometry: Geometry { segment_bytes: size }, numbers, free }, broken))
    }

    /// The segments from the first one on, up to one that breaks the log.
    fn contiguous(found: BTreeMap<u64, Found>, size: u64) -> (BTreeSet<u64>, Option<Broken>) {
        let mut numbers = BTreeSet::new();
        for (number, found) in found {
            let expected = numbers.last().map_or(number, |last| last + 1);
            let what = match found.header {
                _ if expected != number => "segment file is missing",
                None => "segment header is damaged",
                Some(header) if header.segment_bytes != size => "segment has another size than the first",
                Some(_) if found.length != size => "segment file has the wrong length",
                Some(_) => {
                    numbers.insert(number);
                    continue;
                }
            };
            let is_header = expected == number && found.header.is_none();
            return (numbers, Some(Broken { number: expected, what, is_header }));
        }
        (numbers, None)
    }

    /// Gives files that are free, but have the name of a segment, a name of their own.
    pub(crate) fn set_strays_aside(&mut self, disk: &dyn Disk) -> Result<(), Error> {
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

/// A file with the name of a segment.
struct Found {
    length: u64,
    /// None when it is damaged.
    header: Option<SegmentHeader>,
}

fn read_header(disk: &dyn Disk, name: &str) -> Result<Found, Error> {
    let path = disk.path(name);
    let file = disk.open(name).map_err(|source| Error::io("open", &path, source))?;
    let length = file.size().map_err(|source| Error::io("measure", &path, source))?;
    if length < SEGMENT_HEADER_BYTES {
        return Ok(Found { length, header: None });
    }
    let mut bytes = [0; SEGMENT_HEADER_BYTES as usize];
    read_exact_at(&*file, &mut bytes, 0).map_err(|source| Error::io("read", &path, source))?;
    match SegmentHeader::decode(&bytes) {
        Ok(header) => Ok(Found { length, header: Some(header) }),
        Err(SegmentFault::Damaged) => Ok(Found { length, header: None }),
        Err(SegmentFault::Newer(found)) => Err(Error::NewerFormat { path, found, known: FORMAT }),
    }
}
