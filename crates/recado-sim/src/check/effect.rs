//! Promise 6: two jobs with one idempotency key are never in flight together, and have one effect.

use std::collections::BTreeMap;

use recado_core::JobState;

use super::ledger::{Hold, Ledger, Said, Story};
use super::{Verdict, broken, hidden};
use crate::script::{Micros, Request};

pub(super) fn check(ledger: &Ledger<'_>) -> Verdict {
    let mut by_key: BTreeMap<(usize, u8, u8), Vec<&Story<'_>>> = BTreeMap::new();
    // The same key in another queue is another key.
    let stays = |job: &&Story<'_>| !ledger.is_linked(job.queue);
    for job in ledger.jobs.values().filter(stays).filter(|job| !ledger.may_be_deleted(job.place())) {
        if let Some(key) = job.spec.key {
            by_key.entry((job.server, job.queue, key)).or_default().push(job);
        }
    }
    for jobs in by_key.values() {
        apart(ledger, jobs)?;
        once(ledger, jobs)?;
    }
    Ok(())
}

/// From when to when a delivery was surely in flight.
pub(super) fn in_flight<'j>(ledger: &Ledger<'_>, job: &'j Story<'_>) -> Vec<(Micros, Micros, &'j Hold<'j>)> {
    let holds = job.holds.iter().filter(|hold| !hold.may_be_forgotten && !job.was_given_back);
    let spans = holds.map(|hold| {
        let until = hidden::hidden_until(ledger, job, hold, Micros::MAX);
        let ended = job.said.iter().filter(|said| said.what.fence == hold.job.fence && !said.is_extend());
        let ended = ended.map(|said| said.sent).min().unwrap_or(Micros::MAX);
        (hold.at, until.min(ended), hold)
    });
    spans.collect()
}

fn apart(ledger: &Ledger<'_>, jobs: &[&Story<'_>]) -> Verdict {
    let spans = jobs.iter().flat_map(|job| in_flight(ledger, job));
    let mut spans: Vec<(Micros, Micros, usize)> = spans.map(|(from, to, hold)| (from, to, hold.op)).collect();
    spans.retain(|(from, to, _)| from < to);
    spans.sort_unstable();
    for (index, (_, to, op)) in spans.iter().enumerate() {
        let other = spans[index + 1..].iter().find(|(from, _, other)| from < to && other != op);
        if let Some((_, _, other)) = other {
            return broken(6, format!("jobs of one key were in flight together by #{op} and #{other}"));
        }
    }
    Ok(())
}

/// One of the jobs was done; the others were completed by its result.
fn once(ledger: &Ledger<'_>, jobs: &[&Story<'_>]) -> Verdict {
    let Some(first) = jobs.first() else { return Ok(()) };
    let ignores = |request: &Request| matches!(request, Request::Replay { ignore_key: true, .. });
    let keeps = ledger.setting(first.queue).key_keep_ms >= 3_600_000 && ledger.options.server.memory_bytes >= 1 << 30;
    if !keeps || ledger.operated(first.place(), ignores).next().is_some() {
        return Ok(());
    }
    let acks: Vec<&Said<'_>> = jobs.iter().flat_map(|job| &job.said).filter(|said| is_effect(said)).collect();
    if let [one, other, ..] = acks[..] {
        return broken(6, format!("#{} and #{} were both the effect of one key", one.op, other.op));
    }
    let Some(effect) = acks.first().filter(|_| !ledger.has_unknown_acks(first.place())) else { return Ok(()) };
    let with_result = matches!(effect.what.outcome, crate::script::Outcome::Ack { with_result: true });
    let saved = with_result.then(|| effect.what.result());
    for job in jobs {
        if let Some(last) = job.last.filter(|last| last.state == JobState::Completed)
            && last.result.as_deref() != saved.as_deref()
        {
            let result = &last.result;
            return broken(6, format!("{} has the result {result:?}, #{} saved {saved:?}", job.id, effect.op));
        }
    }
    Ok(())
}

fn is_effect(said: &&Said<'_>) -> bool {
    said.is_ack() && said.counted()
}
