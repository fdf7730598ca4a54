//! Those who run the handlers: a task for each place of the worker, which does one run after the other.
//!
//! No more runs are given to it than there are places, so each is begun as soon as a thread is free for it. Of the
//! places only as many look for a run at one time as there are threads: a run that is over at once, or keeps its
//! thread, wakes nobody, and one that waits for something calls another place. So short runs cost no task and no
//! hand-over between threads each. Where runs keep their threads and the runtime makes up for them
//! (`block_in_place`), those in line are called for after a moment.

use std::collections::{HashMap, HashSet, VecDeque};
use std::future::{Future, poll_fn};
use std::mem;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;

use crate::worker::ctx::Ctx;
use crate::worker::registry::Handler;
use crate::worker::run::{self, Ending, panic_message};

/// A run stands in line so long at most while the runtime has a thread for it.
const LINE_TIME: Duration = Duration::from_millis(2);

/// A place that has no run; the keys of deliveries begin at 1.
const NO_RUN: u64 = 0;

/// A run that is over.
pub(super) struct Ended {
    pub(super) key: u64,
    pub(super) took: Duration,
    pub(super) ending: Ending,
}

struct Run {
    key: u64,
    handler: Handler,
    ctx: Ctx,
}

/// Runs that no place has begun, and places that will look for one before they rest.
#[derive(Default)]
struct Line {
    runs: VecDeque<Run>,
    seeking: usize,
}

struct Shared {
    /// Places that look for a run at one time, at most.
    seeking_max: usize,
    line: Mutex<Line>,
    /// A permit wakes a place, which was counted as seeking before.
    calls: Semaphore,
    ended: Mutex<Vec<Ended>>,
    news: Notify,
}

pub(super) struct Crew {
    shared: Arc<Shared>,
    places: JoinSet<()>,
    /// Which run each place has.
    at_work: HashMap<Id, Arc<AtomicU64>>,
    /// Given and not known to have ended.
    open: HashSet<u64>,
}

/// Nothing panics with a lock held.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Crew {
    pub(super) fn new() -> Self {
        let shared = Shared {
            seeking_max: Handle::current().metrics().num_workers(),
            line: Mutex::default(),
            calls: Semaphore::new(0),
            ended: Mutex::default(),
            news: Notify::new(),
        };
        Self { shared: Arc::new(shared), places: JoinSet::new(), at_work: HashMap::new(), open: HashSet::new() }
    }

    /// Runs under way.
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Gives it a run.
    pub(super) fn start(&mut self, key: u64, handler: Handler, ctx: Ctx) {
        self.open.insert(key);
        // As many places as runs: whichever of them wait, there is one for each of the others.
        let is_short = self.places.len() < self.open.len();
        self.shared.put_in_line(Run { key, handler, ctx }, !is_short);
        if is_short {
            let has_run = Arc::new(AtomicU64::new(NO_RUN));
            let place = self.places.spawn(place(Arc::clone(&self.shared), Arc::clone(&has_run)));
            self.at_work.insert(place.id(), has_run);
        }
    }

    /// Waits until runs have ended, and takes them.
    pub(super) async fn ended(&mut self) -> Vec<Ended> {
        loop {
            let ended = mem::take(&mut *lock(&self.shared.ended));
            if !ended.is_empty() {
                for Ended { key, .. } in &ended {
                    self.open.remove(key);
                }
                return ended;
            }
            let first = self.shared.first_in_line();
            tokio::select! {
                () = self.shared.news.notified() => {}
                Some(left) = self.places.join_next_with_id() => self.left(left),
                () = tokio::time::sleep(LINE_TIME), if first.is_some() => self.shared.call_for(first),
            }
        }
    }

    /// A place is gone: it was cut off, or what it ran panicked where nothing catches it.
    fn left(&mut self, left: Result<(Id, ()), JoinError>) {
        let Err(error) = left else { return };
        let has_run = self.at_work.remove(&error.id()).map_or(NO_RUN, |run| run.load(Ordering::Acquire));
        if has_run != NO_RUN {
            let ending = if error.is_cancelled() { Ending::Aborted } else { Ending::Panicked(error.to_string()) };
            self.shared.end(Ended { key: has_run, took: Duration::ZERO, ending });
        }
    }

    /// Cuts off all runs, begun or not.
    pub(super) fn break_off(&mut self) {
        let runs = mem::take(&mut lock(&self.shared.line).runs);
        for Run { key, .. } in runs {
            self.shared.end(Ended { key, took: Duration::ZERO, ending: Ending::Aborted });
        }
        self.places.abort_all();
    }
}

impl Shared {
    /// With `calls` a place is called to it, unless enough seek one; without, the caller makes a place.
    fn put_in_line(&self, run: Run, calls: bool) {
        let mut line = lock(&self.line);
        line.runs.push_back(run);
        if calls {
            self.call(line);
        } else {
            line.seeking += 1;
        }
    }

    fn call(&self, mut line: MutexGuard<'_, Line>) {
        if !line.runs.is_empty() && line.seeking < self.seeking_max {
            line.seeking += 1;
            drop(line);
            self.calls.add_permits(1);
        }
    }

    fn first_in_line(&self) -> Option<u64> {
        lock(&self.line).runs.front().map(|run| run.key)
    }

    /// Calls a place to the first in line if it still is, however many seek a run.
    fn call_for(&self, first: Option<u64>) {
        let mut line = lock(&self.line);
        if line.runs.front().map(|run| run.key) == first {
            line.seeking += 1;
            drop(line);
            self.calls.add_permits(1);
        }
    }

