//! What everything costs: the figures that trimming and the memory limit go by, against what is there.

use recado_core::{
    Action, Actor, Command, Enqueue, Filter, NewTask, PRODUCER_IDLE_MS, PRODUCERS_MAX, Producer, Query, Rejection,
    Replay, Select, TASKS_KEPT_MAX, TASKS_RUNNING_MAX,
};

use crate::script::{Between, Play};
use crate::world::World;

/// Bytes of the log when nothing is in it that could be freed, and what the state says of them.
fn log_and_live(play: &mut Play) -> (u64, u64) {
    play.world.copy_all();
    let bytes: usize = play.world.log.iter().map(|batch| batch.head.len() + batch.tail.len()).sum();
    (bytes as u64, play.world.state.live_bytes())
}

/// Whatever lives is counted: the log can be trimmed to what the state says, which is not far too much either.
#[test]
fn live_bytes_are_what_the_log_needs() {
    let long = "x".repeat(1_000);
    let rows: [(&str, Vec<String>); 15] = [
        ("plain", vec!["enqueue q {n}".into()]),
        ("with keys", vec!["enqueue q {n} group=g{n} key=k{n} dedup=d{n}:1h biz=b{n} attempts=3".into()]),
        ("payload", vec![format!("enqueue q {{n}} payload={long}")]),
        ("patched", vec!["enqueue q {n}".into(), format!("patch {{n}} payload={long}")]),
        ("in flight", vec!["enqueue q {n}".into(), "receive q worker=somebody-with-a-name attempt=a{n}".into()]),
        ("progress", vec!["enqueue q {n}".into(), "receive q".into(), format!("extend {{n}} progress={long}")]),
        ("completed", vec!["enqueue q {n}".into(), "receive q".into(), format!("ack {{n}} {long}")]),
        ("saved result", vec!["enqueue q {n} key=k{n}".into(), "receive q".into(), format!("ack {{n}} {long}")]),
        ("dead", vec!["enqueue q {n}".into(), "receive q".into(), format!("fail {{n}} permanent kind={long}")]),
        ("request", vec!["enqueue q request=r{n}:body producer=p{n}:1 {n}".into()]),
        ("queue", vec!["queue q{n} owner=somebody-with-a-name".into(), format!("pause q{{n}} reason={long}")]),
        (
            "acked and gone",
            vec!["queue q keep=0s".into(), "enqueue q {n}".into(), "receive q".into(), "ack {n}".into()],
        ),
        ("schedule", vec![format!("schedule s{{n}} q every=1s text={long}")]),
        (
            "occurrences",
            ["schedule s{n} q every=1s", "pause schedule s{n}"]
                .into_iter()
                .chain(["+1s fire s{n} j{n}"; 30])
                .map(String::from)
                .collect(),
        ),
        ("task", vec![format!("replay q all patch={long} reason={long}"), format!("purge q reason={long}")]),
    ];
    for (name, lines) in rows {
        let mut play = Play::new(Between::Nothing);
        play.line("t=0 queue q keep=100d:100000 visibility=1h");
        for n in 0..50 {
            for line in &lines {
                let reply = play.line(&line.replace("{n}", &n.to_string()));
                assert!(!reply.starts_with('!'), "{name}: {line} -> {reply}");
            }
        }
        let (log, live) = log_and_live(&mut play);
        assert!(log <= live && live <= 3 * log, "{name}: {log} bytes of log, {live} live");
    }
}

/// What a job or item costs in memory depends on what it is.
#[test]
fn memory_is_counted_by_what_is_there() {
    let long = "x".repeat(1_000);
    let rows: [(&str, &str, u64, u64); 8] = [
        ("plain", "enqueue q {n}", 170, 170),
        ("with a key", "enqueue q {n} key=k{n}", 218, 248),
        ("in flight", "enqueue q {n} | receive q worker={long}", 1_350, 1_600),
        ("completed", "enqueue q {n} | receive q worker={long} | ack {n}", 250, 400),
        ("dead", "enqueue q {n} | receive q worker={long} | fail {n} permanent", 400, 1_000),
        ("producer", "enqueue q producer=p{n}:1 {n}", 220, 300),
        ("note", "enqueue q {n} | receive q | fail {n} permanent kind=k{n} | acknowledge q {n} {long}", 1_400, 3_000),
        ("task", "replay q all reason={long} rate=1/1h", 1_000, 3_000),
    ];
    for (name, lines, min, max) in rows {
        let mut play = Play::new(Between::Nothing);
        play.line("t=0 queue q keep=100d:100000 visibility=1h");
        let before = play.world.state.memory_bytes();
        for n in 0..50 {
            for line in lines.split(" | ") {
                play.line(&line.replace("{n}", &n.to_string()).replace("{long}", &long));
            }
        }
        let bytes = (play.world.state.memory_bytes() - before) / 50;
        assert!((min..=max).contains(&bytes), "{name}: {bytes} bytes");
    }
}

