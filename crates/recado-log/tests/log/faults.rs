//! A disk that fails, shortens a write, is full or takes the process down at the k-th operation, for
//! every k.

use recado_log::sim::{Fault, SimDisk};
use recado_log::{Batch, Class, Durability, Error, Log, Options, Position, Step, Urgency};

use crate::world::*;

/// What a run was told.
#[derive(Default)]
struct Told {
    submitted: Vec<(Position, Batch)>,
    committed: Position,
    written: Position,
    refused: Vec<Batch>,
    is_poisoned: bool,
}

/// Enough to go through all prepared segments and use one again.
const BATCHES: u64 = 18;

/// A script that writes, trims, reuses and closes. It goes on whatever the disk does.
fn script(sim: &SimDisk, options: &Options) -> Told {
    let mut told = Told::default();
    let Ok(mut world) = World::open(sim, options) else {
        return told;
    };
    for number in 0..BATCHES {
        let bytes = [10, 3_000, 50_000, 200][number as usize % 4];
        let batch = numbered(number, bytes);
        let fits = world.log.room(Class::Produce) >= bytes as u64 + 8;
        match world.log.submit(batch.clone(), Urgency::Now) {
            Ok(position) => told.submitted.push((position, batch)),
            Err(Error::Full { .. }) => {
                assert!(!fits, "room said yes");
                told.refused.push(batch);
            }
            Err(Error::Poisoned { .. }) => told.refused.push(batch),
            Err(error) => panic!("{error}"),
        }
        while world.engine.commit(world.now) == Step::Worked {}
        world.pass(300);
        told.written = world.log.written();
        match world.log.committed() {
            Ok(committed) => told.committed = committed,
            Err(Error::Poisoned { .. }) => told.is_poisoned = true,
            Err(error) => panic!("{error}"),
        }
        if number == 11 {
            let _ = world.log.trim(Position(2 * SEGMENT));
        }
    }
    world.sim.clear_faults();
    told
}

fn for_each_operation(fault: Fault, options: &Options, then: impl Fn(&SimDisk)) {
    let whole = SimDisk::new(0);
    let told = script(&whole, options);
    assert_eq!(told.submitted.len() as u64, BATCHES);
    for k in 0..whole.operations() {
        let sim = SimDisk::new(k);
        sim.fail_at(k, fault);
        let told = script(&sim, options);
        then(&sim);
        let world = World::open(&sim, options).unwrap_or_else(|error| panic!("operation {k}: {error}"));
        let found = world.entries();
        let first = world.recovery.first;
        let kept = told.submitted.iter().filter(|(position, _)| *position >= first);
        for (position, batch) in kept.filter(|(position, _)| *position <= told.committed) {
            let entry = found.iter().find(|entry| entry.position == *position);
            assert_eq!(entry.map(|entry| &entry.batch), Some(batch), "operation {k}, {fault:?}");
        }
        for entry in &found {
            assert!(told.submitted.iter().any(|(position, _)| *position == entry.position));
            assert!(!told.refused.contains(&entry.batch), "operation {k}: what was refused is there");
        }
    }
}

fn power_loss(sim: &SimDisk) {
    sim.lose_power();
}

fn kill(sim: &SimDisk) {
    sim.kill();
}

#[test]
fn a_failed_operation_loses_nothing_committed() {
    for fault in [Fault::Io, Fault::Full, Fault::Short, Fault::Crash] {
        for_each_operation(fault, &options(), power_loss);
        for_each_operation(fault, &options(), kill);
        for_each_operation(fault, &os_options(), kill);
    }
}

#[test]
fn a_kill_a_recovery_and_power_loss_lose_nothing_committed() {
    let recover = |sim: &SimDisk| {
        sim.kill();
        drop(World::on(sim));
        sim.lose_power();
    };
    for fault in [Fault::Io, Fault::Crash] {
        for_each_operation(fault, &options(), recover);
    }
    for_each_operation(Fault::Io, &os_options(), recover);
}

