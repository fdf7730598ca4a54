//! Promise 5: attempts are counted, kept, and come to an end.

use recado_core::JobState;

use super::ledger::{Hold, Ledger, Story};
use super::{Verdict, broken, hidden};
use crate::script::{Micros, Outcome};

pub(super) fn check(ledger: &Ledger<'_>) -> Verdict {
    // What is handed off begins to count anew.
    let stays = |job: &&Story<'_>| ledger.redrive(job.queue).is_none();
    for job in ledger.jobs.values().filter(stays).filter(|job| !ledger.may_be_deleted(job.place())) {
        for (index, hold) in job.holds.iter().enumerate() {
            counted(job, &job.holds[..index], hold)?;
            bounded(ledger, job, hold)?;
            used(ledger, job, &job.holds[..index], (hold.job.replays, hold.job.attempts - 1))?;
        }
        if let Some(last) = job.last {
            used(ledger, job, &job.holds, (last.replays, last.attempts))?;
        }
        death(ledger, job)?;
    }
    Ok(())
}

/// An attempt that failed, as clients were told, is not forgotten.
fn counted(job: &Story<'_>, before: &[Hold<'_>], hold: &Hold<'_>) -> Verdict {
    let of_this_life = |other: &&Hold<'_>| {
        other.job.replays == hold.job.replays && other.job.fence < hold.job.fence && !other.may_be_forgotten
    };
    // A delivery that was forgotten overtook nobody: who had the job before it may still have failed after it.
    let came_first = |at: Micros| !hold.may_be_forgotten || at <= hold.at;
    let failed = before.iter().filter(of_this_life).filter(|other| {
        job.said.iter().any(|said| {
            said.what.fence == other.job.fence
                && said.counted()
                && said.taken_at().is_some_and(came_first)
                && matches!(said.what.outcome, Outcome::Fail { .. })
        })
    });
    let failed = failed.count() as u32;
    if hold.job.attempts < failed + 1 {
        let attempts = hold.job.attempts;
        return broken(5, format!("{} failed {failed} times and #{} calls it attempt {attempts}", job.id, hold.op));
    }
    let seen = before.iter().filter(of_this_life).count() as u32;
    if hold.job.deliveries < seen + 1 && !job.was_given_back {
        let deliveries = hold.job.deliveries;
        return broken(5, format!("{} came {seen} times and #{} calls it delivery {deliveries}", job.id, hold.op));
    }
    Ok(())
}

/// Only deliveries use attempts, and not those that were released: no job that is held back loses one.
fn used(ledger: &Ledger<'_>, job: &Story<'_>, holds: &[Hold<'_>], (replays, attempts): (u32, u32)) -> Verdict {
    let given = holds.iter().filter(|hold| hold.job.replays == replays);
    let settings = ledger.settings(job.place());
    let deliveries_max = settings.iter().map(|setting| setting.max_deliveries).min().unwrap_or(0);
    let is_released = |hold: &&Hold<'_>| {
        // What was handed out as often as it may be ends by that.
        let said = job.said.iter().filter(|_| hold.job.deliveries < deliveries_max && job.cancels.is_empty());
        let mut releases = said.filter(|said| {
            said.what.fence == hold.job.fence
                && said.counted()
                && matches!(said.what.outcome, Outcome::Release { .. })
                && said.taken_at().is_some_and(|at| at < hidden::hidden_until(ledger, job, hold, at))
        });
        releases.next().is_some()
    };
    let (count, released) = (given.clone().count(), given.filter(is_released).count());
    let most = (count - released) as u32 + ledger.unseen(job);
    if attempts > most && !ledger.misreads[job.server] {
        return broken(5, format!("{} has used {attempts} attempts by {most} deliveries", job.id));
    }
    Ok(())
}

fn bounded(ledger: &Ledger<'_>, job: &Story<'_>, hold: &Hold<'_>) -> Verdict {
    if hold.job.attempts > hold.job.deliveries {
        return broken(5, format!("{} had more attempts than deliveries at #{}", job.id, hold.op));
    }
    let setting = ledger.setting(job.queue);
    let attempts_max = job.spec.max_attempts.unwrap_or(setting.max_attempts);
    let is_fixed = !ledger.may_be_reconfigured(job.place());
    if is_fixed && hold.job.max_attempts != attempts_max {
        return broken(5, format!("{} has {} attempts, not {attempts_max}", job.id, hold.job.max_attempts));
    }
    // Deliveries are counted on over a replay, and each life has as many.
    let deliveries_max = setting.max_deliveries * (hold.job.replays + 1);
    if is_fixed && (hold.job.attempts > attempts_max || hold.job.deliveries > deliveries_max) {
        return broken(
            5,
            format!("#{} is attempt {} and delivery {} of {}", hold.op, hold.job.attempts, hold.job.deliveries, job.id),
        );
    }
    Ok(())
}

/// Who is dead has used up what it had, or failed for good, and its errors are kept.
fn death(ledger: &Ledger<'_>, job: &Story<'_>) -> Verdict {
    let Some(last) = job.last.filter(|last| last.state == JobState::Dead) else { return Ok(()) };
    let failed_for_good = job.said.iter().any(|said| {
        !said.failed && matches!(said.what.outcome, Outcome::Fail { retryable: false, .. }) && !said.what.forged
    });
    let setting = ledger.setting(job.queue);
    let is_spent = last.attempts >= last.max_attempts || last.deliveries >= setting.max_deliveries;
    if !is_spent && !failed_for_good && !ledger.may_be_reconfigured(job.place()) {
        return broken(5, format!("{} is dead after {} attempts of {}", job.id, last.attempts, last.max_attempts));
    }
    let told = job.said.iter().filter(|said| said.counted() && matches!(said.what.outcome, Outcome::Fail { .. }));
    if last.errors < told.count().clamp(1, 20) {
        return broken(5, format!("{} is dead and only {} of its errors are kept", job.id, last.errors));
    }
    Ok(())
}
