//! Bulk actions go on between commands, and survive a restart.

use std::time::Duration;

use recado_core::{
    Action, Command, Filter, JobState, NewJob, NewTask, Query, Replay, Reply, Select, TaskState, TaskView, When,
};

use crate::world::{Call, World, enqueue, fail, job};

fn run_task(world: &World, action: Action) -> Call<Result<TaskView, recado_shard::Error>> {
    let task = NewTask { queue: "mail".into(), action, reason: Some("test".into()), actor: Default::default() };
    let handle = world.handle.clone();
    Call::new(async move { handle.run_task(task).await })
}

fn fill(world: &mut World, count: usize) {
    for from in (0..count).step_by(250) {
        let jobs = (from..count.min(from + 250)).map(|number| job(&format!("{{\"n\":{number}}}"))).collect();
        let call = world.call(enqueue("mail", jobs));
        world.run(call).unwrap();
    }
}

fn purge() -> Action {
    Action::Purge { states: vec![JobState::Ready, JobState::Delayed] }
}

#[test]
fn a_purge_of_many_answers_when_it_has_ended() {
    let mut world = World::new();
    fill(&mut world, 5_000);
    let call = run_task(&world, purge());
    let view = world.run(call).unwrap();
    assert_eq!((view.state, view.acted), (TaskState::Completed, 5_000));
    assert!(world.take("mail", 10).is_empty());
}

#[test]
fn commands_are_decided_between_the_steps_of_a_task() {
    let mut world = World::new();
    fill(&mut world, 5_000);
    let mut purging = run_task(&world, purge()).begin();
    world.shard.step();
    let mut enqueued = world.call(enqueue("other", vec![job("1")])).begin();
    world.shard.step();
    world.commit();
    world.shard.step();
    assert!(enqueued.poll().is_some(), "a command does not wait for the end of a task");
    assert!(purging.poll().is_none(), "which is not near");
    assert_eq!(world.run(purging).unwrap().acted, 5_000);
}

#[test]
fn a_task_goes_on_after_a_restart() {
    let mut world = World::new();
    fill(&mut world, 5_000);
    let mut purging = run_task(&world, purge()).begin();
    world.shard.step();
    world.shard.step();
    world.commit();
    assert!(purging.poll().is_none());
    let mut world = world.kill(Duration::from_secs(1));
    world.quiesce();
    assert!(world.take("mail", 10).is_empty());
}

fn dead(world: &mut World, payloads: &[&str]) {
    world.enqueue("mail", payloads);
    let mut left = payloads.len();
    while left > 0 {
        // So many that this small log has room for their settles.
        for taken in world.take("mail", left.min(25)) {
            world.settle_one(&taken, fail("broken", false)).unwrap();
            left -= 1;
        }
    }
}

fn replay(patch: Option<&str>) -> Replay {
    Replay {
        select: Select::Filter(Filter::default()),
        patch: patch.map(|patch| patch.as_bytes().to_vec()),
        rate: None,
        halt_after: 0,
        ignore_key: false,
        force: false,
    }
}

#[test]
fn a_replay_with_a_patch_edits_what_it_can_and_counts_the_rest() {
    let mut world = World::new();
    dead(&mut world, &["{1}", "[2]", "{3}"]);
    let call = run_task(&world, Action::Replay(replay(Some("+fixed"))));
    let view = world.run(call).unwrap();
    assert_eq!((view.state, view.matched, view.acted), (TaskState::Completed, 3, 2));
    assert_eq!(view.skipped.iter().map(|(_, count)| count).sum::<u64>(), 1, "{:?}", view.skipped);
    let mut payloads: Vec<String> = world.take("mail", 10).into_iter().map(|job| job.payload).collect();
    payloads.sort();
    assert_eq!(payloads, ["{1}+fixed", "{3}+fixed"]);
    assert_eq!(world.handle.status().unpatched, 1);
}

