//! What the tests share: a log on a simulated disk, stepped by hand, and batches that are told apart.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use recado_log::sim::SimDisk;
use recado_log::{
    Batch, Class, Durability, Engine, Entry, Error, FileLog, Log, Options, Place, Position, Reader, Recovery, Step,
    Urgency, Wake,
};

pub(crate) const SEGMENT: u64 = 64 << 10;
pub(crate) const SEGMENT_HEADER: usize = 512;
/// Where the mark of the log's start stands in it.
pub(crate) const START_MARK: usize = 256;
pub(crate) const RECORD_HEADER: usize = 72;

pub(crate) fn options() -> Options {
    Options { segment_bytes: SEGMENT, ..Options::default() }
}

pub(crate) fn os_options() -> Options {
    Options { durability: Durability::Os, ..options() }
}

pub(crate) fn silent() -> Wake {
    Arc::new(|| ())
}

pub(crate) fn batch(head: &[u8], tail: &[u8]) -> Batch {
    Batch { head: Bytes::copy_from_slice(head), tail: Bytes::copy_from_slice(tail) }
}

/// A batch whose bytes follow from its number; heads and tails of many sizes.
pub(crate) fn numbered(number: u64, bytes: usize) -> Batch {
    let byte = |at: usize| (number as usize * 31 + at * 7) as u8;
    let head: Vec<u8> = number.to_le_bytes().into_iter().chain((0..bytes / 3).map(byte)).collect();
    let tail: Vec<u8> = (0..bytes - bytes / 3).map(|at| !byte(at)).collect();
    Batch { head: head.into(), tail: tail.into() }
}

/// The seeds a test runs over. `RECADO_LOG_SEEDS=from..to` runs others, for instance one that failed or
/// many over night.
pub(crate) fn seeds(count: u64) -> std::ops::Range<u64> {
    let Ok(range) = std::env::var("RECADO_LOG_SEEDS") else { return 0..count };
    let (from, to) = range.split_once("..").unwrap();
    from.parse().unwrap()..to.parse().unwrap()
}

/// A tiny generator for scripts; not the one of the disk.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

pub(crate) fn place(position: Position, offset: usize, length: usize) -> Place {
    Place { position, offset: offset as u32, length: length as u32 }
}

/// An open log on a simulated disk.
pub(crate) struct World {
    pub(crate) sim: SimDisk,
    pub(crate) log: Box<FileLog>,
    pub(crate) engine: Engine,
    pub(crate) recovery: Recovery,
    pub(crate) now: Duration,
}

impl World {
    pub(crate) fn new() -> World {
        World::on(&SimDisk::new(1))
    }

    pub(crate) fn on(sim: &SimDisk) -> World {
        World::open(sim, &options()).unwrap()
    }

    pub(crate) fn open(sim: &SimDisk, options: &Options) -> Result<World, Error> {
        let (log, engine, recovery) = FileLog::open_stepped(sim.disk(), options, silent())?;
        Ok(World { sim: sim.clone(), log: Box::new(log), engine, recovery, now: Duration::ZERO })
    }

    pub(crate) fn submit(&mut self, batch: Batch) -> Position {
        let next = self.log.next();
        assert_eq!(self.log.submit(batch, Urgency::Now).unwrap(), next);
        next
    }

    pub(crate) fn lazily(&mut self, batch: Batch) -> Position {
        self.log.submit(batch, Urgency::Lazy).unwrap()
    }

    /// Steps both engines until they have nothing to do now.
    pub(crate) fn settle(&mut self) {
        while self.engine.commit(self.now) == Step::Worked {}
        while self.engine.prepare(self.now) == Step::Worked {}
    }

    pub(crate) fn pass(&mut self, millis: u64) {
        self.now += Duration::from_millis(millis);
        self.settle();
    }

    /// Submits and commits.
    pub(crate) fn put(&mut self, batch: Batch) -> Position {
        let position = self.submit(batch);
        self.settle();
        assert_eq!(self.log.committed().unwrap(), position);
        position
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        entries(&*self.log.reader())
    }

    pub(crate) fn batches(&self) -> Vec<Batch> {
        self.entries().into_iter().map(|entry| entry.batch).collect()
    }

    pub(crate) fn close(self) -> SimDisk {
        let log: Box<dyn Log> = self.log;
        log.close().unwrap();
        self.sim
    }

    /// The process dies.
    pub(crate) fn kill(self) -> SimDisk {
        self.sim.kill();
        self.sim
    }

    pub(crate) fn lose_power(self) -> SimDisk {
        self.sim.lose_power();
        self.sim
    }

    pub(crate) fn room(&self) -> [u64; 3] {
        [Class::Produce, Class::Settle, Class::Copy].map(|class| self.log.room(class))
    }
}

pub(crate) fn entries(reader: &dyn Reader) -> Vec<Entry> {
    let (_, first) = reader.bounds().unwrap();
    entries_from(reader, first)
}

pub(crate) fn entries_from(reader: &dyn Reader, from: Position) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut at = from;
    while let Some(entry) = reader.read(at, true).unwrap() {
        assert!(entry.position >= at && entry.next > entry.position);
        let light = reader.read(at, false).unwrap().unwrap();
        assert_eq!((light.position, light.next), (entry.position, entry.next));
        assert_eq!(light.batch, Batch { head: entry.batch.head.clone(), tail: Bytes::new() });
        at = entry.next;
        entries.push(entry);
    }
    entries
}

/// The file and offset of a position.
pub(crate) fn file_of(position: Position) -> (String, usize) {
    (format!("{:016x}.log", position.0 / SEGMENT), (position.0 % SEGMENT) as usize)
}

pub(crate) fn segment_files(sim: &SimDisk) -> Vec<String> {
    sim.names().into_iter().filter(|name| name.ends_with(".log")).collect()
}

/// Where a file is changed at one place.
pub(crate) fn flip(sim: &SimDisk, name: &str, at: usize, mask: u8) {
    let mut bytes = sim.contents(name);
    bytes[at] ^= mask;
    sim.put(name, bytes);
}

/// A directory that goes away with the test.
pub(crate) struct TempDir(pub(crate) std::path::PathBuf);

impl TempDir {
    pub(crate) fn new(name: &str) -> TempDir {
        static NUMBER: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("recado-log-{name}-{}-{number}", std::process::id());
        TempDir(std::env::temp_dir().join(name))
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
