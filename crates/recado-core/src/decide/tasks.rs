//! Bulk actions: what touches many jobs is an item with a selection and a cursor, done in steps.
//!
//! The order of a task's work, and so of its cursor, is by *part* and then by place in line. A waiting job that
//! carries an idempotency key is in [`PART_KEYED`] wherever it stands, for its key moves it to and fro. The
//! others only go forward: blocked ones ([`PART_ASIDE`]) to [`PART_DELAYED`], and those to the lanes by number
//! from [`PART_LANES`]. A forced delete goes on with [`PART_IN_FLIGHT`], [`PART_DEAD`], [`PART_FINISHED`].
//! Replay and discard have the one part of the dead, or the list of jobs that was given.

use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Bound;

use super::hand_off::HandOffTo;
use super::{audit, find_queue, mix, still_there};
use crate::command::{Action, Actor, Filter, Moment, NewTask, Rate, Select};
use crate::draft::Draft;
use crate::event::{Cursor, Event, Removal, SelectRecord, TaskCounts, TaskKind, TaskRecord};
use crate::id::{Hash, JobId};
use crate::rejection::Rejection;
use crate::reply::{Place, Reply, State as JobState, TaskState, TaskView};
use crate::state::{Job, LANES_MAX, Queue, Slot, Spot, State, TASKS_RUNNING_MAX, Task, domain};

const PART_ASIDE: u32 = 0;
const PART_DELAYED: u32 = 1;
const PART_LANES: u32 = 2;
const PART_KEYED: u32 = PART_LANES + LANES_MAX as u32;
const PART_IN_FLIGHT: u32 = PART_KEYED + 1;
const PART_DEAD: u32 = PART_KEYED + 2;
const PART_FINISHED: u32 = PART_KEYED + 3;

/// Jobs that one step looks at, whether or not they are meant.
const LOOKED_AT_MAX: usize = 1_000;

/// Dead jobs that a dry run looks at.
const PREVIEW_LOOKED_AT_MAX: usize = 100_000;

/// See [`State::preview`].
#[derive(Debug, Default)]
pub(crate) struct Preview {
    pub(crate) matched: u64,
    /// Reasons and how many.
    pub(crate) skipped: [(&'static str, u64); 5],
    pub(crate) example: Option<Slot>,
}

/// What a task does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskStep {
    /// Jobs by sequence number, with the place of their payload.
    pub jobs: Vec<(u64, Place)>,
    /// How far the task is after each of them, for a step that takes only the first few.
    pub cursors: Vec<Cursor>,
    /// With a patch, the schema of each of them.
    pub schemas: Vec<Option<Arc<str>>>,
    /// The merge patch for each payload.
    pub patch: Option<Place>,
    /// Nothing is left after these.
    pub last: bool,
    /// Not before then, because of the task's rate.
    pub due_at: Option<u64>,
    /// How far the task is after these.
    pub cursor: Cursor,
    /// Something was looked at. Without jobs it is a step nonetheless: the next one looks further.
    pub moved: bool,
    /// A patched payload may have so many bytes.
    pub payload_max_bytes: u64,
}

impl TaskStep {
    /// A step of a task that stands at `cursor`, before anything was chosen.
    fn new(cursor: Cursor, patch: Option<Place>) -> Self {
        Self {
            jobs: Vec::new(),
            cursors: Vec::new(),
            schemas: Vec::new(),
            patch,
            last: false,
            due_at: None,
            cursor,
            moved: false,
            payload_max_bytes: 0,
        }
    }
}

fn select_record(state: &State, number: u32, select: &Select) -> SelectRecord {
    match select {
        Select::Ids(ids) => {
            let seqs = ids.iter().filter(|id| state.slot_of(**id).is_some()).map(|id| id.seq());
            SelectRecord { seqs: Some(seqs.collect()), ..SelectRecord::default() }
        }
        Select::Filter(filter) => filter_record(state, number, filter),
    }
}

/// Ids that are nobody's, or no longer.
fn not_found(state: &State, select: &Select) -> u64 {
    match select {
        Select::Ids(ids) => ids.iter().filter(|id| state.slot_of(**id).is_none()).count() as u64,
        Select::Filter(_) => 0,
    }
}

fn filter_record(state: &State, number: u32, filter: &Filter) -> SelectRecord {
    SelectRecord {
        seqs: None,
        states: Vec::new(),
        kind: filter.kind.clone(),
        error_kind: filter.error_kind.clone(),
        fingerprint: filter.fingerprint,
        group: filter.group.as_ref().map(|group| state.hash(domain::GROUP, number, group)),
        business: filter.business_id.as_ref().map(|id| state.hash(domain::BUSINESS, 0, id)),
        died_before: filter.died_before,
        died_after: filter.died_after,
    }
}

impl State {
    /// Whether a dead job is meant by a selection without ids.
    fn is_selected(&self, select: &SelectRecord, job: &Job) -> bool {
        let queue = self.queue(job.queue);
        let matches = |wanted: Option<Hash>, has: Option<Hash>| wanted.is_none() || wanted == has;
        let business = self.businesses.get(job.business).map(|business| business.hash);
        let death = job.death();
        select.kind.as_deref().is_none_or(|kind| kind == &*queue.lane(job.lane).name.kind)
            && select.error_kind.as_ref().is_none_or(|kind| death.is_some_and(|death| death.error_kind == *kind))
            && select.fingerprint.is_none_or(|print| death.is_some_and(|death| death.fingerprint == print))
            && matches(select.group, Some(self.groups[job.group].hash))
            && matches(select.business, business)
            && select.died_before.is_none_or(|before| job.ended_at() < before)
            && select.died_after.is_none_or(|after| job.ended_at() > after)
    }

