//! Schedules. Their definitions are here, for there are few of them; what they mean is known at the edges.

use alloc::sync::Arc;

use crate::id::JobId;
use crate::items::Link;
use crate::reply::State as JobState;
use crate::schedule::{OCCURRENCES_KEPT_MAX, Occurrence, ScheduleRecord, Skip};
use crate::state::State;

/// What an occurrence takes in the log at most, in bytes.
const OCCURRENCE_BYTES_MAX: usize = 80;

/// One schedule.
#[derive(Debug)]
pub(crate) struct Schedule {
    pub(crate) record: ScheduleRecord,
    /// Its definition again, for whoever resolves it.
    pub(crate) text: Arc<str>,
    pub(crate) link: Link,
}

impl Schedule {
    /// Upper bound of what is not of a fixed size in its record.
    pub(crate) fn bytes_max(&self) -> usize {
        self.record.text_bytes() + self.record.occurrences.len() * OCCURRENCE_BYTES_MAX
    }
}

impl ScheduleRecord {
    /// Takes an occurrence in; the oldest one goes when there are too many.
    pub(crate) fn take(&mut self, occurrence: Occurrence, next: Option<u64>) {
        if self.occurrences.len() >= OCCURRENCES_KEPT_MAX {
            self.occurrences.remove(0);
        }
        self.occurrences.push(occurrence);
        match occurrence.skip {
            Some(_) => self.skipped += 1,
            None => {
                self.fired += 1;
                // What somebody runs by hand must not hide the job of an instant.
                if !occurrence.manual {
                    self.last_job = occurrence.job;
                }
            }
        }
        if !occurrence.manual {
            let last = occurrence.before.map_or(occurrence.at, |before| before.saturating_sub(1));
            self.decided_to = self.decided_to.max(last);
        }
        self.next = next;
    }
}

impl State {
    pub(crate) fn schedule(&self, name: &str) -> Option<&Schedule> {
        self.schedule_names.get(name).and_then(|number| self.schedules.get(number))
    }

    /// Upper bound of what is not of a fixed size in the record of a schedule.
    #[must_use]
    pub fn schedule_bytes_max(&self, name: &str) -> usize {
        self.schedule(name).map_or(0, Schedule::bytes_max)
    }

    /// Definitions of all schedules together.
    pub(crate) fn schedule_bytes(&self) -> usize {
        self.schedules.values().map(|schedule| schedule.text.len()).sum()
    }

    /// A job that a schedule made and that is still to be done, in the queue that it was made for.
    ///
    /// The one of the last instant is remembered; those that were made by hand, and older ones, as long as an entry names
    /// them. The oldest comes first: the entry of the overlap that it causes takes the place of the one that named it.
    pub(crate) fn unfinished_job(&self, schedule: &Schedule) -> Option<JobId> {
        let record = &schedule.record;
        let queue = self.names.get(&record.options.queue);
        let is_unfinished = |id: &JobId| {
            let job = self.slot_of(*id).map(|slot| &self.jobs[slot]);
            job.is_some_and(|job| Some(&job.queue) == queue && !job.state.is_final() && job.state != JobState::Dead)
        };
        let made = record.occurrences.iter().filter(|it| matches!(it.skip, None | Some(Skip::Overlap)));
        made.filter_map(|it| it.job).chain(record.last_job).find(is_unfinished)
    }

    pub(crate) fn check_schedules(&self) {
        assert_eq!(self.schedules.len(), self.schedule_names.len(), "schedules have names");
        for (name, number) in &self.schedule_names {
            let record = &self.schedules[number].record;
            assert_eq!((&record.name, record.number), (name, *number), "a schedule is found by its name");
            assert!(record.occurrences.len() <= OCCURRENCES_KEPT_MAX, "occurrences of `{name}`");
            assert_eq!(record.occurrences.last().map_or(0, |last| last.number), record.count(), "`{name}` counts");
            assert!(record.next.is_none_or(|next| next > record.decided_to), "`{name}` decides an instant once");
        }
    }
}
