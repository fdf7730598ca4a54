//! Cron expressions: which texts are one, said field by field. What an expression means is for a crate to know, which
//! gets it in its plainest form: numbers for names.

use croner::Cron;
use croner::parser::{CronParser, Year};

/// Longer texts are not expressions but attacks.
const TEXT_BYTES_MAX: usize = 256;

/// One place of an expression.
struct Field {
    name: &'static str,
    low: u16,
    high: u16,
    /// Words for its numbers, from `low` on.
    words: &'static [&'static str],
    /// More than numbers: the last day, the nearest working day, the nth such weekday.
    more: More,
    example: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum More {
    No,
    Day,
    Weekday,
}

const MONTHS: [&str; 12] = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

const FIELDS: [Field; 6] = [
    field("second", (0, 59), More::No, "*, */15, 30, 0-29 or 0,30"),
    field("minute", (0, 59), More::No, "*, */15, 30, 0-29 or 0,30"),
    field("hour", (0, 23), More::No, "*, */6, 8, 8-17, 8-17/2 or 8,20"),
    field(
        "day of the month",
        (1, 31),
        More::Day,
        "*, */2, 15, 1-7, 1,15, L (the last), LW or 15W (the nearest working day)",
    ),
    Field { words: &MONTHS, ..field("month", (1, 12), More::No, "*, */3, 6, JUN, 6-8 or JAN,JUL") },
    Field {
        words: &WEEKDAYS,
        ..field("weekday", (0, 7), More::Weekday, "*, 1, MON, MON-FRI, MON,THU, FRI#2 (the second) or FRIL (the last)")
    },
];

const fn field(name: &'static str, (low, high): (u16, u16), more: More, example: &'static str) -> Field {
    Field { name, low, high, words: &[], more, example }
}

/// An expression that was understood.
pub(super) struct Expression {
    pub(super) cron: Cron,
    /// `*` or `/` stands in the hour: it is about every so many hours, not about times of the day.
    pub(super) is_open: bool,
}

/// Reads an expression of 5 or 6 fields.
pub(super) fn parse(text: &str) -> Result<Expression, String> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(format!("a cron expression has at most {TEXT_BYTES_MAX} bytes"));
    }
    let parts: Vec<&str> = text.split_ascii_whitespace().collect();
    let fields = match parts.len() {
        5 => &FIELDS[1..],
        6 => &FIELDS[..],
        count => return Err(wrong_count(text, count)),
    };
    let mut plain = Vec::with_capacity(parts.len());
    for (place, (field, part)) in fields.iter().zip(&parts).enumerate() {
        let told = |why: String| {
            let Field { name, example, .. } = field;
            format!("field {} ({name}): {why}; write {example}", place + 1)
        };
        plain.push(numbers(field, part).map_err(told)?);
    }
    let is_open = parts[parts.len() - 4].contains(['*', '/']);
    let parser = CronParser::builder().year(Year::Disallowed).build();
    let cron = parser.parse(&plain.join(" ")).map_err(|error| format!("this is no cron expression: {error}"))?;
    Ok(Expression { cron, is_open })
}

fn wrong_count(text: &str, count: usize) -> String {
    let short = match text.trim() {
        "@hourly" => "0 * * * *",
        "@daily" | "@midnight" => "0 0 * * *",
        "@weekly" => "0 0 * * SUN",
        "@monthly" => "0 0 1 * *",
        "@yearly" | "@annually" => "0 0 1 1 *",
        _ => {
            return format!(
                "a cron expression has 5 fields (minute, hour, day of the month, month, weekday), or 6 with the second \
                 first; this one has {count}"
            );
        }
    };
    format!("write `{short}` instead of `{}`", text.trim())
}

/// A field with numbers for names.
fn numbers(field: &Field, text: &str) -> Result<String, String> {
    if text == "*" {
        return Ok(text.to_owned());
    }
    let items: Result<Vec<String>, String> = text.split(',').map(|entry| item(field, entry)).collect();
    Ok(items?.join(","))
}

fn item(field: &Field, text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("something is missing between commas".into());
    }
    if let Some(plain) = special(field, text)? {
        return Ok(plain);
    }
    let (base, step) = match text.split_once('/') {
        Some((base, step)) => (base, Some(step_of(field, step)?)),
        None => (text, None),
    };
    let base = match base.split_once('-') {
        _ if base == "*" && step.is_some() => base.to_owned(),
        _ if base == "*" => return Err("`*` stands alone".into()),
        Some((from, to)) => range(field, from, to)?,
        None if step.is_some() => return Err(format!("a step goes with * or a range, not with `{base}`")),
        None => number(field, base)?.to_string(),
    };
    Ok(step.map_or_else(|| base.clone(), |step| format!("{base}/{step}")))
}

fn step_of(field: &Field, text: &str) -> Result<u16, String> {
    let most = field.high - field.low;
    let step = digits(text).filter(|step| (1..=most).contains(step));
    step.ok_or_else(|| format!("`{text}` is not a step from 1 to {most}"))
}

