//! Random operations: what they are, and how they are drawn.

/// Luck for the draw (SplitMix64).
pub struct Dice(pub u64);

impl Dice {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }

    pub fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    fn maybe<T>(&mut self, chances: u64, draw: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.one_in(chances) { Some(draw(self)) } else { None }
    }
}

/// A job to enqueue.
#[derive(Clone, Debug)]
pub struct Spec {
    pub kind: u8,
    pub priority: u8,
    pub group: Option<u8>,
    /// Key, window, and mode: 0 keeps, 1 replaces, 2 conflicts.
    pub dedup: Option<(u8, Option<u64>, u8)>,
    pub key: Option<u8>,
    pub delay: Option<u64>,
    /// Or an instant, relative to now.
    pub at: Option<i64>,
    pub expires: Option<u64>,
    pub payload: u8,
}

/// What a worker says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Say {
    Ack(Option<u8>),
    Fail { retryable: bool, after: Option<u64> },
    Release(Option<u64>),
    Extend(Option<u64>),
}

/// What a holder says of its guard.
#[derive(Clone, Copy, Debug)]
pub enum SayOfGuard {
    Complete(Option<u8>),
    Abort,
    Extend(u64),
}

/// Which dead jobs.
#[derive(Clone, Copy, Debug)]
pub enum Which {
    All,
    Kind(u8),
    Job(usize),
}

/// One operation. Jobs and deliveries are named by number among those there were, modulo their count, so that
/// operations can be left out.
#[derive(Clone, Debug)]
pub enum Op {
    Enqueue { queue: usize, jobs: Vec<Spec>, producer: Option<(u8, i64)> },
    Family { queue: usize, parent: Spec, children: Vec<(bool, Spec)>, continues: bool },
    Batch { queue: usize, id: u8, jobs: Vec<Spec>, last: Option<(bool, Spec)> },
    Receive { queue: usize, max: usize, kinds: Option<u8>, visibility: Option<u64> },
    Settle { delivery: usize, say: Say },
    GiveBack { delivery: usize },
    Begin { queue: usize, key: u8, ttl: u64, hold: u64, job: Option<usize>, delivery: Option<usize> },
    UseGuard { token: usize, say: SayOfGuard },
    Cancel { job: usize },
    Patch { job: usize, priority: Option<u8>, delay: Option<u64>, payload: Option<u8> },
    Configure { queue: usize, policy: usize },
    Pause { queue: usize, paused: bool },
    Purge { queue: usize, ready: bool, delayed: bool, blocked: bool },
    Replay { queue: usize, which: Which, ignore_key: bool, force: bool },
    Discard { queue: usize, which: Which },
    Delete { queue: usize, force: bool },
    Wait(u64),
    StepClock(i64),
    Restart { down: u64 },
    Close,
    Swap,
    Copy(usize),
    CopyAll,
}

const TIMES: [u64; 8] = [1, 500, 1_000, 1_500, 3_000, 10_000, 70_000, 4_000_000];

fn spec(dice: &mut Dice) -> Spec {
    let delay = dice.maybe(5, |dice| dice.of(&[0, 1_000, 2_000, 10_000]));
    Spec {
        kind: dice.below(3) as u8,
        priority: if dice.one_in(4) { dice.below(3) as u8 } else { 0 },
        group: dice.maybe(2, |dice| dice.below(3) as u8),
        dedup: dice.maybe(4, |dice| {
            let window = dice.maybe(2, |dice| dice.of(&[1_000, 5_000, 100_000]));
            (dice.below(3) as u8, window, dice.of(&[0, 0, 1, 1, 2]))
        }),
        key: dice.maybe(4, |dice| dice.below(2) as u8),
        delay,
        at: if delay.is_none() { dice.maybe(10, |dice| dice.of(&[-5_000, 3_000, 20_000])) } else { None },
        expires: dice.maybe(8, |dice| dice.of(&[500, 2_000, 30_000])),
        payload: dice.below(4) as u8,
    }
}

/// A job that is enqueued with others. Which of two things that are due at once comes first is not said, so who waits
/// neither expires nor carries a key that others may complete.
fn relative(dice: &mut Dice, is_child: bool) -> Spec {
    let spec = spec(dice);
    Spec { dedup: None, expires: spec.expires.filter(|_| is_child), key: spec.key.filter(|_| is_child), ..spec }
}

fn family(dice: &mut Dice, queue: usize) -> Op {
    let dedup = dice.maybe(4, |dice| (dice.below(3) as u8, dice.maybe(2, |_| 5_000), dice.of(&[0, 2])));
    let parent = Spec { dedup, ..relative(dice, false) };
    let children = (0..=dice.below(3)).map(|_| (dice.one_in(2), relative(dice, true))).collect();
    Op::Family { queue, parent, children, continues: dice.one_in(2) }
}

