//! The world that a script runs in: servers, a network, workers, and an event queue over simulated time.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use recado_core::JobId;
use recado_shard::{DeliveryGuard, Once};

use crate::client::{self, Reply};
use crate::history::{Answer, Delivery, Entry, Event};
use crate::options::{MILLI, Options};
use crate::plan::{Plan, SERVERS};
use crate::random::Random;
use crate::script::{Action, Fault, Lost, Micros, PickedAction, Receive, Request, Travel};
use crate::server::{Life, Server};
use crate::worker;

mod ends;

/// A process that died comes back after so long at most, unless its fault says otherwise: soon, or after a while.
const RESTART: [Micros; 3] = [5 * MILLI, 20 * MILLI, 500 * MILLI];

/// Something that is going to happen.
enum Due {
    /// A step of the script.
    Step(usize),
    /// A request arrives.
    Arrive(usize),
    /// An answer arrives.
    Back(usize, Answer, Vec<Answer>),
    /// A client gives up.
    HangUp(usize),
    /// A worker says something of its work; with the luck of what it is given for it.
    Worker(usize, Request, Travel, u64),
    /// A process is started.
    Start(usize),
}

struct Op {
    server: usize,
    request: Request,
    travel: Travel,
    luck: u64,
}

/// How much was simulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Requests sent.
    pub requests: u64,
    /// Deaths of processes.
    pub crashes: u64,
}

impl AddAssign for Work {
    fn add_assign(&mut self, more: Self) {
        self.requests += more.requests;
        self.crashes += more.crashes;
    }
}

struct World<'a> {
    options: &'a Options,
    script: &'a [crate::script::Step],
    now: Micros,
    due: BTreeMap<(Micros, u64), Due>,
    next_due: u64,
    servers: Vec<Server>,
    /// How long a server that is stopping stays down.
    stops: [Option<Micros>; SERVERS],
    ops: Vec<Op>,
    /// Jobs that clients know of.
    known: Vec<JobId>,
    random: Random,
    /// Nothing breaks any more.
    is_calm: bool,
    /// A server does not start though its disk is sound: nothing that comes later matters.
    is_over: bool,
    history: &'a mut Vec<Entry>,
    work: &'a mut Work,
}

/// Runs a plan to its end.
pub(crate) fn play(plan: &Plan, history: &mut Vec<Entry>, work: &mut Work) {
    let servers = (0..SERVERS).map(|number| Server::new(number, &plan.options.server, plan.seed));
    let mut world = World {
        options: &plan.options,
        script: &plan.script,
        now: 0,
        due: BTreeMap::new(),
        next_due: 0,
        servers: servers.collect(),
        stops: [None; SERVERS],
        ops: Vec::new(),
        known: Vec::new(),
        random: Random::new(!plan.seed),
        is_calm: false,
        is_over: false,
        history,
        work,
    };
    world.open();
    for (index, step) in plan.script.iter().enumerate() {
        world.plan(world.now + step.at, Due::Step(index));
    }
    world.run_until(world.now + plan.options.horizon);
    world.calm();
    world.list_all();
}

