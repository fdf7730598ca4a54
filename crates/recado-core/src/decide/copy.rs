//! An item, written again whole.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use recado_mutants::{Mutant, active};

use crate::draft::Draft;
use crate::event::{
    ChildCopy, DedupRecord, Event, FamilyCopy, GuardRecord, JobCopy, JobRecord, Lease, Removal, Span, TaskRecord,
};
use crate::items::{CopyPlan, ItemKind, whole};
use crate::options::{Backoff, NUMBER_BYTES_MAX};
use crate::reply::State as JobState;
use crate::state::{Child, ChildResult, Family, NONE, ProducerEntry, SettleEntry, Slot, State, flag};

/// Writes the item of `plan` again, unless it has changed since the plan was made.
pub(crate) fn copy(state: &State, plan: &CopyPlan, draft: &mut Draft) {
    if !state.is_current(plan) {
        return;
    }
    let number = plan.number;
    if plan.kind == ItemKind::Job && state.jobs[number].state == JobState::Delayed && active(Mutant::DelayedTrimmed) {
        let seqs = alloc::vec![state.jobs[number].id.seq()];
        return draft.push(Event::Removed { seqs, why: Removal::Forgotten });
    }
    let first = |draft: &mut Draft| plan.bytes.first().map(|bytes| draft.put(bytes));
    let event = match plan.kind {
        ItemKind::Globals => Event::GlobalsSet(Box::new(state.globals())),
        ItemKind::Queue => Event::QueueSet(Box::new(state.queue(number).record.clone())),
        ItemKind::Job => job(state, plan, draft),
        ItemKind::Saved => {
            let key = &state.keys[number];
            let Some(saved) = &key.saved else { return };
            let result = if active(Mutant::SavedResultTrimmed) { None } else { first(draft) };
            Event::KeySaved { key: key.hash, queue: key.queue, until: saved.until, result, ended: saved.ended }
        }
        ItemKind::Dedup => Event::DedupSet(Box::new(state.dedup_window(number))),
        ItemKind::Producer => {
            let producer = &state.producers[number];
            let ProducerEntry { hash, queue, seq, at, .. } = *producer;
            Event::ProducerAdvanced { producer: hash, queue, seq, at }
        }
        ItemKind::Request => {
            let request = &state.requests[number];
            let Some(answer) = first(draft) else { return };
            Event::RequestAnswered { request: request.hash, body: request.body, answer, until: request.until }
        }
        ItemKind::Guard => {
            let result = if active(Mutant::GuardResultTrimmed) { None } else { first(draft) };
            Event::GuardSet(Box::new(GuardRecord { result, ..state.guards[number].record }))
        }
        ItemKind::Task => {
            let mut record = state.tasks[&whole(number, state.last_number)].record.clone();
            record.patch = first(draft);
            Event::TaskSet(Box::new(record))
        }
        ItemKind::Audit => Event::Audited(Box::new(state.audit[&whole(number, state.last_number)].record.clone())),
        ItemKind::Settle => {
            let SettleEntry { seq, at, outcome, .. } = state.settles.table[number];
            Event::Settled { seq, at, outcome, is_end: true }
        }
        ItemKind::Schema => Event::SchemaSet(Box::new(state.schemas[&number].record.clone())),
        ItemKind::Limit => Event::LimitSet(Box::new(state.limits[&number].record.clone())),
        ItemKind::Schedule => Event::ScheduleSet(Box::new(state.schedules[&number].record.clone())),
        ItemKind::Hook => Event::HookSet(Box::new(state.hooks[&number].record.clone())),
        ItemKind::Note => {
            let note = &state.notes[number];
            Event::Noted { queue: note.queue, fingerprint: note.fingerprint, note: note.text.clone() }
        }
    };
    draft.push(event);
}

/// What a copied item takes without texts and lists.
const COPY_BYTES_MAX: usize = 1_024;

/// What a child takes in the copy of its parent, without its result.
const CHILD_BYTES_MAX: usize = 64;

impl State {
    /// Upper bound of the bytes that `plan` adds to a batch if it is carried out now.
    #[must_use]
    pub fn copy_bytes(&self, plan: &CopyPlan) -> usize {
        if !self.is_there(plan) {
            return 0;
        }
        let places: u64 = plan.places.iter().map(|place| u64::from(place.length)).sum();
        let texts = match plan.kind {
            ItemKind::Job => job_texts(self, plan.number),
            ItemKind::Globals => self.defaults.bytes_max(),
            ItemKind::Queue => self.queue_bytes_max(plan.number),
            ItemKind::Task => self.task_bytes_max(whole(plan.number, self.last_number)),
            ItemKind::Audit => {
                let record = &self.audit[&whole(plan.number, self.last_number)].record;
                let text = |text: &Option<Box<str>>| text.as_deref().map_or(0, str::len);
                text(&record.actor) + record.action.len() + text(&record.queue) + record.detail.len()
            }
            ItemKind::Note => self.notes[plan.number].text.len(),
            ItemKind::Schema => {
                let record = &self.schemas[&plan.number].record;
                record.kind.len() + record.text.len()
            }
            ItemKind::Limit => self.limits[&plan.number].record.name.len(),
            ItemKind::Schedule => self.schedules[&plan.number].bytes_max(),
            ItemKind::Hook => {
                let record = &self.hooks[&plan.number].record;
                record.name.len() + record.text.len()
            }
            ItemKind::Saved
            | ItemKind::Dedup
            | ItemKind::Producer
            | ItemKind::Request
            | ItemKind::Settle
            | ItemKind::Guard => 0,
        };
        COPY_BYTES_MAX + texts + usize::try_from(places).unwrap_or(usize::MAX / 4)
    }

