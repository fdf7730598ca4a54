//! Secrets of hooks, out of the environment.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit};
use sha2::Sha256;

use super::signature::Scheme;

/// What a reference to a secret begins with.
const PREFIX: &str = "env:";
/// Length of the name of a variable.
const NAME_BYTES_MAX: usize = 120;
/// What a secret of Standard Webhooks may begin with; what follows is base64.
const STANDARD_PREFIX: &str = "whsec_";

/// The name of a variable, from `env:NAME`.
pub(super) fn variable(text: &str) -> Result<&str, String> {
    let name = text.strip_prefix(PREFIX).unwrap_or_default();
    let is_name = !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    // Whoever wrote the secret itself must not find it in an answer or a log.
    if is_name { Ok(name) } else { Err("write \"env:NAME\": the secret itself stands in the environment".to_owned()) }
}

/// A secret, if it is there. It cannot be printed.
pub(crate) struct Secret {
    variable: Box<str>,
    key: Result<Hmac<Sha256>, &'static str>,
}

impl Secret {
    /// Looks a variable up. The environment of a process does not change while it runs.
    pub(super) fn look_up(variable: &str, scheme: &Scheme) -> Self {
        let key = match std::env::var_os(variable) {
            Some(text) => read(text.as_encoded_bytes().trim_ascii(), scheme),
            None => Err("it is not set"),
        };
        Self { variable: variable.into(), key }
    }

    #[cfg(test)]
    pub(super) fn of(variable: &str, key: Result<Hmac<Sha256>, &'static str>) -> Self {
        Self { variable: variable.into(), key }
    }

    /// The variable that holds it.
    pub(crate) fn variable(&self) -> &str {
        &self.variable
    }

    /// The variable, and why there is no secret in it.
    pub(crate) fn fault(&self) -> Option<(&str, &'static str)> {
        self.key.as_ref().err().map(|why| (&*self.variable, *why))
    }

    pub(super) fn key(&self) -> Option<&Hmac<Sha256>> {
        self.key.as_ref().ok()
    }
}

/// Makes a key of the text of a secret.
pub(super) fn read(text: &[u8], scheme: &Scheme) -> Result<Hmac<Sha256>, &'static str> {
    let of = |bytes: &[u8]| Hmac::new_from_slice(bytes).map_err(|_| "it cannot be used");
    if text.is_empty() {
        return Err("it is empty");
    }
    match scheme {
        Scheme::StandardWebhooks => {
            let encoded = text.strip_prefix(STANDARD_PREFIX.as_bytes()).unwrap_or(text);
            of(&STANDARD.decode(encoded).map_err(|_| "it is not `whsec_` and base64")?)
        }
        _ => of(text),
    }
}
