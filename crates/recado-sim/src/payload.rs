//! Payloads that can be recognised, every byte of them.

/// A payload of about this size.
pub(crate) fn encode(tag: u32, bytes: usize) -> Vec<u8> {
    let mut payload = format!("{{\"tag\":{tag},\"fill\":\"");
    let letter = char::from(b'a' + (tag % 26) as u8);
    payload.extend(std::iter::repeat_n(letter, bytes.saturating_sub(payload.len() + 2)));
    payload.push_str("\"}");
    payload.into_bytes()
}

/// The tag, if the whole payload is as it was made, and the round of the replay that last changed it.
pub(crate) fn decode(payload: &[u8]) -> (Option<u32>, Option<u32>) {
    let Ok(text) = std::str::from_utf8(payload) else { return (None, None) };
    let (own, round) = split(text);
    let tag = own.strip_prefix("{\"tag\":").and_then(|rest| rest.split(',').next()?.parse().ok());
    (tag.filter(|tag| encode(*tag, own.len() + 1) == format!("{own}}}").into_bytes()), round)
}

/// A payload without its last brace, and the round behind it.
fn split(text: &str) -> (&str, Option<u32>) {
    let own = text.strip_suffix('}').unwrap_or(text);
    match own.rsplit_once(ROUND) {
        Some((own, round)) => (own, round.parse().ok()),
        None => (own, None),
    }
}

const ROUND: &str = ",\"round\":";

/// What a replay merges into a payload: its round.
pub(crate) fn merge(patch: &[u8], payload: &[u8]) -> Result<Vec<u8>, String> {
    let text = |bytes| std::str::from_utf8(bytes).map_err(|error| error.to_string());
    Ok(format!("{}{ROUND}{}}}", split(text(payload)?).0, text(patch)?).into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_changed_byte_is_noticed() {
        let payload = encode(77, 60);
        assert_eq!(decode(&payload), (Some(77), None));
        for at in 0..payload.len() {
            let mut changed = payload.clone();
            changed[at] ^= 1;
            assert_ne!(decode(&changed), (Some(77), None), "byte {at}");
        }
    }

    #[test]
    fn a_replay_that_changes_it_can_be_told() {
        let once = merge(b"3", &encode(77, 60)).unwrap_or_default();
        assert_eq!(decode(&once), (Some(77), Some(3)));
        let again = merge(b"4", &once).unwrap_or_default();
        assert_eq!(decode(&again), (Some(77), Some(4)));
    }
}