impl World<'_> {
    fn record(&mut self, server: usize, what: Event) {
        self.history.push(Entry { at: self.now, server, what });
    }

    fn plan(&mut self, at: Micros, due: Due) {
        self.due.insert((at, self.next_due), due);
        self.next_due += 1;
    }

    /// Runs what happens until then.
    fn run_until(&mut self, end: Micros) {
        while self.step(end) {}
        self.now = end;
    }

    /// The next thing that happens, unless it is later than `end`.
    fn step(&mut self, end: Micros) -> bool {
        if self.is_over {
            return false;
        }
        let outside = self.due.keys().next().copied();
        let inside = (0..SERVERS).filter_map(|server| self.servers[server].next().map(|(at, part)| (at, server, part)));
        let inside = inside.min_by_key(|(at, server, _)| (*at, *server));
        match (outside, inside) {
            (Some((at, number)), inside) if at <= end && inside.is_none_or(|(own, ..)| at <= own) => {
                self.now = self.now.max(at);
                if let Some(due) = self.due.remove(&(at, number)) {
                    self.happen(due);
                }
            }
            (_, Some((at, server, part))) if at <= end => {
                self.now = self.now.max(at);
                let life = self.servers[server].step(self.now, part);
                self.live(server, life);
            }
            _ => return false,
        }
        true
    }

    fn happen(&mut self, due: Due) {
        match due {
            Due::Step(index) => self.take_step(index),
            Due::Arrive(op) => self.arrive(op),
            Due::Back(op, answer, settled) => self.back(op, answer, settled),
            Due::HangUp(op) => {
                let server = self.ops[op].server;
                self.record(server, Event::HungUp { op });
                self.servers[server].hang_up(op);
            }
            Due::Worker(server, request, travel, luck) => {
                self.send(server, request, travel, luck);
            }
            Due::Start(server) => self.start(server),
        }
    }

    fn take_step(&mut self, index: usize) {
        let script = self.script;
        match &script[index].action {
            Action::Send { server, request, travel, luck } => {
                self.send(*server, request.clone(), *travel, *luck);
            }
            Action::Pick { nth, what, travel } => {
                if self.known.is_empty() {
                    return;
                }
                let job = self.known[(*nth % self.known.len() as u64) as usize];
                let request = match *what {
                    PickedAction::Cancel => Request::Cancel(job),
                    PickedAction::Patch { priority, delay_ms } => Request::Patch { job, priority, delay_ms },
                    PickedAction::Look => Request::Look(job),
                };
                self.send(client::server_of(job), request, *travel, 0);
            }
            Action::Fault { server, fault } => self.break_it(*server, *fault),
        }
    }

    // The network.

    fn send(&mut self, server: usize, request: Request, travel: Travel, luck: u64) -> usize {
        let op = self.ops.len();
        let copies = 1 + usize::from(travel.again.is_some());
        self.record(server, Event::Sent { op, request: request.clone(), copies });
        self.work.requests += 1;
        // What is settled with a receive has an answer of its own.
        let settles = if let Request::Receive(receive) = &request { receive.settle.clone() } else { Vec::new() };
        self.ops.push(Op { server, request, travel, luck });
        for settle in settles {
            let (op, request) = (self.ops.len(), Request::Settle(settle));
            self.record(server, Event::Sent { op, request: request.clone(), copies });
            self.ops.push(Op { server, request, travel, luck });
        }
        if travel.lost != Lost::Request {
            self.plan(self.now + travel.there, Due::Arrive(op));
        }
        if let Some(later) = travel.again {
            self.plan(self.now + travel.there + later, Due::Arrive(op));
        }
        op
    }

    fn arrive(&mut self, op: usize) {
        let Op { server, request, travel, .. } = &self.ops[op];
        let (server, travel) = (*server, *travel);
        let wall_ms = self.servers[server].wall_ms(self.now);
        match self.servers[server].handle() {
            Some(handle) => {
                let call = client::call(handle, self.options, request, wall_ms);
                self.servers[server].accept(self.now, op, call);
                if travel.lost == Lost::Patience {
                    self.plan(self.now + travel.back, Due::HangUp(op));
                }
            }
            None => {
                let Reply { answer, settled, .. } = Reply::to_all(request, Answer::Unavailable("connection refused"));
                self.plan(self.now + travel.back, Due::Back(op, answer, settled));
            }
        }
    }

    /// An answer has left the server.
    fn leave(&mut self, op: usize, reply: Reply) {
        let Reply { answer, settled, guard } = reply;
        let Op { server, travel, .. } = self.ops[op];
        match travel.lost {
            Lost::Connection | Lost::Patience => {
                if let Answer::Received(jobs) = answer
                    && !jobs.is_empty()
                {
                    self.record(server, Event::Undelivered { op, jobs: jobs.iter().map(|job| job.id).collect() });
                }
                drop(guard);
            }
            Lost::Answer => confirm(guard),
            Lost::Nothing | Lost::Request => {
                confirm(guard);
                self.plan(self.now + travel.back, Due::Back(op, answer, settled));
            }
        }
    }

    fn back(&mut self, op: usize, answer: Answer, settled: Vec<Answer>) {
        let Op { server, ref request, luck, .. } = self.ops[op];
        match (&answer, request) {
            (Answer::Enqueued { jobs, .. }, _) => self.known.extend(jobs.iter().map(|job| job.id)),
            (Answer::Received(jobs), Request::Receive(receive)) => {
                let (jobs, receive) = (jobs.clone(), receive.clone());
                self.work_on(server, &receive, &jobs, luck);
            }
            (Answer::Begun(Once::New(token)), Request::Begin(begin)) => {
                let uses = worker::hold(&mut Random::new(luck), self.options, begin, token);
                for (after, wanted, travel) in uses {
                    self.plan(self.now + after, Due::Worker(server, Request::Guard(wanted), travel, 0));
                }
            }
            _ => {}
        }
        self.record(server, Event::Answered { op, answer });
        for (index, answer) in settled.into_iter().enumerate() {
            self.record(server, Event::Answered { op: op + 1 + index, answer });
        }
    }

    fn work_on(&mut self, server: usize, receive: &Receive, jobs: &[Delivery], luck: u64) {
        for job in jobs {
            let mut random = Random::new(luck ^ job.fence.wrapping_mul(0x2545_f491_4f6c_dd1d));
            if luck != worker::OBEDIENT
                && let Some((after, begin, travel)) = worker::begin(&mut random, self.options, receive, job)
            {
                let luck = random.next();
                self.plan(self.now + after, Due::Worker(server, Request::Begin(begin), travel, luck));
            }
            for (after, settle, travel) in worker::plan(&mut random, self.options, receive, job, luck) {
                let is_alone = luck == worker::OBEDIENT || !random.percent(self.options.workers.together);
                let luck = random.next();
                let request = if is_alone {
                    Request::Settle(settle)
                } else {
                    Request::Receive(Receive { settle: vec![settle], attempt: None, wait_ms: 0, ..receive.clone() })
                };
                self.plan(self.now + after, Due::Worker(server, request, travel, luck));
            }
        }
    }

    // Life and death of processes.

    fn start(&mut self, server: usize) {
        if self.servers[server].is_up() {
            return;
        }
        match self.servers[server].start(self.now) {
            Ok(()) if !self.servers[server].disk.is_dead() => self.record(server, Event::Started),
            failed => {
                let is_corrupt = matches!(
                    &failed,
                    Err(recado_shard::OpenError::Log(recado_log::Error::Corrupt { .. })
                        | recado_shard::OpenError::Decode { .. })
                );
                let reason = failed.err().map_or_else(|| "it died".into(), |error| error.to_string());
                self.is_over |= is_corrupt || self.is_calm;
                self.record(server, Event::NotStarted { reason, is_corrupt });
                self.fall(server);
            }
        }
    }

    /// When a process that died by itself is started again.
    fn again(&mut self) -> Micros {
        let most = self.random.pick(&RESTART);
        self.random.between(1, most)
    }

    fn live(&mut self, server: usize, life: Life) {
        let is_killed = self.servers[server].disk.is_dead();
        if !is_killed {
            for (op, reply) in self.servers[server].answered() {
                self.leave(op, reply);
            }
        }
        match life {
            Life::GoesOn if !is_killed => {}
            Life::Stopped => {
                let is_closed = self.servers[server].close();
                self.record(server, Event::Died);
                if is_closed {
                    let down = self.stops[server].take().unwrap_or_else(|| self.again());
                    self.plan(self.now + down, Due::Start(server));
                } else {
                    self.work.crashes += 1;
                    self.fall(server);
                }
            }
            _ => {
                self.fall(server);
            }
        }
    }

    /// A process has died by itself, or of its disk.
    fn fall(&mut self, server: usize) {
        let again = self.again();
        if self.servers[server].disk.is_without_power() {
            self.break_it(server, Fault::PowerLoss(again));
        } else {
            self.servers[server].disk.kill();
            self.die(server, again);
        }
    }

    /// The process is gone; its disk has been told. It is started again after `down`.
    fn die(&mut self, server: usize, down: Micros) {
        if self.servers[server].is_up() {
            self.record(server, Event::Died);
            self.work.crashes += 1;
        }
        self.stops[server] = None;
        for op in self.servers[server].end() {
            let reply = Reply::to_all(&self.ops[op].request, Answer::Unknown);
            self.leave(op, reply);
        }
        self.plan(self.now + down, Due::Start(server));
    }

    fn break_it(&mut self, server: usize, fault: Fault) {
        self.record(server, Event::Fault(fault));
        let machine = &mut self.servers[server];
        match fault {
            Fault::Kill(down) => {
                machine.disk.kill();
                self.die(server, down);
            }
            Fault::PowerLoss(down) => {
                machine.disk.lose_power();
                self.die(server, down);
            }
            Fault::Stop(down) => {
                machine.begin_stop(self.now);
                self.stops[server] = Some(down);
            }
            Fault::Disk { after, fault } => machine.disk.fail_at(machine.disk.operations() + after, fault),
            Fault::Clock(ms) => machine.step_wall(ms),
            Fault::Full(bytes) => machine.disk.set_capacity(Some(machine.disk.used_bytes() + bytes)),
            Fault::Freed => machine.disk.set_capacity(None),
            Fault::Read(after) => machine.disk.fail_read_after(after),
        }
    }
}

fn confirm(guard: Option<DeliveryGuard>) {
    if let Some(guard) = guard {
        guard.confirm();
    }
}
