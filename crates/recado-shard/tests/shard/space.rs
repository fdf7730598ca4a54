//! A full disk: producers are refused, what is in flight can be settled, service returns by itself.

use std::time::Duration;

use recado_core::{
    Action, Answer, Backoff, BackoffCurve, Command, Configure, Jitter, NewJob, NewTask, Outcome, Overrides, Query,
    QueueOptions, Rejection, Reply, Select, Source,
};
use recado_shard::Error;

use crate::world::{Call, Set, Taken, World, ack, enqueue, fail, job, receive};

/// A world whose disk is full, with jobs waiting.
fn full() -> World {
    let mut world = World::new();
    fill(&mut world);
    world
}

/// Enqueues jobs, then fills the disk.
pub(crate) fn fill(world: &mut World) {
    for number in 0..64 {
        world.enqueue("mail", &[&number.to_string()]);
    }
    run_full(world);
}

/// Lets the disk run full, as producers see it.
fn run_full(world: &mut World) {
    world.disk.set_capacity(Some(world.disk.used_bytes()));
    let big = "x".repeat(8_000);
    for _ in 0..1_000 {
        let call = world.call(enqueue("bulk", vec![job(&big)]));
        match world.run(call) {
            Ok(_) => {}
            Err(Error::StorageFull { retry_after }) => {
                assert!(!retry_after.is_zero());
                assert!(world.handle.status().storage_full);
                return;
            }
            Err(other) => panic!("{other}"),
        }
    }
    panic!("the disk never ran full");
}

#[test]
fn producers_are_refused_and_consumers_go_on() {
    let mut world = full();
    for _ in 0..64 {
        let taken = world.take("mail", 1);
        assert_eq!(taken.len(), 1);
        world.settle_one(&taken[0], ack()).unwrap();
    }
    let call = world.call(enqueue("mail", vec![job("more")]));
    assert!(matches!(world.run(call), Err(Error::StorageFull { .. })));
}

#[test]
fn long_errors_are_cut_and_long_results_refused_with_the_receipt_kept() {
    let mut world = full();
    let taken = world.take("mail", 2);
    let long = "é".repeat(20_000);
    world.settle_one(&taken[0], fail(&long, true)).unwrap();
    let result = Outcome::Ack { result: Some(vec![b'1'; 10_000]) };
    match world.settle_one(&taken[1], result) {
        Err(Rejection::ResultTooLargeNow { limit, actual }) => assert!(limit < 8 * 1024 && actual == 10_000),
        other => panic!("{other:?}"),
    }
    assert!(world.settle_one(&taken[1], ack()).is_ok(), "the receipt is still good");
}

#[test]
fn whatever_was_handed_out_can_be_settled() {
    let mut world = full();
    let held = take_all(&mut world, "mail");
    assert!(!held.is_empty());
    // Each takes all the space that it may.
    for job in &held {
        world.settle_one(job, fail(&"x".repeat(8_000), false)).unwrap();
    }
}

