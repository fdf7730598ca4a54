//! Reads a file log beside its writer, from any thread.
//!
//! Only what is written is read, so every record met was either proven by the recovery or written by
//! this process; what is read is still checked, because disks decay. Bytes below the written end never
//! change while their segment is there. A segment can be freed and used again during a read: then the
//! bytes do not check, and the answer is `Trimmed`, not `Corrupt`.

use std::path::Path;
use std::sync::{Arc, Mutex};

use bytes::{Bytes, BytesMut};

use crate::backup::{self, Backup};
use crate::disk::read_exact_at;
use crate::error::Error;
use crate::format::{Fault, Header, Kind, RECORD_HEADER_BYTES};
use crate::segments::segment_name;
use crate::shared::{Shared, lock};
use crate::{Batch, Entry, Pin, Place, Position, Reader};

/// Sequential reads fetch this much at once.
const AHEAD_BYTES: u64 = 128 << 10;

/// The reader of a [`crate::FileLog`].
pub struct FileReader {
    shared: Arc<Shared>,
    /// The stretch read last, for who follows the log; never waited for.
    ahead: Mutex<Stretch>,
    /// The tail fetched last: places of one batch are often fetched together.
    tail: Mutex<Stretch>,
}

/// Bytes of the log, which never change once they are written.
#[derive(Default)]
struct Stretch {
    position: u64,
    bytes: Bytes,
}

impl Stretch {
    fn get(&self, position: u64, count: u64) -> Option<&[u8]> {
        let from = usize::try_from(position.checked_sub(self.position)?).ok()?;
        self.bytes.get(from..from.checked_add(usize::try_from(count).ok()?)?)
    }
}

/// What follows a batch's part.
enum Next {
    Part(Header),
    /// A fence: the batch counts for nothing.
    Void(u64),
}

impl FileReader {
    pub(crate) fn new(shared: Arc<Shared>) -> FileReader {
        FileReader { shared, ahead: Mutex::default(), tail: Mutex::default() }
    }

    /// Copies the log, from its first position to what is committed now, into the empty directory
    /// `to`, which can then be opened as a log. Nothing is trimmed meanwhile.
    ///
    /// # Errors
    /// [`Error::NotEmpty`], [`Error::Corrupt`] when the log to be copied is damaged, [`Error::Io`].
    pub fn backup_to(&self, to: &dyn crate::Disk) -> Result<Backup, Error> {
        self.shared.alive()?;
        let progress = self.shared.progress();
        let pin = self.pin_first()?;
        let first = self.shared.geometry.segment(pin.position().0);
        backup::copy(&self.shared, first, progress, to)
    }

    fn pin_first(&self) -> Result<Pin, Error> {
        loop {
            match self.pin(self.shared.first()) {
                Err(Error::Trimmed { .. }) => {} // trimmed meanwhile, which moves `first`
                pin => return pin,
            }
        }
    }

    /// Reads `count` bytes within one segment.
    fn fetch(&self, position: u64, count: u64) -> Result<Bytes, Error> {
        let mut bytes = BytesMut::zeroed(usize::try_from(count).unwrap_or(usize::MAX));
        let number = self.shared.geometry.segment(position);
        let Some(file) = self.shared.file(number)? else {
            return Err(self.trimmed());
        };
        let read = read_exact_at(&*file, &mut bytes, self.shared.geometry.offset(position))
            .map_err(|source| Error::io("read", &self.shared.disk.path(&segment_name(number)), source));
        if read.as_ref().is_err_and(Error::is_damage) {
            self.shared.note_damage(number);
        }
        read.map(|()| bytes.freeze())
    }

    /// As `fetch`, but from what was read ahead where that is possible. `limit` ends what is written.
    fn fetch_ahead(&self, position: u64, count: u64, limit: u64) -> Result<Bytes, Error> {
        let Ok(mut ahead) = self.ahead.try_lock() else {
            return self.fetch(position, count);
        };
        if let Some(bytes) = ahead.get(position, count) {
            return Ok(Bytes::copy_from_slice(bytes));
        }
        if count >= AHEAD_BYTES {
            return self.fetch(position, count);
        }
        let segment_end = self.shared.geometry.base(self.shared.geometry.segment(position) + 1);
        let end = segment_end.min(limit).min(position + AHEAD_BYTES).max(position + count);
        let bytes = self.fetch(position, end - position)?;
        *ahead = Stretch { position, bytes };
        Ok(Bytes::copy_from_slice(&ahead.bytes[..usize::try_from(count).unwrap_or(usize::MAX)]))
    }

