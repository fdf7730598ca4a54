//! Durations and sizes as the contract writes them: a number and one unit.

use std::time::Duration;

/// `"1.5s"`: a number and one of `ms s m h d`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a duration: a number and one unit of ms, s, m, h, d, like 30s");
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let seconds = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        _ => return Err(wrong()),
    };
    Duration::try_from_secs_f64(number * seconds).map_err(|_| wrong())
}

/// `"64KiB"`: a number and one of `B KiB MiB GiB`.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a size: a whole number and one unit of B, KiB, MiB, GiB, like 256MiB");
    let at = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(at);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let bytes: u64 = match unit {
        "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err(wrong()),
    };
    number.checked_mul(bytes).ok_or_else(wrong)
}

fn split(text: &str) -> Option<(f64, &str)> {
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(at);
    Some((number.parse().ok()?, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, expected) in [
            ("500ms", Some(500)),
            ("1.5s", Some(1_500)),
            ("2m", Some(120_000)),
            ("1d", Some(86_400_000)),
            ("0s", Some(0)),
            ("30", None),
            ("1h30m", None),
            ("-1s", None),
            ("s", None),
            ("", None),
        ] {
            let got = duration(text).ok().map(|d| d.as_millis());
            assert_eq!(got, expected, "{text}");
        }
    }

    #[test]
    fn sizes() {
        for (text, expected) in [
            ("64KiB", Some(65_536)),
            ("1B", Some(1)),
            ("2GiB", Some(2 << 30)),
            ("64", None),
            ("64kb", None),
            ("1.5MiB", None),
            ("99999999999999999999GiB", None),
            ("18014398509481984GiB", None),
            ("", None),
        ] {
            assert_eq!(size(text).ok(), expected, "{text}");
        }
    }
}
