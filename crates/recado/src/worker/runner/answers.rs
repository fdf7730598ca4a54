//! What the queue answers.

use std::time::Duration;

use recado_contract::limits::SETTLE_ENTRIES_MAX;
use recado_contract::problem::Problem;
use recado_core::{JobId, Outcome};
use tokio::time::Instant;

use super::stop::UNKNOWN;
use super::{Mode, Phase, Runner, Sent};
use crate::backend::{Received, SettleAnswer, Settled};
use crate::error::Error;
use crate::worker::ctx::Cancelled;
use crate::worker::held::{Held, Stage};
use crate::worker::run::released;

/// The code of a receipt that was overtaken, and the reason when its job is dead.
const STALE: &str = "stale-receipt";
const DEAD: &str = "dead";

/// Whether what was asked is no request at all, and will not become one.
fn is_invalid(problem: &Problem) -> bool {
    matches!(problem.status(), 400 | 413)
}

impl Runner {
    /// A receive was answered, or not.
    pub(super) fn received(&mut self, (received, sent): (Result<Received, Error>, Vec<(u64, Sent)>)) {
        match received {
            Ok(Received { jobs, answer }) => {
                self.asked = None;
                if self.receive_pause.end() {
                    tracing::info!("jobs are received again");
                }
                let is_drained = self.mode == Mode::Drain && jobs.is_empty() && self.crew.is_empty();
                self.answered(sent, answer);
                self.take_in(jobs);
                if is_drained {
                    self.stop();
                }
            }
            Err(error) => self.not_received(error, sent),
        }
    }

    fn not_received(&mut self, error: Error, sent: Vec<(u64, Sent)>) {
        let is_to_tell = self.receive_pause.after(&error);
        let had_ends = !sent.is_empty();
        self.send_again(sent);
        let is_invalid = matches!(&error, Error::Refused(problem) if is_invalid(problem));
        if is_invalid && had_ends {
            // Perhaps it is only about them: by themselves they are told apart.
            self.entries_max = SETTLE_ENTRIES_MAX / 2;
            return;
        }
        if self.mode == Mode::Drain || error.is_final() || is_invalid {
            self.asked = None;
            return self.fail(error);
        }
        let never_came = matches!(error, Error::Unreachable { .. });
        if let Some(asked) = &mut self.asked {
            asked.may_be_taken |= !never_came;
        }
        if self.phase != Phase::Working && never_came && self.book.held.is_empty() {
            self.asked = None;
            tracing::warn!(%error, "{UNKNOWN}");
        } else if is_to_tell {
            tracing::warn!(%error, "jobs cannot be received: trying again");
        }
    }

    pub(super) fn settled(&mut self, (answer, sent): (Result<SettleAnswer, Error>, Vec<(u64, Sent)>)) {
        match answer {
            Ok(answer) => {
                self.entries_max = SETTLE_ENTRIES_MAX;
                self.ends_pause.answered();
                self.answered(sent, answer);
            }
            Err(Error::Refused(problem)) if is_invalid(&problem) => self.refused_whole(&problem, sent),
            Err(error) => {
                let is_to_tell = self.ends_pause.after(&error);
                self.send_again(sent);
                if error.is_timeout() {
                    // A receive that waits may hang as well: it is asked again over another connection.
                    self.leave_receive();
                }
                if error.is_final() {
                    // Nothing can be settled any more.
                    self.fail(error);
                    self.break_off(Duration::ZERO);
                } else if is_to_tell {
                    tracing::warn!(%error, "jobs cannot be settled: trying again");
                }
            }
        }
    }

    /// No entry was taken: one of them has them all refused. They go again in halves, until it is alone.
    fn refused_whole(&mut self, problem: &Problem, sent: Vec<(u64, Sent)>) {
        match sent.as_slice() {
            [(key, Sent::End)] => self.end_answered(*key, Err(problem.clone())),
            [(key, Sent::Extend)] => self.extend_answered(*key, Err(problem.clone())),
            _ => {
                self.entries_max = (sent.len() / 2).max(1);
                self.send_again(sent);
            }
        }
    }

