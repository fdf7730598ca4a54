//! Power loss and the death of the process, over many seeds: what was committed is there, what was
//! written survives a kill, in order, without gaps.

use recado_log::{Batch, Log, Options, Position, Step, Urgency};

use recado_log::sim::{Fault, SimDisk};

use crate::world::*;

/// What was submitted, and how far it came.
struct Story {
    sim: SimDisk,
    sent: Vec<(Position, Batch)>,
    number: u64,
}

impl Story {
    /// Everything up to `until` has to be there, and nothing but a prefix of what was sent.
    fn verify(&mut self, world: &World, until: Position) {
        let found = world.entries();
        let must = self.sent.iter().filter(|(position, _)| *position <= until).count();
        assert!(found.len() >= must, "{} of {must} batches are there", found.len());
        assert!(found.len() <= self.sent.len());
        for (entry, (position, batch)) in found.iter().zip(&self.sent) {
            assert_eq!((entry.position, &entry.batch), (*position, batch));
        }
        self.sent.truncate(found.len());
        assert_eq!(world.recovery.batches, found.len() as u64);
    }

    /// A few random steps; the answer is the log as it stands.
    fn live(&mut self, dice: &mut Dice, options: &Options) -> World {
        let mut world = World::open(&self.sim, options).unwrap();
        for _ in 0..dice.roll(25) {
            match dice.roll(10) {
                0..6 => {
                    let bytes = [3, 100, 700, 3_000, 20_000][dice.roll(5) as usize];
                    if world.room()[0] < bytes as u64 + 8 {
                        world.settle();
                        continue;
                    }
                    let batch = numbered(self.number, bytes);
                    self.number += 1;
                    let urgency = if dice.roll(4) == 0 { Urgency::Lazy } else { Urgency::Now };
                    let position = world.log.submit(batch.clone(), urgency).unwrap();
                    self.sent.push((position, batch));
                }
                6..8 => {
                    world.engine.commit(world.now);
                }
                8 => {
                    world.engine.prepare(world.now);
                }
                _ => world.pass(50 * dice.roll(25)),
            }
        }
        world
    }
}

fn run(seed: u64, options: &Options) {
    println!("seed {seed}, {:?}", options.durability);
    let mut dice = Dice(seed);
    let mut story = Story { sim: SimDisk::new(seed), sent: Vec::new(), number: 0 };
    let mut until = Position(0);
    for _ in 0..12 {
        let mut world = story.live(&mut dice, options);
        story.verify_open(&world, until);
        let fault_in = dice.roll(3);
        if fault_in == 0 {
            world.settle();
        }
        let loses_power = dice.roll(2) == 0 && options.durability == recado_log::Durability::Sync;
        until = if loses_power { world.log.committed().unwrap() } else { world.log.written() };
        let sim = if loses_power { world.lose_power() } else { world.kill() };
        let world = World::open(&sim, options).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        story.verify(&world, until);
        world.kill();
    }
}

impl Story {
    /// What is committed is readable while the log is open.
    fn verify_open(&self, world: &World, until: Position) {
        let committed = world.log.committed().unwrap();
        assert!(committed >= until || self.sent.is_empty());
        let written = world.log.written();
        assert!(written >= committed);
        let expected: Vec<Position> =
            self.sent.iter().map(|(position, _)| *position).filter(|at| *at <= written).collect();
        let found: Vec<Position> = world.entries().iter().map(|entry| entry.position).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn whatever_was_committed_survives_power_loss_and_whatever_was_written_a_kill() {
    for seed in seeds(60) {
        run(seed, &options());
    }
}

#[test]
fn with_durability_os_whatever_was_committed_survives_a_kill() {
    for seed in seeds(30) {
        run(seed, &os_options());
    }
}

#[test]
fn with_durability_os_power_loss_leaves_a_prefix() {
    for seed in seeds(30) {
        let mut world = World::open(&SimDisk::new(seed), &os_options()).unwrap();
        let sent: Vec<Batch> = (0..20).map(|number| numbered(number, 300)).collect();
        for batch in &sent {
            world.put(batch.clone());
        }
        let world = World::open(&world.lose_power(), &os_options()).unwrap();
        let found = world.batches();
        assert_eq!(found, sent[..found.len()]);
    }
}

/// The process is killed after a write, the power goes after the next open: what the first open
/// answered has to be there although it was only in the page cache.
#[test]
fn what_a_recovery_found_in_the_page_cache_is_durable_when_it_answers() {
    for seed in seeds(40) {
        let mut world = World::open(&SimDisk::new(seed), &os_options()).unwrap();
        let sent: Vec<Batch> = (0..5).map(|number| numbered(number, 2_000)).collect();
        for batch in &sent {
            world.put(batch.clone());
        }
        let world = World::on(&world.kill());
        assert_eq!(world.batches(), sent);
        assert!(world.recovery.rewritten_bytes >= 5 * 2_000);
        let world = World::on(&world.lose_power());
        assert_eq!(world.batches(), sent, "seed {seed}");
    }
}

/// A segment was prepared, but the process died before its name was durable. The next process uses it.
#[test]
fn a_name_that_a_recovery_found_in_the_page_cache_is_durable_when_it_answers() {
    for seed in seeds(20) {
        let mut world = World::on(&SimDisk::new(seed));
        while world.log.next().0 < SEGMENT {
            world.submit(numbered(0, 20_000));
            while world.engine.commit(world.now) == Step::Worked {}
        }
        // One segment is missing ahead: create, fill, sync, header, sync, name, and then the sync of names.
        world.sim.fail_at(world.sim.operations() + 6, Fault::Crash);
        while world.engine.prepare(world.now) == Step::Worked {}
        assert_eq!(segment_files(&world.sim).len(), 5, "it has its name");
        let sim = world.kill();
        sim.set_capacity(Some(sim.used_bytes()));
        let mut world = World::on(&sim);
        let mut sent = world.entries().len();
        while world.room()[2] >= 20_008 {
            world.put(numbered(0, 20_000));
            sent += 1;
        }
        assert!(world.log.committed().unwrap() > Position(4 * SEGMENT), "the new segment is in use");
        assert_eq!(World::on(&world.lose_power()).entries().len(), sent, "seed {seed}");
    }
}
