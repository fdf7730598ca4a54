//! What lists and figures show, and that a list read in small pages is the list.

use recado_core::{
    Action, Actor, Answer, Command, Configure, Dedup, Enqueue, Failure, Filter, GroupOptions, HeldBack, JobId,
    JobState, JobView, JobsQuery, NewJob, OnDuplicate, Outcome, Page, Query, QueueOptions, Receive, Rejection, Replay,
    Reply, Select, Settle, Source, Stats, When,
};

use crate::world::World;

fn job(payload: &str) -> NewJob {
    NewJob { kind: "k".into(), schema_version: 1, payload: payload.into(), ..NewJob::default() }
}

fn enqueue(world: &mut World, queue: &str, jobs: Vec<NewJob>) -> Vec<JobId> {
    let command = Enqueue { queue: queue.into(), create: true, jobs, producer: None, request: None };
    match world.act(&Command::Enqueue(command)) {
        Ok(Reply::Enqueued { jobs, .. }) => jobs.into_iter().map(|job| job.id).collect(),
        other => panic!("{other:?}"),
    }
}

/// Receives up to `max` jobs for worker `w` and settles each with `outcome`, if any.
fn work(world: &mut World, queue: &str, max: usize, outcome: Option<Outcome>) -> Vec<JobId> {
    let worker = Some("w".into());
    world.presence.seen(world.state.queue_number(queue).unwrap(), Some("w"), None, world.now);
    let receive = Receive { queues: vec![(queue.into(), 1)], max, max_bytes: 1 << 20, worker, ..Receive::default() };
    let Ok(Reply::Received { jobs, .. }) = world.act(&Command::Receive(receive)) else { panic!("a receive") };
    for given in &jobs {
        if let Some(outcome) = outcome.clone() {
            let receipt = given.receipt.text(world.state.secret()).into();
            world.act(&Command::Settle(Settle { job: None, receipt, outcome })).unwrap();
        }
    }
    jobs.into_iter().map(|given| given.job.id).collect()
}

fn ack() -> Option<Outcome> {
    Some(Outcome::Ack { result: None })
}

fn fail(message: &str) -> Option<Outcome> {
    Some(Outcome::Fail(Failure { kind: "e".into(), message: message.into(), retryable: false, retry_after_ms: None }))
}

fn page(world: &World, query: JobsQuery) -> (Vec<JobView>, Option<String>) {
    match world.ask(&Query::Jobs(query)) {
        Ok(Answer::Jobs { jobs, cursor }) => (jobs, cursor),
        other => panic!("{other:?}"),
    }
}

fn ids(views: Vec<JobView>) -> Vec<JobId> {
    views.into_iter().map(|view| view.id).collect()
}

/// The whole list, which must be the same in pages of any size.
fn list(world: &World, query: &JobsQuery) -> Vec<JobId> {
    let walk = |limit| {
        let mut all = Vec::new();
        let mut cursor = None;
        loop {
            let (jobs, next) = page(world, JobsQuery { page: Page { cursor, limit }, ..query.clone() });
            assert!(jobs.len() <= limit);
            all.extend(ids(jobs));
            cursor = next;
            if cursor.is_none() {
                return all;
            }
        }
    };
    let whole = walk(1_000);
    for limit in [1, 2, 3] {
        assert_eq!(walk(limit), whole, "pages of {limit}: {query:?}");
    }
    whole
}

fn of(queue: &str, states: &[JobState]) -> JobsQuery {
    JobsQuery { queue: queue.into(), states: states.to_vec(), ..JobsQuery::default() }
}

fn stats(world: &World, queue: &str) -> Stats {
    match world.ask(&Query::Stats(queue.into())) {
        Ok(Answer::Stats(stats)) => *stats,
        other => panic!("{other:?}"),
    }
}

fn configure(world: &mut World, queue: &str, options: QueueOptions) {
    let actor = Actor::default();
    let command = Configure { queue: queue.into(), options, source: Source::Api, condition: Default::default(), actor };
    world.act(&Command::Configure(command)).unwrap();
}

#[test]
fn ready_jobs_are_listed_in_the_order_of_their_delivery() {
    let mut world = World::new(1);
    let kinds = ["x", "y", "z"];
    let jobs = (0..30).map(|n| NewJob { kind: kinds[n % 3].into(), priority: (n % 4) as u8, ..job("1") });
    let all = enqueue(&mut world, "q", jobs.collect());
    let listed = list(&world, &of("q", &[JobState::Ready]));
    assert_eq!(listed.len(), all.len());
    assert_eq!(list(&world, &of("q", &[])), listed);
    let only_y = list(&world, &JobsQuery { kind: Some("y".into()), ..of("q", &[]) });
    assert_eq!(only_y.len(), 10);
    assert_eq!(work(&mut world, "q", 100, None), listed);
    assert_eq!(list(&world, &of("q", &[JobState::InFlight])).len(), 30);
}