    /// What was not answered is sent again.
    pub(super) fn send_again(&mut self, sent: Vec<(u64, Sent)>) {
        let now = Instant::now();
        let extend_at = self.ends_pause.until.unwrap_or(now);
        for (key, sent) in sent {
            match (sent, self.book.held.get_mut(&key)) {
                (Sent::End, _) => self.queue_end(key, now),
                (Sent::Extend, Some(held)) => {
                    held.extend_again(extend_at);
                    self.book.hasten(extend_at);
                }
                (Sent::Extend, None) => {}
            }
        }
    }

    fn answered(&mut self, sent: Vec<(u64, Sent)>, answer: SettleAnswer) {
        let had_ends = sent.iter().any(|(_, sent)| *sent == Sent::End);
        let (mut settled, mut is_put_off) = (answer.settled.into_iter(), false);
        for (key, sent) in sent {
            match (sent, settled.next()) {
                (Sent::End, Some(Err(problem))) if problem.status() >= 500 || problem.status() == 429 => {
                    is_put_off = true;
                    self.put_off(key);
                }
                // An answer that is too short says nothing of this one.
                (Sent::End, None) => {
                    is_put_off = true;
                    self.put_off(key);
                }
                (Sent::End, Some(settled)) => self.end_answered(key, settled),
                (Sent::Extend, Some(settled)) => self.extend_answered(key, settled),
                (Sent::Extend, None) => {}
            }
        }
        if is_put_off {
            self.ends_pause.after_failure();
        } else if had_ends && self.ends_pause.end() {
            tracing::info!("jobs are settled again");
        }
        for id in answer.cancel_requested {
            self.cancel_requested(id);
        }
    }

    /// An end cannot be taken now; its receipt stays good.
    fn put_off(&mut self, key: u64) {
        let Some(held) = self.book.held.get_mut(&key) else { return };
        held.is_put_off = true;
        let now = Instant::now();
        self.book.hasten(now);
        self.queue_end(key, now);
    }

