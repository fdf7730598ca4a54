//! A step of the wall clock is not elapsed time.

use std::time::Duration;

use crate::world::{World, receive};

const HOUR_MS: i64 = 3_600_000;

#[test]
fn a_lease_keeps_its_length_when_the_wall_clock_is_stepped() {
    for step_ms in [HOUR_MS, -HOUR_MS] {
        let mut world = World::new();
        world.enqueue("mail", &["1"]);
        let taken = world.take("mail", 1);
        let mut waiting = world.receive(receive("mail", 1), Duration::from_secs(120)).begin();
        world.quiesce();
        world.pass(Duration::from_secs(10));
        world.clock.step_wall(step_ms);
        world.quiesce();
        world.pass(Duration::from_secs(19));
        assert!(waiting.poll().is_none(), "29 of 30 seconds have passed (step {step_ms})");
        world.pass(Duration::from_secs(2));
        let received = waiting.poll().unwrap_or_else(|| panic!("its timeout has passed (step {step_ms})")).unwrap();
        assert_eq!(received.jobs[0].0.job.id, taken[0].id);
    }
}

/// Not for as much longer as the clock was stepped.
#[test]
fn a_lease_keeps_its_length_when_the_wall_clock_is_stepped_back_while_the_server_is_down() {
    let mut world = World::new();
    world.enqueue("mail", &["1"]);
    let taken = world.take("mail", 1);
    world.clock.step_wall(-HOUR_MS);
    let mut world = world.kill(Duration::from_secs(1));
    let mut waiting = world.receive(receive("mail", 1), Duration::from_secs(120)).begin();
    world.quiesce();
    world.pass(Duration::from_secs(29));
    assert!(waiting.poll().is_none(), "29 of 30 seconds have passed");
    world.pass(Duration::from_secs(2));
    let received = waiting.poll().expect("its timeout has passed").unwrap();
    assert_eq!(received.jobs[0].0.job.id, taken[0].id);
}

#[test]
fn a_small_correction_is_no_step_and_time_never_runs_backwards() {
    let mut world = World::new();
    world.clock.step_wall(-4_000);
    let ids = world.enqueue("mail", &["1"]);
    world.clock.step_wall(-4_000);
    let later = world.enqueue("mail", &["2"]);
    assert!(later[0].enqueued_at() >= ids[0].enqueued_at());
}
