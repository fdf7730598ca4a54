//! A full disk: producers are refused, what is in flight can be settled, service returns by itself.

use std::time::Duration;

use recado_core::{Outcome, Rejection};
use recado_shard::Error;

use crate::world::{World, ack, enqueue, fail, job, receive};

/// A world whose disk is full, with jobs waiting.
fn full() -> World {
    let mut world = World::new();
    for number in 0..64 {
        world.enqueue("mail", &[&number.to_string()]);
    }
    world.disk.set_capacity(Some(world.disk.used_bytes()));
    let big = "x".repeat(8_000);
    for _ in 0..1_000 {
        let call = world.call(enqueue("bulk", vec![job(&big)]));
        match world.run(call) {
            Ok(_) => {}
            Err(Error::StorageFull { retry_after }) => {
                assert!(!retry_after.is_zero());
                assert!(world.handle.status().storage_full);
                return world;
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
    let mut held = Vec::new();
    loop {
        let call = world.receive(receive("mail", 100), Duration::ZERO);
        match world.run(call) {
            Ok(received) if received.jobs.is_empty() => break,
            Ok(received) => held.extend(crate::world::taken(received, world.handle.secret())),
            Err(Error::StorageFull { .. }) => break,
            Err(other) => panic!("{other}"),
        }
    }
    assert!(!held.is_empty());
    // Each takes all the space that it may.
    for job in &held {
        world.settle_one(job, fail(&"x".repeat(8_000), false)).unwrap();
    }
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

#[test]
fn a_command_that_no_batch_can_hold_is_refused() {
    let mut world = World::new();
    let call = world.call(enqueue("mail", vec![job(&"x".repeat(300_000))]));
    match world.run(call) {
        Err(Error::TooLarge { limit, actual }) => assert!(actual > 300_000 && limit < actual),
        other => panic!("{other:?}"),
    }
}
