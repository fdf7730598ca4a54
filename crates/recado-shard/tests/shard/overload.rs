//! Promise 9: the command queue is bounded, and giving back works also while it is full.

use std::time::Duration;

use recado_core::{Actor, Condition};
use recado_shard::Error;

use crate::world::{Call, Set, World, ack, enqueue, job, receive};

fn small() -> World {
    World::with(Set { command_queue_max: 4, ..Set::default() })
}

#[test]
fn one_request_beyond_the_limit_is_refused_with_a_time_to_come_back() {
    let mut world = small();
    let mut calls: Vec<_> = (0..4).map(|_| world.call(enqueue("mail", vec![job("1")])).begin()).collect();
    assert_eq!((world.handle.status().queued, world.handle.status().queued_max), (4, 4));
    match world.call(enqueue("mail", vec![job("1")])).poll() {
        Some(Err(Error::Overloaded { retry_after })) => assert!(!retry_after.is_zero()),
        other => panic!("{other:?}"),
    }
    world.quiesce();
    assert!(calls.iter_mut().all(|call| matches!(call.poll(), Some(Ok(_)))));
    assert_eq!(world.handle.status().queued, 0);
    // The room is there again, over and over.
    for _ in 0..3 {
        world.enqueue("mail", &["2", "3"]);
    }
    assert_eq!(world.take("mail", 100).len(), 10);
}

#[test]
fn a_job_is_given_back_although_the_command_queue_is_full() {
    let mut world = small();
    world.enqueue("mail", &["1"]);
    let call = world.receive(receive("mail", 1), Duration::ZERO);
    let received = world.run(call).unwrap();
    assert_eq!(received.jobs.len(), 1);
    let _full: Vec<_> = (0..4).map(|_| world.call(enqueue("other", vec![job("x")])).begin()).collect();
    drop(received);
    world.quiesce();
    let again = world.take("mail", 1);
    assert_eq!((again[0].attempts, again[0].deliveries), (1, 1), "a delivery that never arrived is not counted");
    assert!(world.settle_one(&again[0], ack()).is_ok());
}

/// The wait for its end was a request of its own: refused while the command queue was full, it said that nothing was
/// done, of a deletion that went on.
#[test]
fn a_deletion_that_was_begun_is_waited_for_however_full_the_command_queue_is() {
    let mut world = small();
    world.enqueue("mail", &["1"]);
    let handle = world.handle.clone();
    let mut deleted =
        Call::new(
            async move { handle.delete_queue("mail".into(), true, Condition::default(), Actor::default()).await },
        )
        .begin();
    world.quiesce();
    let _full: Vec<_> = (0..4).map(|_| world.call(enqueue("other", vec![job("x")])).begin()).collect();
    assert!(deleted.poll().is_none(), "it has begun");
    world.quiesce();
    assert!(matches!(deleted.poll(), Some(Ok(()))));
}
