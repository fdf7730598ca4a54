//! Where things go: positions to segments and offsets, and how a batch is cut into records.
//!
//! A position is a logical byte address: segment number times segment size plus offset. A record
//! never crosses the end of a segment. How a batch is laid out follows from its position and length
//! alone, so the position of the next batch is known before this one is written.

use crate::format::{ALIGN, RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES};

/// Largest head plus tail of one record; longer batches have several parts.
pub(crate) const PART_BYTES_MAX: usize = 1 << 20;
/// A record is not started with less room than this before the end of a segment.
const SEAT_BYTES_MIN: u64 = 128;
const HEADER: u64 = RECORD_HEADER_BYTES as u64;

/// Smallest segment.
pub(crate) const SEGMENT_BYTES_MIN: u64 = 64 << 10;
/// Largest segment.
pub(crate) const SEGMENT_BYTES_MAX: u64 = 1 << 30;
/// Segments are multiples of this.
pub(crate) const SEGMENT_BYTES_STEP: u64 = 4096;

/// The arithmetic of one segment size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub(crate) segment_bytes: u64,
}

/// How a batch lies: in how many records, and where the last one ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) parts: u32,
    pub(crate) end: u64,
}

impl Geometry {
    pub(crate) fn is_valid(segment_bytes: u64) -> bool {
        (SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&segment_bytes)
            && segment_bytes.is_multiple_of(SEGMENT_BYTES_STEP)
    }

    pub(crate) fn segment(&self, position: u64) -> u64 {
        position / self.segment_bytes
    }

    pub(crate) fn offset(&self, position: u64) -> u64 {
        position % self.segment_bytes
    }

    /// First byte of a segment, which is in its header.
    pub(crate) fn base(&self, segment: u64) -> u64 {
        segment * self.segment_bytes
    }

    /// Where the first record of a segment stands.
    pub(crate) fn start(&self, segment: u64) -> u64 {
        self.base(segment) + SEGMENT_HEADER_BYTES
    }

    /// The first place at or after `position` where a record may start.
    pub(crate) fn seat(&self, position: u64) -> u64 {
        let position = position.next_multiple_of(ALIGN);
        let segment = self.segment(position);
        if self.base(segment + 1) - position < SEAT_BYTES_MIN {
            return self.start(segment + 1);
        }
        position.max(self.start(segment))
    }

    /// Bytes of the rest of a batch that the record at `seat` takes.
    pub(crate) fn part_bytes(&self, seat: u64, rest: usize) -> usize {
        let room = self.base(self.segment(seat) + 1) - seat - HEADER;
        rest.min(PART_BYTES_MAX).min(usize::try_from(room).unwrap_or(usize::MAX))
    }

    /// Where a batch of `bytes` lies when it starts at `seat`.
    pub(crate) fn extent(&self, seat: u64, bytes: usize) -> Extent {
        let mut extent = Extent { parts: 0, end: seat };
        let mut rest = bytes;
        loop {
            let at = self.seat(extent.end);
            let part = self.part_bytes(at, rest);
            extent = Extent { parts: extent.parts + 1, end: (at + HEADER + part as u64).next_multiple_of(ALIGN) };
            rest -= part;
            if rest == 0 {
                return extent;
            }
        }
    }

    /// Bytes of the largest batch that starts at `seat` and ends at or before `limit`.
    pub(crate) fn room(&self, seat: u64, limit: u64) -> u64 {
        let full = HEADER + PART_BYTES_MAX as u64;
        let (mut at, mut room) = (seat, 0);
        while at < limit {
            let segment_end = self.base(self.segment(at) + 1);
            let free = segment_end.min(limit) - at;
            let rest = free % full;
            let fits = if limit < segment_end { rest >= HEADER } else { rest >= SEAT_BYTES_MIN };
            room += free / full * PART_BYTES_MAX as u64 + if fits { rest - HEADER } else { 0 };
            at = self.start(self.segment(at) + 1);
        }
        room
    }

    /// Bytes of the largest batch that one empty segment takes.
    pub(crate) fn room_in_segment(&self) -> u64 {
        self.room(self.start(0), self.base(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seat_is_never_in_a_header_nor_too_near_the_end() {
        let geometry = Geometry { segment_bytes: SEGMENT_BYTES_MIN };
        for position in (0..3 * SEGMENT_BYTES_MIN).step_by(3) {
            let seat = geometry.seat(position);
            assert!(seat >= position && seat.is_multiple_of(ALIGN));
            assert!(geometry.offset(seat) >= SEGMENT_HEADER_BYTES);
            assert!(SEGMENT_BYTES_MIN - geometry.offset(seat) >= SEAT_BYTES_MIN);
            assert_eq!(geometry.seat(seat), seat);
        }
    }

    #[test]
    fn room_is_exactly_what_fits() {
        for segment_bytes in [SEGMENT_BYTES_MIN, 4 << 20] {
            let geometry = Geometry { segment_bytes };
            for step in 0..500 {
                let seat = geometry.seat(step * 997 * (segment_bytes / SEGMENT_BYTES_MIN));
                for limit in [
                    geometry.base(geometry.segment(seat) + 1),
                    geometry.base(geometry.segment(seat) + 3),
                    geometry.base(geometry.segment(seat) + 3) - 8192,
                ] {
                    let room = geometry.room(seat, limit);
                    assert!(geometry.extent(seat, room as usize).end <= limit, "{seat} {limit} {room}");
                    assert!(geometry.extent(seat, room as usize + 1).end > limit, "{seat} {limit} {room}");
                }
            }
        }
    }

    #[test]
    fn parts_cover_the_batch() {
        let geometry = Geometry { segment_bytes: SEGMENT_BYTES_MIN };
        let extent = geometry.extent(geometry.seat(0), 200_000);
        assert_eq!(extent.parts, 4);
        assert_eq!(geometry.extent(512, 0), Extent { parts: 1, end: 512 + 72 });
    }
}