#[test]
fn states_and_conditions_choose_and_every_job_is_in_the_whole_list_once() {
    let mut world = World::new(2);
    let with = |n: usize| NewJob {
        group: n.is_multiple_of(2).then(|| format!("g{}", n % 4).into()),
        business_id: n.is_multiple_of(3).then(|| "order-1".into()),
        idempotency_key: n.is_multiple_of(5).then(|| "key".into()),
        when: if n.is_multiple_of(7) { When::After(60_000 + n as u64) } else { When::Now },
        ..job("1")
    };
    let all = enqueue(&mut world, "q", (0..40).map(with).collect());
    work(&mut world, "q", 5, fail("no"));
    world.now += 10;
    let last_dead = work(&mut world, "q", 1, fail("no"));
    work(&mut world, "q", 4, ack());
    work(&mut world, "q", 3, None);
    let mut whole = list(&world, &of("q", &[]));
    let by_state: usize = JobState::ALL.iter().map(|state| list(&world, &of("q", &[*state])).len()).sum();
    assert_eq!((whole.len(), by_state), (all.len(), all.len()));
    whole.sort_unstable();
    whole.dedup();
    assert_eq!(whole.len(), all.len());
    let dead = list(&world, &of("q", &[JobState::Dead]));
    assert_eq!((dead.len(), dead.first()), (6, last_dead.first()));
    let died = |before, after| list(&world, &JobsQuery { before, after, ..of("q", &[JobState::Dead]) }).len();
    assert_eq!([died(Some(world.now), None), died(None, Some(world.now - 1)), died(None, Some(world.now))], [5, 1, 0]);
    let group = list(&world, &JobsQuery { group: Some("g2".into()), ..of("q", &[]) });
    assert_eq!(group.len(), 10);
    let errors = |kind: &str| list(&world, &JobsQuery { error_kind: Some(kind.into()), ..of("q", &[]) }).len();
    assert_eq!([errors("e"), errors("f")], [6, 0]);
    assert_eq!(list(&world, &JobsQuery { group: Some("none".into()), ..of("q", &[]) }), []);
}

