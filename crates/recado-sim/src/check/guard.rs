//! Promise 6 for work under a key: one holder at a time, one effect, and the result of that for everyone who asks.

use std::collections::BTreeMap;

use recado_shard::Once;

use super::hidden::CLOCK_GRAIN;
use super::ledger::{Ledger, Op};
use super::{Verdict, broken};
use crate::history::Answer;
use crate::options::MILLI;
use crate::script::{Begin, GuardUse, Micros, Request, Use};

/// A begin that was answered with a token.
struct Grant<'a> {
    op: usize,
    sent: Micros,
    at: Micros,
    begin: &'a Begin,
    token: &'a str,
}

/// All that was asked under one key.
#[derive(Default)]
struct Key<'a> {
    begins: Vec<usize>,
    grants: Vec<Grant<'a>>,
    uses: Vec<(usize, &'a GuardUse)>,
}

pub(super) fn check(ledger: &Ledger<'_>) -> Verdict {
    let mut keys: BTreeMap<(usize, u8, u64), Key<'_>> = BTreeMap::new();
    for (number, op) in ledger.ops.iter().enumerate() {
        match op.request {
            Request::Begin(begin) => {
                let key = keys.entry((op.server, begin.queue, begin.key)).or_default();
                key.begins.push(number);
                key.grants.extend(op.answers.iter().filter_map(|(at, answer)| match answer {
                    Answer::Begun(Once::New(token)) => Some(Grant { op: number, sent: op.sent, at: *at, begin, token }),
                    _ => None,
                }));
            }
            Request::Guard(wanted) => {
                keys.entry((op.server, wanted.queue, wanted.key)).or_default().uses.push((number, wanted));
            }
            _ => {}
        }
    }
    for ((server, queue, _), key) in &keys {
        if !ledger.may_be_deleted((*server, *queue)) {
            alone(ledger, key)?;
            repeated(ledger, key)?;
            in_hand(ledger, key)?;
            fenced(ledger, key)?;
            kept(ledger, key)?;
        }
    }
    Ok(())
}

fn counts(op: &Op<'_>) -> usize {
    op.answers.iter().filter(|(_, answer)| matches!(answer, Answer::Guarded { repeated: false })).count()
}

impl Key<'_> {
    /// What a grant surely holds the key for, as far as clients can say at `by`; zero when it may have ended.
    fn held_until(&self, ledger: &Ledger<'_>, grant: &Grant<'_>, by: Micros) -> Micros {
        let own = self.uses.iter().filter(|(_, wanted)| *wanted.token == *grant.token);
        let own = own.map(|(number, wanted)| (&ledger.ops[*number], wanted));
        let own = own.filter(|(op, _)| !op.failed() && op.sent <= by);
        let ends = own.map(|(op, wanted)| match wanted.what {
            Use::Extend { hold_ms } => op.sent + hold_ms * MILLI,
            Use::Complete | Use::Abort => 0,
        });
        let until = ends.chain([grant.sent + grant.begin.hold_ms * MILLI]).min().unwrap_or(0);
        until.saturating_sub(CLOCK_GRAIN + ledger.hurried(ledger.ops[grant.op].server, grant.sent, until))
    }
}

/// Nobody begins while another holds the key.
fn alone(ledger: &Ledger<'_>, key: &Key<'_>) -> Verdict {
    for first in &key.grants {
        let others = key.grants.iter().filter(|second| first.at < second.sent && first.token != second.token);
        for second in others {
            if second.at < key.held_until(ledger, first, second.at) {
                return broken(6, format!("#{} and #{} had one key at one time", first.op, second.op));
            }
        }
    }
    Ok(())
}

/// Who begins again under an `attemptId` is still the holder.
fn repeated(ledger: &Ledger<'_>, key: &Key<'_>) -> Verdict {
    for first in key.grants.iter().filter(|first| first.begin.attempt.is_some()) {
        for number in &key.begins {
            let op = &ledger.ops[*number];
            let is_same = matches!(op.request, Request::Begin(begin) if begin.attempt == first.begin.attempt);
            for (at, answer) in op.answers.iter().filter(|_| is_same && first.at < op.sent) {
                let Answer::Begun(begun) = answer else { continue };
                let is_holder = matches!(begun, Once::New(token) if **token == *first.token);
                if !is_holder && *at < key.held_until(ledger, first, *at) {
                    return broken(6, format!("#{} was begun again by #{number} and told {begun:?}", first.op));
                }
            }
        }
    }
    Ok(())
}

