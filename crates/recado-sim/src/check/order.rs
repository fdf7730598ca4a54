//! Promise 10: first in, first out, within one priority and group; strictly within an ordered group. The order of
//! deliveries is that of their fencing tokens.

use std::collections::BTreeMap;

use super::ledger::{Hold, Ledger, NEVER, Story};
use super::{Verdict, broken};
use crate::script::Request;

pub(super) fn check(ledger: &Ledger<'_>) -> Verdict {
    let mut lines: BTreeMap<(usize, u8, Option<u8>), Vec<&Story<'_>>> = BTreeMap::new();
    for job in ledger.jobs.values().filter(|job| !ledger.may_be_deleted(job.place())) {
        priority_kept(job)?;
        let is_plain = job.spec.delay_ms.is_none()
            && job.patches.is_empty()
            && job.spec.dedup.is_none()
            && !job.was_given_back
            && job.made != NEVER;
        if is_plain {
            lines.entry((job.server, job.queue, job.spec.group)).or_default().push(job);
        }
    }
    for line in lines.values() {
        for later in line {
            for earlier in line.iter().filter(|earlier| is_before(earlier, later)) {
                in_turn(ledger, earlier, later)?;
            }
        }
    }
    Ok(())
}

fn priority_kept(job: &Story<'_>) -> Verdict {
    let other = job.holds.iter().find(|hold| hold.job.priority != job.spec.priority);
    match other {
        Some(hold) if job.patches.is_empty() => broken(
            10,
            format!(
                "{} has priority {} and came to #{} with {}",
                job.id, job.spec.priority, hold.op, hold.job.priority
            ),
        ),
        _ => Ok(()),
    }
}

/// Its producer was answered before the other was sent, or it stands before it in one batch.
fn is_before(earlier: &Story<'_>, later: &Story<'_>) -> bool {
    earlier.made < later.sent
        || (earlier.id.seq() < later.id.seq() && earlier.sent == later.sent && earlier.index < later.index)
}

fn in_turn(ledger: &Ledger<'_>, earlier: &Story<'_>, later: &Story<'_>) -> Verdict {
    let Some(overtaking) = ledger.first(later).filter(|hold| !hold.may_be_forgotten) else { return Ok(()) };
    let setting = ledger.setting(earlier.queue);
    let is_ordered = setting.ordered && earlier.spec.group.is_some();
    let late = if is_ordered && setting.fifo {
        // One receive may have taken both.
        ledger.first(earlier)
    } else if is_ordered {
        // Also a retry holds up the group, until its job has ended or is handed off.
        let is_here = |hold: &&Hold<'_>| ledger.ops[hold.op].queue() == Some(earlier.queue);
        earlier.holds.iter().rev().filter(is_here).find(|hold| hold.job.replays == 0)
    } else {
        let is_comparable = earlier.spec.priority == later.spec.priority
            && earlier.spec.key.is_none()
            && takes_all(ledger, overtaking.op);
        ledger.first(earlier).filter(|_| is_comparable)
    };
    match late {
        Some(hold) if hold.job.fence > overtaking.job.fence => broken(
            10,
            format!("{} came to #{} before {}, which came to #{}", later.id, overtaking.op, earlier.id, hold.op),
        ),
        _ => Ok(()),
    }
}

/// The receive was for jobs of any type.
fn takes_all(ledger: &Ledger<'_>, op: usize) -> bool {
    matches!(ledger.ops[op].request, Request::Receive(receive) if receive.kind.is_none())
}
