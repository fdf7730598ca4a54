//! The log: a real one with damage, and bytes that never were one.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use recado_log::sim::SimDisk;
use recado_log::{Batch, Error, FileLog, Log, Options, Position, Reader, Urgency, check, repair};

const SEGMENT_BYTES: usize = 64 << 10;
/// Batches of the real log, and bytes of each: it has four segments with records.
const BATCHES: u64 = 24;
const BATCH_BYTES: usize = 7_000;
/// What reading takes beside what the files have; the disk here is in memory too, once as it is and once as it is
/// durable.
const MEMORY_BYTES_MAX: usize = 4 << 20;

/// The first byte says which: even, the rest is damage done to a real log; odd, the rest is its only file.
pub(crate) fn run(input: &[u8]) {
    let Some((kind, rest)) = input.split_first() else { return };
    if kind.is_multiple_of(2) { damaged(rest) } else { invented(rest) }
}

fn options() -> Options {
    Options { segment_bytes: SEGMENT_BYTES as u64, ..Options::default() }
}

fn open(sim: &SimDisk) -> Result<(FileLog, Arc<dyn Reader>), Error> {
    let (log, _engine, _) = FileLog::open_stepped(sim.disk(), &options(), Arc::new(|| ()))?;
    let reader = log.reader();
    Ok((log, reader))
}

/// All files with their bytes, but for what is no part of the log.
fn files(sim: &SimDisk) -> BTreeMap<String, Vec<u8>> {
    let names = sim.names().into_iter().filter(|name| name != "LOCK");
    names.map(|name| (name.clone(), sim.contents(&name))).collect()
}

/// Nothing is known of these bytes but that they are read or refused, and take no more memory than files of their size.
fn invented(bytes: &[u8]) {
    let sim = SimDisk::new(1);
    let mut file = bytes.to_vec();
    file.resize(SEGMENT_BYTES, 0);
    sim.put("0000000000000000.log", file);
    let bytes_max = MEMORY_BYTES_MAX + 8 * SEGMENT_BYTES;
    crate::within_memory(
        || bytes_max,
        || {
            let _ = check(&*sim.disk());
            if open(&sim).is_err() {
                sim.kill();
                let _ = repair(&*sim.disk());
            }
            sim.kill();
            if let Ok((_log, reader)) = open(&sim) {
                read_all(&*reader);
            }
        },
    );
}

/// The log before anything happened to it.
struct Whole {
    sim: SimDisk,
    /// By position.
    batches: BTreeMap<u64, Batch>,
    /// Where the last batch ends.
    end: u64,
}

fn whole() -> &'static Whole {
    static WHOLE: OnceLock<Whole> = OnceLock::new();
    WHOLE.get_or_init(|| {
        let sim = SimDisk::new(1);
        let (mut log, engine, _) = FileLog::open_stepped(sim.disk(), &options(), Arc::new(|| ())).unwrap();
        let mut batches = BTreeMap::new();
        for number in 0..BATCHES {
            let byte = |at: usize| (number as usize * 31 + at * 7) as u8;
            let batch = Batch {
                head: (0..BATCH_BYTES / 3).map(byte).collect::<Vec<_>>().into(),
                tail: (0..BATCH_BYTES - BATCH_BYTES / 3).map(|at| !byte(at)).collect::<Vec<_>>().into(),
            };
            let position = log.submit(batch.clone(), Urgency::Now).unwrap();
            batches.insert(position.0, batch);
            while engine.commit(Default::default()) == recado_log::Step::Worked {}
            while engine.prepare(Default::default()) == recado_log::Step::Worked {}
        }
        let end = log.next().0;
        let log: Box<dyn Log> = Box::new(log);
        log.close().unwrap();
        Whole { sim, batches, end }
    })
}

