//! Reading a message that is sent: its body, attributes and ids, and what the service says when one is wrong.

use super::{AttributeValue, Message, MessageAttribute, MessageAttributes, attribute};
use crate::decode::Members;
use crate::error::{Code, SqsError};

/// Longest delay.
const DELAY_S_MAX: u32 = 900;

/// Most attributes of a message.
const ATTRIBUTES_MAX: usize = 10;

/// Longest name of an attribute.
const NAME_BYTES_MAX: usize = 256;

/// Longest type of an attribute, with its label.
const TYPE_BYTES_MAX: usize = 256;

/// Longest id of a group, of a deduplication, of a receive's attempt.
const FIFO_ID_LENGTH_MAX: usize = 128;

impl Message {
    /// Its bytes, which count in a batch even if it is refused, and what it is. An outer error is about the form of
    /// the request.
    pub(crate) fn read(members: &mut Members<'_>) -> Result<(usize, Result<Self, SqsError>), SqsError> {
        let body = members.text("MessageBody")?.unwrap_or_default();
        let attributes = raw_attributes(members.structure_map("MessageAttributes", "MessageAttribute")?)?;
        let system = members.structure_map("MessageSystemAttributes", "MessageSystemAttribute")?;
        let system = raw_attributes(system)?;
        let bytes = body.len() + attributes.iter().map(RawAttribute::bytes).sum::<usize>();
        Ok((bytes, Self::checked(members, body, attributes, system)))
    }

    fn checked(
        members: &mut Members<'_>,
        body: String,
        attributes: Vec<RawAttribute>,
        system: Vec<RawAttribute>,
    ) -> Result<Self, SqsError> {
        check_body(&body)?;
        let reason = "DelaySeconds must be >= 0 and <= 900.";
        Ok(Self {
            body,
            delay_s: members.integer_in("DelaySeconds", 0, DELAY_S_MAX, reason)?,
            attributes: checked_attributes(attributes)?,
            trace_header: trace_header(system)?,
            deduplication_id: fifo_id(members, "MessageDeduplicationId")?,
            group_id: fifo_id(members, "MessageGroupId")?,
        })
    }
}

/// An id that is compared: of a group, of a deduplication, of a receive's attempt.
pub(crate) fn fifo_id(members: &mut Members<'_>, name: &str) -> Result<Option<String>, SqsError> {
    let Some(id) = members.text(name)? else { return Ok(None) };
    if !(1..=FIFO_ID_LENGTH_MAX).contains(&id.len()) || !id.bytes().all(|b| b.is_ascii_graphic()) {
        let reason = format!("{name} can only include alphanumeric and punctuation characters. 1 to 128 in length.");
        return Err(SqsError::invalid_value(&id, name, &reason));
    }
    Ok(Some(id))
}

fn check_body(body: &str) -> Result<(), SqsError> {
    if body.is_empty() {
        return Err(SqsError::missing("MessageBody"));
    }
    if !is_xml(body) {
        return Err(SqsError::new(Code::InvalidMessageContents, INVALID_CHARACTERS));
    }
    Ok(())
}

const INVALID_CHARACTERS: &str = "Invalid characters found. Valid unicode characters are \
    #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF";

/// Whether XML can hold every character.
fn is_xml(text: &str) -> bool {
    let control = |b: u8| b < 0x20 && !matches!(b, b'\t' | b'\n' | b'\r');
    // U+FFFE and U+FFFF are the only others that are no characters of XML: EF BF BE and EF BF BF.
    let is_other = |three: &[u8]| matches!(three, [0xEF, 0xBF, 0xBE | 0xBF]);
    !(text.bytes().any(control) || text.as_bytes().contains(&0xEF) && text.as_bytes().windows(3).any(is_other))
}

/// An attribute as it came.
struct RawAttribute {
    name: String,
    data_type: Option<String>,
    text: Option<String>,
    binary: Option<Vec<u8>>,
}

impl RawAttribute {
    fn bytes(&self) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        self.name.len() + text(&self.data_type) + text(&self.text) + self.binary.as_ref().map_or(0, Vec::len)
    }
}