#[test]
fn keys_drive_a_list_newest_first_whatever_was_written_again() {
    let mut world = World::new(3);
    let with = |n: usize| NewJob { business_id: Some("order-1".into()), ..job(&n.to_string()) };
    let mut all = enqueue(&mut world, "a", (0..4).map(with).collect());
    all.extend(enqueue(&mut world, "b", (0..4).map(with).collect()));
    let in_b: Vec<JobId> = all.iter().rev().take(4).copied().collect();
    all.reverse();
    for copies in [0, 3, 100] {
        world.copy(copies);
        let mut cursor = None;
        let mut found = Vec::new();
        loop {
            let query = Query::JobsOf { business_id: "order-1".into(), page: Page { cursor, limit: 3 } };
            let Ok(Answer::Jobs { jobs, cursor: next }) = world.ask(&query) else { panic!("a list") };
            found.extend(ids(jobs));
            cursor = next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(found, all);
        let query = JobsQuery { business_id: Some("order-1".into()), ..of("b", &[]) };
        assert_eq!(list(&world, &query), in_b);
    }
}

#[test]
fn a_deduplication_key_finds_its_holder_and_the_dead_that_gave_it_up() {
    let mut world = World::new(4);
    let dedup = Dedup { key: "d".into(), for_ms: None, on_duplicate: OnDuplicate::Keep };
    let with = || vec![NewJob { dedup: Some(dedup.clone()), ..job("1") }];
    let query = JobsQuery { dedup_key: Some("d".into()), ..of("q", &[]) };
    let first = enqueue(&mut world, "q", with());
    assert_eq!(list(&world, &query), first);
    work(&mut world, "q", 1, fail("no"));
    assert_eq!(list(&world, &query), first);
    let second = enqueue(&mut world, "q", with());
    assert_eq!(list(&world, &query), [second[0], first[0]]);
    assert_eq!(list(&world, &JobsQuery { states: vec![JobState::Dead], ..query }), first);
}

#[test]
fn jobs_that_stay_are_neither_skipped_nor_repeated_while_others_go() {
    let mut world = World::new(5);
    let all = enqueue(&mut world, "q", (0..20).map(|_| job("1")).collect());
    let first = JobsQuery { page: Page { cursor: None, limit: 10 }, ..of("q", &[JobState::Ready]) };
    let (seen, cursor) = page(&world, first.clone());
    // Half of what was seen goes, and more comes.
    work(&mut world, "q", 5, ack());
    enqueue(&mut world, "q", vec![job("2")]);
    let (rest, _) = page(&world, JobsQuery { page: Page { cursor, limit: 100 }, ..first });
    assert_eq!((ids(seen), ids(rest)[..10].to_vec()), (all[..10].to_vec(), all[10..].to_vec()));
}

#[test]
fn a_page_looks_at_a_thousand_jobs_and_not_more() {
    let mut world = World::new(6);
    let jobs = (0..1_001).map(|n| NewJob { business_id: (n == 1_000).then(|| "x".into()), ..job("1") });
    let all = enqueue(&mut world, "q", jobs.collect());
    let query = |cursor| JobsQuery {
        after: Some(0),
        error_kind: Some("e".into()),
        page: Page { cursor, limit: 5 },
        ..of("q", &[])
    };
    let (none, cursor) = page(&world, query(None));
    assert!(none.is_empty() && cursor.is_some());
    assert_eq!(page(&world, query(cursor)), (vec![], None));
    // The one that is meant is found at once where its key drives.
    let by_key = JobsQuery { business_id: Some("x".into()), ..of("q", &[]) };
    assert_eq!(ids(page(&world, by_key).0), all[1_000..]);
}

#[test]
fn what_is_not_there_is_said() {
    let mut world = World::new(7);
    enqueue(&mut world, "email", vec![job("1")]);
    let other_shard = JobId::new(world.now, 9, 1, 0);
    assert_eq!(world.ask(&Query::Job(other_shard)), Err(Rejection::JobGone(other_shard)));
    let missing = world.ask(&Query::Stats("emial".into()));
    assert!(matches!(missing, Err(Rejection::QueueNotFound { nearest: Some(name), .. }) if &*name == "email"));
    assert_eq!(world.ask(&Query::Task(99)), Err(Rejection::TaskNotFound));
    let bad = || Page { cursor: Some("no-cursor".into()), limit: 1 };
    let queries = [
        Query::Jobs(JobsQuery { page: bad(), ..of("email", &[]) }),
        Query::JobsOf { business_id: "x".into(), page: bad() },
        Query::Queues(bad()),
        Query::Fingerprints { queue: "email".into(), page: bad() },
        Query::Replays { queue: None, page: bad() },
        Query::Audit { queue: None, actor: None, action: None, page: bad() },
    ];
    for query in queries {
        assert!(
            matches!(world.ask(&query), Err(Rejection::Invalid { index: 0, pointer, .. }) if pointer == "/cursor"),
            "{query:?}"
        );
    }
}

#[test]
fn queues_are_listed_by_name() {
    let mut world = World::new(8);
    for name in ["c", "a", "b", "a.b:c_d-e"] {
        enqueue(&mut world, name, vec![job("1")]);
    }
    let mut names = Vec::new();
    let mut cursor = None;
    loop {
        let Ok(Answer::Queues { queues, cursor: next }) = world.ask(&Query::Queues(Page { cursor, limit: 3 })) else {
            panic!("a list")
        };
        names.extend(queues.into_iter().map(|entry| (entry.name.to_string(), entry.stats.ready)));
        cursor = next;
        if cursor.is_none() {
            break;
        }
    }
    let expected = ["a", "a.b:c_d-e", "b", "c"].map(|name| (name.to_owned(), 1));
    assert_eq!(names, expected);
}

#[test]
fn the_oldest_job_is_one_that_could_be_received_now() {
    let mut world = World::new(9);
    let grouped = |group: &str| NewJob { group: Some(group.into()), ..job("1") };
    enqueue(&mut world, "q", vec![grouped("a"), grouped("a")]);
    world.now += 1_000;
    enqueue(&mut world, "q", vec![grouped("b")]);
    world.now += 500;
    assert_eq!(stats(&world, "q").oldest_job_age_ms, Some(1_500));
    let limit = GroupOptions { max_in_flight: Some(1), ..GroupOptions::default() };
    configure(&mut world, "q", QueueOptions { groups: Some(limit), ..QueueOptions::default() });
    work(&mut world, "q", 1, None);
    let now = stats(&world, "q");
    assert_eq!((now.oldest_job_age_ms, now.in_flight), (Some(500), 1));
    assert_eq!(now.held_back, [(HeldBack::GroupInFlightLimit, 1)]);
    assert_eq!(now.consumers.iter().map(|consumer| consumer.in_flight).collect::<Vec<_>>(), [1]);
    let pause = Command::SetPaused { queue: "q".into(), paused: true, reason: None, actor: Actor::default() };
    world.act(&pause).unwrap();
    let now = stats(&world, "q");
    assert_eq!((now.oldest_job_age_ms, now.held_back), (None, vec![(HeldBack::Paused, 2)]));
}

#[test]
fn ready_jobs_without_a_worker_are_held_back_for_it() {
    let mut world = World::new(10);
    enqueue(&mut world, "q", vec![job("1"), NewJob { kind: "other".into(), ..job("1") }]);
    assert_eq!(stats(&world, "q").held_back, [(HeldBack::NoWorker, 2)]);
    let types = [recado_core::TypeRange { kind: "k".into(), from: 1, to: 1 }];
    world.presence.seen(world.state.queue_number("q").unwrap(), None, Some(&types), world.now);
    assert_eq!(stats(&world, "q").held_back, [(HeldBack::NoCapableWorker, 1)]);
}

#[test]
fn groups_of_failures_are_listed_largest_first() {
    let mut world = World::new(11);
    enqueue(&mut world, "q", (0..6).map(|_| job("1")).collect());
    for (message, count) in [("disk 1 full", 1), ("no route", 3), ("no mailbox", 2)] {
        work(&mut world, "q", count, fail(message));
    }
    let mut counts = Vec::new();
    let mut cursor = None;
    loop {
        let query = Query::Fingerprints { queue: "q".into(), page: Page { cursor, limit: 1 } };
        let Ok(Answer::Fingerprints { groups, cursor: next }) = world.ask(&query) else { panic!("a list") };
        counts.extend(groups.iter().map(|group| group.count));
        cursor = next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(counts, [3, 2, 1]);
    let select = Select::Filter(Filter { error_kind: Some("e".into()), ..Filter::default() });
    let replay = Replay { select, patch: None, rate: None, halt_after: 0, ignore_key: false, force: false };
    let preview = world.ask(&Query::Preview { queue: "q".into(), replay: replay.clone() });
    assert!(matches!(&preview, Ok(Answer::Preview { matched: 6, skipped, example: Some(_) }) if skipped.is_empty()));
    let none = QueueOptions {
        dead_letter: Some(recado_core::DeadLetterOptions { max_replays: Some(0), ..Default::default() }),
        ..QueueOptions::default()
    };
    configure(&mut world, "q", none);
    let preview = world.ask(&Query::Preview { queue: "q".into(), replay: replay.clone() });
    let Ok(Answer::Preview { matched: 6, skipped, example: None }) = preview else { panic!("{preview:?}") };
    assert_eq!(skipped, [("max-replays".into(), 6)]);
    let new = recado_core::NewTask {
        queue: "q".into(),
        action: Action::Replay(replay),
        reason: None,
        actor: Actor::default(),
    };
    for _ in 0..3 {
        world.act(&Command::StartTask(new.clone())).unwrap();
    }
    let query = |cursor| Query::Replays { queue: Some("q".into()), page: Page { cursor, limit: 2 } };
    let Ok(Answer::Replays { replays, cursor }) = world.ask(&query(None)) else { panic!("a list") };
    let Ok(Answer::Replays { replays: rest, cursor: None }) = world.ask(&query(cursor)) else { panic!("a list") };
    let ids: Vec<u64> = replays.iter().chain(&rest).map(|task| task.id).collect();
    assert!(ids.len() == 3 && ids.is_sorted_by(|a, b| a > b), "{ids:?}");
}

#[test]
fn a_refused_producer_comes_back_when_a_hundredth_is_free() {
    let mut world = World::new(12);
    configure(&mut world, "q", QueueOptions { max_depth: Some(1_000), ..QueueOptions::default() });
    enqueue(&mut world, "q", (0..1_000).map(|_| job("1")).collect());
    assert_eq!(world.state.retry_after_ms("q", world.now), None);
    work(&mut world, "q", 120, ack());
    let jobs = (0..120).map(|_| job("1")).collect();
    enqueue(&mut world, "q", jobs);
    // Two a second were done; ten slots are a hundredth.
    assert_eq!(world.state.retry_after_ms("q", world.now), Some(5_000));
    assert_eq!(world.state.retry_after_ms("q", world.now + 120_000), None);
    assert_eq!(world.state.retry_after_ms("none", world.now), None);
}
