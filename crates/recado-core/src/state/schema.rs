//! Schemas of job types. Their texts are here, for there are few of them; what they mean is known at the edges.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use crate::event::SchemaRecord;
use crate::items::Link;
use crate::state::{Queue, State};

/// Schemas that a shard holds.
pub const SCHEMAS_MAX: usize = 1_000;

/// All of them together, in bytes.
pub const SCHEMA_BYTES_SUM_MAX: usize = 16 << 20;

/// The schema of one version of a type.
#[derive(Debug)]
pub(crate) struct Schema {
    pub(crate) record: SchemaRecord,
    /// Its text again, for whoever checks jobs.
    pub(crate) text: Arc<str>,
    pub(crate) link: Link,
}

impl State {
    pub(crate) fn schema(&self, kind: &str, version: u32) -> Option<&Schema> {
        self.schemas.values().find(|schema| schema.record.version == version && &*schema.record.kind == kind)
    }

    /// Unfinished and dead jobs of a type, by version.
    pub(crate) fn jobs_by_version(&self, kind: &str) -> BTreeMap<u32, u64> {
        let mut jobs = BTreeMap::new();
        for (version, count) in self.queues.values().flat_map(|queue| queue.jobs_by_version(kind)) {
            *jobs.entry(version).or_default() += count;
        }
        jobs
    }
}

impl Queue {
    fn jobs_by_version<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = (u32, u64)> + 'a {
        let lane = |number: &u16| self.lane(*number);
        let start = self.lanes_by_name.partition_point(|number| *lane(number).name.kind < *kind);
        let lanes = self.lanes_by_name[start..].iter().map(lane).take_while(move |lane| &*lane.name.kind == kind);
        lanes.map(|lane| (lane.name.schema_version, u64::from(lane.jobs)))
    }
}
