//! Payment cards: issuer prefix, length and check digit (ISO/IEC 7812).

use std::ops::Range;

use super::names;

/// Digits of the shortest card.
pub(super) const DIGITS_MIN: usize = 12;
const DIGITS_MAX: usize = 19;

/// The smallest number with so many digits.
pub(super) const SMALLEST: u64 = 100_000_000_000;

/// How cards are written in groups.
const GROUPS: &[&[usize]] = &[&[4, 4, 4, 4, 3], &[4, 4, 4, 4], &[4, 6, 5], &[4, 6, 4]];

/// Reports each card. In a field for ids or numbers of orders an unbroken number is taken for one of these: of random
/// numbers one in fifty looks like a card.
pub(super) fn find(name: Option<&str>, text: &str, report: &mut dyn FnMut(Range<usize>)) {
    let is_id = name.is_some_and(names::is_identifier);
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if !bytes[at].is_ascii_digit() {
            at += 1;
            continue;
        }
        let run = run_of_digits(bytes, at);
        if begins(bytes, at) {
            let unbroken = (!is_id && run >= DIGITS_MIN).then_some(at + run).filter(|end| ends(bytes, *end));
            let grouped = || GROUPS.iter().find_map(|groups| end_of_groups(bytes, at, groups));
            if let Some(end) = unbroken.or_else(grouped).filter(|end| is_card(&bytes[at..*end])) {
                report(at..end);
                at = end;
                continue;
            }
        }
        at += run;
    }
}

fn run_of_digits(bytes: &[u8], at: usize) -> usize {
    bytes.iter().skip(at).take_while(|byte| byte.is_ascii_digit()).count()
}

/// A card is not the middle of a longer id, path or number.
fn begins(bytes: &[u8], at: usize) -> bool {
    let Some(before) = at.checked_sub(1).map(|before| bytes[before]) else { return true };
    !(before.is_ascii_alphanumeric() || matches!(before, b'-' | b'_' | b'.' | b'/'))
}

fn ends(bytes: &[u8], end: usize) -> bool {
    let Some(after) = bytes.get(end) else { return true };
    let goes_on = |byte: &u8| byte.is_ascii_alphanumeric();
    match after {
        b'-' | b'.' | b'_' | b'/' => !bytes.get(end + 1).is_some_and(goes_on),
        other => !goes_on(other),
    }
}

fn end_of_groups(bytes: &[u8], start: usize, groups: &[usize]) -> Option<usize> {
    let separator = *bytes.get(start + groups[0])?;
    // A plus is a space in a form.
    if !matches!(separator, b' ' | b'-' | b'+') {
        return None;
    }
    let mut at = start;
    for (index, length) in groups.iter().enumerate() {
        let is_apart = index == 0 || bytes.get(at) == Some(&separator);
        at += usize::from(index > 0);
        if !is_apart || run_of_digits(bytes, at) != *length {
            return None;
        }
        at += length;
    }
    ends(bytes, at).then_some(at)
}

fn is_card(written: &[u8]) -> bool {
    let mut digits = [0_u8; DIGITS_MAX];
    let mut count = 0;
    for byte in written.iter().filter(|byte| byte.is_ascii_digit()) {
        let Some(place) = digits.get_mut(count) else { return false };
        *place = byte - b'0';
        count += 1;
    }
    let digits = &digits[..count];
    count >= DIGITS_MIN && is_issued(digits) && is_luhn(digits)
}

/// Whether an issuer gives out cards with this beginning and length.
fn is_issued(digits: &[u8]) -> bool {
    let first = |count: usize| digits.iter().take(count).fold(0_u32, |sum, digit| sum * 10 + u32::from(*digit));
    let (two, three, four, six) = (first(2), first(3), first(4), first(6));
    match digits.len() {
        13 | 19 if digits[0] == 4 => true,
        14 => (300..=305).contains(&three) || two == 36 || two == 38 || two == 39 || four == 3095,
        15 => two == 34 || two == 37,
        16 => {
            let mastercard = (51..=55).contains(&two) || (2221..=2720).contains(&four);
            let discover = four == 6011 || (644..=659).contains(&three) || (622_126..=622_925).contains(&six);
            let mir = (2200..=2204).contains(&four);
            let maestro = is_maestro(four);
            digits[0] == 4 || mastercard || discover || mir || maestro || (3528..=3589).contains(&four) || two == 62
        }
        17..=19 => two == 62 || is_maestro(four) || (3528..=3589).contains(&four),
        12 | 13 => is_maestro(four),
        _ => false,
    }
}

fn is_maestro(four: u32) -> bool {
    matches!(four, 5018 | 5020 | 5038 | 5893 | 6304 | 6759 | 6761..=6763)
}

pub(super) fn is_luhn(digits: &[u8]) -> bool {
    let double = |digit: u8| if digit > 4 { 2 * digit - 9 } else { 2 * digit };
    let value = |(index, digit): (usize, &u8)| u32::from(if index % 2 == 1 { double(*digit) } else { *digit });
    digits.iter().rev().enumerate().map(value).sum::<u32>().is_multiple_of(10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_are_found_as_they_are_written_and_nowhere_else() {
        for (text, expected) in [
            ("4242424242424242", Some("4242424242424242")),
            ("card 4242 4242 4242 4242 12/29", Some("4242 4242 4242 4242")),
            ("4242-4242-4242-4242", Some("4242-4242-4242-4242")),
            ("pan=4242+4242+4242+4242&cvc=1", Some("4242+4242+4242+4242")),
            ("3782 822463 10005", Some("3782 822463 10005")),
            ("5555555555554444.", Some("5555555555554444")),
            ("4242424242424241", None),
            ("9242424242424248", None),
            ("ORD-4242424242424242", None),
            ("/orders/4242424242424242", None),
            ("4242424242424242a", None),
            ("550e8400-4242-4242-4242-424242424242", None),
            ("1764495600000", None),
        ] {
            let mut found = None;
            find(None, text, &mut |span| found = Some(&text[span]));
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn an_id_is_no_card_unless_it_is_written_like_one() {
        let found = |name: &str, text: &str| {
            let mut found = false;
            find(Some(name), text, &mut |_| found = true);
            found
        };
        assert!(!found("orderId", "4242424242424242") && !found("tracking_number", "4242424242424242"));
        assert!(found("orderId", "4242 4242 4242 4242") && found("cardNumber", "4242424242424242"));
    }
}
