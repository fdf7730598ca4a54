//! Keeps the log short: live items of its oldest part are written again at its head, then that part is
//! freed.
//!
//! The log may have twice the size of what is live, plus what is pinned, plus two units. As it nears that,
//! each appended byte pays for up to two copied ones; an idle shard copies without being paid for. A part
//! is freed only when all that made it superfluous is committed: what is only decided may be lost yet.
//!
//! While storage is short the log is kept as near to what is live as it can be, and what is only kept for lookups
//! gives way: finished jobs, the oldest first, and no more of them than it takes.
//!
//! Damaged bytes hold up the trimming for a while, loudly; then their item is written again without them, and
//! who asks for them is told. A log that waited for ever would fill the disk for one bad byte.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use recado_core::{Command, CopyPlan, LOST};
use recado_log::{Class, Position, Usage};

use crate::clock::Now;
use crate::error::Unread;
use crate::inbox::Internal;
use crate::shard::Shard;
use crate::shared::Shared;
use crate::space;
use crate::writer::Room;

/// Items in one copying step.
const COPY_ITEMS_MAX: usize = 256;
/// Bytes in one copying step.
const COPY_BYTES_MAX: u64 = 256 * 1024;
/// Copied bytes that an appended byte pays for when the log is at its bound.
const COPIES_PER_BYTE_MAX: u64 = 2;
/// So long without requests makes a shard idle.
const IDLE_AFTER: Duration = Duration::from_secs(1);
/// Pause between two copying steps of an idle shard.
const IDLE_PAUSE: Duration = Duration::from_millis(20);
/// The log has so long to prepare what was freed before more finished jobs give way.
const PREPARE_PAUSE: Duration = Duration::from_secs(1);
/// So many parts of a unit give way one after the other.
const FORGETS_PER_UNIT: u64 = 4;
/// Pause after live bytes could not be read.
const UNREADABLE_PAUSE: Duration = Duration::from_secs(60);
/// Reads after which damaged bytes are given up.
const READS_MAX: u32 = 3;
/// The log is asked to free something each time so much of a unit was appended.
const TRIMS_PER_UNIT: u64 = 16;

/// What came of reading the bytes of items.
pub(crate) enum Fetched {
    Whole(Vec<CopyPlan>),
    /// Some were damaged and given up.
    WithLoss(Vec<CopyPlan>),
    /// Some cannot be read, for this reason.
    Failed(String),
}

#[derive(Default)]
pub(crate) struct Trimmer {
    /// Bytes that may be copied; below zero after a large item.
    credit: i64,
    /// What the writer had appended when that was last looked at.
    seen_bytes: u64,
    /// Of it, what was copies.
    copied_bytes: u64,
    is_fetching: bool,
    /// Reads in a row that met bytes that could not be read.
    failed_reads: u32,
    fetched: Option<Vec<CopyPlan>>,
    /// Once this is committed, all below that can be freed.
    free: Option<(u64, u64)>,
    freed_below: u64,
    /// Appended since the log was last asked to free something.
    unfreed_bytes: u64,
    /// Copied since anyone else appended: idle copying ends when it has gone round once.
    idle_bytes: u64,
    not_before: Duration,
    /// Until then what was freed last may still become room.
    preparing_until: Duration,
    /// When an idle shard goes on copying.
    pub(crate) next_at: Option<Duration>,
}

impl Trimmer {
    pub(crate) fn add_fetched(&mut self, fetched: Fetched, now: Now) {
        self.is_fetching = false;
        match fetched {
            Fetched::Whole(plans) => {
                self.failed_reads = 0;
                self.fetched = Some(plans);
            }
            // What comes next may be damaged by the same cause: it is not waited for again.
            Fetched::WithLoss(plans) => self.fetched = Some(plans),
            Fetched::Failed(reason) => {
                tracing::error!(reason, "live bytes cannot be read: the log is not trimmed; run `recado log check`");
                self.failed_reads += 1;
                self.not_before = now.elapsed + UNREADABLE_PAUSE;
            }
        }
    }

    /// Turns what was appended into leave to copy.
    fn earn(&mut self, appended: u64, usage: &Usage, live: u64) {
        let others = (appended - self.seen_bytes).saturating_sub(self.copied_bytes);
        self.unfreed_bytes = self.unfreed_bytes.saturating_add(appended - self.seen_bytes);
        (self.seen_bytes, self.copied_bytes) = (appended, 0);
        if others > 0 {
            self.idle_bytes = 0;
        }
        let (low, high) = marks(usage, live);
        let over = usage.log_bytes.saturating_sub(low);
        if over == 0 {
            self.credit = self.credit.min(0);
            return;
        }
        let paid = u128::from(others) * u128::from(COPIES_PER_BYTE_MAX) * u128::from(over.min(high - low));
        let paid = i64::try_from(paid / u128::from(high - low)).unwrap_or(i64::MAX);
        self.credit = self.credit.saturating_add(paid).min(usage.unit_bytes as i64);
    }
}