/// Where memory is short, finished jobs go before anybody is refused, oldest first, and only they.
#[test]
fn finished_jobs_make_room() {
    let mut play = Play::new(Between::Nothing);
    play.line("t=0 queue q keep=100d:100000 attempts=1");
    play.line("enqueue q dead ; first ; waits p=0");
    for (job, line) in [("dead", "fail dead"), ("first", "ack first done")] {
        assert_eq!(play.line("receive q"), job);
        play.line(line);
    }
    for n in 0..300 {
        play.line(&format!("+1s enqueue q {n} p=1"));
        play.line("receive q");
        assert_eq!(play.line(&format!("ack {n} done")), "ok");
    }
    let memory = play.world.state.memory_bytes();
    play.world.state.set_memory_limit(memory);
    assert_eq!(play.line("enqueue q more"), "more");
    assert!(play.world.state.memory_bytes() < memory);
    let lines = ["job dead", "job first", "job 0", "job 299", "job waits"];
    let expected = ["dead 1/1", "! gone", "! gone", "completed 1/1 p=1 result=done", "ready"];
    let shown: Vec<String> = lines.iter().map(|line| play.line(line)).collect();
    for (shown, expected) in shown.iter().zip(expected) {
        assert!(shown.starts_with(expected), "{shown}, not {expected}");
    }
    // Nothing finished is left: producers are refused, workers go on.
    play.world.state.set_memory_limit(1);
    assert_eq!(play.line("enqueue q refused"), "! OutOfMemory");
    assert_eq!(play.line("job 299"), "! gone");
    assert_eq!(play.line("receive q"), "waits");
    assert_eq!(play.line("ack waits"), "ok");
    play.world.check_replay();
}

/// Once somebody was refused, producers are let in again only when a part of the budget is free.
#[test]
fn memory_has_two_marks() {
    let mut play = Play::new(Between::Nothing);
    play.line("t=0 queue q keep=0s:0 visibility=1h");
    for n in 0..160 {
        play.line(&format!("enqueue q {n}"));
    }
    let full = play.world.state.memory_bytes();
    play.world.state.set_memory_limit(full);
    assert_eq!(play.world.state.memory_retry_after_ms(play.world.now), None);
    assert_eq!(play.line("enqueue q refused"), "! OutOfMemory");
    let mut acked = 0;
    while play.world.state.memory_bytes() > full - full / 16 {
        assert_eq!(play.line("+10ms enqueue q refused"), "! OutOfMemory", "{acked} are gone");
        play.line("receive q");
        assert_eq!(play.line(&format!("ack {acked}")), "ok");
        acked += 1;
    }
    assert!(acked > 5, "{acked}");
    assert_eq!(play.world.state.memory_retry_after_ms(play.world.now), Some(60_000 / acked));
    while play.line("enqueue q more") == "! OutOfMemory" {
        play.line("receive q");
        play.line(&format!("ack {acked}"));
        acked += 1;
    }
    // Now it is the upper mark again that counts.
    let mut taken = 0;
    while play.line(&format!("enqueue q again{taken}")) != "! OutOfMemory" {
        taken += 1;
    }
    assert!(taken >= 4, "{taken}");
}

#[test]
fn producers_of_a_queue_are_limited() {
    let mut play = Play::new(Between::Nothing);
    play.line("t=0 enqueue q producer=first:1 a");
    let batch = |name: String| {
        let producer = Some(Producer { name: name.into(), seq: 1 });
        Command::Enqueue(Enqueue { queue: "q".into(), create: true, producer, ..Enqueue::default() })
    };
    for n in 1..PRODUCERS_MAX {
        play.world.run(&batch(n.to_string())).unwrap();
    }
    let refused = play.world.run(&batch("more".into())).unwrap_err();
    assert!(matches!(refused, Rejection::QueueFull { reason: "producers", limit: PRODUCERS_MAX, .. }), "{refused}");
    assert_eq!(play.line("enqueue q producer=first:2 b"), "b");
    assert_eq!(play.line("enqueue r producer=other:1 c"), "c created");
}

