//! Callers that wait for the end of a job or of a bulk action.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use recado_core::{JobId, JobView, TaskView};

use crate::error::Error;
use crate::inbox::Promise;

#[derive(Default)]
pub(crate) struct Watchers {
    next: u64,
    jobs: BTreeMap<JobId, Vec<(u64, Duration, Promise<JobView>)>>,
    by_deadline: BTreeSet<(Duration, JobId, u64)>,
    tasks: BTreeMap<u64, Vec<Promise<TaskView>>>,
}

impl Watchers {
    pub(crate) fn add_job(&mut self, id: JobId, deadline: Duration, promise: Promise<JobView>) {
        self.next += 1;
        self.by_deadline.insert((deadline, id, self.next));
        self.jobs.entry(id).or_default().push((self.next, deadline, promise));
    }

    pub(crate) fn add_task(&mut self, task: u64, promise: Promise<TaskView>) {
        self.tasks.entry(task).or_default().push(promise);
    }

    pub(crate) fn take_job(&mut self, id: JobId) -> Vec<Promise<JobView>> {
        let watching = self.jobs.remove(&id).unwrap_or_default();
        for (number, deadline, _) in &watching {
            self.by_deadline.remove(&(*deadline, id, *number));
        }
        watching.into_iter().map(|(_, _, promise)| promise).collect()
    }

    /// One whose wait is over by `now`.
    pub(crate) fn take_overdue(&mut self, now: Duration) -> Option<(JobId, Promise<JobView>)> {
        let (deadline, id, number) = self.by_deadline.first().copied().filter(|(at, ..)| *at <= now)?;
        self.by_deadline.remove(&(deadline, id, number));
        let watching = self.jobs.get_mut(&id)?;
        let index = watching.iter().position(|(other, ..)| *other == number)?;
        let (_, _, promise) = watching.swap_remove(index);
        if watching.is_empty() {
            self.jobs.remove(&id);
        }
        Some((id, promise))
    }

    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        self.by_deadline.first().map(|(deadline, ..)| *deadline)
    }

    pub(crate) fn watches_jobs(&self) -> bool {
        !self.jobs.is_empty()
    }

    pub(crate) fn watches(&self, id: JobId) -> bool {
        self.jobs.contains_key(&id)
    }

    pub(crate) fn tasks(&self) -> Vec<u64> {
        self.tasks.keys().copied().collect()
    }

    pub(crate) fn take_task(&mut self, task: u64) -> Vec<Promise<TaskView>> {
        self.tasks.remove(&task).unwrap_or_default()
    }

    pub(crate) fn fail_tasks(&mut self, error: &Error) {
        for promise in std::mem::take(&mut self.tasks).into_values().flatten() {
            drop(promise.send(Err(error.clone())));
        }
    }

    pub(crate) fn fail_all(&mut self, error: &Error) {
        self.by_deadline.clear();
        for (_, _, promise) in std::mem::take(&mut self.jobs).into_values().flatten() {
            drop(promise.send(Err(error.clone())));
        }
        self.fail_tasks(error);
    }
}
