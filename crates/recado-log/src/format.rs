//! The bytes on disk: the header of a segment file and the header of a record.
//!
//! How to change them: [`FORMAT`] counts versions of everything in this file and of what stands
//! behind the headers. In every version the first 256 bytes of a segment start with the magic and the
//! version and end with the CRC, so that an older program can say "newer format" and mean it. A new
//! version gets a new number, readers keep the old decoders, and only new segments are written in it;
//! no field ever changes its meaning under an old number.
//!
//! Numbers are little-endian. CRCs are CRC32C.

/// Newest format version this crate reads and the one it writes.
pub(crate) const FORMAT: u32 = 1;
/// The header of a segment has its own sector, so writing a record never tears it.
pub(crate) const SEGMENT_HEADER_BYTES: u64 = 512;
/// Header of a record; a multiple of [`ALIGN`].
pub(crate) const RECORD_HEADER_BYTES: usize = 72;
/// Records start at multiples of this, so a search for records is cheap.
pub(crate) const ALIGN: u64 = 8;

const SEGMENT_MAGIC: [u8; 8] = *b"RECADOLG";
const START_MAGIC: [u8; 8] = *b"RECSTART";
const RECORD_MAGIC: [u8; 4] = *b"RcdR";

/// First bytes of a segment file; the start mark follows.
///
/// `0 magic[8] | 8 version u32 | 12 zero u32 | 16 number u64 | 24 segment bytes u64 | 32 zero | 252 crc u32`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) number: u64,
    pub(crate) segment_bytes: u64,
}

/// Why a segment header does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentFault {
    Damaged,
    Newer(u32),
}

impl SegmentHeader {
    /// How much of the first sector it takes.
    pub(crate) const BYTES: usize = 256;

    /// The first sector of a segment without a start mark.
    pub(crate) fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES as usize] {
        let mut bytes = [0; SEGMENT_HEADER_BYTES as usize];
        bytes[0..8].copy_from_slice(&SEGMENT_MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.number.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.segment_bytes.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..252]);
        bytes[252..256].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; SEGMENT_HEADER_BYTES as usize]) -> Result<SegmentHeader, SegmentFault> {
        if bytes[0..8] != SEGMENT_MAGIC || u32_at(bytes, 252) != crc32c::crc32c(&bytes[..252]) {
            return Err(SegmentFault::Damaged);
        }
        match u32_at(bytes, 8) {
            FORMAT => Ok(SegmentHeader { number: u64_at(bytes, 16), segment_bytes: u64_at(bytes, 24) }),
            newer => Err(SegmentFault::Newer(newer)),
        }
    }
}

/// Says that the log starts with this segment, because everything before it was trimmed. It is written into
/// a segment in use, so it has a CRC of its own: when it is torn, nothing else is.
///
/// `256 magic[8] | 264 number u64 | 272 crc u32 | 276 zero`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StartMark {
    Absent,
    Present,
    Damaged,
}

impl StartMark {
    /// Where it stands in a segment.
    pub(crate) const OFFSET: u64 = SegmentHeader::BYTES as u64;
    const BYTES: usize = 20;

    pub(crate) fn encode(number: u64) -> [u8; StartMark::BYTES] {
        let mut bytes = [0; StartMark::BYTES];
        bytes[0..8].copy_from_slice(&START_MAGIC);
        bytes[8..16].copy_from_slice(&number.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..16]);
        bytes[16..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The mark in the first sector of the segment `number`.
    pub(crate) fn decode(sector: &[u8; SEGMENT_HEADER_BYTES as usize], number: u64) -> StartMark {
        let bytes = &sector[SegmentHeader::BYTES..][..StartMark::BYTES];
        if bytes == StartMark::encode(number) {
            StartMark::Present
        } else if bytes.iter().all(|byte| *byte == 0) {
            StartMark::Absent
        } else {
            StartMark::Damaged
        }
    }
}

/// What a record is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A part of a batch.
    Data = 1,
    /// Starts an epoch; written at every open.
    Fence = 2,
    /// Carries nothing but its watermark.
    Watermark = 3,
}

