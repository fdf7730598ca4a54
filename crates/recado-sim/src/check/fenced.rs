//! Promise 4: a settle counts until it is overtaken, once, and "answered ok" and "ran again" never meet.

use recado_core::{Rejection, StaleReason};

use super::hidden::CLOCK_GRAIN;
use super::ledger::{Ledger, Said, Story};
use super::{Verdict, broken};
use crate::history::Answer;
use crate::options::MILLI;
use crate::script::{Outcome, Request};

pub(super) fn check(ledger: &Ledger<'_>) -> Verdict {
    for job in ledger.jobs.values() {
        for said in &job.said {
            genuine(said)?;
            not_overtaken(job, said)?;
            in_time(ledger, job, said)?;
            refused_for_a_reason(ledger, job, said)?;
        }
        once(job)?;
        never_again(job)?;
    }
    Ok(())
}

/// A receipt that this server did not make is worth nothing.
fn genuine(said: &Said<'_>) -> Verdict {
    match said.taken_at() {
        Some(_) if said.what.forged => broken(4, format!("#{} settled {} by a forged receipt", said.op, said.what.job)),
        _ => Ok(()),
    }
}

/// A settle of a delivery that a later one had overtaken, as clients saw, changes nothing.
fn not_overtaken(job: &Story<'_>, said: &Said<'_>) -> Verdict {
    let overtaking = job
        .holds
        .iter()
        .find(|hold| hold.job.fence > said.what.fence && hold.at <= said.sent && !hold.may_be_forgotten);
    match overtaking {
        Some(hold) if said.counted() => broken(
            4,
            format!("#{} settled {} as of {}, received again by #{}", said.op, job.id, said.what.fence, hold.op),
        ),
        _ => Ok(()),
    }
}

/// Of a FIFO queue's message no late settle counts; one that may be dead is settled like any other.
fn in_time(ledger: &Ledger<'_>, job: &Story<'_>, said: &Said<'_>) -> Verdict {
    let Request::Settle(settle) = ledger.ops[said.op].request else { return Ok(()) };
    let hold = job.holds.iter().find(|hold| hold.job.fence == settle.fence);
    let Some(hold) = hold.filter(|_| ledger.setting(settle.queue).fifo && said.counted()) else { return Ok(()) };
    let Request::Receive(receive) = ledger.ops[hold.op].request else { return Ok(()) };
    let settings = &ledger.options.queues[usize::from(settle.queue)];
    let deliveries_max = settings.iter().map(|setting| setting.max_deliveries).min().unwrap_or(0);
    // A queue that was configured since may leave it fewer attempts than it was told.
    let attempts_max = settings.iter().map(|setting| setting.max_attempts).min().unwrap_or(0);
    let may_be_dead =
        hold.job.attempts >= hold.job.max_attempts.min(attempts_max) || hold.job.deliveries >= deliveries_max;
    let longest_ms = settings.iter().map(|setting| setting.visibility_ms).max().unwrap_or(0);
    let until = hold.at + receive.visibility_ms.unwrap_or(longest_ms) * MILLI;
    let is_longer = job.said.iter().any(|other| other.is_extend() && other.what.fence == settle.fence)
        || receive.attempt.is_some()
        || ledger.died(job.server, hold.sent, said.sent)
        || !ledger.clock_steps[job.server].is_empty();
    if said.sent > until + CLOCK_GRAIN && !is_longer && !may_be_dead && !ledger.may_be_deleted(job.place()) {
        let late = (said.sent - until) / MILLI;
        return broken(4, format!("#{} counted for {} of a FIFO queue, {late} ms late", said.op, job.id));
    }
    Ok(())
}

fn refused_for_a_reason(ledger: &Ledger<'_>, job: &Story<'_>, said: &Said<'_>) -> Verdict {
    if said.what.forged || ledger.may_be_deleted(job.place()) {
        return Ok(());
    }
    for (_, answer) in &said.answers {
        let Answer::Refused(Rejection::Stale { reason, .. }) = answer else { continue };
        let has_reason = match reason {
            StaleReason::Cancelled => !job.cancels.is_empty(),
            StaleReason::Expired => job.spec.expires_ms.is_some(),
            StaleReason::Replayed => ledger.may_be_replayed(job, job.sent),
            StaleReason::KeyTaken => job.spec.key.is_some(),
            StaleReason::Replaced => job.spec.dedup.is_some(),
            // Which of two reasons a job is gone for is told by the wall clock.
            StaleReason::Purged => ledger.may_be_dropped(job) || ledger.was_set_back(job.server),
            StaleReason::Forwarded => ledger.redrive(job.queue).is_some(),
            StaleReason::Forged => false,
            StaleReason::ReceivedAgain | StaleReason::Settled | StaleReason::Lapsed | StaleReason::Dead => true,
        };
        if !has_reason {
            return broken(4, format!("#{} of {} is refused as {reason}, which did not happen", said.op, job.id));
        }
    }
    Ok(())
}

/// One delivery has one outcome; the same again is told apart.
fn once(job: &Story<'_>) -> Verdict {
    let ends = |said: &&Said<'_>| said.counted() && !said.is_extend();
    for (index, said) in job.said.iter().enumerate().filter(|(_, said)| ends(said)) {
        let is_same = |other: &&Said<'_>| ends(other) && other.what.receipt == said.what.receipt;
        let counts = said.answers.iter().filter(|(_, answer)| matches!(answer, Answer::Settled { repeated: false }));
        if counts.count() > 1 {
            return broken(4, format!("both copies of #{} counted for {}", said.op, job.id));
        }
        if let Some(other) = job.said[index + 1..].iter().find(is_same) {
            return broken(4, format!("#{} and #{} both counted for one delivery of {}", said.op, other.op, job.id));
        }
    }
    Ok(())
}

/// A job that was acked is not handed out any more. The fencing token tells the order, so no clock is asked.
fn never_again(job: &Story<'_>) -> Verdict {
    let acked = job.said.iter().filter(|said| said.is_ack() && said.taken_at().is_some());
    for said in acked {
        let again = job.holds.iter().find(|hold| hold.job.fence > said.what.fence && !hold.may_be_forgotten);
        if let Some(hold) = again {
            return broken(4, format!("{} was acked by #{} and ran again by #{}", job.id, said.op, hold.op));
        }
    }
    Ok(())
}

/// Whether some request was a settle that could have ended this delivery before `by`.
pub(super) fn may_have_ended(job: &Story<'_>, fence: u64, by: u64) -> bool {
    job.said.iter().any(|said| {
        let ends = !matches!(said.what.outcome, Outcome::Extend { .. });
        ends && said.what.fence == fence && said.sent <= by && !said.failed && !said.what.forged
    })
}
