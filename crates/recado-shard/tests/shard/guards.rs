//! Guards: work that is done once, over trims, crashes and a full disk.

use std::time::Duration;

use recado_core::{Command, GuardAction, GuardBegin, GuardUse, Rejection, Reply};
use recado_shard::{Error, Once};

use crate::space::fill;
use crate::trim::forgetful;
use crate::world::{Call, World, ack, fail, receive};

const DAY_MS: u64 = 86_400_000;

fn begin(world: &mut World, key: &str) -> Result<Once, Error> {
    let begin =
        GuardBegin { queue: "mail".into(), key: key.into(), ttl_ms: DAY_MS, hold_ms: 60_000, ..GuardBegin::default() };
    let handle = world.handle.clone();
    world.run(Call::new(async move { handle.begin(begin).await }))
}

fn begin_new(world: &mut World, key: &str) -> Box<str> {
    match begin(world, key) {
        Ok(Once::New(token)) => token,
        other => panic!("{other:?}"),
    }
}

fn act(world: &mut World, key: &str, token: &str, action: GuardAction) -> Result<Reply, Error> {
    let wanted = GuardUse { queue: "mail".into(), key: key.into(), token: token.into(), action };
    let call = world.call(Command::GuardUse(wanted));
    world.run(call)
}

fn complete(result: &str) -> GuardAction {
    GuardAction::Complete { result: Some(result.into()) }
}

#[test]
fn what_was_answered_survives_trims_and_crashes() {
    let mut world = World::new();
    forgetful(&mut world, "mail");
    let done = begin_new(&mut world, &"k".repeat(256));
    act(&mut world, &"k".repeat(256), &done, complete(&"r".repeat(64 << 10))).unwrap();
    let held = begin_new(&mut world, "held");
    let first = world.handle.status().log.first;
    while world.handle.status().log.first.0 <= first.0 + (1 << 20) {
        world.enqueue("mail", &[&"x".repeat(20_000)]);
        let taken = world.take("mail", 1);
        world.settle_one(&taken[0], ack()).unwrap();
        world.pass(Duration::from_millis(10));
    }
    let mut world = world.kill(Duration::from_secs(1));
    assert_eq!(begin(&mut world, &"k".repeat(256)).unwrap(), Once::Done(Some("r".repeat(64 << 10).into())));
    assert!(matches!(begin(&mut world, "held").unwrap(), Once::Processing(_)));
    act(&mut world, "held", &held, GuardAction::Complete { result: None }).unwrap();
    assert_eq!(begin(&mut world, "held").unwrap(), Once::Done(None));
}

#[test]
fn on_a_full_disk_what_is_begun_can_be_ended() {
    let mut world = World::new();
    forgetful(&mut world, "mail");
    let mut begun = vec![("before".to_owned(), begin_new(&mut world, "before"))];
    let done = begin_new(&mut world, "done");
    act(&mut world, "done", &done, complete("1")).unwrap();
    fill(&mut world);
    match act(&mut world, &begun[0].0, &begun[0].1, complete(&"1".repeat(10_000))) {
        Err(Error::Rejected(Rejection::ResultTooLargeNow { limit, actual: 10_000 })) => assert!(limit < 8 * 1024),
        other => panic!("{other:?}"),
    }
    assert_eq!(begin(&mut world, "done").unwrap(), Once::Done(Some("1".into())), "consumers go on");
    // Guards are begun and jobs handed out only as far as all of it can be ended.
    let mut held = world.take("mail", 5);
    for number in 0.. {
        let key = format!("after-{number}");
        match begin(&mut world, &key) {
            Ok(Once::New(token)) if number < 1_000 => begun.push((key, token)),
            Err(Error::StorageFull { .. }) => break,
            other => panic!("{other:?}"),
        }
    }
    assert!(begun.len() > 10, "{}", begun.len());
    let call = world.receive(receive("mail", 1), Duration::ZERO);
    if let Ok(received) = world.run(call) {
        held.extend(crate::world::taken(received, world.handle.secret()));
    }
    assert_eq!(held.len(), 5, "what is begun has its room");
    for (key, token) in &begun {
        act(&mut world, key, token, complete(&"1".repeat(6 * 1024))).unwrap();
    }
    for job in &held {
        world.settle_one(job, fail(&"x".repeat(8_000), false)).unwrap();
    }
}
