//! A failed write or sync ends the shard: nothing it had in hand is answered as done.

use std::time::Duration;

use recado_core::{Command, JobId, Query, Reply};
use recado_log::sim::Fault;
use recado_shard::{Error, Next};

use crate::world::{Call, World, ack, enqueue, job, receive, taken};

fn poisoned(fault: Fault) -> World {
    let mut world = World::new();
    world.enqueue("mail", &["1"]);
    let mut waiting = world.receive(receive("other", 1), Duration::from_secs(10)).begin();
    let handle = world.handle.clone();
    let mut failed = Call::new(async move { handle.failed().await }).begin();
    world.quiesce();
    let mut parked = world.call(enqueue("mail", vec![job("2")])).begin();
    world.step();
    world.disk.fail_at(world.disk.operations(), fault);
    world.disk.fail_at(world.disk.operations() + 1, fault);
    world.commit();
    let mut late = world.call(enqueue("mail", vec![job("3")])).begin();
    assert_eq!(world.step(), Next::Ended);
    for answer in [parked.poll(), late.poll()] {
        assert!(matches!(answer, Some(Err(Error::LogFailed { .. }))), "{answer:?}");
    }
    assert!(matches!(waiting.poll(), Some(Err(Error::LogFailed { .. }))));
    let reason = failed.poll().expect("everyone is told");
    assert_eq!(world.handle.status().failed, Some(reason));
    world
}

#[test]
fn all_parked_and_later_requests_are_told_and_nothing_is_answered() {
    for fault in [Fault::Io, Fault::Full] {
        let world = poisoned(fault);
        let mut later = world.call(Command::SaveFigures { after: None });
        assert!(matches!(later.poll(), Some(Err(Error::LogFailed { .. }))));
        let handle = world.handle.clone();
        let mut read = Call::new(async move { handle.query(Query::Stats("mail".into())).await });
        assert!(matches!(read.poll(), Some(Err(Error::LogFailed { .. }))));
        assert!(matches!(world.shard.close(), Err(Error::LogFailed { .. })));
    }
}

#[test]
fn what_was_answered_before_is_there_after_a_restart() {
    let world = poisoned(Fault::Io);
    world.disk.clear_faults();
    let mut world = world.lose_power(Duration::from_secs(1));
    let taken = world.take("mail", 10);
    assert_eq!(taken[0].payload, "1");
    // The second has an unknown outcome; the third was never decided.
    assert!(taken.iter().all(|job| job.payload != "3"));
}

/// Enqueues, receives and acks until something fails; answers with the jobs that are in, those of them
/// that are done, and the one of which nothing is known.
fn script(world: &mut World) -> (Vec<JobId>, Vec<JobId>, Option<JobId>) {
    let (mut promised, mut done) = (Vec::new(), Vec::new());
    for round in 0..6 {
        let call = world.call(enqueue("mail", vec![job(&round.to_string()), job("x")]));
        let Ok(Reply::Enqueued { jobs, .. }) = world.run(call) else { break };
        promised.extend(jobs.into_iter().map(|job| job.id));
        let call = world.receive(receive("mail", 1), Duration::ZERO);
        let Ok(received) = world.run(call) else { break };
        for held in taken(received, world.handle.secret()) {
            let call = world.settle(vec![held.settle(ack())]);
            let Ok(outcomes) = world.run(call) else { return (promised, done, Some(held.id)) };
            assert!(outcomes.iter().all(Result::is_ok));
            done.push(held.id);
        }
    }
    (promised, done, None)
}

#[test]
fn whatever_operation_of_the_disk_fails_no_promise_is_broken() {
    let mut clean = World::new();
    let before = clean.disk.operations();
    script(&mut clean);
    let count = clean.disk.operations() - before;
    assert!(count > 20, "{count} operations");
    for operation in 0..count {
        for fault in [Fault::Io, Fault::Crash] {
            let mut world = World::new();
            world.disk.fail_at(before + operation, fault);
            let (promised, done, unknown) = script(&mut world);
            world.disk.clear_faults();
            let mut world = world.lose_power(Duration::from_secs(120));
            world.pass(Duration::from_secs(120));
            let left: Vec<JobId> = world.take("mail", 100).into_iter().map(|job| job.id).collect();
            for id in promised.iter().filter(|id| Some(**id) != unknown) {
                let is_done = done.contains(id);
                assert_ne!(is_done, left.contains(id), "{fault:?} at {operation}: {id} is lost or done twice");
            }
        }
    }
}

#[test]
fn a_shard_that_is_dropped_leaves_no_caller_waiting() {
    let world = World::new();
    let mut asked = world.call(enqueue("mail", vec![job("1")])).begin();
    drop(world.shard);
    assert!(matches!(asked.poll(), Some(Err(Error::LogFailed { .. }))));
}
