//! Segments are used again: what they held before never comes back.

use recado_log::sim::{Fault, SimDisk};
use recado_log::{Error, Log, Position, Step};

use crate::world::*;

/// A log whose tip is in a file that was used before.
fn reused(seed: u64) -> (World, u64) {
    let mut world = World::on(&SimDisk::new(seed));
    let mut number = 0;
    while world.log.next().0 < 9 * SEGMENT + SEGMENT / 4 {
        let position = world.put(numbered(number, 5_000));
        world.log.trim(position).unwrap();
        world.settle();
        number += 1;
    }
    let (file, at) = file_of(world.log.next());
    let ahead = &world.sim.contents(&file)[at..at + 20_000];
    assert!(ahead.iter().any(|byte| *byte != 0), "there are stale bytes ahead");
    (world, number)
}

#[test]
fn stale_records_behind_the_tip_do_not_count() {
    let (world, number) = reused(1);
    let expected = world.batches();
    let world = World::on(&world.kill());
    assert_eq!(world.batches(), expected);
    assert_eq!(world.recovery.cut, None, "stale bytes are no torn tail");
    assert_eq!(expected.last(), Some(&numbered(number - 1, 5_000)));
}

#[test]
fn stale_records_behind_a_cut_do_not_come_back() {
    for seed in seeds(25) {
        let (mut world, number) = reused(seed);
        let expected = world.batches();
        for more in 0..3 {
            world.submit(numbered(number + more, 5_000));
        }
        // The write is done, the sync never.
        world.sim.fail_at(world.sim.operations() + 1, Fault::Crash);
        while world.engine.commit(world.now) == Step::Worked {}
        let mut world = World::on(&world.lose_power());
        let mut found = world.batches();
        assert!(found.len() >= expected.len() && found.starts_with(&expected));
        for batch in 0..20 {
            world.put(numbered(1_000 + batch, 300 * batch as usize));
            found.push(numbered(1_000 + batch, 300 * batch as usize));
            assert_eq!(world.batches(), found);
        }
        let world = World::on(&world.lose_power());
        assert_eq!(world.batches(), found, "seed {seed}");
    }
}

/// Old records at the very places where the next ones are looked for: only the epoch tells them apart.
#[test]
fn records_of_a_cut_epoch_do_not_count_in_the_next_one() {
    let mut world = World::new();
    world.put(numbered(0, 50));
    let start = world.log.next();
    // Empty batches are as long as the fence that will stand where the first of them stood.
    for _ in 0..10 {
        world.submit(batch(b"", b""));
    }
    world.settle();
    let (file, at) = file_of(start);
    let sim = world.kill();
    let old = sim.contents(&file);
    flip(&sim, &file, at + 70, 1); // the watermark of none of them is above the first
    let world = World::on(&sim);
    let cut = world.recovery.cut.clone().unwrap();
    assert_eq!((cut.offset as usize, cut.bytes as usize), (at, 10 * RECORD_HEADER));
    assert_eq!(world.batches(), [numbered(0, 50)]);
    let fence_end = at + RECORD_HEADER;
    let zeroed = &world.sim.contents(&file)[fence_end..];
    assert!(zeroed.iter().all(|byte| *byte == 0), "the cut is zeroed");
    // Put the old bytes back behind the fence, as a disk whose sync failed would.
    put_back(&world.kill(), &file, fence_end, &old);
    let world = World::on(&sim);
    assert_eq!(world.batches(), [numbered(0, 50)]);
}

/// Two processes had the log after the same fence, one of them on a disk that forgot it.
#[test]
fn a_fence_that_ends_another_epoch_does_not_count() {
    let mut world = World::new();
    world.put(numbered(0, 50));
    let start = world.log.next();
    let sim = world.kill();
    let forgotten = sim.copy(2);
    let mut world = World::on(&World::on(&forgotten).kill());
    world.put(numbered(1, 50));
    world.put(numbered(2, 50));
    let (file, at) = file_of(start);
    let old = world.kill().contents(&file);

    let sim = World::on(&sim).kill();
    put_back(&sim, &file, at + RECORD_HEADER, &old);
    // It is not taken for a part of the log. It says that more was durable here, so somebody has to look.
    let opened = World::open(&sim, &options()).map(|world| world.batches());
    assert!(matches!(opened, Err(Error::Corrupt { .. })), "{opened:?}");
}

fn put_back(sim: &SimDisk, file: &str, from: usize, old: &[u8]) {
    let mut bytes = sim.contents(file);
    bytes[from..].copy_from_slice(&old[from..]);
    sim.put(file, bytes);
}

#[test]
fn a_file_whose_name_and_header_disagree_is_free() {
    let (world, _) = reused(5);
    let expected = world.batches();
    let sim = world.kill();
    let names = segment_files(&sim);
    let stray = sim.contents(names.last().unwrap());
    let number = u64::from_str_radix(&names.last().unwrap()[..16], 16).unwrap() + 1;
    sim.put(&format!("{number:016x}.log"), stray);
    let mut world = World::on(&sim);
    assert_eq!(world.batches(), expected);
    for number in 0..100 {
        world.put(numbered(number, 5_000));
    }
    assert!(World::on(&world.kill()).log.next() > Position(15 * SEGMENT));
}
