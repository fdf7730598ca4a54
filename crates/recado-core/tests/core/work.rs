//! No operation scans: what a command does is bounded, however many jobs have a key in common.

use recado_core::{Answer, Presence, Receive, Reply, Settle, State, TICK_STEPS_MAX, answer, run};
use recado_core::{Command, Draft, Enqueue, Failure, Moment, NewJob, Outcome, Query, QueueOptions};

use crate::world::EPOCH;

const JOBS: usize = 100_000;
const BATCH: usize = 1_000;

/// Moves that one command about one job may take.
const MOVES_MAX: u64 = 10;

/// A state whose structures nobody checks against each other after each command: that does scan.
struct Shard {
    state: State,
    moment: Moment,
    receipt: Box<str>,
}

impl Shard {
    fn run(&mut self, command: &Command) -> Reply {
        self.moment = Moment { at: self.moment.at + 1, entropy: self.moment.entropy + 1 };
        run(&mut self.state, self.moment, command, &mut Draft::new(self.moment.entropy)).unwrap()
    }

    /// Runs a command about one job.
    fn one(&mut self, what: &str, command: &Command) -> Reply {
        let before = self.state.moves();
        let reply = self.run(command);
        let moves = self.state.moves() - before;
        assert!(moves <= MOVES_MAX, "{what} moved {moves} jobs");
        reply
    }

    fn receive(&mut self) {
        let receive = Receive { queues: vec![("q".into(), 1)], max: 2, max_bytes: u64::MAX, ..Receive::default() };
        let Reply::Received { jobs, .. } = self.one("receive", &Command::Receive(receive)) else {
            panic!("no receive")
        };
        assert_eq!(jobs.len(), 1, "one job of a key is in flight");
        self.receipt = jobs[0].receipt.text(self.state.secret()).into();
    }

    fn settle(&mut self, what: &str, outcome: Outcome) {
        let receipt = self.receipt.clone();
        self.one(what, &Command::Settle(Settle { job: None, receipt, outcome }));
    }

    fn count(&self, what: impl Fn(&recado_core::Stats) -> u64) -> u64 {
        match answer(&self.state, &Presence::default(), self.moment.at, &Query::Stats("q".into())) {
            Ok(Answer::Stats(stats)) => what(&stats),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_command_moves_few_jobs_of_a_key_that_very_many_carry() {
    let moment = Moment { at: EPOCH, entropy: 1 };
    let mut shard = Shard { state: State::new(0), moment, receipt: Box::default() };
    shard.run(&Command::Start { secret: (1, 2), served_until: 0 });
    shard.run(&Command::SetDefaults(QueueOptions { max_attempts: Some(9), ..QueueOptions::default() }));
    let job = NewJob { kind: "t".into(), idempotency_key: Some("k".into()), ..NewJob::default() };
    for _ in (0..JOBS).step_by(BATCH) {
        let jobs = vec![job.clone(); BATCH];
        let before = shard.state.moves();
        shard.run(&Command::Enqueue(Enqueue { queue: "q".into(), create: true, jobs, ..Enqueue::default() }));
        assert!(shard.state.moves() - before <= MOVES_MAX * BATCH as u64);
    }
    assert_eq!(shard.count(|stats| stats.ready), JOBS as u64);

    shard.receive();
    shard.settle("extend", Outcome::Extend { visibility_ms: None, progress: None });
    shard.settle("release", Outcome::Release { delay_ms: None, reason: None });
    shard.receive();
    shard.settle("fail", Outcome::Fail(Failure { retryable: true, ..Failure::default() }));
    shard.receive();
    shard.moment.at += 3_600_000;
    shard.one("timeout", &Command::Tick);
    shard.receive();
    shard.settle("ack", Outcome::Ack { result: None });

    // The others are completed by what it saved, a bounded number at a time.
    let mut ticks = 0;
    loop {
        let before = shard.state.moves();
        let more = shard.run(&Command::Tick) == Reply::Ticked { more: true };
        let moves = shard.state.moves() - before;
        assert!(moves <= MOVES_MAX * TICK_STEPS_MAX as u64, "a tick moved {moves} jobs");
        ticks += 1;
        if !more {
            break;
        }
    }
    assert!(ticks >= JOBS / TICK_STEPS_MAX, "{ticks} ticks");
    assert_eq!(shard.count(|stats| stats.ready + stats.delayed), 0);
}
