//! Payloads that can be recognised, every byte of them.

/// A payload of about this size.
pub(crate) fn encode(tag: u32, bytes: usize) -> Vec<u8> {
    let mut payload = format!("{{\"tag\":{tag},\"fill\":\"");
    let letter = char::from(b'a' + (tag % 26) as u8);
    payload.extend(std::iter::repeat_n(letter, bytes.saturating_sub(payload.len() + 2)));
    payload.push_str("\"}");
    payload.into_bytes()
}

/// The tag, if the whole payload is as it was made.
pub(crate) fn decode(payload: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(payload).ok()?;
    let tag = text.strip_prefix("{\"tag\":")?.split(',').next()?.parse().ok()?;
    (encode(tag, payload.len()) == payload).then_some(tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_changed_byte_is_noticed() {
        let payload = encode(77, 60);
        assert_eq!(decode(&payload), Some(77));
        for at in 0..payload.len() {
            let mut changed = payload.clone();
            changed[at] ^= 1;
            assert_ne!(decode(&changed), Some(77), "byte {at}");
        }
    }
}