#[test]
fn a_replay_keeps_to_its_rate() {
    let mut world = World::new();
    dead(&mut world, &["1", "2", "3", "4"]);
    let rate = Some(recado_core::Rate { jobs: 1, per_ms: 1_000 });
    let task = NewTask {
        queue: "mail".into(),
        action: Action::Replay(Replay { rate, ..replay(None) }),
        reason: None,
        actor: Default::default(),
    };
    let call = world.call(Command::StartTask(task));
    let Reply::Task(view) = world.run(call).unwrap() else { panic!("not a task") };
    world.quiesce();
    let mut replayed = world.take("mail", 10).len();
    assert!(replayed <= 1, "{replayed} at once");
    for _ in 0..10 {
        world.pass(Duration::from_secs(1));
        let more = world.take("mail", 10).len();
        assert!(more <= 1, "{more} in one second");
        replayed += more;
    }
    assert_eq!(replayed, 4);
    let handle = world.handle.clone();
    let answer = world.run(Call::new(async move { handle.query(Query::Task(view.id)).await }));
    assert!(matches!(answer, Ok(recado_core::Answer::Task(view)) if view.state == TaskState::Completed));
}

#[test]
fn a_task_gets_past_any_number_of_jobs_that_are_not_meant() {
    let mut world = World::new();
    let later = |number: u64| NewJob { when: When::After(60_000 + number), ..job("{}") };
    for from in [0, 250, 500, 750, 1_000, 1_250] {
        let call = world.call(enqueue("mail", (from..from + 250).map(later).collect()));
        world.run(call).unwrap();
    }
    fill(&mut world, 10);
    let call = run_task(&world, Action::Purge { states: vec![JobState::Ready] });
    let view = world.run(call).unwrap();
    assert_eq!((view.state, view.acted), (TaskState::Completed, 10));
}

#[test]
fn a_filter_finds_the_few_behind_the_many() {
    let mut world = World::new();
    for _ in 0..12 {
        dead(&mut world, &["1"; 100]);
    }
    let rare = NewJob { kind: "rare".into(), ..job("2") };
    let call = world.call(enqueue("mail", vec![rare]));
    world.run(call).unwrap();
    let taken = world.take("mail", 1);
    world.settle_one(&taken[0], fail("broken", false)).unwrap();
    let select = Select::Filter(Filter { kind: Some("rare".into()), ..Filter::default() });
    let call = run_task(&world, Action::Discard { select });
    let view = world.run(call).unwrap();
    assert_eq!((view.state, view.acted), (TaskState::Completed, 1));
}

#[test]
fn a_patch_that_outgrows_the_queues_limit_leaves_the_jobs_dead() {
    let mut world = World::new();
    dead(&mut world, &["{1}", "[2]", "{3}"]);
    let call = run_task(&world, Action::Replay(replay(Some(&"x".repeat(70_000)))));
    let view = world.run(call).unwrap();
    assert_eq!((view.state, view.matched, view.acted), (TaskState::Completed, 3, 0));
    assert_eq!(world.handle.status().unpatched, 3);
    assert!(world.take("mail", 10).is_empty());
}

#[test]
fn payloads_that_grow_by_a_patch_are_replayed_in_as_many_steps_as_they_need() {
    let mut world = World::new();
    // Their queue would take each of them, no batch of this log takes all.
    dead(&mut world, &["{1}"; 40]);
    let call = run_task(&world, Action::Replay(replay(Some(&"x".repeat(60_000)))));
    let view = world.run(call).unwrap();
    assert_eq!((view.state, view.matched, view.acted), (TaskState::Completed, 40, 40));
    let mut world = world.kill(Duration::from_secs(1));
    let mut taken = 0;
    while let Some(job) = world.take("mail", 1).first() {
        assert_eq!(job.payload.len(), 60_003);
        taken += 1;
    }
    assert_eq!(taken, 40);
}

#[test]
fn a_merge_that_breaks_off_costs_its_job_and_not_the_bulk_action() {
    let mut world = World::new();
    dead(&mut world, &["{1}", "{!}", "{3}"]);
    let call = run_task(&world, Action::Replay(replay(Some("+fixed"))));
    let view = world.run(call).unwrap();
    assert_eq!((view.state, view.matched, view.acted), (TaskState::Completed, 3, 2));
}