fn range(field: &Field, from: &str, to: &str) -> Result<String, String> {
    let (low, mut high) = (number(field, from)?, number(field, to)?);
    // A week may end with Sunday.
    if field.more == More::Weekday && high == 0 && low > 0 {
        high = 7;
    }
    if low > high {
        return Err(format!("the range `{from}-{to}` goes backwards: write two ranges with a comma"));
    }
    Ok(format!("{low}-{high}"))
}

/// `L`, `LW` and `15W` for days, `FRI#2` and `FRIL` for weekdays.
fn special(field: &Field, text: &str) -> Result<Option<String>, String> {
    let upper = text.to_ascii_uppercase();
    match field.more {
        More::Day if upper == "L" || upper == "LW" => Ok(Some(upper)),
        More::Day => match upper.strip_suffix('W') {
            Some(day) => number(field, day).map(|day| Some(format!("{day}W"))),
            None => Ok(None),
        },
        More::Weekday => match (upper.split_once('#'), upper.strip_suffix('L')) {
            (Some((day, "L")), _) | (None, Some(day)) => number(field, day).map(|day| Some(format!("{day}#L"))),
            (Some((day, nth)), _) => {
                let nth = digits(nth).filter(|nth| (1..=5).contains(nth));
                let nth = nth.ok_or("behind # stands 1 to 5, which of the month's it is, or L for the last")?;
                number(field, day).map(|day| Some(format!("{day}#{nth}")))
            }
            (None, None) => Ok(None),
        },
        More::No => Ok(None),
    }
}

fn number(field: &Field, text: &str) -> Result<u16, String> {
    let word = field.words.iter().position(|word| word.eq_ignore_ascii_case(text));
    let word = word.and_then(|place| u16::try_from(place).ok()).map(|place| field.low + place);
    let number = word.or_else(|| digits(text)).filter(|number| (field.low..=field.high).contains(number));
    number.ok_or_else(|| format!("`{text}` is no {} from {} to {}", field.name, field.low, field.high))
}

fn digits(text: &str) -> Option<u16> {
    (text.len() <= 3 && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_of_five_and_six_fields() {
        for (text, is_open) in [
            ("* * * * *", true),
            ("*/15 * * * *", true),
            ("0 8-18/2 * * *", true),
            ("*/15 8 * * *", false),
            ("0 9-17 * * mon-fri", false),
            ("30 0 2 * * *", false),
            (" 0  0 1 JAN,jul *\t", false),
            ("0 0 L * *", false),
            ("0 0 LW * *", false),
            ("0 0 15w * *", false),
            ("0 0 * * FRI#2", false),
            ("0 0 * * FRIL", false),
            ("0 0 * * 5#L", false),
            ("0 0 * * SAT-SUN", false),
            ("0 0 * * 7", false),
            ("0 0 29 2 *", false),
            ("* * * * * *", true),
        ] {
            match parse(text) {
                Ok(expression) => assert_eq!(expression.is_open, is_open, "{text}"),
                Err(why) => panic!("{text}: {why}"),
            }
        }
    }

    #[test]
    fn what_is_wrong_and_where() {
        for (text, told) in [
            (
                "",
                "a cron expression has 5 fields (minute, hour, day of the month, month, weekday), or 6 with the second first; this one has 0",
            ),
            ("* * * *", "this one has 4"),
            ("0 0 1 1 * 2027 1", "this one has 7"),
            ("@daily", "write `0 0 * * *` instead of `@daily`"),
            ("60 * * * *", "field 1 (minute): `60` is no minute from 0 to 59; write *, */15, 30, 0-29 or 0,30"),
            ("0 24 * * *", "field 2 (hour): `24` is no hour from 0 to 23"),
            ("0 60 * * * *", "field 2 (minute): `60`"),
            ("0 0 0 * *", "field 3 (day of the month): `0`"),
            ("0 0 * 13 *", "field 4 (month): `13`"),
            ("0 0 * FEBRUARY *", "field 4 (month): `FEBRUARY`"),
            ("0 0 * * 8", "field 5 (weekday): `8`"),
            ("0 0 * * FRI-MON", "field 5 (weekday): the range `FRI-MON` goes backwards"),
            ("0 0 * * FRI#6", "field 5 (weekday): behind # stands 1 to 5"),
            ("0 17-9 * * *", "field 2 (hour): the range `17-9` goes backwards"),
            ("*/0 * * * *", "field 1 (minute): `0` is not a step from 1 to 59"),
            ("*/60 * * * *", "field 1 (minute): `60` is not a step"),
            ("5/10 * * * *", "field 1 (minute): a step goes with * or a range, not with `5`"),
            ("1,,2 * * * *", "field 1 (minute): something is missing between commas"),
            ("*,5 * * * *", "field 1 (minute): `*` stands alone"),
            ("-1 * * * *", "field 1 (minute): `` is no minute"),
            ("+1 * * * *", "field 1 (minute): `+1`"),
            ("? * * * *", "field 1 (minute): `?`"),
            ("0 0 1MON * *", "field 3"),
            ("0 0 ? * MON", "field 3 (day of the month): `?`"),
            ("é * * * *", "field 1 (minute): `é`"),
        ] {
            match parse(text) {
                Ok(_) => panic!("{text} was taken"),
                Err(why) => assert!(why.contains(told), "{text}: {why}"),
            }
        }
        assert!(parse(&"0 ".repeat(200)).is_err());
    }
}
