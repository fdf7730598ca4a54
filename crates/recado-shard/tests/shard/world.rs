//! A shard in a box: simulated disk, clock and luck, and a log that moves only when it is stepped.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use recado_core::{
    Command, Enqueue, Enqueued, Failure, JobId, NewJob, Outcome, Receive, Reply, Secret, Settle, Settled, TypeRange,
};
use recado_log::sim::SimDisk;
use recado_log::{Engine, FileLog, Step};
use recado_shard::{Clock, Entropy, Error, Handle, Inline, Next, Options, Received, Shard};

/// A clock that stands still.
pub(crate) struct ManualClock {
    wall_ms: AtomicU64,
    elapsed_ms: AtomicU64,
}

impl ManualClock {
    pub(crate) fn pass(&self, time: Duration) {
        let ms = time.as_millis() as u64;
        self.wall_ms.fetch_add(ms, Ordering::Relaxed);
        self.elapsed_ms.fetch_add(ms, Ordering::Relaxed);
    }

    /// Steps the wall clock only.
    pub(crate) fn step_wall(&self, ms: i64) {
        let wall_ms = self.wall_ms.load(Ordering::Relaxed);
        self.wall_ms.store(wall_ms.saturating_add_signed(ms), Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn wall_ms(&self) -> u64 {
        self.wall_ms.load(Ordering::Relaxed)
    }

    fn elapsed(&self) -> Duration {
        Duration::from_millis(self.elapsed_ms.load(Ordering::Relaxed))
    }
}

struct Seeded(u64);

impl Entropy for Seeded {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 ^ (self.0 >> 29)
    }
}

/// How a world is made.
#[derive(Clone)]
pub(crate) struct Set {
    pub(crate) log: recado_log::Options,
    pub(crate) command_queue_max: usize,
    pub(crate) payload_cache_bytes: usize,
}

impl Default for Set {
    fn default() -> Self {
        let log = recado_log::Options { segment_bytes: 256 << 10, window: 4, ..recado_log::Options::default() };
        Self { log, command_queue_max: 1_000, payload_cache_bytes: 1 << 20 }
    }
}

pub(crate) struct World {
    pub(crate) disk: SimDisk,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) shard: Shard,
    pub(crate) engine: Engine,
    pub(crate) handle: Handle,
    set: Set,
    /// Times the log said that something has changed.
    pub(crate) wakes: Arc<AtomicU64>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(Set::default())
    }

    /// A new data directory, in service.
    pub(crate) fn with(set: Set) -> Self {
        let clock = ManualClock { wall_ms: AtomicU64::new(1_780_000_000_000), elapsed_ms: AtomicU64::new(1_000) };
        Self::open(SimDisk::new(7), Arc::new(clock), set)
    }

    fn open(disk: SimDisk, clock: Arc<ManualClock>, set: Set) -> Self {
        let wakes = Arc::new(AtomicU64::new(0));
        let woken = Arc::clone(&wakes);
        let wake = Arc::new(move || {
            woken.fetch_add(1, Ordering::Relaxed);
        });
        let (log, engine, _) = FileLog::open_stepped(disk.disk(), &set.log, wake).unwrap();
        let options = Options {
            number: 0,
            clock: clock.clone(),
            entropy: Box::new(Seeded(disk.operations())),
            workers: Arc::new(Inline),
            command_queue_max: set.command_queue_max,
            payload_cache_bytes: set.payload_cache_bytes,
            memory_bytes: 1 << 30,
            merge_patch: Arc::new(append_patch),
        };
        let shard = Shard::open(Box::new(log), options).unwrap();
        let handle = shard.handle();
        let mut world = Self { disk, clock, shard, engine, handle, set, wakes };
        world.quiesce();
        world
    }

    /// The process dies, and starts again `down` later.
    pub(crate) fn kill(self, down: Duration) -> Self {
        self.restart(down, SimDisk::kill)
    }

    /// The power goes, and comes back `down` later.
    pub(crate) fn lose_power(self, down: Duration) -> Self {
        self.restart(down, SimDisk::lose_power)
    }

    /// A graceful stop, and a start `down` later.
    pub(crate) fn stop(mut self, down: Duration) -> Self {
        self.shard.begin_stop();
        self.quiesce();
        assert_eq!(self.step(), Next::Ended);
        let Self { disk, clock, shard, set, .. } = self;
        shard.close().unwrap();
        clock.pass(down);
        Self::open(disk, clock, set)
    }

    fn restart(self, down: Duration, how: fn(&SimDisk)) -> Self {
        let Self { disk, clock, shard, engine, handle, set, .. } = self;
        how(&disk);
        drop((shard, engine, handle));
        clock.pass(down);
        Self::open(disk, clock, set)
    }

    /// Steps the shard until it would sleep.
    pub(crate) fn step(&mut self) -> Next {
        for _ in 0..100_000 {
            match self.shard.step() {
                Next::Now => {}
                next => return next,
            }
        }
        panic!("the shard does not come to rest");
    }

    /// Lets the log write and sync what it would now.
    pub(crate) fn commit(&self) {
        let now = self.clock.elapsed();
        while self.engine.commit(now) == Step::Worked {}
        while self.engine.prepare(now) == Step::Worked {}
    }

    /// Steps shard and log until nothing moves at this instant.
    pub(crate) fn quiesce(&mut self) {
        loop {
            let before = (self.wakes.load(Ordering::Relaxed), self.disk.operations());
            let next = self.step();
            self.commit();
            if next == Next::Ended || before == (self.wakes.load(Ordering::Relaxed), self.disk.operations()) {
                return;
            }
        }
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.clock.pass(time);
        self.quiesce();
    }

    /// Runs a call to its end.
    pub(crate) fn run<T>(&mut self, mut call: Call<T>) -> T {
        for _ in 0..1_000 {
            if let Some(answer) = call.poll() {
                return answer;
            }
            self.quiesce();
        }
        panic!("no answer");
    }

    pub(crate) fn call(&self, command: Command) -> Call<Result<Reply, Error>> {
        let handle = self.handle.clone();
        Call::new(async move { handle.call(command).await })
    }

    pub(crate) fn receive(&self, receive: Receive, wait: Duration) -> Call<Result<Received, Error>> {
        let handle = self.handle.clone();
        Call::new(async move { handle.receive(receive, Vec::new(), wait).await })
    }

    pub(crate) fn settle(
        &self,
        entries: Vec<Settle>,
    ) -> Call<Result<Vec<Result<Settled, recado_core::Rejection>>, Error>> {
        let handle = self.handle.clone();
        Call::new(async move { handle.settle(entries).await })
    }

    /// Enqueues plain jobs and waits until that is durable.
    pub(crate) fn enqueue(&mut self, queue: &str, payloads: &[&str]) -> Vec<JobId> {
        let call = self.call(enqueue(queue, payloads.iter().map(|payload| job(payload)).collect()));
        match self.run(call).unwrap() {
            Reply::Enqueued { jobs, .. } => jobs.into_iter().map(|Enqueued { id, .. }| id).collect(),
            other => panic!("{other:?}"),
        }
    }

    /// Receives up to `max` jobs at once and confirms.
    pub(crate) fn take(&mut self, queue: &str, max: usize) -> Vec<Taken> {
        let call = self.receive(receive(queue, max), Duration::ZERO);
        let received = self.run(call).unwrap();
        taken(received, self.handle.secret())
    }

    /// Settles one delivery.
    pub(crate) fn settle_one(&mut self, taken: &Taken, outcome: Outcome) -> Result<Settled, recado_core::Rejection> {
        let call = self.settle(vec![taken.settle(outcome)]);
        self.run(call).unwrap().remove(0)
    }
}

