//! JSON merge patch (RFC 7386), for payloads of dead jobs that are replayed.

use serde_json::{Map, Value};

/// Applies `patch` to `payload`, both JSON text.
///
/// # Errors
/// Which of the two is not JSON.
pub fn merge_patch(patch: &[u8], payload: &[u8]) -> Result<Vec<u8>, String> {
    let patch: Value = serde_json::from_slice(patch).map_err(|error| format!("the patch is not JSON: {error}"))?;
    let payload: Value =
        serde_json::from_slice(payload).map_err(|error| format!("the payload is not JSON: {error}"))?;
    serde_json::to_vec(&merge(payload, patch)).map_err(|error| error.to_string())
}

/// Depth is bounded: both were read by a reader that stops at 128.
fn merge(target: Value, patch: Value) -> Value {
    let Value::Object(patch) = patch else { return patch };
    let mut target = match target {
        Value::Object(target) => target,
        _ => Map::new(),
    };
    for (key, value) in patch {
        if value.is_null() {
            target.remove(&key);
        } else {
            let old = target.remove(&key).unwrap_or_default();
            target.insert(key, merge(old, value));
        }
    }
    Value::Object(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of RFC 7386, appendix A.
    #[test]
    fn the_examples_of_the_standard() {
        for (payload, patch, expected) in [
            (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"a":null}"#, "{}"),
            (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
            (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#),
            (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
            (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
            (r#"["a","b"]"#, r#"["c","d"]"#, r#"["c","d"]"#),
            (r#"{"a":"b"}"#, r#"["c"]"#, r#"["c"]"#),
            (r#"{"a":"foo"}"#, "null", "null"),
            (r#"{"a":"foo"}"#, r#""bar""#, r#""bar""#),
            (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"a":1,"e":null}"#),
            ("[1,2]", r#"{"a":"b","c":null}"#, r#"{"a":"b"}"#),
            ("{}", r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
        ] {
            let merged = merge_patch(patch.as_bytes(), payload.as_bytes()).unwrap();
            assert_eq!(String::from_utf8(merged).unwrap(), expected, "{payload} + {patch}");
        }
        assert!(merge_patch(b"{", b"{}").is_err());
    }
}
