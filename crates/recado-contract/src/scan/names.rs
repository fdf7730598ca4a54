//! Secrets by the name of their field, where the value has the entropy of one.

/// Letters and digits of a name that are looked at, from its end.
const NAME_MAX: usize = 48;

/// Names that end so are of passwords: what people think up.
const PASSWORDS: &[&str] =
    &["password", "passwd", "passphrase", "passcode", "pwd", "userpass", "dbpass", "smtppass", "adminpass", "rootpass"];

/// Names that end so are of tokens and keys: what machines make.
const TOKENS: &[&str] = &[
    "secret",
    "token",
    "apikey",
    "secretkey",
    "privatekey",
    "accesskey",
    "authkey",
    "encryptionkey",
    "signingkey",
    "masterkey",
    "servicekey",
    "accountkey",
    "sharedkey",
    "sharedaccesskey",
    "hmackey",
    "appkey",
    "sshkey",
    "credential",
    "credentials",
    "authorization",
    "cookie",
    "jwt",
    "bearer",
    "tokens",
    "secrets",
    "apikeys",
];

/// These end like tokens and open nothing.
const HARMLESS: &[&str] = &[
    "pagetoken",
    "nexttoken",
    "continuationtoken",
    "synctoken",
    "cursortoken",
    "clienttoken",
    "idempotencytoken",
    "devicetoken",
    "pushtoken",
    "fcmtoken",
    "apnstoken",
    "registrationtoken",
    "fencingtoken",
    "publictoken",
];

/// Names that end so are of ids and other numbers that are given out in order or at random.
const IDENTIFIERS: &[&str] = &[
    "id",
    "ids",
    "uuid",
    "ref",
    "reference",
    "sku",
    "ean",
    "gtin",
    "upc",
    "imei",
    "isbn",
    "barcode",
    "timestamp",
    "ordernumber",
    "trackingnumber",
    "invoicenumber",
    "serialnumber",
    "ticketnumber",
    "sequence",
    "seq",
    "hash",
    "cursor",
    "offset",
    "version",
    "orderno",
    "trackingno",
    "invoiceno",
    "at",
    "etag",
    "checksum",
];

/// A name's letters and digits, in lower case: `api_key`, `apiKey` and `X-Api-Key` end alike.
struct Compact {
    bytes: [u8; NAME_MAX],
    start: usize,
}

impl Compact {
    fn new(name: &str) -> Self {
        let (mut bytes, mut start) = ([0; NAME_MAX], NAME_MAX);
        for byte in name.bytes().rev().filter(u8::is_ascii_alphanumeric) {
            if start == 0 {
                break;
            }
            start -= 1;
            bytes[start] = byte.to_ascii_lowercase();
        }
        Self { bytes, start }
    }

    fn ends_with(&self, words: &[&str]) -> bool {
        let name = &self.bytes[self.start..];
        words.iter().any(|word| name.ends_with(word.as_bytes()))
    }

