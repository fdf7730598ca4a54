//! Submit, commit, read, get: what a log does when nothing goes wrong.

use recado_log::{Class, Error, Log, Position, Urgency};

use crate::world::*;

#[test]
fn a_batch_is_there_once_committed_and_after_a_reopen() {
    let mut world = World::new();
    let first = world.submit(batch(b"head", b"tail"));
    assert_eq!(world.log.written(), Position(0));
    assert_eq!(world.log.committed().unwrap(), Position(0));
    world.settle();
    assert_eq!(world.log.written(), first);
    assert_eq!(world.log.committed().unwrap(), first);
    let second = world.put(batch(b"", b""));
    assert!(second > first);
    assert_eq!(world.batches(), [batch(b"head", b"tail"), batch(b"", b"")]);

    let epoch = world.recovery.epoch;
    let world = World::on(&world.close());
    assert!(world.recovery.epoch > epoch);
    assert_eq!(world.recovery.batches, 2);
    assert_eq!(world.recovery.cut, None);
    assert_eq!(world.log.committed().unwrap(), second);
    assert_eq!(world.batches(), [batch(b"head", b"tail"), batch(b"", b"")]);
}

#[test]
fn batches_of_all_sizes_cross_parts_and_segments() {
    let mut world = World::new();
    let mut expected = Vec::new();
    for number in 0..60 {
        let bytes = [0, 1, 7, 8, 500, 20_000, 64_000][number as usize % 7];
        let sent = numbered(number, bytes);
        let position = world.put(sent.clone());
        let last = world.entries().pop().unwrap();
        assert_eq!((last.position, last.next), (position, world.log.next()));
        expected.push(sent);
    }
    assert_eq!(world.batches(), expected);
    let world = World::on(&world.kill());
    assert_eq!(world.recovery.batches, 60);
    assert_eq!(world.batches(), expected);
}

#[test]
fn places_are_fetched_across_parts_and_segments() {
    let mut world = World::new();
    world.put(numbered(0, 40_000));
    let sent = numbered(1, 60_000);
    let position = world.put(sent.clone());
    let (start, end) = (position.0 / SEGMENT, world.log.next().0 / SEGMENT);
    assert!(end > start, "the batch crosses a segment");
    let reader = world.log.reader();
    let tail = &sent.tail;
    for offset in (0..tail.len()).step_by(977) {
        for length in [0, 1, 100, 30_000] {
            let length = length.min(tail.len() - offset);
            let got = reader.get(place(position, offset, length)).unwrap();
            assert_eq!(got, tail[offset..offset + length]);
        }
    }
    for wrong in [
        place(position, tail.len(), 1),
        place(position, 0, tail.len() + 1),
        place(world.log.next(), 0, 1),
        place(Position(position.0 + 4), 0, 1),
    ] {
        assert!(matches!(reader.get(wrong), Err(Error::NoSuchPlace { .. })), "{wrong:?}");
    }
}

#[test]
fn a_read_may_start_anywhere() {
    let mut world = World::new();
    let positions: Vec<Position> = (0..5).map(|number| world.put(numbered(number, 30_000))).collect();
    let reader = world.log.reader();
    let mut expected = 0;
    for from in 0..world.log.next().0 {
        if expected < positions.len() && from > positions[expected].0 {
            expected += 1;
        }
        if from % 499 > 8 && positions.iter().all(|position| from.abs_diff(position.0) > 80) {
            continue;
        }
        let got = reader.read(Position(from), false).unwrap().map(|entry| entry.position);
        assert_eq!(got, positions.get(expected).copied(), "from {from}");
    }
}

#[test]
fn the_next_position_always_has_room_for_a_record() {
    let mut world = World::new();
    for bytes in 0..2_000 {
        let position = world.submit(numbered(1, bytes % 300));
        assert!(SEGMENT - position.0 % SEGMENT >= 128);
        assert!(position.0 % SEGMENT >= SEGMENT_HEADER as u64);
        world.settle();
    }
}

#[test]
fn a_batch_has_a_limit() {
    let mut world = World::new();
    let limit = world.log.limits().batch_bytes_max;
    let full = vec![7; limit];
    assert!(world.log.room(Class::Produce) >= limit as u64);
    let sent = batch(&[], &full);
    world.put(sent.clone());
    assert_eq!(world.batches(), [sent]);
    let error = world.log.submit(batch(b"1", &full), Urgency::Now).unwrap_err();
    assert!(matches!(error, Error::TooLarge { actual, .. } if actual == limit + 1));
    assert_eq!(world.batches().len(), 1);
}

#[test]
fn usage_counts_from_the_first_segment_to_the_tip() {
    let mut world = World::new();
    world.put(numbered(0, 1_000));
    let usage = world.log.usage();
    assert_eq!(usage.first, Position(SEGMENT_HEADER as u64));
    assert_eq!(usage.log_bytes, world.log.next().0 - usage.first.0);
    assert_eq!((usage.pinned_bytes, usage.unit_bytes), (0, SEGMENT));
}

#[test]
fn an_idle_second_moves_the_watermark_past_the_last_batch() {
    let mut world = World::new();
    let position = world.put(numbered(0, 1_000));
    world.pass(999);
    let next = world.log.next();
    let (file, at) = file_of(next);
    assert_eq!(world.sim.contents(&file)[at..at + RECORD_HEADER], [0; RECORD_HEADER]);
    world.pass(1);
    assert_ne!(world.sim.contents(&file)[at..at + RECORD_HEADER], [0; RECORD_HEADER]);
    assert_eq!(world.log.next(), next, "the promised position stays");
    assert_eq!(world.put(numbered(1, 10)), next);
    assert_eq!(world.batches(), [numbered(0, 1_000), numbered(1, 10)]);

    world.pass(1_000);
    let world = World::on(&world.lose_power());
    assert!(world.recovery.rewritten_bytes <= RECORD_HEADER as u64, "only the watermark itself");
    assert_eq!(world.entries()[0].position, position);
}
