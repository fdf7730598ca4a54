//! What holds deliveries back: a rate limit gives its burst and then a token an interval, and begins empty with each
//! service; no more is in flight than may be; a circuit breaker that failures have opened hands out nothing until it has
//! cooled, then one probe at a time until one ends well. The model is arithmetic over the deliveries that clients have: of a
//! queue, of a group, or of all queues under one shared limit.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use recado_core::{BreakerOptions, RateLimit};

use super::hidden::{CLOCK_GRAIN, hidden_until};
use super::ledger::{Ledger, NEVER, Op};
use super::{Rule, Verdict, Violation, effect};
use crate::history::{Answer, Delivery};
use crate::options::MILLI;
use crate::plan::SERVERS;
use crate::script::{Micros, Outcome, Request};
use crate::server::WALL_MS;

pub(super) fn check(ledger: &Ledger<'_>) -> Verdict {
    for server in 0..SERVERS {
        let seen = Seen::new(ledger, server);
        for queue in (0..ledger.options.queues.len() as u8).filter(|queue| !may_be_deleted(ledger, (server, *queue))) {
            queue_keeps_pace(&seen, queue)?;
            groups_keep_pace(&seen, queue)?;
        }
        for limit in 0..ledger.options.limits.len() as u8 {
            limit_keeps_pace(&seen, limit)?;
        }
    }
    Ok(())
}

fn may_be_deleted(ledger: &Ledger<'_>, place: (usize, u8)) -> bool {
    ledger.operated(place, |request| matches!(request, Request::Delete { .. })).next().is_some()
}

fn exceeded(what: String) -> Verdict {
    Err(Violation { rule: Rule::Limits, what })
}

/// Whose pace it is.
#[derive(Clone, Debug, PartialEq)]
enum Owner {
    Queue(u8),
    Group(u8, u8),
    Limit(u8),
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queue(queue) => write!(f, "queue {queue}"),
            Self::Group(queue, group) => write!(f, "group {group} of queue {queue}"),
            Self::Limit(limit) => write!(f, "shared limit {limit}"),
        }
    }
}

/// A delivery, and when it was handed out: between these.
#[derive(Clone, Copy)]
struct Given<'a> {
    queue: u8,
    /// Where its job is known.
    group: Option<u8>,
    op: usize,
    from: Micros,
    to: Micros,
    job: &'a Delivery,
}

/// A failure that was counted while its delivery was in flight.
struct Failure<'a> {
    op: usize,
    queue: u8,
    receipt: &'a str,
    sent: Micros,
    taken: Micros,
}

/// What clients saw of one server.
struct Seen<'a> {
    ledger: &'a Ledger<'a>,
    server: usize,
    given: Vec<Given<'a>>,
    /// From when to when deliveries were surely in flight, by their receives and jobs' groups.
    spans: Vec<(Micros, Micros, u8, Option<u8>)>,
    /// Until when a delivery was surely in flight, by its receipt; of those that no power loss may have taken.
    ends: BTreeMap<&'a str, Micros>,
    failures: Vec<Failure<'a>>,
}

impl<'a> Seen<'a> {
    fn new(ledger: &'a Ledger<'a>, server: usize) -> Self {
        let mut seen = Self {
            ledger,
            server,
            given: given(ledger, server),
            spans: vec![],
            ends: BTreeMap::new(),
            failures: vec![],
        };
        seen.note_flights();
        seen.note_failures();
        seen
    }

    fn note_flights(&mut self) {
        for job in self.ledger.jobs.values().filter(|job| job.server == self.server) {
            for (from, to, hold) in effect::in_flight(self.ledger, job).into_iter().filter(|(from, to, _)| from < to) {
                let Some(queue) = self.ledger.ops[hold.op].queue() else { continue };
                self.spans.push((from, to, queue, job.spec.group.filter(|_| queue == job.queue)));
                self.ends.insert(&hold.job.receipt, to);
            }
        }
    }

