//! Walks the records of a log from its first segment to its end, and looks behind the end.
//!
//! A record counts only if it stands where its position says and its epoch is that of the newest
//! fence before it; a fence counts if it names the epoch it ends. The first record that does not count
//! ends the log. Nothing is changed here, and what the end means is for the caller to say.

use std::collections::BTreeMap;
use std::sync::Arc;

use recado_mutants::{Mutant, active};

use crate::disk::{Disk, DiskFile, read_exact_at};
use crate::error::Error;
use crate::format::{ALIGN, Fault, Header, Kind, RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES};
use crate::geometry::Geometry;
use crate::segments::{Segments, open_segment, segment_name};

const WINDOW_BYTES: usize = 256 << 10;

/// Why the log ends where it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// There is no segment.
    NoSegment,
    /// Nothing was written here, or what was is not recognisable.
    Nothing(Fault),
    /// A record of an older epoch.
    Stale,
    /// A record whose header is damaged or does not fit in here.
    Header,
    /// A record whose head is damaged.
    Head,
    /// A record whose tail is damaged.
    Tail,
}

impl End {
    pub(crate) fn what(self) -> &'static str {
        match self {
            End::NoSegment => "segment file is missing",
            End::Nothing(Fault::Blank) => "record is missing (zeros)",
            End::Nothing(_) => "record is unreadable",
            End::Stale => "record is of an older epoch",
            End::Header => "record header is damaged",
            End::Head => "record head is damaged",
            End::Tail => "record tail is damaged",
        }
    }

    /// True when something of the log was here, as opposed to free space.
    pub(crate) fn is_remains(self) -> bool {
        matches!(self, End::Header | End::Head | End::Tail)
    }
}

/// One buffered stretch of one segment.
pub(crate) struct Window<'a> {
    disk: &'a dyn Disk,
    geometry: Geometry,
    segments: &'a Segments,
    file: Option<(u64, Arc<dyn DiskFile>)>,
    start: u64,
    bytes: Vec<u8>,
}

impl<'a> Window<'a> {
    pub(crate) fn new(disk: &'a dyn Disk, segments: &'a Segments) -> Window<'a> {
        Window { disk, geometry: segments.geometry, segments, file: None, start: 0, bytes: Vec::new() }
    }

    fn file(&mut self, number: u64) -> Result<Option<Arc<dyn DiskFile>>, Error> {
        if !self.segments.numbers.contains(&number) {
            return Ok(None);
        }
        if let Some((open, file)) = &self.file
            && *open == number
        {
            return Ok(Some(Arc::clone(file)));
        }
        let file = open_segment(self.disk, number)?;
        self.file = Some((number, Arc::clone(&file)));
        Ok(Some(file))
    }

    /// The bytes `position..position + count`, within one segment; `None` where there is no segment.
    pub(crate) fn get(&mut self, position: u64, count: usize) -> Result<Option<&[u8]>, Error> {
        let end = position + count as u64;
        if position < self.start || end > self.start + self.bytes.len() as u64 {
            let number = self.geometry.segment(position);
            let Some(file) = self.file(number)? else {
                return Ok(None);
            };
            let segment_end = self.geometry.base(number + 1);
            assert!(end <= segment_end, "a record stays within its segment");
            let ahead = (segment_end - position).min(count.max(WINDOW_BYTES) as u64);
            self.bytes.resize(usize::try_from(ahead).unwrap_or(count), 0);
            self.start = position;
            if let Err(source) = read_exact_at(&*file, &mut self.bytes, self.geometry.offset(position)) {
                self.bytes.clear();
                if active(Mutant::ReadErrorIsEnd) {
                    return Ok(None);
                }
                return Err(Error::io("read", &self.disk.path(&segment_name(number)), source));
            }
        }
        let from = usize::try_from(position - self.start).unwrap_or(usize::MAX);
        Ok(Some(&self.bytes[from..from + count]))
    }
}

/// A block of free space.
const ZEROS: [u8; 4096] = [0; 4096];

