//! The log stays near what is live, also with one old job that never leaves.

use std::time::Duration;

use recado_core::{Answer, Command, Configure, KeepOptions, Outcome, Query, QueueOptions, Source};

use crate::world::{Call, Set, World, ack, enqueue, job};

const UNIT: u64 = 256 << 10;

/// Makes a queue that forgets what is done.
pub(crate) fn forgetful(world: &mut World, queue: &str) {
    let keep_completed = Some(KeepOptions { for_ms: Some(0), max: Some(0) });
    let call = world.call(Command::Configure(Configure {
        queue: queue.into(),
        options: QueueOptions { keep_completed, ..QueueOptions::default() },
        source: Source::Api,
        condition: Default::default(),
        actor: Default::default(),
    }));
    world.run(call).unwrap();
}

#[test]
fn one_old_job_that_never_leaves_does_not_keep_the_log() {
    let mut world = World::new();
    let old = world.enqueue("old", &["the old one"]);
    forgetful(&mut world, "mail");
    for round in 0..2_000 {
        let jobs = (0..5).map(|number| job(&format!("{round}-{number}-{}", "x".repeat(200)))).collect();
        let call = world.call(enqueue("mail", jobs));
        world.run(call).unwrap();
        for taken in world.take("mail", 5) {
            world.settle_one(&taken, ack()).unwrap();
        }
        let status = world.handle.status();
        let bound = 2 * status.live_bytes + status.log.pinned_bytes + 2 * UNIT;
        // One unit beyond: what is free is given back a unit at a time, some while after.
        assert!(status.log.log_bytes <= bound + UNIT, "round {round}: {status:?}");
    }
    let first = world.handle.status().log.first;
    assert!(first.0 > 10 * UNIT, "many units were freed: {first}");
    let mut world = world.kill(Duration::from_secs(1));
    let taken = world.take("old", 1);
    assert_eq!((taken[0].id, taken[0].payload.as_str()), (old[0], "the old one"));
}

#[test]
fn an_idle_shard_trims_and_then_rests() {
    let mut world = World::new();
    world.enqueue("old", &["the old one"]);
    let jobs = (0..50).map(|_| job(&"x".repeat(2_000))).collect::<Vec<_>>();
    for _ in 0..20 {
        let call = world.call(enqueue("mail", jobs.clone()));
        world.run(call).unwrap();
    }
    let call = world.call(Command::DeleteQueue {
        queue: "mail".into(),
        force: true,
        condition: Default::default(),
        actor: Default::default(),
    });
    world.run(call).unwrap();
    for _ in 0..200 {
        world.pass(Duration::from_millis(50));
    }
    let status = world.handle.status();
    assert!(status.log.log_bytes <= 2 * status.live_bytes + 2 * UNIT, "{status:?}");
    let before = world.disk.operations();
    for _ in 0..20 {
        world.pass(Duration::from_secs(60));
    }
    let operations = world.disk.operations() - before;
    assert!(operations < 100, "a shard at rest writes next to nothing: {operations}");
    assert_eq!(world.take("old", 1)[0].payload, "the old one");
}

#[test]
fn a_job_that_moved_in_the_log_since_it_was_looked_at_is_still_filled_in() {
    let mut world = World::with(Set { payload_cache_bytes: 0, ..Set::default() });
    let old = world.enqueue("old", &["the old one"]);
    forgetful(&mut world, "mail");
    let (handle, id) = (world.handle.clone(), old[0]);
    let view = world.run(Call::new(async move { handle.query(Query::Job(id)).await })).unwrap();
    let Answer::Job(view) = view else { panic!("not a job") };
    trim_beyond(&mut world, view.payload.position);
    let handle = world.handle.clone();
    let filled = world.run(Call::new(async move { handle.fill(vec![*view], true).await })).unwrap();
    assert_eq!(&*filled[0].payload, b"the old one");
    assert_eq!(world.handle.status().unreadable, 0);
}

/// Works in a forgetful queue until the log begins behind `position`.
fn trim_beyond(world: &mut World, position: u64) {
    while world.handle.status().log.first.0 <= position {
        let call = world.call(enqueue("mail", vec![job(&"x".repeat(20_000))]));
        world.run(call).unwrap();
        for taken in world.take("mail", 1) {
            world.settle_one(&taken, ack()).unwrap();
        }
        world.pass(Duration::from_millis(200));
    }
}

#[test]
fn a_saved_answer_that_moved_since_it_was_found_is_found_again() {
    let mut world = World::with(Set { payload_cache_bytes: 0, ..Set::default() });
    forgetful(&mut world, "mail");
    let keyed = recado_core::Enqueue {
        queue: "old".into(),
        create: true,
        jobs: vec![job("1")],
        request: Some(recado_core::RequestKey { key: "k".into(), body: recado_core::Hash(1) }),
        ..Default::default()
    };
    let send = |world: &World| {
        let (handle, keyed) = (world.handle.clone(), keyed.clone());
        Call::new(async move { handle.enqueue(keyed).await })
    };
    let call = send(&world);
    let (first, _) = world.run(call).unwrap();
    let decided_at = world.handle.status().log.first.0 + world.handle.status().log.log_bytes;
    let call = send(&world).begin();
    world.quiesce();
    // The place lies in its channel, unread, while what is there moves.
    trim_beyond(&mut world, decided_at);
    assert_eq!(world.run(call).unwrap(), (first, true));
}

#[test]
fn the_result_of_a_duplicate_that_moved_is_found_again() {
    let mut world = World::with(Set { payload_cache_bytes: 0, ..Set::default() });
    let old = world.enqueue("old", &["1"]);
    let taken = world.take("old", 1);
    world.settle_one(&taken[0], recado_core::Outcome::Ack { result: Some(b"42".to_vec()) }).unwrap();
    forgetful(&mut world, "mail");
    let (handle, id) = (world.handle.clone(), old[0]);
    let view = world.run(Call::new(async move { handle.query(Query::Job(id)).await })).unwrap();
    let Answer::Job(view) = view else { panic!("not a job") };
    let place = view.result.unwrap();
    trim_beyond(&mut world, place.position);
    let handle = world.handle.clone();
    let result = world.run(Call::new(async move { handle.result_of(id, place).await })).unwrap();
    assert_eq!(result.as_deref(), Some(&b"42"[..]));
}

/// Guards against a false alarm: an old job with progress that was told in the same turn was copied, and what is
/// not even written yet cannot be read. The log was called damaged and not trimmed for a minute.
#[test]
fn bytes_that_are_not_written_yet_are_not_taken_for_damage() {
    let mut world = World::with(Set { payload_cache_bytes: 0, ..Set::default() });
    world.enqueue("old", &["the old one"]);
    forgetful(&mut world, "mail");
    let old = world.take("old", 1);
    for _ in 0..300 {
        // The first turn earns leave to copy, the second decides and copies.
        let fill = world.call(enqueue("mail", vec![job(&"x".repeat(8_000))])).begin();
        world.shard.step();
        let progress = Outcome::Extend { visibility_ms: None, progress: Some(b"some more".to_vec()) };
        let extend = world.settle(vec![old[0].settle(progress)]).begin();
        world.shard.step();
        world.run(fill).unwrap();
        world.run(extend).unwrap();
        let filler = world.take("mail", 1);
        world.settle_one(&filler[0], ack()).unwrap();
    }
    assert_eq!(world.handle.status().unreadable, 0);
}
