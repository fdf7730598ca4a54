//! Inbound webhooks: items of the log, bounded, that change what edges have read.

use recado_core::{Actor, Answer, Command, HOOKS_MAX, PutHook, Query, Rejection, Reply, Source};

use crate::world::World;

fn put(world: &mut World, name: &str, text: &str, source: Source) -> Result<Reply, Rejection> {
    world.run(&Command::PutHook(PutHook { hook: name.into(), text: text.into(), source, actor: Actor::default() }))
}

fn remove(world: &mut World, name: &str, source: Source) -> Result<Reply, Rejection> {
    world.run(&Command::RemoveHook { hook: name.into(), source, actor: Actor::default() })
}

fn there(world: &mut World) -> Vec<(String, String, Source)> {
    let Ok(Answer::Hooks(hooks)) = world.ask(&Query::Hooks) else { panic!("hooks are asked for") };
    hooks.into_iter().map(|hook| (hook.name.into(), hook.text.to_string(), hook.source)).collect()
}

const CREATED: Result<Reply, Rejection> = Ok(Reply::HookPut { created: true });
const CHANGED: Result<Reply, Rejection> = Ok(Reply::HookPut { created: false });

#[test]
fn a_hook_outlives_its_record_and_ends_when_it_is_removed() {
    let mut world = World::new(1);
    assert_eq!(put(&mut world, "stripe", "{}", Source::Api), CREATED);
    assert_eq!(put(&mut world, "github", "[1]", Source::File), CREATED);
    assert_eq!(put(&mut world, "slack", "[2]", Source::Api), CREATED);
    assert_eq!(put(&mut world, "slack", "[3]", Source::Api), CHANGED);
    assert_eq!(remove(&mut world, "stripe", Source::Api), Ok(Reply::Done));
    assert!(matches!(remove(&mut world, "stripe", Source::Api), Err(Rejection::HookNotFound { .. })));
    let nearest = Some("github".into());
    let not_there = Err(Rejection::HookNotFound { name: "gitub".into(), nearest });
    assert_eq!(remove(&mut world, "gitub", Source::Api), not_there);
    let managed = Err(Rejection::ManagedByFile("github".into()));
    assert_eq!(put(&mut world, "github", "[1]", Source::Api), managed);
    assert_eq!(remove(&mut world, "github", Source::Api), managed);
    world.copy_all();
    world.trim();
    world.check_replay();
    world.restart(1_000);
    let expected = [("github".into(), "[1]".into(), Source::File), ("slack".into(), "[3]".into(), Source::Api)];
    assert_eq!(there(&mut world), expected);
}

#[test]
fn whoever_has_read_them_learns_that_they_changed() {
    let mut world = World::new(2);
    let mut version = world.state.config_version();
    let mut is_new = |world: &World| std::mem::replace(&mut version, world.state.config_version()) != version;
    put(&mut world, "a", "{}", Source::Api).unwrap();
    assert!(is_new(&world));
    put(&mut world, "a", "{}", Source::Api).unwrap();
    assert!(!is_new(&world), "the same is no change");
    put(&mut world, "a", "[]", Source::Api).unwrap();
    assert!(is_new(&world));
    world.copy_all();
    assert!(!is_new(&world), "a copy is no change");
    remove(&mut world, "a", Source::Api).unwrap();
    assert!(is_new(&world));
}

#[test]
fn they_are_bounded() {
    let mut world = World::new(3);
    for number in 0..HOOKS_MAX {
        assert_eq!(put(&mut world, &format!("hook-{number}"), "{}", Source::Api), CREATED);
    }
    let full = Err(Rejection::TooManyHooks { limit: HOOKS_MAX as u64 });
    assert_eq!(put(&mut world, "one-more", "{}", Source::Api), full);
    assert_eq!(put(&mut world, "hook-0", "[]", Source::Api), CHANGED);
    remove(&mut world, "hook-1", Source::Api).unwrap();
    assert_eq!(put(&mut world, "one-more", "{}", Source::Api), CREATED);
}
