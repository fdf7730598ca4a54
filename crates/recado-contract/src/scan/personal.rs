//! Data about people: addresses, numbers that name a person or an account, and whole mail bodies.

use std::ops::Range;

use super::text::Shape;
use super::{Hit, Kind, Wanted, cards, names};

/// A longer text is a body, not a field.
pub(super) const TEXT_BYTES_MAX: usize = 2 << 10;

type Report<'r> = dyn FnMut(&'static str, Range<usize>) + 'r;

/// Of a text of a few bytes only its field's name can say that it is about a person.
pub(super) fn find_short(name: Option<&str>, text: &str, wanted: Wanted, report: &mut dyn FnMut(Hit)) {
    if wanted.personal && name.is_some_and(|name| is_phone_field(name, text)) {
        report(Hit { kind: Kind::Personal, rule: "phone-number", span: 0..text.len() });
    }
}

pub(super) fn find(name: Option<&str>, text: &str, shape: &Shape, report: &mut Report<'_>) {
    if text.len() > TEXT_BYTES_MAX && !is_image(text) {
        report("long-text", 0..text.len());
    }
    if shape.has_tag && has_html(text) {
        report("html", 0..text.len());
    }
    if name.is_some_and(names::is_identifier) {
        return;
    }
    if shape.has_at {
        emails(text, report);
    }
    if shape.digits >= 7 {
        if name.is_some_and(|name| is_phone_field(name, text)) {
            return report("phone-number", 0..text.len());
        }
        each_word(text, report);
    }
}

/// A picture is no mail body, however long.
fn is_image(text: &str) -> bool {
    ["data:image/", "iVBORw0KGgo", "/9j/", "R0lGOD", "UklGR"].iter().any(|begin| text.starts_with(begin))
}

fn has_html(text: &str) -> bool {
    const TAGS: &[&str] = &[
        "!doctype", "html", "head", "body", "p", "div", "span", "br", "a", "table", "tr", "td", "img", "h1", "h2",
        "h3", "ul", "ol", "li", "b", "i", "strong", "em", "style", "script", "font", "center",
    ];
    let bytes = text.as_bytes();
    let is_tag = |at: usize| {
        let rest = &bytes[at + 1..];
        let rest = rest.strip_prefix(b"/").unwrap_or(rest);
        let length = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'!').count();
        let ends = matches!(rest.get(length), Some(b'>' | b'/' | b' ' | b'\n'));
        ends && TAGS.iter().any(|tag| rest[..length].eq_ignore_ascii_case(tag.as_bytes()))
    };
    bytes.iter().enumerate().any(|(at, byte)| *byte == b'<' && is_tag(at))
}

fn emails(text: &str, report: &mut Report<'_>) {
    let bytes = text.as_bytes();
    let is_local = |byte: &u8| byte.is_ascii_alphanumeric() || b"._%+-!#$&'*/=?^`{|}~".contains(byte);
    let is_domain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(*byte, b'.' | b'-');
    for (at, _) in text.match_indices('@') {
        let local = bytes[..at].iter().rev().take_while(|byte| is_local(byte)).count();
        let domain = bytes[at + 1..].iter().take_while(|byte| is_domain(byte)).count();
        let host = text[at + 1..at + 1 + domain].trim_end_matches(['.', '-']);
        let Some((_, top)) = host.rsplit_once('.') else { continue };
        let is_top = top.len() >= 2 && top.bytes().all(|byte| byte.is_ascii_alphabetic());
        // `git@host` is an address of a machine.
        if (1..=64).contains(&local) && is_top && &text[at - local..at] != "git" && !host.contains("..") {
            report("email-address", at - local..at + 1 + host.len());
        }
    }
}

fn is_phone_field(name: &str, text: &str) -> bool {
    const NAMES: &[&str] = &["phone", "phonenumber", "mobile", "msisdn", "whatsapp", "fax", "tel", "telephone", "cell"];
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-. ()/".contains(&byte));
    (7..=15).contains(&digits) && is_number && {
        let compact: String = name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
        NAMES.iter().any(|known| compact.ends_with(known))
    }
}

/// Looks at each place where a number or an account could begin.
fn each_word(text: &str, report: &mut Report<'_>) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let begins =
            at == 0 || !(bytes[at - 1].is_ascii_alphanumeric() || matches!(bytes[at - 1], b'-' | b'_' | b'/' | b'.'));
        let found = if begins { word(bytes, at) } else { None };
        match found {
            Some((rule, end)) => {
                report(rule, at..end);
                at = end;
            }
            None => at += 1,
        }
    }
}

