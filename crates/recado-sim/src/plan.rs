//! A seed's options and script.

use recado_core::OnDuplicate;
use recado_log::Durability;
use recado_log::sim::Fault as DiskFault;

use crate::options::{MILLI, Options, SECOND};
use crate::random::Random;
use crate::script::{
    Action, Begin, Dedup, Enqueue, Fault, Job, Lost, Micros, PickedAction, Receive, Request, Step, Travel,
};

/// Servers that run beside each other, with a disk each.
pub(crate) const SERVERS: usize = 2;
/// Tags of jobs that are enqueued in calm begin here.
pub(crate) const CALM_TAG: u32 = 1 << 31;

/// Everything that a run is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Where it all comes from.
    pub seed: u64,
    /// What was drawn.
    pub options: Options,
    /// What happens, by time.
    pub script: Vec<Step>,
}

impl Plan {
    /// Draws a plan.
    #[must_use]
    pub fn draw(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let options = Options::draw(&mut random);
        let mut author = Author { options: &options, random, script: Vec::new(), tags: 0, seqs: Default::default() };
        author.write();
        let mut script = author.script;
        script.sort_by_key(|step| step.at);
        Self { seed, options, script }
    }
}

struct Author<'a> {
    options: &'a Options,
    random: Random,
    script: Vec<Step>,
    tags: u32,
    /// Last batch of each producer of each queue of each server.
    seqs: std::collections::BTreeMap<(usize, u8, u8), u64>,
}

