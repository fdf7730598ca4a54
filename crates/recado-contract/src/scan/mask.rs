//! What is stored or shown anyway has its secrets masked.

use std::borrow::Cow;

use serde::Serializer;
use serde_json::Value;

use super::{Hit, MASK, Wanted, scan_json, text};

/// The text with its secrets masked.
#[must_use]
pub fn mask_text(text: &str) -> Cow<'_, str> {
    mask_named(None, text)
}

/// JSON text with its secrets masked; without any it comes back byte for byte. What is masked is never longer.
#[must_use]
pub fn mask_json(json: &[u8]) -> Cow<'_, [u8]> {
    if scan_json(json, "", Wanted::SECRETS).is_empty() {
        return Cow::Borrowed(json);
    }
    // What cannot be read again is not let through either.
    let Ok(value) = serde_json::from_slice::<Value>(json) else { return Cow::Borrowed(b"null") };
    serde_json::to_vec(&mask_value(None, value)).map_or(Cow::Borrowed(b"null"), Cow::Owned)
}

/// For serde: a text of an answer that may repeat what was sent.
pub fn masked<S: Serializer>(text: impl AsRef<str>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&mask_text(text.as_ref()))
}

fn mask_value(name: Option<&str>, value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(mask_named(name, &text).into_owned()),
        Value::Number(number) => {
            let written = number.to_string();
            match mask_named(name, &written) {
                Cow::Borrowed(_) => Value::Number(number),
                Cow::Owned(masked) => Value::String(masked),
            }
        }
        Value::Array(entries) => entries.into_iter().map(|entry| mask_value(name, entry)).collect(),
        Value::Object(fields) => {
            let mask = |(name, value): (String, Value)| {
                let value = mask_value(Some(&name), value);
                (mask_text(&name).into_owned(), value)
            };
            Value::Object(fields.into_iter().map(mask).collect())
        }
        other => other,
    }
}

fn mask_named<'t>(name: Option<&str>, text: &'t str) -> Cow<'t, str> {
    let mut spans = Vec::new();
    text::find(name, text, Wanted::SECRETS, 0, &mut |hit: Hit| spans.push(hit.span));
    if spans.is_empty() {
        return Cow::Borrowed(text);
    }
    spans.sort_by_key(|span| span.start);
    let (mut masked, mut at) = (String::with_capacity(text.len()), 0);
    for span in spans {
        if span.start >= at {
            masked.push_str(&text[at..span.start]);
            masked.push_str(MASK);
        }
        at = at.max(span.end);
    }
    masked.push_str(&text[at..]);
    Cow::Owned(masked)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> String {
        ["sk", "_live_"].concat() + &"a1B2".repeat(6)
    }

    #[test]
    fn secrets_are_masked_and_all_else_stays() {
        let token = token();
        for (text, expected) in [
            (format!("401 for {token} at https://api.example.org"), "401 for *** at https://api.example.org"),
            (format!("{token},{token}"), "***,***"),
            ("no answer in 5 s".to_owned(), "no answer in 5 s"),
            ("postgres://app:hunter2x@db/orders".to_owned(), "postgres***@db/orders"),
        ] {
            assert_eq!(mask_text(&text), expected);
        }
        let json = format!(r#"{{"b":[1,"{token}"],"password":"Tr0ub4dor&3","a":{{"n":4242424242424242}}}}"#);
        let masked: Value = serde_json::from_slice(&mask_json(json.as_bytes())).unwrap();
        assert_eq!(masked, serde_json::json!({"a": {"n": "***"}, "b": [1, "***"], "password": "***"}));
        let clean = br#"{ "b" : 1, "a" : 2.50 }"#;
        assert!(matches!(mask_json(clean), Cow::Borrowed(bytes) if bytes == clean));
    }
}
