//! Promise 8: of an enqueue every job is in or none is, and a refused one leaves nothing.

use std::collections::BTreeMap;

use super::ledger::{Ledger, Story, drops};
use super::{Verdict, broken};
use crate::script::Request;

pub(super) fn check(ledger: &Ledger<'_>) -> Verdict {
    let mut by_tag: BTreeMap<(usize, u32), Vec<&Story<'_>>> = BTreeMap::new();
    for job in ledger.jobs.values() {
        by_tag.entry((job.server, job.spec.tag)).or_default().push(job);
    }
    // Of each batch, all requests that carry it.
    let mut batches: BTreeMap<(usize, u32), Vec<usize>> = BTreeMap::new();
    for (number, op) in ledger.ops.iter().enumerate() {
        if let Request::Enqueue(enqueue) = op.request
            && let Some(first) = enqueue.jobs.first()
        {
            batches.entry((op.server, first.tag)).or_default().push(number);
        }
    }
    for ops in batches.values() {
        let Some(op) = ops.first().map(|op| &ledger.ops[*op]) else { continue };
        let Request::Enqueue(enqueue) = op.request else { continue };
        let seen = |tag: u32| by_tag.contains_key(&(op.server, tag));
        if ops.iter().all(|op| ledger.ops[*op].failed())
            && let Some(job) = enqueue.jobs.iter().find(|job| seen(job.tag))
        {
            return broken(8, format!("#{} was refused, and its job {} is there", ops[0], job.tag));
        }
        let place = (op.server, enqueue.queue);
        let may_be_dropped = ledger.operated(place, drops).next().is_some();
        let can_tell = !may_be_dropped && !ledger.forgets(place);
        let is_plain = enqueue.jobs.iter().all(|job| job.dedup.is_none());
        let missing = enqueue.jobs.iter().find(|job| !seen(job.tag));
        let present = enqueue.jobs.iter().find(|job| seen(job.tag));
        if let (Some(missing), Some(present), true) = (missing, present, can_tell && is_plain) {
            return broken(
                8,
                format!("of batch #{} job {} is there and job {} is not", ops[0], present.tag, missing.tag),
            );
        }
    }
    Ok(())
}
