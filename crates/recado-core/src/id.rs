//! Names that outlive a process: job ids, receipts, and keyed hashes of strings.

use alloc::string::String;
use core::fmt;
use core::hash::Hasher;

use minicbor::{Decode, Decoder, Encode, Encoder, decode, encode};
use recado_mutants::{Mutant, active};
use siphasher::sip128::{Hasher128, SipHasher13};

/// Number of the shard that made an id, 12 bits.
pub(crate) type ShardNumber = u16;

/// A job's id: a UUID of version 7 whose random part carries the shard (12 bits) and the sequence
/// number (48 bits) that the shard gave it. Opaque to everyone but the server.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(Rust, packed(8))] // The state is full of these: no room is lost to the alignment of a u128.
pub struct JobId(pub u128);

const SEQ_BITS: u32 = 48;
const NOISE_BITS: u32 = 14;

impl JobId {
    /// Builds the id of the job with sequence number `seq`, enqueued at `at`.
    #[must_use]
    pub fn new(at: u64, shard: ShardNumber, seq: u64, entropy: u64) -> Self {
        let time = u128::from(at & ((1 << 48) - 1)) << 80;
        let shard = u128::from(shard & 0x0fff) << 64;
        let rest =
            (u128::from(seq & ((1 << SEQ_BITS) - 1)) << NOISE_BITS) | u128::from(entropy & ((1 << NOISE_BITS) - 1));
        Self(time | (0x7 << 76) | shard | (0b10 << 62) | rest)
    }

    /// The sequence number inside: unique in its shard, growing.
    #[must_use]
    pub fn seq(self) -> u64 {
        ((self.0 >> NOISE_BITS) as u64) & ((1 << SEQ_BITS) - 1)
    }

    /// The shard that made it.
    #[must_use]
    pub fn shard(self) -> ShardNumber {
        ((self.0 >> 64) & 0x0fff) as u16
    }

    /// When the job was enqueued.
    #[must_use]
    pub fn enqueued_at(self) -> u64 {
        (self.0 >> 80) as u64
    }

    /// Reads `job_` + 32 lower-case hex digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix("job_")?;
        (!digits.bytes().any(|digit| digit.is_ascii_uppercase())).then_some(())?;
        let id = Self(u128::from_be_bytes(read_hex(digits.as_bytes())?));
        (id.0 >> 76 & 0xf == 7 && id.0 >> 62 & 0b11 == 0b10).then_some(id)
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = *b"job_00000000000000000000000000000000";
        write_hex(&self.0.to_be_bytes(), &mut text[4..]);
        f.pad(str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A keyed 128-bit hash that stands for a string in the state.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(Rust, packed(8))] // Like JobId.
pub struct Hash(pub u128);

/// The key of all hashes of one data directory, drawn once from the system's entropy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Encode, Decode)]
pub struct Secret(#[n(0)] pub u64, #[n(1)] pub u64);

impl Secret {
    /// Hashes `parts`, each with its length, under a domain that keeps uses apart.
    #[must_use]
    pub fn hash(self, domain: u8, number: u64, parts: &[&[u8]]) -> Hash {
        let mut hasher = SipHasher13::new_with_keys(self.0, self.1);
        hasher.write_u8(domain);
        hasher.write_u64(number);
        for part in parts {
            hasher.write_u64(part.len() as u64);
            hasher.write(part);
        }
        Hash(hasher.finish128().as_u128())
    }
}

/// The proof of one delivery. It carries a message authentication code, so a receipt of an earlier
/// delivery is told apart from a forged one without remembering it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Receipt {
    /// The job that was delivered.
    pub job: JobId,
    /// Number of its queue.
    pub queue: u32,
    /// The delivery's fencing token.
    pub fence: u64,
    /// When it was handed out.
    pub received_at: u64,
    /// 64 random bits.
    pub nonce: u64,
}

const RECEIPT_BYTES: usize = 16 + 4 + 8 + 8 + 8 + 8;
const RECEIPT_DOMAIN: u8 = b'r';

/// Two digits a byte.
fn write_hex(bytes: &[u8], digits: &mut [u8]) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    for (byte, pair) in bytes.iter().zip(digits.chunks_exact_mut(2)) {
        pair.copy_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
    }
}

/// Reads two digits a byte, upper-case ones too.
fn read_hex<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    (digits.len() == 2 * N).then_some(())?;
    let (mut bytes, mut all) = ([0; N], 0);
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let [high, low] = [0, 1].map(|index| DIGITS[usize::from(pair[index])]);
        all |= high | low;
        *byte = high << 4 | low & 15;
    }
    (all < 16).then_some(bytes)
}

