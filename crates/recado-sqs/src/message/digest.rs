//! Digests that clients check.

use md5::{Digest, Md5};

use super::{AttributeValue, MessageAttribute, MessageAttributes};

/// Of a body.
pub fn md5_of_body(body: &str) -> String {
    hex(&Md5::digest(body.as_bytes()))
}

/// Of attributes; none have none.
pub fn md5_of_attributes(attributes: &MessageAttributes) -> Option<String> {
    if attributes.is_empty() {
        return None;
    }
    let mut digest = Md5::new();
    for (name, attribute) in attributes {
        add(&mut digest, name, attribute);
    }
    Some(hex(&digest.finalize()))
}

fn add(digest: &mut Md5, name: &str, MessageAttribute { data_type, value }: &MessageAttribute) {
    let mut sized = |bytes: &[u8], transport: Option<u8>| {
        digest.update(transport.as_slice());
        digest.update(u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes());
        digest.update(bytes);
    };
    sized(name.as_bytes(), None);
    sized(data_type.as_bytes(), None);
    match value {
        AttributeValue::Text(text) => sized(text.as_bytes(), Some(1)),
        AttributeValue::Binary(bytes) => sized(bytes, Some(2)),
    }
}

/// Of bytes: what deduplicates a body, and what is signed of one.
pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    hex(&sha2::Sha256::digest(bytes))
}

/// In lower case.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: [u8; 16] = *b"0123456789abcdef";
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        for nibble in [byte >> 4, byte & 15] {
            text.push(char::from(DIGITS[usize::from(nibble)]));
        }
    }
    text
}