    fn note_failures(&mut self) {
        for job in self.ledger.jobs.values().filter(|job| job.server == self.server) {
            // Another job of its key may end it, and what is cancelled does not fail.
            if job.spec.key.is_some() || !job.cancels.is_empty() || job.was_given_back {
                continue;
            }
            for said in job.said.iter().filter(|said| matches!(said.what.outcome, Outcome::Fail { .. })) {
                let hold = job.holds.iter().find(|hold| hold.job.fence == said.what.fence);
                let (Some(hold), Some(taken)) = (hold, said.taken_at().filter(|_| said.counted())) else { continue };
                if taken < hidden_until(self.ledger, job, hold, taken) {
                    let (op, queue, receipt, sent) = (said.op, said.what.queue, &*said.what.receipt, said.sent);
                    self.failures.push(Failure { op, queue, receipt, sent, taken });
                }
            }
        }
        self.failures.sort_by_key(|failure| failure.taken);
    }

    /// When this was over on the server's clock, at the latest.
    fn span(&self, from: Micros, to: Micros) -> Micros {
        to - from + self.ledger.hurried(self.server, from, to) + 2 * CLOCK_GRAIN
    }

    /// No more deliveries in any time than the bucket had tokens.
    fn rate_holds(&self, owner: &Owner, rates: &[RateLimit], is_its: impl Fn(&Given<'_>) -> bool) -> Verdict {
        let (Some(burst), Some(interval_ns)) =
            (rates.iter().map(|rate| rate.burst).max(), rates.iter().map(|rate| interval_ns(*rate)).min())
        else {
            return Ok(());
        };
        let mut given: Vec<&Given<'_>> = self.given.iter().filter(|given| is_its(given)).collect();
        given.sort_by_key(|given| given.to);
        let within = |from: Micros, burst: u32| {
            let later = given.iter().filter(|given| given.from >= from);
            let mut counted = later.enumerate().map(|(before, given)| (before as u64 + 1, given));
            let is_too_many = |(count, last): &(u64, &&Given<'_>)| {
                *count > u64::from(burst) + self.span(from, last.to) * 1_000 / interval_ns
            };
            match counted.find(is_too_many) {
                Some((count, last)) => {
                    let ms = (last.to - from) / MILLI;
                    exceeded(format!("{owner} gave {count} jobs in {ms} ms up to #{}, its rate is {rates:?}", last.op))
                }
                None => Ok(()),
            }
        };
        given.iter().try_for_each(|first| within(first.from, burst))?;
        // The first service begins before there are limits.
        self.ledger.starts[self.server].iter().skip(1).try_for_each(|start| within(*start, 0))
    }

    fn flights_hold(&self, owner: &Owner, most: Option<u32>, is_its: impl Fn(u8, Option<u8>) -> bool) -> Verdict {
        let Some(most) = most else { return Ok(()) };
        let own = self.spans.iter().filter(|(_, _, queue, group)| is_its(*queue, *group));
        let mut changes: Vec<(Micros, i64)> = own.flat_map(|(from, to, ..)| [(*from, 1), (*to, -1)]).collect();
        changes.sort_unstable();
        let mut in_flight = 0;
        for (at, change) in changes {
            in_flight += change;
            if in_flight > i64::from(most) {
                return exceeded(format!("{in_flight} jobs of {owner} were in flight at {at} us, {most} may be"));
            }
        }
        Ok(())
    }

    /// When an ack that may have closed the breaker of these queues may first have counted, not before `from`.
    fn success_after(&self, from: Micros, queues: &[u8]) -> Micros {
        let is_ack = |op: &&Op<'_>| {
            op.server == self.server
                && op.queue().is_some_and(|queue| queues.contains(&queue))
                && matches!(op.request, Request::Settle(settle)
                    if matches!(settle.outcome, Outcome::Ack { .. }) && !settle.forged)
                && !op.failed()
        };
        let acks = self.ledger.ops.iter().filter(is_ack).filter(|op| op.over() >= from);
        acks.map(|op| op.sent.max(from)).min().unwrap_or(NEVER)
    }

