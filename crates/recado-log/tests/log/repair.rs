//! Check and repair.

use recado_log::sim::SimDisk;
use recado_log::{Error, Log, Position, Verdict, check, repair};

use crate::world::*;

fn filled(batches: u64) -> (SimDisk, Vec<Position>) {
    let mut world = World::new();
    let positions = (0..batches).map(|number| world.put(numbered(number, 7_000))).collect();
    (world.close(), positions)
}

#[test]
fn a_whole_log_is_reported_whole_and_a_repair_changes_nothing() {
    let (sim, positions) = filled(20);
    let report = check(&*sim.disk()).unwrap();
    assert_eq!(report.verdict, Verdict::Whole);
    assert_eq!((report.batches, report.damaged_tails.len()), (20, 0));
    assert_eq!(report.head_bytes + report.tail_bytes, 20 * 7_008);
    assert_eq!(report.segments, 6);
    assert!(report.first < positions[0] && report.tip > positions[19] && report.epoch > 0);
    let operations = sim.operations();
    let repaired = repair(&*sim.disk()).unwrap();
    assert_eq!((repaired.cut, repaired.kept_in.len()), (None, 0));
    assert_eq!(sim.operations(), operations);
}

#[test]
fn a_torn_tail_is_told_from_corruption() {
    let mut world = World::new();
    let first = world.put(numbered(0, 90));
    let last = world.put(numbered(1, 90));
    let sim = world.kill();
    let (file, at) = file_of(last);
    flip(&sim, &file, at + 100, 1);
    let Verdict::TornTail(damage) = check(&*sim.disk()).unwrap().verdict else { panic!() };
    assert_eq!((damage.position, damage.what), (last, "record head is damaged"));
    flip(&sim, &file, at + 100, 1);
    let (file, at) = file_of(first);
    flip(&sim, &file, at + 50, 1);
    let Verdict::Corrupt(damage) = check(&*sim.disk()).unwrap().verdict else { panic!() };
    assert_eq!((damage.position, damage.offset as usize), (first, at));
    assert!(damage.error().to_string().contains("record header is damaged"));
}

#[test]
fn a_repair_cuts_at_the_first_bad_batch_and_keeps_what_it_cut() {
    let (sim, positions) = filled(30);
    let bad = 12;
    let (file, at) = file_of(positions[bad]);
    flip(&sim, &file, at + RECORD_HEADER + 3, 1);
    let before = sim.contents(&file);
    assert!(World::open(&sim, &options()).is_err());
    let repaired = repair(&*sim.disk()).unwrap();
    let cut = repaired.cut.unwrap();
    assert_eq!((cut.offset as usize, repaired.tip), (at, positions[bad]));
    assert!(cut.bytes > 17 * 7_000);
    assert!(repaired.records_lost >= 18);
    assert_eq!(repaired.kept_in.len(), 3, "{:?}", repaired.kept_in);
    let side = sim.contents(&format!("{file}.{at:08x}.cut"));
    assert_eq!(side, before[at..at + side.len()]);
    assert!(side.len() > 100);

    let mut world = World::on(&sim);
    let expected: Vec<_> = (0..bad as u64).map(|number| numbered(number, 7_000)).collect();
    assert_eq!(world.batches(), expected);
    for number in 0..30 {
        world.put(numbered(number, 7_000));
    }
    let world = World::on(&world.lose_power());
    assert_eq!(world.batches().len(), bad + 30);
    assert_eq!(check(&*world.close().disk()).unwrap().verdict, Verdict::Whole);
}

#[test]
fn a_repair_after_a_missing_segment_keeps_the_later_ones() {
    let (sim, positions) = filled(30);
    let number = positions[15].0 / SEGMENT;
    let last = positions[29].0 / SEGMENT;
    let later: Vec<Vec<u8>> = (number + 1..=last).map(|n| sim.contents(&format!("{n:016x}.log"))).collect();
    sim.delete(&format!("{number:016x}.log"));
    assert!(matches!(check(&*sim.disk()).unwrap().verdict, Verdict::Corrupt(_)));
    let repaired = repair(&*sim.disk()).unwrap();
    assert!(repaired.cut.is_some());
    for (n, bytes) in (number + 1..=last).zip(later) {
        assert_eq!(sim.contents(&format!("{n:016x}.log.cut")), bytes);
    }
    let world = World::on(&sim);
    assert!(world.recovery.batches > 5);
    let expected: Vec<_> = (0..world.recovery.batches).map(|n| numbered(n, 7_000)).collect();
    assert_eq!(world.batches(), expected);
}

#[test]
fn a_repair_writes_damaged_segment_headers_anew_and_loses_nothing() {
    let (sim, _) = filled(30);
    for name in segment_files(&sim) {
        flip(&sim, &name, 20, 0xff);
    }
    assert!(World::open(&sim, &options()).is_err());
    let repaired = repair(&*sim.disk()).unwrap();
    assert_eq!(repaired.headers_rewritten as usize, segment_files(&sim).len());
    assert_eq!(repaired.cut, None);
    assert_eq!(World::on(&sim).batches().len(), 30);
}

