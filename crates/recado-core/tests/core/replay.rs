//! Replay: the log alone makes the state, from every point it may be trimmed at.

use std::collections::BTreeSet;

use recado_core::{DecodeError, LEVEL, State, decode_batch, encode_batch};

use crate::ops::{Dice, draw};
use crate::pair::Pair;
use crate::script::{Between, Play};
use crate::world::World;

/// Kinds of events there are.
const KINDS: u64 = 40;

#[test]
fn every_trim_point_of_a_long_run_gives_the_same_state() {
    for seed in 100..102 {
        let mut dice = Dice(seed);
        let mut pair = Pair::new(seed);
        let mut points = 0;
        for step in 0..400 {
            pair.act(&draw(&mut dice));
            if step % 20 != 19 {
                continue;
            }
            // All points at once: copy a few items, see what that frees, replay from there, go on.
            pair.world.close();
            let live = pair.world.state.digest();
            let first = pair.world.state.oldest_position().unwrap();
            let gone = pair.world.log.iter().take_while(|batch| batch.position < first).count();
            let again = pair.world.rebuild_from(gone);
            again.check();
            assert_eq!(again.digest(), live, "seed {seed}, step {step}, {gone} batches trimmed");
            points += gone;
            pair.world.copy(1 + dice.below(4) as usize);
        }
        assert!(points > 0, "something could be trimmed");
    }
}

/// Writes one item again at a time, with a replay from the new trim point after each.
fn copy_one_by_one(world: &mut World) {
    world.close();
    let below = world.draft.position;
    for _ in 0..10_000 {
        if world.state.oldest_position().is_none_or(|first| first >= below) {
            break;
        }
        world.copy(1);
        world.trim();
        world.check_replay();
    }
    assert!(world.log.first().is_some_and(|batch| batch.position >= below), "all of it was freed");
}

#[test]
fn copies_make_every_earlier_batch_free() {
    for seed in 9..12 {
        let mut dice = Dice(seed);
        let mut pair = Pair::new(seed);
        for _ in 0..200 {
            pair.act(&draw(&mut dice));
        }
        copy_one_by_one(&mut pair.world);
    }
}

#[test]
fn an_event_carries_what_outlives_a_job_whose_copy_stands_behind_it() {
    let scripts: [&[&str]; 9] = [
        // A saved result, for jobs that were skipped and for those to come.
        &["enqueue q a key=k ; b key=k", "receive q", "ack a done", "enqueue q c key=k"],
        // A result that has ended and is still shown.
        &["queue q idem=1s keep=1d", "enqueue q a key=k ; b key=k", "receive q", "ack a done", "+1h stats q"],
        // A late settle that was overtaken by a job that waits again.
        &[
            "queue q visibility=1s",
            "enqueue q a key=k ; b key=k p=1",
            "receive q",
            "+1s patch b delay=1h",
            "receive q",
            "fail a",
        ],
        // What a replay counts.
        &["queue q attempts=1", "enqueue q a", "receive q", "fail a", "+1s replay q ids=a", "receive q", "ack a"],
        // A settle that is remembered when its job is gone.
        &["queue q keep=0s", "enqueue q a ; b", "receive q max=2", "ack a done", "fail b kind=boom"],
        // Guards that go with their jobs: at once, later, or by a purge.
        &[
            "queue q keep=0s",
            "enqueue q a ; b ; c",
            "begin q g job=a",
            "complete q g 1 done",
            "begin q h job=b",
            "begin q i job=c",
            "receive q",
            "ack a",
            "cancel b",
            "purge q",
        ],
        // What children came to, whether or not they are kept.
        &[
            "queue q keep=0s attempts=1",
            "enqueue q p continue > c1 > c2 expires=5s > c3 queue=r >> g > c4 key=k",
            "receive q",
            "ack c1 1",
            "purge r",
            "+5s receive q",
            "ack c4 4",
            "enqueue q s > d key=k",
            "receive q",
            "ack p",
        ],
        // Jobs of a batch, and the one that ends it.
        &["queue q keep=0s", "enqueue q a batch=b:l@r", "receive q", "enqueue q c batch=b", "ack a", "cancel c"],
        // Who holds a group, who waits behind whom, who has a window.
        &[
            "queue q ordered",
            "enqueue q a group=g dedup=k:unfinished ; b group=g",
            "receive q",
            "enqueue q c dedup=k:unfinished:replace ; d dedup=w:1h",
            "fail a",
        ],
    ];
    for script in scripts {
        for length in 1..=script.len() {
            let mut play = Play::new(Between::Nothing);
            for line in &script[..length] {
                play.line(line);
            }
            copy_one_by_one(&mut play.world);
        }
    }
}

