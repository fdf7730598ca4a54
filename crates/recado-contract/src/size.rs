//! Sizes as the contract writes them: a whole number and one unit.

const UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// Reads `"64KiB"` as 65536 bytes.
pub fn parse(text: &str) -> Result<u64, String> {
    let wrong =
        || format!("`{text}` is not a size: write a whole number and one unit of B, KiB, MiB, GiB, as in \"64KiB\"");
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(unit_at);
    let (_, unit_bytes) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(*unit_bytes).ok_or_else(wrong)
}

/// The largest unit that is exact.
pub fn text(bytes: u64) -> String {
    let exact = UNITS.iter().find(|(_, unit_bytes)| bytes != 0 && bytes.is_multiple_of(*unit_bytes));
    let (unit, unit_bytes) = exact.unwrap_or(&("B", 1));
    format!("{}{unit}", bytes / unit_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, expected) in [
            ("64KiB", Some(65_536)),
            ("1B", Some(1)),
            ("0B", Some(0)),
            ("64", None),
            ("64KB", None),
            ("1.5MiB", None),
            ("KiB", None),
            ("99999999999GiB", None),
        ] {
            assert_eq!(parse(text).ok(), expected, "{text}");
        }
        assert_eq!(text(65_536), "64KiB");
        assert_eq!(text(1_000), "1000B");
    }
}