    /// What a replay would do: the jobs it is meant for, those it would pass over, and one it would replay.
    pub(crate) fn preview(&self, queue: &Queue, replay: &crate::command::Replay) -> Preview {
        let select = select_record(self, queue.record.number, &replay.select);
        let mut preview = Preview::default();
        let mut counts = TaskCounts::default();
        let mut look = |slot: Slot| {
            preview.matched += 1;
            if self.passes_over(queue, slot, replay.force, &mut counts) {
                return;
            }
            preview.example = preview.example.or(Some(slot));
        };
        match &select.seqs {
            Some(seqs) => seqs.iter().filter_map(|seq| self.slot_of_seq(*seq)).for_each(look),
            None => {
                let newest_first = queue.dead.values().rev().take(PREVIEW_LOOKED_AT_MAX).copied();
                newest_first.filter(|slot| self.is_selected(&select, &self.jobs[*slot])).for_each(&mut look);
            }
        }
        let beyond = queue.dead.len().saturating_sub(PREVIEW_LOOKED_AT_MAX) as u64;
        preview.skipped = [
            ("max-replays", counts.skipped_max_replays),
            ("conflict", counts.skipped_conflict),
            ("not-dead", counts.skipped_not_dead),
            ("not-found", not_found(self, &replay.select)),
            ("not-looked-at", if select.seqs.is_none() { beyond } else { 0 }),
        ];
        preview
    }

    /// Whether a replay leaves this job as it is; counts why.
    fn passes_over(&self, queue: &Queue, slot: Slot, force: bool, counts: &mut TaskCounts) -> bool {
        let job = &self.jobs[slot];
        let dedup = job.rare().and_then(|rare| rare.released_dedup);
        let why = if job.queue != queue.record.number || job.state != JobState::Dead {
            &mut counts.skipped_not_dead
        } else if !force && u32::from(job.replays) >= queue.settings.max_replays {
            &mut counts.skipped_max_replays
        } else if dedup.is_some_and(|dedup| self.dedups.find(dedup.hash.0).is_some()) {
            &mut counts.skipped_conflict
        } else {
            return false;
        };
        *why += 1;
        true
    }

    /// The queue that takes a job which is moved.
    fn moved_to(&self, record: &TaskRecord, job: &Job) -> Option<u32> {
        let number = match &record.destination {
            Some(name) => self.names.get(name).copied(),
            None => job.arrival().map(|arrival| arrival.from),
        };
        number.filter(|number| self.can_take(*number, job))
    }

