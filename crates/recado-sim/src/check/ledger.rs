//! The model: of each request what became of it, of each job what clients know of it. It predicts nothing; it
//! only says what certainly happened and what may have.

use std::collections::{BTreeMap, BTreeSet};

use recado_core::{Cancelled, JobId, LimitOptions};

use crate::client::server_of;
use crate::history::{Answer, Delivery, Entry, Event, Listed, Made};
use crate::options::{MILLI, Options, Setting};
use crate::plan::{Plan, SERVERS};
use crate::script::{Enqueue, Fault, Job, Micros, Outcome, Request, Settle};

/// No answer came, or not yet.
pub(super) const NEVER: Micros = Micros::MAX;

/// A request and its answers.
pub(super) struct Op<'a> {
    pub(super) server: usize,
    pub(super) request: &'a Request,
    pub(super) sent: Micros,
    copies: usize,
    pub(super) answers: Vec<(Micros, &'a Answer)>,
}

impl Op<'_> {
    /// Nothing came of it, in no copy.
    pub(super) fn failed(&self) -> bool {
        let is_no = |answer: &Answer| {
            matches!(
                answer,
                Answer::Refused(_)
                    | Answer::Unavailable(_)
                    | Answer::Cancelled(Cancelled::Refused(..) | Cancelled::Gone(_))
            )
        };
        self.answers.len() == self.copies && self.answers.iter().all(|(_, answer)| is_no(answer))
    }

    /// Each copy was answered with what came of it.
    fn is_told(&self) -> bool {
        self.answers.len() == self.copies && !self.answers.iter().any(|(_, answer)| *answer == &Answer::Unknown)
    }

    /// When it was over: later it did nothing any more.
    pub(super) fn over(&self) -> Micros {
        if !self.is_told() {
            return NEVER;
        }
        self.answers.iter().map(|(at, _)| *at).max().unwrap_or(NEVER)
    }

    pub(super) fn queue(&self) -> Option<u8> {
        match self.request {
            Request::Enqueue(Enqueue { queue, .. })
            | Request::SetPaused { queue, .. }
            | Request::Purge { queue }
            | Request::Replay { queue, .. }
            | Request::Discard { queue }
            | Request::Configure { queue, .. }
            | Request::Delete { queue }
            | Request::List { queue } => Some(*queue),
            Request::Receive(receive) => Some(receive.queue),
            Request::Begin(begin) => Some(begin.queue),
            Request::Guard(wanted) => Some(wanted.queue),
            Request::Settle(settle) => Some(settle.queue),
            Request::Cancel(_)
            | Request::Patch { .. }
            | Request::Look(_)
            | Request::PutLimit { .. }
            | Request::RemoveLimit { .. } => None,
        }
    }
}

/// A delivery that a client has.
pub(super) struct Hold<'a> {
    pub(super) op: usize,
    pub(super) sent: Micros,
    pub(super) at: Micros,
    pub(super) job: &'a Delivery,
    /// Hidden for so long, at least.
    pub(super) visibility: Micros,
    /// A power loss may have made the server forget it.
    pub(super) may_be_forgotten: bool,
}

/// A settle of one delivery.
pub(super) struct Said<'a> {
    pub(super) op: usize,
    pub(super) sent: Micros,
    pub(super) what: &'a Settle,
    pub(super) answers: Vec<(Micros, &'a Answer)>,
    /// It changed nothing, in no copy.
    pub(super) failed: bool,
}

impl Said<'_> {
    /// When it was first answered with success.
    pub(super) fn taken_at(&self) -> Option<Micros> {
        let taken = self.answers.iter().filter(|(_, answer)| matches!(answer, Answer::Settled { .. }));
        taken.map(|(at, _)| *at).min()
    }

    /// It was answered as one that counts, not as a repetition.
    pub(super) fn counted(&self) -> bool {
        self.answers.iter().any(|(_, answer)| matches!(answer, Answer::Settled { repeated: false }))
    }

    pub(super) fn is_ack(&self) -> bool {
        matches!(self.what.outcome, Outcome::Ack { .. })
    }

    pub(super) fn is_extend(&self) -> bool {
        matches!(self.what.outcome, Outcome::Extend { .. })
    }
}

