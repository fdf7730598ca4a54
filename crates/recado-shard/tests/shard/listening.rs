//! Listeners: they hear what is committed and nothing else, in order; whoever is slow or away costs the writer nothing.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use recado_core::{
    BreakerOptions, BreakerState, Cancel, CancelTarget, Command, Configure, JobId, News, Outcome, PaceOptions,
    QueueOptions, Rejection, Source,
};
use recado_log::sim::Fault;
use recado_shard::{Error, Heard, LISTEN_AFTER, Listener, Next, TOLD_MAX};

use crate::world::{Call, World, ack, fail};

fn listen(world: &mut World, job: Option<JobId>) -> Listener {
    let handle = world.handle.clone();
    let call = Call::new(async move { handle.listen(job).await });
    world.run(call).unwrap()
}

/// What a listener hears now, if anything.
fn hear(listener: &mut Listener) -> Option<Heard> {
    match pin!(listener.next()).as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(heard) => Some(heard),
        Poll::Pending => None,
    }
}

fn words(heard: &Heard) -> Vec<&'static str> {
    let Heard::Told(told) = heard else { panic!("{heard:?}") };
    let word = |news: &News| match news {
        News::Job(news) => news.word.word(),
        News::Breaker(news) => match news.state {
            BreakerState::Open => "open",
            BreakerState::HalfOpen => "half-open",
            BreakerState::Closed => "closed",
        },
    };
    told.iter().map(|told| word(&told.news)).collect()
}

fn configure(world: &mut World, queue: &str, options: QueueOptions) {
    let (source, condition, actor) = (Source::Api, Default::default(), Default::default());
    let call = world.call(Command::Configure(Configure { queue: queue.into(), options, source, condition, actor }));
    world.run(call).unwrap();
}

/// Takes one job and fails it for good.
fn kill_one(world: &mut World) {
    world.enqueue("mail", &["1"]);
    let taken = world.take("mail", 1).remove(0);
    world.settle_one(&taken, fail("no", false)).unwrap();
}

#[test]
fn nothing_is_told_before_it_is_committed() {
    let mut world = World::new();
    world.enqueue("mail", &["1"]);
    let taken = world.take("mail", 1);
    world.pass(Duration::from_millis(200));
    let mut listener = listen(&mut world, None);
    let mut settled = world.settle(vec![taken[0].settle(fail("no route", true))]).begin();
    world.step();
    assert_eq!(hear(&mut listener), None, "decided and submitted, not synced");
    world.commit();
    assert_eq!(hear(&mut listener), None, "synced, and the shard has not seen it yet");
    world.step();
    assert!(settled.poll().is_some());
    let heard = hear(&mut listener).expect("told with its answer");
    assert_eq!(words(&heard), ["failed", "retried"]);
    let Heard::Told(told) = heard else { panic!() };
    let News::Job(retried) = &told[1].news else { panic!() };
    assert_eq!((told[0].id, told[1].id, retried.id, retried.attempt), (1, 2, taken[0].id, 1));
    assert!(retried.until.unwrap() > told[1].at, "its backoff");
    assert_eq!((listener.last(), hear(&mut listener)), (2, None));
}

#[test]
fn what_was_never_committed_was_never_told() {
    let mut world = World::new();
    world.enqueue("mail", &["1"]);
    let taken = world.take("mail", 1);
    world.pass(Duration::from_millis(200));
    let mut listener = listen(&mut world, None);
    let mut settled = world.settle(vec![taken[0].settle(fail("no", false))]).begin();
    world.step();
    world.disk.fail_at(world.disk.operations(), Fault::Io);
    world.disk.fail_at(world.disk.operations() + 1, Fault::Io);
    world.commit();
    assert_eq!(world.step(), Next::Ended);
    assert!(settled.poll().expect("an outcome nobody knows").is_err());
    assert_eq!(hear(&mut listener), Some(Heard::Ended));
}

#[test]
fn what_attempts_end_with() {
    let mut world = World::new();
    configure(&mut world, "mail", QueueOptions { max_attempts: Some(2), ..QueueOptions::default() });
    let mut listener = listen(&mut world, None);
    let id = world.enqueue("mail", &["1"])[0];
    let taken = world.take("mail", 1).remove(0);
    world.settle_one(&taken, Outcome::Release { delay_ms: None, reason: None }).unwrap();
    // One attempt fails, one times out.
    let taken = world.take("mail", 1).remove(0);
    world.settle_one(&taken, fail("no", true)).unwrap();
    world.pass(Duration::from_secs(60));
    assert_eq!(world.take("mail", 1).len(), 1);
    world.pass(Duration::from_secs(3_600));
    let heard = hear(&mut listener).expect("there is something to hear");
    assert_eq!(words(&heard), ["failed", "retried", "failed", "dead"]);
    let Heard::Told(told) = heard else { panic!() };
    let News::Job(dead) = &told[3].news else { panic!() };
    assert_eq!((dead.id, dead.attempt, &*dead.queue, &*dead.kind), (id, 2, "mail", "work"));
    assert_eq!(&*dead.death.as_ref().unwrap().error_kind, "visibility-timeout");
}

