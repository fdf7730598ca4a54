//! What was answered is there after the death of the process, and after a power loss.

use std::time::Duration;

use recado_core::Rejection;

use crate::world::{World, ack, fail};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_receipt_still_settles_after_the_process_was_killed() {
    let mut world = World::new();
    world.enqueue("mail", &["1", "2"]);
    let taken = world.take("mail", 1);
    let mut world = world.kill(SECOND);
    assert!(world.take("mail", 10).iter().all(|job| job.id != taken[0].id), "it stays hidden");
    let settled = world.settle_one(&taken[0], ack()).unwrap();
    assert!(!settled.repeated);
    let mut world = world.kill(SECOND);
    assert!(world.settle_one(&taken[0], ack()).unwrap().repeated);
}

#[test]
fn every_answered_enqueue_survives_power_loss() {
    let mut world = World::new();
    for round in 0..10 {
        for number in 0..5 {
            world.enqueue("mail", &[&format!("{round}-{number}")]);
        }
        world = world.lose_power(SECOND);
    }
    assert_eq!(world.take("mail", 100).len(), 50);
}

#[test]
fn a_graceful_stop_loses_nothing_either() {
    let mut world = World::new();
    world.enqueue("mail", &["1"]);
    let taken = world.take("mail", 1);
    world.settle_one(&taken[0], fail("broken", false)).unwrap();
    let mut world = world.stop(SECOND);
    assert!(matches!(
        world.settle_one(&taken[0], ack()),
        Err(Rejection::Stale { state: Some(recado_core::JobState::Dead), .. })
    ));
    assert!(world.shard.replayed().batches > 0);
}