/// A real log with damage: what stands wholly before the damage is never lost, and what is read is what was written.
fn damaged(damage: &[u8]) {
    let whole = whole();
    let sim = whole.sim.copy(1);
    for step in damage.chunks_exact(6).take(8) {
        strike(&sim, step);
    }
    let Some(first_bad) = first_difference(&whole.sim, &sim) else { return };
    // A batch that the damage touches, or that comes later, may be gone.
    let ends = whole.batches.keys().skip(1).copied().chain([whole.end]);
    let good: Vec<u64> =
        whole.batches.keys().copied().zip(ends).filter(|(_, end)| *end <= first_bad).map(|(at, _)| at).collect();
    let before = files(&sim);
    let opened = within_memory_of(&sim, || {
        let report = check(&*sim.disk());
        assert!(files(&sim) == before, "a check changes nothing");
        sim.kill();
        let opened = open(&sim).map(drop);
        if let Err(error) = &opened {
            assert!(matches!(error, Error::Corrupt { .. }), "{error}");
            assert!(files(&sim) == before, "what cannot be opened is left as it is: {error}, {report:?}");
        }
        opened
    });
    sim.kill();
    if opened.is_err() {
        // Not measured: it fills files up, which are in memory here.
        repair(&*sim.disk()).unwrap();
        sim.kill();
    }
    let read = within_memory_of(&sim, || {
        let (_log, reader) = open(&sim).unwrap_or_else(|error| panic!("repaired, and {error}"));
        read_all(&*reader)
    });
    for (position, batch) in &read {
        assert_eq!(whole.batches.get(position), Some(batch), "nobody wrote this batch at {position}");
    }
    for position in good {
        assert!(read.contains_key(&position), "the good batch at {position} is lost, damage begins at {first_bad}");
    }
}

/// Runs what may take memory in proportion to the files, those included that an open prepares.
fn within_memory_of<T>(sim: &SimDisk, work: impl FnOnce() -> T) -> T {
    let files = || files(sim).values().map(Vec::len).sum::<usize>();
    crate::within_memory(|| MEMORY_BYTES_MAX + 4 * files(), work)
}

/// One damage from six bytes: what, which file, where in it (three bytes), how much.
fn strike(sim: &SimDisk, step: &[u8]) {
    let names: Vec<String> = files(sim).into_keys().filter(|name| name.ends_with(".log")).collect();
    let Some(name) = names.get(usize::from(step[1]) % names.len().max(1)) else { return };
    let mut bytes = sim.contents(name);
    if bytes.is_empty() {
        return;
    }
    let at = (usize::from(step[2]) << 16 | usize::from(step[3]) << 8 | usize::from(step[4])) % bytes.len();
    let count = (usize::from(step[5]) + 1).pow(2);
    let end = bytes.len().min(at + count);
    match step[0] % 6 {
        0 => bytes[at] ^= 1 << (step[5] % 8),
        // A sector, or many, that read as zeros, or as what stands elsewhere.
        1 => bytes[at..end].fill(0),
        2 => {
            let from = (at + 4096 * usize::from(step[5])) % (bytes.len() - (end - at) + 1);
            bytes.copy_within(from..from + (end - at), at);
        }
        3 => bytes.truncate(at),
        4 => return sim.delete(name),
        _ => bytes = sim.contents(&names[usize::from(step[5]) % names.len()]),
    }
    sim.put(name, bytes);
}

/// The first byte of the log, as a position, that is not as it was.
fn first_difference(before: &SimDisk, after: &SimDisk) -> Option<u64> {
    let (before, after) = (files(before), files(after));
    let nothing = Vec::new();
    before.iter().enumerate().find_map(|(number, (name, was))| {
        let is = after.get(name).unwrap_or(&nothing);
        let at = was.iter().zip(is).position(|(was, is)| was != is).unwrap_or(was.len().min(is.len()));
        (was != is).then_some((number * SEGMENT_BYTES + at) as u64)
    })
}

/// All batches that can be read, by position, whole ones only.
fn read_all(reader: &dyn Reader) -> BTreeMap<u64, Batch> {
    let mut batches = BTreeMap::new();
    let Ok((_, mut at)) = reader.bounds() else { return batches };
    while let Ok(Some(entry)) = reader.read(at, false) {
        assert!(entry.next > entry.position && entry.position >= at, "reading goes forward");
        // A payload that is damaged keeps nobody from what comes after it.
        if let Ok(Some(whole)) = reader.read(entry.position, true) {
            batches.insert(whole.position.0, whole.batch);
        }
        at = Position(entry.next.0);
    }
    batches
}
