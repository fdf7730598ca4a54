//! What a seed draws: each run has a random part of all features and faults, so that rare pairs of them meet.

use recado_core::{
    Backoff, BackoffCurve, BreakerOptions, DeadLetterOptions, Fifo, GroupOptions, IdempotencyOptions, Jitter,
    KeepOptions, LimitOptions, OnDead, PaceOptions, PayloadOptions, QueueOptions, RateLimit, Redrive, SqsQueue,
    Visibility,
};
use recado_log::Durability;

use crate::random::Random;
use crate::script::Micros;

/// One second.
pub(crate) const SECOND: Micros = 1_000_000;
/// One millisecond.
pub(crate) const MILLI: Micros = 1_000;

/// The options of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// When the last step of the script is taken.
    pub horizon: Micros,
    /// Steps of clients.
    pub steps: usize,
    /// Percent of the steps that come while the disk is still busy with the one before.
    pub crowds: u64,
    /// Of each queue, the configurations it can have; the first is in force from the beginning.
    pub queues: Vec<Vec<Setting>>,
    /// Of each shared limit, the forms that it can have; the first is in force from the beginning.
    pub limits: Vec<Vec<LimitOptions>>,
    /// What producers use.
    pub jobs: JobOptions,
    /// What workers do, as weights.
    pub workers: WorkerOptions,
    /// What operators do, as weights; producers and workers have 100.
    pub operators: OperatorOptions,
    /// What the network does, in percent.
    pub network: NetworkOptions,
    /// How many of each fault.
    pub faults: FaultOptions,
    /// The servers.
    pub server: ServerOptions,
}

/// Configuration of a queue.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // the words of the queue's options
pub struct Setting {
    pub ordered: bool,
    pub fair: bool,
    pub max_attempts: u32,
    pub max_deliveries: u32,
    pub backoff_ms: u64,
    pub visibility_ms: u64,
    pub timeout_ms: Option<u64>,
    pub in_flight: Option<u32>,
    pub group_in_flight: Option<u32>,
    pub depth: u64,
    pub blocks: bool,
    pub keep_for_ms: u64,
    pub keep_max: u64,
    pub key_keep_ms: u64,
    pub max_replays: u32,
    pub dead_max: u64,
    pub payload_max: Option<u64>,
    pub fifo: bool,
    /// The queue that takes what was received so often.
    pub redrive: Option<(u8, u32)>,
    pub rate: Option<RateLimit>,
    pub group_rate: Option<RateLimit>,
    pub breaker: Option<BreakerOptions>,
    /// The shared limits it is under.
    pub limits: Vec<u8>,
}

/// What producers use.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct JobOptions {
    pub batch_max: u64,
    pub bytes_max: u64,
    /// All payloads have the largest size, so that records of one epoch end where those of another do.
    pub is_one_size: bool,
    pub kinds: u64,
    pub priorities: u64,
    pub delays: bool,
    pub groups: u64,
    pub dedup_keys: u64,
    pub keys: u64,
    pub guard_keys: u64,
    /// The longest hold of such a key.
    pub hold_ms_max: u64,
    /// Percent of begins under such a key with an `attemptId`.
    pub guard_attempts: u64,
    /// Percent of deliveries in whose course work of the job is begun.
    pub job_guards: u64,
    pub expiry: bool,
    pub producers: bool,
    pub requests: bool,
    pub own_attempts: bool,
}

/// What workers do.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct WorkerOptions {
    pub ack: u64,
    pub fail: u64,
    pub fail_for_good: u64,
    pub release: u64,
    pub extend: u64,
    pub silence: u64,
    /// Longest work in time.
    pub work: Micros,
    /// Percent of settles that come late.
    pub late: u64,
    /// Percent of settles sent twice.
    pub repeat: u64,
    /// Percent of settles followed by another outcome.
    pub contradict: u64,
    /// Percent of settles sent with a changed receipt first.
    pub forge: u64,
    pub receive_max: u64,
    pub long_polls: bool,
    /// Percent of receives with an `attemptId`.
    pub attempts: u64,
    /// Percent of settles that are sent with a receive.
    pub together: u64,
    pub own_visibility: bool,
    /// Enqueues to receives, in percent.
    pub enqueues: u64,
}

