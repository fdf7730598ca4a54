//! The Query protocol's flat parameters as a tree: `Attribute.1.Name=x` is `{"Attribute": {"1": {"Name": "x"}}}`.

use std::borrow::Cow;

use percent_encoding::percent_decode;

use super::value::{Tree, Value};
use crate::call::Call;
use crate::error::{Code, SqsError};

/// Ten entries of ten attributes have under 1,000.
const PARAMETERS_MAX: usize = 4_000;

/// `SendMessageBatchRequestEntry.1.MessageAttribute.1.Value.StringValue`.
const DEPTH_MAX: usize = 6;

/// All parameters of a call: of its query, and of its body when that is a form.
pub(super) fn tree<'c>(call: &Call<'c>) -> Result<Tree<'c>, SqsError> {
    let body: &[u8] = if call.is_form() { call.body } else { b"" };
    let parameters = call.query.as_bytes().split(|b| *b == b'&').chain(body.split(|b| *b == b'&'));
    let mut tree = Tree::new();
    for (count, parameter) in parameters.filter(|parameter| !parameter.is_empty()).enumerate() {
        if count == PARAMETERS_MAX {
            return Err(malformed(format!("A request has at most {PARAMETERS_MAX} parameters.")));
        }
        let end = parameter.iter().position(|b| *b == b'=').unwrap_or(parameter.len());
        let (name, value) = (text(&parameter[..end])?, text(parameter.get(end + 1..).unwrap_or_default())?);
        // Those of a presigned URL are no members.
        if !name.starts_with("X-Amz-") {
            insert(&mut tree, &name, value)?;
        }
    }
    Ok(tree)
}

fn insert<'c>(tree: &mut Tree<'c>, name: &str, value: Cow<'c, str>) -> Result<(), SqsError> {
    let mut at = tree;
    let mut segments = name.splitn(DEPTH_MAX, '.').peekable();
    while let Some(segment) = segments.next() {
        if segments.peek().is_none() {
            return match at.insert(Cow::Owned(segment.to_owned()), Value::Text(value)) {
                Some(Value::Structure(_)) => Err(ambiguous(name)),
                _ => Ok(()),
            };
        }
        at = match at.entry(Cow::Owned(segment.to_owned())).or_insert_with(|| Value::Structure(Tree::new())) {
            Value::Structure(inner) => inner,
            _ => return Err(ambiguous(name)),
        };
    }
    Ok(())
}

/// Strict, where a lossy reading would change a body in silence.
fn text(encoded: &[u8]) -> Result<Cow<'_, str>, SqsError> {
    let decoded = if encoded.contains(&b'+') {
        let spaced: Vec<u8> = encoded.iter().map(|b| if *b == b'+' { b' ' } else { *b }).collect();
        percent_decode(&spaced).decode_utf8().map(|text| Cow::Owned(text.into_owned()))
    } else {
        percent_decode(encoded).decode_utf8()
    };
    decoded.map_err(|_| malformed("A parameter is not UTF-8.".to_owned()))
}

fn ambiguous(name: &str) -> SqsError {
    malformed(format!("The parameter {name} is given both as a value and as a structure."))
}

fn malformed(message: String) -> SqsError {
    SqsError::new(Code::MalformedInput, message)
}
