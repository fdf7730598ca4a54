//! Mistakes that anyone could make, one line each where they would be made. The simulation must find every one:
//! that is how it is tested itself. Without the feature `mutants` each is a constant `false` and costs nothing.

#![no_std]

macro_rules! mutants {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// A mistake.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Mutant {
            $($(#[doc = $doc])* $name,)*
        }

        impl Mutant {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];
        }
    };
}

mutants! {
    /// An answer leaves before its batch is synced.
    ReplyBeforeSync,
    /// An answer that wrote nothing leaves before what it was decided on is durable.
    DuplicateBeforeOriginal,
    /// Records that no watermark proves are served without being written again.
    UnprovenServed,
    /// A record of an older epoch is taken for the one that comes next.
    StaleEpochAccepted,
    /// A torn tail takes the whole batch before it along.
    TornTailTakesOneMore,
    /// A failed sync is tried again, and believed.
    FailedSyncRetried,
    /// A recovery applies one half of the last batch.
    BatchHalved,
    /// Trimming drops what an idempotency key saved.
    SavedResultTrimmed,
    /// Trimming brings a completed job back as ready.
    AckResurrected,
    /// Trimming drops delayed jobs.
    DelayedTrimmed,
    /// A restart drops what idempotency keys saved.
    SavedResultLostOnRestart,
    /// A restart forgets the attempts of jobs in flight.
    AttemptsLostOnRestart,
    /// A restart ends all leases.
    LeasesLostOnRestart,
    /// The code that proves a receipt is not compared.
    ReceiptUnchecked,
    /// A settle counts although the job was received again.
    LateSettleAccepted,
    /// A job whose lease had run out is handed out with that lease.
    ExpiredLeaseHandedOut,
    /// A retry lets the next job of an ordered group pass.
    GroupFreedByRetry,
    /// A retry loses the job's priority.
    PriorityLostOnRetry,
    /// A replay keeps the attempts.
    AttemptsKeptOnReplay,
    /// The timer of a delayed job is not armed: only the next request notices that it is due.
    TimerNeverArmed,
    /// A deduplication window is one millisecond too long.
    DedupWindowTooLong,
    /// One job more than the limit fits in a queue.
    DepthOffByOne,
    /// Producers are not refused when the memory is spent.
    MemoryUnlimited,
    /// A payload may be one byte larger than its limit.
    PayloadLimitOffByOne,
    /// A read that fails while the log is opened is taken for its end.
    ReadErrorIsEnd,
    /// A receive that is repeated under its `attemptId` gets other jobs.
    AttemptForgotten,
    /// Work under a key is begun though another holds it.
    GuardHeldByTwo,
    /// A holder that was overtaken has its word counted.
    GuardTokenUnchecked,
    /// Trimming drops what work under a key ended with.
    GuardResultTrimmed,
    /// A restart ends the holds of guards.
    GuardsLapsedByRestart,
    /// A begin that is repeated under its `attemptId` finds somebody at work: itself.
    GuardAttemptForgotten,
    /// Work on a job is begun by a receipt that was overtaken.
    GuardReceiptUnchecked,
    /// A job is handed to another queue one receive too late.
    HandOffTooLate,
    /// Trimming puts a job that was handed off back into its first queue.
    HandOffUndoneByTrim,
    /// A late settle of a FIFO queue's message counts.
    FifoLateSettleAccepted,
    /// A settle that comes with a receive is synced as late as the receive may be.
    SettleSyncedLate,
    /// A release uses up an attempt.
    ReleaseUsesAttempt,
    /// One job more than the limit is in flight of a queue.
    InFlightOffByOne,
    /// A rate limit begins full after a restart.
    RateFullAfterRestart,
    /// A rate limit that has a token again has all of them.
    RateRefilledAtOnce,
    /// The rate limit of a group is forgotten when it has a token again.
    GroupRateForgotten,
    /// A shared limit holds back one of its queues only.
    SharedLimitHoldsOne,
    /// Only one queue's deliveries take tokens of a shared limit.
    SharedRateCountsOne,
    /// An open breaker lets jobs out.
    BreakerLetsOut,
    /// A breaker that is half open lets out more than one probe at a time.
    BreakerTwoProbes,
    /// A breaker is half open as soon as it opens.
    BreakerNeverCools,
    /// A restart forgets that breakers are open.
    BreakersForgottenByRestart,
}

/// Whether the mistake is made.
#[cfg(not(feature = "mutants"))]
#[must_use]
pub const fn active(_: Mutant) -> bool {
    false
}

#[cfg(feature = "mutants")]
mod switch {
    use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};

    use crate::Mutant;

    const NONE: u8 = u8::MAX;
    static MADE: AtomicU8 = AtomicU8::new(NONE);

    static REACHED: AtomicU64 = AtomicU64::new(0);
    const _: () = assert!(Mutant::ALL.len() <= u64::BITS as usize);

    /// Whether the mistake is made.
    #[must_use]
    pub fn active(mutant: Mutant) -> bool {
        let bit = 1 << mutant as u8;
        if REACHED.load(Ordering::Relaxed) & bit == 0 {
            REACHED.fetch_or(bit, Ordering::Relaxed);
        }
        MADE.load(Ordering::Relaxed) == mutant as u8
    }

    /// Mistakes whose places were come to: the others would have changed nothing.
    #[derive(Clone, Copy, Debug)]
    pub struct Reached(u64);

    impl Reached {
        /// All since it was last asked.
        pub fn take() -> Self {
            Self(REACHED.swap(0, Ordering::Relaxed))
        }

        /// Whether this one is among them.
        #[must_use]
        pub fn has(self, mutant: Mutant) -> bool {
            self.0 & 1 << mutant as u8 != 0
        }
    }

    /// From now on this mistake is made, in the whole process, and no other.
    pub fn make(mutant: Option<Mutant>) {
        MADE.store(mutant.map_or(NONE, |mutant| mutant as u8), Ordering::Relaxed);
    }
}

#[cfg(feature = "mutants")]
pub use switch::{Reached, active, make};