    /// Tasks that are at work.
    #[must_use]
    pub fn running_tasks(&self) -> Vec<u64> {
        self.running.iter().copied().collect()
    }

    /// What a task does next, at most `max` jobs of it.
    #[must_use]
    pub fn next_of_task(&self, now: u64, task: u64, max: usize) -> TaskStep {
        let Some(task) = self.tasks.get(&task) else {
            return TaskStep { last: true, ..TaskStep::new(Cursor::default(), None) };
        };
        let record = &task.record;
        let mut step = TaskStep::new(record.cursor, task.patch);
        let Some(queue) = self.queues.get(&record.queue) else {
            step.last = true;
            return step;
        };
        step.payload_max_bytes = queue.settings.payload_max_bytes;
        let max = match record.rate {
            Some(rate) => {
                let (allowed, due_at) = allowance(self, record, rate, now);
                step.due_at = (allowed == 0).then_some(due_at);
                max.min(allowed as usize)
            }
            None => max,
        };
        if max > 0 {
            match &record.select.seqs {
                Some(seqs) => self.next_listed(seqs, max, &mut step),
                None => self.next_in_parts(queue, task, max, &mut step),
            }
        }
        step.moved = step.cursor != record.cursor;
        if step.patch.is_some() {
            step.schemas = step.jobs.iter().map(|(seq, _)| self.schema_of(*seq)).collect();
        }
        step
    }

    fn schema_of(&self, seq: u64) -> Option<Arc<str>> {
        let lane = self.lane_name(&self.jobs[self.slot_of_seq(seq)?]);
        self.schema(&lane.kind, lane.schema_version).map(|schema| Arc::clone(&schema.text))
    }

    fn next_listed(&self, seqs: &[u64], max: usize, step: &mut TaskStep) {
        let from = step.cursor.part as usize;
        let to = (from + max).min(seqs.len());
        for (index, seq) in (from..to).zip(&seqs[from.min(to)..to]) {
            let payload = self.slot_of_seq(*seq).map_or_else(Place::default, |slot| self.jobs[slot].payload());
            step.jobs.push((*seq, payload));
            step.cursors.push(Cursor { part: index as u32 + 1, ..step.cursor });
        }
        step.cursor.part = to as u32;
        step.last = to == seqs.len();
    }

    fn next_in_parts(&self, queue: &Queue, task: &Task, max: usize, step: &mut TaskStep) {
        let record = &task.record;
        let mut looked_at = 0;
        for part in parts(queue, record.kind, record.cursor.part) {
            if part > step.cursor.part {
                step.cursor = Cursor { part, spot: Hash(0) };
            }
            for (spot, slot) in self.line_of(queue, part, step.cursor.spot.0) {
                if step.jobs.len() == max || looked_at == LOOKED_AT_MAX {
                    return;
                }
                looked_at += 1;
                step.cursor.spot = Hash(spot);
                let job = slot.map(|slot| &self.jobs[slot]);
                let is_here = |job: &&Job| !job.state.is_waiting() || job.carries_key() == (part == PART_KEYED);
                if let Some(job) = job.filter(is_here).filter(|job| self.is_meant(record, job)) {
                    step.jobs.push((job.id.seq(), job.payload()));
                    step.cursors.push(step.cursor);
                }
            }
        }
        step.last = true;
    }

