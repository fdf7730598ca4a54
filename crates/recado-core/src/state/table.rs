//! Jobs enter and leave: their ties to lane, group, keys and business object.

use alloc::boxed::Box;
use alloc::sync::Arc;

use crate::event::{DedupRecord, DedupWindow, HandOff, JobRecord};
use crate::id::{Hash, JobId};
use crate::items::{ItemKind, Link};
use crate::reply::{Place, State as JobState};
use crate::state::job::NEVER;
use crate::state::members::Members;
use crate::state::slab::{NONE, Slot};
use crate::state::{
    Business, DedupEntry, Extra, Group, Job, Key, LaneName, NO_LANE, Saved, State, Timer, Window, flag,
};

impl State {
    /// Ties a job into the tables, standing nowhere yet. `position` is that of the batch it is whole in.
    pub(crate) fn tie_job(&mut self, position: u64, record: &JobRecord) -> Slot {
        let number = record.queue;
        let no_group = self.queue(number).no_group;
        let group = match record.group {
            Some(hash) => self.groups.find_or_insert(hash.0, || Group::new(hash, number)).0,
            None => no_group,
        };
        self.groups[group].jobs += 1;
        let lane = self.queue_mut(number).enter_lane((&record.kind, record.schema_version, record.priority));
        let overrides = record.overrides.clone();
        let extra = overrides.map(|own| Box::new(Extra { overrides: Some(own), ..Extra::default() }));
        self.seq = self.seq.max(record.id.seq());
        assert_eq!(record.meta.offset, record.payload.offset + record.payload.length, "the meta follows the payload");
        let slot = self.jobs.insert(Job {
            id: record.id,
            link: Link::default(),
            due_at: record.due_at,
            expires_at_or_never: record.expires_at.unwrap_or(NEVER),
            body_position: position,
            body_offset: record.payload.offset,
            payload_bytes: record.payload.length,
            meta_bytes: record.meta.length,
            queue: number,
            group,
            dedup: NONE,
            key: NONE,
            business: NONE,
            attempts: 0,
            deliveries: 0,
            replays: 0,
            lane,
            state: JobState::Ready,
            flags: if record.at_once { flag::AT_ONCE } else { 0 },
            extra,
        });
        if let Some(seq) = record.behind {
            self.jobs[slot].make_rare().behind = Some(seq);
        }
        self.link_item(ItemKind::Job, slot, position);
        if let Some(dedup) = record.dedup {
            self.hold_dedup(position, slot, dedup);
        }
        if let Some(hash) = record.key {
            self.tie_key(slot, hash);
        }
        if let Some(hash) = record.business {
            self.tie_business(slot, hash);
        }
        slot
    }

    /// The bytes of a job stand, whole, in the batch at `position` now; its caller weighs it anew.
    pub(crate) fn move_job(&mut self, slot: Slot, position: u64, record: &JobRecord) {
        let job = &mut self.jobs[slot];
        (job.body_position, job.body_offset) = (position, record.payload.offset);
        (job.payload_bytes, job.meta_bytes) = (record.payload.length, record.meta.length);
        if let Some(rare) = job.rare_mut() {
            rare.payload = None;
        }
        self.link_item(ItemKind::Job, slot, position);
    }

    /// Takes a job that stands nowhere out of the tables.
    pub(crate) fn untie_job(&mut self, slot: Slot) {
        self.drop_family(self.jobs[slot].id.seq());
        self.unlink_item(ItemKind::Job, slot);
        self.untie_names(slot);
        let job = self.jobs.remove(slot);
        if job.lane != NO_LANE {
            self.queue_mut(job.queue).leave_lane(job.lane);
        }
        self.leave_group(job.group);
    }

    /// Whatever is found by a name of the job's knows it no more.
    fn untie_names(&mut self, slot: Slot) {
        self.untie_key(slot);
        self.untie_business(slot);
        self.release_dedup(slot);
        let dedup = self.jobs[slot].dedup;
        if dedup != NONE {
            self.dedups[dedup].job = None;
        }
    }