    /// What failures have opened hands out one probe at a time, and none until it has cooled. `queues` are surely under
    /// the breaker, `all` may be.
    fn breaker_holds(&self, owner: &Owner, breaker: Option<BreakerOptions>, queues: &[u8], all: &[u8]) -> Verdict {
        let Some(breaker) = breaker else { return Ok(()) };
        let own = |queue: u8| queues.contains(&queue);
        let failures: Vec<&Failure<'_>> = self.failures.iter().filter(|failure| own(failure.queue)).collect();
        let mut given: Vec<&Given<'_>> = self.given.iter().filter(|given| own(given.queue)).collect();
        given.sort_by_key(|given| given.job.fence);
        for (index, failure) in failures.iter().enumerate() {
            if !self.opens(breaker, &failures[..=index], all) {
                continue;
            }
            if self.is_first(failure, all) {
                self.cools(owner, breaker, &given, failure)?;
            }
            let closed = self.success_after(failure.sent, all);
            let end = |given: &Given<'_>| self.ends.get(&*given.job.receipt).copied();
            let probes = given.iter().filter(|given| given.from > failure.taken && given.to < closed);
            let probes: Vec<(&Given<'_>, Micros)> = probes.filter_map(|given| Some((*given, end(given)?))).collect();
            for pair in probes.windows(2) {
                let [(one, end), (other, _)] = pair else { continue };
                if other.to < *end {
                    let (one, other) = (one.op, other.op);
                    return exceeded(format!(
                        "{owner} gave two probes at a time, to #{one} and #{other}, after #{} had opened its breaker",
                        failure.op
                    ));
                }
            }
            for (probe, _) in probes {
                let is_of_it = |it: &&&Failure<'_>| it.receipt == &*probe.job.receipt && it.taken < closed;
                let Some(failed) = failures.iter().find(is_of_it) else { continue };
                self.cools(owner, breaker, &given, failed)?;
            }
        }
        Ok(())
    }

    /// Whether the last of these failures has surely found the breaker closed and opened it, or found it open.
    fn opens(&self, breaker: BreakerOptions, failures: &[&Failure<'_>], all: &[u8]) -> bool {
        if breaker.min_jobs == 1 && breaker.failure_milli == 1 {
            return true;
        }
        let needed = breaker.min_jobs as usize;
        let (Some(last), Some(first)) = (failures.last(), failures.len().checked_sub(needed).map(|at| failures[at]))
        else {
            return false;
        };
        // What it counts is told by what is left of the log.
        !self.ledger.died(self.server, 0, last.taken)
            && self.ledger.clock_steps[self.server].is_empty()
            && self.success_after(0, all) > last.taken
            && last.taken - first.sent < breaker.window_ms * MILLI * 8 / 10
    }

    /// Nothing can have failed before under this breaker: so it was closed.
    fn is_first(&self, failure: &Failure<'_>, all: &[u8]) -> bool {
        let is_own = |op: &&Op<'_>| op.server == self.server && op.queue().is_some_and(|queue| all.contains(&queue));
        let mut before = self.ledger.ops.iter().filter(is_own).filter(|op| op.sent < failure.taken);
        before.all(|op| match op.request {
            Request::Settle(settle) => {
                !matches!(settle.outcome, Outcome::Fail { .. }) || op.failed() || *settle.receipt == *failure.receipt
            }
            Request::Receive(_) => self.has_not_timed_out(op, failure),
            _ => true,
        })
    }

    /// What this receive was given was in hand or done when the failure came.
    fn has_not_timed_out(&self, receive: &Op<'_>, failure: &Failure<'_>) -> bool {
        let is_fine = |given: &Delivery| {
            let Some(job) = self.ledger.jobs.get(&given.id).filter(|job| !job.was_given_back) else { return false };
            let Some(hold) = job.holds.iter().find(|hold| hold.job.receipt == given.receipt) else { return false };
            let until = hidden_until(self.ledger, job, hold, failure.taken);
            let acked = job.said.iter().filter(|said| said.is_ack() && said.what.receipt == given.receipt);
            failure.taken < until || acked.filter_map(|said| said.taken_at()).any(|at| at < until)
        };
        let answers = || receive.answers.iter().map(|(_, answer)| *answer);
        receive.failed()
            || receive.over() != NEVER
                && answers().all(|answer| matches!(answer, Answer::Received(jobs) if jobs.iter().all(is_fine)))
    }

    /// A breaker has opened: nothing comes before the cool-down is over.
    fn cools(&self, owner: &Owner, breaker: BreakerOptions, given: &[&Given<'_>], failed: &Failure<'_>) -> Verdict {
        let until = (failed.sent + breaker.cool_down_ms * MILLI).saturating_sub(2 * CLOCK_GRAIN);
        let early = given.iter().find(|given| given.from > failed.taken && given.to < until);
        match early.filter(|_| self.ledger.clock_steps[self.server].is_empty()) {
            Some(early) => {
                let ms = (until - early.to) / MILLI;
                exceeded(format!("{owner} gave a job to #{}, {ms} ms before its breaker had cooled", early.op))
            }
            None => Ok(()),
        }
    }
}

/// Time between two tokens.
fn interval_ns(rate: RateLimit) -> u64 {
    rate.per_ms * 1_000_000 / u64::from(rate.jobs)
}

/// All deliveries of a server, each once.
fn given<'a>(ledger: &'a Ledger<'a>, server: usize) -> Vec<Given<'a>> {
    let is_exact = ledger.clock_steps[server].is_empty();
    let (mut all, mut known, mut attempts) = (Vec::new(), BTreeSet::new(), BTreeMap::new());
    for (number, op) in ledger.ops.iter().enumerate().filter(|(_, op)| op.server == server) {
        let Request::Receive(receive) = op.request else { continue };
        // Jobs may have been given to the first receive of an attempt.
        let sent = receive.attempt.map_or(op.sent, |attempt| *attempts.entry(attempt).or_insert(op.sent));
        for (at, answer) in &op.answers {
            let Answer::Received(jobs) = answer else { continue };
            for job in jobs.iter().filter(|job| known.insert(&job.receipt)) {
                let exact = job.received_at.saturating_sub(WALL_MS) * MILLI;
                let (from, to) = if is_exact { (exact, exact + MILLI - 1) } else { (sent, *at) };
                let group = ledger.jobs.get(&job.id).filter(|it| it.queue == receive.queue);
                let group = group.and_then(|it| it.spec.group);
                all.push(Given { queue: receive.queue, group, op: number, from, to, job });
            }
        }
    }
    all
}

fn queue_keeps_pace(seen: &Seen<'_>, queue: u8) -> Verdict {
    let (owner, settings) = (Owner::Queue(queue), seen.ledger.settings((seen.server, queue)));
    let rates: Vec<RateLimit> = settings.iter().filter_map(|setting| setting.rate).collect();
    seen.rate_holds(&owner, &rates, |given| given.queue == queue)?;
    seen.flights_hold(&owner, most(settings.iter().map(|setting| setting.in_flight)), |its, _| its == queue)?;
    seen.breaker_holds(&owner, settings[0].breaker, &[queue], &[queue])
}

fn groups_keep_pace(seen: &Seen<'_>, queue: u8) -> Verdict {
    let settings = seen.ledger.settings((seen.server, queue));
    let rates: Vec<RateLimit> = settings.iter().filter_map(|setting| setting.group_rate).collect();
    for group in 0..seen.ledger.options.jobs.groups as u8 {
        let owner = Owner::Group(queue, group);
        seen.rate_holds(&owner, &rates, |given| (given.queue, given.group) == (queue, Some(group)))?;
        let most = most(settings.iter().map(|setting| setting.group_in_flight));
        seen.flights_hold(&owner, most, |its, of| (its, of) == (queue, Some(group)))?;
    }
    Ok(())
}

fn limit_keeps_pace(seen: &Seen<'_>, limit: u8) -> Verdict {
    let (owner, ledger) = (Owner::Limit(limit), seen.ledger);
    let Some(forms) = ledger.forms(seen.server, limit) else { return Ok(()) };
    let names_it = |queue: &u8| ledger.setting(*queue).limits.contains(&limit);
    let all: Vec<u8> = (0..ledger.options.queues.len() as u8).filter(names_it).collect();
    let is_sure = |queue: &u8| !may_be_deleted(ledger, (seen.server, *queue));
    let queues: Vec<u8> = all.iter().copied().filter(is_sure).collect();
    let rates: Vec<RateLimit> = forms.iter().filter_map(|form| form.rate).collect();
    seen.rate_holds(&owner, &rates, |given| queues.contains(&given.queue))?;
    let most = most(forms.iter().map(|form| form.max_in_flight));
    seen.flights_hold(&owner, most, |queue, _| queues.contains(&queue))?;
    seen.breaker_holds(&owner, forms[0].breaker, &queues, &all)
}

/// The largest of the limits that may have held; `None` when there may have been none.
fn most(limits: impl Iterator<Item = Option<u32>>) -> Option<u32> {
    limits.collect::<Option<Vec<u32>>>()?.into_iter().max()
}
