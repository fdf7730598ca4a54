//! Damaged bytes: a torn tail is cut and reported, the loss of what was durable stops the start.

use recado_log::sim::SimDisk;
use recado_log::{Error, Log, Position, Verdict, check};

use crate::world::*;

/// Three batches, each committed on its own; the answer has their positions and the next one.
fn three(tail_bytes: usize) -> (SimDisk, Vec<Position>) {
    let mut world = World::new();
    let mut positions: Vec<Position> = (0..3).map(|number| world.put(numbered(number, tail_bytes))).collect();
    positions.push(world.log.next());
    (world.kill(), positions)
}

#[test]
fn a_cut_at_every_byte_of_the_last_two_records_is_a_torn_tail() {
    // 72 + 8 + 90 bytes, padded to a multiple of 8: nobody misses the padding.
    const PADDING: usize = 6;
    let (sim, positions) = three(90);
    let (file, second) = file_of(positions[1]);
    let (_, third) = file_of(positions[2]);
    let (_, end) = file_of(positions[3]);
    for cut in second..end {
        let sim = sim.copy(1);
        let mut bytes = sim.contents(&file);
        bytes[cut..].fill(0);
        sim.put(&file, bytes);
        let kept = 1 + u64::from(cut + PADDING >= third) + u64::from(cut + PADDING >= end);
        let broken_at = [0, second, third, end][kept as usize];
        let world = World::on(&sim);
        let expected: Vec<_> = (0..kept).map(|number| numbered(number, 90)).collect();
        assert_eq!(world.batches(), expected, "cut at {cut}");
        match &world.recovery.cut {
            Some(reported) => assert_eq!(reported.offset as usize, broken_at),
            // Remains are recognised by the magic and the position of a record.
            None => assert!(cut < broken_at + 16, "cut at {cut} was not reported"),
        }
        assert_eq!(World::on(&world.close()).batches(), expected);
    }
}

#[test]
fn a_flipped_byte_that_a_later_watermark_proves_is_corruption() {
    let (sim, positions) = three(90);
    // The first record was synced before the second was written.
    let (file, start) = file_of(positions[0]);
    for at in start..start + RECORD_HEADER + 8 + 30 {
        let sim = sim.copy(1);
        flip(&sim, &file, at, 0x10);
        let before = sim.contents(&file);
        let Err(error) = World::open(&sim, &options()) else { panic!("byte {at} was let pass") };
        let Error::Corrupt { offset, position, .. } = &error else { panic!("byte {at}: {error}") };
        assert_eq!((*offset as usize, *position), (start, positions[0]));
        assert!(error.to_string().contains("recado log repair"), "{error}");
        assert_eq!(sim.contents(&file), before, "nothing is touched");
    }
}

#[test]
fn a_flipped_tail_before_the_watermark_is_told_to_who_reads_it() {
    let (sim, positions) = three(90);
    let (file, start) = file_of(positions[0]);
    let tail = start + RECORD_HEADER + 8 + 30;
    for at in tail..tail + 60 {
        let sim = sim.copy(1);
        flip(&sim, &file, at, 0x01);
        let report = check(&*sim.disk()).unwrap();
        assert_eq!(report.verdict, Verdict::DamagedTails, "the log opens");
        assert_eq!(report.damaged_tails[0].position, positions[0]);
        let world = World::on(&sim);
        let reader = world.log.reader();
        let is_corrupt = |error| matches!(error, Error::Corrupt { .. });
        assert!(is_corrupt(reader.read(positions[0], true).unwrap_err()));
        assert!(is_corrupt(reader.get(place(positions[0], 0, 1)).unwrap_err()));
        assert_eq!(reader.read(positions[0], false).unwrap().unwrap().position, positions[0]);
        assert_eq!(reader.read(positions[1], true).unwrap().unwrap().batch, numbered(1, 90));
    }
}

#[test]
fn a_flipped_byte_that_nothing_proves_is_a_torn_tail() {
    let (sim, positions) = three(90);
    let (file, start) = file_of(positions[2]);
    for at in start..start + RECORD_HEADER + 98 {
        let sim = sim.copy(1);
        flip(&sim, &file, at, 0x80);
        let world = World::on(&sim);
        assert_eq!(world.batches(), [numbered(0, 90), numbered(1, 90)], "byte {at}");
        let is_unrecognisable = (start..start + 4).contains(&at) || (start + 8..start + 16).contains(&at);
        assert_eq!(world.recovery.cut.is_none(), is_unrecognisable, "byte {at}");
    }
}

#[test]
fn the_watermark_of_a_clean_close_proves_the_last_batch() {
    let mut world = World::new();
    let position = world.put(numbered(0, 90));
    let sim = world.close();
    let (file, start) = file_of(position);
    for at in start..start + RECORD_HEADER + 8 + 30 {
        let sim = sim.copy(1);
        flip(&sim, &file, at, 0x04);
        let Err(Error::Corrupt { .. }) = World::open(&sim, &options()) else { panic!("byte {at} was let pass") };
    }
}

#[test]
fn the_proof_may_stand_in_a_later_segment() {
    let mut world = World::new();
    let first = world.put(numbered(0, 60_000));
    let second = world.put(numbered(1, 10_000));
    assert!(world.log.next().0 / SEGMENT > first.0 / SEGMENT);
    world.put(numbered(2, 100));
    let sim = world.kill();
    let (file, at) = file_of(second);
    flip(&sim, &file, at + 20, 1);
    let Err(Error::Corrupt { position, .. }) = World::open(&sim, &options()) else { panic!() };
    assert_eq!(position, second);
}