/// What operators do.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct OperatorOptions {
    pub pause: u64,
    pub purge: u64,
    pub replay: u64,
    pub ignore_key: bool,
    /// Percent of replays that change payloads.
    pub replay_patches: u64,
    pub discard: u64,
    pub cancel: u64,
    pub patch: u64,
    pub look: u64,
    pub configure: u64,
    pub delete: u64,
    pub put_limit: u64,
    pub remove_limit: u64,
}

/// What the network does.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct NetworkOptions {
    /// Longest way, usually; all ways are this long when `exact`.
    pub way: Micros,
    pub exact: bool,
    pub lost: u64,
    pub again: u64,
    pub slow: u64,
}

/// How many of each fault.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct FaultOptions {
    pub kills: u64,
    pub power: u64,
    /// Deaths at the disk and power losses in quick succession.
    pub bursts: u64,
    pub stops: u64,
    /// Operations of the disk at which the process or the power goes, or which fail.
    pub disk: u64,
    /// Percent of these that are followed by another one, within a few operations.
    pub series: u64,
    pub short_writes: u64,
    pub full: u64,
    pub reads: u64,
    pub clock_steps: u64,
    pub clock_step_ms: i64,
    pub down: Micros,
}

/// How servers run.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct ServerOptions {
    pub durability: Durability,
    pub segment_bytes: u64,
    pub window: usize,
    pub memory_bytes: u64,
    pub cache_bytes: usize,
    pub requests_max: usize,
    /// Longest time until the log does its next piece of work.
    pub disk: Micros,
}

impl Options {
    /// Draws them.
    pub(crate) fn draw(random: &mut Random) -> Self {
        let groups = random.percent(50);
        let limits: Vec<_> = (0..sometimes(random, 30, 2, 0)).map(|_| limit(random)).collect();
        let pace = Pace { rates: random.percent(20), breakers: random.percent(25), limits: limits.len() as u8 };
        let last = random.below(3) as u8;
        let queues = (0..=last).map(|queue| Setting::variants(random, groups, pace, (queue < last).then_some(last)));
        let queues = queues.collect();
        Self {
            limits,
            horizon: random.pick(&[5, 15, 40, 90]) * SECOND,
            steps: random.pick(&[100, 200, 300, 500]),
            crowds: random.pick(&[0, 50, 90]),
            queues,
            jobs: JobOptions::draw(random, groups),
            workers: WorkerOptions::draw(random),
            operators: OperatorOptions::draw(random),
            network: NetworkOptions::draw(random),
            faults: FaultOptions::draw(random),
            server: ServerOptions::draw(random),
        }
    }
}

impl Options {
    /// What of all features and faults this run has.
    #[must_use]
    pub fn drawn(&self) -> Vec<&'static str> {
        let any = |has: fn(&Setting) -> bool| self.queues.iter().any(|settings| has(&settings[0]));
        let Self { jobs, workers, operators, network, faults, server, .. } = self;
        let all = [
            ("two shards", true),
            ("several queues", self.queues.len() > 1),
            ("groups", jobs.groups > 0),
            ("ordered groups", any(|setting| setting.ordered)),
            ("FIFO queues", any(|setting| setting.fifo)),
            ("hand-off", any(|setting| setting.redrive.is_some())),
            ("rate limits", any(|setting| setting.rate.is_some() || setting.group_rate.is_some())),
            ("in-flight limits", any(|setting| setting.in_flight.is_some() || setting.group_in_flight.is_some())),
            ("shared limits", any(|setting| !setting.limits.is_empty())),
            ("breakers", any(|setting| setting.breaker.is_some())),
            ("depth limits", any(|setting| setting.depth < 1_000)),
            ("payload limits", any(|setting| setting.payload_max.is_some())),
            ("batches", jobs.batch_max > 1),
            ("priorities", jobs.priorities > 1),
            ("delays", jobs.delays),
            ("deduplication", jobs.dedup_keys > 0),
            ("idempotency keys", jobs.keys > 0),
            ("guards", jobs.guard_keys > 0 || jobs.job_guards > 0),
            ("expiry", jobs.expiry),
            ("producers", jobs.producers),
            ("repeated requests", jobs.requests),
            ("repeated receives", workers.attempts > 0),
            ("settles with receives", workers.together > 0),
            ("late settles", workers.late > 0),
            ("contradictions", workers.contradict > 0),
            ("forged receipts", workers.forge > 0),
            ("pauses", operators.pause > 0),
            ("purges", operators.purge > 0),
            ("replays", operators.replay > 0),
            ("discards", operators.discard > 0),
            ("cancels", operators.cancel > 0),
            ("patches", operators.patch > 0),
            ("configurations", operators.configure > 0),
            ("deletions", operators.delete > 0),
            ("losses of the network", network.lost > 0),
            ("duplicates of the network", network.again > 0),
            ("kills", faults.kills > 0),
            ("power losses", faults.power > 0),
            ("graceful stops", faults.stops > 0),
            ("bursts", faults.bursts > 0),
            ("failing writes and syncs", faults.disk > 0),
            ("short writes", faults.short_writes > 0),
            ("failing reads", faults.reads > 0),
            ("full disks", faults.full > 0),
            ("clock steps", faults.clock_steps > 0),
            ("little memory", server.memory_bytes < 1 << 30),
            ("durability os", server.durability == Durability::Os),
        ];
        all.into_iter().filter(|(_, has)| *has).map(|(word, _)| word).collect()
    }
}