/// Takes what there is, as long as there is any.
fn take_all(world: &mut World, queue: &str) -> Vec<Taken> {
    let mut held = Vec::new();
    loop {
        let call = world.receive(receive(queue, 100), Duration::ZERO);
        match world.run(call) {
            Ok(received) if received.jobs.is_empty() => return held,
            Ok(received) => held.extend(crate::world::taken(received, world.handle.secret())),
            Err(Error::StorageFull { .. }) => return held,
            Err(Error::StorageSlow { .. }) => world.pass(Duration::from_millis(10)),
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn however_many_are_in_flight_when_the_disk_runs_full_all_can_be_settled() {
    const JOBS: usize = 1_000;
    let mut world = World::new();
    for _ in 0..JOBS / 100 {
        world.enqueue("mail", &["1"; 100]);
    }
    let held = take_all(&mut world, "mail");
    assert_eq!(held.len(), JOBS, "while there is space all are handed out");
    run_full(&mut world);
    // What else goes on takes nothing of what is kept for them, whether it is refused or not.
    for job in held.iter().cycle().take(5 * JOBS) {
        let progress = Some(vec![b'1'; 6_000]);
        let extend = Outcome::Extend { visibility_ms: None, progress };
        let call = world.settle(vec![job.settle(extend)]);
        assert!(matches!(world.run(call), Ok(_) | Err(Error::StorageFull { .. })));
    }
    for job in &held {
        world.settle_one(job, fail(&"x".repeat(8_000), false)).unwrap();
    }
}

#[test]
fn what_is_in_flight_keeps_its_room_across_a_restart() {
    let mut world = World::new();
    for _ in 0..5 {
        world.enqueue("mail", &["1"; 100]);
    }
    let held = take_all(&mut world, "mail");
    assert_eq!(held.len(), 500);
    let mut world = world.kill(Duration::ZERO);
    run_full(&mut world);
    for job in &held {
        world.settle_one(job, fail(&"x".repeat(8_000), false)).unwrap();
    }
}

#[test]
fn more_that_is_due_than_one_batch_holds_is_done_in_several() {
    let log = recado_log::Options { batch_bytes_max: 128 << 10, ..Set::default().log };
    let mut world = World::with(Set { log, ..Set::default() });
    for _ in 0..9 {
        world.enqueue("mail", &["1"; 100]);
    }
    let mut held = 0;
    while held < 900 {
        let worker = Some("w".repeat(120).into());
        let call = world.receive(recado_core::Receive { worker, ..receive("mail", 50) }, Duration::ZERO);
        held += crate::world::taken(world.run(call).unwrap(), world.handle.secret()).len();
    }
    world.pass(Duration::from_secs(3_600));
    let again = world.take("mail", 10);
    assert!(again.len() == 10 && again.iter().all(|job| job.deliveries == 2), "{again:?}");
    assert_eq!(world.handle.status().failed, None);
}

/// Waits for an answer while the preparer gets no turn: a disk that is slow.
fn run_slowly<T>(world: &mut World, mut call: Call<T>) -> T {
    for _ in 0..400 {
        if let Some(answer) = call.poll() {
            return answer;
        }
        world.step();
        while world.engine.commit(recado_shard::Clock::elapsed(&*world.clock)) == recado_log::Step::Worked {}
        world.clock.pass(Duration::from_millis(5));
    }
    panic!("no answer");
}

#[test]
fn a_slow_disk_is_not_taken_for_a_full_one() {
    let mut world = World::new();
    world.enqueue("held", &["job"; 16]);
    let held = world.take("held", 16);
    let big = "x".repeat(8_000);
    let refused = (0..1_000).find_map(|_| {
        let call = world.call(enqueue("mail", vec![job(&big)]));
        run_slowly(&mut world, call).err()
    });
    let Some(Error::StorageSlow { retry_after }) = refused else { panic!("{refused:?}") };
    assert!(!retry_after.is_zero() && !world.handle.status().storage_full);

    let long = Outcome::Ack { result: Some(format!("{:?}", "r".repeat(60_000)).into_bytes()) };
    let call = world.settle(held.iter().map(|job| job.settle(long.clone())).collect());
    let settled = run_slowly(&mut world, call).unwrap();
    assert!(settled[0].is_ok(), "{settled:?}");
    assert_eq!(settled[15], Err(Rejection::NoRoomNow { is_full: false }), "the first ones took what there was");

    world.quiesce();
    world.enqueue("mail", &["1"]);
    world.settle_one(&held[15], long).unwrap();
}

#[test]
fn service_returns_when_space_does() {
    let mut world = full();
    let mut waiting = world.receive(receive("new", 1), Duration::from_secs(60)).begin();
    world.disk.set_capacity(None);
    for _ in 0..20 {
        world.pass(Duration::from_secs(1));
    }
    assert!(!world.handle.status().storage_full);
    world.enqueue("new", &["1"]);
    world.quiesce();
    assert_eq!(waiting.poll().unwrap().unwrap().jobs.len(), 1);
}

/// Finished jobs that are only kept give way, the oldest first, and no more than it takes; what an idempotency key saved
/// stays.
#[test]
fn finished_jobs_give_way_to_producers() {
    let mut world = World::new();
    let with_key = || NewJob { idempotency_key: Some("once".into()), ..job("1") };
    let call = world.call(enqueue("paid", vec![with_key()]));
    world.run(call).unwrap();
    let paid = world.take("paid", 1);
    world.settle_one(&paid[0], Outcome::Ack { result: Some(b"42".to_vec()) }).unwrap();
    let big = "x".repeat(8_000);
    let mut all = Vec::new();
    for _ in 0..300 {
        all.extend(world.enqueue("bulk", &[&big]));
    }
    run_full(&mut world);
    while let Some(taken) = world.take("bulk", 1).first() {
        world.settle_one(taken, ack()).unwrap();
        all.retain(|id| *id != taken.id);
        all.push(taken.id);
    }
    for _ in 0..100 {
        world.pass(Duration::from_millis(100));
    }
    // Or this is refused.
    world.enqueue("bulk", &[&big]);
    let mut is_there = |id| {
        let handle = world.handle.clone();
        world.run(Call::new(async move { handle.query(Query::Job(id)).await })).is_ok()
    };
    assert!(!is_there(paid[0].id) && !is_there(all[0]), "the oldest went");
    let left = all.iter().filter(|id| is_there(**id)).count();
    assert!(left > all.len() / 2 && is_there(all[all.len() - 1]), "{left} of {} are still kept", all.len());

    let mut world = world.kill(Duration::ZERO);
    let call = world.call(enqueue("paid", vec![with_key()]));
    let Reply::Enqueued { jobs, .. } = world.run(call).unwrap() else { panic!("not enqueued") };
    world.quiesce();
    let (handle, again) = (world.handle.clone(), jobs[0].id);
    let answer = world.run(Call::new(async move { handle.query(Query::Job(again)).await })).unwrap();
    let Answer::Job(view) = answer else { panic!("not a job") };
    assert_eq!(view.state, recado_core::JobState::Completed, "skipped, by what the key saved");
}

#[test]
fn a_command_that_no_batch_can_hold_is_refused() {
    let mut world = World::new();
    let call = world.call(enqueue("mail", vec![job(&"x".repeat(300_000))]));
    match world.run(call) {
        Err(Error::TooLarge { limit, actual }) => assert!(actual > 300_000 && limit < actual),
        other => panic!("{other:?}"),
    }
}

/// The longest that the API takes.
fn long_backoff() -> Option<Backoff> {
    let delays_ms = vec![365 * 86_400_000; 100];
    Some(Backoff { curve: BackoffCurve::List { delays_ms }, jitter: Jitter::Full })
}

/// The writer compares what each command wrote with the room that was claimed for it: too small a bound
/// would break a shard whose disk is nearly full.
#[test]
fn commands_at_their_limits_stay_within_the_room_that_was_claimed() {
    let mut world = World::new();
    let backoff = long_backoff();
    let overrides = Overrides { backoff: backoff.clone(), ..Overrides::default() };
    let jobs = (0..20).map(|_| NewJob { overrides: overrides.clone(), ..job("1") }).collect();
    let options = QueueOptions { owner: Some("o".repeat(256).into()), backoff, ..QueueOptions::default() };
    let actor = || recado_core::Actor(Some("a".repeat(120).into()));
    let queue: Box<str> = "q".repeat(120).into();
    let configure =
        Configure { queue: queue.clone(), options, source: Source::Api, condition: Default::default(), actor: actor() };
    let text: Box<str> = "t".repeat(1_024).into();
    let pause =
        |paused| Command::SetPaused { queue: queue.clone(), paused, reason: Some(text.clone()), actor: actor() };
    let call = world.call(enqueue(&queue, jobs));
    let Reply::Enqueued { jobs, .. } = world.run(call).unwrap() else { panic!("not enqueued") };
    for command in [Command::Configure(configure.clone()), pause(true), Command::Configure(configure), pause(false)] {
        let call = world.call(command);
        world.run(call).unwrap();
    }
    for taken in world.take(&queue, 10) {
        world.settle_one(&taken, fail(&text, false)).unwrap();
    }
    let (handle, dead) = (world.handle.clone(), jobs[0].id);
    let view = world.run(Call::new(async move { handle.query(Query::Job(dead)).await })).unwrap();
    let Answer::Job(view) = view else { panic!("not a job") };
    let fingerprint = view.fingerprint.unwrap();
    let (note, noted) = (text.clone(), queue.clone());
    let call = world.call(Command::Acknowledge { queue: noted, fingerprint, note, actor: actor() });
    world.run(call).unwrap();
    let select = Select::Ids(jobs.into_iter().map(|job| job.id).collect());
    let task = NewTask { queue, action: Action::Discard { select }, reason: Some(text), actor: actor() };
    let handle = world.handle.clone();
    let view = world.run(Call::new(async move { handle.run_task(task).await })).unwrap();
    assert_eq!(view.acted, 10);
    // All of it is written once more as the log is trimmed.
    crate::trim::forgetful(&mut world, "mail");
    while world.handle.status().log.first.0 <= (512 << 10) {
        world.enqueue("mail", &[&"x".repeat(20_000)]);
        let taken = world.take("mail", 1);
        world.settle_one(&taken[0], ack()).unwrap();
        world.pass(Duration::from_millis(200));
    }
}
