//! Queues: their list, their configuration, their figures.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Bound;

use super::cursor::after_name;
use super::{Answer, Answered, ConsumerView, NamesQuery, Page, QueueEntry, QueueView, Stats, TimingView, limits};
use crate::decide::find_queue;
use crate::event::BreakerOf;
use crate::figures::COUNT_WORDS;
use crate::options::QueueOptions;
use crate::reply::{HeldBack, State as JobState};
use crate::state::{Presence, Queue, Spot, State};
use crate::timing::Timing;

/// Groups whose head is looked at for the age of the oldest job; of more, those whose turn is next.
const HEADS_MAX: usize = 10_000;

/// Queues of one page: their figures cost the writer about a millisecond.
const QUEUES_A_PAGE_MAX: usize = 100;

/// A producer that was refused comes back within these bounds, in milliseconds.
pub(crate) const RETRY_AFTER_MS: (u64, u64) = (1_000, 60_000);

const MINUTE_MS: u64 = 60_000;

pub(super) fn list(state: &State, presence: &Presence, now: u64, page: &Page) -> Answered {
    let after = page.name()?;
    let start = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    let mut names = state.names.range::<str, _>((start, Bound::Unbounded));
    let mut queues: Vec<QueueEntry> = Vec::new();
    let mut heads = 0;
    for (_, number) in names.by_ref().take(page.size().min(QUEUES_A_PAGE_MAX)) {
        let queue = state.queue(*number);
        heads += queue.open_lanes.iter().map(|(_, lane)| queue.lane(*lane).ring.len().min(HEADS_MAX)).sum::<usize>();
        queues.push(QueueEntry {
            name: queue.name.clone(),
            source: queue.record.source,
            paused: queue.record.paused,
            stats: stats_of(state, presence, now, queue),
        });
        if heads >= HEADS_MAX {
            break;
        }
    }
    let more = names.next().is_some();
    let cursor = queues.last().filter(|_| more).map(|entry| after_name(&entry.name));
    Ok(Answer::Queues { queues, cursor })
}

pub(super) fn view(state: &State, name: &str) -> Answered {
    let queue = find_queue(state, name)?;
    Ok(Answer::Queue(Box::new(QueueView {
        number: queue.record.number,
        purged_at: queue.record.purged_at,
        name: queue.name.clone(),
        source: queue.record.source,
        options: queue.record.options.clone(),
        settings: queue.settings.clone(),
        revision: queue.record.revision,
        paused: queue.record.paused,
        paused_reason: queue.record.paused_reason.clone(),
    })))
}

pub(super) fn names(state: &State, query: &NamesQuery) -> Answer {
    let from = query.after.as_deref().filter(|after| *after >= &*query.prefix);
    let from = from.map_or(Bound::Included(&*query.prefix), Bound::Excluded);
    let begin_so = state.names.range::<str, _>((from, Bound::Unbounded)).map(|(_, number)| state.queue(*number));
    let begin_so = begin_so.take_while(|queue| queue.name.starts_with(&*query.prefix));
    let mut wanted = begin_so.filter(|queue| query.redrives_to.as_ref().is_none_or(|to| queue.redrives_to(to)));
    let names: Vec<_> = wanted.by_ref().take(query.limit).map(|queue| queue.name.clone()).collect();
    Answer::Names { names, more: wanted.next().is_some() }
}

pub(super) fn settings(state: &State, name: &str) -> Answer {
    let queue = state.names.get(name).map(|number| state.queue(*number));
    let defaults = || QueueOptions::default().settings(&state.defaults);
    Answer::Settings(Box::new(queue.map_or_else(defaults, |queue| queue.settings.clone())))
}

pub(super) fn stats(state: &State, presence: &Presence, now: u64, name: &str) -> Answered {
    let queue = find_queue(state, name)?;
    Ok(Answer::Stats(Box::new(stats_of(state, presence, now, queue))))
}

fn stats_of(state: &State, presence: &Presence, now: u64, queue: &Queue) -> Stats {
    let figures = &queue.figures;
    let [enqueue_rate, receive_rate, complete_rate] = figures.rates(now);
    let [failure_rate, retry_rate] = figures.shares(now);
    let oldest_dead = queue.dead.keys().next();
    Stats {
        ready: queue.count(JobState::Ready),
        delayed: queue.count(JobState::Delayed),
        blocked: queue.count(JobState::Blocked),
        in_flight: queue.count(JobState::InFlight),
        dead: queue.count(JobState::Dead),
        completed: queue.count(JobState::Completed),
        cancelled: queue.count(JobState::Cancelled),
        expired: queue.count(JobState::Expired),
        oldest_job_age_ms: oldest_ready(state, queue).map(|due_at| now.saturating_sub(due_at)),
        oldest_dead_age_ms: oldest_dead.map(|spot| now.saturating_sub(spot.due_at())),
        enqueue_rate,
        receive_rate,
        complete_rate,
        failure_rate,
        retry_rate,
        wait: figures.wait.percentiles(now),
        processing: figures.processing.percentiles(now),
        totals: COUNT_WORDS.into_iter().zip(figures.totals).collect(),
        consumers: consumers(presence, now, queue),
        held_back: held_back(state, presence, now, queue),
        rate: queue.settings.rate.map(|rate| (rate, queue.bucket.available(rate, state.elapsed(now)))),
        breaker: state.breaker_view(BreakerOf::Queue(queue.record.number), now),
        limits: queue.limits.iter().filter_map(|number| limits::figures(state, now, *number)).collect(),
        visibility: queue.settings.visibility,
        timings: timings(queue),
        paused: queue.record.paused,
        wait_histogram: figures.wait.histogram(),
        processing_histogram: figures.processing.histogram(),
    }
}

