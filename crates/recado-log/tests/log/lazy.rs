//! Lazy batches are written at once and synced later.

use recado_log::{Log, Position};

use crate::world::*;

#[test]
fn a_lazy_batch_is_written_at_once_and_synced_within_100_ms() {
    let mut world = World::new();
    let position = world.lazily(numbered(0, 100));
    world.settle();
    assert_eq!(world.log.written(), position);
    assert_eq!(world.log.committed().unwrap(), Position(0));
    world.pass(99);
    assert_eq!(world.log.committed().unwrap(), Position(0));
    world.pass(1);
    assert_eq!(world.log.committed().unwrap(), position);
}

#[test]
fn the_oldest_lazy_batch_sets_the_time() {
    let mut world = World::new();
    world.lazily(numbered(0, 100));
    world.settle();
    world.pass(60);
    let second = world.lazily(numbered(1, 100));
    world.pass(60);
    assert_eq!(world.log.committed().unwrap(), second);
}

#[test]
fn a_flush_syncs_lazy_batches() {
    let mut world = World::new();
    let position = world.lazily(numbered(0, 100));
    world.settle();
    world.log.flush();
    world.settle();
    assert_eq!(world.log.committed().unwrap(), position);
    let operations = world.sim.operations();
    world.log.flush();
    world.settle();
    assert_eq!(world.sim.operations(), operations, "nothing is left to sync");
}

#[test]
fn the_next_urgent_batch_syncs_lazy_ones_before_and_after_it() {
    let mut world = World::new();
    world.lazily(numbered(0, 100));
    world.settle();
    world.submit(numbered(1, 100));
    let last = world.lazily(numbered(2, 100));
    world.settle();
    assert_eq!(world.log.committed().unwrap(), last);
}

#[test]
fn a_close_commits_lazy_batches() {
    let mut world = World::new();
    world.lazily(numbered(0, 100));
    let sim = world.close();
    sim.lose_power();
    assert_eq!(World::on(&sim).batches(), [numbered(0, 100)]);
}

#[test]
fn with_durability_os_a_lazy_batch_is_committed_when_written() {
    let mut world = World::open(&recado_log::sim::SimDisk::new(1), &os_options()).unwrap();
    let position = world.lazily(numbered(0, 100));
    world.settle();
    assert_eq!(world.log.committed().unwrap(), position);
}
