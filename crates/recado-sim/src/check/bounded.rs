//! Promise 9: the depth of a queue, the log and the memory have limits, and a refusal has its reason.

use std::collections::BTreeMap;

use recado_core::{JOB_BYTES, JOB_GROWTH_BYTES_MAX, QUEUE_BYTES};

use super::ledger::{Ledger, NEVER, Story, drops};
use super::{Verdict, broken};
use crate::history::{Answer, Entry, Event};
use crate::payload;
use crate::script::{Micros, Request};

/// What is kept of an operator's act, whatever the limit says: the number of records has a limit of its own.
const RECORD_BYTES: u64 = 1_000;
/// What is kept of any other request beside its jobs: a settle, an attempt, a saved result.
const TRACE_BYTES: u64 = 200;
/// A group, with its places and its tokens.
const GROUP_BYTES: u64 = 700;

pub(super) fn check(ledger: &Ledger<'_>, history: &[Entry]) -> Verdict {
    depth(ledger)?;
    payloads(ledger)?;
    admitted(ledger)?;
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
        let may_shrink = |request: &Request| matches!(request, Request::Purge { .. } | Request::Delete { .. });
        if ledger.operated((op.server, enqueue.queue), may_shrink).next().is_some() {
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
            | Request::PutLimit { .. }
            | Request::RemoveLimit { .. }
            | Request::Cancel(_)
    )
}

/// No payload is larger than its queue allows.
fn payloads(ledger: &Ledger<'_>) -> Verdict {
    for job in ledger.jobs.values().filter(|job| !ledger.may_be_deleted(job.place())) {
        let Some(most) = ledger.setting(job.queue).payload_max else { continue };
        let bytes = payload::encode(job.spec.tag, job.spec.bytes).len() as u64;
        if bytes > most {
            return broken(9, format!("{} has a payload of {bytes} bytes, {most} are allowed", job.id));
        }
    }
    Ok(())
}

/// From when to when a job was surely kept: after its enqueue was answered, before anybody asked for its end.
fn stood(ledger: &Ledger<'_>, job: &Story<'_>) -> Option<(Micros, Micros)> {
    let may_vanish = job.spec.expires_ms.is_some()
        || job.spec.key.is_some()
        || !job.cancels.is_empty()
        || ledger.operated(job.place(), drops).next().is_some()
        || ledger.is_linked(job.queue);
    let ended = job.said.iter().filter(|said| said.is_ack()).map(|said| said.sent).min();
    (!may_vanish && job.made != NEVER).then(|| (job.made, ended.unwrap_or(NEVER)))
}

/// No job is taken while those that are there surely take all the memory.
fn admitted(ledger: &Ledger<'_>) -> Verdict {
    let memory_bytes = ledger.options.server.memory_bytes;
    // Nothing in a run comes near it.
    if memory_bytes >= 1 << 30 {
        return Ok(());
    }
    let jobs: Vec<_> = ledger.jobs.values().filter_map(|job| Some((job.server, stood(ledger, job)?))).collect();
    for (number, op) in ledger.ops.iter().enumerate() {
        let Request::Enqueue(_) = op.request else { continue };
        for (at, answer) in &op.answers {
            let Answer::Enqueued { jobs: made, saved: false, duplicate: false } = answer else { continue };
            let there = jobs.iter().filter(|(server, (from, to))| *server == op.server && *from < op.sent && at < to);
            let bytes = there.count() as u64 * JOB_BYTES as u64;
            if bytes >= memory_bytes && made.iter().any(|job| !job.is_duplicate) {
                return broken(9, format!("#{number} was taken with {bytes} bytes of {memory_bytes} in use"));
            }
        }
    }
    Ok(())
}

/// An idle server has trimmed its log, and none has taken more memory than it may. Its limit is one for producers:
/// what they were given room for may grow when it is handed out and fails, and some things are kept in any case.
fn sizes(ledger: &Ledger<'_>, history: &[Entry]) -> Verdict {
    let options = ledger.options;
    let memory_bytes = options.server.memory_bytes;
    // At the limit one more batch comes.
    let jobs = memory_bytes / JOB_BYTES as u64 + options.jobs.batch_max;
    let grown = jobs * (JOB_GROWTH_BYTES_MAX as u64 + TRACE_BYTES) + options.jobs.batch_max * JOB_BYTES as u64;
    let queues = options.queues.len() as u64 * (QUEUE_BYTES as u64 + (1 + options.jobs.groups) * GROUP_BYTES);
    for entry in history {
        let Event::Sizes { log_bytes, live_bytes, unit_bytes, memory_max_bytes, .. } = entry.what else { continue };
        if log_bytes > 2 * live_bytes + 2 * unit_bytes {
            return broken(9, format!("the log has {log_bytes} bytes for {live_bytes} live ones"));
        }
        let own = ledger.ops.iter().filter(|op| op.server == entry.server);
        let kept = own.map(|op| if leaves_a_record(op.request) { RECORD_BYTES } else { TRACE_BYTES });
        let allowed = memory_bytes + grown + queues + kept.sum::<u64>();
        if memory_max_bytes > allowed {
            return broken(9, format!("the state took {memory_max_bytes} bytes of memory, {allowed} are allowed"));
        }
    }
    Ok(())
}
