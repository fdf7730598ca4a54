//! The durable state as text, for tests: what events determine, in one order, so that two states can be
//! compared whatever way they came about. Not in it: where things are in memory, turns of groups, whether a
//! delayed job was noticed to be due, rolling figures, and what a receive with an `attemptId` would repeat.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use crate::event::{Lease, TaskRecord};
use crate::reply::State as JobState;
use crate::state::slab::{Keyed, NONE, Slot, Table};
use crate::state::{Extra, State, flag};

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
        let dedup = hash(job.dedup, self.dedups.get(job.dedup).map_or(0, |entry| entry.window.dedup.hash.0));
        let holds = queue.settings.ordered && self.groups[job.group].holder == slot;
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
        if let Some(extra) = &job.extra {
            digest_extra(extra, job.state, out);
        }
    }

    fn digest_keys(&self, out: &mut String) {
        for slot in in_order(&self.keys) {
            let key = &self.keys[slot];
            if self.unused_keys.contains(&slot) {
                // It goes with the next tick.
                continue;
            }
            // A result that has ended and that no job shows is as good as none.
            let is_shown = self.jobs_of_key(slot).any(|job| self.jobs[job].has(flag::SKIPPED));
            let saved = key.saved.as_ref().filter(|saved| !saved.ended || is_shown);
            let saved = saved.map(|saved| (saved.until, saved.result, saved.ended));
            line(out, format_args!("key {:?} queue {} carriers {} {saved:?}", key.hash, key.queue, key.carriers));
        }
        for slot in in_order(&self.dedups) {
            let entry = &self.dedups[slot];
            line(out, format_args!("dedup {:?} held {}", entry.window, entry.job != NONE));
        }
        for slot in in_order(&self.producers) {
            let producer = &self.producers[slot];
            line(out, format_args!("producer {:?} queue {} seq {}", producer.hash, producer.queue, producer.seq));
        }
        for slot in in_order(&self.requests) {
            let request = &self.requests[slot];
            let (hash, body) = (request.hash, request.body);
            line(out, format_args!("request {hash:?} {body:?} {:?} until {}", request.answer, request.until));
        }
    }
}

/// What [`digest_extra`] makes of an empty one.
const SAYS_NOTHING: &str = "None wait None (0, []) (0, 0, None, false) (None, None, None) (None, None, None, None)";

fn digest_extra(extra: &Extra, state: JobState, out: &mut String) {
    let lease = extra.lease.clone().map(|lease| Lease { attempt: None, ..lease });
    let wait = extra.due_elapsed_at.filter(|_| matches!(state, JobState::Ready | JobState::Delayed));
    let errors = (extra.error_count, &extra.errors);
    let ended = (extra.ended_at, extra.keep_until, &extra.death, extra.cancel_requested);
    let ties = (extra.task, extra.released_dedup, extra.behind.filter(|_| state == JobState::Blocked));
    let kept = (extra.result, extra.progress, &extra.overrides, extra.expires_at);
    let text = alloc::format!("{lease:?} wait {wait:?} {errors:?} {ended:?} {ties:?} {kept:?}");
    // An extra that says nothing is as good as none.
    if text != SAYS_NOTHING {
        line(out, format_args!("  {text}"));
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
