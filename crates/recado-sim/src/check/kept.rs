//! Promises 1, 2 and 7: what was accepted is there, what was answered stays so, nothing waits for ever, and the
//! dead stay where they are until an operator says otherwise.

use std::collections::BTreeSet;

use recado_core::{JobId, JobState};

use super::ledger::{Ledger, NEVER, Op, Story, drops};
use super::{Verdict, broken};
use crate::history::{Answer, Entry, Event, Listed};
use crate::options::{COOL_DOWN_MS_MAX, MILLI};
use crate::plan::CALM_TAG;
use crate::script::{Enqueue, Outcome, Request};

/// What can be received is, by a worker that waits in calm, after so long.
const PROMPT_MS: u64 = 2_500;

/// A sound disk never keeps a server from starting.
pub(super) fn starts(ledger: &Ledger<'_>, history: &[Entry]) -> Verdict {
    let mut is_calm = false;
    for entry in history {
        match &entry.what {
            Event::Calm => is_calm = true,
            Event::NotStarted { reason, is_corrupt } if *is_corrupt || is_calm => {
                return broken(1, format!("server {} does not start: {reason}", entry.server));
            }
            Event::Sizes { unreadable, .. } if *unreadable > 0 && !ledger.misreads[entry.server] => {
                return broken(1, format!("server {} could not read {unreadable} of its bytes", entry.server));
            }
            _ => {}
        }
    }
    Ok(())
}

pub(super) fn check(ledger: &Ledger<'_>) -> Verdict {
    drained(ledger)?;
    for job in ledger.jobs.values() {
        intact(ledger, job)?;
        there(ledger, job)?;
        justified(ledger, job)?;
        answered(ledger, job)?;
    }
    named(ledger)?;
    overlooked(ledger)?;
    prompt(ledger)
}

/// A job that an enqueue was told to be a duplicate of was durable when that was told.
fn named(ledger: &Ledger<'_>) -> Verdict {
    let last = ledger.ops.iter().filter(|op| op.sent > ledger.drained).flat_map(|op| &op.answers);
    let listed = last.filter_map(|(_, answer)| if let Answer::Jobs(jobs) = answer { Some(jobs) } else { None });
    let listed: BTreeSet<JobId> = listed.flatten().map(|job| job.id).collect();
    for (number, op) in ledger.ops.iter().enumerate() {
        let Request::Enqueue(enqueue) = op.request else { continue };
        let place = (op.server, enqueue.queue);
        if ledger.forgets(place) || ledger.places(place).any(|place| ledger.operated(place, drops).next().is_some()) {
            continue;
        }
        let made = op.answers.iter().filter_map(|(_, answer)| match answer {
            Answer::Enqueued { jobs, .. } => Some(jobs),
            _ => None,
        });
        if let Some(made) = made.flatten().find(|made| !listed.contains(&made.id)) {
            return broken(1, format!("#{number} was told of {}, which is not there", made.id));
        }
    }
    Ok(())
}

/// The end was reached and everything could be listed.
fn drained(ledger: &Ledger<'_>) -> Verdict {
    if ledger.drained == NEVER {
        return broken(2, "jobs still wait after half an hour of calm".into());
    }
    let lists = ledger.ops.iter().filter(|op| op.sent > ledger.drained && matches!(op.request, Request::List { .. }));
    let unanswered = lists.into_iter().find(|op| !matches!(op.answers.first(), Some((_, Answer::Jobs(_)))));
    if let Some(op) = unanswered {
        return broken(1, format!("server {} cannot list its jobs at the end: {:?}", op.server, op.answers));
    }
    let all = ledger.ops.iter().filter(|op| op.sent > ledger.drained).flat_map(|op| &op.answers);
    let listed = all.filter_map(|(_, answer)| if let Answer::Jobs(jobs) = answer { Some(jobs) } else { None });
    let open = listed.flatten().find(|job| job.state.is_waiting() || job.state == JobState::InFlight);
    match open {
        Some(job) => broken(2, format!("{} is still {} at the end", job.id, job.state)),
        None => Ok(()),
    }
}

/// Its payload is one that a producer gave it.
fn intact(ledger: &Ledger<'_>, job: &Story<'_>) -> Verdict {
    let replaces = ledger.ops.iter().filter(|op| op.server == job.server).filter_map(|op| match op.request {
        Request::Enqueue(enqueue) if enqueue.queue == job.queue => Some(&enqueue.jobs),
        _ => None,
    });
    let key = job.spec.dedup.map(|dedup| dedup.key);
    let given = |tag: Option<u32>| {
        tag == Some(job.spec.tag)
            || replaces
                .clone()
                .flatten()
                .any(|other| Some(other.tag) == tag && key.is_some() && other.dedup.map(|dedup| dedup.key) == key)
    };
    round(ledger, job)?;
    let seen = job.holds.iter().map(|hold| hold.job.tag).chain(job.last.map(|last| last.tag));
    for tag in seen {
        if !given(tag) {
            return broken(1, format!("{} was enqueued with tag {} and has {tag:?}", job.id, job.spec.tag));
        }
    }
    Ok(())
}

/// A replay that changes payloads has changed it, and nothing else has.
fn round(ledger: &Ledger<'_>, job: &Story<'_>) -> Verdict {
    let is_replay = |request: &Request| matches!(request, Request::Replay { .. });
    let replays = || ledger.places(job.place()).flat_map(|place| ledger.operated(place, is_replay));
    let patches = |op: &Op<'_>| if let Request::Replay { patch, .. } = op.request { *patch } else { None };
    let seen = job.holds.iter().map(|hold| (hold.job.replays, hold.job.round));
    for (count, round) in seen.chain(job.last.map(|last| (last.replays, last.round))) {
        let is_asked = match round {
            Some(_) => count > 0 && replays().any(|op| patches(op) == round),
            None => count == 0 || job.spec.dedup.is_some() || replays().any(|op| patches(op).is_none()),
        };
        if !is_asked {
            return broken(1, format!("{} was replayed {count} times and shows the round {round:?}", job.id));
        }
    }
    Ok(())
}

