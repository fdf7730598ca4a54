//! Bulk actions, stepped between commands: at most [`TASK_JOBS_MAX`] jobs or [`TASK_TIME_MAX`] a turn.
//!
//! A replay with a patch needs each payload as it is. Payload and patch are read and merged off the
//! writer; the step follows when they are there. A payload that cannot be read or patched, or that by it outgrows
//! its queue's limit or does not fit its schema, is passed over and counted, it does not stop the others.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use recado_core::{Command, Place, TaskStep};

use crate::clock::Now;
use crate::inbox::Internal;
use crate::shard::Shard;
use crate::shared::Shared;
use crate::space;
use crate::writer::Room;

/// Jobs that the tasks of a shard act on in one turn.
const TASK_JOBS_MAX: usize = 1_000;
/// Jobs in one step: what is decided in one piece.
const STEP_JOBS_MAX: usize = 100;
/// Time that the tasks of a shard take in one turn.
const TASK_TIME_MAX: Duration = Duration::from_millis(1);
/// Payloads merged for one step, before and after, in bytes; one alone may be larger.
const STEP_BYTES_MAX: usize = 1024 * 1024;

/// Merges a patch into a payload that must fit its schema then; the text says why it cannot.
pub type MergePatch = Arc<dyn Fn(&[u8], &[u8], Option<&Arc<str>>) -> Result<Vec<u8>, String> + Send + Sync>;

/// A step whose payloads are ready; none when its first payload has moved in the log meanwhile.
pub(crate) struct Patched {
    task: u64,
    command: Option<Command>,
}

#[derive(Default)]
pub(crate) struct Tasks {
    /// Payloads of a step of these are being read.
    reading: BTreeSet<u64>,
    patched: Vec<Patched>,
    /// When the first of those that go by a rate may go on, on the wall clock.
    pub(crate) due_at: Option<u64>,
    /// Some could go on at once.
    pub(crate) is_busy: bool,
}

impl Tasks {
    pub(crate) fn add_patched(&mut self, patched: Patched) {
        self.patched.push(patched);
    }
}

/// How a turn of one task ended.
enum Turn {
    /// It could go on.
    More,
    /// It waits for its rate, its payloads, or has ended.
    Waits,
    /// There is no room.
    NoRoom,
}

impl Shard {
    /// A turn of all running tasks. True when room ran out.
    pub(crate) fn step_tasks(&mut self, now: Now) -> Result<bool, recado_log::Error> {
        self.tasks.due_at = None;
        self.tasks.is_busy = false;
        if self.is_stopping() {
            // The next service goes on where this one stops.
            return Ok(false);
        }
        while let Some(patched) = self.tasks.patched.pop() {
            if let Some(command) = &patched.command
                && !self.step_task(now, command)?
            {
                self.tasks.patched.push(patched);
                return Ok(true);
            }
            self.tasks.reading.remove(&patched.task);
        }
        let running = self.writer.state.running_tasks();
        let started = self.time.elapsed();
        let mut left = TASK_JOBS_MAX;
        for task in running {
            if self.tasks.reading.contains(&task) {
                continue;
            }
            match self.turn_of(now, task, &mut left, started)? {
                Turn::More => self.tasks.is_busy = true,
                Turn::Waits => {}
                Turn::NoRoom => return Ok(true),
            }
        }
        Ok(false)
    }

    fn turn_of(&mut self, now: Now, task: u64, left: &mut usize, started: Duration) -> Result<Turn, recado_log::Error> {
        while *left > 0 && self.time.elapsed().saturating_sub(started) <= TASK_TIME_MAX {
            let next = self.writer.state.next_of_task(now.wall, task, STEP_JOBS_MAX.min(*left));
            if let Some(due_at) = next.due_at.filter(|due_at| *due_at > now.wall) {
                self.tasks.due_at = Some(self.tasks.due_at.map_or(due_at, |other| other.min(due_at)));
                return Ok(Turn::Waits);
            }
            if !next.moved && !next.last {
                return Ok(Turn::Waits);
            }
            // Looking past many jobs that are not meant costs as much as acting on a few.
            let cost = if next.jobs.is_empty() { STEP_JOBS_MAX } else { next.jobs.len() };
            *left -= cost.min(*left);
            if let Some(patch) = next.patch.filter(|_| !next.jobs.is_empty()) {
                return Ok(self.read_payloads(now, task, patch, next));
            }
            let TaskStep { jobs, cursor, last, .. } = next;
            let jobs = jobs.into_iter().map(|(seq, _)| (seq, None)).collect();
            if !self.step_task(now, &Command::StepTask { task, jobs, unpatchable: 0, cursor, last })? {
                return Ok(Turn::NoRoom);
            }
            if last {
                return Ok(Turn::Waits);
            }
        }
        Ok(Turn::More)
    }

    /// False when there is no room for it.
    fn step_task(&mut self, now: Now, command: &Command) -> Result<bool, recado_log::Error> {
        // Steps are chosen so that any batch holds them: see `mergeable`.
        let bytes = space::bound(&self.writer.state, command);
        if self.writer.claim_beside(now, space::class(command), bytes)? != Room::Yes {
            return Ok(false);
        }
        if let Err(rejection) = self.writer.run(now, command) {
            // It was cancelled or its queue deleted meanwhile.
            tracing::debug!(%rejection, "a task was not stepped");
        }
        Ok(true)
    }

