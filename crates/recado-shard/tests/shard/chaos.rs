//! Random calls, random steps of shard and log, and a crash at any moment: what was answered holds.
//!
//! Payloads are large for the segments, so the log is trimmed all the while; one job is never taken, so
//! that something has to be copied. `RECADO_LONG` runs more seeds.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use recado_core::{JobId, Rejection, Reply, Settled};
use recado_shard::{Clock, Error, Received};

use crate::trim::forgetful;
use crate::world::{Call, Taken, World, ack, enqueue, job, receive, taken};

/// What is known of a job whose enqueue was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It must be there.
    Promised,
    /// An ack is on its way.
    Unknown,
    /// It must never come again.
    Done,
}

struct Chaos {
    random: u64,
    world: World,
    enqueues: Vec<Call<Result<Reply, Error>>>,
    receives: Vec<Call<Result<Received, Error>>>,
    settles: Vec<(JobId, Settling)>,
    held: Vec<Taken>,
    fates: BTreeMap<JobId, Fate>,
    answers: usize,
}

type Settling = Call<Result<Vec<Result<Settled, Rejection>>, Error>>;

impl Chaos {
    fn below(&mut self, bound: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33) % bound
    }

    fn act(&mut self) {
        match self.below(10) {
            0 | 1 if self.enqueues.len() < 20 => {
                let payload = "x".repeat(self.below(8_000) as usize);
                self.enqueues.push(self.world.call(enqueue("mail", vec![job(&payload)])));
            }
            2 => self.receives.push(self.world.receive(receive("mail", 3), Duration::ZERO)),
            3 => {
                for held in std::mem::take(&mut self.held) {
                    self.fates.insert(held.id, Fate::Unknown);
                    self.settles.push((held.id, self.world.settle(vec![held.settle(ack())])));
                }
            }
            4 => self.world.clock.pass(Duration::from_millis(10)),
            5 => drop(self.world.engine.commit(self.world.clock.elapsed())),
            6 => drop(self.world.engine.prepare(self.world.clock.elapsed())),
            _ => drop(self.world.shard.step()),
        }
        self.poll();
    }

    fn poll(&mut self) {
        let secret = self.world.handle.secret();
        for call in std::mem::take(&mut self.enqueues) {
            let mut call = call;
            match call.poll() {
                Some(Ok(Reply::Enqueued { jobs, .. })) => {
                    self.answers += 1;
                    // A fast worker may have had it already.
                    for job in jobs {
                        self.fates.entry(job.id).or_insert(Fate::Promised);
                    }
                }
                Some(other) => panic!("{other:?}"),
                None => self.enqueues.push(call),
            }
        }
        for mut call in std::mem::take(&mut self.receives) {
            match call.poll() {
                Some(received) => {
                    for held in taken(received.unwrap(), secret) {
                        assert_ne!(self.fates.get(&held.id), Some(&Fate::Done), "{} was done", held.id);
                        self.held.push(held);
                    }
                }
                None => self.receives.push(call),
            }
        }
        for (id, mut call) in std::mem::take(&mut self.settles) {
            match call.poll() {
                Some(outcomes) => {
                    outcomes.unwrap()[0].as_ref().unwrap();
                    self.fates.insert(id, Fate::Done);
                    self.answers += 1;
                }
                None => self.settles.push((id, call)),
            }
        }
    }

    fn crash(mut self) -> Self {
        let is_power_loss = self.below(2) == 0;
        let down = Duration::from_secs(120);
        let world = if is_power_loss { self.world.lose_power(down) } else { self.world.kill(down) };
        let mut next = Self { world, enqueues: vec![], receives: vec![], settles: vec![], held: vec![], ..self };
        // Leases run out after their grace.
        next.world.pass(Duration::from_secs(120));
        let mut left = BTreeSet::new();
        loop {
            let jobs = next.world.take("mail", 100);
            if jobs.is_empty() {
                break;
            }
            for held in jobs {
                assert!(left.insert(held.id), "{} came twice", held.id);
                next.world.settle_one(&held, ack()).unwrap();
            }
        }
        for (id, fate) in &mut next.fates {
            match fate {
                Fate::Promised => assert!(left.contains(id), "{id} is lost (power loss: {is_power_loss})"),
                Fate::Done => assert!(!left.contains(id), "{id} was done (power loss: {is_power_loss})"),
                Fate::Unknown => {}
            }
            *fate = Fate::Done;
        }
        next.fates.extend(left.into_iter().map(|id| (id, Fate::Done)));
        next
    }
}

fn run(seed: u64) -> u64 {
    let mut world = World::new();
    world.enqueue("old", &["the old one"]);
    forgetful(&mut world, "mail");
    let mut chaos = Chaos {
        random: seed,
        world,
        enqueues: vec![],
        receives: vec![],
        settles: vec![],
        held: vec![],
        fates: BTreeMap::new(),
        answers: 0,
    };
    for _ in 0..8 {
        for _ in 0..800 {
            chaos.act();
        }
        chaos = chaos.crash();
    }
    assert!(chaos.answers > 100, "{} answers", chaos.answers);
    assert_eq!(chaos.world.take("old", 1)[0].payload, "the old one");
    chaos.world.handle.status().log.first.0
}

#[test]
fn what_was_answered_holds_whenever_it_crashes() {
    let seeds = if std::env::var_os("RECADO_LONG").is_some() { 300 } else { 12 };
    let mut trimmed = 0;
    for seed in 0..seeds {
        println!("seed {seed}");
        trimmed += u64::from(run(seed) > 256 << 10);
    }
    assert!(trimmed * 2 > seeds, "only {trimmed} of {seeds} runs trimmed their log");
}
