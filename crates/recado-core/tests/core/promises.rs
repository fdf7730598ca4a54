//! The promises of design.md section 3 that the core can keep or break alone. (1, durability, is the log's.)

use std::collections::BTreeSet;

use recado_core::{
    Action, Actor, Answer, Command, Enqueue, Failure, Filter, JobId, JobState, NewJob, NewTask, Outcome, Query,
    Receive, Rejection, Replay, Reply, Select, Settle, StaleReason,
};

use crate::script::check;
use crate::words::{self, Line};
use crate::world::{Given, World};

fn configure(world: &mut World, options: &str) {
    let mut line = Line::parse(options);
    let options = words::queue_options(&mut line);
    let command = recado_core::Configure {
        queue: "q".into(),
        options,
        source: recado_core::Source::Api,
        condition: Default::default(),
        actor: Actor::default(),
    };
    world.act(&Command::Configure(command)).unwrap();
}

fn enqueue(world: &mut World, jobs: &[&str]) -> Result<Vec<JobId>, Rejection> {
    let jobs: Vec<NewJob> = jobs.iter().map(|job| words::new_job(Line::parse(job))).collect();
    match world.act(&Command::Enqueue(Enqueue { queue: "q".into(), create: true, jobs, ..Enqueue::default() }))? {
        Reply::Enqueued { jobs, .. } => Ok(jobs.into_iter().map(|job| job.id).collect()),
        other => panic!("{other:?}"),
    }
}

fn receive(world: &mut World, max: usize) -> Vec<Given> {
    let receive =
        Receive { queues: vec![("q".into(), 1)], create: true, max, max_bytes: u64::MAX, ..Receive::default() };
    world.receive(&receive).unwrap().0
}

fn settle(world: &mut World, given: &Given, outcome: Outcome) -> Result<bool, Rejection> {
    let settle = Settle { job: Some(given.id), receipt: given.receipt.as_str().into(), outcome };
    match world.act(&Command::Settle(settle))? {
        Reply::Settled(settled) => Ok(settled.repeated),
        other => panic!("{other:?}"),
    }
}

fn fail() -> Outcome {
    Outcome::Fail(Failure { kind: "boom".into(), retryable: true, ..Failure::default() })
}

fn state(world: &World, id: JobId) -> Option<JobState> {
    match world.ask(&Query::Job(id)) {
        Ok(Answer::Job(view)) => Some(view.state),
        _ => None,
    }
}

/// What a run of a small service ends with: workers that ack, fail, forget, give back, and a process that dies.
fn churn(world: &mut World, ids: &[JobId], mut each: impl FnMut(&mut World, &[Given])) {
    for _ in 0..2_000 {
        let given = receive(world, 3);
        each(world, &given);
        for given in given {
            let _ = match world.luck() % 8 {
                0..=2 => settle(world, &given, Outcome::Ack { result: None }),
                3 | 4 => settle(world, &given, fail()),
                5 => settle(world, &given, Outcome::Release { delay_ms: Some(50), reason: None }),
                _ => Ok(false),
            };
        }
        world.now += world.luck() % 1_500;
        match world.luck() % 20 {
            0 => world.restart(100),
            1 => world.copy_all(),
            _ => {}
        }
        let is_over = |id: &JobId| state(world, *id).is_none_or(|state| state.is_final() || state == JobState::Dead);
        if ids.iter().all(is_over) {
            return;
        }
    }
    panic!("not all jobs came to an end");
}

const CHURN: &str = "visibility=1s backoff=fixed:500ms attempts=4 deliveries=1000 keep=100d:100000";

#[test]
fn promise_2_at_least_once() {
    for seed in 0..5 {
        let mut world = World::new(seed);
        configure(&mut world, CHURN);
        let ids = enqueue(&mut world, &["a"; 30]).unwrap();
        let mut seen = BTreeSet::new();
        churn(&mut world, &ids, |_, given| seen.extend(given.iter().map(|given| given.id)));
        assert_eq!(seen.len(), ids.len(), "every job was delivered");
        for id in &ids {
            assert!(matches!(state(&world, *id), Some(JobState::Completed | JobState::Dead)), "{id} did not disappear");
        }
    }
}

#[test]
fn promise_3_hidden_while_in_flight() {
    for seed in 0..5 {
        let mut world = World::new(seed);
        configure(&mut world, "visibility=10s attempts=1000");
        enqueue(&mut world, &["a"; 20]).unwrap();
        let mut hidden: Vec<Given> = Vec::new();
        for round in 0..300 {
            let now = world.now;
            for given in receive(&mut world, 2) {
                let before = hidden.iter().find(|before| before.id == given.id);
                assert!(before.is_none_or(|before| before.visible_at <= now), "given while hidden");
                hidden.retain(|before| before.id != given.id);
                hidden.push(given);
            }
            world.now += world.luck() % 2_000;
            if round % 50 == 49 {
                // The process dies: what was handed out stays hidden.
                world.restart(1);
            }
            if round % 7 == 6 {
                world.copy(5);
                world.trim();
            }
        }
    }
}

