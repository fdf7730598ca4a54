//! Trimming, and the pins that hold it back.

use recado_log::{Batch, Error, Log, Position, Step};

use crate::world::*;

fn filled(batches: u64) -> (World, Vec<(Position, Batch)>) {
    let mut world = World::new();
    let sent = (0..batches)
        .map(|number| {
            let batch = numbered(number, 7_000);
            (world.put(batch.clone()), batch)
        })
        .collect();
    (world, sent)
}

#[test]
fn a_trim_at_every_batch_keeps_all_from_there() {
    let (world, sent) = filled(40);
    let sim = world.kill();
    for (index, (below, _)) in sent.iter().enumerate() {
        let mut world = World::on(&sim.copy(1));
        world.log.trim(*below).unwrap();
        world.settle();
        let (_, first) = world.log.reader().bounds().unwrap();
        assert!(first <= *below && below.0 - first.0 < SEGMENT);
        let reader = world.log.reader();
        if first.0 > SEGMENT {
            let trimmed = reader.read(Position(first.0 - SEGMENT), true);
            assert!(matches!(trimmed, Err(Error::Trimmed { first: at }) if at == first));
            let trimmed = reader.get(place(sent[0].0, 0, 1));
            assert!(matches!(trimmed, Err(Error::Trimmed { .. })));
            assert!(matches!(reader.pin(sent[0].0), Err(Error::Trimmed { .. })));
        }
        let kept = |world: &World| {
            let found = world.entries();
            let found: Vec<_> = found.into_iter().map(|e| (e.position, e.batch)).collect();
            assert!(sent.ends_with(&found) && found.len() >= sent.len() - index);
        };
        kept(&world);
        let operations = world.sim.operations();
        world.log.trim(*below).unwrap();
        world.settle();
        assert_eq!(world.sim.operations(), operations, "a trim is idempotent");
        let world = World::on(&world.lose_power());
        assert_eq!(world.recovery.first, first);
        kept(&world);
    }
}

#[test]
fn a_trim_beyond_the_end_keeps_the_last_segment() {
    let (mut world, sent) = filled(12);
    world.log.trim(Position(u64::MAX)).unwrap();
    world.settle();
    assert_eq!(world.log.usage().first.0 / SEGMENT, sent[11].0.0 / SEGMENT);
    let epoch = world.recovery.epoch;
    let world = World::on(&world.close());
    assert!(world.recovery.epoch > epoch);
    assert!(world.log.next() > sent[11].0);
}

#[test]
fn what_is_pinned_is_kept_until_it_is_unpinned() {
    let (mut world, sent) = filled(40);
    let reader = world.log.reader();
    let (early, late) = (&sent[10], &sent[20]);
    let pin = reader.pin(early.0).unwrap();
    let second = reader.pin(late.0).unwrap();
    world.log.trim(sent[35].0).unwrap();
    world.settle();
    let usage = world.log.usage();
    let segments = usage.first.0 / SEGMENT - early.0.0 / SEGMENT;
    assert_eq!(usage.pinned_bytes, segments * SEGMENT);
    assert_eq!(usage.first.0 / SEGMENT, sent[35].0.0 / SEGMENT);
    assert!(matches!(reader.read(sent[0].0, true), Err(Error::Trimmed { .. })));
    let followed = entries_from(&*reader, early.0);
    assert_eq!(followed.len(), 30, "everything from the pin on");
    assert_eq!(reader.get(place(early.0, 0, 4)).unwrap(), early.1.tail[..4]);

    drop(pin);
    world.settle();
    assert_eq!(world.log.usage().pinned_bytes, (usage.first.0 / SEGMENT - late.0.0 / SEGMENT) * SEGMENT);
    assert!(matches!(reader.read(early.0, true), Err(Error::Trimmed { .. })));
    assert_eq!(reader.read(late.0, true).unwrap().unwrap().batch, late.1);

    drop(second);
    world.settle();
    assert_eq!(world.log.usage().pinned_bytes, 0);
    assert!(matches!(reader.read(late.0, true), Err(Error::Trimmed { .. })));
}

#[test]
fn pinned_segments_are_not_used_again() {
    let (mut world, sent) = filled(20);
    let reader = world.log.reader();
    let pin = reader.pin(sent[0].0).unwrap();
    for number in 0..100 {
        let below = world.put(numbered(number, 7_000));
        world.log.trim(below).unwrap();
        world.settle();
    }
    let kept = entries_from(&*reader, sent[0].0);
    assert_eq!(kept.len(), 120);
    assert!(sent.iter().zip(&kept).all(|((_, batch), entry)| *batch == entry.batch));
    drop(pin);
    let before = world.sim.used_bytes();
    world.settle();
    assert!(world.sim.used_bytes() < before);
}

#[test]
fn with_durability_os_a_trim_waits_for_the_sync_of_what_replaces_it() {
    let mut world = World::open(&recado_log::sim::SimDisk::new(3), &os_options()).unwrap();
    for number in 0..12 {
        world.put(numbered(number, 7_000));
    }
    let last = world.put(numbered(12, 7_000));
    world.log.trim(last).unwrap();
    let first = segment_files(&world.sim)[0].clone();
    while world.engine.prepare(world.now) == Step::Worked {}
    assert_eq!(segment_files(&world.sim)[0], first, "what replaces it is not synced yet");
    world.settle();
    assert_ne!(segment_files(&world.sim)[0], first);
    let world = World::open(&world.lose_power(), &os_options()).unwrap();
    assert_eq!(world.batches().last(), Some(&numbered(12, 7_000)));
}

#[test]
fn a_segment_in_which_damage_was_met_is_kept_for_people() {
    let (world, sent) = filled(40);
    let (name, at) = file_of(sent[3].0);
    let sim = world.kill();
    flip(&sim, &name, at + 5_000, 1);
    let damaged = sim.contents(&name);
    let mut world = World::on(&sim);
    assert!(world.log.reader().get(place(sent[3].0, 0, 1)).is_err());
    world.log.trim(sent[35].0).unwrap();
    world.settle();
    for number in 0..100 {
        let below = world.put(numbered(number, 7_000));
        world.log.trim(below).unwrap();
        world.settle();
    }
    let kept: Vec<_> = world.sim.names().into_iter().filter(|name| name.ends_with(".damaged")).collect();
    assert_eq!(kept, [format!("{name}.damaged")]);
    assert_eq!(world.sim.contents(&kept[0])[SEGMENT_HEADER..], damaged[SEGMENT_HEADER..]);
    assert!(World::on(&world.kill()).log.committed().is_ok());
}