/// What clients know of a job.
pub(super) struct Story<'a> {
    pub(super) id: JobId,
    pub(super) server: usize,
    pub(super) queue: u8,
    /// How it was enqueued.
    pub(super) spec: &'a Job,
    /// When its enqueue was first sent.
    pub(super) sent: Micros,
    /// When its enqueue was first answered with success.
    pub(super) made: Micros,
    /// Place in its batch.
    pub(super) index: usize,
    /// It took the key of a job in flight.
    pub(super) is_behind: bool,
    /// By fencing token.
    pub(super) holds: Vec<Hold<'a>>,
    pub(super) said: Vec<Said<'a>>,
    /// Cancels and changes that may have done something.
    pub(super) cancels: Vec<usize>,
    pub(super) patches: Vec<usize>,
    /// A server gave it back because its connection broke.
    pub(super) was_given_back: bool,
    /// How it is listed at the end.
    pub(super) last: Option<&'a Listed>,
    /// And where.
    pub(super) last_queue: Option<u8>,
}

impl Story<'_> {
    pub(super) fn place(&self) -> (usize, u8) {
        (self.server, self.queue)
    }

    /// An ack that may have counted was sent.
    pub(super) fn may_be_acked(&self) -> bool {
        self.said.iter().any(|said| said.is_ack() && !said.failed && !said.what.forged)
    }

    /// It may be done, cancelled or expired, and so be forgotten by and by.
    pub(super) fn may_have_ended(&self) -> bool {
        self.may_be_acked() || !self.cancels.is_empty() || self.spec.expires_ms.is_some() || self.spec.key.is_some()
    }
}

/// All of it.
pub(super) struct Ledger<'a> {
    pub(super) options: &'a Options,
    pub(super) ops: Vec<Op<'a>>,
    pub(super) jobs: BTreeMap<JobId, Story<'a>>,
    /// Requests of operators that may have done something, by queue.
    operators: BTreeMap<(usize, u8), Vec<usize>>,
    /// Since when what was not synced could be lost, and when it was.
    power_losses: Vec<Vec<(Micros, Micros)>>,
    /// When clients gave up waiting for jobs, by queue.
    hang_ups: BTreeMap<(usize, u8), Vec<Micros>>,
    /// When a server died.
    deaths: Vec<Vec<Micros>>,
    /// When it began its service, each time.
    pub(super) starts: Vec<Vec<Micros>>,
    /// Receives that may have been given jobs that no client knows of, by queue.
    unseen: BTreeMap<(usize, u8), u32>,
    /// A read of its disk may have failed.
    pub(super) misreads: [bool; SERVERS],
    /// Steps of the wall clock.
    pub(super) clock_steps: Vec<Vec<(Micros, i64)>>,
    /// From here on nothing breaks.
    pub(super) calm: Micros,
    /// From here on nothing is left to do.
    pub(super) drained: Micros,
}

impl<'a> Ledger<'a> {
    pub(super) fn new(plan: &'a Plan, history: &'a [Entry]) -> Self {
        let mut ledger = Self {
            options: &plan.options,
            ops: Vec::new(),
            jobs: BTreeMap::new(),
            operators: BTreeMap::new(),
            hang_ups: BTreeMap::new(),
            power_losses: vec![Vec::new(); SERVERS],
            deaths: vec![Vec::new(); SERVERS],
            starts: vec![Vec::new(); SERVERS],
            unseen: BTreeMap::new(),
            misreads: [false; SERVERS],
            clock_steps: vec![Vec::new(); SERVERS],
            calm: NEVER,
            drained: NEVER,
        };
        ledger.read(history);
        ledger.note_operators();
        ledger.note_enqueues();
        ledger.note_work();
        // What cannot be read goes back, and nobody is told.
        let misreads = ledger.misreads;
        for job in ledger.jobs.values_mut() {
            job.was_given_back |= misreads[job.server];
        }
        for entry in history {
            if let Event::Undelivered { jobs, .. } = &entry.what {
                for id in jobs {
                    if let Some(job) = ledger.jobs.get_mut(id) {
                        job.was_given_back = true;
                    }
                }
            }
        }
        ledger
    }

