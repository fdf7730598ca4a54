//! Schemas of job types: items of the log, bounded, and fixed while there are jobs that they have checked.

use recado_core::{
    Actor, Answer, Command, Enqueue, NewJob, Page, PutSchema, Query, Rejection, Reply, SCHEMA_BYTES_SUM_MAX,
    SCHEMAS_MAX, Source,
};

use crate::world::World;

fn put(world: &mut World, kind: &str, version: u32, text: &str, source: Source) -> Result<Reply, Rejection> {
    let (kind, text) = (kind.into(), text.into());
    world.run(&Command::PutSchema(PutSchema { kind, version, text, source, actor: Actor::default() }))
}

fn remove(world: &mut World, kind: &str, version: u32) -> Result<Reply, Rejection> {
    world.run(&Command::RemoveSchema { kind: kind.into(), version, source: Source::Api, actor: Actor::default() })
}

fn enqueue(world: &mut World, kind: &str, version: u32) {
    let job = NewJob { kind: kind.into(), schema_version: version, payload: b"1".to_vec(), ..NewJob::default() };
    let enqueue = Enqueue { queue: "q".into(), create: true, jobs: vec![job], ..Enqueue::default() };
    world.run(&Command::Enqueue(enqueue)).unwrap();
}

const CREATED: Result<Reply, Rejection> = Ok(Reply::SchemaPut { created: true });
const CHANGED: Result<Reply, Rejection> = Ok(Reply::SchemaPut { created: false });

#[test]
fn a_schema_outlives_its_record_and_ends_when_it_is_removed() {
    let mut world = World::new(1);
    assert_eq!(put(&mut world, "mail", 1, "true", Source::Api), CREATED);
    assert_eq!(put(&mut world, "mail", 2, "{}", Source::File), CREATED);
    assert_eq!(put(&mut world, "mail", 1, "false", Source::Api), CHANGED);
    assert_eq!(remove(&mut world, "mail", 1), Ok(Reply::Done));
    assert!(matches!(remove(&mut world, "mail", 1), Err(Rejection::SchemaNotFound { .. })));
    assert_eq!(put(&mut world, "other", 9, "true", Source::Api), CREATED);
    world.copy_all();
    world.trim();
    world.check_replay();
    world.restart(1_000);
    let Ok(Answer::Schemas(schemas)) = world.ask(&Query::Schemas) else { panic!("schemas are asked for") };
    let there: Vec<_> = schemas.iter().map(|it| (&*it.kind, it.version, &*it.text, it.source)).collect();
    assert_eq!(there, [("mail", 2, "{}", Source::File), ("other", 9, "true", Source::Api)]);
}

#[test]
fn what_jobs_were_checked_by_stays() {
    let mut world = World::new(2);
    assert_eq!(put(&mut world, "mail", 1, "true", Source::Api), CREATED);
    enqueue(&mut world, "mail", 1);
    enqueue(&mut world, "mail", 3);
    enqueue(&mut world, "mai", 1);
    let in_use = Rejection::SchemaInUse { kind: "mail".into(), version: 1, jobs: 1 };
    assert_eq!(put(&mut world, "mail", 1, "false", Source::Api), Err(in_use.clone()));
    assert_eq!(remove(&mut world, "mail", 1), Err(in_use));
    // The same is no change, and a version without one may get one.
    assert_eq!(put(&mut world, "mail", 1, "true", Source::Api), CHANGED);
    assert_eq!(put(&mut world, "mail", 3, "true", Source::File), CREATED);
    assert_eq!(put(&mut world, "mail", 3, "true", Source::Api), Err(Rejection::ManagedByFile("mail".into())));
    let Ok(Answer::Types { types, cursor: None }) = world.ask(&Query::Types(Page::default())) else {
        panic!("types are asked for")
    };
    let versions: Vec<_> = types[0].versions.iter().map(|it| (it.version, it.jobs, it.source)).collect();
    assert_eq!((types.len(), versions), (1, vec![(1, 1, Some(Source::Api)), (3, 1, Some(Source::File))]));
}

#[test]
fn there_are_so_many_schemas_and_no_more() {
    let mut world = World::new(3);
    for version in 1..=SCHEMAS_MAX as u32 {
        assert_eq!(put(&mut world, "t", version, "true", Source::Api), CREATED);
    }
    let refused = put(&mut world, "u", 1, "true", Source::Api);
    assert_eq!(refused, Err(Rejection::TooManySchemas { what: "versions", limit: SCHEMAS_MAX as u64 }));
    assert_eq!(put(&mut world, "t", 1, "false", Source::Api), CHANGED);

    let mut world = World::new(4);
    let half = "x".repeat(SCHEMA_BYTES_SUM_MAX / 2);
    assert_eq!(put(&mut world, "t", 1, &half, Source::Api), CREATED);
    assert_eq!(put(&mut world, "t", 2, &half, Source::Api), CREATED);
    let refused = put(&mut world, "t", 3, "1", Source::Api);
    assert_eq!(refused, Err(Rejection::TooManySchemas { what: "bytes", limit: SCHEMA_BYTES_SUM_MAX as u64 }));
}

#[test]
fn whoever_checks_jobs_is_told_of_every_change() {
    let mut world = World::new(5);
    let mut last = world.state.config_version();
    let mut changed =
        |world: &World| core::mem::replace(&mut last, world.state.config_version()) != world.state.config_version();
    enqueue(&mut world, "mail", 1);
    changed(&world);
    enqueue(&mut world, "mail", 1);
    assert!(!changed(&world), "a job changes nothing");
    put(&mut world, "mail", 2, "true", Source::Api).unwrap();
    assert!(changed(&world));
    put(&mut world, "mail", 2, "true", Source::Api).unwrap();
    assert!(!changed(&world), "nothing changed");
    let set = recado_core::PayloadOptions { require_schema: Some(true), ..Default::default() };
    let options = recado_core::QueueOptions { payload: Some(set), ..Default::default() };
    world.run(&Command::SetDefaults(options)).unwrap();
    assert!(changed(&world));
    remove(&mut world, "mail", 2).unwrap();
    assert!(changed(&world));
}
