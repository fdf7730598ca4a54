//! Requests and answers as the API writes them.

mod answer;
mod enqueue;
mod receive;

use std::collections::BTreeMap;

use recado_core::JobId;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error::Error;

pub(super) use answer::{job, jobs, received, settled};
pub(super) use enqueue::{enqueue, enqueued};
pub(super) use receive::{receive, settle};

/// Answers are read leniently: what is not known here is passed over.
type Read<T> = Result<T, String>;

fn write<T: Serialize>(what: &'static str, value: &T) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(value).map_err(Error::json(what))
}

fn raw(bytes: &[u8]) -> Result<&RawValue, Error> {
    serde_json::from_slice(bytes).map_err(Error::json("this is not JSON"))
}

fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Read<T> {
    serde_json::from_slice(body).map_err(|error| error.to_string())
}

fn id(text: &str) -> Read<JobId> {
    JobId::parse(text).ok_or_else(|| format!("`{text}` is not a job's id"))
}

pub(super) fn reason(reason: &str) -> Result<Vec<u8>, Error> {
    write("this reason cannot be written", &BTreeMap::from([("reason", reason)]))
}