impl Author<'_> {
    fn write(&mut self) {
        let mut at = 0;
        for _ in 0..self.options.steps {
            at = if self.random.percent(self.options.crowds) {
                (at + self.random.below(self.options.server.disk / 8)).min(self.options.horizon - 1)
            } else {
                self.random.below(self.options.horizon)
            };
            let server = self.random.below(SERVERS as u64) as usize;
            self.client_step(at, server);
        }
        self.faults();
    }

    fn client_step(&mut self, at: Micros, server: usize) {
        let queue = self.random.below(self.options.queues.len() as u64) as u8;
        let (operators, limits) = (&self.options.operators, self.options.limits.len() as u64);
        let weights = [
            self.options.workers.enqueues,
            100 - self.options.workers.enqueues,
            operators.pause,
            operators.purge,
            operators.replay,
            operators.discard,
            operators.configure,
            operators.delete,
            operators.cancel,
            operators.patch,
            operators.look,
            self.options.jobs.guard_keys * 10,
            if limits > 0 { operators.put_limit } else { 0 },
            if limits > 0 { operators.remove_limit } else { 0 },
        ];
        let ignore_key = operators.ignore_key && self.random.percent(50);
        let request = match self.weighted(&weights) {
            0 => return self.enqueue(at, server, queue),
            1 => return self.receive(at, server, queue),
            2 => Request::SetPaused { queue, paused: self.random.percent(50) },
            3 => Request::Purge { queue },
            4 => {
                let patch = self.random.percent(self.options.operators.replay_patches).then(|| self.tag());
                Request::Replay { queue, ignore_key, patch }
            }
            5 => Request::Discard { queue },
            6 => Request::Configure { queue, variant: self.random.below(3) as usize },
            7 => Request::Delete { queue },
            8 => return self.pick(at, PickedAction::Cancel),
            9 => {
                let priority = (self.options.jobs.priorities > 1).then(|| self.random.below(3) as u8);
                let delay_ms = self.random.percent(50).then(|| self.random.below(5_000));
                return self.pick(at, PickedAction::Patch { priority, delay_ms });
            }
            10 => return self.pick(at, PickedAction::Look),
            11 => return self.begin(at, server, queue),
            12 => {
                let (limit, variant) = (self.random.below(limits) as u8, self.random.below(2) as usize);
                Request::PutLimit { limit, variant }
            }
            _ => Request::RemoveLimit { limit: self.random.below(limits) as u8 },
        };
        self.send(at, server, request);
    }

    fn weighted(&mut self, weights: &[u64]) -> usize {
        let mut at = self.random.below(weights.iter().sum());
        for (index, weight) in weights.iter().enumerate() {
            match at.checked_sub(*weight) {
                Some(rest) => at = rest,
                None => return index,
            }
        }
        0
    }

    fn send(&mut self, at: Micros, server: usize, request: Request) {
        let travel = self.travel();
        let luck = self.random.next();
        self.script.push(Step { at, action: Action::Send { server, request, travel, luck } });
    }

    fn pick(&mut self, at: Micros, what: PickedAction) {
        let action = Action::Pick { nth: self.random.next(), what, travel: self.travel() };
        self.script.push(Step { at, action });
    }

    fn travel(&mut self) -> Travel {
        let network = &self.options.network;
        let mut way = || {
            if network.exact {
                network.way
            } else if self.random.percent(network.slow) {
                self.random.below(3 * SECOND)
            } else {
                self.random.between(50, network.way)
            }
        };
        let (there, back) = (way(), way());
        let lost = if self.random.percent(network.lost) {
            self.random.pick(&[Lost::Request, Lost::Answer, Lost::Connection, Lost::Patience])
        } else {
            Lost::Nothing
        };
        let again = self.random.percent(network.again).then(|| self.soon_or(2 * SECOND));
        Travel { there, back, lost, again }
    }

    /// Half of the time while the disk is still busy with what came before, else up to `late` later.
    fn soon_or(&mut self, late: Micros) -> Micros {
        let most = if self.random.percent(50) { 2 * self.options.server.disk } else { late };
        self.random.below(most)
    }

    fn enqueue(&mut self, at: Micros, server: usize, queue: u8) {
        let options = &self.options.jobs;
        let count = self.random.between(1, options.batch_max);
        let jobs: Vec<Job> = (0..count).map(|_| self.job(queue)).collect();
        let producer = (options.producers && self.random.percent(50)).then(|| {
            let name = self.random.below(2) as u8;
            let seq = self.seqs.entry((server, queue, name)).or_default();
            *seq += 1;
            (name, *seq)
        });
        let request = (options.requests && self.random.percent(50)).then_some(self.tags);
        let window = jobs.iter().find_map(|job| job.dedup?.for_ms);
        let enqueue = Enqueue { queue, jobs, producer, request };
        self.send(at, server, Request::Enqueue(enqueue.clone()));
        // Producers that are not sure ask again; those with a key mostly at the edge of its window.
        if self.random.percent(20) {
            let later = at + self.soon_or(4 * SECOND);
            self.send(later, server, Request::Enqueue(enqueue.clone()));
        }
        if let Some(window) = window
            && self.random.percent(70)
        {
            let edge = at + window * MILLI + self.random.pick(&[0, 0, MILLI]);
            let mut jobs = enqueue.jobs;
            let fresh = Job { dedup: None, key: None, ..self.job(queue) };
            jobs.iter_mut().for_each(|job| job.tag = self.tag());
            jobs.push(fresh);
            self.send(edge, server, Request::Enqueue(Enqueue { queue, jobs, ..Enqueue::default() }));
        }
    }

    fn tag(&mut self) -> u32 {
        self.tags += 1;
        self.tags
    }

    fn job(&mut self, queue: u8) -> Job {
        let options = &self.options.jobs;
        let setting = &self.options.queues[usize::from(queue)][0];
        let random = &mut self.random;
        let mut below = |bound: u64| random.below(bound.max(1)) as u8;
        let (kind, priority, group) = (below(options.kinds), below(options.priorities), below(options.groups));
        let (dedup_key, key) = (below(options.dedup_keys), below(options.keys));
        let dedup = Dedup {
            key: dedup_key,
            for_ms: random.percent(70).then(|| random.pick(&[1, 5, 20, 100, 2_000])),
            on_duplicate: random.pick(&[
                OnDuplicate::Keep,
                OnDuplicate::Keep,
                OnDuplicate::Replace,
                OnDuplicate::Conflict,
            ]),
        };
        let bytes = if options.is_one_size { options.bytes_max } else { random.between(20, options.bytes_max) };
        // Mostly at the limit, where there is one.
        let bytes = match setting.payload_max {
            Some(max) if random.percent(80) => bytes.min(max + random.below(2)),
            _ => bytes,
        };
        let kinds = options.kinds;
        let mut job = Job {
            bytes: bytes as usize,
            kind,
            priority: if setting.ordered { 0 } else { priority },
            delay_ms: (options.delays && random.percent(30)).then(|| random.between(1, 8_000)),
            group: (options.groups > 0 && random.percent(80)).then_some(group),
            dedup: (options.dedup_keys > 0 && random.percent(50)).then_some(dedup),
            key: (options.keys > 0 && random.percent(60)).then_some(key),
            expires_ms: (options.expiry && random.percent(30)).then(|| random.between(1, 10_000)),
            max_attempts: (options.own_attempts && random.percent(30)).then(|| random.between(1, 4) as u32),
            tag: self.tag(),
        };
        // A payload replaces another only in a job of its type.
        if let Some(dedup) = job.dedup.filter(|_| kinds > 1) {
            job.kind = dedup.key % kinds as u8;
        }
        job
    }

    fn receive(&mut self, at: Micros, server: usize, queue: u8) {
        let workers = &self.options.workers;
        let random = &mut self.random;
        let receive = Receive {
            queue,
            max: random.between(1, workers.receive_max) as usize,
            visibility_ms: (workers.own_visibility && random.percent(40)).then(|| random.between(100, 8_000)),
            wait_ms: if workers.long_polls { random.pick(&[0, 500, 10_000]) } else { 0 },
            kind: (self.options.jobs.kinds > 1 && random.percent(30)).then(|| random.below(2) as u8),
            attempt: random.percent(workers.attempts).then(|| random.next()),
            by_group: self.options.queues[usize::from(queue)][0].fifo && random.percent(50),
            settle: Vec::new(),
        };
        self.send(at, server, Request::Receive(receive.clone()));
        // Workers that heard nothing ask again.
        if receive.attempt.is_some() && self.random.percent(50) {
            let later = at + self.soon_or(SECOND);
            self.send(later, server, Request::Receive(receive));
        }
    }

    fn begin(&mut self, at: Micros, server: usize, queue: u8) {
        let random = &mut self.random;
        let begin = Begin {
            queue,
            key: random.below(self.options.jobs.guard_keys),
            hold_ms: random.between(100, self.options.jobs.hold_ms_max),
            ttl_ms: random.pick(&[2_000, 3_600_000]),
            attempt: random.percent(self.options.jobs.guard_attempts).then(|| random.next()),
            of: None,
        };
        self.send(at, server, Request::Begin(begin.clone()));
        if begin.attempt.is_some() && self.random.percent(50) {
            let later = at + self.soon_or(SECOND);
            self.send(later, server, Request::Begin(begin));
        }
    }

    fn faults(&mut self) {
        let faults = self.options.faults.clone();
        let is_synced = self.options.server.durability == Durability::Sync;
        let (power, bursts) = if is_synced { (faults.power, faults.bursts) } else { (0, 0) };
        (0..bursts).for_each(|_| self.burst());
        self.each(faults.kills, |author| Fault::Kill(author.down()));
        self.each(power, |author| Fault::PowerLoss(author.down()));
        self.each(faults.stops, |author| Fault::Stop(author.down()));
        self.disk(faults.disk, self.disk_faults());
        self.disk(faults.short_writes, &[DiskFault::Short]);
        self.each(faults.full, |author| Fault::Full(author.random.below(300_000) as usize));
        self.each(faults.full, |_| Fault::Freed);
        self.each(faults.reads, |author| Fault::Read(author.random.below(12)));
        let step_ms = faults.clock_step_ms as u64;
        self.each(faults.clock_steps, |author| {
            let ms = author.random.between(1, step_ms) as i64;
            Fault::Clock(if author.random.percent(50) { ms } else { -ms })
        });
    }

    /// Again and again the disk is in trouble while batches of several requests are written: the log has many torn
    /// tails in one place, and recoveries fail.
    fn burst(&mut self) {
        let (mut at, server) = self.moment();
        let mut crowd: Vec<Step> = Vec::new();
        for _ in 0..self.random.between(2, 8) {
            if at + 200 * MILLI >= self.options.horizon {
                return;
            }
            self.break_disk(at + MILLI, server, &[DiskFault::Crash, DiskFault::PowerLoss, DiskFault::PowerLoss]);
            // Clients that heard nothing ask again.
            if crowd.is_empty() || self.random.percent(50) {
                crowd = self.crowd(server);
            }
            self.script.extend(crowd.iter().map(|step| Step { at: at + step.at, ..step.clone() }));
            at += self.random.between(20 * MILLI, 100 * MILLI);
            if self.random.percent(30) {
                let down = self.random.between(MILLI, 20 * MILLI);
                self.break_at(at, server, Fault::PowerLoss(down));
                at += down;
            }
        }
    }

    /// Requests that arrive together.
    fn crowd(&mut self, server: usize) -> Vec<Step> {
        let from = self.script.len();
        for _ in 0..self.random.between(4, 12) {
            let at = self.random.below(MILLI / 2);
            self.client_step(at, server);
        }
        let mut crowd = self.script.split_off(from);
        for step in &mut crowd {
            if let Action::Send { travel, .. } = &mut step.action {
                travel.there = MILLI;
            }
        }
        crowd
    }

    fn down(&mut self) -> Micros {
        self.random.between(MILLI, self.options.faults.down)
    }

    fn disk(&mut self, count: u64, faults: &[DiskFault]) {
        for _ in 0..count {
            let (at, server) = self.moment();
            self.break_disk(at, server, faults);
        }
    }

    /// One of the next operations of the disk is hit. Troubles come in series: what comes back is hit again.
    fn break_disk(&mut self, at: Micros, server: usize, faults: &[DiskFault]) {
        let mut after = self.random.below(5);
        let mut fault = self.random.pick(faults);
        loop {
            self.break_at(at, server, Fault::Disk { after, fault });
            if !self.random.percent(self.options.faults.series) {
                return;
            }
            after += if self.random.percent(50) { 1 } else { self.random.between(2, 12) };
            fault = self.random.pick(self.disk_faults());
        }
    }

    /// What may happen to an operation of the disk. Without a sync nothing is promised for power loss.
    fn disk_faults(&self) -> &'static [DiskFault] {
        match self.options.server.durability {
            Durability::Sync => &[DiskFault::Crash, DiskFault::PowerLoss, DiskFault::Io, DiskFault::NextSync],
            Durability::Os => &[DiskFault::Crash],
        }
    }

    fn each(&mut self, count: u64, mut fault: impl FnMut(&mut Self) -> Fault) {
        for _ in 0..count {
            let (at, server) = self.moment();
            let fault = fault(self);
            self.break_at(at, server, fault);
        }
    }

    fn break_at(&mut self, at: Micros, server: usize, fault: Fault) {
        self.script.push(Step { at, action: Action::Fault { server, fault } });
    }

    /// When and where something breaks: half of the time while a request is being served.
    fn moment(&mut self) -> (Micros, usize) {
        let step = &self.script[self.random.below(self.script.len() as u64) as usize];
        match &step.action {
            Action::Send { server, travel, .. } if self.random.percent(50) => {
                let at = step.at + travel.there + self.random.below(2 * self.options.server.disk);
                (at.min(self.options.horizon - 1), *server)
            }
            _ => (self.random.below(self.options.horizon), self.random.below(SERVERS as u64) as usize),
        }
    }
}