/// Work on a job is begun by who has it.
fn in_hand(ledger: &Ledger<'_>, key: &Key<'_>) -> Verdict {
    for grant in &key.grants {
        let Some(of) = &grant.begin.of else { continue };
        let Some(job) = ledger.jobs.get(&of.job) else { continue };
        let mut later = job.holds.iter().filter(|hold| hold.job.fence > of.fence && !hold.may_be_forgotten);
        if let Some(hold) = later.find(|hold| hold.at <= grant.sent) {
            return broken(4, format!("#{} began work on {}, received again by #{}", grant.op, of.job, hold.op));
        }
        let mut ended = job.said.iter().filter(|said| said.what.fence == of.fence && !said.is_extend());
        if let Some(said) = ended.find(|said| said.taken_at().is_some_and(|at| at <= grant.sent)) {
            return broken(4, format!("#{} began work on {}, settled by #{}", grant.op, of.job, said.op));
        }
    }
    Ok(())
}

/// Only the last holder's word counts, once.
fn fenced(ledger: &Ledger<'_>, key: &Key<'_>) -> Verdict {
    let mut completed: BTreeMap<&str, usize> = BTreeMap::new();
    for (number, wanted) in &key.uses {
        let op = &ledger.ops[*number];
        let is_taken = op.answers.iter().any(|(_, answer)| matches!(answer, Answer::Guarded { .. }));
        if wanted.forged && is_taken {
            return broken(4, format!("#{number} used a forged token"));
        }
        let own = key.grants.iter().find(|grant| *grant.token == *wanted.token);
        let overtaken = key
            .grants
            .iter()
            .find(|other| own.is_some_and(|own| own.at < other.sent && own.token != other.token) && other.at < op.sent);
        if let Some(other) = overtaken.filter(|_| counts(op) > 0) {
            return broken(4, format!("#{number} counted after #{} had taken the key over", other.op));
        }
        if wanted.what == Use::Complete && counts(op) > 0 {
            let before = completed.insert(&wanted.token, *number);
            if let Some(other) = before.or((counts(op) > 1).then_some(*number)) {
                return broken(6, format!("#{other} and #{number} both completed one hold"));
            }
        }
    }
    Ok(())
}

/// Who asks after the work is done gets its result, for as long as it is kept.
fn kept(ledger: &Ledger<'_>, key: &Key<'_>) -> Verdict {
    for begin in &key.begins {
        let op = &ledger.ops[*begin];
        for (at, answer) in &op.answers {
            let Answer::Begun(begun) = answer else { continue };
            if let Once::Done(result) = begun {
                let is_its = |(number, wanted): &&(usize, &GuardUse)| {
                    let said = &ledger.ops[*number];
                    wanted.what == Use::Complete
                        && !wanted.forged
                        && !said.failed()
                        && said.sent <= *at
                        && Some(wanted.result().as_bytes()) == result.as_deref()
                };
                if !key.uses.iter().any(|wanted| is_its(&wanted)) {
                    return broken(6, format!("#{begin} is told a result that nobody saved: {result:?}"));
                }
            }
            for (number, wanted) in key.uses.iter().filter(|(number, _)| counts(&ledger.ops[*number]) > 0) {
                let (said, grant) =
                    (&ledger.ops[*number], key.grants.iter().find(|grant| *grant.token == *wanted.token));
                let taken = said.answers.iter().filter(|(_, answer)| matches!(answer, Answer::Guarded { .. }));
                let told = taken.map(|(at, _)| *at).min().unwrap_or(Micros::MAX);
                let Some(grant) = grant.filter(|_| wanted.what == Use::Complete && told < op.sent) else { continue };
                // What belongs to a job stays while it does, and nobody begins without it.
                let is_timed = grant.begin.of.is_none();
                let is_kept = !is_timed || *at + CLOCK_GRAIN < said.sent + grant.begin.ttl_ms * MILLI;
                let is_told = matches!(begun, Once::Done(Some(result)) if *result == wanted.result());
                if is_kept && !is_told && (!is_timed || ledger.clock_steps[op.server].is_empty()) {
                    return broken(6, format!("#{number} completed the work and #{begin} is told {begun:?}"));
                }
            }
        }
    }
    Ok(())
}
