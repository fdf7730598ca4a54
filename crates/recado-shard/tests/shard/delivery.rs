//! What is handed out arrives whole, or is given back.

use std::time::Duration;

use recado_core::{Answer, Outcome, Query};

use crate::world::{Call, Set, World, ack, enqueue, job, receive};

const NO_WAIT: Duration = Duration::ZERO;

#[test]
fn a_dropped_guard_gives_all_its_jobs_back_uncounted() {
    let mut world = World::new();
    world.enqueue("mail", &["1", "2", "3"]);
    let call = world.receive(receive("mail", 2), NO_WAIT);
    let received = world.run(call).unwrap();
    assert_eq!(received.jobs.len(), 2);
    drop(received);
    world.quiesce();
    let taken = world.take("mail", 10);
    let payloads: Vec<&str> = taken.iter().map(|job| job.payload.as_str()).collect();
    assert_eq!(payloads, ["1", "2", "3"], "in their old places");
    assert!(taken.iter().all(|job| job.attempts == 1 && job.deliveries == 1));
}

#[test]
fn a_future_dropped_after_the_decision_gives_back_too() {
    let mut world = World::new();
    world.enqueue("mail", &["1"]);
    let call = world.receive(receive("mail", 1), NO_WAIT).begin();
    world.quiesce();
    drop(call); // the answer lies in its channel, unread
    world.quiesce();
    assert_eq!(world.take("mail", 1).len(), 1);
}

#[test]
fn payloads_come_from_the_log_when_memory_has_them_no_more() {
    let mut world = World::with(Set { payload_cache_bytes: 0, ..Set::default() });
    let texts: Vec<String> = (0..50).map(|number| format!("{{\"n\":{number}}}")).collect();
    for text in &texts {
        world.enqueue("mail", &[text]);
    }
    let taken = world.take("mail", 100);
    assert_eq!(taken.iter().map(|job| job.payload.clone()).collect::<Vec<_>>(), texts);
}

#[test]
fn a_drain_reads_ahead() {
    let mut world = World::with(Set { payload_cache_bytes: 8 << 20, ..Set::default() });
    for number in 0..50 {
        world.enqueue("mail", &[&number.to_string()]);
    }
    let mut world = world.kill(Duration::ZERO);
    assert_eq!(world.handle.status().cached_bytes, 0, "a new process has nothing in memory");
    let first = world.take("mail", 1);
    assert_eq!(first[0].payload, "0");
    assert!(world.handle.status().cached_bytes > 50, "the payloads behind it were read with it");
    assert_eq!(world.take("mail", 100).len(), 49);
}

#[test]
fn settles_of_one_call_are_independent_and_come_in_order() {
    let mut world = World::new();
    world.enqueue("mail", &["1", "2", "3"]);
    let taken = world.take("mail", 3);
    let mut entries: Vec<_> = taken.iter().map(|job| job.settle(ack())).collect();
    entries[1].receipt = "forged".into();
    let call = world.settle(entries);
    let outcomes = world.run(call).unwrap();
    assert_eq!(outcomes[0].as_ref().unwrap().id, taken[0].id);
    assert!(outcomes[1].is_err());
    assert_eq!(outcomes[2].as_ref().unwrap().id, taken[2].id);
}

#[test]
fn a_receive_settles_first() {
    let mut world = World::new();
    world.enqueue("mail", &["1", "2"]);
    let taken = world.take("mail", 1);
    let (handle, entries) = (world.handle.clone(), vec![taken[0].settle(ack())]);
    let received =
        world.run(Call::new(async move { handle.receive(receive("mail", 1), entries, NO_WAIT).await })).unwrap();
    assert_eq!(received.settled.len(), 1);
    assert!(received.settled[0].is_ok());
    assert_eq!(received.jobs.len(), 1);
    received.guard.confirm();
}

#[test]
fn results_and_errors_come_back_with_the_job() {
    let mut world = World::new();
    let ids = world.enqueue("mail", &["1"]);
    let taken = world.take("mail", 1);
    world.settle_one(&taken[0], Outcome::Ack { result: Some(b"{\"ok\":1}".to_vec()) }).unwrap();
    let (handle, id) = (world.handle.clone(), ids[0]);
    let filled = world.run(Call::new(async move {
        let Answer::Job(view) = handle.query(Query::Job(id)).await? else { panic!("not a job") };
        handle.fill(vec![*view], true).await
    }));
    let filled = filled.unwrap().remove(0);
    assert_eq!((&*filled.payload, filled.result.as_deref()), (&b"1"[..], Some(&b"{\"ok\":1}"[..])));
}

#[test]
fn a_request_key_answers_with_the_saved_answer() {
    let mut world = World::new();
    let request = recado_core::RequestKey { key: "k".into(), body: recado_core::Hash(1) };
    let keyed = recado_core::Enqueue {
        queue: "mail".into(),
        create: true,
        jobs: vec![job("1")],
        request: Some(request),
        ..Default::default()
    };
    let send = |world: &World| {
        let (handle, keyed) = (world.handle.clone(), keyed.clone());
        Call::new(async move { handle.enqueue(keyed).await })
    };
    let call = send(&world);
    let (first, false) = world.run(call).unwrap() else { panic!("answered before") };
    let call = send(&world);
    assert_eq!(world.run(call).unwrap(), (first, true));
    let call = world.call(enqueue("mail", vec![job("2")]));
    world.run(call).unwrap();
    assert_eq!(world.take("mail", 10).len(), 2);
}

/// Guards promise 3: what a worker has is not handed to another because an answer was lost.
#[test]
fn a_lost_answer_to_a_repeated_receive_leaves_the_delivery_with_its_worker() {
    let attempt = || recado_core::Receive { attempt_id: Some("a1".into()), ..receive("mail", 1) };
    let mut world = World::new();
    world.enqueue("mail", &["1"]);
    let call = world.receive(attempt(), NO_WAIT);
    let first = world.run(call).unwrap();
    let call = world.receive(attempt(), NO_WAIT);
    let second = world.run(call).unwrap();
    assert_eq!(second.jobs[0].0.receipt.nonce, first.jobs[0].0.receipt.nonce);
    let taken = crate::world::taken(first, world.handle.secret());
    drop(second);
    world.quiesce();
    assert!(world.take("mail", 1).is_empty(), "the first answer arrived");
    world.settle_one(&taken[0], ack()).unwrap();
}

#[test]
fn a_first_answer_that_is_found_lost_late_does_not_take_away_what_the_repeat_gave() {
    let attempt = || recado_core::Receive { attempt_id: Some("a1".into()), ..receive("mail", 1) };
    let mut world = World::new();
    world.enqueue("mail", &["1"]);
    let call = world.receive(attempt(), NO_WAIT);
    let first = world.run(call).unwrap();
    let call = world.receive(attempt(), NO_WAIT);
    let taken = crate::world::taken(world.run(call).unwrap(), world.handle.secret());
    drop(first);
    world.quiesce();
    assert!(world.take("mail", 1).is_empty(), "the second answer arrived");
    world.settle_one(&taken[0], ack()).unwrap();
}
