//! Instants as the contract writes them: RFC 3339.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use jiff::civil::date;
use jiff::fmt::temporal::Pieces;

/// Reads an instant with any offset, as milliseconds since the epoch; before it counts as at it.
pub fn parse(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a time: write RFC 3339 with an offset, as in \"2026-06-02T09:00:00Z\"");
    let at: Timestamp = match text.parse() {
        Ok(at) => at,
        Err(_) if is_last_day(text) => Timestamp::MAX,
        Err(_) => return Err(wrong()),
    };
    Ok(u64::try_from(at.as_millisecond()).unwrap_or(0))
}

/// The end of the year 9999, which people write for "never", is later than any instant that can be held.
fn is_last_day(text: &str) -> bool {
    let pieces = Pieces::parse(text).ok();
    pieces.is_some_and(|pieces| {
        pieces.date() >= date(9_999, 12, 30) && pieces.time().is_some() && pieces.offset().is_some()
    })
}

/// UTC with milliseconds and `Z`.
pub fn text(at: u64) -> String {
    let ms = i64::try_from(at).unwrap_or(i64::MAX);
    format!("{:.3}", Timestamp::from_millisecond(ms).unwrap_or(Timestamp::MAX))
}

/// The wall clock; used to refuse what is too far ahead, never to decide.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |past| past.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_offset_in_utc_with_milliseconds_out() {
        let at = parse("2026-06-02T11:00:00.5+02:00").unwrap();
        assert_eq!(text(at), "2026-06-02T09:00:00.500Z");
        assert_eq!(text(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(parse("9999-12-31T23:59:59Z").map(text), Ok(text(u64::MAX)));
        assert!(parse("9999-12-31").is_err());
        assert_eq!(parse("1960-01-01T00:00:00Z"), Ok(0));
        for wrong in ["", "now", "2026-06-02", "2026-06-02T09:00:00", "2026-13-02T09:00:00Z"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
