//! The real binary under load, while it is killed, killed again as it starts, stopped (SIGSTOP) for longer than
//! leases last, and ended gracefully, at random moments.
//!
//! Producers, workers and an operator go on through every fault and write down what they were answered, and what
//! they asked without an answer. At the end all work is done, and promises 1 to 7 and 10 are held against what
//! they saw and the server's own account. `RECADO_LONG=1` goes on for 10 minutes; `RECADO_SEED` chooses the
//! numbers again, not the moments.

mod account;
mod ledger;
mod load;
mod stopped;
mod strike;
mod workers;
mod world;

use std::env;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};

use self::strike::strike;
use self::world::{Luck, World};
use crate::support::stage::Stage;
use crate::support::until;

/// Work as it comes: retries, deaths, replays.
const MAIL: &str = "mail";
/// Jobs with idempotency keys.
const PAY: &str = "pay";
/// Ordered groups.
const LINES: &str = "lines";
/// Jobs that are held until the server was started again.
const HELD: &str = "held";
const QUEUES: [&str; 4] = [MAIL, PAY, LINES, HELD];

const PRODUCERS: u64 = 3;
const WORKERS: u64 = 3;
/// Attempts that a job has, and to how many the operator may raise them.
const ATTEMPTS: u64 = 3;
const ATTEMPTS_MAX: u64 = 5;
/// Receives whose answer was lost come back soon, but those that are held stay held.
const VISIBILITY: Duration = Duration::from_millis(500);
const VISIBILITY_HELD: Duration = Duration::from_secs(3600);

const ROUNDS: u64 = 8;
const ROUNDS_LONG: u64 = 30;
const LONG: Duration = Duration::from_secs(600);

fn visibility(queue: &str) -> Duration {
    if queue == HELD { VISIBILITY_HELD } else { VISIBILITY }
}

fn options(queue: &str) -> Value {
    json!({
        "visibilityTimeout": format!("{}ms", visibility(queue).as_millis()), "maxAttempts": ATTEMPTS,
        "maxDeliveries": 1000, "backoff": { "kind": "fixed", "base": "5ms" },
        "groups": { "ordered": queue == LINES }, "keepCompleted": { "for": "1d", "max": 1_000_000 },
        "deadLetter": { "maxReplays": 1000 },
    })
}

/// Whatever happens to the test, its threads end.
struct StopAtEnd<'a>(&'a World);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

#[test]
fn promises_hold_under_load_whatever_happens_to_the_process() {
    let seed = env::var("RECADO_SEED").ok().map(|seed| seed.parse().unwrap());
    let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let seed = seed.unwrap_or_else(|| u64::from(now().subsec_nanos()));
    if env::var_os("RECADO_LONG").is_none() {
        return run(seed, ROUNDS);
    }
    let start = Instant::now();
    for seed in seed.. {
        run(seed, ROUNDS_LONG);
        if start.elapsed() > LONG {
            return;
        }
    }
}

/// One server's life of so many faults.
fn run(seed: u64, rounds: u64) {
    println!("RECADO_SEED={seed}, {rounds} rounds");
    // As a newcomer starts it, on small segments, so that the log is trimmed meanwhile.
    let mut stage = Stage::with(&[]);
    for queue in QUEUES {
        stage.configure(queue, &options(queue));
    }
    let world = World::new((*stage).clone());
    thread::scope(|scope| {
        let _stop = StopAtEnd(&world);
        for n in 0..PRODUCERS {
            let (world, luck) = (&world, Luck::new(seed, n));
            scope.spawn(move || load::Producer::new(world, luck, n).run());
        }
        for n in 0..WORKERS {
            let (world, luck) = (&world, Luck::new(seed, 100 + n));
            scope.spawn(move || workers::work(world, luck));
        }
        scope.spawn(|| stopped::work(&world, Luck::new(seed, 150)));
        scope.spawn(|| workers::hold(&world));
        scope.spawn(|| load::operate(&world, Luck::new(seed, 200)));

        let mut luck = Luck::new(seed, 300);
        for round in 0..rounds {
            let fault = strike(round, &mut stage, &world, &mut luck);
            println!("round {round}, {fault:?}: {}", world.ledger());
        }
        world.stop_producers();
        until("all work is done", || {
            world.check();
            let is_done = |queue: &&str| stage.stats(queue)["depth"] == 0;
            (world.is_quiet() && QUEUES.iter().all(is_done)).then_some(())
        });
    });
    world.check();
    println!("{}", world.ledger());
    account::compare(&stage, &world);
}