#[test]
fn an_outdated_plan_copies_nothing() {
    let mut play = Play::new(Between::Nothing);
    play.line("t=0 enqueue q a");
    play.line("enqueue r b");
    let world = &mut play.world;
    world.close();
    let mut plans = world.state.oldest_copies(u64::MAX, usize::MAX);
    for plan in &mut plans {
        let places = plan.places.clone();
        plan.bytes = places.into_iter().map(|place| world.bytes(place)).collect();
    }
    play.line("receive q");
    play.line("ack a");
    play.line("queue r keep=0s");
    play.line("enqueue r c");
    play.line("receive r max=2");
    play.line("ack b");
    play.world.run(&recado_core::Command::Copy(plans)).unwrap();
    play.world.check_replay();
    assert_eq!(
        [play.line("job a"), play.line("job b"), play.line("job c")],
        ["completed 1/1", "! gone", "inFlight 1/1 until=30s"]
    );
}

#[test]
fn a_newer_level_stops_the_reader() {
    let mut head = encode_batch(5, &[]);
    assert_eq!(decode_batch(&head, |_| ()).map(|head| head.level), Ok(LEVEL));
    head[..2].copy_from_slice(&(LEVEL + 1).to_le_bytes());
    let error = decode_batch(&head, |_| panic!("nothing is read")).unwrap_err();
    assert_eq!(error, DecodeError::NewerLevel { found: LEVEL + 1 });
    assert!(error.to_string().contains(&format!("needs format level {}", LEVEL + 1)), "{error}");
}

#[test]
fn an_unknown_kind_or_torn_batch_is_no_batch() {
    // An array of two: kind 999, and its fields.
    let unknown = encode_batch(5, &[0x82, 0x19, 0x03, 0xe7, 0x80]);
    assert!(matches!(decode_batch(&unknown, |_| ()), Err(DecodeError::Malformed(_))));
    let mut play = Play::new(Between::Nothing);
    play.line("t=0 enqueue q a group=g key=k dedup=d:1h");
    let head = play.world.log.last().unwrap().head.clone();
    for end in 0..head.len() {
        let read = decode_batch(&head[..end], |_| ());
        let mut whole = 0;
        let _ = decode_batch(&head, |_| whole += 1);
        let mut seen = 0;
        let again = decode_batch(&head[..end], |_| seen += 1);
        assert_eq!(read.is_ok(), again.is_ok());
        assert!(read.is_err() || seen < whole || end == head.len(), "cut at {end}");
    }
}

#[test]
fn every_kind_of_event_comes_back_from_the_log() {
    let script = r#"
        t=0 defaults attempts=2 visibility=10s
        queue q attempts=1 maxreplays=5
        enqueue q request=r:body producer=p:1 a key=k dedup=d:10s ; b key=k ; c expires=1s ; d ; e
        patch d payload=2
        receive q attempt=x
        receive q attempt=x
        extend a progress=1
        cancel a
        release d
        +2s ack a done
        receive q max=2
        fail d permanent kind=bad
        release e delay=1s
        acknowledge q d note
        replay q ids=d
        receive q
        +10s job d
        replay q ids=d
        discard q ids=d
        +1s receive q
        fail e after=1s
        enqueue q f key=n attempts=3 ; g key=n attempts=3
        receive q
        +11s receive q
        +1s stepclock 1h
        purge q states=ready,delayed
        +25h task 1
        delete q force
        +1s restart
    "#;
    let mut play = Play::new(Between::Nothing);
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        play.line(line);
    }
    play.world.run(&recado_core::Command::SaveFigures { after: None }).unwrap();
    // A saved result that a dead job keeps past its time.
    for line in [
        "queue r attempts=1 idem=1s",
        "enqueue r m key=k ; n key=k",
        "receive r",
        "fail m",
        "receive r",
        "ack n done",
        "+1h job m",
        "receive q",
        "enqueue r z dedup=w:1h attempts=3",
        "receive r",
        "fail z after=1s",
        "begin q g",
        "abort q g 1",
    ] {
        play.line(line);
    }
    play.world.run(&recado_core::Command::SaveFigures { after: None }).unwrap();
    play.world.copy_all();
    play.world.close();
    let missing: Vec<u64> = (0..KINDS).filter(|kind| !play.world.kinds.contains(kind)).collect();
    assert_eq!(missing, [] as [u64; 0], "kinds that the script does not show");
    let known: BTreeSet<u64> = (0..KINDS).collect();
    assert!(play.world.kinds.is_subset(&known), "a new kind of event: add it to the script");
}

#[test]
fn an_empty_log_is_an_empty_state() {
    let world = World::new(1);
    assert_eq!(world.rebuild().digest(), world.state.digest());
    assert_eq!(State::new(3).oldest_position(), None);
}