    /// The next run; without one the place that asks seeks no more.
    fn next(&self) -> Option<Run> {
        let mut line = lock(&self.line);
        let run = line.runs.pop_front();
        line.seeking -= usize::from(run.is_none());
        run
    }

    /// The place that asks waits within its run.
    fn stop_seeking(&self) {
        let mut line = lock(&self.line);
        line.seeking -= 1;
        self.call(line);
    }

    fn seek_again(&self) {
        lock(&self.line).seeking += 1;
    }

    fn end(&self, ended: Ended) {
        let mut all = lock(&self.ended);
        all.push(ended);
        let is_first = all.len() == 1;
        drop(all);
        if is_first {
            self.news.notify_one();
        }
    }
}

async fn place(shared: Arc<Shared>, has_run: Arc<AtomicU64>) {
    loop {
        while let Some(Run { key, handler, ctx }) = shared.next() {
            has_run.store(key, Ordering::Release);
            let began = Instant::now();
            let mut run = pin!(AssertUnwindSafe(run::run(handler, ctx)).catch_unwind());
            let first = poll_fn(|context| Poll::Ready(run.as_mut().poll(context))).await;
            let ended = match first {
                Poll::Ready(ended) => ended,
                Poll::Pending => {
                    shared.stop_seeking();
                    let ended = run.await;
                    shared.seek_again();
                    ended
                }
            };
            // A handler's own panic was caught already: this one came while its future was dropped.
            let ending = ended.unwrap_or_else(|panic| Ending::Panicked(panic_message(&*panic)));
            shared.end(Ended { key, took: began.elapsed(), ending });
            has_run.store(NO_RUN, Ordering::Release);
            tokio::task::coop::consume_budget().await;
        }
        match shared.calls.acquire().await {
            Ok(call) => call.forget(),
            // It is never closed.
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Condvar;

    use serde_json::value::RawValue;
    use tokio::sync::{Barrier, mpsc};
    use tokio::time::timeout;

    use super::*;
    use crate::error::BoxError;
    use crate::recado::Recado;
    use crate::worker::held::tests::delivery;
    use crate::worker::registry::raw;

    const LONG: Duration = Duration::from_secs(60);

    /// A crew that was given so many runs.
    async fn crew<F, Fut>(runs: u64, run: F) -> Crew
    where
        F: Fn() -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let recado = Recado::connect("http://127.0.0.1:9").await.unwrap();
        let handler = raw(move |_| {
            let run = run();
            async move {
                run.await;
                Ok::<_, BoxError>(RawValue::NULL.to_owned())
            }
        });
        let mut crew = Crew::new();
        for key in 1..=runs {
            let (tell, _) = mpsc::unbounded_channel();
            let ctx = Ctx::new(Arc::new(delivery(LONG)), recado.clone(), None, (key, tell)).unwrap();
            crew.start(key, handler.clone(), ctx);
        }
        crew
    }

    /// What all runs come to: done, cut off, anything else.
    async fn endings(crew: &mut Crew) -> [usize; 3] {
        let mut endings = [0; 3];
        while !crew.is_empty() {
            for ended in timeout(LONG, crew.ended()).await.expect("a run never ended") {
                endings[match ended.ending {
                    Ending::Done(_) => 0,
                    Ending::Aborted => 1,
                    _ => 2,
                }] += 1;
            }
        }
        endings
    }

    #[tokio::test]
    async fn runs_that_wait_for_one_another_run_side_by_side() {
        let all = Arc::new(Barrier::new(8));
        let mut crew = crew(8, move || {
            let all = Arc::clone(&all);
            async move {
                all.wait().await;
            }
        })
        .await;
        assert_eq!(endings(&mut crew).await, [8, 0, 0]);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn runs_that_keep_their_threads_hold_up_no_others() {
        let all = Arc::new((Mutex::new(0), Condvar::new()));
        let meet = move || {
            let all = Arc::clone(&all);
            async move {
                tokio::task::block_in_place(|| {
                    let (count, more) = &*all;
                    *lock(count) += 1;
                    more.notify_all();
                    let waited = more.wait_timeout_while(lock(count), LONG, |count| *count < 6).unwrap();
                    assert!(!waited.1.timed_out(), "the others did not begin");
                });
            }
        };
        assert_eq!(endings(&mut crew(6, meet).await).await, [6, 0, 0]);
    }

    #[tokio::test]
    async fn what_is_cut_off_has_ended_whether_or_not_it_was_begun() {
        let mut crew = crew(3, std::future::pending).await;
        tokio::task::yield_now().await;
        crew.break_off();
        assert_eq!(endings(&mut crew).await, [0, 3, 0]);
    }

    #[tokio::test]
    async fn places_are_used_again() {
        let mut crew = crew(3, || async {}).await;
        assert_eq!(endings(&mut crew).await, [3, 0, 0]);
        for key in 4..100 {
            let (tell, _) = mpsc::unbounded_channel();
            let recado = Recado::connect("http://127.0.0.1:9").await.unwrap();
            let ctx = Ctx::new(Arc::new(delivery(LONG)), recado, None, (key, tell)).unwrap();
            crew.start(key, raw(|_| async { Ok::<_, BoxError>(RawValue::NULL.to_owned()) }), ctx);
            assert_eq!(endings(&mut crew).await, [1, 0, 0]);
        }
        assert_eq!(crew.places.len(), 3);
    }
}