    /// Places behind `after` in a part, with the job that stands there if it is one of the queue's.
    fn line_of<'a>(
        &'a self,
        queue: &'a Queue,
        part: u32,
        after: u128,
    ) -> Box<dyn Iterator<Item = (u128, Option<Slot>)> + 'a> {
        let line = match part {
            PART_KEYED if queue.keys == 0 => None,
            PART_KEYED => return Box::new(self.keyed(queue, after)),
            PART_ASIDE => Some(&queue.aside),
            PART_DELAYED => Some(&queue.delayed),
            PART_IN_FLIGHT => Some(&queue.in_flight),
            PART_DEAD => Some(&queue.dead),
            PART_FINISHED => Some(&queue.finished),
            lane => queue.lanes.get((lane - PART_LANES) as usize).and_then(Option::as_ref).map(|lane| &lane.ready),
        };
        let behind = (Bound::Excluded(Spot(after)), Bound::Unbounded);
        Box::new(line.into_iter().flat_map(move |line| line.range(behind)).map(|(spot, slot)| (spot.0, Some(*slot))))
    }

    /// Waiting jobs that carry a key, by key and sequence number; a key of another queue is a place without one.
    fn keyed<'a>(&'a self, queue: &'a Queue, after: u128) -> impl Iterator<Item = (u128, Option<Slot>)> + 'a {
        let first = (after >> 64) as Slot;
        (first..self.keys.slots()).flat_map(move |slot| {
            let place = move |seq: u64| u128::from(slot) << 64 | u128::from(seq);
            let key = self.keys.get(slot);
            let ours = key.filter(|key| key.queue == queue.record.number);
            let above = if slot == first { after as u64 } else { 0 };
            let jobs = ours.into_iter().flat_map(move |key| key.jobs.oldest_first(above, &self.jobs));
            let jobs =
                jobs.map(move |(seq, job)| (place(seq), Some(job).filter(|job| self.jobs[*job].state.is_waiting())));
            let passed = (ours.is_none() && slot > first).then(|| (place(0), None));
            jobs.chain(passed)
        })
    }

    fn is_meant(&self, record: &TaskRecord, job: &Job) -> bool {
        match record.kind {
            TaskKind::Purge => job.id.seq() <= record.end && record.select.states.contains(&job.state),
            TaskKind::Replay | TaskKind::Discard => {
                job.ended_at() <= record.end && self.is_selected(&record.select, job)
            }
            TaskKind::Move => job.id.seq() <= record.end && job.state == JobState::Ready,
            TaskKind::DeleteQueue => true,
        }
    }

    pub(crate) fn task_view(&self, task: &Task) -> TaskView {
        let record = &task.record;
        let counts = &record.counts;
        let skipped = [
            ("max-replays", counts.skipped_max_replays),
            ("conflict", counts.skipped_conflict),
            ("not-dead", counts.skipped_not_dead),
            ("not-found", counts.skipped_not_found),
            ("unpatchable", counts.skipped_unpatchable),
        ];
        TaskView {
            id: record.id,
            kind: record.kind,
            queue: self.queues.get(&record.queue).map_or_else(|| "".into(), |queue| queue.name.clone()),
            state: record.state,
            started_at: record.started_at,
            ended_at: record.ended_at,
            matched: match record.state {
                TaskState::Completed => counts.matched,
                _ => counts.matched.max(record.expected),
            },
            acted: counts.acted,
            succeeded: counts.succeeded,
            failed: counts.failed,
            skipped: skipped.into_iter().filter(|(_, n)| *n > 0).map(|(word, n)| (word.into(), n)).collect(),
            destination: record.destination.clone(),
            rate: record.rate,
        }
    }
}

/// Jobs that a rate allows now, and when it allows the next.
fn allowance(state: &State, record: &TaskRecord, rate: Rate, now: u64) -> (u64, u64) {
    let done = record.counts.matched;
    let elapsed_ms = state.elapsed(now).saturating_sub(record.started_elapsed_at);
    let earned = u128::from(elapsed_ms) * u128::from(rate.jobs) / u128::from(rate.per_ms.max(1)) + 1;
    let next_ms = (u128::from(done) * u128::from(rate.per_ms)).div_ceil(u128::from(rate.jobs.max(1)));
    let allowed = u64::try_from(earned).unwrap_or(u64::MAX).saturating_sub(done);
    let next_elapsed_at = record.started_elapsed_at.saturating_add(u64::try_from(next_ms).unwrap_or(u64::MAX));
    (allowed, state.wall(next_elapsed_at))
}

