//! Everything at once, over many seeds: writes, trims, pins, a full disk, a failing disk, kills and
//! power losses, also while the log is being opened.

use recado_log::sim::{Fault, SimDisk};
use recado_log::{Batch, Class, Error, Log, Options, Pin, Position, Urgency};

use crate::world::*;

struct Chaos {
    dice: Dice,
    sim: SimDisk,
    options: Options,
    /// All batches that may be in the log, in order.
    sent: Vec<(Position, Batch)>,
    number: u64,
    /// Everything up to here was written: it survives a kill.
    written: Position,
    /// Everything up to here was committed, or there when the log was opened: it survives power loss.
    until: Position,
    /// Everything from here on has to be there.
    trimmed: Position,
}

impl Chaos {
    fn new(seed: u64, options: Options) -> Chaos {
        Chaos {
            dice: Dice(seed),
            sim: SimDisk::new(seed),
            options,
            sent: Vec::new(),
            number: 0,
            written: Position(0),
            until: Position(0),
            trimmed: Position(0),
        }
    }

    /// A life of the process: it opens the log, works, and dies.
    fn live(&mut self) {
        if self.dice.roll(2) == 0 {
            let fault = [Fault::Io, Fault::Crash, Fault::Full, Fault::Short][self.dice.roll(4) as usize];
            self.sim.fail_at(self.sim.operations() + self.dice.roll(120), fault);
        }
        let opened = World::open(&self.sim, &self.options);
        let loses_power = self.dice.roll(2) == 0 && self.options == options();
        match opened {
            Ok(mut world) => {
                self.verify(&world);
                self.work(&mut world);
                // What a poisoned log wrote last may be there or not.
                self.written = match world.log.committed() {
                    Ok(_) => world.log.written(),
                    Err(_) => self.until,
                };
            }
            Err(error) => assert!(matches!(error, Error::Io { .. } | Error::Poisoned { .. }), "{error}"),
        }
        self.sim.clear_faults();
        self.sim.set_capacity(None);
        if loses_power {
            self.sim.lose_power();
            self.written = self.until;
        } else {
            self.sim.kill();
        }
    }

    fn work(&mut self, world: &mut World) {
        let mut pins: Vec<Pin> = Vec::new();
        for _ in 0..self.dice.roll(40) {
            match self.dice.roll(14) {
                0..7 => self.submit(world),
                7 | 8 => drop(world.engine.commit(world.now)),
                9 => drop(world.engine.prepare(world.now)),
                10 => world.pass(100 * self.dice.roll(13)),
                11 => self.trim(world),
                12 => {
                    let reader = world.log.reader();
                    let first = world.log.usage().first;
                    match self.dice.roll(2) {
                        0 => pins.push(reader.pin(first).unwrap()),
                        _ => pins.clear(),
                    }
                }
                _ => {
                    let full = self.dice.roll(2) == 0;
                    world.sim.set_capacity(full.then(|| world.sim.used_bytes()));
                }
            }
            if let Ok(committed) = world.log.committed() {
                assert!(committed >= self.until || self.sent.is_empty());
                self.until = committed.max(self.until);
            }
            for pin in &pins {
                match world.log.reader().read(pin.position(), true) {
                    Ok(entry) => assert!(entry.is_some() || world.log.written() < pin.position()),
                    // The process is dead, and nothing it did since has told it.
                    Err(error) => assert!(matches!(error, Error::Io { .. }), "{error}"),
                }
            }
        }
    }

    fn submit(&mut self, world: &mut World) {
        let bytes = [0, 90, 2_000, 9_000, 40_000][self.dice.roll(5) as usize];
        let class = [Class::Produce, Class::Settle, Class::Copy][self.dice.roll(3) as usize];
        let urgency = [Urgency::Now, Urgency::Lazy][self.dice.roll(2) as usize];
        if world.log.room(class) < bytes as u64 + 8 {
            return;
        }
        let batch = numbered(self.number, bytes);
        match world.log.submit(batch.clone(), urgency) {
            Ok(position) => {
                assert!(self.sent.last().is_none_or(|(last, _)| *last < position));
                self.sent.push((position, batch));
                self.number += 1;
            }
            Err(error) => assert!(matches!(error, Error::Poisoned { .. }), "{error}"),
        }
    }

    fn trim(&mut self, world: &mut World) {
        let Ok(committed) = world.log.committed() else { return };
        let below = Position(committed.0.saturating_sub(self.dice.roll(3) * SEGMENT));
        if world.log.trim(below).is_ok() {
            self.trimmed = self.trimmed.max(below);
        }
        world.settle();
    }

    /// What is there is a stretch of what was sent, without gaps, with all that has to be there.
    fn verify(&mut self, world: &World) {
        let found = world.entries();
        let first = found.first().map_or(world.recovery.first, |first| first.position);
        let is_gone = |(position, _): &(Position, Batch)| *position < first;
        let start = self.sent.iter().take_while(|sent| is_gone(sent)).count();
        if let Some((newest_gone, _)) = self.sent[..start].last() {
            assert!(*newest_gone < self.trimmed, "{newest_gone} was not trimmed");
        }
        assert!(start + found.len() <= self.sent.len());
        for (entry, (position, batch)) in found.iter().zip(&self.sent[start..]) {
            assert_eq!((entry.position, &entry.batch), (*position, batch));
        }
        if let Some((lost, _)) = self.sent.get(start + found.len()) {
            let promised = self.until.max(self.written);
            assert!(*lost > promised, "{lost} is lost, {promised} was promised");
        }
        self.sent.truncate(start + found.len());
        self.until = self.sent.last().map_or(Position(0), |(last, _)| *last);
        self.written = self.until;
    }
}

fn run(seed: u64, options: &Options) {
    println!("seed {seed}, {:?}", options.durability);
    let mut chaos = Chaos::new(seed, options.clone());
    for _ in 0..15 {
        chaos.live();
    }
    let world = World::open(&chaos.sim, options).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    chaos.verify(&world);
}

#[test]
fn nothing_committed_is_lost_whatever_happens() {
    for seed in seeds(40) {
        run(seed, &options());
    }
}

#[test]
fn with_durability_os_nothing_written_is_lost_whatever_happens_but_power_loss() {
    for seed in seeds(20) {
        run(seed, &os_options());
    }
}