/// Where copying begins while storage is short.
fn mark_when_short(usage: &Usage, live: u64) -> u64 {
    live + usage.pinned_bytes + usage.unit_bytes
}

/// Where copying begins, and where it is paid in full: one unit before the log's bound.
fn marks(usage: &Usage, live: u64) -> (u64, u64) {
    let low = live + live / 2 + usage.pinned_bytes + usage.unit_bytes / 2;
    (low, 2 * live + usage.pinned_bytes + usage.unit_bytes)
}

impl Shard {
    /// A turn of copying and freeing. True when room ran out.
    pub(crate) fn trim(&mut self, now: Now, last_request: Duration) -> Result<bool, recado_log::Error> {
        self.free(now)?;
        let usage = self.writer.log.usage();
        let live = self.writer.state.live_bytes();
        self.trimmer.earn(self.writer.appended_bytes, &usage, live);
        self.trimmer.next_at = None;
        if let Some(plans) = self.trimmer.fetched.take() {
            return self.copy(now, plans);
        }
        if self.trimmer.is_fetching || now.elapsed < self.trimmer.not_before {
            return Ok(false);
        }
        let is_idle = self.may_copy_unpaid(now, last_request);
        let is_due = self.trimmer.credit > 0 || (is_idle && self.may_idle_copy(&usage, live));
        if is_due && !self.is_stopping() {
            if self.trimmer.credit <= 0 {
                self.trimmer.not_before = now.elapsed + IDLE_PAUSE;
                self.trimmer.next_at = Some(self.trimmer.not_before);
            }
            self.fetch();
        } else if !is_idle && self.may_idle_copy(&usage, live) {
            self.trimmer.next_at = Some(last_request + IDLE_AFTER);
        }
        Ok(false)
    }

    /// Nobody is held up by it, or everybody waits for it.
    fn may_copy_unpaid(&self, now: Now, last_request: Duration) -> bool {
        now.elapsed.saturating_sub(last_request) >= IDLE_AFTER || self.writer.log.is_short_of_space()
    }

    /// While storage is short and producers are about to be refused, what is only kept for lookups gives way to what is
    /// to be done. As much as one turn takes; then what that freed is waited for.
    pub(crate) fn make_space(&mut self, now: Now) -> Result<(), recado_log::Error> {
        if !self.writer.log.is_short_of_space() || !self.writer.state.keeps_finished() || self.is_stopping() {
            return Ok(());
        }
        let at = now.elapsed + IDLE_PAUSE;
        self.trimmer.next_at = Some(self.trimmer.next_at.map_or(at, |next| next.min(at)));
        let (usage, live) = (self.writer.log.usage(), self.writer.state.live_bytes());
        let is_trimming = self.trimmer.is_fetching || self.trimmer.fetched.is_some() || self.trimmer.free.is_some();
        if self.writer.settled_position() != Some(self.writer.committed())
            || is_trimming
            || now.elapsed < self.trimmer.preparing_until
            || self.writer.spare(Class::Produce) >= usage.unit_bytes / 2
            || self.may_idle_copy(&usage, live)
        {
            return Ok(());
        }
        let command = Command::Forget { bytes: usage.unit_bytes / FORGETS_PER_UNIT };
        let bytes = space::bound(&self.writer.state, &command);
        if self.writer.claim_beside(now, Class::Settle, bytes)? == Room::Yes
            && let Err(rejection) = self.writer.run(now, &command)
        {
            unreachable!("finished jobs are forgotten without being asked: {rejection}");
        }
        Ok(())
    }

    fn may_idle_copy(&self, usage: &Usage, live: u64) -> bool {
        let (low, _) = marks(usage, live);
        let low = if self.writer.log.is_short_of_space() { low.min(mark_when_short(usage, live)) } else { low };
        usage.log_bytes > low && self.trimmer.idle_bytes <= live + usage.unit_bytes
    }

