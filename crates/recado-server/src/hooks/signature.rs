//! Who sent it: HMAC-SHA256 over the body as it came, byte for byte, in the forms that senders use.
//!
//! | scheme | headers | what is signed |
//! |---|---|---|
//! | standard-webhooks | `webhook-id`, `webhook-timestamp`, `webhook-signature: v1,BASE64 ...` | `ID.TIME.BODY` |
//! | stripe | `Stripe-Signature: t=TIME,v1=HEX,...` | `TIME.BODY` |
//! | github | `X-Hub-Signature-256: sha256=HEX` | `BODY` |
//! | slack | `X-Slack-Request-Timestamp`, `X-Slack-Signature: v0=HEX` | `v0:TIME:BODY` |
//! | hmac | as the hook says | `BODY`, or `TIME.BODY` |
//!
//! Times are seconds since 1970. All comparisons take the same time whatever is compared.

use axum::http::{HeaderMap, HeaderName};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use sha2::Sha256;

use super::secret::Secret;

/// Bytes of an HMAC-SHA256.
const MAC_BYTES: usize = 32;

/// How a sender signs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    StandardWebhooks,
    Stripe,
    Github,
    Slack,
    Hmac(Form),
}

/// A signature that the hook itself describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    /// Where it stands.
    pub(super) header: HeaderName,
    /// What stands before it.
    pub(super) prefix: Box<str>,
    /// It is base64, else hex.
    pub(super) is_base64: bool,
    /// Where the time stands that is signed too.
    pub(super) timestamp: Option<HeaderName>,
}

/// Why nothing is proven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// There is no signature, or it is none.
    Missing,
    /// No secret of the hook made it for this body.
    Wrong,
    /// It was made too long ago, or its time has not come.
    Old,
}

/// What a request says of itself. Nothing of it is proven before [`Claim::verify`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    /// What is signed before the body.
    before: Vec<u8>,
    /// When it was signed, in seconds.
    at_s: Option<u64>,
    signatures: Vec<[u8; MAC_BYTES]>,
}

impl Scheme {
    /// Signs when it was sent.
    pub(crate) fn has_time(&self) -> bool {
        match self {
            Self::StandardWebhooks | Self::Stripe | Self::Slack => true,
            Self::Github => false,
            Self::Hmac(form) => form.timestamp.is_some(),
        }
    }

    /// Reads what a request says of itself.
    pub(crate) fn claim(&self, headers: &HeaderMap) -> Result<Claim, Refused> {
        let claim = match self {
            Self::StandardWebhooks => standard_webhooks(headers),
            Self::Stripe => one(headers, "stripe-signature").and_then(stripe),
            Self::Github => {
                let signature = one(headers, "x-hub-signature-256").and_then(|it| it.strip_prefix("sha256="));
                signature.and_then(hex).map(|mac| Claim { before: Vec::new(), at_s: None, signatures: vec![mac] })
            }
            Self::Slack => slack(headers),
            Self::Hmac(form) => form.claim(headers),
        };
        claim.filter(|claim| !claim.signatures.is_empty()).ok_or(Refused::Missing)
    }
}

impl Claim {
    /// Whether one of the secrets made one of the signatures for this body, not longer from `now_s` than the tolerance.
    pub(crate) fn verify(
        &self,
        secrets: &[Secret],
        body: &[u8],
        now_s: u64,
        tolerance_s: Option<u64>,
    ) -> Result<(), Refused> {
        let made = |key: &Hmac<Sha256>| {
            let mut mac = key.clone();
            mac.update(&self.before);
            mac.update(body);
            // Each is compared, so that the time tells nothing of which one fits.
            self.signatures.iter().filter(|signature| mac.clone().verify_slice(&signature[..]).is_ok()).count() > 0
        };
        if secrets.iter().filter_map(Secret::key).filter(|key| made(key)).count() == 0 {
            return Err(Refused::Wrong);
        }
        match (self.at_s, tolerance_s) {
            (Some(at_s), Some(tolerance_s)) if at_s.abs_diff(now_s) > tolerance_s => Err(Refused::Old),
            _ => Ok(()),
        }
    }
}

/// A header that stands once.
fn one<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    values.next().filter(|_| values.next().is_none())?.to_str().ok()
}

/// Seconds since 1970, in digits and nothing else.
fn seconds(text: &str) -> Option<u64> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

fn hex(text: &str) -> Option<[u8; MAC_BYTES]> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let mut mac = [0; MAC_BYTES];
    if text.len() != 2 * MAC_BYTES {
        return None;
    }
    for (byte, pair) in mac.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = u8::try_from(digit(pair[0])? << 4 | digit(pair[1])?).ok()?;
    }
    Some(mac)
}

fn base64(text: &str) -> Option<[u8; MAC_BYTES]> {
    STANDARD.decode(text).ok()?.try_into().ok()
}

fn standard_webhooks(headers: &HeaderMap) -> Option<Claim> {
    let (id, time) = (one(headers, "webhook-id")?, one(headers, "webhook-timestamp")?);
    let signatures = one(headers, "webhook-signature")?.split(' ');
    // Other versions may stand beside the one that is known here.
    let signatures = signatures.filter_map(|it| it.strip_prefix("v1,")).filter_map(base64).collect();
    Some(Claim { before: format!("{id}.{time}.").into_bytes(), at_s: Some(seconds(time)?), signatures })
}

fn stripe(header: &str) -> Option<Claim> {
    let fields = || header.split(',').filter_map(|field| field.trim().split_once('='));
    let mut times = fields().filter(|(name, _)| *name == "t");
    let (_, time) = times.next().filter(|_| times.next().is_none())?;
    let signatures = fields().filter(|(name, _)| *name == "v1").filter_map(|(_, value)| hex(value)).collect();
    Some(Claim { before: format!("{time}.").into_bytes(), at_s: Some(seconds(time)?), signatures })
}

fn slack(headers: &HeaderMap) -> Option<Claim> {
    let time = one(headers, "x-slack-request-timestamp")?;
    let signature = one(headers, "x-slack-signature")?.strip_prefix("v0=").and_then(hex)?;
    Some(Claim { before: format!("v0:{time}:").into_bytes(), at_s: Some(seconds(time)?), signatures: vec![signature] })
}

impl Form {
    fn claim(&self, headers: &HeaderMap) -> Option<Claim> {
        let signature = one(headers, self.header.as_str())?.strip_prefix(&*self.prefix)?;
        let signature = if self.is_base64 { base64(signature)? } else { hex(signature)? };
        let (before, at_s) = match &self.timestamp {
            Some(name) => {
                let time = one(headers, name.as_str())?;
                (format!("{time}.").into_bytes(), Some(seconds(time)?))
            }
            None => (Vec::new(), None),
        };
        Some(Claim { before, at_s, signatures: vec![signature] })
    }
}

#[cfg(test)]
mod tests;