/// Where the walk stands.
pub(crate) struct Walk<'a> {
    window: Window<'a>,
    geometry: Geometry,
    /// Tails are looked at from this position on.
    tails_from: u64,
    /// Where the next record is looked for.
    pub(crate) at: u64,
    /// Epoch of the newest fence, or of the first record.
    pub(crate) epoch: Option<u64>,
    /// Newest watermark of all records.
    pub(crate) watermark: u64,
    /// The batch whose last part has not come yet: its position, and the header of its newest part.
    open: Option<Header>,
    /// Position of the last whole batch.
    pub(crate) last: Option<u64>,
    pub(crate) batches: u64,
    pub(crate) head_bytes: u64,
    pub(crate) tail_bytes: u64,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(disk: &'a dyn Disk, segments: &'a Segments, with_tails: bool) -> Walk<'a> {
        Walk {
            window: Window::new(disk, segments),
            geometry: segments.geometry,
            tails_from: if with_tails { 0 } else { u64::MAX },
            at: segments.geometry.start(segments.first()),
            epoch: None,
            watermark: 0,
            open: None,
            last: None,
            batches: 0,
            head_bytes: 0,
            tail_bytes: 0,
        }
    }

    /// Starts at a watermark, which stands between batches, if the log starts before it.
    pub(crate) fn start_at(&mut self, watermark: u64) {
        self.at = self.at.max(self.geometry.seat(watermark));
    }

    /// Leaves out the tails of records before `position`.
    pub(crate) fn skip_tails_until(&mut self, position: u64) {
        self.tails_from = position;
    }

    /// Where the batch starts whose last part has not come, or the place of the next record.
    pub(crate) fn whole_until(&self) -> u64 {
        self.open.map_or(self.at, |part| part.link)
    }

    /// The next record, or why there is none.
    pub(crate) fn step(&mut self) -> Result<Result<Header, End>, Error> {
        let Some(bytes) = self.window.get(self.at, RECORD_HEADER_BYTES)? else {
            return Ok(Err(End::NoSegment));
        };
        let header = match Header::decode(bytes, self.at) {
            Ok(header) => header,
            Err(Fault::Torn) => return Ok(Err(End::Header)),
            Err(fault) => return Ok(Err(End::Nothing(fault))),
        };
        if let Some(end) = self.refuse(&header) {
            return Ok(Err(end));
        }
        if !self.proves(header.head_at(), header.head_bytes, header.head_crc)? {
            return Ok(Err(End::Head));
        }
        if self.at >= self.tails_from && !self.proves(header.tail_at(), header.tail_bytes, header.tail_crc)? {
            return Ok(Err(End::Tail));
        }
        self.take(&header);
        Ok(Ok(header))
    }

    /// Why a sound header does not count here.
    fn refuse(&self, header: &Header) -> Option<End> {
        if header.end() > self.geometry.base(self.geometry.segment(self.at) + 1) {
            return Some(End::Header);
        }
        if header.kind == Kind::Fence {
            return self.epoch.filter(|epoch| *epoch != header.link || header.epoch <= *epoch).map(|_| End::Stale);
        }
        let is_stale = self.epoch.is_some_and(|epoch| epoch != header.epoch);
        if is_stale && !active(Mutant::StaleEpochAccepted) {
            return Some(End::Stale);
        }
        let follows = match (&self.open, header.kind) {
            (None, Kind::Data) => header.part == 0 || self.is_before_first_batch(),
            (Some(open), Kind::Data) => {
                header.link == open.link && header.parts == open.parts && header.part == open.part + 1
            }
            (open, _) => open.is_none(),
        };
        (!follows).then_some(End::Header)
    }

    /// A trimmed log may start with the last parts of a batch that is gone.
    fn is_before_first_batch(&self) -> bool {
        self.batches == 0
    }

    fn proves(&mut self, at: u64, count: u32, crc: u32) -> Result<bool, Error> {
        if count == 0 {
            return Ok(crc == 0);
        }
        let bytes = self.window.get(at, count as usize)?;
        Ok(bytes.is_some_and(|bytes| crc32c::crc32c(bytes) == crc))
    }

    fn take(&mut self, header: &Header) {
        self.epoch = Some(header.epoch);
        self.watermark = self.watermark.max(header.watermark);
        self.at = self.geometry.seat(header.end());
        self.head_bytes += u64::from(header.head_bytes);
        self.tail_bytes += u64::from(header.tail_bytes);
        match header.kind {
            Kind::Fence => self.open = None,
            Kind::Watermark => {}
            Kind::Data if self.open.is_none() && header.part > 0 => {}
            Kind::Data if header.is_last() => {
                self.open = None;
                self.last = Some(header.link);
                self.batches += 1;
            }
            Kind::Data => self.open = Some(*header),
        }
    }
}

/// Records behind the end of the walk that stand where they say: what is left of a torn tail, or the
/// proof that the end was durable once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Behind {
    /// Newest watermark among them.
    pub(crate) watermark: u64,
    /// How many there are.
    pub(crate) records: u64,
    /// Where the last of them ends, by segment.
    pub(crate) ends: BTreeMap<u64, u64>,
}

/// Looks at every aligned place from `from` on. Bytes of an earlier use of a file do not stand where
/// they say.
pub(crate) fn search(disk: &dyn Disk, segments: &Segments, from: u64) -> Result<Behind, Error> {
    let geometry = segments.geometry;
    let mut behind = Behind::default();
    let mut window = Window::new(disk, segments);
    for number in segments.numbers.range(geometry.segment(from)..).copied() {
        let mut at = from.max(geometry.base(number) + SEGMENT_HEADER_BYTES).next_multiple_of(ALIGN);
        let end = geometry.base(number + 1);
        while at + RECORD_HEADER_BYTES as u64 <= end {
            let count = usize::try_from(end - at).unwrap_or(usize::MAX).min(WINDOW_BYTES);
            let Some(bytes) = window.get(at, count)? else {
                break;
            };
            let mut offset = 0;
            while offset + RECORD_HEADER_BYTES <= count {
                let place = &bytes[offset..];
                if place.starts_with(&ZEROS) {
                    offset += ZEROS.len();
                    continue;
                }
                if Header::may_start_with(place)
                    && let Ok(header) = Header::decode(place, at + offset as u64)
                {
                    behind.records += 1;
                    behind.watermark = behind.watermark.max(header.watermark);
                    let last = behind.ends.entry(number).or_default();
                    *last = (*last).max(header.end().min(end));
                }
                offset += ALIGN as usize;
            }
            at += offset as u64;
        }
    }
    Ok(behind)
}
