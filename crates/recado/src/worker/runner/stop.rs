//! How it ends.

use std::time::Duration;

use tokio::time::Instant;

use super::{PATIENCE, Phase, Runner};
use crate::error::Error;

/// After the grace period: for handlers to be dropped, and for what is left to be settled.
const LAST_WORDS: Duration = Duration::from_secs(5);

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
        if let Some((receiving, sent)) = self.receiving.take() {
            // What it took along is settled by itself: the same again is no harm.
            drop(receiving);
            self.send_again(sent);
        }
    }

    /// Drops the handlers that still run; their jobs are given back.
    pub(super) fn break_off(&mut self, last_words: Duration) {
        self.runs.abort_all();
        self.phase = Phase::Ending(Instant::now() + last_words);
    }

    pub(super) fn is_over(&self, now: Instant) -> bool {
        match self.phase {
            Phase::Working => false,
            Phase::Ending(until) if until <= now => {
                let left = self.book.held.len();
                tracing::warn!(left, "not all jobs could be given back: they are visible again after their timeout");
                true
            }
            Phase::Stopping(_) | Phase::Ending(_) => {
                let is_idle = self.receiving.is_none() && self.settling.is_none() && self.asked.is_none();
                is_idle && self.book.held.is_empty()
            }
        }
    }
}