fn parts(queue: &Queue, kind: TaskKind, from: u32) -> impl Iterator<Item = u32> {
    let lanes_end = PART_LANES + queue.lanes.len() as u32;
    let range = match kind {
        TaskKind::Purge | TaskKind::Move => from..PART_DEAD,
        TaskKind::Replay | TaskKind::Discard => from.max(PART_DEAD)..PART_DEAD + 1,
        TaskKind::DeleteQueue => from..PART_FINISHED + 1,
    };
    range.filter(move |part| *part < lanes_end || *part >= PART_KEYED)
}

pub(super) fn start(state: &State, moment: Moment, new: &NewTask, draft: &mut Draft) -> Result<Reply, Rejection> {
    let queue = find_queue(state, &new.queue)?;
    still_there(queue)?;
    let number = queue.record.number;
    if state.running.len() >= TASKS_RUNNING_MAX {
        let (limit, actual) = (TASKS_RUNNING_MAX as u64, state.running.len() as u64 + 1);
        return Err(Rejection::QueueFull { queue: new.queue.clone(), reason: "tasks", limit, actual });
    }
    let mut record = blank(state, moment, number, TaskKind::Purge, &new.actor);
    record.reason.clone_from(&new.reason);
    match &new.action {
        Action::Purge { states } => {
            record.select.states.clone_from(states);
            draft.push(Event::QueuePurged { queue: number, at: moment.at });
        }
        Action::Replay(replay) => {
            record.kind = TaskKind::Replay;
            record.end = last_death(queue, moment.at);
            record.select = select_record(state, number, &replay.select);
            record.counts.skipped_not_found = not_found(state, &replay.select);
            record.expected = expected(state, queue, &record.select);
            record.patch = replay.patch.as_ref().map(|patch| draft.put(patch));
            record.rate = replay.rate;
            record.halt_after = replay.halt_after;
            record.ignore_key = replay.ignore_key;
            record.force = replay.force;
        }
        Action::Move { destination, rate } => {
            check_move(state, queue)?;
            record.kind = TaskKind::Move;
            record.expected = queue.count(JobState::Ready);
            record.destination.clone_from(destination);
            record.rate = *rate;
        }
        Action::Discard { select } => {
            record.kind = TaskKind::Discard;
            record.end = last_death(queue, moment.at);
            record.select = select_record(state, number, select);
            record.counts.skipped_not_found = not_found(state, select);
            record.expected = expected(state, queue, &record.select);
        }
    }
    let task = Task { record: record.clone(), patch: None, link: crate::items::Link::default() };
    let view = state.task_view(&task);
    draft.push(Event::TaskSet(Box::new(record)));
    Ok(Reply::Task(view))
}

/// Jobs are moved from a queue that others hand off to, by one task at a time.
fn check_move(state: &State, queue: &Queue) -> Result<(), Rejection> {
    let name = &queue.record.name;
    if !state.queues.values().any(|queue| queue.redrives_to(name)) {
        return Err(Rejection::NotATarget(name.clone()));
    }
    let mut running = state.running.iter().map(|task| &state.tasks[task].record);
    if running.any(|task| task.kind == TaskKind::Move && task.queue == queue.record.number) {
        return Err(Rejection::MoveRunning(name.clone()));
    }
    Ok(())
}

/// The latest instant of a death so far: also later than now, after the wall clock was stepped back.
fn last_death(queue: &Queue, at: u64) -> u64 {
    queue.dead.keys().next_back().map_or(at, |last| last.due_at().max(at))
}

fn blank(state: &State, moment: Moment, queue: u32, kind: TaskKind, actor: &Actor) -> TaskRecord {
    TaskRecord {
        id: state.last_number + 1,
        queue,
        kind,
        select: SelectRecord::default(),
        end: state.seq,
        state: TaskState::Running,
        started_at: moment.at,
        started_elapsed_at: state.elapsed(moment.at),
        ended_at: None,
        patch: None,
        rate: None,
        halt_after: 0,
        ignore_key: false,
        force: false,
        counts: TaskCounts::default(),
        cursor: Cursor::default(),
        actor: actor.0.clone(),
        reason: None,
        expected: 0,
        destination: None,
    }
}

/// Dead jobs that the start of a task looks at to say how many it is meant for; beyond, they are counted as
/// it goes.
const COUNTED_MAX: usize = 10_000;

