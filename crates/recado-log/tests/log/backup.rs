//! A backup opens elsewhere, with the same batches at the same positions.

use recado_log::sim::SimDisk;
use recado_log::{Error, Log, Position, RealDisk, Verdict, check};

use crate::world::*;

#[test]
fn a_backup_holds_what_was_committed_when_it_began() {
    let mut world = World::new();
    for number in 0..40 {
        let position = world.put(numbered(number, 7_000));
        if number == 30 {
            world.log.trim(position).unwrap();
            world.settle();
        }
    }
    let expected = world.entries();
    world.lazily(numbered(40, 100)); // not committed
    world.engine.commit(world.now);
    let target = SimDisk::new(2);
    let backup = world.log.file_reader().backup_to(&*target.disk()).unwrap();
    assert_eq!(backup.batches, expected.len() as u64);
    assert_eq!(backup.last, expected.last().unwrap().position);
    assert_eq!(backup.first, world.log.usage().first);
    assert_eq!(world.log.usage().pinned_bytes, 0);

    target.lose_power();
    let report = check(&*target.disk()).unwrap();
    assert_eq!((report.verdict, report.batches), (Verdict::Whole, backup.batches));
    let mut copy = World::on(&target);
    assert_eq!(copy.entries(), expected);
    assert_eq!(copy.recovery.cut, None);
    assert!(copy.recovery.epoch > world.recovery.epoch);
    let last = &expected.last().unwrap();
    let reader = copy.log.reader();
    assert_eq!(reader.get(place(last.position, 5, 50)).unwrap(), last.batch.tail[5..55]);
    copy.put(numbered(99, 7_000));
    assert_eq!(World::on(&copy.close()).entries().len(), expected.len() + 1);
}

#[test]
fn a_backup_at_every_fill_of_a_segment_opens() {
    let mut world = World::new();
    let sizes = [0, 100, 30_000, 33_700, 500, 64_000, 40, 63_000];
    for (number, bytes) in (0..).zip(sizes) {
        let target = SimDisk::new(2);
        world.log.file_reader().backup_to(&*target.disk()).unwrap();
        assert_eq!(World::on(&target).entries(), world.entries());
        world.put(numbered(number, bytes));
    }
}

#[test]
fn a_backup_needs_an_empty_directory_and_tells_of_damaged_payloads() {
    let mut world = World::new();
    let first = world.put(numbered(0, 500));
    world.put(numbered(1, 500));
    let target = SimDisk::new(2);
    target.put("something", Vec::new());
    let refused = world.log.file_reader().backup_to(&*target.disk());
    assert!(matches!(refused, Err(Error::NotEmpty { .. })));

    let (file, at) = file_of(first);
    let sim = world.kill();
    flip(&sim, &file, at + 400, 1); // a tail: the log opens
    let world = World::on(&sim);
    let target = SimDisk::new(2);
    let backup = world.log.file_reader().backup_to(&*target.disk()).unwrap();
    assert_eq!(backup.damaged_tails.iter().map(|bad| bad.position).collect::<Vec<_>>(), [first]);
    let copy = World::on(&target);
    assert_eq!(copy.log.reader().read(first, false).unwrap().unwrap().batch.head, numbered(0, 500).head);
    assert!(copy.log.reader().read(first, true).is_err());
}

#[test]
fn a_backup_goes_to_a_real_directory() {
    let mut world = World::new();
    for number in 0..20 {
        world.put(numbered(number, 7_000));
    }
    let dir = TempDir::new("backup");
    let backup = world.log.reader().backup(&dir.0.join("copy")).unwrap();
    assert_eq!(backup.batches, 20);
    let disk = std::sync::Arc::new(RealDisk::new(dir.0.join("copy")).unwrap());
    let (log, recovery) = recado_log::FileLog::open(disk, &options(), silent()).unwrap();
    assert_eq!(recovery.first, Position(512));
    assert_eq!(entries(&*log.reader()), world.entries());
}
