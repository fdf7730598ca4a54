//! An item, written again whole.

use alloc::boxed::Box;

use crate::draft::Draft;
use crate::event::{DedupRecord, Event, JobCopy, JobRecord, Span};
use crate::items::{CopyPlan, ItemKind, whole};
use crate::state::{NONE, State, flag};

/// Writes the item of `plan` again, unless it has changed since the plan was made.
pub(crate) fn copy(state: &State, plan: &CopyPlan, draft: &mut Draft) {
    if !state.is_current(plan) {
        return;
    }
    let number = plan.number;
    let first = |draft: &mut Draft| plan.bytes.first().map(|bytes| draft.put(bytes));
    let event = match plan.kind {
        ItemKind::Globals => Event::GlobalsSet(Box::new(state.globals())),
        ItemKind::Queue => Event::QueueSet(Box::new(state.queue(number).record.clone())),
        ItemKind::Job => job(state, plan, draft),
        ItemKind::Saved => {
            let key = &state.keys[number];
            let Some(saved) = &key.saved else { return };
            let result = first(draft);
            Event::KeySaved { key: key.hash, queue: key.queue, until: saved.until, result, ended: saved.ended }
        }
        ItemKind::Dedup => Event::DedupSet(Box::new(state.dedups[number].window)),
        ItemKind::Producer => {
            let producer = &state.producers[number];
            Event::ProducerAdvanced { producer: producer.hash, queue: producer.queue, seq: producer.seq }
        }
        ItemKind::Request => {
            let request = &state.requests[number];
            let Some(answer) = first(draft) else { return };
            Event::RequestAnswered { request: request.hash, body: request.body, answer, until: request.until }
        }
        ItemKind::Task => {
            let mut record = state.tasks[&whole(number, state.last_number)].record.clone();
            record.patch = first(draft);
            Event::TaskSet(Box::new(record))
        }
        ItemKind::Audit => Event::Audited(Box::new(state.audit[&whole(number, state.last_number)].record.clone())),
        ItemKind::Note => {
            let note = &state.notes[number];
            Event::Noted { queue: note.queue, fingerprint: note.fingerprint, note: note.text.clone() }
        }
    };
    draft.push(event);
}

fn job(state: &State, plan: &CopyPlan, draft: &mut Draft) -> Event {
    let job = &state.jobs[plan.number];
    let lane = state.queue(job.queue).lane(job.lane);
    // The order of the places that a plan for a job asks for.
    let mut bytes = plan.bytes.iter();
    let mut next = |draft: &mut Draft| bytes.next().map_or_else(Span::default, |bytes| draft.put(bytes));
    let (payload, meta) = (next(draft), next(draft));
    let extra = job.extra.as_deref();
    let errors = extra.map_or(0, |extra| extra.errors.len());
    let errors = (0..errors).map(|_| next(draft)).collect();
    let result = extra.and_then(|extra| extra.result).map(|_| next(draft));
    let progress = extra.and_then(|extra| extra.progress).map(|_| next(draft));
    let dedup: Option<DedupRecord> = (job.dedup != NONE).then(|| state.dedups[job.dedup].window.dedup);
    let no_group = state.queue(job.queue).no_group;
    let record = JobRecord {
        id: job.id,
        queue: job.queue,
        kind: (*lane.kind).into(),
        schema_version: lane.schema_version,
        priority: lane.priority,
        due_at: job.due_at,
        payload,
        meta,
        group: (job.group != no_group).then(|| state.groups[job.group].hash),
        dedup,
        key: state.key_of(job).map(|key| key.hash),
        business: (job.business != NONE).then(|| state.businesses[job.business].hash),
        overrides: extra.and_then(|extra| extra.overrides.clone()),
        expires_at: job.expires_at(),
        behind: extra.and_then(|extra| extra.behind),
        at_once: job.has(flag::AT_ONCE),
    };
    Event::JobCopied(Box::new(JobCopy {
        record,
        state: job.state,
        attempts: u32::from(job.attempts),
        deliveries: u32::from(job.deliveries),
        replays: u32::from(job.replays),
        due_elapsed_at: extra.and_then(|extra| extra.due_elapsed_at),
        ignore_key: job.has(flag::IGNORE_KEY),
        lease: job.lease().cloned(),
        errors,
        error_count: extra.map_or(0, |extra| extra.error_count),
        result,
        progress,
        cancel_requested: job.cancel_requested(),
        ended_at: job.ended_at(),
        keep_until: job.keep_until(),
        death: job.death().cloned(),
        task: extra.and_then(|extra| extra.task),
        holds_group: state.groups[job.group].holder == plan.number,
        skipped: job.has(flag::SKIPPED),
        released_dedup: extra.and_then(|extra| extra.released_dedup),
    }))
}
