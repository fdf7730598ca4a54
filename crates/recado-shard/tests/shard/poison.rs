//! A failed write or sync ends the shard: nothing it had in hand is answered as done.

use std::time::Duration;

use recado_core::{Command, Query};
use recado_log::sim::Fault;
use recado_shard::{Error, Next};

use crate::world::{Call, World, enqueue, job, receive};

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
        let mut later = world.call(Command::SaveFigures);
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

#[test]
fn a_shard_that_is_dropped_leaves_no_caller_waiting() {
    let world = World::new();
    let mut asked = world.call(enqueue("mail", vec![job("1")])).begin();
    drop(world.shard);
    assert!(matches!(asked.poll(), Some(Err(Error::LogFailed { .. }))));
}
