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
    let mut keys: BTreeMap<(usize, u8, u8), Key<'_>> = BTreeMap::new();
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
            fenced(ledger, key)?;
            kept(ledger, key)?;
        }
    }
    Ok(())
}

fn counts(op: &Op<'_>) -> usize {
    op.answers.iter().filter(|(_, answer)| matches!(answer, Answer::Guarded { repeated: false })).count()
}

/// Nobody begins while another holds the key.
fn alone(ledger: &Ledger<'_>, key: &Key<'_>) -> Verdict {
    for first in &key.grants {
        let own = || {
            let own = key.uses.iter().filter(|(_, wanted)| *wanted.token == *first.token);
            own.map(|(number, wanted)| (&ledger.ops[*number], wanted)).filter(|(op, _)| !op.failed())
        };
        for second in key.grants.iter().filter(|second| first.at < second.sent) {
            let by = |(op, _): &(&Op<'_>, &&GuardUse)| op.sent <= second.at;
            if own().filter(by).any(|(_, wanted)| !matches!(wanted.what, Use::Extend { .. })) {
                continue;
            }
            let extended = own().filter(by).filter_map(|(op, wanted)| match wanted.what {
                Use::Extend { hold_ms } => Some(op.sent + hold_ms * MILLI),
                _ => None,
            });
            let until = extended.chain([first.sent + first.begin.hold_ms * MILLI]).min().unwrap_or(0);
            let hurried = ledger.hurried(ledger.ops[first.op].server, first.sent, until);
            if second.at < until.saturating_sub(CLOCK_GRAIN + hurried) {
                return broken(6, format!("#{} and #{} had one key at one time", first.op, second.op));
            }
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
                let is_kept = *at + CLOCK_GRAIN < said.sent + grant.begin.ttl_ms * MILLI;
                let is_told = matches!(begun, Once::Done(Some(result)) if *result == wanted.result());
                if is_kept && !is_told && ledger.clock_steps[op.server].is_empty() {
                    return broken(6, format!("#{number} completed the work and #{begin} is told {begun:?}"));
                }
            }
        }
    }
    Ok(())
}
