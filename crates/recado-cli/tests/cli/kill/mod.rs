//! `kill -9` of the real binary at random moments under load.
//!
//! Producers, workers and an operator go on through every kill and write down what they were answered, and what
//! they asked without an answer. At the end all work is done, and the server's own account is compared with
//! theirs. `RECADO_LONG=1` kills 20 times; `RECADO_SEED` chooses the numbers again, not the moments.

mod account;
mod load;
mod workers;
mod world;

use std::env;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};

use self::world::{Luck, World};
use crate::support::stage::Stage;
use crate::support::until;

/// Work as it comes: retries, deaths, replays.
const MAIL: &str = "mail";
/// Jobs with idempotency keys.
const PAY: &str = "pay";
/// Ordered groups.
const LINES: &str = "lines";
/// Jobs that are held through kills.
const HELD: &str = "held";
const QUEUES: [&str; 4] = [MAIL, PAY, LINES, HELD];

const PRODUCERS: u64 = 3;
const WORKERS: u64 = 3;
const MAX_ATTEMPTS: u64 = 3;

fn options(queue: &str) -> Value {
    // Receives whose answer died with the server come back soon, but those that are held stay held.
    let visibility = if queue == HELD { "1h" } else { "500ms" };
    json!({
        "visibilityTimeout": visibility, "maxAttempts": MAX_ATTEMPTS, "maxDeliveries": 1000,
        "backoff": { "kind": "fixed", "base": "5ms" }, "groups": { "ordered": queue == LINES },
        "keepCompleted": { "for": "1d", "max": 1_000_000 }, "deadLetter": { "maxReplays": 1000 },
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
fn killed_at_random_moments_under_load() {
    let rounds = if env::var_os("RECADO_LONG").is_some() { 20 } else { 3 };
    let seed = env::var("RECADO_SEED").ok().map(|seed| seed.parse().unwrap());
    let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let seed = seed.unwrap_or_else(|| u64::from(now().subsec_nanos()));
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
        scope.spawn(|| workers::hold(&world));
        scope.spawn(|| load::operate(&world, Luck::new(seed, 200)));

        let mut luck = Luck::new(seed, 300);
        for round in 0..rounds {
            kill(&mut stage, &world, &mut luck);
            println!("round {round}: {}", world.told());
        }
        world.stop_producers();
        until("all work is done", || {
            world.check();
            let is_done = |queue: &&str| stage.stats(queue)["depth"] == 0;
            (world.is_quiet() && QUEUES.iter().all(is_done)).then_some(())
        });
    });
    world.check();
    println!("{}", world.told());
    account::compare(&stage, &world);
}

/// Kills the server some answers and a moment later, and starts it again.
fn kill(stage: &mut Stage, world: &World, luck: &mut Luck) {
    let answers = world.answers() + 100 + luck.below(300);
    until("the load goes on", || {
        world.check();
        (world.answers() >= answers).then_some(())
    });
    let (start, moment) = (Instant::now(), Duration::from_micros(luck.below(10_000)));
    until("the moment", || (start.elapsed() >= moment).then_some(()));
    stage.kill();
    stage.start();
    world.moved((**stage).clone());
}
