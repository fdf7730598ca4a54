//! Bytes that decay on the disk: told, never handed out, and no reason for anything else to stop.

use std::time::Duration;

use recado_core::{Action, Answer, JobId, NewTask, Query};
use recado_shard::{FilledJob, Part};

use crate::trim::forgetful;
use crate::world::{Call, Set, World, ack, enqueue, job, receive};

const NO_WAIT: Duration = Duration::ZERO;

/// A world that keeps no payload in memory.
fn world() -> World {
    World::with(Set { payload_cache_bytes: 0, ..Set::default() })
}

/// The payload decays. An open file shows the old bytes, the next process reads the damaged ones.
fn decayed(mut world: World, payload: &[u8]) -> World {
    // The log proves it durable: later damage is no torn tail.
    world.pass(Duration::from_secs(2));
    let find = |bytes: &[u8]| bytes.windows(payload.len()).position(|window| window == payload);
    let disk = &world.disk;
    let (name, at) =
        disk.names().into_iter().find_map(|name| Some((name.clone(), find(&disk.contents(&name))?))).unwrap();
    let mut bytes = disk.contents(&name);
    bytes[at] ^= 1;
    disk.put(&name, bytes);
    world.kill(Duration::ZERO)
}

fn look(world: &mut World, id: JobId) -> FilledJob {
    let handle = world.handle.clone();
    let looked = Call::new(async move {
        let Answer::Job(view) = handle.query(Query::Job(id)).await? else { panic!("not a job") };
        handle.fill(vec![*view], true).await
    });
    world.run(looked).unwrap().remove(0)
}

fn unreadable(job: &FilledJob) -> Vec<Part> {
    job.unreadable.iter().map(|bad| bad.part).collect()
}

/// Works in a forgetful queue, as long as a busy shard would.
fn work(world: &mut World) {
    forgetful(world, "other");
    for _ in 0..400 {
        let call = world.call(enqueue("other", vec![job(&"x".repeat(20_000))]));
        world.run(call).unwrap();
        for taken in world.take("other", 1) {
            world.settle_one(&taken, ack()).unwrap();
        }
        world.pass(Duration::from_secs(1));
    }
}

fn stats(world: &mut World, queue: &str) -> recado_core::Stats {
    let (handle, queue) = (world.handle.clone(), queue.into());
    match world.run(Call::new(async move { handle.query(Query::Stats(queue)).await })) {
        Ok(Answer::Stats(stats)) => *stats,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_job_whose_bytes_cannot_be_read_is_given_back_and_does_not_spoil_the_answer() {
    let mut world = world();
    world.enqueue("mail", &["good"]);
    world.enqueue("mail", &["rotten"]);
    let mut world = decayed(world, b"rotten");
    let call = world.receive(receive("mail", 10), NO_WAIT);
    let received = world.run(call).unwrap();
    assert_eq!(received.jobs.len(), 1);
    assert_eq!(&*received.jobs[0].1.payload, b"good");
    received.guard.confirm();
    assert!(world.handle.status().unreadable >= 1);
    world.quiesce();
    let counted = stats(&mut world, "mail");
    assert_eq!((counted.ready, counted.delayed, counted.in_flight), (0, 1, 1), "the rotten one waits aside");
    world.enqueue("mail", &["next"]);
    assert_eq!(world.take("mail", 1)[0].payload, "next", "and lets the others pass");
    world.pass(Duration::from_secs(60));
    let before = world.handle.status().unreadable;
    assert!(world.take("mail", 10).iter().all(|job| job.payload != "rotten"));
    assert!(world.handle.status().unreadable > before, "it is tried again");
    assert_eq!(stats(&mut world, "mail").delayed, 1);
}

#[test]
fn a_damaged_job_is_looked_at_with_all_that_is_left_of_it() {
    let mut world = world();
    let ids = world.enqueue("mail", &["rotten"]);
    let mut world = decayed(world, b"rotten");
    let job = look(&mut world, ids[0]);
    // One checksum covers both.
    assert_eq!(unreadable(&job), [Part::Payload, Part::Meta]);
    assert!(job.payload.is_empty() && !job.has_payload());
    assert!(job.unreadable[0].reason.contains("damaged"), "{:?}", job.unreadable);
    assert_eq!(world.handle.status().unreadable, 2);
}

#[test]
fn a_damaged_job_does_not_hold_up_trimming_for_ever() {
    let mut world = world();
    let old = world.enqueue("old", &["1"]);
    let rotten = world.enqueue("mail", &["rotten"]);
    let mut world = decayed(world, b"rotten");
    work(&mut world);
    let status = world.handle.status();
    assert!(status.log.first.0 > rotten_position(&status), "{status:?}");
    assert!(status.log.log_bytes <= 2 * status.live_bytes + (1 << 20), "{status:?}");
    assert!(world.disk.names().iter().any(|name| name.ends_with(".log.damaged")), "{:?}", world.disk.names());
    // It is still there, without its bytes, and says so, also later.
    for _ in 0..2 {
        let job = look(&mut world, rotten[0]);
        assert_eq!(unreadable(&job), [Part::Payload, Part::Meta]);
        assert!(job.unreadable[0].reason.contains("lost"), "{:?}", job.unreadable);
        let call = world.receive(receive("mail", 10), NO_WAIT);
        assert!(world.run(call).unwrap().jobs.is_empty(), "and is not handed out");
        work(&mut world);
        world = world.kill(Duration::ZERO);
    }
    assert_eq!(&*look(&mut world, old[0]).payload, b"1");
}

/// Behind it: the log began with it.
fn rotten_position(status: &recado_shard::Status) -> u64 {
    2 * status.log.unit_bytes
}

#[test]
fn an_operator_can_purge_damaged_jobs() {
    let mut world = world();
    world.enqueue("mail", &["rotten", "as well"]);
    let mut world = decayed(world, b"rotten");
    let states = vec![recado_core::JobState::Ready, recado_core::JobState::Delayed];
    let task =
        NewTask { queue: "mail".into(), action: Action::Purge { states }, reason: None, actor: Default::default() };
    let handle = world.handle.clone();
    assert_eq!(world.run(Call::new(async move { handle.run_task(task).await })).unwrap().acted, 2);
    work(&mut world);
    let before = world.handle.status().unreadable;
    work(&mut world);
    assert_eq!(world.handle.status().unreadable, before, "nothing damaged is read any more");
}
