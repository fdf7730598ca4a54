//! What is told to those who listen: from the committed log only, in order, out of one bounded ring.
//!
//! The writer numbers what happens as it is decided, holds it back until its batch is committed, and puts it into the
//! ring. Listeners read the ring at their own pace and are woken when there is more; one that falls behind its end is
//! cut off, so that neither its slowness nor its absence costs the writer anything. Nothing is noted at all once
//! nobody has listened for [`LISTEN_AFTER`]; who comes back earlier misses nothing that the ring still holds.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use recado_core::{BreakerNews, JobId, JobView, News};
use tokio::sync::watch;

use crate::clock::Now;
use crate::error::Error;
use crate::inbox::{Internal, Promise};
use crate::parked::Outgoing;
use crate::shard::Shard;
use crate::shared::Shared;

/// Things that can be told again to who comes back.
pub const TOLD_MAX: usize = 10_000;
/// After the last one left, it is noted on for so long.
pub const LISTEN_AFTER: Duration = Duration::from_secs(300);
/// Jobs that are followed; at this limit those whose listeners have left are let go earlier.
const FOLLOWED_MAX: usize = 10_000;
/// What a listener takes out of the ring at once.
const HEARD_MAX: usize = 256;

/// Something that happened, and is committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Grows by one with each, from 1 at the start of this process.
    pub id: u64,
    /// When.
    pub at: u64,
    /// What.
    pub news: News,
}

/// What a listener gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// What happened next; never empty.
    Told(Vec<Arc<Told>>),
    /// The listener was too slow: what happened next is not there any more.
    Behind,
    /// The shard has ended.
    Ended,
}

/// The newest things told, and how to wait for the next.
pub(crate) struct Feed {
    ring: Mutex<Ring>,
    /// Id of the newest thing told.
    newest: watch::Sender<u64>,
}

#[derive(Default)]
struct Ring {
    told: VecDeque<Arc<Told>>,
    /// Id of the last that is not here any more.
    dropped: u64,
}

/// [`Feed::newest`] when nothing more will be told.
const ENDED: u64 = u64::MAX;

impl Default for Feed {
    fn default() -> Self {
        Self { ring: Mutex::default(), newest: watch::Sender::new(0) }
    }
}

impl Feed {
    fn lock(&self) -> MutexGuard<'_, Ring> {
        // Nothing below panics between two changes that belong together.
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, told: impl Iterator<Item = Arc<Told>>) {
        let mut ring = self.lock();
        ring.told.extend(told);
        let surplus = ring.told.len().saturating_sub(TOLD_MAX);
        let dropped = ring.told.drain(..surplus).next_back().map(|told| told.id);
        ring.dropped = dropped.unwrap_or(ring.dropped);
        let newest = ring.told.back().map_or(0, |told| told.id);
        drop(ring);
        self.newest.send_if_modified(|known| {
            let is_new = *known < newest;
            *known = newest.max(*known);
            is_new
        });
    }

    fn forget(&self) {
        let mut ring = self.lock();
        let dropped = ring.told.back().map_or(ring.dropped, |told| told.id);
        *ring = Ring { told: VecDeque::new(), dropped };
    }

    pub(crate) fn end(&self) {
        self.newest.send_replace(ENDED);
    }
}

/// Who listens, as the writer knows it.
#[derive(Default)]
pub(crate) struct Listeners {
    /// To what happens to all jobs.
    all: Heeded,
    /// To one job.
    jobs: BTreeMap<JobId, Heeded>,
    /// Id of the last thing that happened.
    last: u64,
    /// What happened and is not committed, with the position that it waits for.
    waiting: VecDeque<(u64, Arc<Told>)>,
    /// When to look who has been away for too long.
    look_at: Option<Duration>,
}

/// What is noted because somebody listens.
#[derive(Clone, Copy, Debug, Default)]
struct Heeded {
    listeners: usize,
    /// All that happened behind this id was noted.
    since: u64,
    /// When it ends, once nobody listens.
    until: Option<Duration>,
}

impl Heeded {
    fn is_on(&self) -> bool {
        self.listeners > 0 || self.until.is_some()
    }

    fn come(&mut self, last: u64) -> u64 {
        if !self.is_on() {
            self.since = last;
        }
        self.listeners += 1;
        self.until = None;
        self.since
    }

    fn leave(&mut self, until: Duration) {
        self.listeners -= 1;
        if self.listeners == 0 {
            self.until = Some(until);
        }
    }

    fn is_over(&self, now: Duration) -> bool {
        self.listeners == 0 && self.until.is_none_or(|until| until <= now)
    }
}

impl Listeners {
    fn add(&mut self, at: u64, position: u64, news: News) {
        self.last += 1;
        self.waiting.push_back((position, Arc::new(Told { id: self.last, at, news })));
    }
}

/// One who listens: to what happens to all jobs, or to everything of one.
pub struct Listener {
    shared: Arc<Shared>,
    job: Option<JobId>,
    /// The job as it was when this began.
    view: Option<JobView>,
    /// All behind this was noted.
    since: u64,
    /// The last that was heard.
    last: u64,
    newest: watch::Receiver<u64>,
}

