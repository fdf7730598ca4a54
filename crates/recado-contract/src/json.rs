//! Strict reading of JSON. The happy path is plain serde; a body that fails is read again with its
//! path tracked, only to say what is wrong and where.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{self, DeserializeOwned, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;
use serde_json::value::RawValue;

use crate::limits::ERRORS_MAX;
use crate::nearest::nearest;
use crate::objects::Objects;
use crate::problem::{FieldError, Problem};

/// One object, or an array of them.
#[derive(Debug)]
pub enum OneOrMany<T> {
    /// Errors carry no index.
    One(T),
    /// Errors carry an index.
    Many(Vec<T>),
}

/// The body as text.
pub fn text(body: &[u8]) -> Result<&str, Problem> {
    std::str::from_utf8(body).map_err(|error| {
        let before = &body[..error.valid_up_to()];
        let line_start = before.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
        let line = 1 + before.iter().filter(|b| **b == b'\n').count();
        Problem::malformed(line, 1 + before.len() - line_start, "this is not UTF-8")
    })
}

/// Reads a whole body.
pub fn parse<'de, T: Deserialize<'de>>(body: &'de [u8]) -> Result<T, Problem> {
    let text = text(body)?;
    read(text).map_err(|error| match malformed(&error) {
        Some(problem) => problem,
        None => Problem::invalid(vec![explain::<T>(text, None)]),
    })
}

/// Reads an object or an array of objects. Of an array every bad entry is named, up to a limit.
pub fn parse_many<'de, T: Deserialize<'de>>(text: &'de str) -> Result<OneOrMany<T>, Problem> {
    if !text.trim_start().starts_with('[') {
        return parse(text.as_bytes()).map(OneOrMany::One);
    }
    parse_list(text).map(OneOrMany::Many)
}

/// Reads an array of objects.
pub fn parse_list<'de, T: Deserialize<'de>>(text: &'de str) -> Result<Vec<T>, Problem> {
    read(text).map_err(|error| match malformed(&error) {
        Some(problem) => problem,
        None => match serde_json::from_str::<Vec<&RawValue>>(text) {
            Ok(entries) => Problem::invalid(explain_entries::<T>(&entries)),
            Err(error) => malformed(&error).unwrap_or_else(|| Problem::field("", "expected an array")),
        },
    })
}

/// What is wrong with each entry of an array.
pub fn explain_entries<'de, T: Deserialize<'de>>(entries: &[&'de RawValue]) -> Vec<FieldError> {
    let wrong = entries.iter().enumerate().filter(|(_, entry)| read::<T>(entry.get()).is_err());
    wrong.take(ERRORS_MAX).map(|(index, entry)| explain::<T>(entry.get(), Some(index))).collect()
}

/// Reads one entry of an array.
pub fn entry<'de, T: Deserialize<'de>>(raw: &'de RawValue) -> Result<T, FieldError> {
    read(raw.get()).map_err(|_| explain::<T>(raw.get(), None))
}

/// Converts a value that is JSON already, such as a section of the configuration file.
pub fn from_value<T: DeserializeOwned>(value: &serde_json::Value) -> Result<T, FieldError> {
    serde_path_to_error::deserialize(Objects(value)).map_err(|error| field_error(error, None))
}

/// Reads one value and nothing behind it.
fn read<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = T::deserialize(Objects(&mut reader))?;
    reader.end()?;
    Ok(value)
}

fn malformed(error: &serde_json::Error) -> Option<Problem> {
    match error.classify() {
        Category::Data => None,
        _ => Some(Problem::malformed(error.line(), error.column().max(1), &without_place(&error.to_string()))),
    }
}

fn explain<'de, T: Deserialize<'de>>(text: &'de str, index: Option<usize>) -> FieldError {
    let mut reader = serde_json::Deserializer::from_str(text);
    match serde_path_to_error::deserialize::<_, T>(Objects(&mut reader)) {
        Err(error) => field_error(error, index),
        Ok(_) => FieldError { index, message: "this cannot be read".into(), ..FieldError::default() },
    }
}

fn field_error<E: fmt::Display>(error: serde_path_to_error::Error<E>, index: Option<usize>) -> FieldError {
    let mut pointer = pointer(error.path());
    let message = without_place(&error.inner().to_string());
    if let Some(field) =
        quoted_after(&message, "missing field `").or_else(|| quoted_after(&message, "duplicate field `"))
    {
        let end = format!("/{field}");
        if !pointer.ends_with(&end) {
            pointer.push_str(&end);
        }
    }
    let word = quoted_after(&message, "unknown field `").or_else(|| quoted_after(&message, "unknown variant `"));
    let known: Vec<&str> =
        message.split_once("expected").map_or("", |(_, known)| known).split('`').skip(1).step_by(2).collect();
    let nearest = word.and_then(|word| nearest(word, known)).map(str::to_owned);
    let mut message = for_people(&message);
    if let Some(nearest) = &nearest {
        message.push_str(&format!("; did you mean `{nearest}`?"));
    }
    FieldError { index, pointer, rule: None, message, nearest }
}