    /// A job that stands nowhere leaves its queue and enters another, under another id if it goes as a new job. Its
    /// bytes, and so its place among the items, stay. A deduplication key does not go along.
    pub(crate) fn rehome_job(&mut self, slot: Slot, it: &HandOff) {
        let name = Arc::clone(self.lane_name(&self.jobs[slot]));
        let business = self.businesses.get(self.jobs[slot].business).map(|business| business.hash);
        self.untie_names(slot);
        let Job { queue, lane, group, .. } = self.jobs[slot];
        if lane != NO_LANE {
            self.queue_mut(queue).leave_lane(lane);
        }
        let no_group = self.queue(it.to).no_group;
        let new_group = it.group.map(|hash| self.groups.find_or_insert(hash.0, || Group::new(hash, it.to)).0);
        let new_group = new_group.unwrap_or(no_group);
        self.groups[new_group].jobs += 1;
        let new_lane = self.queue_mut(it.to).enter_lane(name.parts());
        self.jobs.rekey(slot, |job| {
            (job.id, job.queue, job.group, job.lane) = (it.id, it.to, new_group, new_lane);
            (job.dedup, job.key, job.business) = (NONE, NONE, NONE);
        });
        self.leave_group(group);
        if let Some(hash) = it.key {
            self.tie_key(slot, hash);
        }
        if let Some(hash) = business {
            self.tie_business(slot, hash);
        }
    }

    /// Type, schema version and priority of a job.
    pub(crate) fn lane_name<'a>(&'a self, job: &'a Job) -> &'a Arc<LaneName> {
        match job.extra.as_ref().and_then(|extra| extra.lane.as_ref()) {
            Some(name) => name,
            None => &self.queue(job.queue).lane(job.lane).name,
        }
    }

    /// A job that has ended makes room in its lane; it stands nowhere yet.
    pub(crate) fn leave_lane(&mut self, slot: Slot) {
        let name = Arc::clone(self.lane_name(&self.jobs[slot]));
        let job = &mut self.jobs[slot];
        job.extra().lane = Some(name);
        let (queue, lane) = (job.queue, core::mem::replace(&mut job.lane, NO_LANE));
        self.queue_mut(queue).leave_lane(lane);
    }

    /// What is named by hashes of the secret is named anew: a trimmed log shows jobs before it shows the secret.
    pub(crate) fn hash_anew(&mut self) {
        let in_flight = self.queues.values().flat_map(|queue| queue.in_flight.values());
        let marked = in_flight.map(|slot| &self.jobs[*slot]).filter(|job| job.cancel_requested());
        let marks = marked.filter_map(|job| Some((self.worker_hash(job.lease()?.worker.as_deref()?), job.id)));
        self.cancel_marks = marks.collect();
    }

    /// Moves a job that stands nowhere to another lane of its queue.
    pub(crate) fn change_priority(&mut self, slot: Slot, priority: u8) {
        let (number, before) = (self.jobs[slot].queue, self.jobs[slot].lane);
        let name = Arc::clone(&self.queue(number).lane(before).name);
        if name.priority != priority {
            let queue = self.queue_mut(number);
            let after = queue.enter_lane((&name.kind, name.schema_version, priority));
            queue.leave_lane(before);
            self.jobs[slot].lane = after;
        }
    }

    fn leave_group(&mut self, slot: Slot) {
        let group = &mut self.groups[slot];
        group.jobs -= 1;
        let (is_unused, queue) = (group.jobs == 0, group.queue);
        if is_unused && slot != self.queue(queue).no_group {
            self.groups.remove(slot);
        }
    }

    /// The job takes a deduplication key, from whoever held it.
    pub(crate) fn hold_dedup(&mut self, position: u64, job: Slot, dedup: DedupRecord) {
        let (number, id) = (self.jobs[job].queue, self.jobs[job].id);
        let slot = self.find_or_make_dedup(number, dedup);
        let before = self.dedups[slot].job.replace(job);
        if let Some(before) = before.filter(|before| *before != job) {
            self.jobs[before].dedup = NONE;
        }
        self.jobs[job].dedup = slot;
        self.set_window(position, slot, dedup.until.map(|until| (number, id, until)));
    }

