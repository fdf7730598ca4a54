//! The log on its own threads and on real files.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use recado_log::sim::{Fault, SimDisk};
use recado_log::{Class, Disk, Error, FileLog, Log, Options, Position, RealDisk, Recovery, Urgency, Wake};

use crate::world::*;

/// A log on threads, and a way to wait for it.
struct Running {
    log: Box<dyn Log>,
    recovery: Recovery,
    woken: Receiver<()>,
}

impl Running {
    fn open(disk: Arc<dyn Disk>, options: &Options) -> Running {
        let (wake, woken) = channel();
        let wake = Mutex::new(wake);
        let wake: Wake = Arc::new(move || {
            let _ = wake.lock().unwrap().send(()); // nobody may be waiting any more
        });
        let (log, recovery) = FileLog::open(disk, options, wake).unwrap();
        Running { log: Box::new(log), recovery, woken }
    }

    fn wait(&self, until: impl Fn(&dyn Log) -> bool) {
        while !until(&*self.log) {
            assert!(self.woken.recv_timeout(Duration::from_secs(60)).is_ok(), "the log never woke its owner");
        }
    }

    fn submit(&mut self, number: u64, bytes: usize) -> Position {
        self.wait(|log| log.room(Class::Produce) >= bytes as u64 + 8);
        self.log.submit(numbered(number, bytes), Urgency::Now).unwrap()
    }

    fn wait_committed(&self, position: Position) {
        self.wait(|log| log.committed().unwrap() >= position);
    }
}

fn real(dir: &TempDir) -> Arc<dyn Disk> {
    Arc::new(RealDisk::new(&dir.0).unwrap())
}

#[test]
fn batches_are_committed_and_read_on_real_files() {
    for options in [options(), os_options()] {
        let dir = TempDir::new("threads");
        let mut running = Running::open(real(&dir), &options);
        let mut last = Position(0);
        for number in 0..500 {
            last = running.submit(number, [10, 1_000, 5_000][number as usize % 3]);
        }
        running.wait_committed(last);
        assert_eq!(running.log.written(), last);
        assert_eq!(entries(&*running.log.reader()).len(), 500);
        running.log.close().unwrap();
        let running = Running::open(real(&dir), &options);
        assert_eq!(running.recovery.batches, 500);
        assert_eq!(running.recovery.cut, None);
        let found = entries(&*running.log.reader());
        for (number, entry) in found.iter().enumerate() {
            assert_eq!(entry.batch, numbered(number as u64, [10, 1_000, 5_000][number % 3]));
        }
    }
}

#[test]
fn readers_follow_while_the_log_is_written_and_trimmed() {
    let dir = TempDir::new("follow");
    let mut running = Running::open(real(&dir), &options());
    let reader = running.log.reader();
    let follower = std::thread::spawn(move || {
        let mut at = reader.bounds().unwrap().1;
        let (mut seen, mut newest) = (0, 0);
        while newest < 799 {
            match reader.read(at, true) {
                Ok(None) => std::thread::yield_now(),
                Ok(Some(entry)) => {
                    newest = u64::from_le_bytes(entry.batch.head[..8].try_into().unwrap());
                    assert_eq!(entry.batch, numbered(newest, 3_000));
                    at = entry.next;
                    seen += 1;
                }
                Err(Error::Trimmed { first }) => {
                    assert!(first > at);
                    at = first;
                }
                Err(error) => panic!("{error}"),
            }
        }
        seen
    });
    for number in 0..800 {
        let position = running.submit(number, 3_000);
        if number % 50 == 0 {
            running.wait_committed(position);
            running.log.trim(Position(position.0.saturating_sub(2 * SEGMENT))).unwrap();
        }
    }
    assert!(follower.join().unwrap() > 0);
    running.log.close().unwrap();
}

#[test]
fn a_lazy_batch_is_committed_without_anyone_asking() {
    let mut running = Running::open(SimDisk::new(1).disk(), &options());
    let position = running.log.submit(numbered(0, 10), Urgency::Lazy).unwrap();
    running.wait_committed(position);
}

#[test]
fn an_owner_alone_finds_its_batch_committed() {
    for options in [options(), os_options()] {
        let sim = SimDisk::new(1);
        let mut running = Running::open(sim.disk(), &options);
        running.wait(|log| log.room(Class::Produce) > 1_000);
        for number in 0..3 {
            let position = running.log.submit(numbered(number, 10), Urgency::Alone).unwrap();
            assert_eq!(running.log.committed().unwrap(), position);
        }
        // The committer's thread slept without a deadline, and yet moves the watermark when nothing more comes.
        let (before, given_up) = (sim.operations(), Instant::now() + Duration::from_secs(60));
        while sim.operations() < before + 2 {
            assert!(Instant::now() < given_up, "the watermark never moved");
            std::thread::yield_now();
        }
        running.log.close().unwrap();
        assert_eq!(Running::open(sim.disk(), &options).recovery.batches, 3);
    }
}

#[test]
fn a_sync_that_fails_within_a_submit_poisons() {
    let sim = SimDisk::new(1);
    let mut running = Running::open(sim.disk(), &options());
    running.wait(|log| log.room(Class::Produce) > 1_000);
    sim.fail_at(sim.operations() + 1, Fault::Io);
    running.log.submit(numbered(0, 10), Urgency::Alone).unwrap();
    assert!(matches!(running.log.committed(), Err(Error::Poisoned { .. })));
    assert!(matches!(running.log.close(), Err(Error::Poisoned { .. })));
}

#[test]
fn a_panic_within_a_submit_poisons() {
    let (owner, armed) = (thread::current().id(), Arc::new(AtomicBool::new(false)));
    let bomb = Arc::clone(&armed);
    let wake: Wake = Arc::new(move || {
        let goes_off = thread::current().id() == owner && bomb.swap(false, Ordering::SeqCst);
        assert!(!goes_off, "on purpose");
    });
    let (mut log, _) = FileLog::open(SimDisk::new(1).disk(), &options(), wake).unwrap();
    armed.store(true, Ordering::SeqCst);
    let submitted = catch_unwind(AssertUnwindSafe(|| log.submit(numbered(0, 10), Urgency::Alone)));
    assert!(submitted.is_err());
    assert!(matches!(log.committed(), Err(Error::Poisoned { .. })));
}

#[test]
fn a_failed_sync_wakes_the_owner() {
    let sim = SimDisk::new(1);
    let mut running = Running::open(sim.disk(), &options());
    sim.fail_at(sim.operations() + 1, Fault::Io);
    running.log.submit(numbered(0, 10), Urgency::Now).unwrap();
    running.wait(|log| log.committed().is_err());
    assert!(matches!(running.log.close(), Err(Error::Poisoned { .. })));
}

#[test]
fn space_that_returns_is_used_without_anyone_asking() {
    let sim = SimDisk::new(1);
    let mut running = Running::open(sim.disk(), &options());
    sim.set_capacity(Some(sim.used_bytes()));
    for number in 0..20 {
        if running.log.room(Class::Produce) > 8_000 {
            running.submit(number, 7_000);
        }
    }
    running.wait(|log| log.is_short_of_space());
    sim.set_capacity(None);
    running.wait(|log| !log.is_short_of_space() && log.room(Class::Produce) > 8_000);
}

#[test]
fn a_dropped_log_gives_the_directory_free() {
    let dir = TempDir::new("drop");
    let mut running = Running::open(real(&dir), &options());
    let position = running.submit(0, 100);
    running.wait_committed(position);
    drop(running);
    assert_eq!(Running::open(real(&dir), &options()).recovery.batches, 1);
}
