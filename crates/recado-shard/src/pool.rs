//! Threads that read the log beside the writer.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
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

/// A few threads with one queue. The queue is bounded by its users: the shard has one read for trimming and
/// one for each bulk action in it, a request whose answer needs bytes one, and requests are bounded.
///
/// A job that panics ends alone: who waits for it finds its promise dropped, and the thread goes on.
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
            // What it had is dropped with it; nothing of it is used again.
            if catch_unwind(AssertUnwindSafe(job)).is_err() {
                tracing::error!("a read broke off: see the standard error of this process");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn jobs_that_panic_cost_no_thread() {
        let pool = ReaderPool::start(2).unwrap();
        for _ in 0..10 {
            pool.run(Box::new(|| panic!("a broken read")));
        }
        let (sender, done) = mpsc::channel();
        pool.run(Box::new(move || sender.send(()).unwrap()));
        done.recv().unwrap();
    }
}