fn batch(dice: &mut Dice, queue: usize) -> Op {
    let jobs = (0..=dice.below(2)).map(|_| relative(dice, true)).collect();
    let last = if dice.one_in(4) { None } else { Some((dice.one_in(2), relative(dice, false))) };
    Op::Batch { queue, id: dice.below(2) as u8, jobs, last }
}

fn which(dice: &mut Dice) -> Which {
    match dice.below(4) {
        0 => Which::All,
        1 => Which::Kind(dice.below(3) as u8),
        _ => Which::Job(dice.next() as usize),
    }
}

fn settle(dice: &mut Dice) -> Op {
    let say = match dice.below(9) {
        0..=3 => Say::Ack(dice.maybe(2, |dice| dice.below(9) as u8)),
        4 | 5 => Say::Fail { retryable: !dice.one_in(4), after: dice.maybe(4, |dice| dice.of(&[0, 100, 5_000])) },
        6 => Say::Release(dice.maybe(2, |dice| dice.of(&[500, 5_000]))),
        _ => Say::Extend(dice.maybe(2, |dice| dice.of(&[100, 2_000, 90_000]))),
    };
    // Mostly one of the newest.
    let back = if dice.one_in(3) { dice.below(30) } else { dice.below(4) };
    Op::Settle { delivery: back as usize, say }
}

fn begin(dice: &mut Dice, queue: usize) -> Op {
    let job = dice.maybe(2, |dice| dice.below(12) as usize);
    Op::Begin {
        queue,
        key: dice.below(3) as u8,
        ttl: dice.of(&[1_000, 60_000, 10_000_000]),
        hold: dice.of(&[500, 2_000, 100_000]),
        job,
        delivery: if job.is_none() { dice.maybe(4, |dice| dice.below(4) as usize) } else { None },
    }
}

fn use_guard(dice: &mut Dice) -> Op {
    let say = match dice.below(5) {
        0..=2 => SayOfGuard::Complete(dice.maybe(2, |dice| dice.below(9) as u8)),
        3 => SayOfGuard::Abort,
        _ => SayOfGuard::Extend(dice.of(&[100, 5_000, 90_000])),
    };
    let back = if dice.one_in(3) { dice.below(10) } else { dice.below(3) };
    Op::UseGuard { token: back as usize, say }
}

/// Draws one operation.
pub fn draw(dice: &mut Dice) -> Op {
    let queue = if dice.one_in(3) { 1 } else { 0 };
    match dice.below(122) {
        0..=21 => {
            let jobs = (0..=dice.below(3)).map(|_| spec(dice)).collect();
            let producer = dice.maybe(8, |dice| (dice.below(2) as u8, dice.of(&[0, 1, 1, 1, 2])));
            Op::Enqueue { queue, jobs, producer }
        }
        22..=41 => Op::Receive {
            queue,
            max: 1 + dice.below(3) as usize,
            kinds: dice.maybe(4, |dice| 1 + dice.below(7) as u8),
            visibility: dice.maybe(4, |dice| dice.of(&[200, 5_000])),
        },
        42..=61 => settle(dice),
        62 => Op::GiveBack { delivery: dice.below(5) as usize },
        63..=65 => Op::Cancel { job: dice.below(12) as usize },
        66..=67 => Op::Patch {
            job: dice.below(12) as usize,
            priority: dice.maybe(3, |dice| dice.below(3) as u8),
            delay: dice.maybe(2, |dice| dice.of(&[0, 700])),
            payload: dice.maybe(3, |dice| dice.below(4) as u8),
        },
        68..=70 => Op::Configure { queue, policy: dice.below(64) as usize },
        71 => Op::Pause { queue, paused: dice.one_in(2) },
        72 => Op::Purge { queue, ready: dice.one_in(2), delayed: dice.one_in(2), blocked: dice.one_in(3) },
        73..=76 => Op::Replay { queue, which: which(dice), ignore_key: dice.one_in(3), force: dice.one_in(3) },
        77 => Op::Discard { queue, which: which(dice) },
        78 => Op::Delete { queue, force: dice.one_in(2) },
        79..=88 => Op::Wait(dice.of(&TIMES)),
        89 => Op::StepClock(dice.of(&[-3_600_000, -20_000, 20_000, 3_600_000])),
        90..=91 => Op::Restart { down: dice.of(&[0, 1_000, 100_000]) },
        92 => Op::Swap,
        93..=95 => Op::Copy(1 + dice.below(5) as usize),
        96 => Op::CopyAll,
        100..=104 => begin(dice, queue),
        105..=109 => use_guard(dice),
        110..=116 => family(dice, queue),
        117..=121 => batch(dice, queue),
        _ => Op::Close,
    }
}