#[test]
fn a_repair_keeps_what_a_short_file_still_has() {
    let (sim, positions) = filled(30);
    let (name, at) = file_of(positions[12]);
    let bytes = sim.contents(&name);
    for length in [0, 100, SEGMENT_HEADER, at, at + 3_000, at + 7_080, bytes.len() - 1] {
        let sim = sim.copy(1);
        sim.put(&name, bytes[..length].to_vec());
        let Err(Error::Corrupt { what, file, .. }) = World::open(&sim, &options()) else { panic!("{length}") };
        assert!(what == "segment file is too short" && file.ends_with(&name));
        let repaired = repair(&*sim.disk()).unwrap();
        assert_eq!(repaired.filled, [file]);
        // A batch whose tail alone is cut keeps its head.
        let head_end = |position: &Position| (position.0 % SEGMENT) as usize + RECORD_HEADER + 8 + 7_000 / 3;
        let has_head = |position: &&Position| file_of(**position).0 < name || head_end(position) <= length;
        let kept = positions.iter().take_while(has_head).count();
        let world = World::on(&sim);
        let (reader, mut at, mut found) = (world.log.reader(), Position(0), 0);
        while let Some(entry) = reader.read(at.max(world.recovery.first), false).unwrap() {
            assert_eq!(entry.batch.head, numbered(found, 7_000).head);
            (at, found) = (entry.next, found + 1);
        }
        // The last batch of the file before may end in this one.
        assert!((kept - 1..=kept).contains(&(found as usize)), "{length}: {found} of {kept}");
    }
}

#[test]
fn a_repair_lets_the_log_start_with_what_is_there() {
    let (sim, positions) = filled(30);
    let name = segment_files(&sim)[0].clone();
    sim.delete(&name);
    let repaired = repair(&*sim.disk()).unwrap();
    let second = segment_files(&sim)[0].clone();
    assert!(repaired.start.unwrap().ends_with(second));
    assert_eq!(repaired.cut, None);
    let kept = positions.iter().filter(|position| position.0 > SEGMENT).count();
    let world = World::on(&sim);
    assert_eq!(world.batches(), (0..30).map(|n| numbered(n, 7_000)).skip(30 - kept).collect::<Vec<_>>());
    assert_eq!(check(&*world.close().disk()).unwrap().verdict, Verdict::Whole);
}

/// The mark of the new start was not seen in a file of less than a header, and written again for ever.
#[test]
fn a_repair_lets_the_log_start_with_a_file_of_almost_nothing() {
    let (sim, positions) = filled(30);
    let names = segment_files(&sim);
    let third = positions.iter().filter(|position| position.0 > 2 * SEGMENT).count();
    for length in [0, 1, 60, 100, SEGMENT_HEADER - 1] {
        let sim = sim.copy(1);
        sim.delete(&names[0]);
        sim.put(&names[1], sim.contents(&names[1])[..length].to_vec());
        let repaired = repair(&*sim.disk()).unwrap();
        assert!(repaired.start.unwrap().ends_with(&names[1]));
        let world = World::on(&sim);
        // What its file held is gone, and with it what came after.
        assert!(world.batches().len() <= third, "{length}");
        assert_eq!(check(&*world.close().disk()).unwrap().verdict, Verdict::Whole);
    }
}

/// A repair that is interrupted at any operation can be done again, and keeps what it cut.
#[test]
fn an_interrupted_repair_can_be_repeated() {
    let (sim, positions) = filled(30);
    let (file, at) = file_of(positions[12]);
    flip(&sim, &file, at + RECORD_HEADER + 3, 1);
    for k in 0..30 {
        let sim = sim.copy(k);
        sim.fail_at(k, recado_log::sim::Fault::Crash);
        let _ = repair(&*sim.disk());
        sim.clear_faults();
        sim.lose_power();
        repair(&*sim.disk()).unwrap();
        let world = World::on(&sim);
        assert_eq!(world.batches().len(), 12, "operation {k}");
    }
}

#[test]
fn damaged_payloads_are_named_and_left_alone() {
    let (sim, positions) = filled(30);
    for index in [3, 17] {
        let (file, at) = file_of(positions[index]);
        flip(&sim, &file, at + 3_000, 1);
    }
    let report = check(&*sim.disk()).unwrap();
    assert_eq!(report.verdict, Verdict::DamagedTails);
    let operations = sim.operations();
    let repaired = repair(&*sim.disk()).unwrap();
    assert_eq!((repaired.cut, sim.operations()), (None, operations));
    assert_eq!(repaired.damaged_tails, report.damaged_tails);
    let places: Vec<_> = repaired.damaged_tails.iter().map(|bad| (bad.position, bad.offset as usize)).collect();
    assert_eq!(places, [3, 17].map(|index| (positions[index], file_of(positions[index]).1)));
}
