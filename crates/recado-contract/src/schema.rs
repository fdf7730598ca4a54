//! JSON Schema (2020-12) of job types.
//!
//! A schema is refused when it is put, not when it is used: one that refers to anything outside of itself, or that
//! could cost more than [`COST_MAX`] steps a value, never gets in. Patterns are matched without backtracking.

mod cost;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use jsonschema::error::ValidationErrorKind;
use jsonschema::{Draft, PatternOptions, ValidationError, Validator};
use serde_json::Value;

use crate::json::escape;
use crate::problem::FieldError;

pub use cost::COST_MAX;

/// One schema, in bytes.
pub const SCHEMA_BYTES_MAX: usize = 64 << 10;

/// A compiled pattern, in bytes.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// Faults of one payload that are named.
const FAULTS_MAX: usize = 20;

/// Of what a schema asks for, so many bytes are repeated.
const ASKED_BYTES_MAX: usize = 200;

/// Compiled schemas kept; above that they are compiled anew.
const COMPILED_MAX: usize = 1_024;

/// The dialect that a schema may name.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// A schema, ready for use.
pub struct Schema {
    text: Value,
    validator: Validator,
}

impl Schema {
    /// Reads a schema.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn compile(text: &str) -> Result<Self, FieldError> {
        let fault = |pointer: String, message: String| FieldError { pointer, message, ..FieldError::default() };
        if text.len() > SCHEMA_BYTES_MAX {
            return Err(fault(String::new(), format!("a schema has at most {SCHEMA_BYTES_MAX} bytes")));
        }
        let text: Value = serde_json::from_str(text).map_err(|error| fault(String::new(), error.to_string()))?;
        if let Some(other) =
            text.get("$schema").filter(|dialect| dialect.as_str().map(|it| it.trim_end_matches('#')) != Some(DIALECT))
        {
            return Err(fault(
                "/$schema".into(),
                format!("{other} is not supported; leave it out, or write \"{DIALECT}\""),
            ));
        }
        if let Err(error) = jsonschema::draft202012::meta::validate(&text) {
            return Err(fault(error.instance_path().to_string(), format!("this is not a schema: {error}")));
        }
        cost::check(&text).map_err(|(pointer, message)| fault(pointer, message))?;
        let patterns = PatternOptions::regex().size_limit(PATTERN_BYTES_MAX).dfa_size_limit(PATTERN_BYTES_MAX);
        let options = jsonschema::options().with_draft(Draft::Draft202012).with_pattern_options(patterns);
        let built = options.with_retriever(Nothing).build(&text);
        let validator = built.map_err(|error| fault(error.instance_path().to_string(), error.to_string()))?;
        Ok(Self { text, validator })
    }

    /// What is wrong with a payload that stands at `pointer`. Never says what stands there instead.
    #[must_use]
    pub fn faults(&self, payload: &[u8], pointer: &str) -> Vec<FieldError> {
        let Ok(payload) = serde_json::from_slice::<Value>(payload) else { return Vec::new() };
        let errors = self.validator.iter_errors(&payload).take(FAULTS_MAX);
        errors.map(|error| self.fault(&error, pointer)).collect()
    }

    fn fault(&self, error: &ValidationError<'_>, pointer: &str) -> FieldError {
        let rule = error.kind().keyword().to_owned();
        let mut pointer = format!("{pointer}{}", error.instance_path());
        let message = match error.kind() {
            ValidationErrorKind::Required { property } => {
                pointer.push('/');
                pointer.push_str(&escape(property.as_str().unwrap_or_default()));
                "is missing".to_owned()
            }
            ValidationErrorKind::AdditionalProperties { .. } | ValidationErrorKind::UnevaluatedProperties { .. } => {
                "has a field that the schema does not know".to_owned()
            }
            _ => {
                let asked = self.text.pointer(error.schema_path().as_str()).map(Value::to_string).unwrap_or_default();
                format!("does not fit the schema: {rule} {}", crate::job::cut(&asked, ASKED_BYTES_MAX))
            }
        };
        FieldError { pointer, rule: Some(rule), message, ..FieldError::default() }
    }
}

/// Nothing is fetched, from the network or from files.
struct Nothing;

impl jsonschema::Retrieve for Nothing {
    fn retrieve(&self, uri: &jsonschema::Uri<String>) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Err(format!("{uri} is not fetched; put it under $defs").into())
    }
}

/// Compiled schemas by their text.
#[derive(Default)]
pub struct Schemas(Mutex<HashMap<Arc<str>, Arc<Schema>>>);