    /// Upper bound of what is not of a fixed size in the record of a queue.
    #[must_use]
    pub fn queue_bytes_max(&self, queue: u32) -> usize {
        self.queues.get(&queue).map_or(0, |queue| {
            let record = &queue.record;
            record.name.len() + record.paused_reason.as_deref().map_or(0, str::len) + record.options.bytes_max()
        })
    }

    /// Upper bound of what is not of a fixed size in the record of a bulk action.
    #[must_use]
    pub fn task_bytes_max(&self, task: u64) -> usize {
        let text = |text: &Option<Box<str>>| text.as_deref().map_or(0, str::len);
        self.tasks.get(&task).map_or(0, |task| {
            let select = &task.record.select;
            let listed = select.seqs.as_ref().map_or(0, Vec::len) * NUMBER_BYTES_MAX + select.states.len();
            listed + text(&select.kind) + text(&select.error_kind) + self.task_text_bytes(&task.record)
        })
    }

    /// Upper bound of the texts that the audit entry at the end of a bulk action repeats.
    #[must_use]
    pub fn task_end_bytes_max(&self, task: u64) -> usize {
        self.tasks.get(&task).map_or(0, |task| self.task_text_bytes(&task.record))
    }

    fn task_text_bytes(&self, record: &TaskRecord) -> usize {
        let text = |text: &Option<Box<str>>| text.as_deref().map_or(0, str::len);
        let name = self.queues.get(&record.queue).map_or(0, |queue| queue.record.name.len());
        text(&record.actor) + text(&record.reason) + text(&record.destination) + name
    }
}

fn job_texts(state: &State, slot: Slot) -> usize {
    let job = &state.jobs[slot];
    let worker = job.lease().and_then(|lease| lease.worker.as_deref()).map_or(0, str::len);
    let death = job.death().map_or(0, |death| death.error_kind.len());
    let overrides = job.overrides().and_then(|own| own.backoff.as_ref()).map_or(0, Backoff::bytes_max);
    let children = state.family_of(job).map_or(0, |family| family.children.len() * CHILD_BYTES_MAX);
    state.lane_name(job).kind.len() + worker + death + overrides + children
}

fn job(state: &State, plan: &CopyPlan, draft: &mut Draft) -> Event {
    let job = &state.jobs[plan.number];
    let lane = state.lane_name(job);
    // The order of the places that a plan for a job asks for.
    let mut bytes = plan.bytes.iter();
    let mut next = |draft: &mut Draft| bytes.next().map_or_else(Span::default, |bytes| draft.put(bytes));
    let (payload, meta) = (next(draft), next(draft));
    let errors = job.errors().iter().map(|_| next(draft)).collect();
    let result = job.result().map(|_| next(draft));
    let progress = job.progress().map(|_| next(draft));
    let family = state.family_of(job).map(|family| Box::new(self::family(family, || next(draft))));
    let lease = job.lease_to_copy();
    let lease_state = state.lease_state(job);
    let dedup: Option<DedupRecord> = (job.dedup != NONE).then(|| state.dedups[job.dedup].record());
    let no_group = state.queue(job.queue).no_group;
    let came_from = job.arrival().filter(|_| active(Mutant::HandOffUndoneByTrim)).map(|arrival| arrival.from);
    let record = JobRecord {
        id: job.id,
        queue: came_from.unwrap_or(job.queue),
        kind: Arc::clone(&lane.kind),
        schema_version: lane.schema_version,
        priority: lane.priority,
        due_at: job.due_at,
        payload,
        meta,
        group: (job.group != no_group).then(|| state.groups[job.group].hash),
        dedup,
        key: state.key_of(job).map(|key| key.hash),
        business: (job.business != NONE).then(|| state.businesses[job.business].hash),
        overrides: job.overrides().cloned().map(Box::new),
        expires_at: job.expires_at(),
        behind: job.rare().and_then(|rare| rare.behind),
        at_once: job.has(flag::AT_ONCE),
        parent: state.parent_of(job),
        waits: None,
    };
    Event::JobCopied(Box::new(JobCopy {
        record,
        state: if job.state.is_final() && active(Mutant::AckResurrected) { JobState::Ready } else { job.state },
        attempts: u32::from(job.attempts),
        deliveries: u32::from(job.deliveries),
        earlier_deliveries: job.earlier_deliveries(),
        replays: u32::from(job.replays),
        due_elapsed_at: job.due_elapsed_at(),
        ignore_key: job.has(flag::IGNORE_KEY),
        lease: lease.map(|lease| Lease { state: lease_state.unwrap_or(lease.state), ..lease }),
        errors,
        error_count: job.error_count(),
        result,
        progress,
        cancel_requested: job.cancel_requested(),
        ended_at: job.ended_at(),
        keep_until: job.keep_until(),
        death: job.death().cloned(),
        task: job.task(),
        holds_group: state.groups[job.group].holders.contains(&plan.number),
        skipped: job.has(flag::SKIPPED),
        released_dedup: job.rare().and_then(|rare| rare.released_dedup),
        arrival: job.arrival(),
        first_received_at: job.first_received_at(),
        family,
    }))
}

fn family(family: &Family, mut next: impl FnMut() -> Span) -> FamilyCopy {
    let child = |it: &Child| {
        let (result, saved) = match it.result {
            ChildResult::None => (None, None),
            ChildResult::Own(_) => (Some(next()), None),
            ChildResult::Saved(key) => (None, Some(key)),
        };
        ChildCopy { id: it.id, end: it.end, result, saved }
    };
    let Family { waits, total, ended, failed, .. } = *family;
    FamilyCopy { waits, total, ended, failed, children: family.children.iter().map(child).collect() }
}