fn there(ledger: &Ledger<'_>, job: &Story<'_>) -> Verdict {
    let may_be_gone = ledger.may_be_dropped(job) || (ledger.forgets(job.place()) && job.may_have_ended());
    match job.last {
        None if !may_be_gone => broken(2, format!("{} has disappeared", job.id)),
        _ => Ok(()),
    }
}

/// It ended by something that was asked for.
fn justified(ledger: &Ledger<'_>, job: &Story<'_>) -> Verdict {
    let Some(last) = job.last else { return Ok(()) };
    let is_just = match last.state {
        JobState::Completed => {
            let by_key = || ledger.acked_by_key(job).next().is_some() || ledger.has_unknown_acks(job.place());
            job.may_be_acked() || (job.spec.key.is_some() && (by_key() || ledger.is_linked(job.queue)))
        }
        JobState::Cancelled => !job.cancels.is_empty(),
        JobState::Expired => job.spec.expires_ms.is_some(),
        _ => true,
    };
    if is_just { Ok(()) } else { broken(2, format!("{} is {} and nobody asked for it", job.id, last.state)) }
}

/// What a settle was answered with is so at the end.
fn answered(ledger: &Ledger<'_>, job: &Story<'_>) -> Verdict {
    for said in job.said.iter().filter(|said| said.counted()) {
        let Some(last) = job.last else { continue };
        match said.what.outcome {
            Outcome::Ack { .. } if last.state != JobState::Completed => {
                return broken(1, format!("{} was acked by #{} and is {}", job.id, said.op, last.state));
            }
            Outcome::Fail { retryable: false, .. }
                if last.state != JobState::Dead
                    && job.cancels.is_empty()
                    && ledger.redrive(job.queue).is_none()
                    && !ledger.may_be_replayed(job, said.sent)
                    && !ledger.may_be_deleted(job.place()) =>
            {
                return broken(7, format!("{} died by #{} and is {}", job.id, said.op, last.state));
            }
            _ => {}
        }
    }
    Ok(())
}

/// In calm the worker that waits for a job with a delay gets it when it is due.
fn prompt(ledger: &Ledger<'_>) -> Verdict {
    for (number, op) in ledger.ops.iter().enumerate() {
        let Request::Enqueue(Enqueue { jobs: specs, .. }) = op.request else { continue };
        if specs.iter().all(|spec| spec.tag < CALM_TAG) {
            continue;
        }
        let [(made, Answer::Enqueued { jobs, .. })] = op.answers[..] else { continue };
        let Some(receive) = ledger.ops[number + 1..].iter().find(|later| later.server == op.server) else { continue };
        let [(at, Answer::Received(received))] = receive.answers[..] else { continue };
        let delay_ms = specs.iter().filter_map(|spec| spec.delay_ms).max().unwrap_or(0);
        // What timed out last may have opened a breaker.
        let setting = ledger.setting(op.queue().unwrap_or(0));
        let may_be_open = setting.breaker.is_some() || !setting.limits.is_empty();
        let delay_ms = if may_be_open { delay_ms.max(COOL_DOWN_MS_MAX) } else { delay_ms };
        let is_late = at > made + (delay_ms + PROMPT_MS) * MILLI;
        if let Some(job) = jobs.iter().find(|job| is_late || received.iter().all(|delivery| delivery.id != job.id)) {
            return broken(
                2,
                format!("{} was due {delay_ms} ms after #{number}, and a waiting worker did not get it", job.id),
            );
        }
    }
    Ok(())
}

/// In calm no job that nothing holds back waits while a worker does.
fn overlooked(ledger: &Ledger<'_>) -> Verdict {
    for (number, list) in ledger.ops.iter().enumerate().filter(|(_, op)| op.sent > ledger.calm) {
        let is_receive = |op: &&Op<'_>| {
            matches!(op.request, Request::Receive(_)) && (op.server, op.queue()) == (list.server, list.queue())
        };
        let Some(last) = ledger.ops[..number].iter().rev().find(is_receive) else { continue };
        let Some((_, Answer::Jobs(jobs))) = list.answers.first() else { continue };
        let has_waited = match last.answers.first() {
            Some((at, Answer::Received(jobs))) => jobs.is_empty() && at - last.sent > 2 * PROMPT_MS * MILLI,
            _ => false,
        };
        let is_free = |id: &JobId| {
            let is_plain = |job: &Story<'_>| {
                // What could not be read is hidden for a while, in its old place.
                job.spec.group.is_none() && job.spec.key.is_none() && !job.was_given_back
            };
            // What is held until somebody else ends, or until a breaker is half open, may be free since just now.
            let place = (list.server, list.queue().unwrap_or(0));
            let setting = ledger.setting(place.1);
            // A queue that was made anew hides what it hands out for longer, which may have ended just now.
            let is_held = ledger.may_be_deleted(place)
                || setting.in_flight.is_some()
                || setting.breaker.is_some()
                || !setting.limits.is_empty();
            ledger.jobs.get(id).is_some_and(is_plain) && !is_held
        };
        let late = |job: &&Listed| job.ready_for_ms.is_some_and(|ms| ms > PROMPT_MS) && is_free(&job.id);
        if let Some(job) = jobs.iter().find(late).filter(|_| has_waited) {
            let ms = job.ready_for_ms.unwrap_or(0);
            return broken(2, format!("{} was ready for {ms} ms and a waiting worker did not get it", job.id));
        }
    }
    Ok(())
}
