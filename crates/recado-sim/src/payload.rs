//! Payloads that can be recognised, every byte of them.

/// A payload of about this size.
pub(crate) fn encode(tag: u32, bytes: usize) -> Vec<u8> {
    let mut payload = format!("{{\"tag\":{tag},\"fill\":\"").into_bytes();
    payload.resize(payload.len().max(bytes.saturating_sub(2)), letter(tag));
    payload.extend(b"\"}");
    payload
}

fn letter(tag: u32) -> u8 {
    b'a' + (tag % 26) as u8
}

/// The tag, if the whole payload is as it was made, and the round of the replay that last changed it.
pub(crate) fn decode(payload: &[u8]) -> (Option<u32>, Option<u32>) {
    let Ok(text) = std::str::from_utf8(payload) else { return (None, None) };
    let (own, round) = split(text);
    (own.and_then(tag), round)
}

fn tag(own: &str) -> Option<u32> {
    let (tag, fill) = own.strip_prefix("{\"tag\":")?.split_once(',')?;
    let fill = fill.strip_prefix("\"fill\":\"")?.strip_suffix('"')?;
    let tag = tag.parse().ok().filter(|number: &u32| number.to_string() == tag)?;
    fill.bytes().all(|byte| byte == letter(tag)).then_some(tag)
}

/// A payload without its last brace, if it has that, and the round behind it.
fn split(text: &str) -> (Option<&str>, Option<u32>) {
    let Some(own) = text.strip_suffix('}') else { return (None, None) };
    // One that no replay has changed ends with its fill.
    if own.ends_with('"') {
        return (Some(own), None);
    }
    match own.rsplit_once(ROUND) {
        Some((own, round)) => (Some(own), round.parse().ok()),
        None => (Some(own), None),
    }
}

const ROUND: &str = ",\"round\":";

/// What a replay merges into a payload: its round.
pub(crate) fn merge(patch: &[u8], payload: &[u8]) -> Result<Vec<u8>, String> {
    let text = |bytes| std::str::from_utf8(bytes).map_err(|error| error.to_string());
    let own = split(text(payload)?).0.ok_or("it is no object")?;
    Ok(format!("{own}{ROUND}{}}}", text(patch)?).into_bytes())
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
