//! What is asked of the queue, and when.

use std::time::Duration;

use recado_contract::limits::{RECEIVE_JOBS_MAX, SETTLE_ENTRIES_MAX};
use recado_core::{Receive, Settle};
use tokio::time::Instant;

use super::{Asked, LINGER, Mode, Phase, Runner, Sent};
use crate::backend::{ANSWER_TIME_MAX, Received, SettleAnswer, Times};
use crate::worker::held::Held;

/// How long a receive waits for a job.
const POLL: Duration = Duration::from_secs(20);
/// .. and its answer is waited for so much longer.
const POLL_SLACK: Duration = Duration::from_secs(10);
/// Results that go in one request, in bytes.
const ENDS_BYTES_MAX: usize = 4 << 20;

impl Runner {
    /// Asks for more when what is fetched ahead runs low.
    pub(super) fn ask(&mut self, now: Instant) {
        if self.receiving.is_some() || !self.receive_pause.is_over(now) {
            return;
        }
        if self.phase != Phase::Working {
            return self.reclaim();
        }
        let ahead = match self.mode {
            Mode::Serve => self.pace.ahead(self.plan.concurrency, self.plan.prefetch_max),
            Mode::Drain => 0,
        };
        let want = (self.places() + ahead).saturating_sub(self.crew.len() + self.waiting.len());
        if want == 0 || self.waiting.len() > ahead / 2 {
            return;
        }
        let new = || Receive {
            max: want.min(RECEIVE_JOBS_MAX as usize),
            attempt_id: Some(format!("{:032x}", rand::random::<u128>()).into()),
            ..self.plan.receive.clone()
        };
        let asked = self.asked.get_or_insert_with(|| Asked { receive: new(), may_be_taken: false });
        let receive = asked.receive.clone();
        let may_carry = self.ends_pause.is_over(now) && self.entries_max == SETTLE_ENTRIES_MAX;
        let (sent, settles) = self.take_ends(if may_carry { SETTLE_ENTRIES_MAX } else { 0 });
        let times = self.receive_times(!sent.is_empty(), now);
        let recado = self.recado.clone();
        let receiving = async move { recado.backend().receive(&receive, settles, times).await };
        self.summary.calls += 1;
        self.receiving = Some((Box::pin(receiving), sent));
    }

    /// A receive that carries ends is as urgent as they are.
    fn receive_times(&self, has_ends: bool, now: Instant) -> Times {
        match (self.mode, has_ends) {
            (Mode::Drain, false) => Times { wait: Duration::ZERO, answer: ANSWER_TIME_MAX },
            (Mode::Serve, false) => Times { wait: POLL, answer: POLL + POLL_SLACK },
            (mode, true) => {
                let answer = self.receive_pause.answer_time(self.book.shortest_left(now));
                let wait = if mode == Mode::Drain { Duration::ZERO } else { POLL.min(answer / 2) };
                Times { wait, answer }
            }
        }
    }

    /// Leaves a receive that is under way. What it took along is settled by itself: the same again is no harm.
    pub(super) fn leave_receive(&mut self) {
        let Some((receiving, sent)) = self.receiving.take() else { return };
        drop(receiving);
        if let Some(asked) = &mut self.asked {
            asked.may_be_taken = true;
        }
        self.send_again(sent);
    }

    /// What a receive that was left has handed out must be known, to be given back.
    fn reclaim(&mut self) {
        let Some(asked) = &self.asked else { return };
        let (recado, receive) = (self.recado.clone(), asked.receive.clone());
        let reclaiming = async move {
            let jobs = recado.backend().reclaim(&receive).await?;
            Ok(Received { jobs, answer: SettleAnswer::default() })
        };
        self.summary.calls += 1;
        self.receiving = Some((Box::pin(reclaiming), Vec::new()));
    }

    /// Ends that are to be settled, with what is sent for each.
    fn take_ends(&mut self, max: usize) -> (Vec<(u64, Sent)>, Vec<Settle>) {
        let mut bytes = 0;
        let fits = |key: &&u64| {
            bytes += self.book.held.get(*key).map_or(0, Held::end_bytes);
            bytes <= ENDS_BYTES_MAX
        };
        // The first one fits, however large.
        let count = self.outbox.iter().take(max).take_while(fits).count().max(1).min(max).min(self.outbox.len());
        let keys: Vec<u64> = self.outbox.drain(..count).collect();
        self.outbox_since = (!self.outbox.is_empty()).then(Instant::now);
        let end = |key: u64| Some(((key, Sent::End), self.book.held.get(&key)?.end()?));
        keys.into_iter().filter_map(end).unzip()
    }

    /// Sends ends that no receive took along, and heartbeats.
    pub(super) fn flush(&mut self, now: Instant) {
        if self.settling.is_some() {
            return;
        }
        let extends = self.book.due_extends(self.plan.receive.visibility_ms, now, self.entries_max);
        let may_end = self.ends_pause.is_over(now);
        let is_due = may_end && self.outbox_since.is_some_and(|since| since + self.linger() <= now);
        if extends.is_empty() && !is_due {
            return;
        }
        let ends_max = if may_end { self.entries_max - extends.len() } else { 0 };
        let (mut sent, mut settles) = self.take_ends(ends_max);
        for (key, settle) in extends {
            sent.push((key, Sent::Extend));
            settles.push(settle);
        }
        let answer = self.ends_pause.answer_time(self.book.shortest_left(now));
        let recado = self.recado.clone();
        let settling = async move { recado.backend().settle(settles, answer).await };
        self.summary.calls += 1;
        self.settling = Some((Box::pin(settling), sent));
    }

    pub(super) fn linger(&self) -> Duration {
        if self.phase == Phase::Working && self.mode == Mode::Serve { LINGER } else { Duration::ZERO }
    }
}
