//! Promise 1: nothing leaves before it is committed, and in order; the one exception is a lazy receive.

use std::time::Duration;

use recado_core::{Command, Query, Reply};
use recado_shard::Clock;

use crate::world::{Call, World, ack, enqueue, job, receive};

const NO_WAIT: Duration = Duration::ZERO;

#[test]
fn a_reply_never_leaves_before_its_batch_is_committed() {
    let mut world = World::new();
    let mut call = world.call(enqueue("mail", vec![job("1")])).begin();
    world.step();
    assert!(call.poll().is_none(), "decided and submitted, not synced");
    world.commit();
    assert!(call.poll().is_none(), "synced, and the shard has not seen it yet");
    world.step();
    assert!(matches!(call.poll(), Some(Ok(Reply::Enqueued { .. }))));
}

#[test]
fn refusals_reads_and_empty_receives_wait_for_what_they_were_decided_on() {
    let mut world = World::new();
    let mut enqueued = world.call(enqueue("mail", vec![job("1")])).begin();
    world.step();
    let handle = world.handle.clone();
    let mut read = Call::new(async move { handle.query(Query::Stats("mail".into())).await }).begin();
    let mut refused = world.call(Command::CancelTask { task: 99, actor: Default::default() }).begin();
    let mut empty = world.receive(receive("other", 1), NO_WAIT).begin();
    world.step();
    assert!(read.poll().is_none() && refused.poll().is_none() && empty.poll().is_none());
    world.commit();
    world.step();
    assert!(enqueued.poll().is_some() && read.poll().is_some());
    assert!(refused.poll().unwrap().is_err());
    // It made the queue, so it waits for one more batch.
    world.quiesce();
    assert!(empty.poll().unwrap().unwrap().jobs.is_empty());
}

#[test]
fn batches_are_pipelined_up_to_the_window_and_the_rest_shares_one() {
    let mut world = World::new();
    let before = world.handle.status().batches;
    let mut calls = Vec::new();
    for number in 0..20 {
        calls.push(world.call(enqueue("mail", vec![job(&number.to_string())])).begin());
        world.step();
    }
    assert!(calls.iter_mut().all(|call| call.poll().is_none()));
    world.quiesce();
    assert!(calls.iter_mut().all(|call| call.poll().is_some()));
    world.pass(Duration::from_secs(1));
    // Four filled the window; sixteen waited in the fifth.
    assert_eq!(world.handle.status().batches - before, 5);
}

#[test]
fn a_receive_leaves_when_it_is_written_and_the_next_answer_hurries_its_sync() {
    let mut world = World::new();
    world.enqueue("mail", &["1", "2"]);
    world.quiesce();
    let mut received = world.receive(receive("mail", 1), NO_WAIT).begin();
    world.step();
    assert!(received.poll().is_none(), "not even written");
    let synced = || world.handle.status().batches;
    let before = synced();
    world.engine.commit(world.clock.elapsed());
    world.shard.step();
    let received = received.poll().expect("written is enough for a receive").unwrap();
    assert_eq!(received.jobs.len(), 1);
    received.guard.confirm();
    world.shard.step();
    assert_eq!(world.handle.status().batches, before, "and it is not synced yet");

    // A second receive stands behind the unsynced one: it must not leave before that is durable.
    let mut second = world.receive(receive("mail", 1), NO_WAIT).begin();
    world.step();
    assert!(second.poll().is_none());
    world.commit();
    world.step();
    assert_eq!(second.poll().expect("the flush was asked for at once").unwrap().jobs.len(), 1);
}

#[test]
fn a_lazy_receive_is_synced_within_a_tenth_of_a_second() {
    let mut world = World::new();
    world.enqueue("mail", &["1"]);
    let taken = world.take("mail", 1);
    world.clock.pass(Duration::from_millis(100));
    world.quiesce();
    // It survives a power loss now: its receipt still settles.
    let mut world = world.lose_power(Duration::ZERO);
    assert!(world.settle_one(&taken[0], ack()).is_ok());
}

#[test]
fn a_receive_with_anything_else_in_its_batch_waits_for_the_sync() {
    let mut world = World::new();
    world.enqueue("mail", &["1"]);
    let mut enqueued = world.call(enqueue("mail", vec![job("2")])).begin();
    let mut received = world.receive(receive("mail", 1), NO_WAIT).begin();
    world.step();
    assert!(enqueued.poll().is_none() && received.poll().is_none());
    world.commit();
    world.step();
    assert!(enqueued.poll().is_some());
    assert_eq!(received.poll().unwrap().unwrap().jobs.len(), 1);
}