    fn read(&mut self, history: &'a [Entry]) {
        let mut down_since = [None; SERVERS];
        for Entry { at, server, what } in history {
            let (at, server) = (*at, *server);
            match what {
                Event::Sent { request, copies, .. } => {
                    self.ops.push(Op { server, request, sent: at, copies: *copies, answers: Vec::new() });
                }
                Event::Answered { op, answer } => self.ops[*op].answers.push((at, answer)),
                Event::HungUp { op } => {
                    if let Some(queue) = self.ops[*op].queue() {
                        self.hang_ups.entry((server, queue)).or_default().push(at);
                    }
                }
                Event::Died => {
                    down_since[server] = Some(at);
                    self.deaths[server].push(at);
                }
                Event::Started => {
                    down_since[server] = None;
                    self.starts[server].push(at);
                }
                Event::Fault(Fault::PowerLoss(_)) => {
                    self.power_losses[server].push((down_since[server].unwrap_or(at), at));
                }
                Event::Fault(Fault::Read(_)) => self.misreads[server] = true,
                Event::Fault(Fault::Clock(ms)) => self.clock_steps[server].push((at, *ms)),
                Event::Calm => self.calm = self.calm.min(at),
                Event::Drained => self.drained = self.drained.min(at),
                _ => {}
            }
        }
    }

    fn note_operators(&mut self) {
        for (number, op) in self.ops.iter().enumerate() {
            if let Request::Receive(receive) = op.request
                && !op.is_told()
            {
                *self.unseen.entry((op.server, receive.queue)).or_default() += op.copies as u32;
            }
            let is_operator = !matches!(
                op.request,
                Request::Enqueue(_)
                    | Request::Receive(_)
                    | Request::Settle(_)
                    | Request::Begin(_)
                    | Request::Guard(_)
                    | Request::List { .. }
            );
            if let Some(queue) = op.queue()
                && is_operator
                && !op.failed()
            {
                self.operators.entry((op.server, queue)).or_default().push(number);
            }
        }
    }

