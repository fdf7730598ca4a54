//! What is told to those who listen: how attempts end, what becomes of a job that somebody follows, and where circuit
//! breakers are.
//!
//! Nothing is noted while nobody listens. What is noted was decided and may not be committed yet: whoever tells it
//! waits for that.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::event::{BreakerOf, BreakerState, Death, Event, Removal};
use crate::id::JobId;
use crate::reply::State as JobState;
use crate::state::State;

/// What happened to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)] // the words say it
pub enum JobWord {
    Received,
    Extended,
    Released,
    Failed,
    Retried,
    Dead,
    Replayed,
    Completed,
    Skipped,
    CancelRequested,
    Cancelled,
    Expired,
    Unblocked,
    Changed,
    Forwarded,
    Forgotten,
    Purged,
    Discarded,
    Deleted,
}

impl JobWord {
    /// All of them.
    pub const ALL: [Self; 19] = [
        Self::Received,
        Self::Extended,
        Self::Released,
        Self::Failed,
        Self::Retried,
        Self::Dead,
        Self::Replayed,
        Self::Completed,
        Self::Skipped,
        Self::CancelRequested,
        Self::Cancelled,
        Self::Expired,
        Self::Unblocked,
        Self::Changed,
        Self::Forwarded,
        Self::Forgotten,
        Self::Purged,
        Self::Discarded,
        Self::Deleted,
    ];

    /// The word on the wire.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Received => "received",
            Self::Extended => "extended",
            Self::Released => "released",
            Self::Failed => "failed",
            Self::Retried => "retried",
            Self::Dead => "dead",
            Self::Replayed => "replayed",
            Self::Completed => "completed",
            Self::Skipped => "skipped",
            Self::CancelRequested => "cancel-requested",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
            Self::Unblocked => "unblocked",
            Self::Changed => "changed",
            Self::Forwarded => "forwarded",
            Self::Forgotten => "forgotten",
            Self::Purged => "purged",
            Self::Discarded => "discarded",
            Self::Deleted => "deleted",
        }
    }

    /// It is told of every job, not only of those that are followed.
    #[must_use]
    pub fn is_of_every_job(self) -> bool {
        matches!(self, Self::Failed | Self::Retried | Self::Dead | Self::Replayed)
    }

    /// Nothing can happen to the job any more: it is not there.
    #[must_use]
    pub fn is_last(self) -> bool {
        matches!(self, Self::Forgotten | Self::Purged | Self::Discarded | Self::Deleted)
    }
}

/// Something that happened to a job. It never holds what is in the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobNews {
    /// What.
    pub word: JobWord,
    /// The job.
    pub id: JobId,
    /// Name of its queue.
    pub queue: Arc<str>,
    /// Its type.
    pub kind: Arc<str>,
    /// The attempt that this is about, or the last one.
    pub attempt: u32,
    /// When it can be received again (retried, released, changed), or becomes visible again (received, extended).
    pub until: Option<u64>,
    /// Who received it.
    pub worker: Option<Box<str>>,
    /// Why it is dead.
    pub death: Option<Death>,
}

/// A circuit breaker that moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BreakerNews {
    /// Name of the queue or of the shared limit whose it is.
    pub name: Arc<str>,
    /// It is a shared limit's.
    pub is_limit: bool,
    /// Where it is.
    pub state: BreakerState,
    /// The queues whose jobs it stops.
    pub queues: Vec<Arc<str>>,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum News {
    Job(JobNews),
    Breaker(BreakerNews),
}

/// What somebody wants to know.
#[derive(Debug, Default)]
pub(crate) struct Listening {
    /// What is told of every job.
    all: bool,
    /// Jobs of which everything is told.
    followed: BTreeSet<JobId>,
    news: Vec<JobNews>,
}

impl Listening {
    pub(crate) fn is_on(&self) -> bool {
        self.all || !self.followed.is_empty()
    }
}

/// What a word goes with.
#[derive(Default)]
struct Detail {
    until: Option<u64>,
    worker: Option<Box<str>>,
    death: Option<Death>,
}

impl State {
    /// Somebody listens to what happens to all jobs, or nobody does any more.
    pub fn set_listening(&mut self, is_on: bool) {
        self.listening.all = is_on;
    }

    /// Somebody listens to everything that happens to a job, or nobody does any more.
    pub fn set_followed(&mut self, job: JobId, is_on: bool) {
        if is_on {
            self.listening.followed.insert(job);
        } else {
            self.listening.followed.remove(&job);
        }
    }

    /// What has happened to jobs since the last call, as far as anybody listens.
    pub fn take_news(&mut self) -> Vec<JobNews> {
        core::mem::take(&mut self.listening.news)
    }