/// What each byte is as a digit of a hexadecimal number; 255 is none.
const DIGITS: [u8; 256] = {
    let (mut digits, mut byte) = ([255; 256], 0);
    while byte < 256 {
        digits[byte] = match byte as u8 {
            digit @ b'0'..=b'9' => digit - b'0',
            digit @ b'a'..=b'f' => digit - b'a' + 10,
            digit @ b'A'..=b'F' => digit - b'A' + 10,
            _ => 255,
        };
        byte += 1;
    }
    digits
};

impl Receipt {
    fn bytes(self, secret: Secret) -> [u8; RECEIPT_BYTES] {
        let mut bytes = [0; RECEIPT_BYTES];
        bytes[..16].copy_from_slice(&self.job.0.to_be_bytes());
        bytes[16..20].copy_from_slice(&self.queue.to_be_bytes());
        bytes[20..28].copy_from_slice(&self.fence.to_be_bytes());
        bytes[28..36].copy_from_slice(&self.received_at.to_be_bytes());
        bytes[36..44].copy_from_slice(&self.nonce.to_be_bytes());
        let mac = secret.hash(RECEIPT_DOMAIN, 0, &[&bytes[..44]]).0 as u64;
        bytes[44..].copy_from_slice(&mac.to_be_bytes());
        bytes
    }

    /// The receipt as text: 104 hex digits.
    #[must_use]
    pub fn text(self, secret: Secret) -> String {
        let mut digits = [0; 2 * RECEIPT_BYTES];
        write_hex(&self.bytes(secret), &mut digits);
        str::from_utf8(&digits).unwrap_or_default().into()
    }

    /// Reads a receipt; `None` when this shard did not make it.
    #[must_use]
    pub fn parse(text: &str, secret: Secret) -> Option<Self> {
        let bytes: [u8; RECEIPT_BYTES] = read_hex(text.as_bytes())?;
        let word = |from: usize| bytes[from..from + 8].iter().fold(0u64, |n, b| n << 8 | u64::from(*b));
        let half = |from: usize| bytes[from..from + 4].iter().fold(0u32, |n, b| n << 8 | u32::from(*b));
        let receipt = Self {
            job: JobId(u128::from(word(0)) << 64 | u128::from(word(8))),
            queue: half(16),
            fence: word(20),
            received_at: word(28),
            nonce: word(36),
        };
        // Folding the difference looks at every byte: how much of a guess was right stays hidden.
        let differ = receipt.bytes(secret).iter().zip(&bytes).fold(0, |all, (a, b)| all | (a ^ b));
        (differ == 0 || active(Mutant::ReceiptUnchecked)).then_some(receipt)
    }
}

macro_rules! sixteen_bytes_on_the_wire {
    ($($type:ident),*) => {$(
        impl<C> Encode<C> for $type {
            fn encode<W: encode::Write>(&self, e: &mut Encoder<W>, _: &mut C) -> Result<(), encode::Error<W::Error>> {
                e.bytes(&self.0.to_be_bytes())?.ok()
            }
        }
        impl<'b, C> Decode<'b, C> for $type {
            fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<Self, decode::Error> {
                let bytes: [u8; 16] = d.bytes()?.try_into().map_err(|_| decode::Error::message("expected 16 bytes"))?;
                Ok(Self(u128::from_be_bytes(bytes)))
            }
        }
    )*};
}
sixteen_bytes_on_the_wire!(JobId, Hash);

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn an_id_carries_time_shard_and_sequence() {
        let id = JobId::new(1_780_000_000_123, 5, 77, u64::MAX);
        assert_eq!((id.enqueued_at(), id.shard(), id.seq()), (1_780_000_000_123, 5, 77));
        assert_eq!(JobId::parse(&id.to_string()), Some(id));
        assert_eq!(JobId(0x12_3456_789a_bcde_f0aa).to_string(), "job_00000000000000123456789abcdef0aa");
        assert_eq!(JobId::parse(&id.to_string().to_uppercase()), None);
        assert_eq!(JobId::parse("job_00000000000000000000000000000000"), None);
    }

    #[test]
    fn a_receipt_comes_back_and_any_flipped_digit_is_refused() {
        let secret = Secret(1, 2);
        let receipt = Receipt { job: JobId::new(1, 0, 2, 3), queue: 4, fence: 5, received_at: 6, nonce: 7 };
        let text = receipt.text(secret);
        assert_eq!(Receipt::parse(&text, secret), Some(receipt));
        assert_eq!(Receipt::parse(&text, Secret(1, 3)), None);
        for i in 0..text.len() {
            let mut forged = text.clone().into_bytes();
            forged[i] = if forged[i] == b'0' { b'1' } else { b'0' };
            let forged = String::from_utf8(forged).unwrap();
            assert_eq!(Receipt::parse(&forged, secret), None, "digit {i}");
        }
    }
}
