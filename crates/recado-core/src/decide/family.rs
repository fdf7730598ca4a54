//! Children and batches: how they are enqueued, and when who waits for them need wait no more.

use alloc::format;

use super::enqueue::{Request, Ties};
use super::retry::entry;
use crate::command::{Failure, Moment, NewBatch, NewJob, OnChildDead, OnDuplicate};
use crate::draft::Draft;
use crate::event::{Event, LeaseState, Waits};
use crate::id::{Hash, JobId};
use crate::options::OnDead;
use crate::rejection::Rejection;
use crate::reply::Enqueued;
use crate::state::{BATCH_JOBS_MAX, CHILD_DEPTH_MAX, CHILD_RESULTS_BYTES_MAX, CHILDREN_MAX, Job, State, flag};

/// Where a new job stands in its request.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    /// Place in the batch.
    pub(super) index: usize,
    /// Which of the request's queues it goes to.
    pub(super) intake: usize,
    /// It is a child so many times.
    pub(super) depth: usize,
    pub(super) parent: Option<JobId>,
}

impl<'a> Request<'a> {
    /// Writes down a job with its children, and with the end of its batch if it is the first of it.
    pub(super) fn add(&mut self, entry: Entry, job: &'a NewJob, draft: &mut Draft) -> Result<Enqueued, Rejection> {
        let Entry { index, intake, depth, mut parent } = entry;
        let invalid =
            |pointer: &'static str, message| Err(Rejection::Invalid { index, pointer: pointer.into(), message });
        if depth > CHILD_DEPTH_MAX {
            return invalid(
                "",
                format!(
                    "children have children at most {CHILD_DEPTH_MAX} times; enqueue the deeper ones from a worker"
                ),
            );
        }
        if parent.is_some() && job.dedup.is_some() {
            return invalid(
                "/dedup",
                "a child is a job of its own: leave dedup out, and repeat the request under an Idempotency-Key".into(),
            );
        }
        let Some(ties) = job.ties.as_deref() else {
            return self.put(intake, index, job, Ties { parent, ..Ties::default() }, draft);
        };
        if ties.children.len() > CHILDREN_MAX {
            let actual = ties.children.len();
            return invalid(
                "/children",
                format!(
                    "a job has at most {CHILDREN_MAX} children, this one {actual}: group them under children of their own"
                ),
            );
        }
        if !ties.children.is_empty()
            && job.dedup.as_ref().is_some_and(|dedup| dedup.on_duplicate == OnDuplicate::Replace)
        {
            return invalid(
                "/dedup/onDuplicate",
                "`replace` gives a job another payload, not other children: use `keep` or `conflict`".into(),
            );
        }
        if let Some(batch) = &ties.batch {
            if parent.is_some() {
                return invalid("/batch", "a child is waited for by its parent: leave batch out".into());
            }
            if job.dedup.is_some() {
                return invalid("/dedup", "a job of a batch is a job of its own: leave dedup out, and repeat the request under an Idempotency-Key".into());
            }
            parent = Some(self.end_of_batch(intake, index, batch, draft)?);
        }
        let waits = Waits { on_child_dead: ties.on_child_dead, batch: None };
        let waits = (!ties.children.is_empty()).then_some(waits);
        let mut enqueued = self.put(intake, index, job, Ties { parent, waits, ..Ties::default() }, draft)?;
        if enqueued.duplicate.is_none() {
            for (at, child) in ties.children.iter().enumerate() {
                let within = |rejection: Rejection| rejection.within(&format!("/children/{at}"));
                let intake = self.intake_of(child.queue.as_deref(), intake, draft)?;
                let entry = Entry { index, intake, depth: depth + 1, parent: Some(enqueued.id) };
                enqueued.children.push(self.add(entry, &child.job, draft).map_err(within)?);
            }
        }
        Ok(enqueued)
    }