#[test]
fn promise_4_fenced() {
    let mut world = World::new(4);
    configure(&mut world, "visibility=1s attempts=10");
    enqueue(&mut world, &["a"]).unwrap();
    let first = receive(&mut world, 1).remove(0);
    world.now += 1_000;
    // Late, and not overtaken: it counts, once.
    assert_eq!(settle(&mut world, &first, Outcome::Release { delay_ms: None, reason: None }), Ok(false));
    assert_eq!(settle(&mut world, &first, Outcome::Release { delay_ms: None, reason: None }), Ok(true));
    let second = receive(&mut world, 1).remove(0);
    assert!(second.fence > first.fence);
    world.now += 1_000;
    let third = receive(&mut world, 1).remove(0);
    let before = world.state.digest();
    for outcome in [Outcome::Ack { result: None }, fail(), Outcome::Extend { visibility_ms: None, progress: None }] {
        let refused = settle(&mut world, &second, outcome).unwrap_err();
        assert!(matches!(refused, Rejection::Stale { reason: StaleReason::ReceivedAgain, .. }), "{refused}");
    }
    assert_eq!(world.state.digest(), before, "an overtaken settle changes nothing");
    assert_eq!(settle(&mut world, &third, Outcome::Ack { result: None }), Ok(false));
    world.restart(0);
    assert_eq!(settle(&mut world, &third, Outcome::Ack { result: None }), Ok(true));
    // Each row of what overtakes is a line of a script in leases, keys and operate.
}

#[test]
fn promise_5_finite() {
    for seed in 0..5 {
        let mut world = World::new(seed);
        configure(&mut world, CHURN);
        let ids = enqueue(&mut world, &["a"; 20]).unwrap();
        churn(&mut world, &ids, |_, given| assert!(given.iter().all(|given| given.attempts <= 4), "4 attempts"));
        for id in ids {
            let Ok(Answer::Job(view)) = world.ask(&Query::Job(id)) else { panic!("{id} is kept") };
            assert!(view.attempts <= 4);
            if view.state == JobState::Dead {
                assert_eq!(view.attempts, 4, "{id} had all its attempts");
                assert!(view.errors.len() >= 4, "with its errors kept");
            }
        }
    }
}

#[test]
fn promise_6_one_effect() {
    for seed in 0..8 {
        let mut world = World::new(seed);
        configure(&mut world, CHURN);
        let ids = enqueue(&mut world, &["a key=k", "b key=k", "c key=k", "d key=n", "e key=n"]).unwrap();
        let of_k: Vec<JobId> = ids[..3].to_vec();
        churn(&mut world, &ids, |world, _| {
            let out = |all: &[JobId]| all.iter().filter(|id| state(world, **id) == Some(JobState::InFlight)).count();
            assert!(out(&of_k) <= 1 && out(&ids[3..]) <= 1, "one of a key is in flight");
        });
        for all in [&ids[..3], &ids[3..]] {
            let mut ran = 0;
            for id in all {
                let Ok(Answer::Job(view)) = world.ask(&Query::Job(*id)) else { panic!("{id} is kept") };
                let acked = view.state == JobState::Completed && view.attempts > 0 && view.result.is_none();
                ran += usize::from(acked);
            }
            let completed = all.iter().filter(|id| state(&world, **id) == Some(JobState::Completed)).count();
            let dead = all.iter().filter(|id| state(&world, **id) == Some(JobState::Dead)).count();
            assert_eq!(completed + dead, all.len());
            assert!(completed == 0 || ran >= 1, "somebody ran");
        }
    }
    check(
        r#"
        t=0 enqueue q a key=k ; b key=k ; c key=k -> a b c created
        receive q max=3                      -> a
        restart                              ->
        receive q max=3                      -> - idempotency-key-in-flight
        ack a done                           -> ok
        job b                                -> completed result=done
        job c                                -> completed result=done
        "#,
    );
}

#[test]
fn promise_7_no_silent_loss() {
    let mut world = World::new(7);
    configure(&mut world, "visibility=1s attempts=1 keep=1ms deadmax=3 maxreplays=1");
    let ids = enqueue(&mut world, &["a", "b", "c", "d"]).unwrap();
    for given in receive(&mut world, 3) {
        settle(&mut world, &given, fail()).unwrap();
    }
    let late = receive(&mut world, 1).remove(0);
    world.now += 1_000;
    // Beyond the limit deaths are not refused and nothing is pushed out; producers are.
    assert!(enqueue(&mut world, &["x"]).is_err());
    world.now += 400 * 86_400_000;
    world.restart(1_000);
    world.copy_all();
    for id in &ids {
        assert_eq!(state(&world, *id), Some(JobState::Dead), "{id} stays");
    }
    // The ways out: a late ack, a replay, a discard; the operator's are recorded.
    settle(&mut world, &late, Outcome::Ack { result: None }).unwrap();
    let replay = Replay {
        select: Select::Ids(vec![ids[0]]),
        patch: None,
        rate: None,
        halt_after: 5,
        ignore_key: false,
        force: false,
    };
    for action in [Action::Replay(replay), Action::Discard { select: Select::Filter(Filter::default()) }] {
        world.task(NewTask { queue: "q".into(), action, reason: None, actor: Actor(Some("ann".into())) }).unwrap();
        world.step_tasks(usize::MAX);
    }
    let page = recado_core::Page { cursor: None, limit: 10 };
    let audit = Query::Audit { queue: Some("q".into()), actor: Some("ann".into()), action: None, page };
    let Ok(Answer::Audit { entries, .. }) = world.ask(&audit) else { panic!("there is a trail") };
    let actions: Vec<&str> = entries.iter().map(|entry| &*entry.action).collect();
    assert_eq!(actions, ["discarded", "replayed"]);
    assert_eq!(state(&world, ids[0]), Some(JobState::Ready));
    assert_eq!(state(&world, ids[1]), None);
}

