//! Segments are used again: what they held before never comes back.

use recado_log::sim::{Fault, SimDisk};
use recado_log::{Log, Position, Step};

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

/// The same batches at the same positions, in another epoch: only the epoch tells them apart.
#[test]
fn records_of_a_cut_epoch_do_not_count_in_the_next_one() {
    let mut world = World::new();
    world.put(numbered(0, 50));
    let start = world.log.next();
    for number in 1..10 {
        world.submit(numbered(number, 50));
    }
    world.settle();
    let (file, at) = file_of(start);
    let sim = world.kill();
    // Only the first of the nine is damaged, and the watermark of none is above it.
    flip(&sim, &file, at + 70, 1);
    let world = World::on(&sim);
    let cut = world.recovery.cut.clone().unwrap();
    assert_eq!((cut.offset as usize, cut.bytes), (at, 9 * 136));
    assert_eq!(world.batches(), [numbered(0, 50)]);
    let fence_end = at + RECORD_HEADER;
    let zeroed = &world.sim.contents(&file)[fence_end..at + 9 * 136];
    assert!(zeroed.iter().all(|byte| *byte == 0), "the cut is zeroed");
    // Put the old bytes back behind the fence, as a disk with a failed sync would.
    let old = sim.contents(&file);
    let sim = world.kill();
    let mut bytes = sim.contents(&file);
    bytes[fence_end..].copy_from_slice(&old[fence_end..]);
    sim.put(&file, bytes);
    let world = World::on(&sim);
    assert_eq!(world.batches(), [numbered(0, 50)]);
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