fn word(bytes: &[u8], at: usize) -> Option<(&'static str, usize)> {
    let rest = &bytes[at..];
    match rest[0] {
        b'+' => international(rest).map(|length| ("phone-number", at + length)),
        b'A'..=b'Z' => iban(rest)
            .map(|length| ("iban", at + length))
            .or_else(|| national_id(rest).map(|length| ("national-id", at + length))),
        b'0'..=b'9' | b'(' => national_id(rest)
            .map(|length| ("national-id", at + length))
            .or_else(|| domestic(rest).map(|length| ("phone-number", at + length))),
        _ => None,
    }
}

/// `+` and 8 to 15 digits (E.164), with the usual marks between.
fn international(rest: &[u8]) -> Option<usize> {
    let (mut digits, mut end) = (0, 1);
    for (index, byte) in rest.iter().enumerate().skip(1) {
        match byte {
            b'0'..=b'9' => {
                digits += 1;
                end = index + 1;
            }
            b' ' | b'-' | b'.' | b'(' | b')' if index < end + 2 => {}
            _ => break,
        }
    }
    ((8..=15).contains(&digits) && rest.get(1).is_some_and(u8::is_ascii_digit) && closes(rest, end)).then_some(end)
}

/// A form of letters and digits: `9` is a digit, `A` a capital, `#` either, all else itself.
fn fits(rest: &[u8], form: &str) -> Option<usize> {
    let is = |(byte, form): (&u8, u8)| match form {
        b'9' => byte.is_ascii_digit(),
        b'A' => byte.is_ascii_uppercase(),
        b'#' => byte.is_ascii_digit() || byte.is_ascii_uppercase(),
        other => *byte == other,
    };
    let fits = rest.len() >= form.len() && rest.iter().zip(form.bytes()).all(is) && closes(rest, form.len());
    fits.then_some(form.len())
}

fn closes(rest: &[u8], end: usize) -> bool {
    rest.get(end).is_none_or(|next| !(next.is_ascii_alphanumeric() || matches!(next, b'-' | b'_' | b'/')))
}

fn domestic(rest: &[u8]) -> Option<usize> {
    ["(999) 999-9999", "999-999-9999", "999.999.9999"].iter().find_map(|form| fits(rest, form))
}

/// Country, check digits and account (ISO 13616), also in groups of four.
fn iban(rest: &[u8]) -> Option<usize> {
    const LENGTHS: &[(&str, usize)] = &[
        ("AD", 24),
        ("AE", 23),
        ("AL", 28),
        ("AT", 20),
        ("AZ", 28),
        ("BA", 20),
        ("BE", 16),
        ("BG", 22),
        ("BH", 22),
        ("BR", 29),
        ("CH", 21),
        ("CR", 22),
        ("CY", 28),
        ("CZ", 24),
        ("DE", 22),
        ("DK", 18),
        ("DO", 28),
        ("EE", 20),
        ("EG", 29),
        ("ES", 24),
        ("FI", 18),
        ("FO", 18),
        ("FR", 27),
        ("GB", 22),
        ("GE", 22),
        ("GI", 23),
        ("GL", 18),
        ("GR", 27),
        ("GT", 28),
        ("HR", 21),
        ("HU", 28),
        ("IE", 22),
        ("IL", 23),
        ("IS", 26),
        ("IT", 27),
        ("JO", 30),
        ("KW", 30),
        ("KZ", 20),
        ("LB", 28),
        ("LI", 21),
        ("LT", 20),
        ("LU", 20),
        ("LV", 21),
        ("MC", 27),
        ("MD", 24),
        ("ME", 22),
        ("MK", 19),
        ("MT", 31),
        ("MU", 30),
        ("NL", 18),
        ("NO", 15),
        ("PK", 24),
        ("PL", 28),
        ("PS", 29),
        ("PT", 25),
        ("QA", 29),
        ("RO", 24),
        ("RS", 22),
        ("SA", 24),
        ("SE", 24),
        ("SI", 19),
        ("SK", 24),
        ("SM", 27),
        ("TN", 24),
        ("TR", 26),
        ("UA", 29),
        ("VA", 22),
        ("XK", 20),
    ];
    let country = rest.get(..2)?;
    let (_, length) = LENGTHS.iter().find(|(code, _)| code.as_bytes() == country)?;
    let (mut account, mut end) = (Vec::with_capacity(*length), 0);
    for (index, byte) in rest.iter().enumerate() {
        match byte {
            b'0'..=b'9' | b'A'..=b'Z' if account.len() < *length => {
                account.push(*byte);
                end = index + 1;
            }
            b' ' if account.len() < *length => {}
            _ => break,
        }
    }
    (account.len() == *length && closes(rest, end) && is_mod_97(&account)).then_some(end)
}