impl Listener {
    /// The job that it listens to, as it was when it began.
    #[must_use]
    pub fn job(&self) -> Option<&JobView> {
        self.view.as_ref()
    }

    /// Id of the last thing that was heard, or happened before.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Goes on behind `last`, heard before; false when something behind it cannot be told any more.
    pub fn resume(&mut self, last: u64) -> bool {
        let is_there = (self.since..=self.last).contains(&last) && last >= self.shared.feed.lock().dropped;
        if is_there {
            self.last = last;
        }
        is_there
    }

    /// Waits for what happens next. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Heard {
        loop {
            let newest = *self.newest.borrow_and_update();
            if let Some(heard) = self.take() {
                return heard;
            }
            // The sender lives as long as this.
            if newest == ENDED || self.newest.changed().await.is_err() {
                return Heard::Ended;
            }
        }
    }

    fn take(&mut self) -> Option<Heard> {
        let ring = self.shared.feed.lock();
        if self.last < ring.dropped {
            return Some(Heard::Behind);
        }
        let behind = ring.told.partition_point(|told| told.id <= self.last);
        let told: Vec<_> = ring.told.range(behind..).take(HEARD_MAX).cloned().collect();
        drop(ring);
        self.last = told.last()?.id;
        Some(Heard::Told(told))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.shared.inbox.push_internal([Internal::Unlisten(self.job)]);
    }
}

impl Shard {
    /// Somebody begins to listen.
    pub(crate) fn listen(&mut self, now: Now, job: Option<JobId>, promise: Promise<Box<Listener>>) {
        let view = match job.map(|id| self.view(now, id)).transpose() {
            Ok(view) => view,
            Err(rejection) => return self.writer.park(Outgoing::Listening(promise, Err(Error::Rejected(rejection)))),
        };
        // What was decided before is no news to it.
        self.note_news(now);
        let last = self.listeners.last;
        let since = match job {
            None => self.listeners.all.come(last),
            Some(id) => {
                if self.listeners.jobs.len() >= FOLLOWED_MAX {
                    self.let_go(Duration::MAX);
                }
                self.writer.state.set_followed(id, true);
                self.listeners.jobs.entry(id).or_default().come(last)
            }
        };
        if job.is_none() {
            self.writer.state.set_listening(true);
        }
        let shared = Arc::clone(&self.writer.shared);
        let newest = shared.feed.newest.subscribe();
        let listener = Listener { shared, job, view, since, last, newest };
        self.writer.park(Outgoing::Listening(promise, Ok(Box::new(listener))));
    }

    /// Somebody has stopped listening.
    pub(crate) fn unlisten(&mut self, now: Now, job: Option<JobId>) {
        let until = now.elapsed + LISTEN_AFTER;
        let heeded = match &job {
            None => Some(&mut self.listeners.all),
            Some(id) => self.listeners.jobs.get_mut(id),
        };
        if let Some(heeded) = heeded {
            heeded.leave(until);
            self.listeners.look_at.get_or_insert(until);
        }
    }

    /// Nothing is noted any more for those who have been away until `now`.
    fn let_go(&mut self, now: Duration) {
        let Self { listeners, writer, .. } = self;
        if listeners.all.is_over(now) {
            listeners.all = Heeded::default();
            writer.state.set_listening(false);
        }
        listeners.jobs.retain(|id, heeded| {
            let is_over = heeded.is_over(now);
            if is_over {
                writer.state.set_followed(*id, false);
            }
            !is_over
        });
        let ends = listeners.jobs.values().chain([&listeners.all]).filter_map(|heeded| heeded.until);
        listeners.look_at = ends.min();
        if !listeners.all.is_on() && listeners.jobs.is_empty() {
            writer.shared.feed.forget();
        }
    }

    /// Takes down what has happened in this turn, to be told once it is committed.
    pub(crate) fn note_news(&mut self, now: Now) {
        if self.listeners.look_at.is_some_and(|at| at <= now.elapsed) {
            self.let_go(now.elapsed);
        }
        let (at, position) = (now.wall, self.writer.newest_position());
        for news in self.writer.state.take_news() {
            self.listeners.add(at, position, News::Job(news));
        }
        for news in self.writer.state.take_breaker_news() {
            let BreakerNews { name, is_limit, state, .. } = &news;
            // Whoever reads the log of the process sees it too.
            tracing::warn!(%name, is_limit, ?state, "a circuit breaker moved");
            if self.listeners.all.is_on() {
                self.listeners.add(at, position, News::Breaker(news));
            }
        }
    }

    /// Tells what is committed.
    pub(crate) fn tell_news(&mut self) {
        let waiting = &mut self.listeners.waiting;
        let committed = self.writer.committed();
        let count = waiting.iter().take_while(|(position, _)| *position <= committed).count();
        if count > 0 {
            self.writer.shared.feed.tell(waiting.drain(..count).map(|(_, told)| told));
        }
    }
}