    /// Circuit breakers that have moved since the last call.
    pub fn take_breaker_news(&mut self) -> Vec<BreakerNews> {
        let news = core::mem::take(&mut self.breaker_news);
        let named = news.into_iter().filter_map(|(of, state)| match of {
            BreakerOf::Queue(number) => {
                let name = self.queues.get(&number)?.name.clone();
                Some(BreakerNews { queues: [name.clone()].into(), name, is_limit: false, state })
            }
            BreakerOf::Limit(number) => {
                let limit = self.limits.get(&number)?;
                let queues = limit.queues.iter().map(|queue| self.queue(*queue).name.clone()).collect();
                Some(BreakerNews { name: limit.name.clone(), is_limit: true, state, queues })
            }
        });
        named.collect()
    }

    /// Notes what a fact that is about to be applied means to those who listen.
    pub(crate) fn note_news(&mut self, event: &Event) {
        use JobWord::*;
        match event {
            Event::Received { seq, lease, .. } => {
                let until = Some(self.wall(lease.ends_elapsed_at));
                self.note(*seq, Received, Detail { until, worker: lease.worker.clone(), ..Detail::default() });
            }
            Event::Extended { seq, ends_elapsed_at, .. } | Event::Renewed { seq, ends_elapsed_at } => {
                self.note_until(*seq, Extended, Some(self.wall(*ends_elapsed_at)));
            }
            Event::Released { seq, until, .. } => {
                self.note_until(*seq, Released, until.map(|due| self.wall(due.elapsed_at)));
            }
            // No attempt was used.
            Event::Lapsed { seq, interrupted: true, .. } => self.note_until(*seq, Released, None),
            Event::Lapsed { seq, .. } => {
                self.note_until(*seq, Failed, None);
                self.note_until(*seq, Retried, None);
            }
            Event::Failed { seq, due, .. } => {
                self.note_until(*seq, Failed, None);
                self.note_until(*seq, Retried, Some(self.wall(due.elapsed_at)));
            }
            Event::Died { seq, death, .. } => self.note_death(*seq, death),
            Event::Replayed { seq, .. } => self.note_until(*seq, Replayed, None),
            Event::Completed { seq, keep_until, .. } => self.note_end(*seq, Completed, keep_until.is_some()),
            Event::Skipped { seq, keep_until, .. } => self.note_end(*seq, Skipped, keep_until.is_some()),
            Event::CancelRequested { seq } => self.note_until(*seq, CancelRequested, None),
            Event::Ended { seq, state, keep_until, .. } => {
                let word = if *state == JobState::Expired { Expired } else { Cancelled };
                self.note_end(*seq, word, keep_until.is_some());
            }
            Event::Unblocked { seq, .. } => self.note_until(*seq, Unblocked, None),
            Event::Patched { seq, due_at, .. } => self.note_until(*seq, Changed, *due_at),
            Event::HandedOff(it) => {
                if it.error.is_some() {
                    self.note_until(it.seq, Failed, None);
                }
                // It may go as a new one.
                self.note_end(it.seq, Forwarded, it.id.seq() == it.seq);
            }
            Event::Removed { seqs, why } => {
                let word = match why {
                    Removal::Forgotten => Forgotten,
                    Removal::Purged => Purged,
                    Removal::Discarded => Discarded,
                    Removal::Deleted => Deleted,
                };
                seqs.iter().for_each(|seq| self.note_until(*seq, word, None));
            }
            _ => {}
        }
    }

    /// A late failure of a job that its timeout has killed adds to its history and is no second death; a job that dies
    /// for a child was not tried.
    fn note_death(&mut self, seq: u64, death: &Death) {
        let Some(state) = self.slot_of_seq(seq).map(|slot| self.jobs[slot].state) else { return };
        if state == JobState::Dead {
            return;
        }
        if state != JobState::Blocked {
            self.note_until(seq, JobWord::Failed, None);
        }
        self.note(seq, JobWord::Dead, Detail { death: Some(death.clone()), ..Detail::default() });
    }

    fn note_end(&mut self, seq: u64, word: JobWord, is_kept: bool) {
        self.note_until(seq, word, None);
        if !is_kept {
            self.note_until(seq, JobWord::Forgotten, None);
        }
    }

    fn note_until(&mut self, seq: u64, word: JobWord, until: Option<u64>) {
        self.note(seq, word, Detail { until, ..Detail::default() });
    }

    fn note(&mut self, seq: u64, word: JobWord, detail: Detail) {
        let is_for_all = self.listening.all && word.is_of_every_job();
        if !is_for_all && self.listening.followed.is_empty() {
            return;
        }
        let Some(slot) = self.slot_of_seq(seq) else { return };
        let job = &self.jobs[slot];
        if !is_for_all && !self.listening.followed.contains(&job.id) {
            return;
        }
        // The count as it is once the fact is applied.
        let counts_on = word == JobWord::Received || word != JobWord::Released && job.was_interrupted();
        let attempt = u32::from(job.attempts) + u32::from(counts_on);
        let Detail { until, worker, death } = detail;
        let (queue, kind) = (self.queue(job.queue).name.clone(), self.lane_name(job).kind.clone());
        self.listening.news.push(JobNews { word, id: job.id, queue, kind, attempt, until, worker, death });
    }
}