/// Opening is interrupted, too: at each of its operations, by a crash or a failure.
#[test]
fn an_interrupted_recovery_loses_nothing_committed() {
    for seed in seeds(2) {
        let mut world = World::on(&SimDisk::new(seed));
        let mut sent: Vec<Batch> = (0..5).map(|number| numbered(number, 9_000)).collect();
        for batch in &sent {
            world.put(batch.clone());
        }
        world.submit(numbered(5, 30_000));
        world.sim.fail_at(world.sim.operations() + 1, Fault::Crash);
        while world.engine.commit(world.now) == Step::Worked {}
        let sim = world.lose_power();
        for fault in [Fault::Io, Fault::Crash] {
            for k in 0..40 {
                for loses_power in [false, true] {
                    let sim = sim.copy(seed + k);
                    sim.fail_at(sim.operations() + k, fault);
                    drop(World::open(&sim, &options()));
                    sim.clear_faults();
                    if loses_power {
                        sim.lose_power()
                    } else {
                        sim.kill()
                    }
                    let mut world = World::on(&sim);
                    let mut found = world.batches();
                    found.truncate(sent.len());
                    assert_eq!(found, sent);
                    world.put(numbered(6, 100));
                    let world = World::on(&world.lose_power());
                    assert_eq!(world.batches().last(), Some(&numbered(6, 100)));
                }
            }
        }
        sent.clear();
    }
}

#[test]
fn a_poisoned_log_stays_poisoned() {
    for (operation, fault) in [(0, Fault::Io), (0, Fault::Full), (1, Fault::Io), (1, Fault::Full)] {
        let mut world = World::new();
        let good = world.put(numbered(0, 100));
        world.submit(numbered(1, 100));
        world.sim.fail_at(world.sim.operations() + operation, fault);
        world.settle();
        for _ in 0..3 {
            let Err(Error::Poisoned { reason }) = world.log.committed() else { panic!() };
            let action = if operation == 0 { "cannot write" } else { "cannot sync" };
            assert!(reason.contains(action) && reason.contains(".log"), "{reason}");
            let refused = world.log.submit(numbered(2, 10), Urgency::Now);
            assert!(matches!(refused, Err(Error::Poisoned { .. })));
            assert!(matches!(world.log.trim(good), Err(Error::Poisoned { .. })));
            assert!(matches!(world.log.reader().bounds(), Err(Error::Poisoned { .. })));
            let operations = world.sim.operations();
            world.pass(5_000);
            assert_eq!(world.sim.operations(), operations, "nothing is tried again");
        }
        let sim = world.sim.clone();
        assert!(matches!(world.log.close(), Err(Error::Poisoned { .. })));
        assert_eq!(World::on(&sim).batches()[0], numbered(0, 100));
    }
}

#[test]
fn a_failed_sync_that_a_later_one_would_hide_is_rewritten() {
    for seed in seeds(40) {
        let mut world = World::on(&SimDisk::new(seed));
        world.put(numbered(0, 100));
        world.submit(numbered(1, 4_000));
        world.sim.fail_at(world.sim.operations() + 1, Fault::Io);
        world.settle();
        assert!(world.log.committed().is_err());
        // The process ends and starts again: the page cache still shows the batch.
        let world = World::on(&world.kill());
        assert_eq!(world.batches(), [numbered(0, 100), numbered(1, 4_000)]);
        let world = World::on(&world.lose_power());
        assert_eq!(world.batches(), [numbered(0, 100), numbered(1, 4_000)], "seed {seed}");
    }
}

#[test]
fn a_shortened_write_is_finished() {
    let mut world = World::new();
    for number in 0..20 {
        world.sim.fail_at(world.sim.operations(), Fault::Short);
        world.put(numbered(number, 500));
    }
    assert_eq!(Durability::default(), Durability::Sync);
    assert_eq!(World::on(&world.lose_power()).recovery.batches, 20);
}