/// `value` in so many percent of the runs.
fn sometimes<T>(random: &mut Random, percent: u64, value: T, otherwise: T) -> T {
    if random.percent(percent) { value } else { otherwise }
}

/// What may hold deliveries back in a run.
#[derive(Clone, Copy)]
struct Pace {
    rates: bool,
    breakers: bool,
    /// How many shared limits there are.
    limits: u8,
}

/// A shared limit: its first form, and another one of the same kinds.
fn limit(random: &mut Random) -> Vec<LimitOptions> {
    let (has_rate, has_breaker) = (random.percent(40), random.percent(40));
    let first = LimitOptions {
        max_in_flight: (random.percent(50) || !has_rate && !has_breaker).then(|| random.between(1, 3) as u32),
        rate: has_rate.then(|| rate(random)),
        breaker: has_breaker.then(|| breaker(random)),
    };
    let other = LimitOptions {
        max_in_flight: first.max_in_flight.map(|_| random.between(1, 3) as u32),
        rate: first.rate.map(|_| rate(random)),
        breaker: first.breaker,
    };
    vec![first, other]
}

/// The longest time between two tokens: what waits at the end is worked off at this pace.
pub(crate) const TOKEN_MS_MAX: u64 = 500;

fn rate(random: &mut Random) -> RateLimit {
    let jobs = random.pick(&[1, 1, 3, 7]);
    let per_ms = random.pick(&[5, 50, TOKEN_MS_MAX]) * u64::from(jobs);
    RateLimit { jobs, per_ms, burst: random.pick(&[1, 1, 2, 5]) }
}

/// The longest time that a breaker stays open.
pub(crate) const COOL_DOWN_MS_MAX: u64 = 8_000;

fn breaker(random: &mut Random) -> BreakerOptions {
    BreakerOptions {
        failure_milli: random.pick(&[1, 1, 500, 1_000]),
        window_ms: random.pick(&[1_000, 3_600_000, 3_600_000]),
        min_jobs: random.pick(&[1, 1, 3]),
        cool_down_ms: random.pick(&[200, 1_000, COOL_DOWN_MS_MAX]),
    }
}

impl Setting {
    /// `beyond` is a queue that may take what fails in this one.
    fn variants(random: &mut Random, groups: bool, pace: Pace, beyond: Option<u8>) -> Vec<Self> {
        let first = Self::draw(random, groups, pace, beyond);
        let others = (0..2).map(|_| {
            // What jobs were promised under one setting stays comparable under the next.
            let other = Self::draw(random, groups, pace, beyond);
            Self {
                rate: first.rate.and(other.rate).or(first.rate),
                group_rate: first.group_rate.and(other.group_rate).or(first.group_rate),
                max_attempts: other.max_attempts,
                max_deliveries: other.max_deliveries,
                backoff_ms: other.backoff_ms,
                visibility_ms: other.visibility_ms,
                in_flight: other.in_flight,
                depth: other.depth,
                ..first.clone()
            }
        });
        std::iter::once(first.clone()).chain(others.collect::<Vec<_>>()).collect()
    }