impl Schemas {
    /// The schema of this text; `None` when it is none, which its edge has seen to.
    pub fn get(&self, text: &Arc<str>) -> Option<Arc<Schema>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(schema) = known.get(text) {
            return Some(Arc::clone(schema));
        }
        match Schema::compile(text) {
            Ok(schema) => {
                if known.len() >= COMPILED_MAX {
                    known.clear();
                }
                let schema = Arc::new(schema);
                known.insert(Arc::clone(text), Arc::clone(&schema));
                Some(schema)
            }
            Err(error) => {
                tracing::error!(message = error.message, "a stored schema cannot be read: jobs pass it unchecked");
                None
            }
        }
    }

    /// Merges a patch into a payload that must fit its schema then.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn merge_patch(&self, patch: &[u8], payload: &[u8], schema: Option<&Arc<str>>) -> Result<Vec<u8>, String> {
        let merged = crate::merge_patch(patch, payload)?;
        let schema = schema.and_then(|text| self.get(text));
        match schema.and_then(|schema| schema.faults(&merged, "/payload").into_iter().next()) {
            Some(fault) => Err(format!("{}: {}", fault.pointer, fault.message)),
            None => Ok(merged),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAIL: &str = r#"{"type":"object","required":["deliveryId"],"additionalProperties":false,
        "properties":{"deliveryId":{"type":"string","maxLength":8,"pattern":"^mail-"},"n":{"enum":[1,2]}}}"#;

    #[test]
    fn faults_name_pointer_and_rule_and_never_the_value() {
        let schema = Schema::compile(MAIL).unwrap();
        for (payload, expected) in [
            (r#"{"deliveryId":"mail-1"}"#, None),
            (r#"{"deliveryId":"letter"}"#, Some(("/payload/deliveryId", "pattern"))),
            (r#"{"deliveryId":"mail-12345"}"#, Some(("/payload/deliveryId", "maxLength"))),
            (r#"{"deliveryId":7}"#, Some(("/payload/deliveryId", "type"))),
            (r#"{"n":1}"#, Some(("/payload/deliveryId", "required"))),
            (r#"{"deliveryId":"mail-1","hush":1}"#, Some(("/payload", "additionalProperties"))),
            (r#"{"deliveryId":"mail-1","n":3}"#, Some(("/payload/n", "enum"))),
            ("[]", Some(("/payload", "type"))),
        ] {
            let faults = schema.faults(payload.as_bytes(), "/payload");
            let first = faults.first().map(|fault| (fault.pointer.as_str(), fault.rule.as_deref().unwrap_or_default()));
            assert_eq!(first, expected, "{payload}");
            assert!(faults.iter().all(|fault| !fault.message.contains("hush") && !fault.message.contains("letter")));
        }
    }

    #[test]
    fn what_is_no_schema_is_refused_with_its_place() {
        let deep = |n: usize| {
            let each = |i: usize| {
                format!(r##""a{i}":{{"anyOf":[{{"$ref":"#/$defs/a{0}"}},{{"$ref":"#/$defs/a{0}"}}]}}"##, i + 1)
            };
            let defs: Vec<_> = (0..n).map(each).collect();
            format!(r##"{{"$ref":"#/$defs/a0","$defs":{{{},"a{n}":{{"type":"string"}}}}}}"##, defs.join(","))
        };
        let twice = r##"{"$defs":{"t":{"anyOf":[{"properties":{"c":{"$ref":"#/$defs/t"}}},{"properties":{"c":{"$ref":"#/$defs/t"}}}]}},"$ref":"#/$defs/t"}"##;
        let long = format!(r#"{{"title":"{}"}}"#, "x".repeat(SCHEMA_BYTES_MAX));
        for (text, pointer) in [
            ("{", ""),
            ("[]", ""),
            (r#"{"type":"sting"}"#, "/type"),
            (r#"{"$schema":"http://json-schema.org/draft-07/schema#"}"#, "/$schema"),
            (r#"{"properties":{"a":{"$ref":"https://example.org/a.json"}}}"#, "/properties/a/$ref"),
            (r##"{"$ref":"#/$defs/none"}"##, "/$ref"),
            (r##"{"$ref":"#"}"##, "/$ref"),
            (r#"{"pattern":"(?=a)b"}"#, ""),
            (r#"{"pattern":"(((x{100}){100}){100}){100}"}"#, ""),
            (&deep(20), ""),
            (twice, ""),
            (&long, ""),
        ] {
            let error = Schema::compile(text).err().unwrap_or_else(|| panic!("{text} was taken"));
            assert!(error.pointer.starts_with(pointer), "{text}: {error:?}");
        }
    }

    #[test]
    fn trees_and_the_usual_compositions_are_taken() {
        for text in [
            "true",
            r##"{"$defs":{"n":{"properties":{"left":{"$ref":"#/$defs/n"},"right":{"$ref":"#/$defs/n"}}}},"$ref":"#/$defs/n"}"##,
            r##"{"properties":{"children":{"type":"array","items":{"$ref":"#"}}}}"##,
            r#"{"oneOf":[{"properties":{"kind":{"const":"a"}}},{"properties":{"kind":{"const":"b"}}}]}"#,
            r#"{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","if":{"required":["a"]},"then":{"required":["b"]}}"#,
        ] {
            if let Err(error) = Schema::compile(text) {
                panic!("{text}: {error:?}");
            }
        }
    }
}