    /// The job that ends a batch: the one that waits already, or a new one.
    fn end_of_batch(
        &mut self,
        intake: usize,
        index: usize,
        batch: &'a NewBatch,
        draft: &mut Draft,
    ) -> Result<JobId, Rejection> {
        let invalid = |pointer: &'static str, message| Rejection::Invalid { index, pointer: pointer.into(), message };
        let hash = self.batch_hash(intake, &batch.id);
        let open = self.batches.get(&hash).copied().or_else(|| self.state.open_batch(hash));
        let (id, jobs) = match (open, &batch.on_complete) {
            (Some(open), _) => open,
            (None, None) => {
                let message =
                    format!("batch `{}` is not open: say with onComplete what is enqueued when it has ended", batch.id);
                return Err(invalid("/batch/onComplete", message));
            }
            (None, Some(last)) => {
                let within = |rejection: Rejection| rejection.within("/batch/onComplete");
                if last.job.dedup.is_some() || last.job.ties.is_some() {
                    let message =
                        "the job that ends a batch is enqueued once, for it: leave dedup, children and batch out";
                    return Err(invalid("/batch/onComplete", message.into()));
                }
                let intake = self.intake_of(last.queue.as_deref(), intake, draft)?;
                let waits = Some(Waits { on_child_dead: OnChildDead::Continue, batch: Some(hash) });
                let ties = Ties { waits, ..Ties::default() };
                (self.put(intake, index, &last.job, ties, draft).map_err(within)?.id, 0)
            }
        };
        if jobs >= BATCH_JOBS_MAX {
            let message =
                format!("batch `{}` has {BATCH_JOBS_MAX} jobs, which is the most: begin another one", batch.id);
            return Err(invalid("/batch/id", message));
        }
        self.batches.insert(hash, (id, jobs + 1));
        Ok(id)
    }
}

/// The parent of this job, if it was the last that it waited for. One that is to die waits for the next tick: it may be
/// itself a child, and so on.
pub(crate) fn let_go(state: &State, moment: Moment, child: u64, draft: &mut Draft) {
    let parent = state.parents.get(&child).filter(|parent| state.to_unblock.contains(parent));
    if let Some(parent) = parent.filter(|parent| !state.families[parent].is_lost()) {
        unblock(state, moment, *parent, draft);
    }
}

/// A job need not wait for its children any more: it is dead if one of them did not complete and that is its rule, else
/// it is let go, to the end of the line.
pub(super) fn unblock(state: &State, moment: Moment, seq: u64, draft: &mut Draft) {
    let Some(slot) = state.slot_of_seq(seq) else { panic!("a job to unblock is there") };
    let (job, at) = (&state.jobs[slot], moment.at);
    let Some(family) = state.family_of(job) else { panic!("a job to unblock has children") };
    if !family.is_lost() {
        let is_due = job.has(flag::AT_ONCE) || job.due_at <= at;
        draft.push(Event::Unblocked { seq, due_at: is_due.then(|| at.max(state.line_at)) });
        return;
    }
    let first = family.first_failed();
    let first = first.map_or_else(Default::default, |(id, end)| format!("child {id} is {}", end.word()));
    let failure = Failure { kind: "child-dead".into(), message: first.into(), ..Failure::default() };
    let error = entry(job, at, &failure);
    let span = draft.put_encoded(&error);
    draft.push(Event::Died {
        seq,
        at,
        error: Some(span),
        death: state.death(job, &error),
        lease: LeaseState::Failed,
        blocks_group: state.queue(job.queue).settings.on_dead == OnDead::Block,
        task: job.task(),
    });
}

impl State {
    /// A parent has room for what its child is acked with.
    pub(super) fn check_child_result(&self, job: &Job, bytes: usize) -> Result<(), Rejection> {
        let parent = self.parents.get(&job.id.seq()).and_then(|parent| self.slot_of_seq(*parent));
        let Some(parent) = parent.map(|slot| &self.jobs[slot]) else { return Ok(()) };
        let Some(family) = self.family_of(parent).filter(|family| family.keeps_results()) else { return Ok(()) };
        let (limit, actual) = (CHILD_RESULTS_BYTES_MAX, family.result_bytes + bytes as u64);
        if bytes > 0 && actual > limit {
            return Err(Rejection::ChildResultsTooLarge { parent: parent.id, limit, actual });
        }
        Ok(())
    }

    /// The job that ends an open batch, and how many jobs the batch has had.
    fn open_batch(&self, hash: Hash) -> Option<(JobId, usize)> {
        let seq = self.batches.get(&hash)?;
        Some((self.jobs[self.slot_of_seq(*seq)?].id, self.families.get(seq)?.children.len()))
    }
}
