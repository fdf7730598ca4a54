//! A message's own attributes.

use std::collections::BTreeMap;

/// By their names, in the order that their digest wants.
pub type MessageAttributes = BTreeMap<String, MessageAttribute>;

/// One.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageAttribute {
    /// `String`, `Number` or `Binary`, with a label behind a dot if it has one.
    pub data_type: String,
    /// Text for the first two.
    pub value: AttributeValue,
}

/// What an attribute holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeValue {
    /// Of `String` and `Number`.
    Text(String),
    /// Of `Binary`.
    Binary(Vec<u8>),
}

impl AttributeValue {
    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Binary(bytes) => bytes,
        }
    }
}

/// What they count against the size limits.
pub(super) fn bytes(attributes: &MessageAttributes) -> usize {
    attributes.iter().map(|(name, one)| name.len() + one.data_type.len() + one.value.bytes().len()).sum()
}

/// Most significant digits of a number.
const DIGITS_MAX: usize = 38;

/// Whether this is a decimal number, with an exponent or without, that the service would take.
pub(super) fn is_number(text: &str) -> bool {
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (mantissa, exponent) = (unsigned(mantissa), unsigned(exponent));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let significant = whole.trim_start_matches('0').len() + fraction.len();
    (1..=3).contains(&exponent.len())
        && digits(exponent)
        && whole.len() + fraction.len() > 0
        && digits(whole)
        && digits(fraction)
        && significant <= DIGITS_MAX
}

fn unsigned(number: &str) -> &str {
    number.strip_prefix(['+', '-']).unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        let longest = "9".repeat(38);
        for number in ["0", "-1", "+1.5", ".5", "5.", "1e3", "1E-128", longest.as_str(), "000.1"] {
            assert!(is_number(number), "{number}");
        }
        for text in ["", ".", "-", "1,5", "0x1", "1e", "e1", "1.2.3", "NaN", " 1", "1e1234", &format!("{longest}1")] {
            assert!(!is_number(text), "{text}");
        }
    }
}