    /// Chooses the oldest items and has their bytes read.
    fn fetch(&mut self) {
        // What is not committed yet is not worth copying, and cannot be read while it is being built.
        let committed = self.writer.committed();
        let mut plans = self.writer.state.oldest_copies(committed, COPY_ITEMS_MAX);
        // An old item may have gained bytes since, an error or a new payload.
        plans.retain(|plan| plan.places.iter().all(|place| place.position <= committed));
        let mut bytes = 0;
        let state = &self.writer.state;
        let count = plans.iter().take_while(|plan| {
            let before = bytes;
            bytes += state.copy_bytes(plan) as u64;
            before == 0 || bytes <= COPY_BYTES_MAX
        });
        let count = count.count();
        plans.truncate(count);
        if plans.is_empty() {
            return;
        }
        self.trimmer.is_fetching = true;
        let shared = Arc::clone(&self.writer.shared);
        let gives_up = self.trimmer.failed_reads >= READS_MAX;
        self.writer.shared.workers.run(Box::new(move || {
            // Without an answer nothing would be trimmed any more.
            let read = catch_unwind(AssertUnwindSafe(|| read_all(&shared, plans, gives_up)));
            let fetched = read.unwrap_or_else(|_| Fetched::Failed("the read broke off".into()));
            shared.inbox.push_internal([Internal::Copies(fetched)]);
        }));
    }

    fn copy(&mut self, now: Now, mut plans: Vec<CopyPlan>) -> Result<bool, recado_log::Error> {
        // Items may have grown since they were chosen: what does not fit now is chosen again.
        let state = &self.writer.state;
        let bytes_max = self.writer.command_bytes_max() / 2;
        while plans.len() > 1 && plans.iter().map(|plan| state.copy_bytes(plan)).sum::<usize>() > bytes_max {
            plans.truncate(plans.len() / 2);
        }
        let command = Command::Copy(plans);
        let bytes = space::bound(&self.writer.state, &command);
        if bytes > self.writer.command_bytes_max() {
            tracing::error!(bytes, "an item is larger than a batch of this log: the log is not trimmed");
            self.trimmer.not_before = now.elapsed + UNREADABLE_PAUSE;
            return Ok(false);
        }
        match self.writer.claim_beside(now, Class::Copy, bytes)? {
            Room::Yes => {}
            Room::Later | Room::Slow | Room::Full => {
                if let Command::Copy(plans) = command {
                    self.trimmer.fetched = Some(plans);
                }
                return Ok(true);
            }
        }
        let before = self.writer.draft_bytes();
        if let Err(rejection) = self.writer.run(now, &command) {
            unreachable!("copies are never refused: {rejection}");
        }
        let copied = (self.writer.draft_bytes() - before) as u64;
        self.trimmer.copied_bytes += copied;
        self.trimmer.idle_bytes += copied;
        self.trimmer.credit = self.trimmer.credit.saturating_sub(i64::try_from(copied).unwrap_or(i64::MAX));
        // Ask soon: a copy may have been the last that held a unit.
        self.trimmer.unfreed_bytes = u64::MAX / 2;
        Ok(false)
    }

    /// Asks the log to free what no item needs, once all that says so is committed.
    fn free(&mut self, now: Now) -> Result<(), recado_log::Error> {
        if let Some((after, below)) = self.trimmer.free {
            if self.writer.committed() < after {
                return Ok(());
            }
            self.trimmer.free = None;
            self.trimmer.freed_below = below;
            let first = self.writer.log.usage().first;
            self.writer.log.trim(Position(below))?;
            if self.writer.log.usage().first > first {
                self.trimmer.preparing_until = now.elapsed + PREPARE_PAUSE;
            }
        }
        let unit = self.writer.log.usage().unit_bytes;
        let is_idle = self.may_copy_unpaid(now, self.last_request);
        let is_worth_it = self.trimmer.unfreed_bytes >= unit / TRIMS_PER_UNIT;
        if let Some(after) = self.writer.settled_position()
            && (is_worth_it || (is_idle && self.trimmer.unfreed_bytes > 0))
        {
            let below = self.writer.state.oldest_position().unwrap_or(after);
            assert!(below <= after, "an item stands behind what was submitted");
            self.trimmer.unfreed_bytes = 0;
            if below > self.trimmer.freed_below {
                self.trimmer.free = Some((after, below));
            }
        }
        Ok(())
    }
}

fn read_all(shared: &Shared, mut plans: Vec<CopyPlan>, gives_up: bool) -> Fetched {
    let mut has_loss = false;
    for plan in &mut plans {
        for place in &plan.places {
            match shared.read(*place) {
                Ok(bytes) => plan.bytes.push(bytes.to_vec()),
                Err(Unread::Lost) => plan.bytes.push(LOST.to_vec()),
                // The item has ended or moved meanwhile: an incomplete plan copies nothing.
                Err(unread) if unread.is_trimmed() => break,
                Err(Unread::Log(error)) if gives_up && error.is_damage() => {
                    tracing::error!(?place, %error, "damaged bytes are given up, so that the log can be trimmed");
                    plan.bytes.push(LOST.to_vec());
                    has_loss = true;
                }
                Err(unread) => {
                    shared.report_unreadable(None, *place, &unread.to_string());
                    return Fetched::Failed(unread.to_string());
                }
            }
        }
    }
    if has_loss { Fetched::WithLoss(plans) } else { Fetched::Whole(plans) }
}