    fn contains(&self, word: &str) -> bool {
        self.bytes[self.start..].windows(word.len()).any(|part| part == word.as_bytes())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Named {
    Password,
    Token,
}

fn named(name: &str) -> Option<Named> {
    // Most names end with another letter.
    if !matches!(name.as_bytes().last()?.to_ascii_lowercase(), b'd' | b'e' | b's' | b't' | b'n' | b'y' | b'l' | b'r') {
        return None;
    }
    let name = Compact::new(name);
    if name.ends_with(PASSWORDS) {
        Some(Named::Password)
    } else if name.ends_with(TOKENS) && !name.ends_with(HARMLESS) {
        Some(Named::Token)
    } else {
        None
    }
}

/// The rule for a field of this name.
pub(super) fn rule(name: &str) -> Option<&'static str> {
    named(name).map(|named| if named == Named::Password { "password" } else { "secret-by-name" })
}

/// The name is that of an id, not of a card.
pub(super) fn is_identifier(name: &str) -> bool {
    let name = Compact::new(name);
    name.ends_with(IDENTIFIERS) && !name.contains("card")
}

/// A secret's name and a value that could be one.
pub(super) fn holds_secret(name: &str, value: &str) -> bool {
    const PASSWORD_MIN: usize = 6;
    const TOKEN_MIN: usize = 12;
    const LENGTH_MAX: usize = 8 << 10;
    if !(PASSWORD_MIN..=LENGTH_MAX).contains(&value.len()) {
        return false;
    }
    match named(name) {
        Some(Named::Password) => looks_made_up(value) && !is_word(value),
        Some(Named::Token) => value.len() >= TOKEN_MIN && looks_made_up(value) && !is_slug(value),
        None => false,
    }
}

/// What stands where a secret would, and names or describes it.
const STAND_INS: &[&str] =
    &["${", "{{", "<", "***", "env:", "file:", "vault:", "arn:", "op://", "http://", "https://", "projects/", "•"];

/// Of more than one kind of character, or long; no sentence, no stand-in; of real entropy.
fn looks_made_up(value: &str) -> bool {
    const BITS_MIN: f64 = 14.0;
    const ONE_KIND_MIN: usize = 20;
    if value.bytes().any(|byte| byte.is_ascii_whitespace()) || STAND_INS.iter().any(|part| value.contains(part)) {
        return false;
    }
    let any = |is: fn(&u8) -> bool| value.as_bytes().iter().any(is);
    let (lower, upper, digit) = (any(u8::is_ascii_lowercase), any(u8::is_ascii_uppercase), any(u8::is_ascii_digit));
    let symbol = value.bytes().any(|byte| byte.is_ascii_punctuation() && !matches!(byte, b'-' | b'_' | b'.'));
    let kinds = u8::from(lower) + u8::from(upper) + u8::from(digit) + u8::from(symbol);
    let is_mixed = kinds >= 2 && (lower || upper);
    (is_mixed || value.len() >= ONE_KIND_MIN && (lower || upper)) && bits(value) >= BITS_MIN
}

/// Small letters, with or without a capital at the start: `required`, `Changed`.
fn is_word(value: &str) -> bool {
    const LENGTH_MAX: usize = 19;
    let mut bytes = value.bytes();
    value.len() <= LENGTH_MAX
        && bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic())
        && bytes.all(|byte| byte.is_ascii_lowercase() || matches!(byte, b'-' | b'_' | b'.'))
}

/// Words and numbers with dashes between: `invoice-2026-0001`.
fn is_slug(value: &str) -> bool {
    const WORD_MAX: usize = 16;
    const NUMBER_MAX: usize = 8;
    let is_part = |part: &str| {
        let is_number = part.bytes().all(|byte| byte.is_ascii_digit());
        let is_word = part.bytes().skip(1).all(|byte| byte.is_ascii_lowercase())
            || part.bytes().all(|byte| byte.is_ascii_uppercase());
        let is_letters = part.bytes().all(|byte| byte.is_ascii_alphabetic());
        is_number && part.len() <= NUMBER_MAX || is_letters && is_word && part.len() <= WORD_MAX
    };
    value.split(['-', '_', '.', ':', '/']).all(is_part)
}

/// Shannon's entropy of the whole value, in bits.
fn bits(value: &str) -> f64 {
    let mut counts = [0_u16; 256];
    value.bytes().for_each(|byte| counts[usize::from(byte)] += 1);
    let length = value.len() as f64;
    let share = |count: &u16| f64::from(*count) * (length / f64::from(*count)).log2();
    counts.iter().filter(|count| **count > 0).map(share).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_decide_together() {
        for (name, value) in [
            ("password", "hunter2"),
            ("DB_PASSWORD", "s3cr3t!x"),
            ("X-Api-Key", "9f86d081884c7d65"),
            ("clientSecret", "kT7-Zq2_9vXw4Lp0"),
            ("resetToken", "550e8400-e29b-41d4-a716-446655440000"),
            ("aws_secret_access_key", "wJalrXUtnFEMIK7MDENGbPxRfiCYzzzzzzzzKEYY"),
            ("passphrase", "correcthorsebatterystaple"),
        ] {
            assert!(holds_secret(name, value), "{name}");
        }
        for (name, value) in [
            ("passwordResetId", "550e8400-e29b-41d4-a716-446655440000"),
            ("tokenId", "tok_9f86d081884c7d65"),
            ("nextPageToken", "CAUQAA9f86d081884c7d65"),
            ("password", "required"),
            ("password", "Unchanged"),
            ("password", "must be changed at the next login"),
            ("password", "${DB_PASSWORD_2}"),
            ("password", "********"),
            ("secret", "projects/one/secrets/mail-2/versions/3"),
            ("token", "invoice-2026-0001-final"),
            ("publicKey", "9f86d081884c7d659f86d081"),
            ("idempotencyKey", "order-42-9f86d081884c7d65"),
            ("apiKey", "none"),
        ] {
            assert!(!holds_secret(name, value), "{name}: {value}");
        }
    }
}