    /// The header of the record at `at`, which is below `limit`.
    fn header(&self, at: u64, limit: u64, ahead: bool) -> Result<Header, Error> {
        self.look(at, limit, ahead)?.map_err(|fault| self.damaged(at, fault))
    }

    /// The header at `at`, or what is there instead.
    fn look(&self, at: u64, limit: u64, ahead: bool) -> Result<Result<Header, &'static str>, Error> {
        let count = RECORD_HEADER_BYTES as u64;
        let bytes = if ahead { self.fetch_ahead(at, count, limit) } else { self.fetch(at, count) }?;
        Ok(match Header::decode(&bytes, at) {
            Ok(header) if header.end() <= limit => Ok(header),
            Ok(_) | Err(Fault::Torn) => Err("record header is damaged"),
            Err(Fault::Blank) => Err("record is missing (zeros)"),
            Err(Fault::Foreign) => Err("record is unreadable"),
        })
    }

    fn proven(&self, header: &Header, bytes: &[u8], crc: u32, what: &'static str) -> Result<(), Error> {
        if crc32c::crc32c(bytes) == crc { Ok(()) } else { Err(self.damaged(header.position, what)) }
    }

    /// The error for bytes that do not check, unless they were freed under us.
    fn damaged(&self, at: u64, what: &'static str) -> Error {
        let number = self.shared.geometry.segment(at);
        if !self.shared.note_damage(number) {
            return self.trimmed();
        }
        Error::Corrupt {
            file: self.shared.disk.path(&segment_name(number)),
            offset: self.shared.geometry.offset(at),
            position: Position(at),
            what,
        }
    }

    fn trimmed(&self) -> Error {
        Error::Trimmed { first: self.shared.first() }
    }

    /// The first record at or after `from`. Callers ask for places the log named, so the record is
    /// nearly always right there; for any other place the segment is walked.
    fn locate(&self, from: u64, limit: u64) -> Result<u64, Error> {
        let geometry = self.shared.geometry;
        let seat = geometry.seat(from);
        if seat >= limit || self.look(seat, limit, true)?.is_ok() {
            return Ok(seat);
        }
        let mut at = geometry.start(geometry.segment(seat));
        while at < seat {
            at = geometry.seat(self.header(at, limit, true)?.end());
        }
        Ok(at)
    }

    /// The header of the part after `part`, of the same batch.
    fn next_part(&self, part: &Header, limit: u64, ahead: bool) -> Result<Next, Error> {
        let at = self.shared.geometry.seat(part.end());
        if at >= limit {
            return Ok(Next::Void(at));
        }
        let next = self.header(at, limit, ahead)?;
        if next.kind == Kind::Fence {
            return Ok(Next::Void(at));
        }
        let follows = next.kind == Kind::Data
            && next.link == part.link
            && next.part == part.part + 1
            && next.parts == part.parts
            && next.epoch == part.epoch;
        if follows { Ok(Next::Part(next)) } else { Err(self.damaged(at, "record is of another batch")) }
    }

    /// The batch whose first part is `part`; where to go on if a fence voids it.
    fn assemble(&self, part: Header, limit: u64, with_tail: bool) -> Result<Result<Entry, u64>, Error> {
        let position = Position(part.position);
        let (mut heads, mut tails) = (Vec::new(), Vec::new());
        let mut part = part;
        loop {
            if part.head_bytes > 0 {
                let head = self.fetch_ahead(part.head_at(), part.head_bytes.into(), limit)?;
                self.proven(&part, &head, part.head_crc, "record head is damaged")?;
                heads.push(head);
            }
            if with_tail && part.tail_bytes > 0 {
                let tail = self.fetch_ahead(part.tail_at(), part.tail_bytes.into(), limit)?;
                self.proven(&part, &tail, part.tail_crc, "record tail is damaged")?;
                tails.push(tail);
            }
            if part.is_last() {
                break;
            }
            match self.next_part(&part, limit, true)? {
                Next::Part(next) => part = next,
                Next::Void(at) => return Ok(Err(at)),
            }
        }
        let next = Position(self.shared.geometry.seat(part.end()));
        Ok(Ok(Entry { position, next, batch: Batch { head: joined(heads), tail: joined(tails) } }))
    }

    /// The proven tail of one part.
    fn tail(&self, part: &Header) -> Result<Bytes, Error> {
        {
            let kept = lock(&self.tail);
            if kept.position == part.tail_at() && kept.bytes.len() == part.tail_bytes as usize {
                return Ok(kept.bytes.clone());
            }
        }
        let bytes = self.fetch(part.tail_at(), part.tail_bytes.into())?;
        self.proven(part, &bytes, part.tail_crc, "record tail is damaged")?;
        *lock(&self.tail) = Stretch { position: part.tail_at(), bytes: bytes.clone() };
        Ok(bytes)
    }

    /// The tail bytes of a place, piece by piece.
    fn collect(&self, place: Place, limit: u64) -> Result<Bytes, Error> {
        let mut part = self.header(place.position.0, limit, false)?;
        if part.kind != Kind::Data || part.part != 0 {
            return Err(Error::NoSuchPlace { place });
        }
        let from = u64::from(place.offset);
        let until = from + u64::from(place.length);
        let mut collected = BytesMut::with_capacity(0);
        let mut start = 0; // of this part's tail within the whole tail
        loop {
            let end = start + u64::from(part.tail_bytes);
            if from < end && until > start {
                let tail = self.tail(&part)?;
                let piece = from.max(start) - start..until.min(end) - start;
                collected.extend_from_slice(&tail[piece.start as usize..piece.end as usize]);
            }
            if until <= end {
                return Ok(collected.freeze());
            }
            start = end;
            if part.is_last() {
                return Err(Error::NoSuchPlace { place });
            }
            match self.next_part(&part, limit, false)? {
                Next::Part(next) => part = next,
                Next::Void(_) => return Err(Error::NoSuchPlace { place }),
            }
        }
    }
}

