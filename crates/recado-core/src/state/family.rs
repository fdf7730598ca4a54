//! Jobs that a job waits for: its children, or the jobs of the batch that it ends.
//!
//! All of it belongs to the parent and is copied with it; a child carries nothing. The fact that ends a child is its
//! report too, so no report is lost or comes alone, and it finds its parent by the child's number, so that the child
//! itself need not be known in a trimmed log. An entry that has ended stays ended: a report that comes again changes
//! nothing. Only a dead child that completes after all, by a late ack or a replay, is taken for completed.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::command::OnChildDead;
use crate::event::{ChildCopy, ChildEnd, FamilyCopy, Waits};
use crate::id::{Hash, JobId};
use crate::reply::{ChildView, ChildrenView, Place, State as JobState};
use crate::state::{Job, State};

/// Children that a job may have.
pub const CHILDREN_MAX: usize = 1_000;

/// Jobs that a batch may have.
pub const BATCH_JOBS_MAX: usize = 10_000;

/// Children may have children, so many times.
pub const CHILD_DEPTH_MAX: usize = 8;

/// The results that the children of one job leave it, together, in bytes.
pub const CHILD_RESULTS_BYTES_MAX: u64 = 1 << 20;

/// See the module.
#[derive(Debug)]
pub(crate) struct Family {
    pub(crate) waits: Waits,
    pub(crate) total: u32,
    pub(crate) ended: u32,
    /// Ended otherwise than completed.
    pub(crate) failed: u32,
    /// By number; none once the parent has ended.
    pub(crate) children: Vec<Child>,
    pub(crate) result_bytes: u64,
}

/// What a parent knows of a child.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Child {
    pub(crate) id: JobId,
    pub(crate) end: Option<ChildEnd>,
    pub(crate) result: ChildResult,
}

/// Where the result of a child is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ChildResult {
    None,
    Own(Place),
    /// What this idempotency key saved, as long as it is kept.
    Saved(Hash),
}

impl Family {
    fn new(waits: Waits) -> Self {
        Self { waits, total: 0, ended: 0, failed: 0, children: Vec::new(), result_bytes: 0 }
    }

    /// Its parent waits for nothing any more.
    fn is_settled(&self) -> bool {
        self.ended == self.total || self.is_lost()
    }

    /// Its parent is to die.
    pub(crate) fn is_lost(&self) -> bool {
        self.failed > 0 && self.waits.on_child_dead == OnChildDead::Fail
    }

    pub(crate) fn keeps_results(&self) -> bool {
        self.waits.batch.is_none()
    }

    pub(crate) fn places(&self) -> impl Iterator<Item = Place> {
        self.children.iter().filter_map(|child| match child.result {
            ChildResult::Own(place) => Some(place),
            _ => None,
        })
    }

    /// The first child that did not complete.
    pub(crate) fn first_failed(&self) -> Option<(JobId, ChildEnd)> {
        let ends = self.children.iter().filter_map(|child| Some((child.id, child.end?)));
        ends.into_iter().find(|(_, end)| *end != ChildEnd::Completed)
    }

    fn adopt(&mut self, id: JobId) {
        if self.children.last().is_none_or(|last| last.id.seq() < id.seq()) {
            self.children.push(Child { id, end: None, result: ChildResult::None });
            self.total += 1;
        }
    }

    fn end(&mut self, seq: u64, end: ChildEnd, result: ChildResult) {
        let Ok(at) = self.children.binary_search_by_key(&seq, |child| child.id.seq()) else { return };
        let is_completed = end == ChildEnd::Completed;
        match self.children[at].end {
            None => {
                self.ended += 1;
                self.failed += u32::from(!is_completed);
            }
            Some(ChildEnd::Dead) if is_completed => self.failed -= 1,
            Some(_) => return,
        }
        let result = if self.keeps_results() { result } else { ChildResult::None };
        if let ChildResult::Own(place) = result {
            self.result_bytes += u64::from(place.length);
        }
        let child = &mut self.children[at];
        (child.end, child.result) = (Some(end), result);
    }

    fn of_copy(position: u64, copy: &FamilyCopy) -> Self {
        let child = |it: &ChildCopy| {
            let own = it.result.map(|span| ChildResult::Own(span.at(position)));
            let result = own.or(it.saved.map(ChildResult::Saved)).unwrap_or(ChildResult::None);
            Child { id: it.id, end: it.end, result }
        };
        let FamilyCopy { waits, total, ended, failed, ref children } = *copy;
        let mut family = Self { total, ended, failed, ..Self::new(waits) };
        family.children = children.iter().map(child).collect();
        family.result_bytes = family.places().map(|place| u64::from(place.length)).sum();
        family
    }
}

impl ChildEnd {
    /// The word on the wire.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Completed => JobState::Completed.word(),
            Self::Dead => JobState::Dead.word(),
            Self::Cancelled => JobState::Cancelled.word(),
            Self::Expired => JobState::Expired.word(),
            Self::Purged => "purged",
        }
    }
}

impl State {
    /// The children of a job, if it has or had any.
    pub(crate) fn family_of(&self, job: &Job) -> Option<&Family> {
        self.families.get(&job.id.seq()).map(|family| &**family)
    }

