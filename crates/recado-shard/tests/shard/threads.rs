//! The whole, with its threads, on a real disk.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use recado_core::Reply;
use recado_shard::{FileOptions, Options, Service, block_on, start_file};

use crate::world::{ack, enqueue, job, receive, taken};

/// A directory that is gone with the test.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("recado-shard-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

fn serve(directory: &Path) -> Service {
    let file = FileOptions { segment_bytes: 1 << 20, ..FileOptions::default() };
    let options = Options::new(|_, payload, _| Ok(payload.to_vec())).unwrap();
    start_file(directory, &file, options).unwrap()
}

const PRODUCERS: usize = 8;
const JOBS_EACH: usize = 100;

#[test]
fn many_producers_and_consumers_lose_and_double_nothing() {
    let directory = Directory::new();
    let service = serve(&directory.0);
    let done = std::thread::scope(|scope| {
        for producer in 0..PRODUCERS {
            let handle = service.handle();
            scope.spawn(move || {
                for number in 0..JOBS_EACH {
                    let command = enqueue("mail", vec![job(&format!("{producer}-{number}"))]);
                    assert!(matches!(block_on(handle.call(command)), Ok(Reply::Enqueued { .. })));
                }
            });
        }
        let consumers: Vec<_> = (0..4)
            .map(|_| {
                let handle = service.handle();
                scope.spawn(move || {
                    let mut done = Vec::new();
                    let mut settle = Vec::new();
                    loop {
                        let entries = std::mem::take(&mut settle);
                        let count = entries.len();
                        let received =
                            block_on(handle.receive(receive("mail", 10), entries, Duration::from_secs(2))).unwrap();
                        assert_eq!(received.settled.iter().filter(|outcome| outcome.is_ok()).count(), count);
                        let jobs = taken(received, handle.secret());
                        if jobs.is_empty() {
                            return done;
                        }
                        settle.extend(jobs.iter().map(|job| job.settle(ack())));
                        done.extend(jobs.into_iter().map(|job| job.payload));
                    }
                })
            })
            .collect();
        consumers.into_iter().flat_map(|consumer| consumer.join().unwrap()).collect::<Vec<_>>()
    });
    let mut all = done.clone();
    all.sort();
    all.dedup();
    assert_eq!((all.len(), done.len()), (PRODUCERS * JOBS_EACH, PRODUCERS * JOBS_EACH));
    let status = service.handle().status();
    assert!(status.commit.count > 0 && status.failed.is_none());
    service.stop().unwrap();
}

#[test]
fn stop_and_start_again() {
    let directory = Directory::new();
    let service = serve(&directory.0);
    let handle = service.handle();
    block_on(handle.call(enqueue("mail", vec![job("1"), job("2")]))).unwrap();
    let received = block_on(handle.receive(receive("mail", 1), Vec::new(), Duration::ZERO)).unwrap();
    let held = taken(received, handle.secret());
    service.stop().unwrap();
    assert!(block_on(handle.call(enqueue("mail", vec![job("3")]))).is_err());

    let service = serve(&directory.0);
    let handle = service.handle();
    assert!(service.replayed().batches > 0 && service.recovery().is_some());
    let outcomes = block_on(handle.settle(held.iter().map(|job| job.settle(ack())).collect())).unwrap();
    assert!(outcomes.iter().all(Result::is_ok));
    let backup = Directory::new();
    let copied = block_on(handle.backup(backup.0.clone())).unwrap();
    assert!(copied.batches > 0);
    service.stop().unwrap();

    let service = serve(&backup.0);
    let received = block_on(service.handle().receive(receive("mail", 10), Vec::new(), Duration::ZERO)).unwrap();
    let left = taken(received, service.handle().secret());
    assert_eq!(left.into_iter().map(|job| job.payload).collect::<Vec<_>>(), ["2"]);
    service.stop().unwrap();
}
