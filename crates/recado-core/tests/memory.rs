//! What jobs take in memory: within what the design allows, and what the state itself says of it, on which
//! its limit stands. A binary of its own, because it counts every byte that is allocated.

// The lint knows test functions, not what they share.
#![allow(clippy::unwrap_used)]

use std::alloc::System;

use cap::Cap;
use recado_core::{Command, Dedup, Draft, Enqueue, Failure, KeepOptions, Moment, NewJob, Outcome};
use recado_core::{OnDuplicate, QueueOptions, Receive, Reply, Settle, State, run};

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

const JOBS: usize = 20_000;
const BATCH: usize = 1_000;

struct World {
    state: State,
    position: u64,
}

impl World {
    fn new() -> Self {
        let mut world = Self { state: State::new(0), position: 1 };
        world.run(&Command::Start { secret: (1, 2), served_until: 0 });
        world.run(&Command::SetDefaults(QueueOptions {
            keep_completed: Some(KeepOptions { for_ms: None, max: Some(u64::MAX) }),
            ..QueueOptions::default()
        }));
        world
    }

    fn run(&mut self, command: &Command) -> Reply {
        self.position += 1;
        let moment = Moment { at: 1_700_000_000_000 + self.position, entropy: self.position };
        let reply = run(&mut self.state, moment, command, &mut Draft::new(self.position)).unwrap();
        // News for others, which the shard takes with every batch.
        self.state.take_wakes();
        self.state.take_ended();
        reply
    }

    fn enqueue(&mut self, job: fn(usize) -> NewJob) {
        for first in (0..JOBS).step_by(BATCH) {
            let jobs = (first..first + BATCH).map(job).collect();
            self.run(&Command::Enqueue(Enqueue { queue: "q".into(), create: true, jobs, ..Enqueue::default() }));
        }
    }

    /// Receives all jobs, and settles each.
    fn work(&mut self, outcome: &Outcome) {
        let secret = self.state.secret();
        for _ in (0..JOBS).step_by(BATCH) {
            let queues = vec![("q".into(), 1)];
            let worker = Some("worker-1".into());
            let receive = Receive { queues, max: BATCH, max_bytes: u64::MAX, worker, ..Receive::default() };
            let Reply::Received { jobs, .. } = self.run(&Command::Receive(receive)) else { panic!("jobs are there") };
            for job in jobs {
                let receipt = job.receipt.text(secret).into();
                self.run(&Command::Settle(Settle { job: None, receipt, outcome: outcome.clone() }));
            }
        }
    }
}

fn plain(_: usize) -> NewJob {
    NewJob { kind: "email.send".into(), payload: b"{}".to_vec(), ..NewJob::default() }
}

fn dedup(n: usize) -> NewJob {
    let dedup = Dedup { key: format!("d{n}").into(), for_ms: None, on_duplicate: OnDuplicate::Keep };
    NewJob { dedup: Some(dedup), ..plain(n) }
}

fn key(n: usize) -> NewJob {
    NewJob { idempotency_key: Some(format!("k{n}").into()), ..plain(n) }
}

fn shared_key(n: usize) -> NewJob {
    NewJob { idempotency_key: Some(format!("k{}", n / 10).into()), ..plain(n) }
}

fn business(n: usize) -> NewJob {
    NewJob { business_id: Some(format!("b{n}").into()), ..plain(n) }
}

fn group(n: usize) -> NewJob {
    NewJob { group: Some(format!("g{}", n / 100).into()), ..plain(n) }
}

fn expiry(n: usize) -> NewJob {
    NewJob { expires_after_ms: Some(3_600_000), ..plain(n) }
}

fn all(n: usize) -> NewJob {
    NewJob { dedup: dedup(n).dedup, idempotency_key: key(n).idempotency_key, ..business(n) }
}

#[test]
fn a_job_takes_no_more_than_it_may_and_as_much_as_is_said() {
    let ack = Outcome::Ack { result: None };
    let fail = Outcome::Fail(Failure { kind: "no-route".into(), ..Failure::default() });
    type Row<'a> = (&'a str, fn(usize) -> NewJob, Option<&'a Outcome>, u64);
    let rows: [Row<'_>; 10] = [
        ("plain", plain, None, 200),
        ("with a deduplication key", dedup, None, 248),
        ("with an idempotency key", key, None, 248),
        ("with a key that ten share", shared_key, None, 280),
        ("with a business id", business, None, 248),
        ("with a group", group, None, 248),
        ("with an expiry", expiry, None, 248),
        ("with three keys", all, None, 344),
        // A hundred bytes of it are the settle, which is remembered of the newest 100,000 only.
        ("completed", plain, Some(&ack), 440),
        ("dead", plain, Some(&fail), 540),
    ];
    for (name, job, outcome, max) in rows {
        let mut world = World::new();
        let (real, said) = (ALLOCATOR.allocated(), world.state.memory_bytes());
        world.enqueue(job);
        outcome.into_iter().for_each(|outcome| world.work(outcome));
        let each = |bytes: u64| bytes / JOBS as u64;
        let real = each(ALLOCATOR.allocated() as u64 - real as u64);
        let said = each(world.state.memory_bytes() - said);
        println!("{name}: {real} bytes, said to be {said}");
        assert!(real <= max, "{name}: {real} bytes, more than {max}");
        assert!((said * 4 / 5..=said * 11 / 10).contains(&real), "{name}: {real} bytes are said to be {said}");
    }
}
