//! The edge: HTTP in, commands out.
//!
//! It parses, checks, translates to commands of the shard, and writes answers. It never touches state and
//! decides nothing that the core decides; core types are converted by hand, never serialised. There is
//! no route that is not described in `/openapi.json`, and no refusal that is not a problem (RFC 9457). What a
//! request itself says is Amazon SQS goes another way, in [`sqs`], with the words and refusals of the service.

use recado_contract::{duration, faults, json, name, nearest, problem, size, time};

mod connection;
pub mod doctor;
mod hooks;
mod http;
mod limits;
mod metrics;
mod openapi;
pub mod options;
mod origin;
mod query;
mod reasons;
mod running;
mod schedules;
mod serve;
mod sqs;
mod unread;

pub use recado_contract::merge_patch;
pub use recado_contract::name::check_name;
pub use running::{Config, Running, StartError, start};
pub use sqs::Config as SqsConfig;

/// Checks a schema of a job type.
///
/// # Errors
/// What is wrong with it, and where.
pub fn check_schema(text: &str) -> Result<(), options::FieldError> {
    recado_contract::schema::Schema::compile(text).map(drop)
}
