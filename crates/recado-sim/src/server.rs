//! A machine: a disk, clocks, and a server process that is there or not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use recado_log::sim::SimDisk;
use recado_log::{Engine, FileLog, Step};
use recado_shard::{Clock, Entropy, Handle, Inline, Next, OpenError, Shard};

use crate::client::{Call, Reply};
use crate::options::ServerOptions;
use crate::payload;
use crate::random::Random;
use crate::script::Micros;

/// The wall clock when a run begins.
pub(crate) const WALL_MS: u64 = 1_780_000_000_000;
/// What one turn of the shard takes at most.
const TURN: Micros = 20;

#[derive(Default)]
struct SimClock {
    elapsed: AtomicU64,
    wall_ms: AtomicU64,
}

impl Clock for SimClock {
    fn wall_ms(&self) -> u64 {
        self.wall_ms.load(Ordering::Relaxed)
    }

    fn elapsed(&self) -> Duration {
        Duration::from_micros(self.elapsed.load(Ordering::Relaxed))
    }
}

struct Seeded(Random);

impl Entropy for Seeded {
    fn next(&mut self) -> u64 {
        self.0.next()
    }
}

/// One of the things that a process does by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Shard,
    Commit,
    Prepare,
}

const PARTS: [Part; 3] = [Part::Shard, Part::Commit, Part::Prepare];

/// What came of a step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Life {
    GoesOn,
    /// The disk failed, or took the process with it.
    Died,
    /// It was asked to stop, and is to be closed.
    Stopped,
}

struct Process {
    calls: Vec<(usize, Call)>,
    shard: Shard,
    handle: Handle,
    engine: Engine,
    /// The log has something to tell the shard.
    woken: Arc<AtomicBool>,
    due: [Option<Micros>; 3],
    /// The disk is at its last piece of work until then; what is submitted meanwhile is written together.
    is_busy_until: Micros,
    is_stopping: bool,
}

/// A machine.
pub(crate) struct Server {
    number: usize,
    options: ServerOptions,
    pub(crate) disk: SimDisk,
    clock: Arc<SimClock>,
    /// The wall clock against the true time, now and at most so far.
    wall_offset_ms: (i64, i64),
    process: Option<Process>,
    random: Random,
    /// What could not be read, in all processes so far.
    unreadable: u64,
    /// The most memory that its state has taken.
    pub(crate) memory_max_bytes: u64,
}

impl Server {
    pub(crate) fn new(number: usize, options: &ServerOptions, seed: u64) -> Self {
        let mut random = Random::new(seed ^ (number as u64 + 1));
        Self {
            number,
            options: options.clone(),
            disk: SimDisk::new(random.next()),
            clock: Arc::default(),
            wall_offset_ms: (0, 0),
            process: None,
            random,
            unreadable: 0,
            memory_max_bytes: 0,
        }
    }

    /// The wall clock at this true time.
    pub(crate) fn wall_ms(&self, now: Micros) -> u64 {
        (WALL_MS + now / 1_000).saturating_add_signed(self.wall_offset_ms.0)
    }

    /// Steps the wall clock.
    pub(crate) fn step_wall(&mut self, ms: i64) {
        let (now, most) = self.wall_offset_ms;
        self.wall_offset_ms = (now + ms, most.max(now + ms));
    }

    /// How far it is behind what it was at most.
    pub(crate) fn wall_is_behind_ms(&self) -> i64 {
        self.wall_offset_ms.1 - self.wall_offset_ms.0
    }

    fn set_clock(&self, now: Micros) {
        self.clock.elapsed.store(now, Ordering::Relaxed);
        self.clock.wall_ms.store(self.wall_ms(now), Ordering::Relaxed);
    }

    pub(crate) fn is_up(&self) -> bool {
        self.process.is_some()
    }

    pub(crate) fn handle(&self) -> Option<&Handle> {
        self.process.as_ref().map(|process| &process.handle)
    }

    /// Starts a process; its log and shard recover at once.
    pub(crate) fn start(&mut self, now: Micros) -> Result<(), OpenError> {
        self.set_clock(now);
        let log = recado_log::Options {
            durability: self.options.durability,
            segment_bytes: self.options.segment_bytes,
            window: self.options.window,
            ..recado_log::Options::default()
        };
        let woken = Arc::new(AtomicBool::new(true));
        let wake = Arc::clone(&woken);
        let wake = Arc::new(move || wake.store(true, Ordering::Relaxed));
        let (log, engine, _) = FileLog::open_stepped(self.disk.disk(), &log, wake)?;
        let options = recado_shard::Options {
            number: self.number as u16,
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            entropy: Box::new(Seeded(Random::new(self.random.next()))),
            workers: Arc::new(Inline),
            command_queue_max: self.options.requests_max,
            payload_cache_bytes: self.options.cache_bytes,
            memory_bytes: self.options.memory_bytes,
            merge_patch: Arc::new(|patch, payload, _| payload::merge(patch, payload)),
        };
        let shard = Shard::open(Box::new(log), options)?;
        let handle = shard.handle();
        let (due, is_busy_until) = ([Some(now); 3], now);
        self.process =
            Some(Process { calls: Vec::new(), shard, handle, engine, woken, due, is_busy_until, is_stopping: false });
        Ok(())
    }