/// A job in a worker's hands.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    pub(crate) id: JobId,
    pub(crate) receipt: Box<str>,
    pub(crate) payload: String,
    pub(crate) attempts: u32,
    pub(crate) deliveries: u32,
}

impl Taken {
    pub(crate) fn settle(&self, outcome: Outcome) -> Settle {
        Settle { job: Some(self.id), receipt: self.receipt.clone(), outcome }
    }
}

/// Confirms and unpacks.
pub(crate) fn taken(received: Received, secret: Secret) -> Vec<Taken> {
    received.guard.confirm();
    let unpack = |(delivered, filled): (recado_core::Delivered, recado_shard::FilledJob)| Taken {
        id: delivered.job.id,
        receipt: delivered.receipt.text(secret).into(),
        payload: String::from_utf8(filled.payload.to_vec()).unwrap(),
        attempts: delivered.job.attempts,
        deliveries: delivered.job.deliveries,
    };
    received.jobs.into_iter().map(unpack).collect()
}

/// A future that is polled by hand.
pub(crate) struct Call<T>(Pin<Box<dyn Future<Output = T>>>);

impl<T> Call<T> {
    pub(crate) fn new(future: impl Future<Output = T> + 'static) -> Self {
        Self(Box::pin(future))
    }

    /// Its output, once.
    pub(crate) fn poll(&mut self) -> Option<T> {
        match self.0.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    /// Sends it off; it must not be ready.
    pub(crate) fn begin(mut self) -> Self {
        assert!(self.poll().is_none(), "an answer before anything happened");
        self
    }
}

pub(crate) fn job(payload: &str) -> NewJob {
    NewJob { kind: "work".into(), schema_version: 1, payload: payload.as_bytes().to_vec(), ..NewJob::default() }
}

pub(crate) fn enqueue(queue: &str, jobs: Vec<NewJob>) -> Command {
    Command::Enqueue(Enqueue { queue: queue.into(), create: true, jobs, ..Enqueue::default() })
}

pub(crate) fn receive(queue: &str, max: usize) -> Receive {
    Receive { queues: vec![(queue.into(), 1)], create: true, max, max_bytes: 8 << 20, ..Receive::default() }
}

pub(crate) fn types(kind: &str) -> Option<Vec<TypeRange>> {
    Some(vec![TypeRange { kind: kind.into(), from: 1, to: u32::MAX }])
}

pub(crate) fn ack() -> Outcome {
    Outcome::Ack { result: None }
}

pub(crate) fn fail(message: &str, retryable: bool) -> Outcome {
    Outcome::Fail(Failure { kind: "error".into(), message: message.into(), retryable, retry_after_ms: None })
}

/// Stands in for a merge patch: payloads that are not objects cannot be patched.
fn append_patch(patch: &[u8], payload: &[u8], _: Option<&Arc<str>>) -> Result<Vec<u8>, String> {
    match payload {
        [b'{', b'!', ..] => panic!("a merge that breaks off"),
        [b'{', ..] => Ok([payload, patch].concat()),
        _ => Err("not an object".into()),
    }
}
