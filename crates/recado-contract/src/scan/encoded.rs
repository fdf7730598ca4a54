//! Base64 and URL-encoding, undone.

use std::borrow::Cow;
use std::ops::Range;

/// Fewer characters of Base64 hold no secret: a card has 15 digits.
pub(super) const BASE64_MIN: usize = 20;

/// Characters whose bytes are looked at before all are decoded: in most texts they are no text.
const PROBE: usize = 16;

/// The text without its URL-encoding; `None` when there is none.
pub(super) fn from_url(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    let mut is_encoded = false;
    while let Some(byte) = bytes.get(at) {
        let digits = || Some((hex(*bytes.get(at + 1)?)?, hex(*bytes.get(at + 2)?)?));
        match (byte, digits()) {
            (b'%', Some((high, low))) => {
                decoded.push(high << 4 | low);
                is_encoded = true;
                at += 3;
            }
            _ => {
                decoded.push(*byte);
                at += 1;
            }
        }
    }
    is_encoded.then(|| String::from_utf8_lossy(&decoded).into_owned())
}

fn hex(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

/// Each run of Base64, of either alphabet, that decodes to text.
pub(super) fn each_base64(text: &str, visit: &mut dyn FnMut(Range<usize>, &str)) {
    let bytes = text.as_bytes();
    let mut start = 0;
    while start < bytes.len() {
        let length = bytes[start..].iter().take_while(|byte| value(**byte).is_some()).count();
        if length >= BASE64_MIN {
            let run = &bytes[start..start + length];
            if is_text(&decode(&run[..PROBE]))
                && let Ok(decoded) = std::str::from_utf8(&decode(run)).map(Cow::Borrowed)
            {
                visit(start..start + length, &decoded);
            }
        }
        start += length + 1;
    }
}

pub(super) fn is_text(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| (0x20..0x7f).contains(byte) || byte.is_ascii_whitespace())
}

/// The bytes of a run without padding; a last lone character stands for none.
pub(super) fn decode(run: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(run.len() / 4 * 3 + 2);
    for part in run.chunks(4) {
        let mut bits = 0_u32;
        for (index, byte) in part.iter().enumerate() {
            bits |= u32::from(value(*byte).unwrap_or(0)) << (18 - 6 * index);
        }
        let [_, bytes @ ..] = bits.to_be_bytes();
        decoded.extend_from_slice(&bytes[..part.len().saturating_sub(1)]);
    }
    decoded
}

fn value(byte: u8) -> Option<u8> {
    Some(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' | b'-' => 62,
        b'/' | b'_' => 63,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_alphabets_with_and_without_padding() {
        for (encoded, plain) in [
            ("aGVsbG8sIHdvcmxkIQ", "hello, world!"),
            ("VGhlIHF1aWNrIGJyb3duIGZveA==", "The quick brown fox"),
            ("Pz8/Pj4+Pz8/Pj4+Pz8/Pj4+", "???>>>???>>>???>>>"),
            ("Pz8_Pj4-Pz8_Pj4-Pz8_Pj4-", "???>>>???>>>???>>>"),
        ] {
            let mut found = Vec::new();
            each_base64(&format!("x {encoded}"), &mut |_, decoded| found.push(decoded.to_owned()));
            let expected: &[&str] = if encoded.trim_end_matches('=').len() < BASE64_MIN { &[] } else { &[plain] };
            assert_eq!(found, expected, "{encoded}");
        }
    }

    #[test]
    fn url_encoding_is_undone_and_what_is_none_stays() {
        assert_eq!(from_url("a%20b%3Dc%zz%4").as_deref(), Some("a b=c%zz%4"));
        assert_eq!(from_url("100 % sure"), None);
    }
}