fn pointer(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    path.iter().fold(String::new(), |pointer, segment| match segment {
        Segment::Seq { index } => format!("{pointer}/{index}"),
        Segment::Map { key } => format!("{pointer}/{}", escape(key)),
        Segment::Enum { .. } | Segment::Unknown => pointer,
    })
}

/// A name as a segment of a JSON pointer.
pub fn escape(key: &str) -> String {
    key.chars().take(200).collect::<String>().replace('~', "~0").replace('/', "~1")
}

fn quoted_after<'m>(message: &'m str, start: &str) -> Option<&'m str> {
    message.strip_prefix(start)?.split('`').next()
}

fn without_place(message: &str) -> String {
    let end = message.rfind(" at line ").unwrap_or(message.len());
    message[..end].to_owned()
}

/// serde's words for types, in those of JSON.
fn for_people(message: &str) -> String {
    if message.starts_with("duplicate field") {
        return message.replace("duplicate field", "the key stands twice:");
    }
    let mut message = message
        .replace("invalid type: map", "invalid type: an object")
        .replace("invalid type: sequence", "invalid type: an array");
    for (rust, people) in [
        ("expected u8", "expected a whole number from 0 to 255"),
        ("expected u32", "expected a whole number from 0 to 4294967295"),
        ("expected u64", "expected a whole number of 0 or more"),
        ("expected usize", "expected a whole number of 0 or more"),
        ("expected f64", "expected a number"),
        ("expected a boolean", "expected true or false"),
        ("expected a sequence", "expected an array"),
        ("expected a map", "expected an object"),
    ] {
        if message.ends_with(rust) {
            message.truncate(message.len() - rust.len());
            message.push_str(people);
        }
    }
    match message.find("expected struct ") {
        Some(at) => format!("{}expected an object", &message[..at]),
        None => message,
    }
}

/// Checks free JSON: no key twice in one object, nothing that a strict reader would stumble over
/// (lone surrogates, numbers out of range, nesting beyond 128). `pointer` says where it stands.
pub fn check_free(raw: &RawValue, pointer: &str) -> Result<(), FieldError> {
    if serde_json::from_str::<Free>(raw.get()).is_ok() {
        return Ok(());
    }
    let mut reader = serde_json::Deserializer::from_str(raw.get());
    match serde_path_to_error::deserialize::<_, Free>(&mut reader) {
        Ok(_) => Ok(()),
        Err(error) => {
            let mut fault = field_error(error, None);
            fault.pointer = format!("{pointer}{}", fault.pointer);
            Err(fault)
        }
    }
}

/// Any JSON, walked and forgotten.
pub struct Free;

impl<'de> Deserialize<'de> for Free {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for Free {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self, A::Error> {
        while seq.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self, A::Error> {
        let mut seen = Keys::default();
        while let Some(key) = map.next_key_seed(Key)? {
            if let Some(twice) = seen.add(key) {
                return Err(de::Error::custom(format_args!("duplicate field `{twice}`")));
            }
            map.next_value::<Self>()?;
        }
        Ok(self)
    }
}

/// Keys of one object: few are compared one by one, many are hashed.
#[derive(Default)]
struct Keys<'de> {
    few: Vec<Cow<'de, str>>,
    many: HashSet<Cow<'de, str>>,
}

const FEW_KEYS: usize = 16;

impl<'de> Keys<'de> {
    fn add(&mut self, key: Cow<'de, str>) -> Option<Cow<'de, str>> {
        if self.few.contains(&key) || self.many.contains(&key) {
            return Some(key);
        }
        if self.few.len() < FEW_KEYS {
            self.few.push(key);
        } else {
            self.many.insert(key);
        }
        None
    }
}

/// A key, borrowed where it has no escapes.
pub(crate) struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Cow<'de, str>;

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(key))
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(key.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stand_once_at_every_depth() {
        let many: String = (0..40).map(|i| format!("\"k{i}\":{i},")).collect();
        for (text, expected) in [
            (r#"{"a":1,"b":{"a":2}}"#.to_owned(), None),
            (r#"{"a":1,"a":2}"#.to_owned(), Some("/payload/a")),
            (r#"{"x":[{"b":1,"b":1}]}"#.to_owned(), Some("/payload/x/0/b")),
            (r#"{"a":1,"\u0061":2}"#.to_owned(), Some("/payload/a")),
            (format!("{{{many}\"k39\":0}}"), Some("/payload/k39")),
            (format!("{{{many}\"k0\":0}}"), Some("/payload/k0")),
        ] {
            let raw: &RawValue = serde_json::from_str(&text).unwrap();
            let found = check_free(raw, "/payload").err();
            assert_eq!(found.map(|error| error.pointer).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn what_others_could_not_read_is_refused() {
        let deep = "[".repeat(200) + &"]".repeat(200);
        for text in [r#""\ud800""#, "1e999", &deep] {
            let raw: &RawValue = serde_json::from_str(text).unwrap();
            assert!(check_free(raw, "/payload").is_err(), "{text}");
        }
    }
}