    fn draw(random: &mut Random, groups: bool, pace: Pace, beyond: Option<u8>) -> Self {
        let max_attempts = random.pick(&[1, 2, 3, 3, 5]);
        let fifo = groups && random.percent(20);
        let ordered = fifo || (groups && random.percent(60));
        let short_keep = random.percent(15);
        Self {
            ordered,
            fair: random.percent(50),
            max_attempts,
            max_deliveries: sometimes(random, 25, max_attempts + 1, max_attempts * 10),
            backoff_ms: random.pick(&[0, 1, 100, 1_000, 5_000]),
            visibility_ms: random.pick(&[200, 1_000, 3_000, 10_000]),
            timeout_ms: sometimes(random, 15, Some(2_000), None),
            in_flight: sometimes(random, 15, Some(2), None),
            group_in_flight: if groups { sometimes(random, 20, Some(1), None) } else { None },
            depth: sometimes(random, 35, 12, 1_000_000),
            blocks: ordered && random.percent(30),
            keep_for_ms: if short_keep { random.pick(&[0, 500, 5_000]) } else { 3_600_000 },
            keep_max: sometimes(random, 5, 5, 10_000),
            key_keep_ms: sometimes(random, 20, 2_000, 24 * 3_600_000),
            max_replays: sometimes(random, 20, 1, 100),
            dead_max: sometimes(random, 10, 3, 1_000_000),
            payload_max: if random.percent(15) { Some(random.pick(&[40, 600])) } else { None },
            fifo,
            redrive: beyond.filter(|_| random.percent(25)).map(|queue| (queue, random.between(1, 3) as u32)),
            rate: (pace.rates && random.percent(60)).then(|| rate(random)),
            group_rate: (pace.rates && groups && random.percent(50)).then(|| rate(random)),
            breaker: (pace.breakers && random.percent(70)).then(|| breaker(random)),
            limits: (0..pace.limits).filter(|_| random.percent(60)).collect(),
        }
    }

    /// As the server takes it.
    pub(crate) fn options(&self) -> QueueOptions {
        QueueOptions {
            visibility: Some(Visibility::Fixed(self.visibility_ms)),
            timeout_ms: self.timeout_ms,
            max_attempts: Some(self.max_attempts),
            max_deliveries: Some(self.max_deliveries),
            backoff: Some(Backoff { curve: BackoffCurve::Fixed { base_ms: self.backoff_ms }, jitter: Jitter::None }),
            max_in_flight: self.in_flight,
            max_depth: Some(self.depth),
            groups: Some(GroupOptions {
                ordered: Some(self.ordered),
                fair: Some(self.fair),
                max_in_flight: self.group_in_flight,
                on_dead: Some(if self.blocks { OnDead::Block } else { OnDead::Continue }),
            }),
            keep_completed: Some(KeepOptions { for_ms: Some(self.keep_for_ms), max: Some(self.keep_max) }),
            idempotency: Some(IdempotencyOptions { keep_ms: Some(self.key_keep_ms), ..Default::default() }),
            dead_letter: Some(DeadLetterOptions {
                max_replays: Some(self.max_replays),
                max: Some(self.dead_max),
                ..Default::default()
            }),
            payload: self.payload_max.map(|max| PayloadOptions { max_size_bytes: Some(max), ..Default::default() }),
            sqs: (self.fifo || self.redrive.is_some()).then(|| Box::new(self.sqs())),
            pace: self.pace().boxed(),
            ..QueueOptions::default()
        }
    }
}

/// Name of a shared limit.
pub(crate) fn limit_name(limit: u8) -> Box<str> {
    format!("limit-{limit}").into()
}

impl Setting {
    fn pace(&self) -> PaceOptions {
        PaceOptions {
            rate: self.rate,
            group_rate: self.group_rate,
            limits: (!self.limits.is_empty()).then(|| self.limits.iter().map(|limit| limit_name(*limit)).collect()),
            breaker: self.breaker,
        }
    }

    fn sqs(&self) -> SqsQueue {
        let redrive = |(queue, max_receives): (u8, u32)| Redrive { target: format!("q{queue}").into(), max_receives };
        SqsQueue {
            fifo: self.fifo.then_some(Fifo { dedup_in_group: false }),
            retention_ms: None,
            redrive: self.redrive.map(redrive),
            edge: Vec::new(),
        }
    }
}