    fn end_answered(&mut self, key: u64, settled: Result<Settled, Problem>) {
        let Some(Held { delivery, stage, .. }) = self.book.held.remove(&key) else { return };
        match (settled, stage) {
            (Ok(_), Stage::Ended(outcome)) => self.count(&outcome),
            (Ok(_), _) => {}
            (Err(problem), _) if problem.code() == STALE => {
                self.summary.overtaken += 1;
                let reason = problem.reason();
                tracing::warn!(job = %delivery.id, reason, "a run ended too late: it changed nothing");
            }
            (Err(problem), _) => {
                self.summary.refused += 1;
                let (code, detail) = (problem.code(), problem.detail());
                tracing::error!(job = %delivery.id, code, detail, "the end of a run was refused: its lease will run out");
            }
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
            Ok(Settled { visible_at: Some(at), .. }) => {
                held.extended(at, Instant::now());
                let extend_at = held.lease.extend_at;
                self.book.hasten(extend_at);
            }
            Ok(_) => {}
            Err(problem) if problem.code() == STALE => {
                tracing::warn!(job = %held.delivery.id, reason = problem.reason(), "the lease was lost");
                held.is_lost = true;
                match &held.stage {
                    // Nobody else has a job that died while its worker was away: its work may still count.
                    Stage::Runs(_) if problem.reason() == DEAD => {}
                    Stage::Runs(ctx) => ctx.cancel(Cancelled::LeaseLost),
                    Stage::Ended(_) => {}
                    Stage::Waits(_) => {
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

#[cfg(test)]
mod tests {
    use recado_contract::problem::Code;

    use super::*;
    use crate::delivery::Delivery;
    use crate::recado::Recado;
    use crate::worker::Worker;
    use crate::worker::held::tests::delivery;
    use crate::worker::runner::LINGER;
    use crate::worker::runner::pause::PAUSE;

    const TAKEN: Result<Settled, Problem> = Ok(Settled { repeated: false, visible_at: None });

    /// A runner with so many ends on their way.
    async fn runner(ends: usize) -> (Runner, Vec<(u64, Sent)>) {
        let recado = Recado::connect("http://127.0.0.1:9").await.unwrap();
        let handler = |_| async { Ok::<_, crate::BoxError>(serde_json::value::RawValue::NULL.to_owned()) };
        let worker = Worker::builder(&recado).queue("q").handle_raw(handler).build().unwrap();
        let mut runner = Runner::new(&worker, Mode::Serve);
        let end = |_| {
            let key = runner.book.add(delivery(Duration::from_secs(30)), Instant::now());
            runner.book.held.get_mut(&key).unwrap().stage = Stage::Ended(Outcome::Ack { result: None });
            (key, Sent::End)
        };
        let sent = (0..ends).map(end).collect();
        (runner, sent)
    }

    fn answer(settled: Vec<Result<Settled, Problem>>) -> SettleAnswer {
        SettleAnswer { settled, cancel_requested: Vec::new() }
    }

    fn full() -> Result<Settled, Problem> {
        Err(Problem::new(Code::StorageFull, "the disk is full"))
    }

    #[tokio::test]
    async fn ends_put_off_together_are_one_failure_and_stop_no_heartbeat() {
        let (mut runner, sent) = runner(6).await;
        runner.answered(sent, answer((0..6).map(|_| full()).collect()));
        assert!(runner.ends_pause.until.unwrap() <= Instant::now() + PAUSE.0);
        assert_eq!(runner.outbox.len(), 6);
        let now = Instant::now() + Duration::from_secs(10);
        runner.ends_pause.until = Some(now + Duration::from_secs(5));
        runner.flush(now);
        let (_, sent) = runner.settling.unwrap();
        assert_eq!(sent.len(), 6);
        assert!(sent.iter().all(|(_, sent)| *sent == Sent::Extend));
    }

    #[tokio::test]
    async fn an_end_that_an_answer_leaves_out_is_sent_again() {
        let (mut runner, sent) = runner(2).await;
        let last = sent[1].0;
        runner.answered(sent, answer(vec![TAKEN]));
        assert_eq!((runner.summary.completed, runner.outbox.into_iter().collect::<Vec<_>>()), (1, vec![last]));
    }

    #[tokio::test]
    async fn a_payload_that_is_not_json_is_no_null() {
        let (mut runner, _) = runner(0).await;
        let now = Instant::now();
        let broken = Delivery { payload: b"{"[..].into(), ..delivery(Duration::from_secs(30)) };
        let key = runner.book.add(broken, now);
        runner.start(key, now);
        let Stage::Ended(Outcome::Fail(failure)) = &runner.book.held[&key].stage else { panic!("it runs") };
        assert_eq!((&*failure.kind, failure.retryable, runner.outbox.len()), ("invalid-payload", false, 1));
    }

    #[tokio::test]
    async fn a_refused_end_is_none_that_came_too_late() {
        let (mut runner, sent) = runner(2).await;
        let refused = |code| Err(Problem::new(code, "no"));
        runner.answered(sent, answer(vec![refused(Code::InvalidRequest), refused(Code::StaleReceipt)]));
        assert_eq!((runner.summary.refused, runner.summary.overtaken), (1, 1));
        assert!(runner.book.held.is_empty());
    }

    #[tokio::test]
    async fn one_end_that_cannot_be_read_takes_no_other_with_it_and_is_not_sent_for_ever() {
        let (mut runner, sent) = runner(7).await;
        let bad = sent[3].0;
        runner.send_again(sent);
        for _ in 0..20 {
            runner.flush(Instant::now() + LINGER);
            let Some((_, sent)) = runner.settling.take() else { break };
            let answer = if sent.iter().any(|(key, _)| *key == bad) {
                Err(Error::Refused(Problem::new(Code::InvalidRequest, "no")))
            } else {
                Ok(answer(sent.iter().map(|_| TAKEN).collect()))
            };
            runner.settled((answer, sent));
        }
        assert_eq!((runner.summary.completed, runner.summary.refused), (6, 1));
        assert!(runner.book.held.is_empty() && runner.outbox.is_empty());
    }

    #[tokio::test]
    async fn a_receive_that_is_refused_for_the_ends_it_carries_goes_without_them() {
        let (mut runner, sent) = runner(2).await;
        runner.received((Err(Error::Refused(Problem::new(Code::InvalidRequest, "no"))), sent));
        assert!(runner.failed.is_none());
        let now = Instant::now() + Duration::from_secs(10);
        runner.ask(now);
        let (_, sent) = runner.receiving.as_ref().unwrap();
        assert!(sent.is_empty());
        assert_eq!(runner.outbox.len(), 2);
    }
}
