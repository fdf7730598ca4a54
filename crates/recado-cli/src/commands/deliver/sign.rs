//! Signatures by the Standard Webhooks scheme, version 1 (symmetric).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// What a secret begins with.
const PREFIX: &str = "whsec_";
/// Length of a secret, in bytes, as the scheme asks.
const BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// A secret, ready to sign with.
pub(super) struct Secret(Hmac<Sha256>);

impl Secret {
    /// Reads `whsec_` and base64. What is wrong is said without the secret.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let encoded = text.strip_prefix(PREFIX).ok_or_else(|| format!("it does not begin with {PREFIX}"))?;
        let bytes = STANDARD.decode(encoded).map_err(|_| format!("what follows {PREFIX} is not base64"))?;
        if !BYTES.contains(&bytes.len()) {
            return Err(format!("it has {} bytes, {} to {} are needed", bytes.len(), BYTES.start(), BYTES.end()));
        }
        Hmac::new_from_slice(&bytes).map(Self).map_err(|error| error.to_string())
    }

    fn sign(&self, id: &str, timestamp: u64, body: &[u8]) -> String {
        let mut mac = self.0.clone();
        mac.update(format!("{id}.{timestamp}.").as_bytes());
        mac.update(body);
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

/// The value of `webhook-signature`: one signature a secret, so that a receiver may know the old or the new one.
pub(super) fn signatures(secrets: &[Secret], id: &str, timestamp: u64, body: &[u8]) -> String {
    let signatures: Vec<_> = secrets.iter().map(|secret| secret.sign(id, timestamp, body)).collect();
    signatures.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_example() {
        let secret = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signed = signatures(&[secret], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_wrong_secret_is_told_without_it() {
        let of = |bytes: usize| format!("{PREFIX}{}", STANDARD.encode(vec![7; bytes]));
        for (text, is_good) in [
            (of(24), true),
            (of(64), true),
            (of(23), false),
            (of(65), false),
            (of(24)[6..].to_owned(), false),
            (format!("{PREFIX}secret!"), false),
        ] {
            let wrong = Secret::parse(&text).err();
            assert_eq!(wrong.is_none(), is_good, "{text}: {wrong:?}");
            assert!(!wrong.unwrap_or_default().contains(&text[text.len() - 4..]));
        }
    }
}