#[test]
fn at_the_limit_the_producer_that_was_idle_longest_gives_way_after_seven_days() {
    let mut play = Play::new(Between::Nothing);
    for line in ["t=0 enqueue q producer=first:1 a", "enqueue q producer=second:1 b", "enqueue r producer=first:1 c"] {
        play.line(line);
    }
    for n in 2..PRODUCERS_MAX {
        let producer = Some(Producer { name: n.to_string().into(), seq: 1 });
        play.world.run(&Command::Enqueue(Enqueue { queue: "q".into(), producer, ..Enqueue::default() })).unwrap();
    }
    assert_eq!(play.line("+7d enqueue q producer=first:1 d"), "duplicate", "nobody is forgotten for age alone");
    assert_eq!(play.line("enqueue q producer=first:2 d"), "d");
    assert_eq!(play.line("enqueue q producer=fresh:2 e"), "! gap expected=1");
    assert_eq!(play.line("enqueue q producer=second:1 e"), "duplicate", "a refused batch takes nobody's place");
    assert_eq!(play.line("enqueue q producer=fresh:1 e"), "e");
    assert_eq!(play.line("enqueue q producer=first:2 f"), "duplicate", "it was not idle");
    assert_eq!(play.line("enqueue r producer=first:1 f"), "duplicate", "another queue's");
    assert_eq!(play.line("enqueue q producer=second:2 f"), "! gap expected=1", "this one gave way");
    play.world.check_replay();
    play.world.copy_all();
    play.world.check_replay();
    play.line("delete q force");
    play.world.check_replay();
}

#[test]
fn an_idle_producer_stays_until_seven_days_are_over() {
    let mut play = Play::new(Between::Nothing);
    play.line("t=0 enqueue q producer=0:1 a");
    for n in 1..PRODUCERS_MAX {
        let producer = Some(Producer { name: n.to_string().into(), seq: 1 });
        play.world.run(&Command::Enqueue(Enqueue { queue: "q".into(), producer, ..Enqueue::default() })).unwrap();
    }
    play.world.now += PRODUCER_IDLE_MS - 1;
    assert_eq!(play.line("enqueue q producer=fresh:1 b"), "! full producers 100001/100000");
    play.world.now += 1;
    assert_eq!(play.line("enqueue q producer=fresh:1 b"), "b");
}

#[test]
fn bulk_actions_are_limited() {
    let mut play = Play::new(Between::Nothing);
    play.line("t=0 queue q attempts=1");
    play.line("enqueue q a");
    play.line("receive q");
    play.line("fail a");
    let start = |world: &mut World, action: Action| {
        world.task(NewTask { queue: "q".into(), action, reason: None, actor: Actor::default() })
    };
    for _ in 0..=TASKS_KEPT_MAX {
        start(&mut play.world, Action::Purge { states: Vec::new() }).unwrap();
        play.world.step_tasks(1);
    }
    play.world.tick();
    let task = |world: &World, id| world.ask(&Query::Task(id)).is_ok();
    assert!(play.world.state.running_tasks().is_empty());
    play.line("steps off");
    let replay = Action::Replay(Replay {
        select: Select::Filter(Filter::default()),
        patch: None,
        rate: Some(recado_core::Rate { jobs: 1, per_ms: 3_600_000 }),
        halt_after: 0,
        ignore_key: false,
        force: false,
    });
    let mut ids = Vec::new();
    for _ in 0..TASKS_RUNNING_MAX {
        ids.push(start(&mut play.world, replay.clone()).unwrap().id);
    }
    let refused = start(&mut play.world, replay).unwrap_err();
    assert!(matches!(refused, Rejection::QueueFull { reason: "tasks", .. }), "{refused}");
    let known = (1..=ids[TASKS_RUNNING_MAX - 1]).filter(|id| task(&play.world, *id)).count();
    assert_eq!(known, TASKS_RUNNING_MAX + TASKS_KEPT_MAX, "the oldest finished one is forgotten, no running one");
    play.world.check_replay();
}
