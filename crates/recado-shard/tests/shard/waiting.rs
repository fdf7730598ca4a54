//! Long polls: woken by events, first come first served, never handed a job that nobody takes.

use std::time::Duration;

use recado_core::{Cancel, CancelTarget, Command, NewJob, Outcome, Query, Receive, Reply};
use recado_shard::{Error, Next};

use crate::world::{Call, World, ack, enqueue, fail, job, receive, types};

const WAIT: Duration = Duration::from_secs(20);

#[test]
fn a_waiter_gets_the_job_in_the_batch_that_made_it() {
    let mut world = World::new();
    let mut waiting = world.receive(receive("mail", 10), WAIT).begin();
    world.quiesce();
    assert!(waiting.poll().is_none());
    assert_eq!(world.handle.status().waiting, 1);
    let mut enqueued = world.call(enqueue("mail", vec![job("1")])).begin();
    world.step();
    world.commit();
    world.step();
    assert!(enqueued.poll().is_some());
    let received = waiting.poll().expect("one sync for both").unwrap();
    assert_eq!(&*received.jobs[0].1.payload, b"1");
    received.guard.confirm();
    assert_eq!(world.handle.status().waiting, 0);
}

#[test]
fn a_wait_ends_empty_at_its_deadline_and_not_before() {
    let mut world = World::new();
    let mut waiting = world.receive(receive("mail", 1), WAIT).begin();
    world.quiesce();
    world.pass(WAIT - Duration::from_millis(1));
    assert!(waiting.poll().is_none());
    world.pass(Duration::from_millis(1));
    let received = waiting.poll().expect("the wait is over").unwrap();
    assert!(received.jobs.is_empty());
}

#[test]
fn the_shard_sleeps_until_the_first_deadline() {
    let mut world = World::new();
    let _waiting = world.receive(receive("mail", 1), Duration::from_millis(300)).begin();
    world.quiesce();
    let elapsed = recado_shard::Clock::elapsed(&*world.clock);
    assert_eq!(world.step(), Next::At(elapsed + Duration::from_millis(300)));
}

#[test]
fn waiters_are_served_in_the_order_they_came() {
    let mut world = World::new();
    let mut waiting: Vec<_> = (0..5).map(|_| world.receive(receive("mail", 1), WAIT).begin()).collect();
    world.quiesce();
    world.enqueue("mail", &["1", "2", "3"]);
    world.quiesce();
    for (number, call) in waiting.iter_mut().enumerate() {
        match call.poll() {
            Some(received) => {
                let received = received.unwrap();
                assert_eq!(received.jobs[0].1.payload, (number + 1).to_string().as_bytes());
                received.guard.confirm();
            }
            None => assert!(number >= 3, "waiter {number} was passed over"),
        }
    }
}

#[test]
fn a_newcomer_does_not_overtake_who_waits() {
    let mut world = World::new();
    let mut waiting = world.receive(receive("mail", 1), WAIT).begin();
    world.quiesce();
    let _enqueued = world.call(enqueue("mail", vec![job("1")])).begin();
    let mut newcomer = world.receive(receive("mail", 1), Duration::ZERO).begin();
    world.quiesce();
    assert!(newcomer.poll().unwrap().unwrap().jobs.is_empty());
    assert_eq!(waiting.poll().unwrap().unwrap().jobs.len(), 1);
}

#[test]
fn a_closed_waiter_is_skipped_and_a_late_one_gives_back() {
    let mut world = World::new();
    let gone = world.receive(receive("mail", 1), WAIT).begin();
    let mut next = world.receive(receive("mail", 1), WAIT).begin();
    world.quiesce();
    drop(gone);
    world.enqueue("mail", &["1"]);
    world.quiesce();
    let received = next.poll().expect("the next in line has it").unwrap();
    assert_eq!(received.jobs[0].0.job.deliveries, 1, "it was never handed to the one that is gone");
    received.guard.confirm();

    // Gone between decision and commit: the job is handed out for nothing, and comes back.
    let late = world.receive(receive("mail", 1), WAIT).begin();
    let mut heir = world.receive(receive("mail", 1), WAIT).begin();
    world.quiesce();
    let _enqueued = world.call(enqueue("mail", vec![job("2")])).begin();
    world.step();
    drop(late);
    world.quiesce();
    let received = heir.poll().expect("given back to who waits next").unwrap();
    assert_eq!(received.jobs[0].0.job.deliveries, 1, "what never arrived is not counted");
}