/// How many dead jobs a selection is for, as far as that can be told at once.
fn expected(state: &State, queue: &Queue, select: &SelectRecord) -> u64 {
    let is_dead = |slot: &Slot| state.jobs[*slot].state == JobState::Dead;
    if let Some(seqs) = &select.seqs {
        return seqs.iter().filter_map(|seq| state.slot_of_seq(*seq)).filter(is_dead).count() as u64;
    }
    if *select == SelectRecord::default() {
        return queue.dead.len() as u64;
    }
    let looked_at = queue.dead.values().rev().take(COUNTED_MAX);
    looked_at.filter(|slot| state.is_selected(select, &state.jobs[**slot])).count() as u64
}

pub(super) fn start_delete(
    state: &State,
    moment: Moment,
    queue: &Queue,
    actor: &Actor,
    draft: &mut Draft,
) -> Result<Reply, Rejection> {
    let number = queue.record.number;
    let is_this = |task: &&Task| task.record.kind == TaskKind::DeleteQueue && task.record.queue == number;
    let mut running = state.tasks.values().filter(|task| task.record.state == TaskState::Running);
    if let Some(task) = running.find(is_this) {
        return Ok(Reply::Task(state.task_view(task)));
    }
    let record = blank(state, moment, number, TaskKind::DeleteQueue, actor);
    let task = Task { record: record.clone(), patch: None, link: crate::items::Link::default() };
    let view = state.task_view(&task);
    draft.push(Event::TaskSet(Box::new(record)));
    Ok(Reply::Task(view))
}

pub(super) fn cancel(
    state: &State,
    moment: Moment,
    task: u64,
    actor: &Actor,
    draft: &mut Draft,
) -> Result<Reply, Rejection> {
    let mut view = state.task_view(state.tasks.get(&task).ok_or(Rejection::TaskNotFound)?);
    if view.state == TaskState::Running {
        view.state = TaskState::Cancelled;
        draft.push(Event::TaskEnded { task: view.id, state: TaskState::Cancelled, at: moment.at });
        let name = view.queue.clone();
        audit(state, moment, actor, "replay-cancelled", Some(&name), &format!("rpl_{}", view.id), draft);
    }
    Ok(Reply::Task(view))
}

/// One job of a [`crate::Command::StepTask`], or its end when there is none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TaskStepDecision<'a> {
    pub(crate) task: u64,
    pub(crate) job: Option<(u64, Option<&'a [u8]>)>,
    pub(crate) unpatchable: u64,
    pub(crate) cursor: Cursor,
    pub(crate) last: bool,
}

pub(crate) fn step(
    state: &State,
    moment: Moment,
    step: TaskStepDecision<'_>,
    draft: &mut Draft,
) -> Result<Reply, Rejection> {
    let task = state.tasks.get(&step.task).ok_or(Rejection::TaskNotFound)?;
    let record = &task.record;
    if record.state != TaskState::Running {
        return Ok(Reply::Task(state.task_view(task)));
    }
    let mut counts = record.counts;
    if record.halt_after > 0 && record.counts.failed_early >= u64::from(record.halt_after) {
        let mut view = state.task_view(task);
        (view.state, view.ended_at) = (TaskState::Halted, Some(moment.at));
        end(state, moment, record, TaskState::Halted, counts, draft);
        return Ok(Reply::Task(view));
    }
    counts.skipped_unpatchable += step.unpatchable;
    counts.matched += step.unpatchable;
    if let Some((seq, _)) = step.job.filter(|_| record.kind == TaskKind::Move)
        && state.slot_of_seq(seq).is_some_and(|slot| state.moved_to(record, &state.jobs[slot]).is_none())
    {
        // Where it should go is gone, or nobody knows where it came from.
        let mut view = state.task_view(task);
        (view.state, view.ended_at) = (TaskState::Halted, Some(moment.at));
        end(state, moment, record, TaskState::Halted, counts, draft);
        return Ok(Reply::Task(view));
    }
    if let Some((seq, payload)) = step.job {
        counts.matched += 1;
        act(state, moment, record, seq, payload, &mut counts, draft);
    }
    let is_end = step.last;
    // Settles and timers move jobs to parts that were passed already: a delete goes round until none is left.
    let acted = counts.acted - record.counts.acted;
    let is_left = |queue: &Queue| match record.kind {
        TaskKind::DeleteQueue => queue.jobs() > acted,
        TaskKind::Purge if record.select.states.contains(&JobState::InFlight) => {
            let left = queue.by_age.iter().take(acted as usize + 1);
            left.filter(|(_, seq)| *seq <= record.end).count() > acted as usize
        }
        _ => false,
    };
    let goes_round = is_end && state.queues.get(&record.queue).is_some_and(|queue| is_left(queue));
    let cursor = if goes_round { Cursor::default() } else { step.cursor };
    draft.push(Event::TaskAdvanced { task: record.id, cursor, counts });
    let mut view =
        state.task_view(&Task { record: TaskRecord { counts, ..record.clone() }, patch: None, link: task.link });
    if is_end && !goes_round {
        (view.state, view.ended_at) = (TaskState::Completed, Some(moment.at));
        end(state, moment, record, TaskState::Completed, counts, draft);
    }
    Ok(Reply::Task(view))
}

