//! What follows a failure: another try after a wait, or death.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;

use recado_mutants::{Mutant, active};

use super::hand_off::HandOffTo;
use crate::command::Failure;
use crate::draft::Draft;
use crate::event::{Death, Due, Event, LeaseState};
use crate::id::Hash;
use crate::meta::ErrorEntry;
use crate::options::{Backoff, BackoffCurve, Jitter, OnDead, deliveries_for};
use crate::reply::State as JobState;
use crate::state::{Job, Slot, State};

/// Longest kind of an error, in characters.
pub(super) const ERROR_KIND_CHARS_MAX: usize = 120;

/// Longest message of an error, in bytes.
pub(super) const ERROR_MESSAGE_BYTES_MAX: usize = 1_024;

/// The wait before the attempt after `attempt` (from 1), in milliseconds.
pub(crate) fn wait_ms(backoff: &Backoff, attempt: u32, entropy: u64) -> u64 {
    let whole = match &backoff.curve {
        BackoffCurve::Fixed { base_ms } => *base_ms,
        BackoffCurve::Exponential { base_ms, factor_milli, max_ms } => {
            let mut wait = u128::from(*base_ms);
            for _ in 1..attempt {
                wait = wait * u128::from(*factor_milli) / 1_000;
                if wait >= u128::from(*max_ms) {
                    break;
                }
            }
            u64::try_from(wait).unwrap_or(u64::MAX).min(*max_ms)
        }
        BackoffCurve::List { delays_ms } => {
            let last = delays_ms.len().saturating_sub(1);
            delays_ms.get((attempt.max(1) as usize - 1).min(last)).copied().unwrap_or(0)
        }
    };
    // One draw for one purpose: the share of the random part, of 2^32.
    let share = |of: u64| ((u128::from(of) * u128::from(entropy >> 32)) >> 32) as u64;
    match backoff.jitter {
        Jitter::None => whole,
        Jitter::Full => share(whole + 1),
        Jitter::Equal => whole / 2 + share(whole - whole / 2 + 1),
    }
}