fn raw_attributes(structures: Vec<(String, Members<'_>)>) -> Result<Vec<RawAttribute>, SqsError> {
    let raw = |(name, mut members): (String, Members<'_>)| {
        let lists = [("StringListValues", "StringListValue"), ("BinaryListValues", "BinaryListValue")];
        for (plural, flat) in lists {
            if !members.texts(plural, flat)?.is_empty() {
                let message = "Message attribute list values in SendMessage operation are not supported.";
                return Err(SqsError::new(Code::UnsupportedOperation, message));
            }
        }
        Ok(RawAttribute {
            name,
            data_type: members.text("DataType")?,
            text: members.text("StringValue")?,
            binary: members.bytes("BinaryValue")?,
        })
    };
    structures.into_iter().map(raw).collect()
}

fn checked_attributes(raw: Vec<RawAttribute>) -> Result<MessageAttributes, SqsError> {
    if raw.len() > ATTRIBUTES_MAX {
        let sent = raw.len();
        return Err(invalid(format!(
            "Number of message attributes [{sent}] exceeds the allowed maximum [{ATTRIBUTES_MAX}]."
        )));
    }
    let mut attributes = MessageAttributes::new();
    for raw in raw {
        check_attribute_name(&raw.name)?;
        let name = raw.name.clone();
        if attributes.insert(name, value(raw)?).is_some() {
            return Err(invalid("Message (user) attribute names must be distinct.".to_owned()));
        }
    }
    Ok(attributes)
}

fn check_attribute_name(name: &str) -> Result<(), SqsError> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(invalid(format!("Message (user) attribute names must be 1 to {NAME_BYTES_MAX} bytes long.")));
    }
    // Letters with an accent pass at the service too.
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '\u{C0}'..='\u{17F}');
    if let Some(c) = name.chars().find(|c| !allowed(*c)) {
        return Err(invalid(format!(
            "Invalid non-alphanumeric character '#x{:X}' was found in the message attribute name. \
             Can only include alphanumeric characters, hyphens, underscores, or dots.",
            u32::from(c)
        )));
    }
    if name.starts_with('.') || name.ends_with('.') || name.contains("..") {
        return Err(invalid(
            "You can't use message attribute names that begin or end with '.', or contain '..'. \
             Invalid message attribute name."
                .to_owned(),
        ));
    }
    let lower = name.to_ascii_lowercase();
    if lower.starts_with("aws.") || lower.starts_with("amazon.") {
        return Err(invalid(
            "You can't use message attribute names beginning with 'AWS.' or 'Amazon.'. \
             These strings are reserved for internal use. Invalid message attribute name."
                .to_owned(),
        ));
    }
    Ok(())
}

fn value(RawAttribute { name, data_type, text, binary }: RawAttribute) -> Result<MessageAttribute, SqsError> {
    let data_type = data_type.unwrap_or_default();
    if data_type.is_empty() {
        return Err(invalid(format!("Message (user) attribute '{name}' must contain a non-empty attribute type.")));
    }
    if data_type.len() > TYPE_BYTES_MAX {
        return Err(invalid(format!(
            "Invalid type of message (user) attribute '{name}': it must be at most {TYPE_BYTES_MAX} bytes long."
        )));
    }
    // Some clients write the other value too, and leave it empty.
    let (text, binary) = (text.filter(|text| !text.is_empty()), binary.filter(|bytes| !bytes.is_empty()));
    // A dot without a label behind it is no type.
    let (kind, label) = data_type.split_once('.').map_or((&*data_type, None), |(kind, label)| (kind, Some(label)));
    let filled = match kind {
        _ if label == Some("") => return Err(invalid_type(&name)),
        "String" | "Number" => text.filter(|_| binary.is_none()).map(AttributeValue::Text),
        "Binary" => binary.filter(|_| text.is_none()).map(AttributeValue::Binary),
        _ => return Err(invalid_type(&name)),
    };
    let value = filled.ok_or_else(|| {
        // The base type, whatever the label.
        invalid(format!("Message (user) attribute '{name}' must contain a non-empty value of type '{kind}'."))
    })?;
    if let AttributeValue::Text(text) = &value {
        if !is_xml(text) {
            return Err(invalid(INVALID_CHARACTERS.to_owned()));
        }
        if kind == "Number" && !attribute::is_number(text) {
            return Err(invalid(format!("Can't cast the value of message (user) attribute '{name}' to a number.")));
        }
    }
    Ok(MessageAttribute { data_type, value })
}

fn invalid_type(name: &str) -> SqsError {
    invalid(format!(
        "The type of message (user) attribute '{name}' is invalid. \
         You must use only the following supported type prefixes: Binary, Number, String."
    ))
}

fn trace_header(raw: Vec<RawAttribute>) -> Result<Option<String>, SqsError> {
    let mut header = None;
    for RawAttribute { name, data_type, text, .. } in raw {
        if name != super::TRACE_HEADER {
            return Err(invalid(format!(
                "Message system attribute name '{name}' is invalid. The only supported one is 'AWSTraceHeader'."
            )));
        }
        let text = text.filter(|text| !text.is_empty() && data_type.as_deref() == Some("String"));
        let text = text.ok_or_else(|| {
            invalid(format!("Message (system) attribute '{name}' must contain a non-empty value of type 'String'."))
        })?;
        if !is_xml(&text) {
            return Err(invalid(INVALID_CHARACTERS.to_owned()));
        }
        header = Some(text);
    }
    Ok(header)
}

fn invalid(message: String) -> SqsError {
    SqsError::new(Code::InvalidParameterValue, message)
}