#[test]
fn a_waiter_for_other_types_does_not_hide_one_that_can() {
    let mut world = World::new();
    let pick = |kind: &str| Receive { types: types(kind), ..receive("mail", 1) };
    let mut other = world.receive(pick("image"), WAIT).begin();
    let mut able = world.receive(pick("mail"), WAIT).begin();
    world.quiesce();
    let job = NewJob { kind: "mail".into(), schema_version: 1, payload: b"1".to_vec(), ..NewJob::default() };
    let call = world.call(enqueue("mail", vec![job]));
    world.run(call).unwrap();
    world.quiesce();
    assert!(other.poll().is_none());
    assert_eq!(able.poll().unwrap().unwrap().jobs.len(), 1);
}

#[test]
fn a_wait_over_several_queues_is_woken_by_any() {
    let mut world = World::new();
    let both = Receive { queues: vec![("a".into(), 1), ("b".into(), 1)], strict: true, ..receive("a", 1) };
    let mut waiting = world.receive(both, WAIT).begin();
    world.quiesce();
    world.enqueue("b", &["1"]);
    world.quiesce();
    assert_eq!(waiting.poll().unwrap().unwrap().jobs.len(), 1);
}

#[test]
fn a_released_a_failed_and_a_delayed_job_wake_too() {
    let mut world = World::new();
    let ids = world.enqueue("mail", &["1"]);
    let taken = world.take("mail", 1);
    let mut waiting = world.receive(receive("mail", 1), WAIT).begin();
    world.quiesce();
    world.settle_one(&taken[0], fail("once", true)).unwrap();
    world.quiesce();
    assert!(waiting.poll().is_none(), "it is in its backoff");
    world.pass(Duration::from_secs(15));
    let received = waiting.poll().expect("its backoff is over").unwrap();
    assert_eq!(received.jobs[0].0.job.id, ids[0]);
    received.guard.confirm();
}

#[test]
fn a_cancel_wakes_the_worker_that_has_the_job_once() {
    let mut world = World::new();
    let ids = world.enqueue("mail", &["1"]);
    let named = || Receive { worker: Some("w1".into()), ..receive("mail", 1) };
    let call = world.receive(named(), WAIT);
    world.run(call).unwrap().guard.confirm();
    let mut waiting = world.receive(named(), WAIT).begin();
    let stranger = Receive { worker: Some("w2".into()), ..receive("mail", 1) };
    let mut stranger = world.receive(stranger, WAIT).begin();
    world.quiesce();
    let target = CancelTarget::Ids(ids.clone());
    let call = world.call(Command::Cancel(Cancel { target, reason: None, actor: Default::default() }));
    assert!(matches!(world.run(call).unwrap(), Reply::Cancelled(_)));
    world.quiesce();
    let told = waiting.poll().expect("the worker is woken").unwrap();
    assert_eq!((told.jobs.len(), told.cancel_requested), (0, ids.clone()));
    assert!(stranger.poll().is_none());
    // It knows: the same news does not end its next wait.
    let mut waiting = world.receive(named(), WAIT).begin();
    world.quiesce();
    assert!(waiting.poll().is_none());
    world.pass(WAIT);
    assert_eq!(waiting.poll().unwrap().unwrap().cancel_requested, ids);
}

#[test]
fn a_stop_ends_waits_with_empty_answers_and_refuses_what_comes_later() {
    let mut world = World::new();
    world.enqueue("mail", &["1"]);
    let mut waiting = world.receive(receive("other", 1), WAIT).begin();
    let mut enqueued = world.call(enqueue("mail", vec![job("2")])).begin();
    world.shard.begin_stop();
    assert!(matches!(world.call(enqueue("mail", vec![job("3")])).poll(), Some(Err(Error::Stopping))));
    world.quiesce();
    assert_eq!(world.step(), Next::Ended);
    assert!(waiting.poll().unwrap().unwrap().jobs.is_empty());
    assert!(enqueued.poll().unwrap().is_ok(), "what had come in is decided");
    assert!(world.handle.status().stopping);
}

#[test]
fn wait_job_shows_an_end_that_the_queue_does_not_keep() {
    let mut world = World::new();
    crate::trim::forgetful(&mut world, "mail");
    let ids = world.enqueue("mail", &["1", "2"]);
    let ask = |world: &World, id, wait| {
        let handle = world.handle.clone();
        Call::new(async move { handle.wait_job(id, wait).await })
    };
    let mut overdue = ask(&world, ids[0], Duration::from_millis(1)).begin();
    let mut waits: Vec<_> = [ids[0], ids[0], ids[1]].map(|id| ask(&world, id, WAIT).begin()).into();
    world.pass(Duration::from_secs(1));
    world.pass(Duration::from_secs(1));
    assert_eq!(overdue.poll().expect("its wait is over").unwrap().state, recado_core::JobState::Ready);
    let taken = world.take("mail", 1);
    world.settle_one(&taken[0], Outcome::Ack { result: Some(b"42".to_vec()) }).unwrap();
    let cancel = Cancel { target: CancelTarget::Ids(vec![ids[1]]), reason: None, actor: Default::default() };
    let call = world.call(Command::Cancel(cancel));
    world.run(call).unwrap();
    world.quiesce();
    let mut ends = waits.iter_mut().map(|wait| wait.poll().expect("it has ended").unwrap());
    for _ in 0..2 {
        let end = ends.next().unwrap();
        assert!(end.state == recado_core::JobState::Completed && end.result.is_some(), "{end:?}");
    }
    assert_eq!(ends.next().unwrap().state, recado_core::JobState::Cancelled);
    for id in ids {
        let call = ask(&world, id, WAIT);
        assert!(world.run(call).is_err(), "it is gone");
    }
}