    /// Jobs that an answer names, and jobs that turn up without one.
    fn note_enqueues(&mut self) {
        let mut by_tag: BTreeMap<(usize, u32), (u8, &'a Job, Micros, usize)> = BTreeMap::new();
        for op in &self.ops {
            if let Request::Enqueue(enqueue) = op.request {
                for (index, job) in enqueue.jobs.iter().enumerate() {
                    by_tag.entry((op.server, job.tag)).or_insert((enqueue.queue, job, op.sent, index));
                }
            }
        }
        for op in &self.ops {
            let Request::Enqueue(enqueue) = op.request else { continue };
            for (at, answer) in &op.answers {
                let Answer::Enqueued { jobs, .. } = answer else { continue };
                for (job, made) in enqueue.jobs.iter().zip(jobs) {
                    if let Made { id, is_duplicate: false, behind } = made
                        && let Some((queue, spec, sent, index)) = by_tag.get(&(op.server, job.tag))
                    {
                        let story = self.jobs.entry(*id).or_insert_with(|| story(*id, *queue, spec, *sent, *index));
                        story.made = story.made.min(*at);
                        story.is_behind |= behind.is_some();
                    }
                }
            }
        }
        for op in &self.ops {
            for (_, answer) in &op.answers {
                let seen: Vec<(JobId, Option<u32>)> = match answer {
                    Answer::Received(jobs) => jobs.iter().map(|job| (job.id, job.tag)).collect(),
                    Answer::Jobs(jobs) => jobs.iter().map(|job| (job.id, job.tag)).collect(),
                    _ => continue,
                };
                for (id, tag) in seen {
                    let known = tag.and_then(|tag| by_tag.get(&(op.server, tag)));
                    // With a deduplication key the payload may be another's: then nothing is known of the job.
                    if let Some((queue, spec, sent, index)) = known.filter(|(_, spec, ..)| spec.dedup.is_none()) {
                        self.jobs.entry(id).or_insert_with(|| story(id, *queue, spec, *sent, *index));
                    }
                }
            }
        }
    }

    fn note_work(&mut self) {
        let Self { ops, jobs, power_losses, options, drained, .. } = self;
        // A receive alone waits 100 ms for its sync, and the disk takes its time.
        let unsynced = 100 * MILLI + 3 * options.server.disk;
        let mut attempts: BTreeMap<u64, Micros> = BTreeMap::new();
        for (number, op) in ops.iter().enumerate() {
            // Jobs may have been given to the first receive of an attempt.
            let attempt = if let Request::Receive(receive) = op.request { receive.attempt } else { None };
            let sent = attempt.map_or(op.sent, |attempt| *attempts.entry(attempt).or_insert(op.sent));
            for (at, answer) in &op.answers {
                match (op.request, answer) {
                    (Request::Receive(receive), Answer::Received(deliveries)) => {
                        let may_be_forgotten = power_losses[op.server]
                            .iter()
                            .any(|(since, lost)| sent <= *lost && *at + unsynced >= *since);
                        for job in deliveries {
                            let Some(story) = jobs.get_mut(&job.id) else { continue };
                            let visibility = visibility(options, receive.queue, receive.visibility_ms);
                            let hold = Hold { op: number, sent, at: *at, job, visibility, may_be_forgotten };
                            story.holds.push(hold);
                        }
                    }
                    (Request::List { .. }, Answer::Jobs(listed)) if *at > *drained => {
                        for listed in listed {
                            if let Some(story) = jobs.get_mut(&listed.id) {
                                (story.last, story.last_queue) = (Some(listed), op.queue());
                            }
                        }
                    }
                    _ => {}
                }
            }
            match op.request {
                Request::Settle(what) => {
                    if let Some(story) = jobs.get_mut(&what.job) {
                        let answers = op.answers.clone();
                        story.said.push(Said { op: number, sent: op.sent, what, answers, failed: op.failed() });
                    }
                }
                Request::Cancel(job) if !op.failed() => {
                    jobs.entry(*job).and_modify(|story| story.cancels.push(number));
                }
                Request::Patch { job, .. } if !op.failed() => {
                    jobs.entry(*job).and_modify(|story| story.patches.push(number));
                }
                _ => {}
            }
        }
        for story in jobs.values_mut() {
            story.holds.sort_by_key(|hold| (hold.job.fence, hold.at));
            // A delivery that was answered again is one.
            let mut seen = BTreeSet::new();
            story.holds.retain(|hold| seen.insert(&hold.job.receipt));
        }
    }

    /// The configuration that a queue begins with.
    pub(super) fn setting(&self, queue: u8) -> &'a Setting {
        &self.options.queues[usize::from(queue)][0]
    }