    fn read_payloads(&mut self, now: Now, task: u64, patch: Place, mut next: TaskStep) -> Turn {
        let count = self.readable(patch, &next.jobs);
        if count == 0 {
            // It stands in a batch that is not written yet.
            return Turn::NoRoom;
        }
        if count < next.jobs.len() {
            next = self.writer.state.next_of_task(now.wall, task, count);
        }
        self.tasks.reading.insert(task);
        let merge = Merge {
            shared: Arc::clone(&self.writer.shared),
            merge: Arc::clone(&self.merge_patch),
            // What a batch can hold beside the facts of a step limits even a single payload.
            payload_max: usize::try_from(next.payload_max_bytes).unwrap_or(usize::MAX).min(self.mergeable(task)),
            sum_max: STEP_BYTES_MAX.min(self.mergeable(task)),
        };
        self.writer.shared.workers.run(Box::new(move || {
            let command = merge.step(task, patch, next);
            let patched = Patched { task, command };
            merge.shared.inbox.push_internal([Internal::Patched(Box::new(patched))]);
        }));
        Turn::Waits
    }

    /// Payload bytes that fit in one batch beside the facts of a step.
    fn mergeable(&self, task: u64) -> usize {
        self.writer.command_bytes_max().saturating_sub(space::step_bytes(&self.writer.state, task, STEP_JOBS_MAX))
    }

    /// How many of `jobs` can be read now and merged in one step.
    fn readable(&self, patch: Place, jobs: &[(u64, Place)]) -> usize {
        let written = self.writer.log.written().0;
        if patch.position > written {
            return 0;
        }
        let mut bytes = 0;
        // One alone always fits.
        let mut fits = |place: Place| {
            let length = place.length as usize;
            bytes += length;
            bytes <= STEP_BYTES_MAX || bytes == length
        };
        jobs.iter().take_while(|(_, place)| place.position <= written && fits(*place)).count()
    }
}

/// Merges a patch into the payloads of one step, on a reader thread.
struct Merge {
    shared: Arc<Shared>,
    merge: MergePatch,
    /// Largest payload, in bytes.
    payload_max: usize,
    /// All payloads of the step, in bytes.
    sum_max: usize,
}

/// Why there is no merged payload.
enum Unmerged {
    /// The payload, or the patch itself, stands somewhere else by now: choose again.
    Moved,
    /// Passed over, for this reason.
    Unpatchable(String),
}

impl Merge {
    /// The step, or as much of it as fits; what is left is chosen again.
    fn step(&self, task: u64, patch: Place, next: TaskStep) -> Option<Command> {
        let TaskStep { jobs: chosen, cursors, schemas, last, .. } = next;
        let patch = self.read(patch);
        let (mut jobs, mut unpatchable) = (Vec::with_capacity(chosen.len()), 0);
        let (mut taken, mut bytes) = (0_usize, 0);
        for ((seq, place), schema) in chosen.iter().zip(&schemas) {
            match self.one(&patch, *place, schema.as_ref()) {
                Err(Unmerged::Moved) => break,
                Err(Unmerged::Unpatchable(reason)) => {
                    tracing::warn!(seq, reason, "a dead job's payload could not be patched: it is not replayed");
                    self.shared.count_unpatched();
                    unpatchable += 1;
                }
                Ok(payload) => {
                    bytes += payload.len();
                    if bytes > self.sum_max && !jobs.is_empty() {
                        break;
                    }
                    jobs.push((*seq, Some(payload)));
                }
            }
            taken += 1;
        }
        let cursor = *cursors.get(taken.checked_sub(1)?)?;
        Some(Command::StepTask { task, jobs, unpatchable, cursor, last: last && taken == chosen.len() })
    }

    fn one(
        &self,
        patch: &Result<Bytes, Unmerged>,
        place: Place,
        schema: Option<&Arc<str>>,
    ) -> Result<Vec<u8>, Unmerged> {
        let patch = match patch {
            Ok(patch) => patch,
            Err(Unmerged::Moved) => return Err(Unmerged::Moved),
            Err(Unmerged::Unpatchable(reason)) => return Err(Unmerged::Unpatchable(reason.clone())),
        };
        let payload = self.read(place)?;
        // A merge that panics would leave its bulk action waiting for ever.
        let merged = catch_unwind(AssertUnwindSafe(|| (self.merge)(patch, &payload, schema)));
        let merged = merged.unwrap_or_else(|_| Err("the merge broke off".into())).map_err(Unmerged::Unpatchable)?;
        if merged.len() > self.payload_max {
            let (actual, limit) = (merged.len(), self.payload_max);
            return Err(Unmerged::Unpatchable(format!("it would have {actual} bytes, {limit} are allowed")));
        }
        Ok(merged)
    }

    fn read(&self, place: Place) -> Result<Bytes, Unmerged> {
        // As for a merge that panics.
        let read = catch_unwind(AssertUnwindSafe(|| self.shared.read(place)));
        let read = read.map_err(|_| Unmerged::Unpatchable("the read broke off".into()))?;
        read.map_err(
            |unread| {
                if unread.is_trimmed() { Unmerged::Moved } else { Unmerged::Unpatchable(unread.to_string()) }
            },
        )
    }
}