#[test]
fn wait_job_answers_when_the_job_has_ended_or_the_wait_is_over() {
    let mut world = World::new();
    let ids = world.enqueue("mail", &["1"]);
    let ask = |world: &World, wait| {
        let (handle, id) = (world.handle.clone(), ids[0]);
        Call::new(async move { handle.wait_job(id, wait).await })
    };
    let mut impatient = ask(&world, Duration::from_secs(1)).begin();
    let mut patient = ask(&world, WAIT).begin();
    world.pass(Duration::from_secs(1));
    world.pass(Duration::from_secs(1));
    assert_eq!(impatient.poll().expect("its wait is over").unwrap().state, recado_core::JobState::Ready);
    assert!(patient.poll().is_none());
    let taken = world.take("mail", 1);
    world.settle_one(&taken[0], ack()).unwrap();
    world.quiesce();
    assert_eq!(patient.poll().expect("it has ended").unwrap().state, recado_core::JobState::Completed);
    let mut late = ask(&world, WAIT).begin();
    world.quiesce();
    assert!(late.poll().is_some(), "an ended job answers at once");
    let handle = world.handle.clone();
    let unknown = Call::new(async move { handle.query(Query::Job(recado_core::JobId(1))).await });
    assert!(matches!(world.run(unknown), Err(Error::Rejected(_))));
}

fn delete(world: &mut World, queue: &str) {
    let call = world.call(Command::DeleteQueue {
        queue: queue.into(),
        force: true,
        condition: Default::default(),
        actor: Default::default(),
    });
    world.run(call).unwrap();
    world.quiesce();
}

#[test]
fn a_queue_deleted_under_a_waiter_is_not_made_again_by_it() {
    let mut world = World::new();
    let mut waiting = world.receive(receive("mail", 1), WAIT).begin();
    world.quiesce();
    delete(&mut world, "mail");
    let gone = Error::Rejected(recado_core::Rejection::QueueNotFound { name: "mail".into(), nearest: None });
    assert_eq!(waiting.poll().expect("it is told").err().map(|error| error.to_string()), Some(gone.to_string()));
    let handle = world.handle.clone();
    let query = Call::new(async move { handle.query(Query::Queue("mail".into())).await });
    assert!(world.run(query).is_err(), "it stays deleted");
}

#[test]
fn a_waiter_follows_the_name_of_a_queue_that_was_deleted_and_made_again() {
    let mut world = World::new();
    let mut waiting = world.receive(receive("mail", 1), WAIT).begin();
    world.quiesce();
    // Deleted and made again within one turn: who waits meets only the new one.
    let delete = Command::DeleteQueue {
        queue: "mail".into(),
        force: false,
        condition: Default::default(),
        actor: Default::default(),
    };
    let _deleted = world.call(delete).begin();
    let _made = world.call(enqueue("mail", Vec::new())).begin();
    world.quiesce();
    assert!(waiting.poll().is_none());
    world.enqueue("mail", &["1"]);
    world.quiesce();
    let received = waiting.poll().expect("it is served").unwrap();
    assert_eq!(received.jobs.len(), 1);
}

/// A worker whose connection hangs asks anew over another one: what comes then must not go into the first.
#[test]
fn a_wait_that_is_asked_again_ends_and_the_new_one_gets_the_job() {
    let asked =
        |attempt: &str| Receive { worker: Some("w".into()), attempt_id: Some(attempt.into()), ..receive("mail", 1) };
    let mut world = World::new();
    let mut hanging = world.receive(asked("a"), WAIT).begin();
    let mut other = world.receive(asked("b"), WAIT).begin();
    world.quiesce();
    let mut anew = world.receive(asked("a"), WAIT).begin();
    world.quiesce();
    assert!(hanging.poll().expect("it ends").unwrap().jobs.is_empty());
    assert!(other.poll().is_none());
    assert_eq!(world.handle.status().waiting, 2);
    world.enqueue("mail", &["1", "2"]);
    world.quiesce();
    assert_eq!(anew.poll().expect("it has a job").unwrap().jobs.len(), 1);
}
