//! How it ends.

use std::time::Duration;

use tokio::time::Instant;

use super::{PATIENCE, Phase, Runner};
use crate::error::Error;

/// After the grace period: for handlers to be dropped, and for what is left to be settled.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Of a receive that was left and of which nothing can be learnt.
pub(super) const UNKNOWN: &str =
    "whether the last receive was handed jobs is not known: if so, they are visible again after their timeout";

impl Runner {
    pub(super) fn on_time(&mut self) {
        let now = Instant::now();
        match self.phase {
            Phase::Working => self.give_back_waiting(|since| since + PATIENCE <= now),
            Phase::Stopping(Some(until)) if until <= now => {
                self.break_off(LAST_WORDS);
            }
            Phase::Stopping(_) | Phase::Ending(_) => {}
        }
    }

    pub(super) fn fail(&mut self, error: Error) {
        self.failed.get_or_insert(error);
        self.stop();
    }

    /// Takes nothing more.
    pub(super) fn stop(&mut self) {
        if self.phase != Phase::Working {
            return;
        }
        self.phase = Phase::Stopping(Instant::now().checked_add(self.plan.grace));
        self.give_back_waiting(|_| true);
        self.leave_receive();
        // What it was handed is asked at once, if there can be anything.
        self.receive_pause.until = None;
        self.asked.take_if(|asked| !asked.may_be_taken);
    }

    /// Nothing is held, so there is nothing to wait for but the answer to what the last receive was handed.
    pub(super) fn end_early(&mut self, now: Instant) {
        if matches!(self.phase, Phase::Stopping(_)) && self.book.held.is_empty() {
            self.phase = Phase::Ending(now + LAST_WORDS);
        }
    }

    /// Drops the handlers that still run; their jobs are given back.
    pub(super) fn break_off(&mut self, last_words: Duration) {
        self.crew.break_off();
        self.phase = Phase::Ending(Instant::now() + last_words);
    }

    pub(super) fn is_over(&self, now: Instant) -> bool {
        match self.phase {
            Phase::Working => false,
            Phase::Ending(until) if until <= now => {
                let left = self.book.held.len();
                if left > 0 {
                    tracing::warn!(
                        left,
                        "not all jobs could be given back: they are visible again after their timeout"
                    );
                } else {
                    tracing::warn!("{UNKNOWN}");
                }
                true
            }
            Phase::Stopping(_) | Phase::Ending(_) => {
                let is_idle = self.receiving.is_none() && self.settling.is_none() && self.asked.is_none();
                is_idle && self.book.held.is_empty()
            }
        }
    }
}
