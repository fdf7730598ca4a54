//! What every store must do. Several handles on one store stand for several processes.

use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use futures_util::future::BoxFuture;
use recado::once::{Begun, Once, OnceError, Step, Store, StoreError};
use tokio::sync::watch;

pub(crate) const QUEUE: &str = "steps";

/// Long enough for a busy machine, short enough to wait for.
const HOLD: Duration = Duration::from_millis(300);

const DAY: Duration = Duration::from_secs(86_400);

fn step(key: &str) -> Step {
    Step::new(QUEUE, key)
}

/// All of it.
pub(crate) async fn all(stores: &[Arc<dyn Store>]) {
    let store = &stores[0];
    one_holder_then_its_result(store).await;
    the_result_is_kept_byte_for_byte(store).await;
    a_late_holder_is_overtaken(store).await;
    a_late_holder_that_nobody_overtook_counts(store).await;
    an_abort_frees(store).await;
    an_extended_hold_holds(store).await;
    a_result_is_kept_for_its_time(store).await;
    names_are_apart(store).await;
    of_many_holders_one_does_it(stores).await;
    a_failure_frees_the_step(store).await;
    a_caller_that_does_not_wait_is_told(store).await;
    work_that_takes_longer_than_its_hold_keeps_it(store).await;
    who_was_overtaken_is_stopped(store).await;
    what_is_no_step_is_refused(store).await;
}

async fn token(store: &Arc<dyn Store>, step: &Step) -> Box<str> {
    match store.begin(step).await.unwrap() {
        Begun::New { token } => token,
        other => panic!("{step:?}: {other:?}"),
    }
}

