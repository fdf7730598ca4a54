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
