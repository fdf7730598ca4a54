//! What should never be in a queue: secrets, and data about people.
//!
//! Every string, number and field name of a JSON text is looked at once, with the name of its field. The format
//! decides, not a checksum: a token that looks like a provider's is one. What is hidden in Base64, in URL-encoding
//! or in JSON within a string is found too, [`DEPTH_MAX`] layers deep. A finding names its field and its rule and
//! never carries the value.
//!
//! It does not decide what becomes of a finding.

mod cards;
mod encoded;
mod mask;
mod names;
mod personal;
mod text;
mod tokens;

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::json::{Key, escape};
use crate::limits::ERRORS_MAX;

pub use mask::{mask_json, mask_text, masked};

/// Layers of encoding that are looked through.
pub const DEPTH_MAX: usize = 3;

/// What stands in the place of a secret.
pub const MASK: &str = "***";

/// Which findings are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Secrets.
    pub secrets: bool,
    /// Data about people.
    pub personal: bool,
}

impl Wanted {
    /// Nothing but secrets.
    pub const SECRETS: Self = Self { secrets: true, personal: false };
    /// Everything.
    pub const ALL: Self = Self { secrets: true, personal: true };

    /// Nothing need be looked at.
    #[must_use]
    pub fn is_nothing(self) -> bool {
        !self.secrets && !self.personal
    }
}

/// What kind of thing a rule finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// It opens something.
    Secret,
    /// It is about a person.
    Personal,
}

/// One thing that should not be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What kind of thing it is.
    pub kind: Kind,
    /// Which rule found it.
    pub rule: &'static str,
    /// The field (RFC 6901), or the object whose field has it for a name.
    pub pointer: String,
}

/// Looks through JSON text whose root stands at `pointer`. At most [`ERRORS_MAX`] findings, one of each kind a field.
#[must_use]
pub fn scan_json(json: &[u8], pointer: &str, wanted: Wanted) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !wanted.is_nothing() {
        let mut report = |finding| push(&mut findings, finding);
        walk(json, &Path::Root(pointer), wanted, 0, &mut report);
    }
    findings
}

/// Looks through a text that stands at `pointer`, such as a key.
#[must_use]
pub fn scan_text(text: &str, pointer: &str, wanted: Wanted) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !wanted.is_nothing() {
        text::find(None, text, wanted, 0, &mut |hit| {
            push(&mut findings, Finding { kind: hit.kind, rule: hit.rule, pointer: pointer.to_owned() });
        });
    }
    findings
}

fn push(findings: &mut Vec<Finding>, finding: Finding) {
    let is_new = |last: &Finding| last.pointer != finding.pointer || last.kind != finding.kind;
    if findings.len() < ERRORS_MAX && findings.iter().rev().take(2).all(is_new) {
        findings.push(finding);
    }
}

/// A part of a text that a rule found.
#[derive(Clone, Debug)]
struct Hit {
    kind: Kind,
    rule: &'static str,
    span: std::ops::Range<usize>,
}

/// Where in the JSON a value stands, without a byte allocated until somebody asks.
enum Path<'p> {
    Root(&'p str),
    Field(&'p Path<'p>, &'p str),
    Entry(&'p Path<'p>, usize),
}

impl Path<'_> {
    /// The name of the field; an entry of an array goes by the name of the array.
    fn name(&self) -> Option<&str> {
        match self {
            Self::Root(_) => None,
            Self::Field(_, name) => Some(name),
            Self::Entry(array, _) => array.name(),
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root(pointer) => f.write_str(pointer),
            Self::Field(object, name) => write!(f, "{object}/{}", escape(name)),
            Self::Entry(array, index) => write!(f, "{array}/{index}"),
        }
    }
}

type Report<'r> = dyn FnMut(Finding) + 'r;

/// False when it is not JSON: then it was not looked through to its end.
fn walk(json: &[u8], path: &Path<'_>, wanted: Wanted, depth: usize, report: &mut Report<'_>) -> bool {
    let mut reader = serde_json::Deserializer::from_slice(json);
    let walk = Walk { path, wanted, depth, report };
    walk.deserialize(&mut reader).and_then(|()| reader.end()).is_ok()
}

