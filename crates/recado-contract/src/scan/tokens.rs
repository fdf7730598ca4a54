//! Tokens and keys by their public formats, and assignments (`password=...`) within a text.
//!
//! One automaton looks for the beginnings of all formats at once; a beginning that was found is compared with its
//! format. To add a provider, add a line to [`FORMATS`].

use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use super::names;

/// What may follow a beginning.
enum Body {
    /// So many bytes of a set, at least and at most.
    Run(Set, usize, usize),
    /// A dash or a dot may stand between such runs, which have their least lengths.
    Parts(Set, u8, &'static [usize]),
    /// Gives the end, from the text and where the beginning starts and ends.
    Own(fn(&str, Range<usize>) -> Option<usize>),
}

type Set = fn(u8) -> bool;

const ANY: usize = usize::MAX;

fn alnum(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

fn upper(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit()
}

fn hex(byte: u8) -> bool {
    byte.is_ascii_hexdigit()
}

/// Base64 of URLs; also what most providers draw their tokens from.
fn url64(byte: u8) -> bool {
    alnum(byte) || byte == b'-' || byte == b'_'
}

fn base64(byte: u8) -> bool {
    alnum(byte) || matches!(byte, b'+' | b'/' | b'=')
}

/// What RFC 6750 calls a token.
fn token68(byte: u8) -> bool {
    alnum(byte) || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'+' | b'/' | b'=')
}

use Body::{Own, Parts, Run};

/// Rule, beginning, what follows.
const FORMATS: &[(&str, &str, Body)] = &[
    ("private-key", "-----BEGIN ", Own(pem)),
    ("private-key", "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY", Run(|_| true, 0, ANY)),
    ("private-key", "PuTTY-User-Key-File-", Run(|_| true, 8, ANY)),
    ("private-key", "AGE-SECRET-KEY-1", Run(upper, 50, ANY)),
    ("aws-access-key", "AKIA", Run(upper, 16, 16)),
    ("aws-access-key", "ASIA", Run(upper, 16, 16)),
    ("aws-access-key", "ABIA", Run(upper, 16, 16)),
    ("aws-access-key", "ACCA", Run(upper, 16, 16)),
    ("stripe-key", "sk_live_", Run(alnum, 16, ANY)),
    ("stripe-key", "sk_test_", Run(alnum, 16, ANY)),
    ("stripe-key", "rk_live_", Run(alnum, 16, ANY)),
    ("stripe-key", "rk_test_", Run(alnum, 16, ANY)),
    ("webhook-secret", "whsec_", Run(base64, 20, ANY)),
    ("github-token", "ghp_", Run(alnum, 36, ANY)),
    ("github-token", "gho_", Run(alnum, 36, ANY)),
    ("github-token", "ghu_", Run(alnum, 36, ANY)),
    ("github-token", "ghs_", Run(alnum, 36, ANY)),
    ("github-token", "ghr_", Run(alnum, 36, ANY)),
    ("github-token", "github_pat_", Run(|byte| alnum(byte) || byte == b'_', 36, ANY)),
    ("gitlab-token", "glpat-", Run(url64, 20, ANY)),
    ("gitlab-token", "gldt-", Run(url64, 20, ANY)),
    ("gitlab-token", "glrt-", Run(url64, 20, ANY)),
    ("gitlab-token", "glptt-", Run(url64, 20, ANY)),
    ("gitlab-token", "glcbt-", Run(url64, 20, ANY)),
    ("gitlab-token", "glft-", Run(url64, 20, ANY)),
    ("gitlab-token", "glsoat-", Run(url64, 20, ANY)),
    ("gitlab-token", "gloas-", Run(url64, 20, ANY)),
    ("gitlab-token", "glagent-", Run(url64, 20, ANY)),
    ("gitlab-token", "GR1348941", Run(url64, 20, ANY)),
    ("slack-token", "xoxb-", Run(url64, 20, ANY)),
    ("slack-token", "xoxp-", Run(url64, 20, ANY)),
    ("slack-token", "xoxa-", Run(url64, 20, ANY)),
    ("slack-token", "xoxr-", Run(url64, 20, ANY)),
    ("slack-token", "xoxs-", Run(url64, 20, ANY)),
    ("slack-token", "xoxe-", Run(url64, 20, ANY)),
    ("slack-token", "xoxe.xox", Run(url64, 20, ANY)),
    ("slack-token", "xapp-", Run(url64, 20, ANY)),
    ("slack-webhook", "hooks.slack.com/services/T", Run(|byte| alnum(byte) || byte == b'/', 20, ANY)),
    ("discord-webhook", "discord.com/api/webhooks/", Run(|byte| url64(byte) || byte == b'/', 40, ANY)),
    ("sendgrid-key", "SG.", Parts(url64, b'.', &[16, 16])),
    ("google-key", "AIza", Run(url64, 35, ANY)),
    ("google-key", "GOCSPX-", Run(url64, 20, ANY)),
    ("google-key", "ya29.", Run(url64, 20, ANY)),
    ("openai-key", "sk-proj-", Run(url64, 20, ANY)),
    ("openai-key", "sk-svcacct-", Run(url64, 20, ANY)),
    ("openai-key", "sk-admin-", Run(url64, 20, ANY)),
    ("openai-key", "sk-", Run(alnum, 32, ANY)),
    ("anthropic-key", "sk-ant-", Run(url64, 20, ANY)),
    ("twilio-key", "SK", Run(hex, 32, 32)),
    ("npm-token", "npm_", Run(alnum, 36, ANY)),
    ("pypi-token", "pypi-AgE", Run(url64, 30, ANY)),
    ("jwt", "eyJ", Own(jwt)),
    ("bearer-token", "bearer ", Own(bearer)),
    ("basic-credentials", "basic ", Own(basic)),
    ("url-credentials", "://", Own(url_credentials)),
    ("password-hash", "$2a$", Run(bcrypt, 50, ANY)),
    ("password-hash", "$2b$", Run(bcrypt, 50, ANY)),
    ("password-hash", "$2y$", Run(bcrypt, 50, ANY)),
    ("password-hash", "$argon2", Run(|byte| base64(byte) || matches!(byte, b'$' | b','), 40, ANY)),
    ("digitalocean-token", "dop_v1_", Run(hex, 64, 64)),
    ("digitalocean-token", "doo_v1_", Run(hex, 64, 64)),
    ("shopify-token", "shpat_", Run(hex, 32, 32)),
    ("shopify-token", "shpca_", Run(hex, 32, 32)),
    ("shopify-token", "shppa_", Run(hex, 32, 32)),
    ("shopify-token", "shpss_", Run(hex, 32, 32)),
    ("square-token", "sq0atp-", Run(url64, 22, ANY)),
    ("square-token", "sq0csp-", Run(url64, 40, ANY)),
    ("huggingface-token", "hf_", Run(alnum, 34, ANY)),
    ("databricks-token", "dapi", Run(hex, 32, 32)),
    ("mailgun-key", "key-", Run(hex, 32, 32)),
    ("vault-token", "hvs.", Run(url64, 24, ANY)),
    ("vault-token", "hvb.", Run(url64, 24, ANY)),
    ("grafana-token", "glsa_", Run(|byte| alnum(byte) || byte == b'_', 32, ANY)),
    ("linear-key", "lin_api_", Run(alnum, 32, ANY)),
    ("notion-token", "ntn_", Run(alnum, 40, ANY)),
    ("postman-key", "PMAK-", Run(url64, 40, ANY)),
    ("newrelic-key", "NRAK-", Run(upper, 27, ANY)),
    ("sentry-token", "sntrys_", Run(|byte| base64(byte) || byte == b'_', 40, ANY)),
    ("sentry-token", "sntryu_", Run(hex, 64, 64)),
    ("supabase-token", "sbp_", Run(hex, 40, 40)),
    ("planetscale-token", "pscale_tkn_", Run(url64, 32, ANY)),
    ("planetscale-token", "pscale_pw_", Run(url64, 32, ANY)),
    ("rubygems-key", "rubygems_", Run(hex, 48, 48)),
    ("docker-token", "dckr_pat_", Run(url64, 24, ANY)),
    ("atlassian-token", "ATATT3", Run(|byte| url64(byte) || byte == b'=', 50, ANY)),
    ("doppler-token", "dp.pt.", Run(alnum, 40, ANY)),
    ("pulumi-token", "pul-", Run(hex, 40, 40)),
    ("groq-key", "gsk_", Run(alnum, 40, ANY)),
    ("perplexity-key", "pplx-", Run(alnum, 40, ANY)),
    ("replicate-token", "r8_", Run(alnum, 37, ANY)),
    ("xai-key", "xai-", Run(alnum, 60, ANY)),
    ("telegram-token", ":AA", Own(telegram)),
];

fn bcrypt(byte: u8) -> bool {
    alnum(byte) || matches!(byte, b'.' | b'/' | b'$')
}

/// Words with which the name of an assigned secret ends.
const ASSIGNED: &[&str] =
    &["password", "passwd", "pwd", "passphrase", "secret", "token", "key", "credential", "credentials"];

static AUTOMATON: LazyLock<AhoCorasick> = LazyLock::new(|| {
    let beginnings = FORMATS.iter().map(|(_, beginning, _)| *beginning).chain(ASSIGNED.iter().copied());
    let built = AhoCorasick::builder()
        .match_kind(MatchKind::Standard)
        .kind(Some(AhoCorasickKind::DFA))
        .ascii_case_insensitive(true)
        .build(beginnings);
    match built {
        Ok(automaton) => automaton,
        Err(error) => panic!("the table of formats makes an automaton: {error}"),
    }
});

/// Reports each token with its rule and place. `assigned`: the text may hold assignments.
pub(super) fn find(text: &str, assigned: bool, report: &mut dyn FnMut(&'static str, Range<usize>)) {
    for found in AUTOMATON.find_overlapping_iter(text) {
        let span = found.span();
        let place = span.start..span.end;
        match FORMATS.get(found.pattern().as_usize()) {
            Some((rule, beginning, body)) => {
                if let Some(end) = end_of(text, place.clone(), beginning, body) {
                    report(rule, place.start..end);
                }
            }
            None if assigned => {
                if let Some((rule, value)) = assignment(text, place) {
                    report(rule, value);
                }
            }
            None => {}
        }
    }
}

fn end_of(text: &str, place: Range<usize>, beginning: &str, body: &Body) -> Option<usize> {
    if let Own(end) = body {
        return end(text, place);
    }
    let bytes = text.as_bytes();
    // The automaton takes letters of either case, formats do not; and a beginning is not the middle of a word.
    if &bytes[place.clone()] != beginning.as_bytes() || place.start > 0 && alnum(bytes[place.start - 1]) {
        return None;
    }
    let run = |from: usize, set: Set| bytes[from..].iter().take_while(|byte| set(**byte)).count();
    match body {
        Run(set, least, most) => {
            let length = run(place.end, *set);
            let ends = bytes.get(place.end + length).is_none_or(|next| *most == ANY || !alnum(*next));
            (length >= *least && length <= *most && ends).then_some(place.end + length)
        }
        Parts(set, between, lengths) => {
            let mut at = place.end;
            for (index, least) in lengths.iter().enumerate() {
                if index > 0 {
                    at += usize::from(bytes.get(at) == Some(between));
                }
                let length = run(at, *set);
                if length < *least {
                    return None;
                }
                at += length;
            }
            Some(at)
        }
        Own(_) => None,
    }
}

/// `-----BEGIN ... PRIVATE KEY`, to its end.
fn pem(text: &str, place: Range<usize>) -> Option<usize> {
    const LABEL_BYTES_MAX: usize = 48;
    let bytes = text.as_bytes();
    let label = &bytes[place.end..bytes.len().min(place.end + LABEL_BYTES_MAX)];
    let is_private = label.windows(11).any(|part| part == b"PRIVATE KEY");
    let end = text[place.end..].find("-----END").map_or(text.len(), |at| place.end + at);
    let after = text[end..].find('\n').map_or(text.len(), |at| end + at);
    is_private.then_some(after)
}

/// Three parts of Base64, of which the first two begin like JSON.
fn jwt(text: &str, place: Range<usize>) -> Option<usize> {
    const PART_MIN: usize = 10;
    let bytes = text.as_bytes();
    if &bytes[place.clone()] != b"eyJ" || place.start > 0 && alnum(bytes[place.start - 1]) {
        return None;
    }
    let part = |from: usize| from + bytes[from..].iter().take_while(|byte| url64(**byte)).count();
    let header = part(place.start);
    if header - place.start < PART_MIN || bytes.get(header) != Some(&b'.') {
        return None;
    }
    let payload = part(header + 1);
    let is_signed = bytes.get(payload) == Some(&b'.') && payload - header > PART_MIN;
    is_signed.then(|| part(payload + 1))
}

/// `Bearer` and a token that nobody would write as a word.
fn bearer(text: &str, place: Range<usize>) -> Option<usize> {
    const LENGTH_MIN: usize = 16;
    let bytes = text.as_bytes();
    if place.start > 0 && alnum(bytes[place.start - 1]) {
        return None;
    }
    let length = bytes[place.end..].iter().take_while(|byte| token68(**byte)).count();
    let token = &bytes[place.end..place.end + length];
    let is_mixed = token.iter().any(u8::is_ascii_digit) && token.iter().any(u8::is_ascii_alphabetic);
    (length >= LENGTH_MIN && is_mixed).then_some(place.end + length)
}

/// `Basic` and Base64 of `name:password`.
fn basic(text: &str, place: Range<usize>) -> Option<usize> {
    let bytes = text.as_bytes();
    if place.start > 0 && alnum(bytes[place.start - 1]) {
        return None;
    }
    let length = bytes[place.end..].iter().take_while(|byte| base64(**byte)).count();
    let run = &bytes[place.end..place.end + length];
    let decoded = super::encoded::decode(run);
    let has_colon = decoded.iter().position(|byte| *byte == b':').is_some_and(|at| at > 0);
    (length >= 8 && has_colon && super::encoded::is_text(&decoded)).then_some(place.end + length)
}

/// `scheme://name:password@host`.
fn url_credentials(text: &str, place: Range<usize>) -> Option<usize> {
    let rest = &text[place.end..];
    let authority = &rest[..rest.find(['/', '?', '#', ' ', '"', '\'', '<', ')', '\n']).unwrap_or(rest.len())];
    let (user, _) = authority.rsplit_once('@')?;
    let (_, password) = user.split_once(':')?;
    let is_real = password.len() >= 3 && !password.contains(['*', '$', '{']);
    is_real.then_some(place.end + user.len())
}

/// A number of 8 to 10 digits, a colon, and 35 characters that begin with `AA`.
fn telegram(text: &str, place: Range<usize>) -> Option<usize> {
    let bytes = text.as_bytes();
    let number = bytes[..place.start].iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let length = bytes[place.end..].iter().take_while(|byte| url64(**byte)).count();
    let is_token = &bytes[place.clone()] == b":AA" && (8..=10).contains(&number) && length == 33;
    is_token.then_some(place.end + length)
}

/// `name = value` or `"name": "value"` within a text, where the name is that of a secret and the value could be one.
fn assignment(text: &str, place: Range<usize>) -> Option<(&'static str, Range<usize>)> {
    let bytes = text.as_bytes();
    let is_name = |byte: &u8| alnum(*byte) || matches!(*byte, b'_' | b'-' | b'.');
    if bytes.get(place.end).is_some_and(is_name) {
        return None;
    }
    let name = place.start - bytes[..place.start].iter().rev().take_while(|byte| is_name(byte)).count();
    let skip = |from: usize, set: &[u8]| from + bytes[from..].iter().take_while(|byte| set.contains(byte)).count();
    let sign = skip(place.end, b"\"'\\ ");
    if !matches!(bytes.get(sign), Some(b'=' | b':')) {
        return None;
    }
    let start = skip(sign + 1, b"\"'\\ ");
    let ends = |byte: &u8| byte.is_ascii_whitespace() || matches!(*byte, b'"' | b'\'' | b'&' | b',' | b';' | b'\\');
    let end = bytes[start..].iter().position(ends).map_or(text.len(), |at| start + at);
    let (name, value) = (text.get(name..place.end)?, text.get(start..end)?);
    names::holds_secret(name, value).then(|| names::rule(name).map(|rule| (rule, start..end))).flatten()
}
