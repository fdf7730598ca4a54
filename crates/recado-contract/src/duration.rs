//! Durations as the contract writes them: a number and one unit.

use std::time::Duration;

/// Units with their length in milliseconds, largest first.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Longer numbers than this are not durations but attacks.
const TEXT_BYTES_MAX: usize = 24;

/// Reads `"1.5s"` as 1500 milliseconds.
pub fn parse(text: &str) -> Result<u64, String> {
    let wrong =
        || format!("`{}` is not a duration: write a number and one unit of ms, s, m, h, d, as in \"30s\"", cut(text));
    if text.len() > TEXT_BYTES_MAX {
        return Err(wrong());
    }
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(unit_at);
    let (_, unit_ms) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
    let (whole, fraction) = match number.split_once('.') {
        Some((whole, fraction)) if !fraction.is_empty() => (whole, fraction),
        Some(_) => return Err(wrong()),
        None => (number, ""),
    };
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > 9 {
        return Err(wrong());
    }
    let scale = 10u128.pow(fraction.len() as u32);
    let scaled: u128 = format!("{whole}{fraction}").parse().map_err(|_| wrong())?;
    let product = scaled.checked_mul(u128::from(*unit_ms)).ok_or_else(wrong)?;
    if !product.is_multiple_of(scale) {
        return Err(format!("`{text}` is finer than a millisecond"));
    }
    u64::try_from(product / scale).map_err(|_| format!("`{text}` is too long"))
}

/// Reads `"1.5s"` as a [`Duration`].
pub fn read(text: &str) -> Result<Duration, String> {
    parse(text).map(Duration::from_millis)
}

/// The largest unit that is exact: `90000` is `"90s"`.
pub fn text(ms: u64) -> String {
    if ms == 0 {
        return "0s".to_owned();
    }
    let exact = UNITS.iter().find(|(_, unit_ms)| ms.is_multiple_of(*unit_ms));
    let (unit, unit_ms) = exact.unwrap_or(&("ms", 1));
    format!("{}{unit}", ms / unit_ms)
}

fn cut(text: &str) -> &str {
    text.get(..TEXT_BYTES_MAX).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_and_one_unit() {
        for (text, expected) in [
            ("0s", Some(0)),
            ("1.5s", Some(1_500)),
            ("250ms", Some(250)),
            ("0.25h", Some(900_000)),
            ("365d", Some(31_536_000_000)),
            ("1h30m", None),
            ("30", None),
            ("", None),
            ("s", None),
            ("-1s", None),
            ("+1s", None),
            ("1.s", None),
            (".5s", None),
            ("1 s", None),
            ("1S", None),
            ("1e3s", None),
            ("0.5ms", None),
            ("99999999999999999999d", None),
            ("99999999999999999999999999999999999d", None),
            ("NaNs", None),
        ] {
            assert_eq!(parse(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn the_largest_exact_unit() {
        for (ms, expected) in
            [(0, "0s"), (1, "1ms"), (1_500, "1500ms"), (90_000, "90s"), (3_600_000, "1h"), (172_800_000, "2d")]
        {
            assert_eq!(text(ms), expected);
            assert_eq!(parse(expected), Ok(ms));
        }
    }
}
