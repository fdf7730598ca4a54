//! Schemas, and the types that have them.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::ops::Bound;

use super::cursor::after_name;
use super::{Answer, Answered, Page, SchemaView, TypeView, VersionView};
use crate::state::State;

/// Queues that are asked for one page how many jobs of a type they hold.
const ASKED_MAX: usize = 10_000;

pub(super) fn all(state: &State) -> Answer {
    let view = |schema: &crate::state::Schema| SchemaView {
        kind: schema.record.kind.clone(),
        version: schema.record.version,
        text: schema.text.clone(),
        source: schema.record.source,
    };
    Answer::Schemas(state.schemas.values().map(view).collect())
}

pub(super) fn types(state: &State, page: &Page) -> Answered {
    let after = page.name()?;
    let kinds: BTreeSet<&str> = state.schemas.values().map(|schema| &*schema.record.kind).collect();
    let start = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    let mut kinds = kinds.range::<str, _>((start, Bound::Unbounded));
    let size = page.size().min(ASKED_MAX / state.queues.len().max(1)).max(1);
    let types: Vec<TypeView> = kinds.by_ref().take(size).map(|kind| view(state, kind)).collect();
    let more = kinds.next().is_some();
    let cursor = types.last().filter(|_| more).map(|last| after_name(&last.kind));
    Ok(Answer::Types { types, cursor })
}

fn view(state: &State, kind: &str) -> TypeView {
    let version = |version, source, jobs| VersionView { version, source, jobs };
    let counts = state.jobs_by_version(kind).into_iter();
    let mut versions: BTreeMap<u32, VersionView> =
        counts.map(|(number, jobs)| (number, version(number, None, jobs))).collect();
    for schema in state.schemas.values().filter(|schema| &*schema.record.kind == kind) {
        let number = schema.record.version;
        versions.entry(number).or_insert_with(|| version(number, None, 0)).source = Some(schema.record.source);
    }
    TypeView { kind: Box::from(kind), versions: versions.into_values().collect() }
}