#[test]
fn promise_8_all_or_nothing() {
    let mut world = World::new(8);
    configure(&mut world, "maxsize=8 depth=5 ordered");
    enqueue(&mut world, &["a dedup=k:1h", "b"]).unwrap();
    let before = world.state.digest();
    let bad = [
        ("payload=123456789", Some(2)),
        ("p=1", Some(2)),
        ("dedup=k:1h:conflict payload=other", Some(2)),
        ("type=mail.send ; more", None),
    ];
    for (bad, place) in bad {
        let bad = format!("x {}", bad.split(" ; ").next().unwrap());
        let mut jobs = vec!["c", "d key=new type=other", bad.as_str()];
        if place.is_none() {
            // One more than fits.
            jobs.push("e");
        }
        let refused = enqueue(&mut world, &jobs).unwrap_err();
        let named = match &refused {
            Rejection::PayloadTooLarge { index, .. }
            | Rejection::Invalid { index, .. }
            | Rejection::DuplicateConflict { index, .. } => Some(*index),
            _ => None,
        };
        assert_eq!(named, place, "{refused}");
        assert_eq!(world.state.digest(), before, "nothing of a refused batch is in: {bad}");
        world.check_replay();
    }
    assert_eq!(enqueue(&mut world, &["c", "d", "e"]).unwrap().len(), 3);
}

#[test]
fn promise_9_bounded() {
    let mut world = World::new(9);
    configure(&mut world, "depth=10 idem=1h:3 deadmax=2 attempts=1 maxsize=10");
    for n in 0..1_000 {
        let _ = enqueue(&mut world, &[format!("j{n} key=k{n} dedup=d{n}:1h").as_str()]);
        let _ = enqueue(&mut world, &[format!("j{n} type=t{n}").as_str()]);
    }
    let Ok(Answer::Stats(stats)) = world.ask(&Query::Stats("q".into())) else { panic!("there are figures") };
    assert_eq!((stats.ready, stats.depth()), (10, 10));
    world.state.set_memory_limit(world.state.memory_bytes());
    for given in receive(&mut world, 1_000) {
        settle(&mut world, &given, fail()).unwrap();
    }
    configure(&mut world, "depth=1000");
    let refused = enqueue(&mut world, &["more"]).unwrap_err();
    assert!(matches!(refused, Rejection::OutOfMemory { .. }), "{refused}");
    world.state.set_memory_limit(u64::MAX);
    enqueue(&mut world, &["more"]).unwrap();
    // The log is bounded by what lives, whatever happened.
    for n in 0..200 {
        enqueue(&mut world, &[format!("n{n}").as_str()]).unwrap();
        for given in receive(&mut world, 9) {
            settle(&mut world, &given, Outcome::Ack { result: None }).unwrap();
        }
        world.now += 100_000_000;
        world.copy_all();
    }
    let bytes: usize = world.log.iter().map(|batch| batch.head.len() + batch.tail.len()).sum();
    assert!(bytes < 20_000, "{bytes} bytes of log for a few dead jobs");
    for n in 0..3 {
        enqueue(&mut world, &[format!("q{n} p={n} type=k{n}").as_str()]).unwrap();
    }
    world.check_replay();
}

#[test]
fn promise_10_order() {
    for seed in 0..5 {
        let mut world = World::new(seed);
        configure(&mut world, "ordered visibility=1s backoff=fixed:300ms attempts=3 deliveries=1000");
        let names: Vec<String> = (0..30).map(|n| format!("j{n} group=g{}", n % 3)).collect();
        let ids = enqueue(&mut world, &names.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
        let mut at = [0usize; 3];
        churn(&mut world, &ids, |world, given| {
            for given in given {
                let number = ids.iter().position(|id| *id == given.id).unwrap();
                let (group, place) = (number % 3, number / 3);
                assert!(place >= at[group], "job {number} was received after its successor");
                let before = (0..place).map(|earlier| ids[earlier * 3 + group]);
                let over = |id: JobId| state(world, id).is_some_and(|s| s.is_final() || s == JobState::Dead);
                assert!(before.into_iter().all(over), "job {number} came before an earlier one had ended");
                at[group] = place;
            }
        });
    }
}
