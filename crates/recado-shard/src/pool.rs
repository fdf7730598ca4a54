//! Threads that read the log beside the writer.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

/// A piece of work for a reader thread.
pub type Job = Box<dyn FnOnce() + Send>;

/// Who does what must not hold up the writer: reading payloads and merging patches.
pub trait Workers: Send + Sync {
    /// Does it, now or soon.
    fn run(&self, job: Job);
}

/// Does everything at once in the calling thread: a simulator stays deterministic with it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inline;

impl Workers for Inline {
    fn run(&self, job: Job) {
        job();
    }
}

/// A few threads with one queue. The queue is bounded by its users: each has one job in it at a time.
pub struct ReaderPool {
    queue: Arc<Queue>,
}

#[derive(Default)]
struct Queue {
    jobs: Mutex<(VecDeque<Job>, bool)>,
    filled: Condvar,
}

impl ReaderPool {
    /// Starts the threads.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(threads: usize) -> io::Result<Self> {
        assert!(threads > 0, "a pool without threads would never answer");
        let pool = Self { queue: Arc::default() };
        for number in 0..threads {
            let queue = Arc::clone(&pool.queue);
            thread::Builder::new().name(format!("recado-read-{number}")).spawn(move || queue.work())?;
        }
        Ok(pool)
    }
}

impl Workers for ReaderPool {
    fn run(&self, job: Job) {
        let mut jobs = self.queue.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.0.push_back(job);
        drop(jobs);
        self.queue.filled.notify_one();
    }
}

impl Drop for ReaderPool {
    /// The threads end by themselves. They are not joined: the last user may be one of them.
    fn drop(&mut self) {
        self.queue.jobs.lock().unwrap_or_else(PoisonError::into_inner).1 = true;
        self.queue.filled.notify_all();
    }
}

impl Queue {
    fn work(&self) {
        loop {
            let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
            let job = loop {
                if let Some(job) = jobs.0.pop_front() {
                    break job;
                }
                if jobs.1 {
                    return;
                }
                jobs = self.filled.wait(jobs).unwrap_or_else(PoisonError::into_inner);
            };
            drop(jobs);
            job();
        }
    }
}
