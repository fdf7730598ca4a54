//! A full disk: it shows where segments are prepared, never where batches are written.

use recado_log::sim::SimDisk;
use recado_log::{Class, Error, Log, Position, Urgency};

use crate::world::*;

/// A log whose disk takes no more than what it has now.
fn full() -> World {
    let world = World::new();
    world.sim.set_capacity(Some(world.sim.used_bytes()));
    world
}

/// Submits as `class` until there is no room.
fn fill(world: &mut World, class: Class) -> u64 {
    let mut batches = 0;
    while world.log.room(class) >= 8 {
        let bytes = world.log.room(class).min(10_000) - 8;
        world.submit(numbered(batches, bytes as usize));
        batches += 1;
    }
    world.settle();
    batches
}

#[test]
fn two_prepared_segments_are_never_for_producers_and_one_is_for_copies_only() {
    let mut world = full();
    let [produce, settle, copy] = world.room();
    assert!(produce < settle && settle < copy);
    assert!(!world.log.is_short_of_space());

    fill(&mut world, Class::Produce);
    let [produce, settle, copy] = world.room();
    assert!(produce < 8 && settle > SEGMENT - 2_000 && copy > 2 * SEGMENT - 12_000);
    assert!(world.log.is_short_of_space());

    fill(&mut world, Class::Settle);
    let [produce, settle, copy] = world.room();
    assert!(produce < 8 && settle < 8 && copy > SEGMENT - 10_000);

    fill(&mut world, Class::Copy);
    assert!(world.room()[2] < 8);
    assert!(world.log.committed().is_ok(), "a full disk poisons nothing");
}

#[test]
fn room_is_exact() {
    for filled in [0, 1, 5_000, 60_000, 63_000] {
        let mut world = full();
        world.put(numbered(0, filled));
        while world.log.room(Class::Copy) > world.log.limits().batch_bytes_max as u64 {
            world.put(numbered(1, 20_000));
        }
        let room = world.log.room(Class::Copy) as usize;
        let before = (world.log.next(), world.sim.operations());
        let refused = world.log.submit(batch(&[], &vec![1; room + 1]), Urgency::Now);
        let Err(Error::Full { needed, room: left }) = refused else { panic!("{refused:?}") };
        assert_eq!((needed, left), (room as u64 + 1, room as u64));
        world.settle();
        assert_eq!(world.log.next(), before.0, "nothing of it was written");
        world.put(batch(&[], &vec![1; room]));
        assert_eq!(world.log.room(Class::Copy), 0);
    }
}

#[test]
fn service_returns_by_itself_when_space_does() {
    let mut world = full();
    fill(&mut world, Class::Produce);
    assert!(world.log.is_short_of_space());
    world.pass(10_000);
    assert!(world.log.is_short_of_space());
    world.sim.set_capacity(None);
    world.pass(1_000);
    assert!(!world.log.is_short_of_space());
    assert!(world.log.room(Class::Produce) > SEGMENT - 2_000);
}

#[test]
fn a_trim_makes_room_at_once() {
    let mut world = full();
    fill(&mut world, Class::Settle);
    assert!(world.log.is_short_of_space());
    let below = world.log.committed().unwrap();
    world.log.trim(below).unwrap();
    assert_eq!(world.log.room(Class::Produce), 0);
    world.settle();
    assert!(world.log.room(Class::Produce) > 0);
}

#[test]
fn a_full_log_can_be_opened_again_and_again_and_drained() {
    let mut world = full();
    fill(&mut world, Class::Copy);
    let expected = world.batches();
    let capacity = world.sim.used_bytes();
    for round in 0..20 {
        let sim = if round % 2 == 0 { world.kill() } else { world.close() };
        sim.set_capacity(Some(capacity));
        world = World::on(&sim);
        assert!(world.log.is_short_of_space());
        assert_eq!(world.batches(), expected);
    }
    let below = world.log.committed().unwrap();
    world.log.trim(below).unwrap();
    world.settle();
    assert!(world.log.room(Class::Settle) > 0);
    world.put(numbered(9, 100));
}

#[test]
fn a_new_log_needs_its_prepared_segments() {
    for segments in 0..4 {
        let sim = SimDisk::new(1);
        sim.set_capacity(Some(segments * SEGMENT as usize + 100));
        let Err(error) = World::open(&sim, &options()) else { panic!("{segments} segments") };
        assert!(error.is_out_of_space(), "{error}");
        sim.set_capacity(None);
        assert!(World::open(&sim, &options()).is_ok());
    }
}

#[test]
fn an_existing_log_opens_short_of_space() {
    let mut world = World::new();
    let position = world.put(numbered(0, 100));
    let sim = world.kill();
    for name in &segment_files(&sim)[2..] {
        sim.delete(name);
    }
    sim.set_capacity(Some(sim.used_bytes()));
    let world = World::on(&sim);
    assert!(world.log.is_short_of_space());
    assert_eq!(world.room()[0], 0);
    assert!(world.room()[2] > 0);
    assert_eq!(world.entries()[0].position, position);
}

#[test]
fn the_log_stays_bounded_while_it_is_trimmed() {
    let mut world = World::new();
    for number in 0..200 {
        let position = world.put(numbered(number, 20_000));
        world.log.trim(position).unwrap();
        world.settle();
        assert!(world.log.usage().log_bytes <= 2 * SEGMENT);
        assert!(world.sim.used_bytes() as u64 <= 8 * SEGMENT, "{:?}", world.sim.names());
    }
    assert!(world.log.committed().unwrap() > Position(30 * SEGMENT));
}

#[test]
fn what_is_reserved_is_prepared_ahead_and_not_for_producers() {
    let mut world = World::new();
    let [produce, settle, copy] = world.room();
    world.log.reserve(7 * SEGMENT / 2);
    let [less, ..] = world.room();
    assert_eq!(less, 0, "more is reserved than there is");
    world.settle();
    let after = world.room();
    assert!(after[0] >= produce && after[1] >= settle + 3 * SEGMENT - 4_000, "{after:?}");
    assert!(after[1] - after[0] > 7 * SEGMENT / 2 - 4_000, "{after:?}");
    assert!(after[2] - after[1] == copy - settle, "{after:?}");

    world.sim.set_capacity(Some(world.sim.used_bytes()));
    fill(&mut world, Class::Produce);
    assert!(world.room()[1] >= 7 * SEGMENT / 2 - 4_000, "{:?}", world.room());
    world.log.reserve(0);
    assert!(world.room()[0] > SEGMENT, "what is not needed any more is for producers");
    assert!(world.room()[1] - world.room()[0] > SEGMENT - 4_000, "but one segment never");
}
