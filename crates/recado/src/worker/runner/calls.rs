//! What is asked of the queue, and when.

use std::time::Duration;

use recado_contract::limits::{RECEIVE_JOBS_MAX, SETTLE_ENTRIES_MAX};
use recado_core::{Receive, Settle};
use tokio::time::Instant;

use super::{LINGER, Mode, Phase, Runner, Sent};
use crate::backend::{Received, SettleAnswer};
use crate::worker::held::Held;

/// How long a receive waits for a job.
const POLL: Duration = Duration::from_secs(20);
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
        let want = (self.places() + ahead).saturating_sub(self.running.len() + self.waiting.len());
        if want == 0 || self.waiting.len() > ahead / 2 {
            return;
        }
        let asked = self.asked.take().unwrap_or_else(|| Receive {
            max: want.min(RECEIVE_JOBS_MAX as usize),
            attempt_id: Some(format!("{:032x}", rand::random::<u128>()).into()),
            ..self.plan.receive.clone()
        });
        let ends_max = if self.ends_pause.is_over(now) { SETTLE_ENTRIES_MAX } else { 0 };
        let (sent, settles) = self.take_ends(ends_max);
        let wait = if self.mode == Mode::Drain { Duration::ZERO } else { POLL };
        let (recado, receive) = (self.recado.clone(), asked.clone());
        self.asked = Some(asked);
        let receiving = async move { recado.backend().receive(&receive, settles, wait).await };
        self.summary.calls += 1;
        self.receiving = Some((Box::pin(receiving), sent));
    }

    /// What a receive that was left has handed out must be known, to be given back.
    fn reclaim(&mut self) {
        let Some(asked) = self.asked.clone() else { return };
        let recado = self.recado.clone();
        let reclaiming = async move {
            let jobs = recado.backend().reclaim(&asked).await?;
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
        let extends = self.book.due_extends(self.plan.receive.visibility_ms, now, SETTLE_ENTRIES_MAX);
        let may_end = self.ends_pause.is_over(now);
        let is_due = may_end && self.outbox_since.is_some_and(|since| since + self.linger() <= now);
        if extends.is_empty() && !is_due {
            return;
        }
        let ends_max = if may_end { SETTLE_ENTRIES_MAX - extends.len() } else { 0 };
        let (mut sent, mut settles) = self.take_ends(ends_max);
        for (key, settle) in extends {
            sent.push((key, Sent::Extend));
            settles.push(settle);
        }
        let recado = self.recado.clone();
        let settling = async move { recado.backend().settle(settles).await };
        self.summary.calls += 1;
        self.settling = Some((Box::pin(settling), sent));
    }

    pub(super) fn linger(&self) -> Duration {
        if self.phase == Phase::Working && self.mode == Mode::Serve { LINGER } else { Duration::ZERO }
    }
}