struct Walk<'w, 'r> {
    path: &'w Path<'w>,
    wanted: Wanted,
    depth: usize,
    report: &'w mut Report<'r>,
}

impl Walk<'_, '_> {
    fn below<'b, 'r>(path: &'b Path<'b>, above: &'b mut Walk<'_, 'r>) -> Walk<'b, 'r> {
        Walk { path, wanted: above.wanted, depth: above.depth, report: above.report }
    }

    fn text(self, text: &str) {
        let Self { path, wanted, depth, report } = self;
        text::find(path.name(), text, wanted, depth, &mut |hit| {
            report(Finding { kind: hit.kind, rule: hit.rule, pointer: path.to_string() });
        });
    }

    fn number(self, number: u64) {
        if number >= cards::SMALLEST && self.wanted.secrets {
            self.text(&number.to_string());
        }
    }

    /// True when the name of a field is itself what should not be there.
    fn is_bad_name(&mut self, name: &str) -> bool {
        let mut is_bad = false;
        let (path, report) = (self.path, &mut *self.report);
        text::find(None, name, self.wanted, self.depth, &mut |hit| {
            is_bad = true;
            report(Finding { kind: hit.kind, rule: hit.rule, pointer: path.to_string() });
        });
        is_bad
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_, '_> {
    type Value = ();

    fn deserialize<D: de::Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, number: u64) -> Result<(), E> {
        self.number(number);
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, number: f64) -> Result<(), E> {
        // 4.242e15 and 4242424242424242.0 are whole numbers too.
        if number.fract() == 0.0 && (0.0..1e19).contains(&number) {
            self.number(number as u64);
        }
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.text(text);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
        let array = self.path;
        let mut index = 0;
        while seq.next_element_seed(Self::below(&Path::Entry(array, index), &mut self))?.is_some() {
            index += 1;
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let object = self.path;
        while let Some(name) = map.next_key_seed(Key)? {
            let name: Cow<'_, str> = name;
            if self.is_bad_name(&name) {
                map.next_value::<IgnoredAny>()?;
            } else {
                map.next_value_seed(Self::below(&Path::Field(object, &name), &mut self))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(json: &str) -> Vec<(&'static str, String)> {
        let findings = scan_json(json.as_bytes(), "/payload", Wanted::SECRETS);
        findings.into_iter().map(|finding| (finding.rule, finding.pointer)).collect()
    }

    #[test]
    fn a_finding_names_its_field_and_never_the_value() {
        let key = ["gh", "p_"].concat() + &"a1B2".repeat(9);
        for (json, expected) in [
            (format!(r#"{{"a":{{"b/c":["x","{key}"]}}}}"#), ("github-token", "/payload/a/b~1c/1")),
            (format!(r#"{{"a":{{"{key}":1}}}}"#), ("github-token", "/payload/a")),
            (r#"{"order":{"n":4242424242424242}}"#.to_owned(), ("payment-card", "/payload/order/n")),
            (r#""4242 4242 4242 4242""#.to_owned(), ("payment-card", "/payload")),
            (r#"{"user":{"password":"Tr0ub4dor&3"}}"#.to_owned(), ("password", "/payload/user/password")),
            (r#"{"a":"{\"user\":{\"password\":\"Tr0ub4dor&3\"}}"}"#.to_owned(), ("password", "/payload/a")),
        ] {
            let (rule, pointer) = expected;
            assert_eq!(found(&json), [(rule, pointer.to_owned())], "{json}");
        }
    }

    #[test]
    fn each_kind_is_found_only_where_it_is_wanted() {
        let json = br#"{"to":"ada@example.org","card":"4242424242424242"}"#;
        let rules =
            |wanted| -> Vec<&str> { scan_json(json, "", wanted).into_iter().map(|finding| finding.rule).collect() };
        assert_eq!(rules(Wanted::ALL), ["email-address", "payment-card"]);
        assert_eq!(rules(Wanted::SECRETS), ["payment-card"]);
        assert_eq!(rules(Wanted { secrets: false, personal: true }), ["email-address"]);
        assert!(rules(Wanted { secrets: false, personal: false }).is_empty());
    }
}
