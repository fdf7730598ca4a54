//! The jobs that are sent: a payload of exactly 200 bytes of JSON, as the peers' figures were measured with.

use std::io::Write;

/// Size of a payload in bytes.
pub(crate) const PAYLOAD_BYTES: usize = 200;

/// A numbered payload.
pub(crate) fn payload(number: u64) -> Vec<u8> {
    sized_payload(number, PAYLOAD_BYTES)
}

/// A numbered payload of `bytes`.
pub(crate) fn sized_payload(number: u64, bytes: usize) -> Vec<u8> {
    let mut text = format!(r#"{{"number":"{number:012}","templateId":"welcome","text":""#).into_bytes();
    assert!(text.len() + 2 <= bytes, "a payload has room for its members");
    text.resize(bytes - 2, b'x');
    text.extend_from_slice(br#""}"#);
    text
}

/// Reads the numbers out of an answer with such payloads, in order.
pub(crate) fn numbers(answer: &str) -> impl Iterator<Item = u64> {
    let digits = |rest: &str| rest.get(..12).and_then(|digits| digits.parse().ok());
    answer.split(r#""number":""#).skip(1).filter_map(digits)
}

/// Which keys the jobs carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// None.
    Plain,
    /// A deduplication key, a business id and an idempotency key, different for each job.
    All,
}

/// `count` jobs from `first` on, as the body of an enqueue.
pub(crate) fn batch(first: u64, count: u64, keys: Keys, payload_bytes: usize) -> Vec<u8> {
    let mut body = Vec::with_capacity(count as usize * (payload_bytes + 200));
    let is_one = count == 1;
    if !is_one {
        body.push(b'[');
    }
    for number in first..first + count {
        if number > first {
            body.push(b',');
        }
        body.extend_from_slice(br#"{"type":"email.send","#);
        if keys == Keys::All {
            let keys = format!(
                r#""businessId":"order-{number}","idempotencyKey":"mail:{number}","dedup":{{"key":"dedup-{number}","for":"unfinished"}},"#
            );
            body.extend_from_slice(keys.as_bytes());
        }
        body.extend_from_slice(br#""payload":"#);
        body.extend_from_slice(&sized_payload(number, payload_bytes));
        body.push(b'}');
    }
    if !is_one {
        body.push(b']');
    }
    body
}

/// A job that was received: what a settle needs of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    id: String,
    receipt: String,
}

/// The jobs of an answer to a receive. It is read by hand because the client shares the server's cores.
pub(crate) fn held(answer: &str) -> Vec<Held> {
    let id_of = |rest: &str| rest.split('"').next().map(str::to_owned);
    // An entry of `settled` has an id too, but no receipt.
    let ids = answer.split(r#""id":""#).skip(1).filter(|rest| !is_settled(rest)).filter_map(id_of);
    let receipts = answer.split(r#""receipt":""#).skip(1).filter_map(id_of);
    ids.zip(receipts).map(|(id, receipt)| Held { id, receipt }).collect()
}

/// How many settles an answer accepts.
pub(crate) fn settled(answer: &str) -> usize {
    answer.split(r#""id":""#).skip(1).filter(|rest| is_settled(rest)).count()
}

fn is_settled(rest: &str) -> bool {
    rest.find('"').and_then(|end| rest.get(end..)).is_some_and(|rest| rest.starts_with(r#"","ok":true"#))
}

/// The acks of these jobs, as an array.
pub(crate) fn acks(held: &[Held], body: &mut Vec<u8>) {
    body.push(b'[');
    for (index, Held { id, receipt }) in held.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        // Writing to a vector cannot fail.
        let _ = write!(body, r#"{comma}{{"id":"{id}","receipt":"{receipt}","outcome":"ack"}}"#);
    }
    body.push(b']');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_have_their_size_and_are_json() {
        for bytes in [PAYLOAD_BYTES, 65_536] {
            let payload = sized_payload(7, bytes);
            assert_eq!(payload.len(), bytes);
        }
        for (count, keys) in [(1, Keys::Plain), (3, Keys::Plain), (3, Keys::All)] {
            let body = batch(5, count, keys, PAYLOAD_BYTES);
            let value: serde_json::Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(value.as_array().map_or(1, Vec::len) as u64, count);
            assert_eq!(
                numbers(&String::from_utf8(body).unwrap()).collect::<Vec<_>>(),
                (5..5 + count).collect::<Vec<_>>()
            );
        }
    }

    #[test]
    fn answers_are_read() {
        let answer = r#"{"jobs":[{"id":"job_1","queue":"q","receipt":"r1"},{"receipt":"r2","id":"job_2"}],"settled":[{"id":"job_0","ok":true},{"id":"job_9","ok":false}]}"#;
        let held = held(&answer.replace(r#"{"id":"job_9","ok":false}"#, ""));
        assert_eq!(held.len(), 2);
        assert_eq!((held[1].id.as_str(), held[1].receipt.as_str()), ("job_2", "r2"));
        assert_eq!(settled(answer), 1);
        let mut body = Vec::new();
        acks(&held, &mut body);
        let value: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(value[1]["receipt"], "r2");
    }
}