#[test]
fn everything_of_one_job_and_nothing_of_others() {
    let mut world = World::new();
    let ids = world.enqueue("mail", &["1", "2"]);
    let mut listener = listen(&mut world, Some(ids[0]));
    assert_eq!(listener.job().map(|job| job.id), Some(ids[0]));
    let taken = world.take("mail", 2);
    world.settle_one(&taken[1], fail("no", true)).unwrap();
    world.settle_one(&taken[0], Outcome::Extend { visibility_ms: None, progress: None }).unwrap();
    world.settle_one(&taken[0], Outcome::Release { delay_ms: Some(1_000), reason: None }).unwrap();
    world.pass(Duration::from_secs(2));
    let taken = world.take("mail", 1).remove(0);
    let cancel = Cancel { target: CancelTarget::Ids(vec![ids[0]]), reason: None, actor: Default::default() };
    let call = world.call(Command::Cancel(cancel));
    world.run(call).unwrap();
    world.settle_one(&taken, ack()).unwrap();
    world.pass(Duration::from_secs(2 * 3_600));
    assert_eq!(
        words(&hear(&mut listener).expect("there is something to hear")),
        ["received", "extended", "released", "received", "cancel-requested", "completed", "forgotten"]
    );
}

#[test]
fn a_job_that_is_not_there_has_no_listener() {
    let mut world = World::new();
    let handle = world.handle.clone();
    let strange = JobId::parse("job_018f3c5e7b1a7c3d9e2f1a2b3c4d5e6f").unwrap();
    let call = Call::new(async move { handle.listen(Some(strange)).await.map(drop) });
    assert!(matches!(world.run(call), Err(Error::Rejected(Rejection::JobGone(_)))));
}

#[test]
fn who_comes_back_goes_on_where_it_was() {
    let mut world = World::new();
    let listener = listen(&mut world, None);
    kill_one(&mut world);
    drop(listener);
    world.pass(LISTEN_AFTER - Duration::from_secs(1));
    kill_one(&mut world);
    let mut again = listen(&mut world, None);
    assert_eq!(again.last(), 4);
    assert!(!again.resume(5), "this has not happened");
    assert!(again.resume(1));
    assert_eq!(words(&hear(&mut again).unwrap()), ["dead", "failed", "dead"]);
    drop(again);
    world.pass(LISTEN_AFTER + Duration::from_secs(1));
    world.pass(LISTEN_AFTER);
    kill_one(&mut world);
    let mut late = listen(&mut world, None);
    assert_eq!(late.last(), 4, "what nobody hears has no number");
    assert!(!late.resume(3) && !late.resume(0), "something happened behind it");
    kill_one(&mut world);
    assert_eq!(words(&hear(&mut late).unwrap()), ["failed", "dead"]);
}

#[test]
fn nothing_is_noted_while_nobody_listens() {
    let mut world = World::new();
    kill_one(&mut world);
    assert_eq!(listen(&mut world, None).last(), 0);
    let id = world.enqueue("other", &["1"])[0];
    let followed = listen(&mut world, Some(id));
    world.take("other", 1);
    assert_eq!(listen(&mut world, None).last(), 1);
    drop(followed);
    // Followed again within the time, it is whole; a job that was not followed has no past.
    assert!(listen(&mut world, Some(id)).resume(0));
    let other = world.enqueue("other", &["2"])[0];
    assert!(!listen(&mut world, Some(other)).resume(0));
}

#[test]
fn a_slow_listener_is_cut_off_and_holds_nobody_up() {
    let mut world = World::new();
    let mut slow = listen(&mut world, None);
    let mut quick = listen(&mut world, None);
    let mut heard = 0;
    while heard <= TOLD_MAX {
        world.enqueue("mail", &["1"; 100]);
        let taken = world.take("mail", 100);
        let call = world.settle(taken.iter().map(|taken| taken.settle(fail("no", false))).collect());
        assert!(world.run(call).unwrap().iter().all(Result::is_ok));
        while let Some(told) = hear(&mut quick) {
            heard += words(&told).len();
        }
    }
    assert_eq!(hear(&mut slow), Some(Heard::Behind));
    let all = heard as u64;
    let mut again = listen(&mut world, None);
    assert!(!again.resume(slow.last()) && !again.resume(all - TOLD_MAX as u64 - 1), "one beyond what is kept");
    assert!(again.resume(all - TOLD_MAX as u64), "just what is kept");
    let mut again_heard = 0;
    while let Some(told) = hear(&mut again) {
        again_heard += words(&told).len();
    }
    assert_eq!(again_heard, TOLD_MAX);
}

#[test]
fn breakers_tell_where_they_are() {
    let mut world = World::new();
    let breaker = BreakerOptions { failure_milli: 500, window_ms: 30_000, min_jobs: 2, cool_down_ms: 1_000 };
    let pace = PaceOptions { breaker: Some(breaker), ..PaceOptions::default() };
    configure(&mut world, "mail", QueueOptions { pace: Some(Box::new(pace)), ..QueueOptions::default() });
    let mut listener = listen(&mut world, None);
    world.enqueue("mail", &["1", "2", "3"]);
    for taken in world.take("mail", 2) {
        world.settle_one(&taken, fail("no", false)).unwrap();
    }
    world.pass(Duration::from_secs(2));
    let taken = world.take("mail", 1).remove(0);
    world.settle_one(&taken, ack()).unwrap();
    let heard = hear(&mut listener).unwrap();
    let breakers: Vec<_> = words(&heard).into_iter().filter(|word| !matches!(*word, "failed" | "dead")).collect();
    assert_eq!(breakers, ["open", "half-open", "closed"]);
}

#[test]
fn a_stop_ends_it() {
    let mut world = World::new();
    let mut listener = listen(&mut world, None);
    assert_eq!(hear(&mut listener), None);
    world.shard.begin_stop();
    world.quiesce();
    assert_eq!(hear(&mut listener), Some(Heard::Ended));
}
