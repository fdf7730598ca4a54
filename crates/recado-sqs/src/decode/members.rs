//! The members of a request, or of a structure in it, whichever protocol they came by. What is not asked for is
//! ignored, as the service does.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};

use super::value::{Tree, Value};
use crate::call::Protocol;
use crate::error::{Code, SqsError};
use crate::url::Address;

/// Padding may be missing.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Members by name; each is taken out once.
#[derive(Debug)]
pub(crate) struct Members<'c> {
    protocol: Protocol,
    tree: Tree<'c>,
    /// The queue whose path the request was sent to.
    at: Option<Address>,
}

/// The members of a JSON body; none at all are the empty object.
pub(super) fn of_json(body: &[u8]) -> Result<Tree<'_>, SqsError> {
    if body.trim_ascii().is_empty() {
        return Ok(Tree::new());
    }
    match serde_json::from_slice(body) {
        Ok(Value::Structure(tree)) => Ok(tree),
        Ok(_) => Err(malformed("The request is not a JSON object.")),
        Err(error) => Err(malformed(format!("The request is not JSON: {error}."))),
    }
}

impl<'c> Members<'c> {
    pub(super) fn new(protocol: Protocol, tree: Tree<'c>, at: Option<Address>) -> Self {
        Self { protocol, tree, at }
    }

    /// The queue that is meant: the parameter, or else the path.
    pub(crate) fn queue(&mut self) -> Result<Address, SqsError> {
        match self.text("QueueUrl")? {
            Some(url) => Address::parse(&url).ok_or_else(|| {
                SqsError::new(Code::InvalidAddress, format!("The address {url} is not valid for this endpoint."))
            }),
            None => self.at.clone().ok_or_else(|| SqsError::missing("QueueUrl")),
        }
    }

