//! A log under everything at once: writes, trims, pins, a full disk, a failing disk, kills and power losses, also
//! while it is being opened. A run follows from its seed and panics when the log breaks a promise.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::{Fault, SimDisk, draw};
use crate::{Batch, Class, Durability, Engine, Error, FileLog, Log, Options, Pin, Position, Recovery, Step, Urgency};

/// Lives of the process in one run.
const LIVES: u64 = 60;
const SEGMENT_BYTES: u64 = 64 << 10;
/// Bytes of batches. Records of the small kinds are as long as two or three fences: where an open has written one, new
/// records end where old ones began.
const SIZES: [&[usize]; 3] = [&[8, 90, 2_000, 9_000, 40_000], &[72, 72, 144], &[72, 144]];
const FAULTS: [Fault; 5] = [Fault::Io, Fault::NextSync, Fault::Crash, Fault::Full, Fault::Short];

/// Lives through `seed`.
///
/// # Panics
/// When the log loses, invents or changes a batch, or does not open.
pub fn play(seed: u64, durability: Durability) {
    let mut chaos = Chaos::new(seed, Options { segment_bytes: SEGMENT_BYTES, durability, ..Options::default() });
    for _ in 0..LIVES {
        chaos.live();
    }
    match Process::open(&chaos.sim, &chaos.options) {
        Ok(process) => chaos.verify(&process),
        Err(error) => panic!("a sound disk does not open: {error}"),
    }
}

/// A process that has the log open, stepped by hand.
struct Process {
    log: FileLog,
    engine: Engine,
    recovery: Recovery,
    now: Duration,
}

impl Process {
    fn open(sim: &SimDisk, options: &Options) -> Result<Self, Error> {
        let (log, engine, recovery) = FileLog::open_stepped(sim.disk(), options, Arc::new(|| ()))?;
        Ok(Self { log, engine, recovery, now: Duration::ZERO })
    }

    fn settle(&mut self) {
        while self.engine.commit(self.now) == Step::Worked {}
        while self.engine.prepare(self.now) == Step::Worked {}
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.settle();
    }

    /// All batches, read with their tails and without.
    fn batches(&self) -> Result<Vec<(Position, Batch)>, Error> {
        let reader = self.log.reader();
        let (_, mut at) = reader.bounds()?;
        let mut batches = Vec::new();
        while let Some(entry) = reader.read(at, true)? {
            let light = reader.read(at, false)?.map(|light| (light.position, light.next, light.batch.head));
            assert_eq!(light, Some((entry.position, entry.next, entry.batch.head.clone())));
            assert!(entry.position >= at && entry.next > entry.position, "reading goes forward");
            at = entry.next;
            batches.push((entry.position, entry.batch));
        }
        Ok(batches)
    }
}

/// A batch whose bytes follow from its number.
fn numbered(number: u64, bytes: usize) -> Batch {
    let byte = |at: usize| (number as usize * 31 + at * 7) as u8;
    let mut head: Vec<u8> = number.to_le_bytes().into_iter().chain((8..bytes).map(byte)).collect();
    let tail = head.split_off(bytes - bytes / 3);
    Batch { head: Bytes::from(head), tail: Bytes::from(tail) }
}

struct Chaos {
    random: u64,
    sim: SimDisk,
    options: Options,
    sizes: &'static [usize],
    /// Of the batches of this life. Lazy ones alone are long in a page cache only.
    urgencies: &'static [Urgency],
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
    fn new(seed: u64, options: Options) -> Self {
        let mut random = !seed;
        let sizes = SIZES[(draw(&mut random) % SIZES.len() as u64) as usize];
        Self {
            random,
            sim: SimDisk::new(seed),
            options,
            sizes,
            urgencies: &[],
            sent: Vec::new(),
            number: 0,
            written: Position(0),
            until: Position(0),
            trimmed: Position(0),
        }
    }

