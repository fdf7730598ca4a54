//! Promises 2 and 5 for jobs that go from their queue to another: not before they were received so often, not later,
//! there only, and for good.

use super::ledger::{Ledger, Story};
use super::{Verdict, broken};

pub(super) fn check(ledger: &Ledger<'_>) -> Verdict {
    for job in ledger.jobs.values().filter(|job| !ledger.may_be_deleted(job.place())) {
        stays_or_goes(ledger, job)?;
    }
    Ok(())
}

fn stays_or_goes(ledger: &Ledger<'_>, job: &Story<'_>) -> Verdict {
    let redrive = ledger.redrive(job.queue);
    let mut gone_by = None;
    // By fencing token, so in the order of the deliveries.
    for hold in &job.holds {
        let queue = ledger.ops[hold.op].queue();
        if queue != Some(job.queue) {
            if queue != redrive.map(|(target, _)| target) {
                return broken(2, format!("{} came to #{} from a queue that it is not for", job.id, hold.op));
            }
            gone_by = Some(hold.op);
            continue;
        }
        if let Some(op) = gone_by.filter(|_| !hold.may_be_forgotten) {
            return broken(2, format!("{} was handed off by #{op} and came back to #{}", job.id, hold.op));
        }
        let most = redrive.map_or(u32::MAX, |(_, max_receives)| max_receives);
        if hold.job.replays == 0 && hold.job.deliveries > most {
            let deliveries = hold.job.deliveries;
            return broken(5, format!("{} came to #{} as delivery {deliveries} of {most}", job.id, hold.op));
        }
    }
    match gone_by {
        Some(op) if job.last_queue == Some(job.queue) => {
            broken(2, format!("{} was handed off by #{op} and is in its first queue at the end", job.id))
        }
        _ => Ok(()),
    }
}