#[test]
fn zeros_where_a_durable_record_was_are_corruption() {
    let (sim, positions) = three(2_000);
    let (file, start) = file_of(positions[1]);
    let mut bytes = sim.contents(&file);
    bytes[start..start + 1_024].fill(0);
    sim.put(&file, bytes);
    let Err(Error::Corrupt { offset, .. }) = World::open(&sim, &options()) else { panic!() };
    assert_eq!(offset as usize, start);
}

#[test]
fn a_flipped_segment_header_is_corruption() {
    let (sim, _) = three(90);
    for name in segment_files(&sim) {
        for at in (0..START_MARK).step_by(5) {
            let sim = sim.copy(1);
            flip(&sim, &name, at, 2);
            let Err(Error::Corrupt { offset: 0, file, .. }) = World::open(&sim, &options()) else {
                panic!("byte {at} of {name} was let pass")
            };
            assert!(file.ends_with(&name));
        }
    }
}

#[test]
fn a_missing_segment_is_corruption() {
    let mut world = World::new();
    for number in 0..4 {
        world.put(numbered(number, 60_000));
    }
    let sim = world.kill();
    for name in &segment_files(&sim)[1..4] {
        let sim = sim.copy(1);
        sim.delete(name);
        let Err(Error::Corrupt { what, .. }) = World::open(&sim, &options()) else { panic!("{name}") };
        assert_eq!(what, "segment file is missing");
    }
}

#[test]
fn parts_without_the_last_one_count_for_nothing() {
    let mut world = World::new();
    world.put(numbered(0, 40_000));
    let second = world.put(numbered(1, 60_000));
    let sim = world.kill();
    let (next_file, _) = file_of(Position((second.0 / SEGMENT + 1) * SEGMENT));
    let mut bytes = sim.contents(&next_file);
    bytes[SEGMENT_HEADER..].fill(0);
    sim.put(&next_file, bytes);
    let mut world = World::on(&sim);
    assert_eq!(world.batches(), [numbered(0, 40_000)]);
    assert_eq!(world.recovery.cut.as_ref().unwrap().offset, second.0 % SEGMENT);
    world.put(numbered(2, 5));
    assert_eq!(world.batches(), [numbered(0, 40_000), numbered(2, 5)]);
    assert_eq!(World::on(&world.kill()).batches(), [numbered(0, 40_000), numbered(2, 5)]);
}

/// Our own recovery cuts such parts; a log that was written by another one may have them.
#[test]
fn a_fence_voids_the_parts_before_it() {
    let mut world = World::new();
    world.put(numbered(0, 40_000));
    let second = world.put(numbered(1, 60_000));
    let epoch = world.recovery.epoch;
    let sim = world.kill();
    let (first_file, at) = file_of(Position(SEGMENT_HEADER as u64));
    let mut fence = sim.contents(&first_file)[at..at + RECORD_HEADER].to_vec();
    let position = (second.0 / SEGMENT + 1) * SEGMENT + SEGMENT_HEADER as u64;
    fence[8..16].copy_from_slice(&position.to_le_bytes());
    fence[16..24].copy_from_slice(&epoch.to_le_bytes());
    fence[24..32].copy_from_slice(&(epoch + (1 << 32)).to_le_bytes());
    fence[32..40].copy_from_slice(&position.to_le_bytes());
    let crc = crc32c::crc32c(&fence[..68]);
    fence[68..].copy_from_slice(&crc.to_le_bytes());
    let (file, _) = file_of(Position(position));
    let mut bytes = sim.contents(&file);
    bytes[SEGMENT_HEADER..].fill(0);
    bytes[SEGMENT_HEADER..][..RECORD_HEADER].copy_from_slice(&fence);
    sim.put(&file, bytes);

    let mut world = World::on(&sim);
    assert_eq!((world.recovery.batches, world.recovery.cut.clone()), (1, None));
    assert_eq!(world.batches(), [numbered(0, 40_000)]);
    let voided = world.log.reader().get(place(second, 0, 40_000));
    assert!(matches!(voided, Err(Error::NoSuchPlace { .. })), "{voided:?}");
    world.put(numbered(2, 9_000));
    let world = World::on(&world.close());
    assert_eq!(world.batches(), [numbered(0, 40_000), numbered(2, 9_000)]);
}

#[test]
fn payloads_that_look_like_records_are_not() {
    // The payload repeats whole records of the log, also at the places where they claim to stand.
    let mut world = World::new();
    let first = world.put(numbered(0, 200));
    let (file, at) = file_of(first);
    let record = world.sim.contents(&file)[at..at + RECORD_HEADER].to_vec();
    let mut forged = vec![0; 4_000];
    for (index, chunk) in forged.chunks_mut(RECORD_HEADER).enumerate() {
        chunk.copy_from_slice(&record[..chunk.len()]);
        let claimed = world.log.next().0 + (RECORD_HEADER * (index + 1)) as u64;
        if chunk.len() == RECORD_HEADER {
            chunk[8..16].copy_from_slice(&claimed.to_le_bytes());
            let crc = crc32c::crc32c(&chunk[..68]);
            chunk[68..].copy_from_slice(&crc.to_le_bytes());
        }
    }
    world.put(batch(&[], &forged));
    world.put(numbered(2, 10));
    let expected = [numbered(0, 200), batch(&[], &forged), numbered(2, 10)];
    assert_eq!(world.batches(), expected);
    assert_eq!(World::on(&world.kill()).batches(), expected);
}