    fn roll(&mut self, sides: u64) -> u64 {
        draw(&mut self.random) % sides
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.roll(from.len() as u64) as usize]
    }

    /// A life of the process: it opens the log, works, and dies.
    fn live(&mut self) {
        self.urgencies = self.pick(&[&[Urgency::Now, Urgency::Lazy], &[Urgency::Lazy]]);
        if self.roll(3) == 0 {
            // What the open writes first stays in a cache.
            self.sim.fail_at(self.sim.operations(), Fault::NextSync);
        } else if self.roll(2) == 0 {
            let (fault, within) = (self.pick(&FAULTS), self.pick(&[8, 120]));
            let after = self.roll(within);
            self.sim.fail_at(self.sim.operations() + after, fault);
        }
        if self.roll(4) == 0 {
            // What cannot be read must not be taken for what is not there.
            let within = self.pick(&[4, 12]);
            let after = self.roll(within);
            self.sim.fail_read_after(after);
        }
        let opened = Process::open(&self.sim, &self.options);
        self.sim.clear_read_faults();
        let loses_power = self.roll(2) == 0 && self.options.durability == Durability::Sync;
        match opened {
            Ok(mut process) => {
                self.verify(&process);
                self.work(&mut process);
                self.sim.clear_read_faults();
                if self.roll(3) == 0 {
                    process.pass(Duration::from_secs(1));
                    self.note(&process);
                }
                // What a poisoned log wrote last may be there or not.
                self.written = match process.log.committed() {
                    Ok(_) => process.log.written(),
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

    fn work(&mut self, process: &mut Process) {
        let mut pins: Vec<Pin> = Vec::new();
        let steps_max = self.pick(&[4, 40]);
        if self.roll(4) == 0 {
            let after = self.roll(8);
            self.sim.fail_read_after(after);
        }
        for _ in 0..self.roll(steps_max) {
            match self.roll(14) {
                0..7 => self.submit(process),
                7 | 8 => drop(process.engine.commit(process.now)),
                9 => drop(process.engine.prepare(process.now)),
                10 => process.pass(Duration::from_millis(100 * self.roll(13))),
                11 => self.trim(process),
                12 if self.roll(2) == 0 => pins.clear(),
                12 => match process.log.reader().pin(process.log.usage().first) {
                    Ok(pin) => pins.push(pin),
                    Err(error) => panic!("the first segment cannot be pinned: {error}"),
                },
                _ => {
                    let full = self.roll(2) == 0;
                    self.sim.set_capacity(full.then(|| self.sim.used_bytes()));
                }
            }
            self.note(process);
            for pin in &pins {
                match process.log.reader().read(pin.position(), true) {
                    Ok(entry) => assert!(entry.is_some() || process.log.written() < pin.position()),
                    // The process is dead, and nothing it did since has told it.
                    Err(error) => assert!(matches!(error, Error::Io { .. }), "{error}"),
                }
            }
        }
    }

    fn note(&mut self, process: &Process) {
        if let Ok(committed) = process.log.committed() {
            assert!(committed >= self.until || self.sent.is_empty(), "what is committed stays so");
            self.until = committed.max(self.until);
        }
    }

    fn submit(&mut self, process: &mut Process) {
        let bytes = self.pick(self.sizes);
        let class = self.pick(&[Class::Produce, Class::Settle, Class::Copy]);
        let urgency = self.pick(self.urgencies);
        if process.log.room(class) < bytes as u64 {
            return;
        }
        let batch = numbered(self.number, bytes);
        match process.log.submit(batch.clone(), urgency) {
            Ok(position) => {
                assert!(self.sent.last().is_none_or(|(last, _)| *last < position));
                self.sent.push((position, batch));
                self.number += 1;
            }
            Err(error) => assert!(matches!(error, Error::Poisoned { .. }), "{error}"),
        }
    }

    fn trim(&mut self, process: &mut Process) {
        let Ok(committed) = process.log.committed() else { return };
        let below = Position(committed.0.saturating_sub(self.roll(3) * SEGMENT_BYTES));
        if process.log.trim(below).is_ok() {
            self.trimmed = self.trimmed.max(below);
        }
        process.settle();
    }

    /// What is there is a stretch of what was sent, without gaps, with all that has to be there.
    fn verify(&mut self, process: &Process) {
        let found = match process.batches() {
            Ok(found) => found,
            Err(error) => panic!("the log cannot be read: {error}"),
        };
        let first = found.first().map_or(process.recovery.first, |(first, _)| *first);
        let is_gone = |(position, _): &(Position, Batch)| *position < first;
        let start = self.sent.iter().take_while(|sent| is_gone(sent)).count();
        if let Some((newest_gone, _)) = self.sent[..start].last() {
            assert!(*newest_gone < self.trimmed, "{newest_gone} was not trimmed");
        }
        assert!(start + found.len() <= self.sent.len(), "there is a batch that was not there before");
        for (found, sent) in found.iter().zip(&self.sent[start..]) {
            assert!(found == sent, "at {} is not what was written there last", sent.0);
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
