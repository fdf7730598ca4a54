//! The table of keys: two enqueues with one deduplication key make one job while its window is open, and a new
//! one afterwards; a producer's batch and a request are taken once.

use std::collections::BTreeMap;

use recado_core::{JobId, OnDuplicate};

use super::ledger::{Ledger, NEVER, Story};
use super::{Rule, Verdict, Violation};
use crate::history::Answer;
use crate::script::Request;

pub(super) fn check(ledger: &Ledger<'_>) -> Verdict {
    windows(ledger)?;
    duplicates(ledger)?;
    batches(ledger)
}

/// Jobs that were made under one key, in their order.
fn windows(ledger: &Ledger<'_>) -> Verdict {
    let mut by_key: BTreeMap<(usize, u8, u8), Vec<&Story<'_>>> = BTreeMap::new();
    for job in ledger.jobs.values().filter(|job| !ledger.may_be_deleted(job.place()) && job.made != NEVER) {
        if let Some(dedup) = job.spec.dedup {
            by_key.entry((job.server, job.queue, dedup.key)).or_default().push(job);
        }
    }
    // A purge of a FIFO queue forgets its windows, as the service does.
    let purges = |request: &Request| matches!(request, Request::Purge { .. });
    let forgets = |place: (usize, u8)| ledger.setting(place.1).fifo && ledger.operated(place, purges).next().is_some();
    by_key.retain(|(server, queue, key), _| {
        let place = (*server, *queue);
        !may_be_taken_over(ledger, place, *key) && !forgets(place)
    });
    for jobs in by_key.values_mut() {
        jobs.sort_by_key(|job| job.id.seq());
        for pair in jobs.windows(2) {
            let [first, second] = pair else { continue };
            let Some(for_ms) = first.spec.dedup.and_then(|dedup| dedup.for_ms) else { continue };
            let is_open = second.id.enqueued_at() < first.id.enqueued_at() + for_ms;
            if is_open && !second.is_behind && !ledger.was_set_back(first.server) {
                return misused(format!("{} was made while {} held their key", second.id, first.id));
            }
        }
    }
    Ok(())
}

/// A job that nobody was told of may have taken the key of one in flight.
fn may_be_taken_over(ledger: &Ledger<'_>, place: (usize, u8), key: u8) -> bool {
    ledger.ops.iter().filter(|op| op.over() == NEVER && op.server == place.0).any(|op| match op.request {
        Request::Enqueue(enqueue) if enqueue.queue == place.1 => enqueue
            .jobs
            .iter()
            .any(|job| job.dedup.is_some_and(|dedup| dedup.key == key && dedup.on_duplicate == OnDuplicate::Replace)),
        _ => false,
    })
}

/// What is told to be a duplicate is one. A new job in the same batch tells when that was decided.
fn duplicates(ledger: &Ledger<'_>) -> Verdict {
    for (number, op) in ledger.ops.iter().enumerate() {
        let Request::Enqueue(enqueue) = op.request else { continue };
        for (_, answer) in &op.answers {
            let Answer::Enqueued { jobs, saved: false, .. } = answer else { continue };
            let Some(decided_at) = jobs.iter().find(|job| !job.is_duplicate).map(|job| job.id.enqueued_at()) else {
                continue;
            };
            let is_own = |id: JobId| jobs.iter().any(|job| job.id == id && !job.is_duplicate);
            for made in jobs.iter().filter(|job| job.is_duplicate && !is_own(job.id)) {
                let Some(first) = ledger.jobs.get(&made.id) else { continue };
                let Some(for_ms) = first.spec.dedup.and_then(|dedup| dedup.for_ms) else { continue };
                if decided_at >= first.id.enqueued_at() + for_ms && !ledger.was_set_back(op.server) {
                    let id = first.id;
                    return misused(format!(
                        "#{number} of {} is a duplicate of {id}, whose window was over",
                        enqueue.queue
                    ));
                }
            }
        }
    }
    Ok(())
}

/// A batch with a producer's number, or a request with a key, makes its jobs once, however often it comes.
fn batches(ledger: &Ledger<'_>) -> Verdict {
    let mut made: BTreeMap<(usize, u32), Vec<JobId>> = BTreeMap::new();
    for job in ledger.jobs.values().filter(|job| !ledger.may_be_deleted(job.place())) {
        made.entry((job.server, job.spec.tag)).or_default().push(job.id);
    }
    let jumped = |server: usize| ledger.clock_steps[server].iter().any(|(_, ms)| ms.abs() > 60_000);
    for op in &ledger.ops {
        let Request::Enqueue(enqueue) = op.request else { continue };
        let is_once = enqueue.producer.is_some() || (enqueue.request.is_some() && !jumped(op.server));
        for job in enqueue.jobs.iter().filter(|_| is_once) {
            if let Some([one, other, ..]) = made.get(&(op.server, job.tag)).map(Vec::as_slice) {
                return misused(format!("job {} was made twice: {one} and {other}", job.tag));
            }
        }
    }
    Ok(())
}

fn misused(what: String) -> Verdict {
    Err(Violation { rule: Rule::Keys, what })
}
