//! Promise 3: a job in flight is hidden until its visibility timeout passes or it is given back.

use std::collections::BTreeMap;

use super::ledger::{Hold, Ledger, Story};
use super::{Verdict, broken, fenced};
use crate::history::{Answer, Delivery};
use crate::options::{MILLI, SECOND};
use crate::script::{Micros, Outcome, Request};

/// The servers count in whole milliseconds.
pub(super) const CLOCK_GRAIN: Micros = MILLI;

pub(super) fn check(ledger: &Ledger<'_>) -> Verdict {
    given_once(ledger)?;
    repeated(ledger)?;
    for job in ledger.jobs.values().filter(|job| !job.was_given_back && !ledger.may_be_deleted(job.place())) {
        for pair in job.holds.windows(2) {
            let [first, second] = pair else { continue };
            if first.may_be_forgotten || fenced::may_have_ended(job, first.job.fence, second.at) {
                continue;
            }
            let until = hidden_until(ledger, job, first, second.at);
            if second.at < until {
                let early = (until - second.at) / MILLI;
                return broken(3, format!("{} came to #{} and, {early} ms early, to #{}", job.id, first.op, second.op));
            }
        }
    }
    Ok(())
}

/// One delivery is given to one receive, or to all that bear one `attemptId`.
fn given_once(ledger: &Ledger<'_>) -> Verdict {
    let mut given: BTreeMap<&str, (usize, Option<u64>)> = BTreeMap::new();
    for (number, op) in ledger.ops.iter().enumerate() {
        let Request::Receive(receive) = op.request else { continue };
        let received = op.answers.iter().filter_map(|(_, answer)| match answer {
            Answer::Received(jobs) => Some(jobs),
            _ => None,
        });
        for job in received.flatten() {
            match given.insert(&job.receipt, (number, receive.attempt)) {
                Some((other, attempt)) if attempt.is_none() || attempt != receive.attempt => {
                    return broken(3, format!("#{other} and #{number} were given one delivery of {}", job.id));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// For so long receives under one `attemptId` are answered the same.
const ATTEMPT_KEPT: Micros = 300 * SECOND;

/// A receive that is asked again under its `attemptId` is given the same jobs, while none of them was settled or extended.
fn repeated(ledger: &Ledger<'_>) -> Verdict {
    let mut first: BTreeMap<(usize, u64), (usize, Micros, &[Delivery])> = BTreeMap::new();
    for (number, op) in ledger.ops.iter().enumerate() {
        let Request::Receive(receive) = op.request else { continue };
        let Some(attempt) = receive.attempt.filter(|_| !ledger.may_be_deleted((op.server, receive.queue))) else {
            continue;
        };
        for (at, answer) in &op.answers {
            let Answer::Received(jobs) = answer else { continue };
            let Some((earlier, told, same)) = first.get(&(op.server, attempt)) else {
                if !jobs.is_empty() {
                    first.insert((op.server, attempt), (number, *at, jobs));
                }
                continue;
            };
            let in_flight = |given: &Delivery| {
                let Some(job) = ledger.jobs.get(&given.id).filter(|job| !job.was_given_back) else { return false };
                let Some(hold) = job.holds.iter().find(|hold| hold.job.receipt == given.receipt) else { return false };
                !hold.may_be_forgotten
                    && job.cancels.is_empty()
                    && !job.said.iter().any(|said| said.what.fence == given.fence && said.sent <= *at)
                    && *at < hidden_until(ledger, job, hold, *at)
            };
            let is_fresh = op.sent < ledger.ops[*earlier].sent + ATTEMPT_KEPT && *told < op.sent;
            let is_same = same.iter().all(|given| jobs.iter().any(|job| job.receipt == given.receipt));
            if is_fresh && !is_same && ledger.clock_steps[op.server].is_empty() && same.iter().all(in_flight) {
                return broken(3, format!("#{earlier} was repeated by #{number} and given other jobs"));
            }
        }
    }
    Ok(())
}

/// The earliest end of a delivery, as far as clients can say at `by`.
pub(super) fn hidden_until(ledger: &Ledger<'_>, job: &Story<'_>, hold: &Hold<'_>, by: Micros) -> Micros {
    let extends = job
        .said
        .iter()
        .filter(|said| said.what.fence == hold.job.fence && said.sent <= by && !said.failed && !said.what.forged);
    let ends = extends.filter_map(|said| match said.what.outcome {
        Outcome::Extend { visibility_ms } => Some(said.sent + visibility_ms * MILLI),
        _ => None,
    });
    let until = ends.chain([hold.sent + hold.visibility]).min().unwrap_or(0);
    until.saturating_sub(CLOCK_GRAIN + ledger.hurried(job.server, hold.sent, until))
}