/// Header of a record; head, tail and padding to [`ALIGN`] follow.
///
/// `0 magic[4] | 4 length u32 | 8 position u64 | 16 link u64 | 24 epoch u64 | 32 watermark u64 |
/// 40 part u32 | 44 parts u32 | 48 head bytes u32 | 52 tail bytes u32 | 56 head crc u32 |
/// 60 tail crc u32 | 64 kind u8 | 65 zero[3] | 68 crc u32`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    /// Where the record stands. A copy that stands anywhere else is not a record.
    pub(crate) position: u64,
    /// Of a data record the position of its batch's first part, of a fence the epoch it ends.
    pub(crate) link: u64,
    /// Epoch of the writer. Its low half is random, so that bytes written before cannot pretend it.
    pub(crate) epoch: u64,
    /// Every byte below this position was synced when the record was written.
    pub(crate) watermark: u64,
    /// This is part `part` (from 0) of `parts`.
    pub(crate) part: u32,
    pub(crate) parts: u32,
    pub(crate) head_bytes: u32,
    pub(crate) tail_bytes: u32,
    pub(crate) head_crc: u32,
    pub(crate) tail_crc: u32,
}

/// What stands where a record was looked for, if not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Zeros.
    Blank,
    /// Bytes of something else: of an earlier use of the file, or of a record whose start was lost.
    Foreign,
    /// The header of a record for this very place, damaged.
    Torn,
}