/// Asks until the step can be begun.
async fn token_at_last(store: &Arc<dyn Store>, step: &Step) -> Box<str> {
    let give_up = tokio::time::Instant::now() + Duration::from_secs(60);
    loop {
        match store.begin(step).await.unwrap() {
            Begun::New { token } => return token,
            other => assert!(tokio::time::Instant::now() < give_up, "it was never free: {other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn is_overtaken(result: &Result<(), StoreError>) -> bool {
    matches!(result, Err(StoreError::Overtaken))
}

async fn result(store: &Arc<dyn Store>, step: &Step) -> String {
    match store.begin(step).await.unwrap() {
        Begun::Done { result } => String::from_utf8(result.to_vec()).unwrap(),
        other => panic!("{step:?}: {other:?}"),
    }
}

async fn one_holder_then_its_result(store: &Arc<dyn Store>) {
    let step = step("one-holder");
    let held = token(store, &step).await;
    match store.begin(&step).await.unwrap() {
        Begun::Processing { until } => {
            let left = until.duration_since(SystemTime::now()).unwrap();
            assert!(left > Duration::from_secs(10) && left <= Duration::from_secs(61), "{left:?}");
        }
        other => panic!("{other:?}"),
    }
    store.complete(&step, &held, b"42").await.unwrap();
    assert_eq!(result(store, &step).await, "42");
    store.complete(&step, &held, b"42").await.expect("the same again");
    assert!(is_overtaken(&store.abort(&step, &held).await));
    assert!(is_overtaken(&store.extend(&step, &held).await));
    assert_eq!(result(store, &step).await, "42");
}

async fn the_result_is_kept_byte_for_byte(store: &Arc<dyn Store>) {
    let step = step("bytes");
    let json = "{ \"b\" : 1.50,\t\"a\":[ 1e2,\"\\u00fc\\u0000 ü\\n\" ] }";
    let held = token(store, &step).await;
    store.complete(&step, &held, json.as_bytes()).await.unwrap();
    assert_eq!(result(store, &step).await, json);
    let step = self::step("large");
    let large = format!("\"{}\"", "x".repeat((64 << 10) - 2));
    let held = token(store, &step).await;
    store.complete(&step, &held, large.as_bytes()).await.unwrap();
    assert_eq!(result(store, &step).await, large);
}

async fn a_late_holder_is_overtaken(store: &Arc<dyn Store>) {
    let step = step("late").hold_for(HOLD);
    let late = token(store, &step).await;
    let step = Step::hold_for(step, DAY / 2);
    let now = token_at_last(store, &step).await;
    assert_ne!(now, late);
    assert!(is_overtaken(&store.complete(&step, &late, b"1").await));
    assert!(is_overtaken(&store.extend(&step, &late).await));
    assert!(is_overtaken(&store.abort(&step, &late).await));
    assert!(matches!(store.begin(&step).await.unwrap(), Begun::Processing { .. }), "nothing was changed");
    store.complete(&step, &now, b"2").await.unwrap();
    for equal_or_not in ["1", "2"] {
        assert!(is_overtaken(&store.complete(&step, &late, equal_or_not.as_bytes()).await), "{equal_or_not}");
    }
    store.complete(&step, &now, b"2").await.expect("the same again");
    assert_eq!(result(store, &step).await, "2");
}

async fn a_late_holder_that_nobody_overtook_counts(store: &Arc<dyn Store>) {
    let (slow, clock) = (step("slow").hold_for(HOLD), step("slow-clock").hold_for(HOLD));
    let held = token(store, &slow).await;
    // When the second one, begun later, is free, the first one's deadline has passed.
    token(store, &clock).await;
    token_at_last(store, &clock).await;
    store.complete(&slow, &held, b"1").await.unwrap();
    assert_eq!(result(store, &slow).await, "1");
}

async fn an_abort_frees(store: &Arc<dyn Store>) {
    let step = step("aborted");
    let first = token(store, &step).await;
    store.abort(&step, &first).await.unwrap();
    store.abort(&step, &first).await.expect("it is free already");
    let second = token(store, &step).await;
    assert!(is_overtaken(&store.abort(&step, &first).await));
    store.complete(&step, &second, b"1").await.unwrap();
}

async fn an_extended_hold_holds(store: &Arc<dyn Store>) {
    let (step, clock) = (step("extended"), step("extended-clock").hold_for(HOLD));
    let held = token(store, &step.clone().hold_for(HOLD)).await;
    store.extend(&step, &held).await.unwrap();
    token(store, &clock).await;
    token_at_last(store, &clock).await;
    assert!(matches!(store.begin(&step).await.unwrap(), Begun::Processing { .. }));
    store.complete(&step, &held, b"1").await.unwrap();
}

async fn a_result_is_kept_for_its_time(store: &Arc<dyn Store>) {
    let short = step("short").keep_for(HOLD);
    let long = step("long").keep_for(DAY * 365);
    for step in [&short, &long] {
        let held = token(store, step).await;
        store.complete(step, &held, b"1").await.unwrap();
    }
    let held = token_at_last(store, &short).await;
    store.complete(&short.clone().keep_for(DAY), &held, b"2").await.unwrap();
    assert_eq!((result(store, &short).await.as_str(), result(store, &long).await.as_str()), ("2", "1"));
}

async fn names_are_apart(store: &Arc<dyn Store>) {
    let longest = "k".repeat(256);
    let names = ["a", "A", "a ", "a/b", "a%2Fb", "ü:'\"\\;--", "...", longest.as_str()];
    let mut held = Vec::new();
    for name in names {
        held.push(token(store, &step(name)).await);
    }
    for (name, held) in names.iter().zip(&held) {
        store.complete(&step(name), held, format!("{name:?}").as_bytes()).await.unwrap();
    }
    for name in names {
        assert_eq!(result(store, &step(name)).await, format!("{name:?}"));
    }
}

async fn of_many_holders_one_does_it(stores: &[Arc<dyn Store>]) {
    let done = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..50)
        .map(|number| {
            let (store, done) = (Arc::clone(&stores[number % stores.len()]), Arc::clone(&done));
            tokio::spawn(async move {
                let work = async {
                    done.fetch_add(1, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    Ok::<_, String>(number)
                };
                Once::in_store(store, step("fifty"), work).await
            })
        })
        .collect();
    let mut results = Vec::new();
    for task in tasks {
        results.push(task.await.unwrap().unwrap());
    }
    assert_eq!(done.load(Ordering::SeqCst), 1, "done once");
    results.dedup();
    assert_eq!(results.len(), 1, "all have the one result");
}

async fn a_failure_frees_the_step(store: &Arc<dyn Store>) {
    let once = |work: Result<u8, &'static str>| async move {
        Once::in_store(Arc::clone(store), step("failing"), async move { work }).wait(Duration::ZERO).await
    };
    assert!(matches!(once(Err("no paper")).await, Err(OnceError::Failed("no paper"))));
    assert_eq!(once(Ok(1)).await.unwrap(), 1);
    assert_eq!(once(Ok(2)).await.unwrap(), 1);
    assert_eq!(once(Err("never asked")).await.unwrap(), 1);
    let other = Once::in_store(Arc::clone(store), step("failing"), async { Ok::<_, String>("text".to_owned()) }).await;
    assert!(matches!(other, Err(OnceError::Unreadable(_))), "{other:?}");
}

async fn a_caller_that_does_not_wait_is_told(store: &Arc<dyn Store>) {
    let step = step("busy");
    let held = token(store, &step).await;
    let work = async { Ok::<_, String>(1) };
    let refused = Once::in_store(Arc::clone(store), step.clone(), work).wait(Duration::ZERO).await;
    assert!(matches!(refused, Err(OnceError::Processing { .. })), "{refused:?}");
    // One that waits gets the result as soon as it is there, long before the deadline.
    let waiting = Once::in_store(Arc::clone(store), step.clone(), async { Ok::<_, String>(1) });
    let waiting = tokio::spawn(waiting.into_future());
    store.complete(&step, &held, b"7").await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), 7);
}

