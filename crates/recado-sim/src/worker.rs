//! What a worker does with a job that it was given.

use crate::history::Delivery;
use crate::options::{MILLI, Options, SECOND};
use crate::random::Random;
use crate::script::{Begin, GuardUse, Lost, Micros, OfJob, Outcome, Receive, Settle, Travel, Use};

/// Keys of work that belongs to a job.
const JOB_KEYS: u64 = 1 << 63;
/// The luck of a worker that acks everything at once.
pub(crate) const OBEDIENT: u64 = u64::MAX;

/// The settles of one delivery, with how long after it each is sent.
pub(crate) fn plan(
    random: &mut Random,
    options: &Options,
    receive: &Receive,
    job: &Delivery,
    luck: u64,
) -> Vec<(Micros, Settle, Travel)> {
    let settle = |outcome| Settle {
        queue: receive.queue,
        job: job.id,
        fence: job.fence,
        receipt: job.receipt.clone(),
        forged: false,
        outcome,
    };
    if luck == OBEDIENT {
        let travel = Travel { there: MILLI, back: MILLI, ..Travel::default() };
        return vec![(0, settle(Outcome::Ack { with_result: true }), travel)];
    }
    let workers = &options.workers;
    let mut settles = Vec::new();
    let mut after = random.between(0, workers.work);
    if random.percent(workers.late) {
        let setting = &options.queues[usize::from(receive.queue)][0];
        after += receive.visibility_ms.unwrap_or(setting.visibility_ms) * MILLI + random.below(3 * SECOND);
    }
    if random.percent(workers.forge) {
        settles.push((after / 2, Settle { receipt: forge(random, &job.receipt), forged: true, ..settle(ack(random)) }));
    }
    if random.below(100) < workers.extend * 4 {
        let outcome = Outcome::Extend { visibility_ms: random.between(100, 5_000) };
        settles.push((after / 2, settle(outcome)));
    }
    if let Some(outcome) = outcome(random, options) {
        settles.push((after, settle(outcome)));
        if random.percent(workers.repeat) {
            settles.push((after + random.below(2 * SECOND), settle(outcome)));
        }
        if random.percent(workers.contradict) {
            settles.push((after + random.below(2 * SECOND), settle(ack(random))));
        }
    }
    settles.into_iter().map(|(after, settle)| (after, settle, travel(random, options))).collect()
}

/// The work under a key of its own that is begun in the course of a delivery.
pub(crate) fn begin(
    random: &mut Random,
    options: &Options,
    receive: &Receive,
    job: &Delivery,
) -> Option<(Micros, Begin, Travel)> {
    let begin = Begin {
        queue: receive.queue,
        key: JOB_KEYS | job.id.seq(),
        hold_ms: random.between(100, 3_000),
        ttl_ms: 2_000,
        attempt: None,
        of: Some(Box::new(OfJob { job: job.id, fence: job.fence, receipt: job.receipt.clone() })),
    };
    let after = random.below(2 * options.workers.work);
    random.percent(options.jobs.job_guards).then(|| (after, begin, travel(random, options)))
}

/// What the holder of a key says of its work.
pub(crate) fn hold(
    random: &mut Random,
    options: &Options,
    begin: &Begin,
    token: &str,
) -> Vec<(Micros, GuardUse, Travel)> {
    let Begin { queue, key, hold_ms, .. } = *begin;
    let wanted = |what| GuardUse { queue, key, token: token.into(), forged: false, what };
    let workers = &options.workers;
    let mut after = random.between(0, workers.work);
    if random.percent(workers.late) {
        after += hold_ms * MILLI + random.below(3 * SECOND);
    }
    let mut uses = Vec::new();
    if random.percent(workers.forge) {
        let token = forge(random, token);
        uses.push((after / 2, GuardUse { token, forged: true, ..wanted(Use::Complete) }));
    }
    if random.percent(20) {
        uses.push((after / 2, wanted(Use::Extend { hold_ms: random.between(100, 5_000) })));
    }
    let what = random.pick(&[Some(Use::Complete), Some(Use::Complete), Some(Use::Abort), None]);
    if let Some(what) = what {
        uses.push((after, wanted(what)));
        if random.percent(workers.repeat) {
            uses.push((after + random.below(2 * SECOND), wanted(what)));
        }
        if random.percent(workers.contradict) {
            uses.push((after + random.below(2 * SECOND), wanted(Use::Complete)));
        }
    }
    uses.into_iter().map(|(after, wanted)| (after, wanted, travel(random, options))).collect()
}

fn ack(random: &mut Random) -> Outcome {
    Outcome::Ack { with_result: random.percent(60) }
}

/// `None` is silence: the visibility timeout ends it.
fn outcome(random: &mut Random, options: &Options) -> Option<Outcome> {
    let workers = &options.workers;
    let kinds = [workers.ack, workers.fail, workers.fail_for_good, workers.release, workers.silence];
    let mut at = random.below(kinds.iter().sum());
    let kind = kinds.iter().position(|weight| match at.checked_sub(*weight) {
        Some(rest) => {
            at = rest;
            false
        }
        None => true,
    });
    match kind? {
        0 => Some(ack(random)),
        1 => {
            let retry_after_ms = random.percent(30).then(|| random.below(3_000));
            Some(Outcome::Fail { retryable: true, retry_after_ms })
        }
        2 => Some(Outcome::Fail { retryable: false, retry_after_ms: None }),
        3 => Some(Outcome::Release { delay_ms: random.percent(50).then(|| random.below(3_000)) }),
        _ => None,
    }
}

fn travel(random: &mut Random, options: &Options) -> Travel {
    let network = &options.network;
    let lost = if random.percent(network.lost) { random.pick(&[Lost::Request, Lost::Answer]) } else { Lost::Nothing };
    let again = random.percent(network.again).then(|| random.below(SECOND));
    let mut way = || if network.exact { network.way } else { random.between(50, network.way) };
    Travel { there: way(), back: way(), lost, again }
}

/// One digit is another.
fn forge(random: &mut Random, receipt: &str) -> Box<str> {
    let at = random.below(receipt.len() as u64) as usize;
    let other = if receipt.as_bytes()[at] == b'0' { "1" } else { "0" };
    [&receipt[..at], other, &receipt[at + 1..]].concat().into()
}
