//! Workers that are processes of their own, and are stopped (SIGSTOP) for longer than their leases last: while
//! they wait for a job, while its answer is on the way, with a job in hand, and with the ack on the way.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::ledger::Moment;
use super::world::{Luck, World};
use super::{ATTEMPTS_MAX, LINES, MAIL, PAY, VISIBILITY};
use crate::support::api::list;
use crate::support::{Dir, Process, command, pass};

/// Where the binary is run.
struct Worker<'a> {
    world: &'a World,
    luck: Luck,
    dir: Dir,
}

pub(super) fn work(world: &World, luck: Luck) {
    let mut worker = Worker { world, luck, dir: Dir::new() };
    while !world.is_stopped() {
        let began = world.ledger().moment();
        let receive = ["receive", MAIL, PAY, LINES, "--max", "2", "--wait", "200ms", "--worker", "stopped"];
        let Some(answer) = worker.run(&receive) else { continue };
        worker.ack(&answer, began);
    }
}

impl Worker<'_> {
    fn ack(&mut self, answer: &Value, began: Moment) {
        let jobs = list(answer, "jobs");
        for job in jobs {
            self.world.ledger().received(job, began, ATTEMPTS_MAX);
        }
        for job in jobs {
            let (id, receipt) = (job["id"].as_str().unwrap(), job["receipt"].as_str().unwrap());
            let result = json!({ "fence": job["fencingToken"] });
            let entry = json!({ "outcome": "ack", "result": result });
            self.world.ledger().settling(job, &entry);
            let settle = ["settle", "ack", id, receipt, "--result", &result.to_string()];
            let Some(answer) = self.run(&settle) else { continue };
            self.world.ledger().settled(job, &entry, &list(&answer, "settled")[0]);
        }
    }

    /// One run of the binary, every second one stopped for a while. `None`: the server ended, and is back by now
    /// or the test is over.
    fn run(&mut self, args: &[&str]) -> Option<Value> {
        let (api, generation) = self.world.place();
        let all = [args, &["--json", "--url", api.url()]].concat();
        let process = Process::spawn(&mut command(self.dir.path(), &all));
        if self.luck.one_in(2) {
            pass(Duration::from_millis(self.luck.below(40)));
            process.signal(Signal::STOP);
            pass(VISIBILITY + Duration::from_millis(self.luck.below(300)));
            process.signal(Signal::CONT);
        }
        let run = process.end();
        match run.code {
            // A refused settle is a failed check.
            Some(0 | 1) => return Some(run.json()),
            Some(69 | 75) => self.world.wait_until_moved(generation),
            _ => self.world.broken(format!("{args:?}: {run:?}")),
        }
        None
    }
}
