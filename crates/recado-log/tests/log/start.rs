//! Where the log starts is recorded: a first segment that is missing is never taken for a trimmed one.

use recado_log::sim::{Fault, SimDisk};
use recado_log::{Error, Log, Position, Verdict, check};

use crate::world::*;

/// A log of 40 batches and the position that it is to be trimmed below.
fn filled(seed: u64) -> (World, Position) {
    let mut world = World::on(&SimDisk::new(seed));
    let positions: Vec<Position> = (0..40).map(|number| world.put(numbered(number, 7_000))).collect();
    (world, positions[30])
}

fn trimmed() -> World {
    let (mut world, below) = filled(1);
    world.log.trim(below).unwrap();
    world.settle();
    world
}

fn contents(sim: &SimDisk) -> Vec<(String, Vec<u8>)> {
    sim.names().into_iter().map(|name| (name.clone(), sim.contents(&name))).collect()
}

/// The open is refused with this file and reason, and touches nothing.
#[track_caller]
fn refused(sim: &SimDisk, name: &str, reason: &str) {
    let before = contents(sim);
    let Err(error) = World::open(sim, &options()).map(|_| ()) else { panic!("{name} was not missed") };
    let Error::Corrupt { file, what, .. } = &error else { panic!("{error}") };
    assert!(file.ends_with(name) && *what == reason, "{error}");
    assert!(error.to_string().contains("recado log check"), "{error}");
    let Verdict::Corrupt(damage) = check(&*sim.disk()).unwrap().verdict else { panic!("check of {name}") };
    assert_eq!((&damage.file, damage.what), (file, *what));
    assert_eq!(contents(sim), before, "nothing is touched");
}

#[test]
fn the_loss_of_any_segment_that_is_needed_is_refused() {
    for whole in [filled(1).0.kill(), trimmed().kill()] {
        let last = World::on(&whole.copy(1)).log.committed().unwrap();
        let segments = segment_files(&whole);
        let needed = segments.iter().filter(|name| **name <= file_of(last).0);
        for name in needed {
            let sim = whole.copy(1);
            sim.delete(name);
            refused(&sim, name, "segment file is missing");
        }
        let sim = whole.copy(1);
        for name in &segments[..3] {
            sim.delete(name);
        }
        refused(&sim, &segments[2], "segment file is missing");
    }
}

#[test]
fn a_check_looks_at_what_is_left() {
    let sim = trimmed().kill();
    let batches = check(&*sim.disk()).unwrap().batches;
    sim.delete(&segment_files(&sim)[0]);
    let report = check(&*sim.disk()).unwrap();
    assert!(report.batches > 0 && report.batches < batches, "{report:?}");
}

#[test]
fn a_damaged_mark_is_told() {
    let sim = trimmed().kill();
    let name = segment_files(&sim)[0].clone();
    for at in START_MARK..START_MARK + 20 {
        let sim = sim.copy(1);
        flip(&sim, &name, at, 4);
        refused(&sim, &name, "mark of the log's start is damaged");
        let expected = World::on(&trimmed().kill()).batches();
        assert!(recado_log::repair(&*sim.disk()).unwrap().start.is_some());
        assert_eq!(World::on(&sim).batches(), expected);
    }
}

#[test]
fn a_segment_that_was_trimmed_is_free_although_it_is_back() {
    let (mut world, below) = filled(1);
    let old = segment_files(&world.sim)[0].clone();
    let bytes = world.sim.contents(&old);
    world.log.trim(below).unwrap();
    world.settle();
    let (first, expected) = (world.log.usage().first, world.batches());
    let sim = world.kill();
    sim.put(&old, bytes);
    let world = World::on(&sim);
    assert_eq!((world.recovery.first, world.batches()), (first, expected));
}

#[test]
fn the_first_segment_of_a_backup_is_missed_too() {
    let world = trimmed();
    let target = SimDisk::new(2);
    world.log.file_reader().backup_to(&*target.disk()).unwrap();
    let name = segment_files(&target)[0].clone();
    target.delete(&name);
    refused(&target, &name, "segment file is missing");
}

/// The process dies, or the power goes, at each operation of a trim: everything from the trim on is there,
/// and the loss of the file that the log starts with is noticed.
#[test]
fn a_trim_that_is_interrupted_anywhere_leaves_a_start_that_is_known() {
    let mut is_over = false;
    for k in 0.. {
        for loses_power in [false, true] {
            let (mut world, below) = filled(k);
            world.log.trim(below).unwrap();
            let operations = world.sim.operations();
            world.sim.fail_at(operations + k, Fault::Crash);
            world.settle();
            is_over = world.sim.operations() <= operations + k;
            world.sim.clear_faults();
            let sim = if loses_power { world.lose_power() } else { world.kill() };
            let world = World::on(&sim);
            let kept = world.entries();
            assert!(kept.first().is_some_and(|first| first.position <= below), "operation {k}");
            assert_eq!(kept.last().unwrap().batch, numbered(39, 7_000), "operation {k}");
            let name = file_of(world.recovery.first).0;
            let sim = world.kill();
            sim.delete(&name);
            let lost = World::open(&sim, &options()).map(|_| ());
            assert!(matches!(lost, Err(Error::Corrupt { .. })), "operation {k}: {lost:?}");
        }
        if is_over {
            assert!(k > 10, "{k}");
            return;
        }
    }
}

/// A failed write of the mark into a segment in use, or a failed sync of it, is final: also for lack of space.
#[test]
fn a_mark_that_cannot_be_written_ends_the_log() {
    for (operation, fault) in [(0, Fault::Io), (0, Fault::Full), (1, Fault::Io), (1, Fault::Full)] {
        let (mut world, below) = filled(1);
        world.log.trim(below).unwrap();
        world.sim.fail_at(world.sim.operations() + operation, fault);
        world.settle();
        assert!(matches!(world.log.committed(), Err(Error::Poisoned { .. })), "{operation} {fault:?}");
        let world = World::on(&world.lose_power());
        assert!(world.entries()[0].position <= below);
    }
}