impl Header {
    pub(crate) fn encode(&self) -> [u8; RECORD_HEADER_BYTES] {
        let mut bytes = [0; RECORD_HEADER_BYTES];
        bytes[0..4].copy_from_slice(&RECORD_MAGIC);
        bytes[4..8].copy_from_slice(&self.length().to_le_bytes());
        bytes[8..16].copy_from_slice(&self.position.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.link.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.epoch.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.watermark.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.part.to_le_bytes());
        bytes[44..48].copy_from_slice(&self.parts.to_le_bytes());
        bytes[48..52].copy_from_slice(&self.head_bytes.to_le_bytes());
        bytes[52..56].copy_from_slice(&self.tail_bytes.to_le_bytes());
        bytes[56..60].copy_from_slice(&self.head_crc.to_le_bytes());
        bytes[60..64].copy_from_slice(&self.tail_crc.to_le_bytes());
        bytes[64] = self.kind as u8;
        let crc = crc32c::crc32c(&bytes[..68]);
        bytes[68..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The record that stands at `position`, whose first bytes are `bytes`. Its head and tail are not
    /// looked at, and whether its epoch counts is for the caller to say.
    pub(crate) fn decode(bytes: &[u8], position: u64) -> Result<Header, Fault> {
        assert!(bytes.len() >= RECORD_HEADER_BYTES, "a header is read whole");
        let bytes = &bytes[..RECORD_HEADER_BYTES];
        if bytes[0..4] != RECORD_MAGIC || u64_at(bytes, 8) != position {
            let blank = bytes.iter().all(|byte| *byte == 0);
            return Err(if blank { Fault::Blank } else { Fault::Foreign });
        }
        if u32_at(bytes, 68) != crc32c::crc32c(&bytes[..68]) {
            return Err(Fault::Torn);
        }
        let kind = match bytes[64] {
            1 => Kind::Data,
            2 => Kind::Fence,
            3 => Kind::Watermark,
            _ => return Err(Fault::Torn),
        };
        let header = Header {
            kind,
            position,
            link: u64_at(bytes, 16),
            epoch: u64_at(bytes, 24),
            watermark: u64_at(bytes, 32),
            part: u32_at(bytes, 40),
            parts: u32_at(bytes, 44),
            head_bytes: u32_at(bytes, 48),
            tail_bytes: u32_at(bytes, 52),
            head_crc: u32_at(bytes, 56),
            tail_crc: u32_at(bytes, 60),
        };
        let sound = u64::from(u32_at(bytes, 4))
            == RECORD_HEADER_BYTES as u64 + u64::from(header.head_bytes) + u64::from(header.tail_bytes)
            && header.watermark <= position
            && header.part < header.parts;
        if sound { Ok(header) } else { Err(Fault::Torn) }
    }

    /// True when a record might start with these bytes: the cheap test of a search.
    pub(crate) fn may_start_with(bytes: &[u8]) -> bool {
        bytes.starts_with(&RECORD_MAGIC)
    }

    /// Header, head and tail, in bytes.
    fn length(&self) -> u32 {
        RECORD_HEADER_BYTES as u32 + self.head_bytes + self.tail_bytes
    }

    /// Where the head starts.
    pub(crate) fn head_at(&self) -> u64 {
        self.position + RECORD_HEADER_BYTES as u64
    }

    /// Where the tail starts.
    pub(crate) fn tail_at(&self) -> u64 {
        self.head_at() + u64::from(self.head_bytes)
    }

    /// Where the record ends, padding included.
    pub(crate) fn end(&self) -> u64 {
        (self.tail_at() + u64::from(self.tail_bytes)).next_multiple_of(ALIGN)
    }

    /// True for the last part of a batch, and for records that are no batch.
    pub(crate) fn is_last(&self) -> bool {
        self.part + 1 == self.parts
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            kind: Kind::Data,
            position: 4096,
            link: 2048,
            epoch: 7 << 32 | 9,
            watermark: 4000,
            part: 1,
            parts: 3,
            head_bytes: 10,
            tail_bytes: 21,
            head_crc: 1,
            tail_crc: 2,
        }
    }

    #[test]
    fn record_header_comes_back_only_at_its_position() {
        let bytes = header().encode();
        assert_eq!(Header::decode(&bytes, 4096), Ok(header()));
        assert_eq!(Header::decode(&bytes, 8192), Err(Fault::Foreign));
        assert_eq!(Header::decode(&[0; RECORD_HEADER_BYTES], 4096), Err(Fault::Blank));
        assert_eq!(header().end(), 4096 + 104);
    }

    #[test]
    fn no_flipped_bit_of_a_record_header_passes() {
        for bit in 0..RECORD_HEADER_BYTES * 8 {
            let mut bytes = header().encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::decode(&bytes, 4096).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn segment_header_comes_back_and_no_flipped_bit_passes() {
        let header = SegmentHeader { number: 3, segment_bytes: 65_536 };
        let good = header.encode();
        assert_eq!(SegmentHeader::decode(&good), Ok(header));
        for bit in 0..SegmentHeader::BYTES * 8 {
            let mut bytes = good;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(SegmentHeader::decode(&bytes), Err(SegmentFault::Damaged), "bit {bit}");
        }
    }

    #[test]
    fn a_torn_or_flipped_start_mark_does_not_pass_and_leaves_the_header_alone() {
        let header = SegmentHeader { number: 3, segment_bytes: 65_536 };
        let at = SegmentHeader::BYTES;
        let with = |mark: &[u8]| {
            let mut sector = header.encode();
            sector[at..at + mark.len()].copy_from_slice(mark);
            assert_eq!(SegmentHeader::decode(&sector), Ok(header));
            StartMark::decode(&sector, 3)
        };
        assert_eq!(with(&[]), StartMark::Absent);
        assert_eq!(with(&StartMark::encode(3)), StartMark::Present);
        assert_eq!(with(&StartMark::encode(2)), StartMark::Damaged, "of an earlier use of the file");
        for written in 1..StartMark::BYTES {
            assert_eq!(with(&StartMark::encode(3)[..written]), StartMark::Damaged, "{written} bytes");
        }
        for bit in 0..StartMark::BYTES * 8 {
            let mut mark = StartMark::encode(3);
            mark[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(with(&mark), StartMark::Damaged, "bit {bit}");
        }
    }

    #[test]
    fn a_newer_segment_is_told_from_a_damaged_one() {
        let mut bytes = SegmentHeader { number: 3, segment_bytes: 65_536 }.encode();
        bytes[8] = 2;
        let crc = crc32c::crc32c(&bytes[..252]);
        bytes[252..256].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(SegmentHeader::decode(&bytes), Err(SegmentFault::Newer(2)));
    }

    /// Format 1, byte by byte: if this test fails, every log out there has become unreadable.
    #[test]
    fn format_1_stays_as_it_is() {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let record = [
            "52636452670000000010000000000000",
            "00080000000000000900000007000000",
            "a00f0000000000000100000003000000",
            "0a000000150000000100000002000000",
            "01000000eae8ca61",
        ];
        assert_eq!(hex(&header().encode()), record.concat());
        let segment = SegmentHeader { number: 3, segment_bytes: 65_536 }.encode();
        assert_eq!(
            hex(&segment[..32]),
            "5245434144 4f4c47 01000000 00000000 0300000000000000 0000010000000000".replace(' ', "")
        );
        assert!(segment[32..252].iter().chain(&segment[256..]).all(|byte| *byte == 0));
        assert_eq!(hex(&segment[252..256]), "4e6803db");
        assert_eq!(hex(&StartMark::encode(3)), "52454353544152540300000000000000c031c1b7");
    }
}