fn act(
    state: &State,
    moment: Moment,
    record: &TaskRecord,
    seq: u64,
    payload: Option<&[u8]>,
    counts: &mut TaskCounts,
    draft: &mut Draft,
) {
    let Some(slot) = state.slot_of_seq(seq).filter(|slot| state.jobs[*slot].queue == record.queue) else {
        counts.skipped_not_dead += 1;
        return;
    };
    let job = &state.jobs[slot];
    let remove = |why| Event::Removed { seqs: alloc::vec![seq], why };
    match record.kind {
        TaskKind::Purge if job.state.is_waiting() || record.select.states.contains(&job.state) => {
            draft.push(remove(Removal::Purged));
        }
        TaskKind::Move if job.state == JobState::Ready => {
            let Some(queue) = state.moved_to(record, job) else { return };
            let seq = state.seq + 1;
            let id = JobId::new(moment.at, state.shard, seq, mix(moment.entropy, seq));
            state.hand_off(slot, moment.at, HandOffTo { queue, id, error: None }, draft);
        }
        TaskKind::DeleteQueue => draft.push(remove(Removal::Deleted)),
        TaskKind::Discard if job.state == JobState::Dead => draft.push(remove(Removal::Discarded)),
        TaskKind::Replay => {
            if state.passes_over(state.queue(job.queue), slot, record.force, counts) {
                return;
            }
            let payload = payload.map(|payload| draft.put(payload));
            let (at, task, ignore_key) = (moment.at, record.id, record.ignore_key);
            let due_at = at.max(state.line_at);
            draft.push(Event::Replayed { seq, at, task, payload, ignore_key, due_at });
        }
        _ => {
            counts.skipped_not_dead += 1;
            return;
        }
    }
    counts.acted += 1;
}

fn end(state: &State, moment: Moment, record: &TaskRecord, how: TaskState, counts: TaskCounts, draft: &mut Draft) {
    draft.push(Event::TaskEnded { task: record.id, state: how, at: moment.at });
    let Some(queue) = state.queues.get(&record.queue) else { return };
    let (action, word) = match record.kind {
        TaskKind::Purge => ("purged", "purged"),
        TaskKind::Replay => ("replayed", "replayed"),
        TaskKind::Move => ("moved", "moved"),
        TaskKind::Discard => ("discarded", "discarded"),
        TaskKind::DeleteQueue => ("queue-deleted", "removed"),
    };
    let reason = record.reason.as_deref().map_or_else(Default::default, |reason| format!(": {reason}"));
    let detail = format!("{} of {} {word}{reason}", counts.acted, counts.matched);
    audit(state, moment, &Actor(record.actor.clone()), action, Some(&queue.record.name), &detail, draft);
    if record.kind == TaskKind::DeleteQueue {
        draft.push(Event::QueueDeleted { queue: record.queue });
    }
}
