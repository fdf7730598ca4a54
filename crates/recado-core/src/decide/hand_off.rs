//! Hand-off: a job goes from its queue to another. See [`HandOff`].

use alloc::boxed::Box;

use recado_mutants::{Mutant, active};

use crate::draft::Draft;
use crate::event::{Event, HandOff, Span};
use crate::id::JobId;
use crate::state::{Job, LANES_MAX, Slot, State, domain};

/// Where a job goes, as what, and what failed last.
pub(super) struct HandOffTo {
    pub(super) queue: u32,
    pub(super) id: JobId,
    pub(super) error: Option<Span>,
}

impl State {
    /// The queue that takes what keeps failing, if it is there and can.
    pub(super) fn redrive_target(&self, job: &Job) -> Option<u32> {
        let redrive = self.queue(job.queue).settings.redrive.as_ref()?;
        let target = *self.names.get(&redrive.target)?;
        self.can_take(target, job).then_some(target)
    }

    /// As [`State::redrive_target`], once the job was received as often as it may be.
    pub(super) fn redrive_due(&self, job: &Job) -> Option<u32> {
        let redrive = self.queue(job.queue).settings.redrive.as_ref()?;
        let most = redrive.max_receives + u32::from(active(Mutant::HandOffTooLate));
        if u32::from(job.deliveries) < most { None } else { self.redrive_target(job) }
    }

    /// Whether a queue can take a job from another: a hand-off is never refused for its depth.
    pub(super) fn can_take(&self, number: u32, job: &Job) -> bool {
        let name = self.lane_name(job).parts();
        self.queues.get(&number).is_some_and(|queue| {
            number != job.queue && !queue.is_going && (queue.find_lane(name).is_ok() || queue.lane_count() < LANES_MAX)
        })
    }

    /// Writes down a hand-off, to the end of the line.
    pub(super) fn hand_off(&self, slot: Slot, at: u64, to: HandOffTo, draft: &mut Draft) {
        let job = &self.jobs[slot];
        let (from, grouped) = (job.queue, job.group != self.queue(job.queue).no_group);
        let group = grouped.then(|| self.rehash(domain::GROUP, self.groups[job.group].hash, from, to.queue));
        let key = self.key_of(job).map(|key| self.rehash(domain::KEY, key.hash, from, to.queue));
        if let Some(key) = key {
            self.end_if_over(key, at, draft);
        }
        draft.push(Event::HandedOff(Box::new(HandOff {
            seq: job.id.seq(),
            at,
            to: to.queue,
            id: to.id,
            due_at: at.max(self.line_at),
            group,
            key,
            error: to.error,
            task: job.task(),
        })));
    }
}