impl JobOptions {
    fn draw(random: &mut Random, groups: bool) -> Self {
        let is_one_size = random.percent(25);
        Self {
            batch_max: sometimes(random, 50, 6, 1),
            bytes_max: if is_one_size { 50 } else { random.pick(&[50, 50, 1_000, 8_000, 30_000]) },
            is_one_size,
            kinds: sometimes(random, 25, 2, 1),
            priorities: sometimes(random, 35, 3, 1),
            delays: random.percent(50),
            groups: if groups { random.pick(&[1, 3]) } else { 0 },
            dedup_keys: sometimes(random, 40, 3, 0),
            keys: sometimes(random, 45, 4, 0),
            guard_keys: sometimes(random, 25, 2, 0),
            hold_ms_max: random.pick(&[1_000, 3_000, 20_000]),
            guard_attempts: random.pick(&[0, 50]),
            job_guards: random.pick(&[0, 0, 0, 40]),
            expiry: random.percent(15),
            producers: random.percent(25),
            requests: random.percent(25),
            own_attempts: random.percent(20),
        }
    }
}

impl WorkerOptions {
    fn draw(random: &mut Random) -> Self {
        Self {
            ack: random.pick(&[5, 20, 60]),
            fail: random.pick(&[0, 5, 30]),
            fail_for_good: random.pick(&[0, 0, 5]),
            release: random.pick(&[0, 5]),
            extend: random.pick(&[0, 5]),
            silence: random.pick(&[0, 2, 15]),
            work: random.pick(&[5 * MILLI, 100 * MILLI, SECOND]),
            late: random.pick(&[0, 5, 30]),
            repeat: random.pick(&[0, 10]),
            contradict: random.pick(&[0, 10]),
            forge: random.pick(&[0, 10]),
            receive_max: random.pick(&[1, 3, 10]),
            long_polls: random.percent(50),
            attempts: random.pick(&[0, 0, 30]),
            together: random.pick(&[0, 0, 50]),
            own_visibility: random.percent(25),
            enqueues: random.pick(&[30, 50, 70]),
        }
    }
}

impl OperatorOptions {
    fn draw(random: &mut Random) -> Self {
        let mut weight = |percent| if random.percent(percent) { random.between(1, 6) } else { 0 };
        Self {
            pause: weight(20),
            purge: weight(8),
            replay: weight(35),
            discard: weight(10),
            cancel: weight(15),
            patch: weight(15),
            look: weight(20),
            configure: weight(15),
            delete: weight(4),
            put_limit: weight(20),
            remove_limit: weight(3),
            ignore_key: random.percent(20),
            replay_patches: random.pick(&[0, 50, 100]),
        }
    }
}

impl NetworkOptions {
    fn draw(random: &mut Random) -> Self {
        let exact = random.percent(35);
        Self {
            way: if exact { MILLI } else { random.pick(&[MILLI, 20 * MILLI]) },
            exact,
            lost: random.pick(&[0, 3, 15]),
            again: random.pick(&[0, 3, 10]),
            slow: if exact { 0 } else { random.pick(&[0, 5]) },
        }
    }
}

impl FaultOptions {
    fn draw(random: &mut Random) -> Self {
        let series = random.pick(&[0, 80]);
        let mut some = |percent, max| if random.percent(percent) { random.between(1, max) } else { 0 };
        Self {
            kills: some(40, 6),
            power: some(50, 6),
            bursts: some(40, 5),
            stops: some(15, 3),
            disk: some(60, 10),
            series,
            short_writes: some(20, 8),
            full: some(10, 2),
            reads: some(15, 6),
            clock_steps: some(25, 4),
            clock_step_ms: random.pick(&[3_000, 60_000, 3_600_000]),
            down: random.pick(&[10 * MILLI, SECOND, 8 * SECOND]),
        }
    }
}

impl ServerOptions {
    fn draw(random: &mut Random) -> Self {
        Self {
            durability: sometimes(random, 10, Durability::Os, Durability::Sync),
            segment_bytes: 256 << 10,
            window: random.pick(&[1, 2, 8, 8]),
            memory_bytes: if random.percent(8) { random.pick(&[15_000, 25_000, 40_000]) } else { 1 << 30 },
            cache_bytes: sometimes(random, 50, 1 << 20, 0),
            requests_max: sometimes(random, 5, 2, 1_000),
            disk: random.pick(&[100, 5 * MILLI, 50 * MILLI]),
        }
    }
}