fn timings(queue: &Queue) -> Vec<TimingView> {
    let timings = queue.figures.timings.iter().filter(|timing| timing.completions > 0);
    let view = |timing: &Timing| TimingView {
        kind: timing.kind.clone(),
        completions: timing.completions,
        p95_ms: timing.p95_ms,
        auto_ms: timing.auto_ms(),
        is_measured: timing.is_measured(),
    };
    let mut views: Vec<TimingView> = timings.map(view).collect();
    views.sort_by_key(|view| core::cmp::Reverse(view.p95_ms));
    views
}

/// Since when the oldest job waits that could be received now.
fn oldest_ready(state: &State, queue: &Queue) -> Option<u64> {
    if state.hold(queue).is_some() {
        return None;
    }
    let open = queue.open_lanes.iter().map(|(_, number)| (*number, queue.lane(*number)));
    let groups = open.flat_map(|(number, lane)| lane.ring.iter().map(move |(_, group)| (number, lane, *group)));
    let heads = groups.take(HEADS_MAX).filter_map(|(number, lane, group)| {
        let (head, _) = lane.ready.range(Spot::first_of(group)..=Spot::last_of(group)).next()?;
        // An ordered group gives its holder first, wherever that stands.
        Some(state.jobs[state.job_at(queue, *head, number)].due_at)
    });
    heads.min()
}

fn consumers(presence: &Presence, now: u64, queue: &Queue) -> Vec<ConsumerView> {
    let mut consumers = presence.consumers(queue.record.number, now);
    for consumer in &mut consumers {
        let name = consumer.worker.as_deref().unwrap_or_default();
        consumer.in_flight = queue.workers.get(name).copied().unwrap_or(0);
    }
    consumers
}

/// How many jobs are held back, by reason. Each ready job is under one reason at most; where several hold a
/// job, the counters of the structures cannot tell it, and the earlier reason of this list has it.
fn held_back(state: &State, presence: &Presence, now: u64, queue: &Queue) -> Vec<(HeldBack, u64)> {
    let mut left = queue.count(JobState::Ready);
    let mut held = Vec::new();
    let mut hold = |reason: HeldBack, jobs: u64, left: &mut u64| {
        let jobs = jobs.min(*left);
        *left -= jobs;
        if jobs > 0 {
            held.push((reason, jobs));
        }
    };
    if let Some(it) = state.hold(queue) {
        hold(it.reason, left, &mut left);
    }
    hold(HeldBack::IdempotencyKeyInFlight, queue.held_by_key, &mut left);
    hold(HeldBack::GroupInFlightLimit, queue.held_by_group_limit, &mut left);
    hold(HeldBack::GroupRateLimit, queue.held_by_group_rate, &mut left);
    hold(HeldBack::GroupOrder, queue.held_by_group_order, &mut left);
    if left > 0 {
        let [no_worker, no_capable] = without_worker(presence, now, queue);
        hold(HeldBack::NoWorker, no_worker, &mut left);
        hold(HeldBack::NoCapableWorker, no_capable, &mut left);
    }
    let blocked = queue.count(JobState::Blocked);
    hold(HeldBack::ChildrenPending, queue.parents, &mut queue.parents.clone());
    hold(HeldBack::DedupKeyInFlight, blocked - queue.parents, &mut blocked.clone());
    held
}

/// Ready jobs in lanes for which there is no worker at all, and no worker of their type.
fn without_worker(presence: &Presence, now: u64, queue: &Queue) -> [u64; 2] {
    let mut counts = [0; 2];
    for (_, lane) in queue.lanes().filter(|(_, lane)| !lane.ready.is_empty()) {
        match presence.capable(queue.record.number, &lane.name.kind, lane.name.schema_version, now) {
            (false, _) => counts[0] += lane.ready.len() as u64,
            (true, false) => counts[1] += lane.ready.len() as u64,
            (true, true) => {}
        }
    }
    counts
}

impl State {
    /// When a producer that a full queue refused should come back, in milliseconds: when about one percent of
    /// the queue's depth is free, by the rate of the last minute. `None` when nothing was completed in it.
    #[must_use]
    pub fn retry_after_ms(&self, queue: &str, now: u64) -> Option<u64> {
        let queue = self.queue(self.queue_number(queue)?);
        let completed = queue.figures.completed_in_a_minute(now);
        let depth_max = queue.settings.max_depth;
        let wanted = (depth_max / 100).max(1);
        let jobs = queue.depth().saturating_add(wanted).saturating_sub(depth_max).max(1);
        let wait_ms = u128::from(jobs) * u128::from(MINUTE_MS) / u128::from(completed.max(1));
        let wait_ms = u64::try_from(wait_ms).unwrap_or(u64::MAX);
        (completed > 0).then(|| wait_ms.clamp(RETRY_AFTER_MS.0, RETRY_AFTER_MS.1))
    }
}