/// Cuts a text at a character's border.
pub(crate) fn cut(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// An error as it is kept.
pub(crate) fn entry(job: &Job, at: u64, failure: &Failure) -> ErrorEntry {
    let kind = match failure.kind.char_indices().nth(ERROR_KIND_CHARS_MAX) {
        Some((end, _)) => &failure.kind[..end],
        None => &failure.kind,
    };
    ErrorEntry {
        attempt: u32::from(job.attempts) + u32::from(job.was_interrupted()),
        at,
        kind: kind.into(),
        message: cut(&failure.message, ERROR_MESSAGE_BYTES_MAX).into(),
        worker: job.lease().and_then(|lease| lease.worker.clone()),
        retryable: failure.retryable,
    }
}

/// Why a job is dead that still had attempts, behind what ended its last delivery: of the two that one is cut.
pub(super) fn delivered_out(job: &Job, why: &str) -> String {
    let last = format!("; that was hand-out {}, the last that maxDeliveries allows", job.deliveries);
    format!("{}{last}", cut(why, ERROR_MESSAGE_BYTES_MAX - last.len()))
}

/// Group of alike failures: type, kind, and the message without what looks like a number or an id.
pub(crate) fn fingerprint(state: &State, kind: &str, error: &ErrorEntry) -> u64 {
    let Hash(hash) =
        state.secret.hash(b'f', 0, &[kind.as_bytes(), error.kind.as_bytes(), normal(&error.message).as_bytes()]);
    hash as u64
}

fn normal(message: &str) -> String {
    let mut out = String::with_capacity(message.len());
    let mut word = String::new();
    let flush = |word: &mut String, out: &mut String| {
        let has_digit = word.bytes().any(|b| b.is_ascii_digit());
        out.push_str(if has_digit { "#" } else { word });
        word.clear();
    };
    for c in message.chars() {
        if c.is_alphanumeric() || c == '-' || c == '_' {
            word.push(c);
        } else {
            flush(&mut word, &mut out);
            out.push(c);
        }
    }
    flush(&mut word, &mut out);
    out
}

impl State {
    /// The attempt of `slot` has failed: what becomes of the job. `lease` is what its delivery ended as.
    pub(super) fn fail(
        &self,
        slot: Slot,
        at: u64,
        failure: &Failure,
        lease: LeaseState,
        entropy: u64,
        draft: &mut Draft,
    ) {
        let job = &self.jobs[slot];
        let queue = self.queue(job.queue);
        let mut error = entry(job, at, failure);
        // A release says so itself.
        if failure.retryable && lease != LeaseState::Released {
            self.say_delivered_out(job, &mut error);
        }
        let seq = job.id.seq();
        let lapsed = lease == LeaseState::Lapsed;
        if job.cancel_requested() {
            let lease = if lapsed { LeaseState::Cancelled } else { lease };
            super::cancel::end(self, slot, at, JobState::Cancelled, lease, &error, draft);
            return;
        }
        let span = draft.put_encoded(&error);
        let is_over = !failure.retryable || self.is_spent(job);
        let target = if is_over { self.redrive_target(job) } else { self.redrive_due(job) };
        if let Some(queue) = target {
            self.hand_off(slot, at, HandOffTo { queue, id: job.id, error: Some(span) }, draft);
            return;
        }
        if is_over {
            draft.push(Event::Died {
                seq,
                at,
                error: Some(span),
                death: self.death(job, &error),
                lease: if lapsed { LeaseState::Killed } else { lease },
                blocks_group: queue.settings.on_dead == OnDead::Block,
                task: job.task(),
            });
            return;
        }
        let own = job.overrides().and_then(|own| own.backoff.as_ref());
        let backoff = own.unwrap_or(&queue.settings.backoff);
        let wait_ms = failure.retry_after_ms.unwrap_or_else(|| wait_ms(backoff, error.attempt, entropy));
        let due = self.due_after(at, wait_ms);
        draft.push(Event::Failed { seq, at, due, error: span, lapsed });
        if active(Mutant::PriorityLostOnRetry) {
            draft.push(Event::Patched { seq, priority: 0, due_at: None, payload: None, payload_hash: None });
        }
    }

    /// The end of a wait that begins at `at`.
    pub(super) fn due_after(&self, at: u64, wait_ms: u64) -> Due {
        Due { at: at.saturating_add(wait_ms), elapsed_at: self.elapsed(at).saturating_add(wait_ms) }
    }

    /// No attempt or no hand-out is left.
    pub(super) fn is_spent(&self, job: &Job) -> bool {
        // A late failure after an interruption uses the attempt that was given back.
        let attempts = u32::from(job.attempts) + u32::from(job.was_interrupted());
        attempts >= self.max_attempts(job) || self.is_delivered_out(job)
    }

    /// A job that still had attempts is dead: the error says why.
    pub(super) fn say_delivered_out(&self, job: &Job, error: &mut ErrorEntry) {
        if error.attempt < self.max_attempts(job) && self.is_delivered_out(job) {
            let message = delivered_out(job, &error.message);
            error.message = message.trim_start_matches("; ").into();
        }
    }

    /// No hand-out is left.
    pub(super) fn is_delivered_out(&self, job: &Job) -> bool {
        let queue = self.queue(job.queue);
        // Ten times its attempts unless set; so a job with attempts of its own has a bound of its own.
        let set = queue.record.options.max_deliveries_set(&self.defaults);
        let limit = set.unwrap_or_else(|| deliveries_for(self.max_attempts(job)));
        u32::from(job.deliveries) >= limit
    }

    pub(super) fn death(&self, job: &Job, error: &ErrorEntry) -> Death {
        let kind = &self.queue(job.queue).lane(job.lane).name.kind;
        Death { fingerprint: fingerprint(self, kind, error), error_kind: Box::from(&*error.kind) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exponential(jitter: Jitter) -> Backoff {
        Backoff { curve: BackoffCurve::Exponential { base_ms: 100, factor_milli: 2_000, max_ms: 1_000 }, jitter }
    }

    #[test]
    fn the_wait_grows_by_its_factor_up_to_its_limit() {
        let waits: alloc::vec::Vec<u64> = (1..=6).map(|n| wait_ms(&exponential(Jitter::None), n, 0)).collect();
        assert_eq!(waits, [100, 200, 400, 800, 1_000, 1_000]);
        assert_eq!(wait_ms(&exponential(Jitter::None), u32::MAX, 0), 1_000);
        let list = Backoff { curve: BackoffCurve::List { delays_ms: alloc::vec![1, 5] }, jitter: Jitter::None };
        assert_eq!([1, 2, 3].map(|n| wait_ms(&list, n, 0)), [1, 5, 5]);
    }

    #[test]
    fn jitter_covers_its_whole_range_and_no_more() {
        for (jitter, from) in [(Jitter::Full, 0), (Jitter::Equal, 50)] {
            let waits = (0..10_000).map(|n| wait_ms(&exponential(jitter), 1, super::super::mix(7, n)));
            let waits: alloc::collections::BTreeSet<u64> = waits.collect();
            assert_eq!((waits.first().copied(), waits.last().copied()), (Some(from), Some(100)), "{jitter:?}");
        }
    }

    #[test]
    fn messages_that_differ_in_ids_are_alike() {
        assert_eq!(normal("order 4711 of user-9f3: no"), normal("order 1 of user-77: no"));
        assert_ne!(normal("no route"), normal("no mailbox"));
    }
}