    /// A string.
    pub(crate) fn text(&mut self, name: &str) -> Result<Option<String>, SqsError> {
        match self.tree.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text.into_owned())),
            Some(_) => Err(wrong(name, "a string")),
        }
    }

    /// A string that must be there, and not empty.
    pub(crate) fn required_text(&mut self, name: &str) -> Result<String, SqsError> {
        self.text(name)?.filter(|text| !text.is_empty()).ok_or_else(|| SqsError::missing(name))
    }

    /// An integer; the Query protocol writes it as text.
    pub(crate) fn integer(&mut self, name: &str) -> Result<Option<i64>, SqsError> {
        match self.tree.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Number(number)) => number.map(Some).ok_or_else(|| wrong(name, "an integer")),
            Some(Value::Text(text)) => match text.parse() {
                Ok(number) => Ok(Some(number)),
                Err(_) => Err(SqsError::invalid_value(text, name, "Must be an integer.")),
            },
            Some(_) => Err(wrong(name, "an integer")),
        }
    }

    /// An integer within bounds; beyond them it is refused with this reason.
    pub(crate) fn integer_in(&mut self, name: &str, min: u32, max: u32, reason: &str) -> Result<Option<u32>, SqsError> {
        let Some(number) = self.integer(name)? else { return Ok(None) };
        match u32::try_from(number).ok().filter(|number| (min..=max).contains(number)) {
            Some(number) => Ok(Some(number)),
            None => Err(SqsError::invalid_value(number, name, reason)),
        }
    }

    /// Bytes, base64 in both protocols.
    pub(crate) fn bytes(&mut self, name: &str) -> Result<Option<Vec<u8>>, SqsError> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        BASE64.decode(text).map(Some).map_err(|_| wrong(name, "base64"))
    }

    /// A list of strings: `names` in JSON, `name.1`, `name.2` ... in a query. Absent is empty.
    pub(crate) fn texts(&mut self, names: &str, name: &str) -> Result<Vec<String>, SqsError> {
        let text = |value| match value {
            Value::Text(text) => Ok(text.into_owned()),
            _ => Err(wrong(names, "a list of strings")),
        };
        self.list(names, name)?.unwrap_or_default().into_iter().map(text).collect()
    }

    /// A list of structures; absent is empty.
    pub(crate) fn structures(&mut self, names: &str, name: &str) -> Result<Vec<Self>, SqsError> {
        self.list(names, name)?.unwrap_or_default().into_iter().map(|value| self.inner(names, value)).collect()
    }

    /// A map of strings: an object in JSON, `name.1.<key>` and `name.1.<value>` ... in a query.
    pub(crate) fn map(
        &mut self,
        names: &str,
        (name, key, value): (&str, &str, &str),
    ) -> Result<Option<Vec<(String, String)>>, SqsError> {
        let text = |(key, value)| match value {
            Value::Text(text) => Ok((key, text.into_owned())),
            _ => Err(wrong(names, "a map of strings")),
        };
        let entries = self.entries(names, (name, key, value))?;
        entries.map(|entries| entries.into_iter().map(text).collect()).transpose()
    }

    /// A map of structures, named `Name` and `Value` in a query. Absent is empty.
    pub(crate) fn structure_map(&mut self, names: &str, name: &str) -> Result<Vec<(String, Self)>, SqsError> {
        let entries = self.entries(names, (name, "Name", "Value"))?.unwrap_or_default();
        entries.into_iter().map(|(key, value)| Ok((key, self.inner(names, value)?))).collect()
    }

    fn inner(&self, name: &str, value: Value<'c>) -> Result<Self, SqsError> {
        match value {
            Value::Structure(tree) => Ok(Self { protocol: self.protocol, tree, at: None }),
            _ => Err(wrong(name, "made of structures")),
        }
    }

    fn entries(
        &mut self,
        names: &str,
        (name, key, value): (&str, &str, &str),
    ) -> Result<Option<Vec<(String, Value<'c>)>>, SqsError> {
        if self.protocol == Protocol::Json {
            return match self.tree.remove(names) {
                None | Some(Value::Null) => Ok(None),
                Some(Value::Structure(map)) => {
                    Ok(Some(map.into_iter().map(|(key, value)| (key.into_owned(), value)).collect()))
                }
                Some(_) => Err(wrong(names, "a map")),
            };
        }
        let entry = |item| match item {
            Value::Structure(mut item) => match (item.remove(key), item.remove(value)) {
                (Some(Value::Text(key)), Some(value)) => Ok((key.into_owned(), value)),
                (Some(Value::Text(key)), None) => Ok((key.into_owned(), Value::Text(Cow::Borrowed("")))),
                _ => Err(SqsError::missing(&format!("{name}.{key}"))),
            },
            _ => Err(wrong(name, "a map")),
        };
        self.list(names, name)?.map(|items| items.into_iter().map(entry).collect()).transpose()
    }

    fn list(&mut self, names: &str, name: &str) -> Result<Option<Vec<Value<'c>>>, SqsError> {
        match self.protocol {
            Protocol::Json => match self.tree.remove(names) {
                None | Some(Value::Null) => Ok(None),
                Some(Value::List(items)) => Ok(Some(items)),
                Some(_) => Err(wrong(names, "a list")),
            },
            Protocol::Query => match self.tree.remove(name) {
                None => Ok(None),
                Some(Value::Structure(items)) => numbered(name, items).map(Some),
                // A list of one, as some clients write it.
                Some(item) => Ok(Some(vec![item])),
            },
        }
    }
}

/// The items of a query's list in the order of their numbers, which may have gaps. A structure that stands without any
/// number is a list of one, as some clients write it: `Attribute.Name=x&Attribute.Value=y`.
fn numbered<'c>(name: &str, items: Tree<'c>) -> Result<Vec<Value<'c>>, SqsError> {
    if items.keys().all(|key| key.parse::<u32>().is_err()) {
        return Ok(vec![Value::Structure(items)]);
    }
    let number = |(number, item): (Cow<'c, str>, Value<'c>)| match number.parse::<u32>() {
        Ok(number) => Ok((number, item)),
        Err(_) => Err(wrong(name, "a list, numbered from 1")),
    };
    let mut items = items.into_iter().map(number).collect::<Result<Vec<_>, _>>()?;
    items.sort_by_key(|(number, _)| *number);
    Ok(items.into_iter().map(|(_, item)| item).collect())
}

fn wrong(name: &str, expected: &str) -> SqsError {
    malformed(format!("The parameter {name} is not {expected}."))
}

fn malformed(message: impl Into<String>) -> SqsError {
    SqsError::new(Code::MalformedInput, message)
}
