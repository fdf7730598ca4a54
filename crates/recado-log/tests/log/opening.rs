//! What an open refuses, and that it touches nothing then.

use std::sync::Arc;

use recado_log::sim::SimDisk;
use recado_log::{Disk, Error, FileLog, Log, Options, RealDisk, check};

use crate::world::*;

fn contents(sim: &SimDisk) -> Vec<(String, Vec<u8>)> {
    sim.names().into_iter().map(|name| (name.clone(), sim.contents(&name))).collect()
}

#[test]
fn one_process_has_the_directory() {
    let world = World::new();
    let before = contents(&world.sim);
    let Err(Error::InUse { path }) = World::open(&world.sim, &options()) else { panic!() };
    assert!(path.ends_with("LOCK"));
    assert!(matches!(check(&*world.sim.disk()), Err(Error::InUse { .. })));
    assert_eq!(contents(&world.sim), before);
    World::on(&world.close());
}

#[test]
fn a_real_directory_is_locked_too() {
    let dir = TempDir::new("lock");
    let open = || {
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::new(&dir.0).unwrap());
        FileLog::open_stepped(disk, &options(), silent())
    };
    let first = open().unwrap();
    assert!(matches!(open(), Err(Error::InUse { .. })));
    drop(first);
    assert!(open().is_ok());
}

#[test]
fn a_newer_format_is_refused() {
    let mut world = World::new();
    world.put(numbered(0, 100));
    let sim = world.close();
    let name = segment_files(&sim)[0].clone();
    let mut bytes = sim.contents(&name);
    bytes[8] = 2;
    let crc = crc32c::crc32c(&bytes[..252]);
    bytes[252..256].copy_from_slice(&crc.to_le_bytes());
    sim.put(&name, bytes);
    let before = contents(&sim);
    let Err(error) = World::open(&sim, &options()) else { panic!() };
    assert!(matches!(error, Error::NewerFormat { found: 2, known: 1, .. }), "{error}");
    assert!(matches!(check(&*sim.disk()), Err(Error::NewerFormat { .. })));
    assert_eq!(contents(&sim), before);
}

#[test]
fn a_read_only_directory_is_refused_but_can_be_checked() {
    let mut world = World::new();
    world.put(numbered(0, 100));
    let sim = world.close();
    sim.set_read_only(true);
    let before = contents(&sim);
    let Err(error) = World::open(&sim, &options()) else { panic!() };
    assert!(matches!(error, Error::ReadOnly { .. }), "{error}");
    assert_eq!(check(&*sim.disk()).unwrap().batches, 1);
    assert_eq!(contents(&sim), before);
}

#[test]
fn options_have_ranges() {
    for options in [
        Options { segment_bytes: 60 << 10, ..options() },
        Options { segment_bytes: (64 << 10) + 1, ..options() },
        Options { segment_bytes: 2 << 30, ..options() },
        Options { prepared_ahead: 2, ..options() },
        Options { window: 0, ..options() },
        Options { batch_bytes_max: 0, ..options() },
    ] {
        let refused = World::open(&SimDisk::new(1), &options).map(|_| ());
        assert!(matches!(refused, Err(Error::Options { .. })), "{options:?}");
    }
}

#[test]
fn a_log_keeps_the_segment_size_it_was_made_with() {
    let mut world = World::new();
    world.put(numbered(0, 100));
    let sim = world.close();
    let world = World::open(&sim, &Options { segment_bytes: 128 << 10, ..options() }).unwrap();
    assert_eq!(world.log.usage().unit_bytes, SEGMENT);
    assert_eq!(world.batches(), [numbered(0, 100)]);
}

#[test]
fn the_epoch_grows_at_every_open() {
    let mut world = World::new();
    let mut epoch = 0;
    for round in 0..10 {
        assert!(world.recovery.epoch > epoch);
        epoch = world.recovery.epoch;
        if round % 3 == 0 {
            world.put(numbered(round, 50));
        }
        let sim = if round % 2 == 0 { world.close() } else { world.lose_power() };
        world = World::on(&sim);
    }
}

#[test]
fn files_of_others_are_left_alone() {
    let sim = SimDisk::new(1);
    for name in ["notes.txt", "x.log", "00000000000000zz.log", "0000000000000001.log.cut"] {
        sim.put(name, b"mine".to_vec());
    }
    let mut world = World::on(&sim);
    world.put(numbered(0, 100));
    let sim = world.close();
    for name in ["notes.txt", "x.log", "00000000000000zz.log", "0000000000000001.log.cut"] {
        assert_eq!(sim.contents(name), b"mine");
    }
}