    /// Id of the job that waits for this one, or waited.
    pub(crate) fn parent_of(&self, job: &Job) -> Option<JobId> {
        let slot = self.slot_of_seq(*self.parents.get(&job.id.seq())?)?;
        Some(self.jobs[slot].id)
    }

    /// Bytes of the results that its children left a job.
    pub(crate) fn child_result_bytes(&self, job: &Job) -> u64 {
        self.family_of(job).map_or(0, |family| family.result_bytes)
    }

    /// A job will wait for children.
    pub(crate) fn found_family(&mut self, seq: u64, waits: Waits) {
        self.put_family(seq, Family::new(waits));
    }

    /// A job's children are as its copy says.
    pub(crate) fn set_family(&mut self, position: u64, seq: u64, copy: Option<&FamilyCopy>) {
        self.drop_family(seq);
        if let Some(copy) = copy {
            self.put_family(seq, Family::of_copy(position, copy));
            self.note_family(seq);
        }
    }

    fn put_family(&mut self, seq: u64, family: Family) {
        self.parents.extend(family.children.iter().map(|child| (child.id.seq(), seq)));
        self.weigh_family(&family);
        self.families.insert(seq, Box::new(family));
    }

    /// A job is the child of another one. That need not be known: its copy, which stands later, names its children.
    pub(crate) fn adopt(&mut self, parent: u64, child: JobId) {
        if self.change_family(parent, |family| family.adopt(child)) {
            self.parents.insert(child.seq(), parent);
            self.note_family(parent);
        }
    }

    /// A job has ended: its parent, if it has one, knows it.
    pub(crate) fn report(&mut self, child: u64, end: ChildEnd, result: ChildResult) {
        if let Some(parent) = self.parents.get(&child).copied() {
            self.change_family(parent, |family| family.end(child, end, result));
            self.note_family(parent);
        }
    }

    /// The parent has ended: what its children came to is not read any more, only counted.
    pub(crate) fn close_family(&mut self, seq: u64) {
        let mut children = Vec::new();
        self.change_family(seq, |family| {
            children = core::mem::take(&mut family.children);
            family.result_bytes = 0;
        });
        for child in children {
            self.parents.remove(&child.id.seq());
        }
    }

    /// The parent is gone.
    pub(crate) fn drop_family(&mut self, seq: u64) {
        let Some(family) = self.families.remove(&seq) else { return };
        self.unweigh_family(&family);
        for child in family.children {
            self.parents.remove(&child.id.seq());
        }
    }

    fn change_family(&mut self, seq: u64, change: impl FnOnce(&mut Family)) -> bool {
        let Some(mut family) = self.families.remove(&seq) else { return false };
        self.unweigh_family(&family);
        change(&mut family);
        self.weigh_family(&family);
        self.families.insert(seq, family);
        true
    }

    /// Keeps `to_unblock` and `batches` true after a job was blocked or was not any more, or its children changed.
    pub(crate) fn note_family(&mut self, seq: u64) {
        let slot = self.slot_of_seq(seq);
        self.note_blocked(seq, slot.is_some_and(|slot| self.jobs[slot].state == JobState::Blocked));
    }

    /// A blocked job comes to stand in its queue, or leaves.
    pub(crate) fn note_parent(&mut self, queue: u32, seq: u64, stands: bool) {
        if self.families.contains_key(&seq) {
            let parents = &mut self.queue_mut(queue).parents;
            *parents = if stands { *parents + 1 } else { *parents - 1 };
            self.note_blocked(seq, stands);
        }
    }

    fn note_blocked(&mut self, seq: u64, is_blocked: bool) {
        let Some(family) = self.families.get(&seq) else { return };
        if is_blocked && family.is_settled() {
            self.to_unblock.insert(seq);
        } else {
            self.to_unblock.remove(&seq);
        }
        let Some(batch) = family.waits.batch else { return };
        if is_blocked {
            self.batches.insert(batch, seq);
        } else if self.batches.get(&batch) == Some(&seq) {
            self.batches.remove(&batch);
        }
    }

    /// The children of a job, counted; each of them too with `all`.
    pub(crate) fn children_view(&self, job: &Job, all: bool, now: u64) -> Option<Box<ChildrenView>> {
        let family = self.family_of(job)?;
        let shown = if all && family.keeps_results() { &*family.children } else { &[] };
        Some(Box::new(ChildrenView {
            total: family.total,
            pending: family.total - family.ended,
            completed: family.ended - family.failed,
            failed: family.failed,
            jobs: shown.iter().map(|child| self.child_view(child, now)).collect(),
        }))
    }

    fn child_view(&self, child: &Child, now: u64) -> ChildView {
        let job = self.slot_of(child.id).map(|slot| &self.jobs[slot]);
        let state = match (child.end, job) {
            (Some(end), _) => end.word(),
            (None, Some(job)) => self.state_at(job, now).word(),
            (None, None) => panic!("{} has not ended, and is gone", child.id),
        };
        let result = match child.result {
            ChildResult::None => None,
            ChildResult::Own(place) => Some(place),
            ChildResult::Saved(key) => self.keys.get_by(key.0).and_then(|key| key.saved.as_ref()?.result),
        };
        ChildView { id: child.id, state, result }
    }
}