fn joined(mut pieces: Vec<Bytes>) -> Bytes {
    match pieces.len() {
        0 => Bytes::new(),
        1 => pieces.swap_remove(0),
        _ => pieces.concat().into(),
    }
}

impl Reader for FileReader {
    fn read(&self, from: Position, with_tail: bool) -> Result<Option<Entry>, Error> {
        let geometry = self.shared.geometry;
        if from.0 < geometry.base(geometry.segment(self.shared.first_kept().0)) {
            return Err(self.trimmed());
        }
        let limit = self.shared.progress().written_end;
        let mut at = self.locate(from.0, limit)?;
        while at < limit {
            let header = self.header(at, limit, true)?;
            let is_first_part = header.kind == Kind::Data && header.part == 0;
            if !is_first_part {
                // A fence, a watermark, or the rest of a batch whose start was trimmed.
                at = geometry.seat(header.end());
                continue;
            }
            match self.assemble(header, limit, with_tail)? {
                Ok(entry) => return Ok(Some(entry)),
                Err(void_until) => at = void_until,
            }
        }
        Ok(None)
    }

    fn get(&self, place: Place) -> Result<Bytes, Error> {
        if place.length == 0 {
            return Ok(Bytes::new());
        }
        let geometry = self.shared.geometry;
        let limit = self.shared.progress().written_end;
        if place.position.0 < self.shared.first_kept().0 {
            return Err(self.trimmed());
        }
        if place.position.0 >= limit || geometry.seat(place.position.0) != place.position.0 {
            return Err(Error::NoSuchPlace { place });
        }
        self.collect(place, limit)
    }

    fn pin(&self, from: Position) -> Result<Pin, Error> {
        let number = self.shared.pin(from.0)?;
        let shared = Arc::clone(&self.shared);
        Ok(Pin::new(from, move || shared.unpin(number)))
    }

    fn bounds(&self) -> Result<(Position, Position), Error> {
        self.shared.alive()?;
        Ok((Position(self.shared.progress().committed), self.shared.first()))
    }

    fn backup(&self, to: &Path) -> Result<Backup, Error> {
        let disk = crate::RealDisk::new(to).map_err(|source| Error::io("create", to, source))?;
        self.backup_to(&disk)
    }
}
