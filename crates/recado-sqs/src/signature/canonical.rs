//! A request in the one form that is signed.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::claim::Claim;
use super::mismatch;
use crate::call::Call;
use crate::error::SqsError;

/// All but what RFC 3986 leaves unreserved.
const RESERVED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
const RESERVED_IN_PATH: AsciiSet = RESERVED.remove(b'/');

pub(super) fn request(call: &Call<'_>, claim: &Claim, payload_hash: &str) -> Result<String, SqsError> {
    let (method, path, query) = (call.method, path(call.path), query(call.query));
    let (headers, names) = (headers(call, claim)?, claim.signed_headers.join(";"));
    Ok(format!("{method}\n{path}\n{query}\n{headers}\n{names}\n{payload_hash}"))
}

/// Without dots and empty segments, and encoded once more.
fn path(raw: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in raw.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    let end = if raw.ends_with('/') && !segments.is_empty() { "/" } else { "" };
    utf8_percent_encode(&format!("/{}{end}", segments.join("/")), &RESERVED_IN_PATH).to_string()
}

/// Sorted, each half encoded in one way; without the signature itself.
fn query(raw: &str) -> String {
    let encode = |text: &str| {
        let spaced = text.replace('+', " ");
        let bytes: Vec<u8> = percent_decode_str(&spaced).collect();
        percent_encoding::percent_encode(&bytes, &RESERVED).to_string()
    };
    let pairs = raw.split('&').filter(|pair| !pair.is_empty()).map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let mut pairs: Vec<(String, String)> = pairs.map(|(name, value)| (encode(name), encode(value))).collect();
    pairs.retain(|(name, _)| name != "X-Amz-Signature");
    pairs.sort_unstable();
    pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
}

/// The headers that the signer names, a line each.
fn headers(call: &Call<'_>, claim: &Claim) -> Result<String, SqsError> {
    let mut lines = String::new();
    for name in &claim.signed_headers {
        let values: Vec<String> =
            call.headers.get_all(name.as_str()).iter().map(|value| trimmed(value.as_bytes())).collect();
        if values.is_empty() {
            return Err(mismatch(format!("The signed header '{name}' is not in the request.")));
        }
        lines.push_str(&format!("{name}:{}\n", values.join(",")));
    }
    Ok(lines)
}

/// Without spaces around, and one where there are more.
fn trimmed(value: &[u8]) -> String {
    String::from_utf8_lossy(value).split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}
