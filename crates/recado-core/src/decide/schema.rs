//! Schemas of job types.

use alloc::boxed::Box;
use alloc::format;

use super::audit;
use crate::command::{Actor, Moment, PutSchema};
use crate::draft::Draft;
use crate::event::{Event, SchemaRecord};
use crate::options::Source;
use crate::rejection::Rejection;
use crate::reply::Reply;
use crate::state::{SCHEMA_BYTES_SUM_MAX, SCHEMAS_MAX, Schema, State};

/// A version has one schema for as long as there are jobs that it has checked.
pub(super) fn put(state: &State, moment: Moment, put: &PutSchema, draft: &mut Draft) -> Result<Reply, Rejection> {
    let PutSchema { kind, version, text, source, actor } = put;
    let there = state.schema(kind, *version);
    if let Some(there) = there {
        check_source(there, *source)?;
        if there.record.text == *text && there.record.source == *source {
            return Ok(Reply::SchemaPut { created: false });
        }
        if there.record.text != *text {
            check_unused(state, kind, *version)?;
        }
    }
    let before = there.map_or(0, |there| there.text.len());
    let bytes = state.schemas.values().map(|schema| schema.text.len()).sum::<usize>() - before + text.len();
    if there.is_none() && state.schemas.len() >= SCHEMAS_MAX {
        return Err(Rejection::TooManySchemas { what: "versions", limit: SCHEMAS_MAX as u64 });
    }
    if bytes > SCHEMA_BYTES_SUM_MAX {
        return Err(Rejection::TooManySchemas { what: "bytes", limit: SCHEMA_BYTES_SUM_MAX as u64 });
    }
    let next = || state.schemas.last_key_value().map_or(1, |(number, _)| number + 1);
    draft.push(Event::SchemaSet(Box::new(SchemaRecord {
        number: there.map_or_else(next, |there| there.record.number),
        kind: kind.clone(),
        version: *version,
        text: text.clone(),
        source: *source,
    })));
    let what = if there.is_none() { "created" } else { "changed" };
    audit(state, moment, actor, "schema-put", None, &format!("{kind} version {version} {what}"), draft);
    Ok(Reply::SchemaPut { created: there.is_none() })
}

pub(super) fn remove(
    state: &State,
    moment: Moment,
    (kind, version): (&str, u32),
    source: Source,
    actor: &Actor,
    draft: &mut Draft,
) -> Result<Reply, Rejection> {
    let not_found = || Rejection::SchemaNotFound { kind: kind.into(), version };
    let there = state.schema(kind, version).ok_or_else(not_found)?;
    check_source(there, source)?;
    check_unused(state, kind, version)?;
    draft.push(Event::SchemaRemoved { number: there.record.number });
    audit(state, moment, actor, "schema-removed", None, &format!("{kind} version {version}"), draft);
    Ok(Reply::Done)
}

fn check_source(there: &Schema, source: Source) -> Result<(), Rejection> {
    if there.record.source == Source::File && source == Source::Api {
        return Err(Rejection::ManagedByFile(there.record.kind.clone()));
    }
    Ok(())
}

fn check_unused(state: &State, kind: &str, version: u32) -> Result<(), Rejection> {
    match state.jobs_by_version(kind).get(&version) {
        Some(jobs) => Err(Rejection::SchemaInUse { kind: kind.into(), version, jobs: *jobs }),
        None => Ok(()),
    }
}