    /// The process is gone, whatever it was at. Answers with the requests it leaves open.
    pub(crate) fn end(&mut self) -> Vec<usize> {
        let Some(process) = self.process.take() else { return Vec::new() };
        self.unreadable += process.handle.status().unreadable;
        process.calls.iter().map(|(op, _)| *op).collect()
    }

    /// Takes a request: what is refused at the door is answered already, the rest is now in the shard's inbox.
    pub(crate) fn accept(&mut self, now: Micros, op: usize, mut call: Call) {
        let Some(process) = &mut self.process else { return };
        let call = match call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => Box::pin(std::future::ready(output)),
            Poll::Pending => call,
        };
        process.calls.push((op, call));
        process.due[Part::Shard as usize] = Some(now);
    }

    /// The client has hung up.
    pub(crate) fn hang_up(&mut self, op: usize) {
        if let Some(process) = &mut self.process {
            process.calls.retain(|(open, _)| *open != op);
        }
    }

    pub(crate) fn begin_stop(&mut self, now: Micros) {
        if let Some(process) = &mut self.process {
            process.shard.begin_stop();
            process.is_stopping = true;
            process.due[Part::Shard as usize] = Some(now);
        }
    }

    /// What the process does next by itself.
    pub(crate) fn next(&self) -> Option<(Micros, Part)> {
        let process = self.process.as_ref()?;
        let due = PARTS.into_iter().filter_map(|part| Some((process.due[part as usize]?, part)));
        due.min_by_key(|(at, part)| (*at, *part as usize))
    }

    /// Lets one part of the process do one step.
    pub(crate) fn step(&mut self, now: Micros, part: Part) -> Life {
        self.set_clock(now);
        let (turn, disk) = (now + self.random.between(1, TURN), now + self.random.between(1, self.options.disk));
        let Some(process) = &mut self.process else { return Life::GoesOn };
        let elapsed = self.clock.elapsed();
        match part {
            Part::Shard => {
                process.woken.store(false, Ordering::Relaxed);
                let next = process.shard.step();
                self.memory_max_bytes = self.memory_max_bytes.max(process.handle.memory_bytes());
                match next {
                    Next::Now => process.due[0] = Some(turn),
                    Next::At(at) => {
                        let at = Micros::try_from(at.as_micros()).unwrap_or(Micros::MAX);
                        process.due[0] = Some(at.max(now + 1));
                    }
                    Next::Ended if process.is_stopping => return Life::Stopped,
                    Next::Ended => return Life::Died,
                }
                for part in [Part::Commit, Part::Prepare] {
                    let (due, soon) = (&mut process.due[part as usize], process.is_busy_until.max(now + 1));
                    *due = Some(due.unwrap_or(soon).min(soon));
                }
            }
            Part::Commit | Part::Prepare => {
                process.is_busy_until = disk;
                let step =
                    if part == Part::Commit { process.engine.commit(elapsed) } else { process.engine.prepare(elapsed) };
                process.due[part as usize] = match step {
                    Step::Worked => Some(disk),
                    Step::Idle { until } => until.map(|until| (until.as_micros() as Micros).max(now + 1)),
                    Step::Ended => None,
                };
            }
        }
        if self.disk.is_dead() {
            return Life::Died;
        }
        if process.woken.load(Ordering::Relaxed) {
            let due = &mut process.due[0];
            *due = Some(due.unwrap_or(turn).min(turn));
        }
        Life::GoesOn
    }

    /// The end of a graceful stop; false when the disk failed at it.
    pub(crate) fn close(&mut self) -> bool {
        let Some(process) = self.process.take() else { return false };
        self.unreadable += process.handle.status().unreadable;
        let closed = process.shard.close().is_ok();
        closed && !self.disk.is_dead()
    }

    /// Requests whose answers have left the shard.
    pub(crate) fn answered(&mut self) -> Vec<(usize, Reply)> {
        let Some(process) = &mut self.process else { return Vec::new() };
        let mut answered = Vec::new();
        let mut context = Context::from_waker(Waker::noop());
        process.calls.retain_mut(|(op, call)| match call.as_mut().poll(&mut context) {
            Poll::Ready(reply) => {
                answered.push((*op, reply));
                false
            }
            Poll::Pending => true,
        });
        answered
    }

    /// What could not be read so far.
    pub(crate) fn unreadable(&self) -> u64 {
        self.unreadable + self.handle().map_or(0, |handle| handle.status().unreadable)
    }
}