    /// The configurations that a queue may have had.
    pub(super) fn settings(&self, place: (usize, u8)) -> &'a [Setting] {
        let settings = &self.options.queues[usize::from(place.1)];
        if self.may_be_reconfigured(place) { settings } else { &settings[..1] }
    }

    /// The forms that a shared limit may have had; `None` when it may have been removed.
    pub(super) fn forms(&self, server: usize, limit: u8) -> Option<&'a [LimitOptions]> {
        let forms = &self.options.limits[usize::from(limit)];
        let changes = self.ops.iter().filter(|op| op.server == server && !op.failed());
        let (mut last, mut is_there) = (1, true);
        for op in changes {
            match op.request {
                Request::PutLimit { limit: its, variant } if *its == limit => last = last.max(variant + 1),
                Request::RemoveLimit { limit: its } if *its == limit => is_there = false,
                _ => {}
            }
        }
        is_there.then_some(&forms[..last])
    }

    /// How often the job may have been handed out without any client knowing.
    pub(super) fn unseen(&self, job: &Story<'_>) -> u32 {
        self.places(job.place()).filter_map(|place| self.unseen.get(&place)).sum()
    }

    /// Its first delivery, if clients surely have its very first one.
    pub(super) fn first<'j>(&self, job: &'j Story<'a>) -> Option<&'j Hold<'a>> {
        let first = job.holds.first()?;
        let mut hang_ups = self.hang_ups.get(&job.place()).into_iter().flatten();
        let is_first = first.job.deliveries == 1
            && self.ops[first.op].queue() == Some(job.queue)
            && first.job.replays == 0
            && !job.was_given_back
            && !hang_ups.any(|at| (job.sent..=first.at).contains(at));
        is_first.then_some(first)
    }

    /// Operators' requests for the queue that may have done something, of those that `wanted` picks.
    pub(super) fn operated(&self, place: (usize, u8), wanted: fn(&Request) -> bool) -> impl Iterator<Item = &Op<'a>> {
        let ops = self.operators.get(&place).into_iter().flatten();
        ops.map(|op| &self.ops[*op]).filter(move |op| wanted(op.request))
    }

    /// The queue, and the one that its jobs may be handed to.
    pub(super) fn places(&self, (server, queue): (usize, u8)) -> impl Iterator<Item = (usize, u8)> {
        std::iter::once(queue).chain(self.redrive(queue).map(|(target, _)| target)).map(move |queue| (server, queue))
    }

    /// Where jobs of the queue go, after how many receives.
    pub(super) fn redrive(&self, queue: u8) -> Option<(u8, u32)> {
        self.setting(queue).redrive
    }

    /// Jobs go from this queue to another, or come to it.
    pub(super) fn is_linked(&self, queue: u8) -> bool {
        let links = self.options.queues.iter().filter_map(|settings| settings[0].redrive);
        self.redrive(queue).is_some() || { links }.any(|(target, _)| target == queue)
    }

    /// The queue may have been deleted: what was promised in it is void.
    pub(super) fn may_be_deleted(&self, place: (usize, u8)) -> bool {
        let deletes = |request: &Request| matches!(request, Request::Delete { .. });
        self.places(place).any(|place| self.operated(place, deletes).next().is_some())
    }

    /// The server died in this time.
    pub(super) fn died(&self, server: usize, from: Micros, to: Micros) -> bool {
        self.deaths[server].iter().any(|at| (from..=to).contains(at))
    }

    /// The queue may have had another configuration than its first.
    pub(super) fn may_be_reconfigured(&self, place: (usize, u8)) -> bool {
        let is_other =
            |request: &Request| matches!(request, Request::Configure { variant: 1.., .. } | Request::Delete { .. });
        self.operated(place, is_other).next().is_some()
    }

    /// An operator may have put it back from the dead after `since`.
    pub(super) fn may_be_replayed(&self, job: &Story<'_>, since: Micros) -> bool {
        let is_replay = |request: &Request| matches!(request, Request::Replay { .. });
        self.places(job.place()).any(|place| self.operated(place, is_replay).any(|op| op.over() > since))
    }

    /// An operator may have dropped it.
    pub(super) fn may_be_dropped(&self, job: &Story<'_>) -> bool {
        let may_drop = |op: &Op<'_>| op.over() > job.sent || matches!(op.request, Request::Delete { .. });
        self.places(job.place()).any(|place| self.operated(place, drops).any(may_drop))
    }

    /// Jobs with the same idempotency key that may have been acked.
    pub(super) fn acked_by_key(&self, job: &Story<'_>) -> impl Iterator<Item = &Story<'a>> {
        let (place, key) = (job.place(), job.spec.key);
        self.jobs.values().filter(move |other| other.place() == place && other.spec.key == key && other.may_be_acked())
    }

    /// A job of which nothing is known but its id may have been acked.
    pub(super) fn has_unknown_acks(&self, place: (usize, u8)) -> bool {
        self.ops.iter().any(|op| {
            matches!(op.request, Request::Settle(settle) if !self.jobs.contains_key(&settle.job))
                && (Some(op.server), op.queue()) == (Some(place.0), Some(place.1))
        })
    }

    /// Finished jobs of the queue may be forgotten before the end.
    pub(super) fn forgets(&self, (server, queue): (usize, u8)) -> bool {
        const KEPT_MS: u64 = 3_600_000;
        // A clock that jumps lets their time pass.
        let jumped_ms: u64 = self.clock_steps[server].iter().map(|(_, ms)| ms.unsigned_abs()).sum();
        // At the memory budget, and on a full disk.
        let is_short = self.options.server.memory_bytes < 1 << 30 || self.options.faults.full > 0;
        let keeps = |setting: &Setting| setting.keep_for_ms >= KEPT_MS && setting.keep_max >= 1_000;
        let keep = self.places((server, queue)).all(|(_, queue)| keeps(self.setting(queue)));
        !keep || jumped_ms > KEPT_MS / 2 || is_short
    }

    /// The wall clock of a server may have been set back.
    pub(super) fn was_set_back(&self, server: usize) -> bool {
        self.clock_steps[server].iter().any(|(_, ms)| *ms < 0)
    }

    /// By so much at most leases may have ended early: small steps of the clock pass for elapsed time. A server that
    /// does nothing in between sees several steps as one.
    pub(super) fn hurried(&self, server: usize, from: Micros, to: Micros) -> Micros {
        let steps = self.clock_steps[server].iter().filter(|(at, _)| (from..=to).contains(at));
        let mut most = vec![0];
        let mut seen: Vec<i64> = Vec::new();
        for (_, ms) in steps {
            seen.push(*ms);
            let mut as_one = 0;
            let ends = (0..seen.len()).rev().map(|first| {
                as_one += seen[first];
                let passes = u64::try_from(as_one).ok().filter(|ms| *ms <= 5_000).unwrap_or(0);
                most[first] + passes * MILLI
            });
            let end = ends.max().unwrap_or(0);
            most.push(end);
        }
        most.last().copied().unwrap_or(0)
    }
}

fn story<'a>(id: JobId, queue: u8, spec: &'a Job, sent: Micros, index: usize) -> Story<'a> {
    Story {
        id,
        server: server_of(id),
        queue,
        spec,
        sent,
        made: NEVER,
        index,
        is_behind: false,
        holds: Vec::new(),
        said: Vec::new(),
        cancels: Vec::new(),
        patches: Vec::new(),
        was_given_back: false,
        last: None,
        last_queue: None,
    }
}

/// The shortest time that a delivery may be hidden for.
fn visibility(options: &Options, queue: u8, own_ms: Option<u64>) -> Micros {
    let settings = &options.queues[usize::from(queue)];
    let configured = settings.iter().map(|setting| setting.visibility_ms).min().unwrap_or(0);
    let timeout = settings.iter().filter_map(|setting| setting.timeout_ms).min().unwrap_or(u64::MAX);
    own_ms.unwrap_or(configured).min(timeout) * MILLI
}

/// It takes jobs away.
pub(super) fn drops(request: &Request) -> bool {
    matches!(request, Request::Purge { .. } | Request::Discard { .. } | Request::Delete { .. })
}
