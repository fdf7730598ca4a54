//! Options of a queue on the wire: the same fields in `PUT /v1/queues/{q}` and in `recado.toml`.

mod body;
mod read;

use recado_core::{LimitOptions, QueueOptions, Settings};
use serde_json::Value;

pub use crate::problem::FieldError;
use crate::schedules::Definition;
use crate::time;
pub(crate) use body::{BackoffBody, LimitBody, OptionsBody, RateBody};
pub(crate) use read::{backoff, max_attempts, timeout, visibility, visibility_ms};

/// Reads options; every field that is wrong is named.
///
/// # Errors
/// What is unknown, of the wrong type or out of range.
pub fn parse(value: &Value) -> Result<QueueOptions, Vec<FieldError>> {
    read::options(value)
}

/// Reads what holds for a shared limit; every field that is wrong is named.
///
/// # Errors
/// What is unknown, of the wrong type or out of range.
pub fn parse_limit(value: &Value) -> Result<LimitOptions, Vec<FieldError>> {
    read::limit(value)
}

/// Reads the definition of a schedule; every field that is wrong is named.
///
/// # Errors
/// What is unknown, of the wrong type or out of range.
pub fn parse_schedule(name: &str, value: &Value) -> Result<(), Vec<FieldError>> {
    let read = Definition::read(name, value.to_string().as_bytes(), time::now());
    read.map(drop).map_err(|problem| match problem.errors() {
        [] => vec![FieldError { message: problem.detail().to_owned(), ..FieldError::default() }],
        errors => errors.to_vec(),
    })
}

/// What was set, and nothing else.
#[must_use]
pub fn to_json(options: &QueueOptions) -> Value {
    serde_json::to_value(OptionsBody::from(options)).unwrap_or_default()
}

/// What holds, every option with its value.
#[must_use]
pub fn effective_json(settings: &Settings) -> Value {
    serde_json::to_value(OptionsBody::from(settings)).unwrap_or_default()
}
