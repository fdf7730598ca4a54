//! Durations and sizes as the contract writes them.

use recado_contract::{duration, size};

/// What is read is written so that it is read the same again, and never longer than it was.
pub(crate) fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(ms) = duration::parse(text) {
        let written = duration::text(ms);
        assert_eq!(duration::parse(&written), Ok(ms), "{text} is written {written}");
        assert_eq!(value(text), Some(ms), "{text}");
    }
    if let Ok(bytes) = size::parse(text) {
        let written = size::text(bytes);
        assert_eq!(size::parse(&written), Ok(bytes), "{text} is written {written}");
    }
}

/// A second opinion: digit by digit, in thousandths of a millionth of a millisecond.
fn value(text: &str) -> Option<u64> {
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic())?;
    let unit_ms: u128 = match &text[unit_at..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    let (whole, fraction) = text[..unit_at].split_once('.').unwrap_or((&text[..unit_at], ""));
    const SCALE: u128 = 1_000_000_000;
    let mut sum = 0;
    for digit in whole.chars() {
        sum = sum * 10 + u128::from(digit.to_digit(10)?) * SCALE;
    }
    let mut place = SCALE;
    for digit in fraction.chars() {
        place /= 10;
        sum += u128::from(digit.to_digit(10)?) * place;
    }
    let ms = sum * unit_ms;
    (ms.is_multiple_of(SCALE)).then(|| u64::try_from(ms / SCALE).ok())?
}