    /// Opens a deduplication window, or replaces it. A key that lasts as long as its job has none.
    pub(crate) fn set_dedup(&mut self, position: u64, window: DedupWindow) {
        let Some(until) = window.dedup.until else { return };
        let slot = self.find_or_make_dedup(window.queue, window.dedup);
        let holder = self.dedups[slot].job;
        if let Some(holder) = holder.filter(|holder| self.jobs[*holder].id != window.id) {
            self.jobs[holder].dedup = NONE;
            self.dedups[slot].job = None;
        }
        self.set_window(position, slot, Some((window.queue, window.id, until)));
    }

    fn find_or_make_dedup(&mut self, number: u32, dedup: DedupRecord) -> Slot {
        let DedupRecord { hash, payload, .. } = dedup;
        let make = || DedupEntry { hash, payload, job: None, window: None };
        let (slot, is_new) = self.dedups.find_or_insert(hash.0, make);
        self.dedups[slot].payload = payload;
        self.queue_mut(number).dedups += u64::from(is_new);
        slot
    }

    fn set_window(&mut self, position: u64, slot: Slot, window: Option<(u32, JobId, u64)>) {
        if let Some(before) = self.dedups[slot].until() {
            self.unlink_item(ItemKind::Dedup, slot);
            self.timers.clear(false, before, Timer::Dedup(slot));
        }
        let make = |(queue, id, until)| Box::new(Window { queue, id, until, link: Link::default() });
        self.dedups[slot].window = window.map(make);
        if let Some((.., until)) = window {
            self.timers.set(false, until, Timer::Dedup(slot));
            self.link_item(ItemKind::Dedup, slot, position);
        }
    }

    /// Queue and job of a deduplication key.
    pub(crate) fn dedup_window(&self, slot: Slot) -> DedupWindow {
        let entry = &self.dedups[slot];
        let (queue, id) = match (&entry.window, entry.job) {
            (Some(window), _) => (window.queue, window.id),
            (None, Some(job)) => (self.jobs[job].queue, self.jobs[job].id),
            (None, None) => panic!("{:?} stops somebody", entry.hash),
        };
        DedupWindow { queue, dedup: entry.record(), id }
    }

    /// The key stops nobody any more.
    pub(crate) fn drop_dedup(&mut self, slot: Slot) {
        let number = self.dedup_window(slot).queue;
        self.queue_mut(number).dedups -= 1;
        self.set_window(0, slot, None);
        if let Some(job) = self.dedups.remove(slot).job {
            self.jobs[job].dedup = NONE;
        }
    }

    /// A finished, dead or removed job gives up a key that lasts as long as the job is unfinished.
    pub(crate) fn release_dedup(&mut self, job: Slot) {
        let slot = self.jobs[job].dedup;
        if slot != NONE && self.dedups[slot].window.is_none() {
            self.drop_dedup(slot);
        }
    }

    fn tie_key(&mut self, job: Slot, hash: Hash) {
        let slot = self.find_or_make_key(self.jobs[job].queue, hash);
        self.unused_keys.remove(&slot);
        self.jobs[job].key = slot;
        let members = &mut self.keys[slot].jobs;
        self.weight.memory_bytes -= members.bytes();
        members.join(job, &self.jobs);
        self.weight.memory_bytes += members.bytes();
    }

    pub(crate) fn find_or_make_key(&mut self, number: u32, hash: Hash) -> Slot {
        let (slot, is_new) = self.keys.find_or_insert(hash.0, || Key::new(hash, number));
        self.queue_mut(number).keys += u64::from(is_new);
        slot
    }