/// Three extends come within a hold: after more, the work has taken longer than it.
async fn work_that_takes_longer_than_its_hold_keeps_it(store: &Arc<dyn Store>) {
    let line = Arc::new(Line::to(store));
    let work = async {
        line.extended(6).await;
        Ok::<_, String>(1)
    };
    let step = step("long-work").hold_for(HOLD);
    assert_eq!(Once::in_store(line.clone(), step.clone(), work).await.unwrap(), 1);
    assert_eq!(result(store, &step).await, "1");
}

/// The way to a store: over it extends are counted, or do not arrive for a while, as over a network that is down.
struct Line {
    store: Arc<dyn Store>,
    is_cut: AtomicBool,
    extends: watch::Sender<usize>,
}

impl Line {
    fn to(store: &Arc<dyn Store>) -> Self {
        Self { store: Arc::clone(store), is_cut: AtomicBool::new(false), extends: watch::Sender::new(0) }
    }

    fn cut(store: &Arc<dyn Store>) -> Self {
        Self { is_cut: AtomicBool::new(true), ..Self::to(store) }
    }

    /// Resolves when so many extends were answered.
    async fn extended(&self, times: usize) {
        let mut extends = self.extends.subscribe();
        let enough = extends.wait_for(|extends| *extends >= times);
        tokio::time::timeout(Duration::from_secs(60), enough).await.expect("it is extended").unwrap();
    }
}

impl Store for Line {
    fn begin<'a>(&'a self, step: &'a Step) -> BoxFuture<'a, Result<Begun, StoreError>> {
        self.store.begin(step)
    }

    fn extend<'a>(&'a self, step: &'a Step, token: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            if self.is_cut.load(Ordering::SeqCst) {
                return Err(StoreError::failed("cut off"));
            }
            self.store.extend(step, token).await?;
            self.extends.send_modify(|extends| *extends += 1);
            Ok(())
        })
    }

    fn complete<'a>(
        &'a self,
        step: &'a Step,
        token: &'a str,
        result: &'a [u8],
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.store.complete(step, token, result)
    }

    fn abort<'a>(&'a self, step: &'a Step, token: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        self.store.abort(step, token)
    }
}

async fn who_was_overtaken_is_stopped(store: &Arc<dyn Store>) {
    let step = step("stopped").hold_for(HOLD);
    let cut = Arc::new(Line::cut(store));
    let other = step.clone().hold_for(DAY / 2);
    let work = async {
        let thief = token_at_last(store, &other).await;
        cut.is_cut.store(false, Ordering::SeqCst);
        // Dropped here, at the next extend.
        std::future::pending::<()>().await;
        Ok::<_, String>(thief.into_string())
    };
    let stopped = Once::in_store(cut.clone(), step.clone(), work).await;
    assert!(matches!(stopped, Err(OnceError::Overtaken)), "{stopped:?}");
    // One that ends before it hears of it is told by the store.
    let step = self::step("stopped-late").hold_for(HOLD);
    let cut = Arc::new(Line::cut(store));
    let work = async { Ok::<_, String>(token_at_last(store, &step).await.into_string()) };
    let late = Once::in_store(cut, step.clone(), work).await;
    assert!(matches!(late, Err(OnceError::Overtaken)), "{late:?}");
}

async fn what_is_no_step_is_refused(store: &Arc<dyn Store>) {
    let long = "k".repeat(257);
    for step in [
        step(""),
        step(".."),
        step(&long),
        step("a\nb"),
        Step::new("no queue", "k"),
        step("k").hold_for(Duration::from_millis(99)),
        step("k").hold_for(DAY),
        step("k").keep_for(Duration::ZERO),
        step("k").keep_for(DAY * 366),
    ] {
        let refused = Once::in_store(Arc::clone(store), step.clone(), async { Ok::<_, String>(1) }).await;
        assert!(matches!(refused, Err(OnceError::NotBegun(_))), "{step:?}: {refused:?}");
    }
}
