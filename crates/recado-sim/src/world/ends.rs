//! The beginning of a run and its end.

use recado_core::JobState;

use super::World;
use crate::history::{Answer, Event};
use crate::options::{MILLI, SECOND};
use crate::plan::{CALM_TAG, SERVERS};
use crate::script::{Begin, Enqueue, Fault, Job, Micros, Receive, Request, Travel};
use crate::worker;

/// So long a server trims nothing after live bytes could not be read.
const UNREADABLE_PAUSE: Micros = 60 * SECOND;
/// What runs by itself at the end has ended by then.
const CALM_MAX: Micros = 1_800 * SECOND;

impl World<'_> {
    /// All servers run, all queues have their first configuration.
    pub(super) fn open(&mut self) {
        for server in 0..SERVERS {
            self.start(server);
            for limit in 0..self.options.limits.len() as u8 {
                self.ask(server, Request::PutLimit { limit, variant: 0 });
            }
            for queue in 0..self.options.queues.len() as u8 {
                self.ask(server, Request::Configure { queue, variant: 0 });
            }
        }
    }

    /// Sends a request that nothing happens to, and waits for its answer.
    fn ask(&mut self, server: usize, request: Request) -> Answer {
        let travel = Travel { there: MILLI, back: MILLI, ..Travel::default() };
        let op = self.send(server, request, travel, worker::OBEDIENT);
        let from = self.history.len();
        let end = self.now + 60 * SECOND;
        loop {
            let answer = self.history[from..].iter().find_map(|entry| match &entry.what {
                Event::Answered { op: answered, answer } if *answered == op => Some(answer.clone()),
                _ => None,
            });
            if let Some(answer) = answer {
                return answer;
            }
            let known = self.history.len();
            while self.history.len() == known {
                if !self.step(end) {
                    return Answer::Unknown;
                }
            }
        }
    }

    /// Nothing breaks any more, and everything that waits is worked off.
    pub(super) fn calm(&mut self) {
        self.is_calm = true;
        for server in 0..SERVERS {
            let machine = &mut self.servers[server];
            machine.disk.clear_faults();
            machine.disk.set_capacity(None);
            let behind_ms = machine.wall_is_behind_ms();
            if behind_ms > 0 {
                // So that all that waits for an instant comes.
                self.break_it(server, Fault::Clock(behind_ms));
            }
            self.record(server, Event::Calm);
        }
        self.run_until(self.now + 10 * SECOND);
        let queues = self.options.queues.len() as u8;
        let all = (0..SERVERS).flat_map(|server| (0..queues).map(move |queue| (server, queue)));
        for (server, queue) in all.clone() {
            self.ask(server, Request::SetPaused { queue, paused: false });
        }
        let end = self.now + CALM_MAX;
        let mut left: Vec<(usize, u8)> = all.clone().collect();
        let goes_on = self.options.queues.iter().any(|settings| settings[0].redrive.is_some());
        let mut has_worked = false;
        let mut round = 0;
        while !left.is_empty() && self.now < end && !self.is_over {
            round += 1;
            left.retain(|(server, queue)| self.drain(*server, *queue, round));
            has_worked |= !left.is_empty();
            if left.is_empty() && goes_on && has_worked {
                // What was worked off may have gone where nothing was left.
                (left, has_worked) = (all.clone().collect(), false);
            }
        }
        for (server, queue) in all {
            self.wait_for_one(server, queue);
        }
        for server in 0..SERVERS {
            self.record(server, Event::Drained);
        }
    }

    /// A worker waits for a job that has a delay, and the server has nothing else to do.
    fn wait_for_one(&mut self, server: usize, queue: u8) {
        let job = Job { tag: CALM_TAG + u32::from(queue), bytes: 50, delay_ms: Some(3_000), ..Job::default() };
        self.ask(server, Request::Enqueue(Enqueue { queue, jobs: vec![job], ..Enqueue::default() }));
        let receive = Receive { queue, max: 1, visibility_ms: None, wait_ms: 10_000, ..Receive::default() };
        self.ask(server, Request::Receive(receive));
        self.run_until(self.now + SECOND);
    }

    /// One round of working a queue off; false when nothing is left.
    fn drain(&mut self, server: usize, queue: u8, round: usize) -> bool {
        let blocks = self.options.queues[usize::from(queue)][0].blocks;
        if blocks && round % 5 == 4 {
            self.ask(server, Request::Discard { queue });
        }
        let wait_ms = if round < 3 { 0 } else { 10_000 };
        let receive = Receive { queue, max: 10, visibility_ms: Some(5_000), wait_ms, ..Receive::default() };
        let answer = self.ask(server, Request::Receive(receive));
        if matches!(&answer, Answer::Received(jobs) if !jobs.is_empty()) {
            return true;
        }
        self.run_until(self.now + 100 * MILLI);
        let is_open = |state: JobState| state.is_waiting() || state == JobState::InFlight;
        match self.ask(server, Request::List { queue }) {
            Answer::Jobs(jobs) => jobs.iter().any(|job| is_open(job.state)),
            _ => true,
        }
    }

    /// Idle for a while; sizes, then a power loss, then all that is left.
    pub(super) fn list_all(&mut self) {
        self.run_until(self.now + if self.options.faults.reads > 0 { UNREADABLE_PAUSE } else { 0 } + 20 * SECOND);
        for server in 0..SERVERS {
            let Some(handle) = self.servers[server].handle() else { continue };
            let (status, machine) = (handle.status(), &self.servers[server]);
            let sizes = Event::Sizes {
                log_bytes: status.log.log_bytes,
                live_bytes: status.live_bytes,
                unit_bytes: status.log.unit_bytes,
                memory_bytes: status.memory_bytes,
                memory_max_bytes: machine.memory_max_bytes,
                disk_bytes: machine.disk.used_bytes() as u64,
                unreadable: machine.unreadable(),
            };
            self.record(server, sizes);
            let is_synced = self.options.server.durability == recado_log::Durability::Sync;
            self.break_it(server, if is_synced { Fault::PowerLoss(MILLI) } else { Fault::Kill(MILLI) });
        }
        self.run_until(self.now + SECOND);
        for server in 0..SERVERS {
            for queue in 0..self.options.queues.len() as u8 {
                self.ask(server, Request::List { queue });
                for key in 0..self.options.jobs.guard_keys {
                    let begin = Begin { queue, key, hold_ms: 100, ttl_ms: 100, attempt: None, of: None };
                    self.ask(server, Request::Begin(begin));
                }
            }
        }
    }
}
