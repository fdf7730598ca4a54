//! The durable state as text, for tests: what events determine, in one order, so that two states can be
//! compared whatever way they came about. Not in it: where things are in memory, turns of groups, whether a
//! delayed job was noticed to be due, tokens of rate limits, rolling figures, and what a receive with an `attemptId` would repeat.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use crate::event::{GuardRecord, Lease, TaskRecord};
use crate::reply::State as JobState;
use crate::state::slab::{Keyed, NONE, Slot, Table};
use crate::state::{Job, ProducerEntry, State, flag};

impl State {
    /// See the module.
    #[doc(hidden)]
    #[must_use]
    pub fn digest(&self) -> String {
        let mut out = String::new();
        line(&mut out, format_args!("globals {:?}", self.globals()));
        for queue in self.queues.values() {
            line(&mut out, format_args!("queue {:?} going {}", queue.record, queue.is_going));
        }
        for slot in in_order(&self.jobs) {
            self.digest_job(slot, &mut out);
        }
        self.digest_keys(&mut out);
        for slot in in_order(&self.notes) {
            let note = &self.notes[slot];
            line(&mut out, format_args!("note {} {:016x} {:?}", note.queue, note.fingerprint, note.text));
        }
        for (at, seq) in &self.settles.by_time {
            line(
                &mut out,
                format_args!("settle {seq} at {at} {:?}", self.settle_of(*seq).map(|settle| settle.outcome)),
            );
        }
        for slot in in_order(&self.guards) {
            let guard = &self.guards[slot];
            let record = GuardRecord { result: None, ..guard.record };
            line(&mut out, format_args!("guard {record:?} {:?}", guard.result));
        }
        for schema in self.schemas.values() {
            line(&mut out, format_args!("schema {:?}", schema.record));
        }
        for limit in self.limits.values() {
            line(&mut out, format_args!("limit {:?} in flight {}", limit.record, limit.in_flight));
        }
        for schedule in self.schedules.values() {
            line(&mut out, format_args!("schedule {:?}", schedule.record));
        }
        for hook in self.hooks.values() {
            line(&mut out, format_args!("hook {:?}", hook.record));
        }
        for task in self.tasks.values() {
            let record = TaskRecord { patch: None, ..task.record.clone() };
            line(&mut out, format_args!("task {record:?} patch {:?}", task.patch));
        }
        for entry in self.audit.values() {
            line(&mut out, format_args!("audit {:?}", entry.record));
        }
        out
    }

    fn digest_job(&self, slot: Slot, out: &mut String) {
        let job = &self.jobs[slot];
        let queue = self.queue(job.queue);
        let lane = self.lane_name(job);
        let state = match job.state {
            JobState::Ready | JobState::Delayed => "waiting",
            other => other.word(),
        };
        let hash = |slot: Slot, hash: u128| if slot == NONE { 0 } else { hash };
        let group = if job.group == queue.no_group { 0 } else { self.groups[job.group].hash.0 };
        let key = hash(job.key, self.keys.get(job.key).map_or(0, |key| key.hash.0));
        let business = hash(job.business, self.businesses.get(job.business).map_or(0, |business| business.hash.0));
        let dedup = hash(job.dedup, self.dedups.get(job.dedup).map_or(0, |entry| entry.hash.0));
        let holds = queue.settings.ordered && self.groups[job.group].holders.contains(&slot);
        line(
            out,
            format_args!(
                "job {} {} queue {} {}@{} priority {} due {} {:?} payload {:?} meta {:?} counts {} {} {} {} \
                 group {group:x} key {key:x} business {business:x} dedup {dedup:x} ignore {} skipped {} holds {holds}",
                job.id.seq(),
                job.id,
                job.queue,
                lane.kind,
                lane.schema_version,
                lane.priority,
                job.due_at,
                state,
                job.payload(),
                job.meta(),
                job.attempts,
                job.deliveries,
                job.earlier_deliveries(),
                job.replays,
                job.has(flag::IGNORE_KEY),
                job.has(flag::SKIPPED),
            ),
        );
        self.digest_extra(job, out);
        if let Some(family) = self.family_of(job) {
            line(out, format_args!("  {family:?}"));
        }
    }

    fn digest_extra(&self, job: &Job, out: &mut String) {
        let is_waiting = matches!(job.state, JobState::Ready | JobState::Delayed);
        let lease = job.lease_to_copy().zip(self.lease_state(job));
        let lease = lease.map(|(lease, state)| Lease { attempt: None, state, ..lease });
        let wait = job.due_elapsed_at().filter(|_| is_waiting);
        let errors = (job.error_count(), job.errors());
        let ended = (job.ended_at(), job.keep_until(), job.death(), job.cancel_requested());
        let behind = job.rare().and_then(|rare| rare.behind).filter(|_| job.state == JobState::Blocked);
        let ties = (job.task(), job.rare().and_then(|rare| rare.released_dedup), behind);
        let kept = (job.result(), job.progress(), job.overrides(), job.expires_at());
        let kept = (kept, job.arrival(), job.first_received_at());
        line(out, format_args!("  {lease:?} wait {wait:?} {errors:?} {ended:?} {ties:?} {kept:?}"));
    }

    fn digest_keys(&self, out: &mut String) {
        for slot in in_order(&self.keys) {
            let key = &self.keys[slot];
            if self.unused_keys.contains(&slot) {
                // It goes with the next tick.
                continue;
            }
            // A result that has ended and that no job shows is as good as none.
            let is_shown =
                key.jobs.newest_first(u64::MAX, &self.jobs).any(|(_, job)| self.jobs[job].has(flag::SKIPPED));
            let saved = key.saved.as_ref().filter(|saved| !saved.ended || is_shown);
            let saved = saved.map(|saved| (saved.until, saved.result, saved.ended));
            let (hash, carriers) = (key.hash, self.carriers(key));
            line(out, format_args!("key {hash:?} queue {} carriers {carriers} {saved:?}", key.queue));
        }
        for slot in in_order(&self.dedups) {
            let is_held = self.dedups[slot].job.is_some();
            line(out, format_args!("dedup {:?} held {is_held}", self.dedup_window(slot)));
        }
        for slot in in_order(&self.producers) {
            let producer = &self.producers[slot];
            let ProducerEntry { hash, queue, seq, at, .. } = producer;
            line(out, format_args!("producer {hash:?} queue {queue} seq {seq} at {at}"));
        }
        for slot in in_order(&self.requests) {
            let request = &self.requests[slot];
            let (hash, body) = (request.hash, request.body);
            line(out, format_args!("request {hash:?} {body:?} {:?} until {}", request.answer, request.until));
        }
    }
}

fn line(out: &mut String, text: core::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{text}");
}

/// Slots by what they hold, not by when they were taken.
fn in_order<T: Keyed>(table: &Table<T>) -> Vec<Slot> {
    let mut keyed: Vec<(u128, Slot)> = table.iter().map(|(slot, value)| (value.key(), slot)).collect();
    keyed.sort_unstable();
    keyed.into_iter().map(|(_, slot)| slot).collect()
}
