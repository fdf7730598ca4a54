//! What the queue answers.

use std::time::Duration;

use recado_contract::problem::Problem;
use recado_core::{JobId, Outcome};
use tokio::time::Instant;

use super::{Mode, Pause, Runner, Sent};
use crate::backend::{Received, SettleAnswer, Settled};
use crate::error::Error;
use crate::worker::ctx::Cancelled;
use crate::worker::held::Stage;
use crate::worker::run::released;

impl Runner {
    /// A receive was answered, or not.
    pub(super) fn received(&mut self, (received, sent): (Result<Received, Error>, Vec<(u64, Sent)>)) {
        match received {
            Ok(Received { jobs, answer }) => {
                (self.asked, self.receive_pause) = (None, Pause::default());
                let is_drained = self.mode == Mode::Drain && jobs.is_empty() && self.running.is_empty();
                self.answered(sent, answer);
                self.take_in(jobs);
                if is_drained {
                    self.stop();
                }
            }
            Err(error) => {
                self.send_again(sent);
                self.receive_pause.after_failure();
                if self.mode == Mode::Drain || error.is_final() || error.is_invalid() {
                    self.asked = None;
                    self.fail(error);
                } else {
                    tracing::warn!(%error, "jobs cannot be received: trying again");
                }
            }
        }
    }

    pub(super) fn settled(&mut self, (answer, sent): (Result<SettleAnswer, Error>, Vec<(u64, Sent)>)) {
        match answer {
            Ok(answer) => {
                self.settle_pause = Pause::default();
                self.answered(sent, answer);
            }
            Err(error) => {
                self.send_again(sent);
                self.settle_pause.after_failure();
                if !error.is_final() {
                    tracing::warn!(%error, "jobs cannot be settled: trying again");
                } else {
                    // Nothing can be settled any more.
                    self.fail(error);
                    self.break_off(Duration::ZERO);
                }
            }
        }
    }

    /// What was not answered is sent again; a heartbeat is due again by itself.
    pub(super) fn send_again(&mut self, sent: Vec<(u64, Sent)>) {
        let now = Instant::now();
        for (key, _) in sent.into_iter().filter(|(_, sent)| *sent == Sent::End) {
            self.queue_end(key, now);
        }
    }

    fn answered(&mut self, sent: Vec<(u64, Sent)>, answer: SettleAnswer) {
        for ((key, sent), settled) in sent.into_iter().zip(answer.settled) {
            match sent {
                Sent::End => self.end_answered(key, settled),
                Sent::Extend => self.extend_answered(key, settled),
            }
        }
        for id in answer.cancel_requested {
            self.cancel_requested(id);
        }
    }

    fn end_answered(&mut self, key: u64, settled: Result<Settled, Problem>) {
        let problem = match settled {
            Ok(_) => {
                let Some(held) = self.book.held.remove(&key) else { return };
                if let Stage::Ended(outcome) = held.stage {
                    self.count(&outcome);
                }
                return;
            }
            Err(problem) => problem,
        };
        if matches!(problem.status(), 429 | 503 | 507) {
            // The receipt stays good.
            if let Some(held) = self.book.held.get_mut(&key) {
                held.is_put_off = true;
                self.book.hasten(Instant::now());
            }
            self.settle_pause.after_failure();
            self.queue_end(key, Instant::now());
            return;
        }
        if let Some(held) = self.book.held.remove(&key) {
            self.summary.overtaken += 1;
            let reason = problem.reason();
            tracing::warn!(job = %held.delivery.id, reason, "a run ended too late: it changed nothing");
        }
    }

    fn count(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Ack { .. } => self.summary.completed += 1,
            Outcome::Fail(_) => self.summary.failed += 1,
            Outcome::Release { .. } => self.summary.released += 1,
            Outcome::Extend { .. } => {}
        }
    }

    fn extend_answered(&mut self, key: u64, settled: Result<Settled, Problem>) {
        let Some(held) = self.book.held.get_mut(&key).filter(|held| held.is_live()) else { return };
        match settled {
            Ok(Settled { visible_at: Some(at), .. }) => held.lease.extended(at),
            Ok(_) => {}
            Err(problem) if problem.code() == "stale-receipt" => {
                tracing::warn!(job = %held.delivery.id, reason = problem.reason(), "the lease was lost");
                held.is_lost = true;
                match &held.stage {
                    Stage::Runs(ctx) => ctx.cancel(Cancelled::LeaseLost),
                    _ => {
                        self.book.held.remove(&key);
                        self.waiting.retain(|waiting| *waiting != key);
                    }
                }
            }
            Err(problem) => tracing::warn!(job = %held.delivery.id, code = problem.code(), "a heartbeat was refused"),
        }
    }

    fn cancel_requested(&mut self, id: JobId) {
        let Some((key, held)) = self.book.of_job(id) else { return };
        match &held.stage {
            Stage::Runs(ctx) => ctx.cancel(Cancelled::Requested),
            Stage::Waits(_) => {
                held.stage = Stage::Ended(released("cancelled"));
                self.waiting.retain(|waiting| *waiting != key);
                self.queue_end(key, Instant::now());
            }
            Stage::Ended(_) => {}
        }
    }
}
