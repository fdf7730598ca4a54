//! Bulk actions, stepped between commands: at most [`TASK_JOBS_MAX`] jobs or [`TASK_TIME_MAX`] a turn.
//!
//! A replay with a patch needs each payload as it is. Payload and patch are read and merged off the
//! writer; the step follows when they are there. A payload that cannot be read or patched is passed over
//! and counted, it does not stop the others.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

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
/// Payloads merged for one step, in bytes.
const STEP_BYTES_MAX: u64 = 1024 * 1024;

/// Merges a patch into a payload; the text says why it cannot.
pub type MergePatch = fn(patch: &[u8], payload: &[u8]) -> Result<Vec<u8>, String>;

/// A step whose payloads are ready.
pub(crate) struct Patched {
    task: u64,
    command: Command,
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
            if !self.step_task(now, &patched.command)? {
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
        let bytes = space::bound(command).min(self.writer.command_bytes_max());
        if self.writer.claim(now, space::class(command), bytes)? != Room::Yes {
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
            // It stands in the batch being built and can be read once that is submitted.
            return Turn::NoRoom;
        }
        if count < next.jobs.len() {
            next = self.writer.state.next_of_task(now.wall, task, count);
        }
        self.tasks.reading.insert(task);
        let (shared, merge) = (Arc::clone(&self.writer.shared), self.merge_patch);
        self.writer.shared.workers.run(Box::new(move || {
            let TaskStep { jobs, cursor, last, .. } = next;
            let chosen = jobs.len();
            let jobs = merge_all(&shared, merge, patch, jobs);
            let unpatchable = (chosen - jobs.len()) as u64;
            let command = Command::StepTask { task, jobs, unpatchable, cursor, last };
            shared.inbox.push_internal([Internal::Patched(Box::new(Patched { task, command }))]);
        }));
        Turn::Waits
    }

    /// How many of `jobs` can be read now and merged in one step.
    fn readable(&self, patch: Place, jobs: &[(u64, Place)]) -> usize {
        let unreadable = self.writer.draft_position();
        if Some(patch.position) == unreadable {
            return 0;
        }
        let mut bytes = 0;
        // One alone always fits.
        let mut fits = |place: Place| {
            bytes += u64::from(place.length);
            bytes <= STEP_BYTES_MAX || bytes == u64::from(place.length)
        };
        jobs.iter().take_while(|(_, place)| Some(place.position) != unreadable && fits(*place)).count()
    }
}

/// Those that cannot be patched are left out.
fn merge_all(shared: &Shared, merge: MergePatch, patch: Place, jobs: Vec<(u64, Place)>) -> Vec<(u64, Option<Vec<u8>>)> {
    let patch = shared.read(patch);
    let merge_one = |place| {
        let patch = patch.as_ref().map_err(ToString::to_string)?;
        let payload = shared.read(place).map_err(|error| error.to_string())?;
        merge(patch, &payload)
    };
    let step = |(seq, place): (u64, Place)| match merge_one(place) {
        Ok(payload) => Some((seq, Some(payload))),
        Err(reason) => {
            tracing::warn!(seq, reason, "a dead job's payload could not be patched: it is not replayed");
            shared.count_unpatched();
            None
        }
    };
    jobs.into_iter().filter_map(step).collect()
}
