//! What is wrong with a request, gathered over all of its entries.

use serde_json::value::RawValue;

use crate::duration;
use crate::json::check_free;
use crate::limits::ERRORS_MAX;
use crate::name;
use crate::problem::{Code, FieldError, NAME_RULE, Problem};

/// Why a queue does not take a job that is well formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It holds a secret.
    Secret,
    /// It holds data about a person.
    Personal,
    /// Its payload does not fit the schema, or a key is missing that its queue asks for.
    Schema,
    /// Its type or version has no schema.
    UnknownVersion,
}

impl Refused {
    pub(crate) fn code(self) -> Code {
        match self {
            Self::Secret | Self::Personal => Code::SecretInPayload,
            Self::Schema => Code::SchemaViolation,
            Self::UnknownVersion => Code::UnknownTypeVersion,
        }
    }

    /// The word under which it is counted.
    #[must_use]
    pub fn reason(self) -> &'static str {
        if self == Self::Personal { "personal-data" } else { self.code().word() }
    }
}

/// What is wrong with a request that was well formed, gathered over all of its entries.
#[derive(Debug, Default)]
pub struct Faults {
    errors: Vec<FieldError>,
    index: Option<usize>,
    /// Where in its entry the thing at hand stands.
    base: String,
    too_large: Option<(usize, usize)>,
    refused: Option<Refused>,
    other: bool,
}

impl Faults {
    /// What follows is about this entry.
    pub fn entry(&mut self, index: Option<usize>) {
        self.index = index;
    }

    /// What `check` finds is about the thing at this place in its entry.
    pub fn within(&mut self, path: &str, check: impl FnOnce(&mut Self)) {
        let before = self.base.len();
        self.base.push_str(path);
        check(self);
        self.base.truncate(before);
    }

    /// Notes a fault.
    pub fn at(&mut self, pointer: &str, message: impl Into<String>) {
        self.add(FieldError { pointer: pointer.to_owned(), message: message.into(), ..FieldError::default() });
    }

    /// Notes a fault in a name.
    pub fn name(&mut self, pointer: &str, message: String) {
        let rule = Some(NAME_RULE.to_owned());
        self.add(FieldError { pointer: pointer.to_owned(), rule, message, ..FieldError::default() });
    }

    /// Notes a fault found elsewhere.
    pub fn add(&mut self, mut error: FieldError) {
        self.other = true;
        error.index = error.index.or(self.index);
        self.push(error);
    }

    /// Notes a fault that only this queue has something against.
    pub fn refuse(&mut self, why: Refused, mut error: FieldError) {
        self.refused.get_or_insert(why);
        error.index = error.index.or(self.index);
        self.push(error);
    }

    /// Notes something over its limit in bytes.
    pub fn too_large(&mut self, pointer: &str, limit: usize, actual: usize) {
        self.too_large.get_or_insert((limit, actual));
        let message = format!("has {actual} bytes; at most {limit} are taken");
        let index = self.index;
        self.push(FieldError { index, pointer: pointer.to_owned(), message, ..FieldError::default() });
    }

    fn push(&mut self, mut error: FieldError) {
        if self.errors.len() < ERRORS_MAX {
            error.pointer.insert_str(0, &self.base);
            self.errors.push(error);
        }
    }

    /// Checks a number against its range.
    pub fn range(&mut self, pointer: &str, value: Option<u64>, low: u64, high: u64) {
        if value.is_some_and(|value| value < low || value > high) {
            self.at(pointer, format!("must be from {low} to {high}"));
        }
    }

    /// Checks a duration against its range, in milliseconds.
    pub fn time_range(&mut self, pointer: &str, value: Option<u64>, low: u64, high: u64) {
        if value.is_some_and(|value| value < low || value > high) {
            self.at(pointer, format!("must be from {} to {}", duration::text(low), duration::text(high)));
        }
    }

    /// Checks a name.
    pub fn check_name(&mut self, pointer: &str, name: &str) {
        if let Err(message) = name::check_name(name) {
            self.name(pointer, message);
        }
    }

    /// Checks a key.
    pub fn check_key(&mut self, pointer: &str, key: Option<&str>) {
        if let Some(Err(message)) = key.map(name::check_key) {
            self.at(pointer, message);
        }
    }

    /// Checks free JSON and its size.
    pub fn check_free(&mut self, pointer: &str, raw: Option<&RawValue>, limit: usize) {
        let Some(raw) = raw else { return };
        if raw.get().len() > limit {
            self.too_large(pointer, limit, raw.get().len());
        }
        if let Err(error) = check_free(raw, pointer) {
            self.add(error);
        }
    }

    /// Enough is known to be wrong.
    pub fn is_full(&self) -> bool {
        self.errors.len() >= ERRORS_MAX
    }

    /// The refusal, if anything was noted.
    pub fn finish(self) -> Result<(), Problem> {
        match self.too_large {
            _ if self.errors.is_empty() => Ok(()),
            Some((limit, actual)) if !self.other && self.refused.is_none() => {
                let problem = Problem::too_large(Code::PayloadTooLarge, "this has", limit, Some(actual));
                Err(problem.with_errors(self.errors))
            }
            _ => match self.refused.filter(|_| !self.other) {
                Some(refused) => Err(Problem::refused(refused, self.errors)),
                None => Err(Problem::invalid(self.errors)),
            },
        }
    }

    /// The faults alone.
    pub fn into_errors(self) -> Vec<FieldError> {
        self.errors
    }
}
