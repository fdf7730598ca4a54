//! Promise 3: a job in flight is hidden until its visibility timeout passes or it is given back.

use super::ledger::{Hold, Ledger, Story};
use super::{Verdict, broken, fenced};
use crate::options::MILLI;
use crate::script::{Micros, Outcome};

/// The servers count in whole milliseconds.
const CLOCK_GRAIN: Micros = MILLI;

pub(super) fn check(ledger: &Ledger<'_>) -> Verdict {
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
