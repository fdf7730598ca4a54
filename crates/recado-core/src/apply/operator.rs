//! Facts about what operators do: bulk actions, the audit trail, notes.

use super::queue::ensure_queue;
use crate::event::{AuditRecord, TaskKind, TaskRecord};
use crate::items::{ItemKind, Link, short};
use crate::state::{AUDIT_MAX, AuditEntry, Note, Slot, State, Task, Timer};

/// How long a finished bulk action can be looked up.
pub(crate) const TASK_KEPT_MS: u64 = 24 * 3_600_000;

pub(super) fn task_set(state: &mut State, position: u64, record: &TaskRecord) {
    let number = short(record.id);
    state.last_number = state.last_number.max(record.id);
    if state.tasks.contains_key(&record.id) {
        forget_task(state, record.id);
    }
    if record.kind == TaskKind::DeleteQueue && record.state == crate::reply::TaskState::Running {
        ensure_queue(state, record.queue);
        state.queue_mut(record.queue).is_going = true;
    }
    let patch = record.patch.map(|span| span.at(position));
    state.tasks.insert(record.id, Task { record: record.clone(), patch, link: Link::default() });
    if let Some(ended_at) = record.ended_at {
        state.timers.set(false, ended_at + TASK_KEPT_MS, Timer::Task(number));
    }
    if record.state == crate::reply::TaskState::Running {
        state.running.insert(record.id);
    }
    state.link_item(ItemKind::Task, number, position);
}

pub(super) fn task_ended(state: &mut State, task: u64, how: crate::reply::TaskState, at: u64) {
    if !state.tasks.contains_key(&task) {
        return;
    }
    let number = short(task);
    state.unweigh_item(ItemKind::Task, number);
    let Some(task) = state.tasks.get_mut(&task) else { return };
    // What it was meant for is not needed any more; what it did is in its figures.
    task.record.select.seqs = None;
    task.patch = None;
    task.record.state = how;
    state.running.remove(&task.record.id);
    if task.record.ended_at.replace(at).is_none() {
        state.timers.set(false, at + TASK_KEPT_MS, Timer::Task(number));
    }
    if task.record.kind == TaskKind::DeleteQueue
        && let Some(queue) = state.queues.get_mut(&task.record.queue)
    {
        // A delete that was stopped gives the queue back; one that is done removes it next.
        queue.is_going = false;
        let number = queue.record.number;
        state.wake(number);
    }
    state.weigh_item(ItemKind::Task, number);
}

pub(super) fn forget_task(state: &mut State, task: u64) {
    if let Some(record) = state.tasks.get(&task).map(|task| &task.record) {
        if let Some(ended_at) = record.ended_at {
            state.timers.clear(false, ended_at + TASK_KEPT_MS, Timer::Task(short(task)));
        }
        state.unlink_item(ItemKind::Task, short(task));
        state.tasks.remove(&task);
        state.running.remove(&task);
    }
}

pub(super) fn audited(state: &mut State, position: u64, record: &AuditRecord) {
    state.last_number = state.last_number.max(record.id);
    if state.audit.contains_key(&record.id) {
        // A copy: the entry leaves its place in the list before it is replaced.
        state.unlink_item(ItemKind::Audit, short(record.id));
    }
    state.audit.insert(record.id, AuditEntry { record: record.clone(), link: Link::default() });
    state.link_item(ItemKind::Audit, short(record.id), position);
    while state.audit.len() as u64 > AUDIT_MAX
        && let Some(oldest) = state.audit.keys().next().copied()
    {
        state.unlink_item(ItemKind::Audit, short(oldest));
        state.audit.remove(&oldest);
    }
}

pub(super) fn noted(state: &mut State, position: u64, queue: u32, fingerprint: u64, text: &str) {
    let note = Note { queue, fingerprint, text: text.into(), link: Link::default() };
    let key = crate::state::slab::Keyed::key(&note);
    if let Some(slot) = state.notes.find(key) {
        drop_note(state, slot);
    }
    if !text.is_empty() {
        ensure_queue(state, queue);
        state.queue_mut(queue).notes += 1;
        let slot = state.notes.insert(note);
        state.link_item(ItemKind::Note, slot, position);
    }
}

pub(super) fn drop_note(state: &mut State, slot: Slot) {
    state.unlink_item(ItemKind::Note, slot);
    state.stale_notes.remove(&slot);
    let note = state.notes.remove(slot);
    state.queue_mut(note.queue).notes -= 1;
}