fn is_mod_97(account: &[u8]) -> bool {
    let (front, back) = account.split_at(4);
    let step = |sum: u32, byte: &u8| match byte {
        b'0'..=b'9' => (sum * 10 + u32::from(byte - b'0')) % 97,
        letter => (sum * 100 + u32::from(letter - b'A') + 10) % 97,
    };
    back.iter().chain(front).fold(0, step) == 1
}

fn digits(rest: &[u8], length: usize) -> Vec<u8> {
    rest[..length].iter().filter(|byte| byte.is_ascii_digit()).map(|byte| byte - b'0').collect()
}

/// Numbers that a state gives to a person, by their form and, where there is one, their check.
fn national_id(rest: &[u8]) -> Option<usize> {
    type Check = fn(&[u8]) -> bool;
    const FORMS: &[(&str, Check)] = &[
        ("999-99-9999", |id| !matches!(&id[..3], b"000" | b"666") && id[0] != b'9'), // United States
        ("999.999.999-99", is_cpf),                                                  // Brazil
        ("756.9999.9999.99", |_| true),                                              // Switzerland
        ("999999-9999", |id| cards::is_luhn(&digits(id, id.len()))),                 // Sweden
        ("99999999A", is_dni),                                                       // Spain
        ("AA999999A", |id| matches!(id[8], b'A'..=b'D')),                            // United Kingdom
        ("AA 99 99 99 A", |_| true),                                                 // the same, as it is printed
        ("AAAAAA99A99A999A", |_| true),                                              // Italy
        ("AAAAA9999A", |_| true),                                                    // India
        ("9 99 99 99 999 999 99", |_| true),                                         // France
    ];
    FORMS.iter().find_map(|(form, check)| fits(rest, form).filter(|length| check(&rest[..*length])))
}

fn is_cpf(id: &[u8]) -> bool {
    let digits = digits(id, id.len());
    let check = |count: usize| {
        let weighed = digits[..count].iter().zip((2..=count + 1).rev());
        let sum: usize = weighed.map(|(digit, weight)| usize::from(*digit) * weight).sum();
        sum * 10 % 11 % 10 == usize::from(digits[count])
    };
    check(9) && check(10)
}

fn is_dni(id: &[u8]) -> bool {
    const LETTERS: &[u8] = b"TRWAGMYFPDXBNJZSQVHLCKE";
    let number = digits(id, 8).iter().fold(0_usize, |sum, digit| sum * 10 + usize::from(*digit));
    LETTERS[number % LETTERS.len()] == id[8]
}

#[cfg(test)]
mod tests {
    use super::super::{Wanted, scan_json};

    #[test]
    fn people_are_found_and_things_are_not() {
        let wanted = Wanted { secrets: false, personal: true };
        let long = format!(r#"{{"body":"{}"}}"#, "word ".repeat(500));
        let image = format!(r#"{{"image":"data:image/png;base64,{}"}}"#, "iVBORw0KGgo".repeat(500));
        for (json, rule) in [
            (r#"{"to":"ada.lovelace+x@mail.example.org"}"#, Some("email-address")),
            (r#"{"note":"call +49 170 1234567 now"}"#, Some("phone-number")),
            (r#"{"phone":"5551234567"}"#, Some("phone-number")),
            (r#"{"mobile":"1234567"}"#, Some("phone-number")),
            (r#"{"t":"(555) 123-4567"}"#, Some("phone-number")),
            (r#"{"to":"DE89 3704 0044 0532 0130 00"}"#, Some("iban")),
            (r#"{"to":"GB82WEST12345698765432"}"#, Some("iban")),
            (r#"{"id2":"078-05-1120"}"#, Some("national-id")),
            (r#"{"n":"12345678Z"}"#, Some("national-id")),
            (r#"{"n":"529.982.247-25"}"#, Some("national-id")),
            (r#"{"b":"<html><body>Hello</body>"}"#, Some("html")),
            (r#"{"b":"dear<br/>Ada"}"#, Some("html")),
            (&long, Some("long-text")),
            (&image, None),
            (r#"{"remote":"git@github.com:recado/recado.git"}"#, None),
            (r#"{"at":"2026-06-02T09:00:00.000+02:00"}"#, None),
            (r#"{"package":"@scope/name@1.2.3"}"#, None),
            (r#"{"a":"x < y and y > z"}"#, None),
            (r#"{"to":"DE89370400440532013001"}"#, None),
            (r#"{"order":"2026-06-0002","sku":"078-05-11200"}"#, None),
            (r#"{"id":"550e8400-e29b-41d4-a716-446655440000"}"#, None),
        ] {
            let found = scan_json(json.as_bytes(), "", wanted);
            assert_eq!(found.first().map(|finding| finding.rule), rule, "{json}");
        }
    }
}