    fn untie_key(&mut self, job: Slot) {
        let slot = self.jobs[job].key;
        if slot != NONE {
            let members = &mut self.keys[slot].jobs;
            self.weight.memory_bytes -= members.bytes();
            members.leave(&self.jobs[job]);
            self.weight.memory_bytes += members.bytes();
            self.tidy_key(slot);
        }
    }

    /// After the last job of a key has gone: without a result the key goes too. A result that has ended waits
    /// for the fact that nothing needs it, since other jobs may stand further on in a trimmed log.
    fn tidy_key(&mut self, slot: Slot) {
        let key = &self.keys[slot];
        match &key.saved {
            _ if !key.jobs.is_empty() => {}
            None => self.drop_key(slot),
            Some(saved) if saved.ended => drop(self.unused_keys.insert(slot)),
            Some(_) => {}
        }
    }

    fn drop_key(&mut self, slot: Slot) {
        self.unlink_saved(slot);
        let key = self.keys.remove(slot);
        self.to_skip.remove(&slot);
        self.unused_keys.remove(&slot);
        self.queue_mut(key.queue).keys -= 1;
    }

    /// Takes a saved result off its timer and out of the list of items.
    fn unlink_saved(&mut self, slot: Slot) {
        let Some(saved) = &self.keys[slot].saved else { return };
        if !saved.ended {
            self.timers.clear(false, saved.look_at, Timer::Key(slot));
        }
        self.unlink_item(ItemKind::Saved, slot);
    }

    /// Saves the result of a key's first success.
    pub(crate) fn save_result(&mut self, position: u64, slot: Slot, until: u64, result: Option<Place>) {
        self.unlink_saved(slot);
        let saved = Saved { link: Link::default(), until, look_at: until, result, ended: false };
        self.change_key(slot, |key| key.saved = Some(Box::new(saved)));
        self.unused_keys.remove(&slot);
        self.timers.set(false, until, Timer::Key(slot));
        self.link_item(ItemKind::Saved, slot, position);
    }

    /// The saved result is over, and no job shows it.
    pub(crate) fn end_saved(&mut self, slot: Slot) {
        self.mark_ended(slot);
        if self.keys[slot].jobs.is_empty() {
            self.drop_key(slot);
        }
    }

    /// The saved result stops no job any more; it stays while finished jobs show it.
    pub(crate) fn mark_ended(&mut self, slot: Slot) {
        let Some(saved) = self.keys[slot].saved.as_ref().filter(|saved| !saved.ended) else { return };
        self.timers.clear(false, saved.look_at, Timer::Key(slot));
        self.change_key(slot, |key| key.saved.iter_mut().for_each(|saved| saved.ended = true));
        if self.keys[slot].jobs.is_empty() {
            self.unused_keys.insert(slot);
        }
        self.to_skip.remove(&slot);
    }

    /// The saved result is still needed; its end is looked at again later.
    pub(crate) fn keep_saved(&mut self, slot: Slot, look_at: u64) {
        let Some(saved) = self.keys[slot].saved.as_mut().filter(|saved| !saved.ended) else { return };
        let before = core::mem::replace(&mut saved.look_at, look_at);
        self.timers.clear(false, before, Timer::Key(slot));
        self.timers.set(false, look_at, Timer::Key(slot));
    }

    fn tie_business(&mut self, job: Slot, hash: Hash) {
        let (slot, _) = self.businesses.find_or_insert(hash.0, || Business { hash, jobs: Members::None });
        self.jobs[job].business = slot;
        let members = &mut self.businesses[slot].jobs;
        self.weight.memory_bytes -= members.bytes();
        members.join(job, &self.jobs);
        self.weight.memory_bytes += members.bytes();
    }

    fn untie_business(&mut self, job: Slot) {
        let slot = self.jobs[job].business;
        if slot == NONE {
            return;
        }
        let members = &mut self.businesses[slot].jobs;
        self.weight.memory_bytes -= members.bytes();
        members.leave(&self.jobs[job]);
        self.weight.memory_bytes += members.bytes();
        if self.businesses[slot].jobs.is_empty() {
            self.businesses.remove(slot);
        }
    }
}
