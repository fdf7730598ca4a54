//! The policy of a queue: what was set ([`QueueOptions`]) and what holds ([`Settings`]).

use alloc::boxed::Box;
use alloc::vec::Vec;

use minicbor::{Decode, Encode};

/// How long a received job stays hidden.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub enum Visibility {
    /// Chosen by the server, from how long jobs of the type take; 30 s before it knows.
    #[n(0)]
    #[default]
    Auto,
    /// As set, in milliseconds.
    #[n(1)]
    Fixed(#[n(0)] u64),
}

/// Visibility timeout of `auto` before there are measurements, in milliseconds.
pub const AUTO_VISIBILITY_MS: u64 = 30_000;

impl Visibility {
    /// The timeout in milliseconds, before there are measurements.
    #[must_use]
    pub fn ms(self) -> u64 {
        match self {
            Self::Auto => AUTO_VISIBILITY_MS,
            Self::Fixed(ms) => ms,
        }
    }
}

/// How the wait before the next attempt grows.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum BackoffCurve {
    /// Always `base`.
    #[n(0)]
    Fixed {
        /// The wait in milliseconds.
        #[n(0)]
        base_ms: u64,
    },
    /// `base * factor^(attempt - 1)`, at most `max`.
    #[n(1)]
    Exponential {
        /// Wait after the first failure, in milliseconds.
        #[n(0)]
        base_ms: u64,
        /// Thousandths: 4000 is a factor of 4.
        #[n(1)]
        factor_milli: u64,
        /// Longest wait, in milliseconds.
        #[n(2)]
        max_ms: u64,
    },
    /// One wait an attempt; the last one repeats.
    #[n(2)]
    List {
        /// Waits in milliseconds, never empty.
        #[n(0)]
        delays_ms: Vec<u64>,
    },
}

/// How much of a wait is random.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Jitter {
    /// The wait as computed.
    #[n(0)]
    None,
    /// Uniform between 0 and the wait.
    #[n(1)]
    Full,
    /// Half the wait, and uniform between 0 and the other half.
    #[n(2)]
    Equal,
}

/// The wait between attempts.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Backoff {
    /// How it grows.
    #[n(0)]
    pub curve: BackoffCurve,
    /// How much of it is random.
    #[n(1)]
    pub jitter: Jitter,
}

/// What a number takes in the log at most, in bytes.
pub(crate) const NUMBER_BYTES_MAX: usize = 9;

impl Backoff {
    /// Upper bound of it in the log, in bytes.
    #[must_use]
    pub fn bytes_max(&self) -> usize {
        let delays = match &self.curve {
            BackoffCurve::Fixed { .. } | BackoffCurve::Exponential { .. } => 0,
            BackoffCurve::List { delays_ms } => delays_ms.len(),
        };
        (delays + 4) * NUMBER_BYTES_MAX
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            curve: BackoffCurve::Exponential { base_ms: 10_000, factor_milli: 4_000, max_ms: 3_600_000 },
            jitter: Jitter::Equal,
        }
    }
}

/// Deliveries in a time: a bucket of `burst` tokens, one for each delivery, that is refilled evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct RateLimit {
    /// So many deliveries ..
    #[n(0)]
    pub jobs: u32,
    /// .. in so many milliseconds.
    #[n(1)]
    pub per_ms: u64,
    /// So many at once after a pause.
    #[n(2)]
    pub burst: u32,
}

/// When a circuit breaker opens, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct BreakerOptions {
    /// Share of ended attempts that failed, in thousandths, from which on it opens.
    #[n(0)]
    pub failure_milli: u32,
    /// Attempts that ended within so many milliseconds count.
    #[n(1)]
    pub window_ms: u64,
    /// It takes so many to open.
    #[n(2)]
    pub min_jobs: u32,
    /// It stays open for so many milliseconds.
    #[n(3)]
    pub cool_down_ms: u64,
}

/// A shared limit as set: what several queues that meet at one provider or pool may do together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct LimitOptions {
    /// Jobs of all its queues in flight.
    #[n(0)]
    pub max_in_flight: Option<u32>,
    /// Deliveries of all its queues.
    #[n(1)]
    pub rate: Option<RateLimit>,
    /// Failures of all its queues.
    #[n(2)]
    pub breaker: Option<BreakerOptions>,
}

/// What happens to an ordered group when its head dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum OnDead {
    /// The next job of the group goes on.
    #[n(0)]
    Continue,
    /// The group waits until the dead job is replayed or discarded.
    #[n(1)]
    Block,
}

/// `groups` as set; `None` is the default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct GroupOptions {
    /// Strict order within a group.
    #[n(0)]
    pub ordered: Option<bool>,
    /// Groups take turns.
    #[n(1)]
    pub fair: Option<bool>,
    /// Jobs in flight of one group.
    #[n(2)]
    pub max_in_flight: Option<u32>,
    /// For ordered groups.
    #[n(3)]
    pub on_dead: Option<OnDead>,
}

/// `keepCompleted` as set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct KeepOptions {
    /// How long a finished job is kept.
    #[n(0)]
    pub for_ms: Option<u64>,
    /// How many are kept.
    #[n(1)]
    pub max: Option<u64>,
}

/// `idempotency` as set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct IdempotencyOptions {
    /// How long a saved result is kept after completion.
    #[n(0)]
    pub keep_ms: Option<u64>,
    /// Keys a queue may hold.
    #[n(1)]
    pub max: Option<u64>,
    /// Jobs without a key are refused.
    #[n(2)]
    pub required: Option<bool>,
}

/// `deadLetter` as set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct DeadLetterOptions {
    /// Who answers for dead jobs; the queue's owner when absent.
    #[n(0)]
    pub owner: Option<Box<str>>,
    /// How often one job may be replayed.
    #[n(1)]
    pub max_replays: Option<u32>,
    /// Dead jobs at which producers are refused.
    #[n(2)]
    pub max: Option<u64>,
    /// What to do about them.
    #[n(3)]
    pub runbook: Option<Runbook>,
}

/// What people do about dead jobs: review, correct, replay, discard.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Runbook {
    /// The address of a page.
    #[n(0)]
    Link(#[n(0)] Box<str>),
    /// The text itself.
    #[n(1)]
    Markdown(#[n(0)] Box<str>),
}

impl DeadLetterOptions {
    /// The bytes of its texts.
    pub(crate) fn text_bytes(&self) -> usize {
        let runbook = match &self.runbook {
            Some(Runbook::Link(text) | Runbook::Markdown(text)) => text.len(),
            None => 0,
        };
        self.owner.as_deref().map_or(0, str::len) + runbook
    }
}

/// What becomes of a job that holds what it should not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum OnFinding {
    /// It is refused.
    #[n(0)]
    Reject,
    /// It is taken and counted.
    #[n(1)]
    Warn,
    /// Nobody looks.
    #[n(2)]
    Off,
}

/// `payload` as set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct PayloadOptions {
    /// Largest payload in bytes.
    #[n(0)]
    pub max_size_bytes: Option<u64>,
    /// Secrets.
    #[n(1)]
    pub secrets: Option<OnFinding>,
    /// Data about people.
    #[n(2)]
    pub personal_data: Option<OnFinding>,
    /// Fields (JSON pointers from the job) that may hold anything.
    #[n(3)]
    pub allow: Option<Vec<Box<str>>>,
    /// Only types with a schema.
    #[n(4)]
    pub require_schema: Option<bool>,
    /// Jobs without a business id are refused.
    #[n(5)]
    pub require_business_id: Option<bool>,
}

impl PayloadOptions {
    /// The bytes of its texts.
    pub(crate) fn text_bytes(&self) -> usize {
        const TEXT_BYTES: usize = 3;
        self.allow.iter().flatten().map(|pointer| pointer.len() + TEXT_BYTES).sum()
    }
}

/// What was set for a queue; `None` means the default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct QueueOptions {
    /// E-mail or name.
    #[n(0)]
    pub owner: Option<Box<str>>,
    /// How long a received job stays hidden.
    #[n(1)]
    pub visibility: Option<Visibility>,
    /// Longest run of one attempt.
    #[n(2)]
    pub timeout_ms: Option<u64>,
    /// Attempts without success before a job is dead.
    #[n(3)]
    pub max_attempts: Option<u32>,
    /// Hand-outs before a job is dead, whatever became of them.
    #[n(4)]
    pub max_deliveries: Option<u32>,
    /// Wait between attempts.
    #[n(5)]
    pub backoff: Option<Backoff>,
    /// Jobs in flight across all workers.
    #[n(6)]
    pub max_in_flight: Option<u32>,
    /// Waiting and in-flight jobs at which producers are refused.
    #[n(7)]
    pub max_depth: Option<u64>,
    /// Groups.
    #[n(8)]
    pub groups: Option<GroupOptions>,
    /// Finished jobs.
    #[n(9)]
    pub keep_completed: Option<KeepOptions>,
    /// Idempotency keys.
    #[n(10)]
    pub idempotency: Option<IdempotencyOptions>,
    /// Dead-letter queue.
    #[n(11)]
    pub dead_letter: Option<DeadLetterOptions>,
    /// Payloads.
    #[n(12)]
    pub payload: Option<PayloadOptions>,
    /// What SQS adds; a configuration without it leaves what is there.
    #[n(13)]
    pub sqs: Option<Box<SqsQueue>>,
    /// What holds deliveries back beside what is in flight.
    #[n(14)]
    pub pace: Option<Box<PaceOptions>>,
}

/// What holds deliveries back, as set; `None` is nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct PaceOptions {
    /// Deliveries.
    #[n(0)]
    pub rate: Option<RateLimit>,
    /// Deliveries of one group.
    #[n(1)]
    pub group_rate: Option<RateLimit>,
    /// Names of shared limits.
    #[n(2)]
    pub limits: Option<Vec<Box<str>>>,
    /// Circuit breaker.
    #[n(3)]
    pub breaker: Option<BreakerOptions>,
}

impl PaceOptions {
    /// Kept only where something is set.
    #[must_use]
    pub fn boxed(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }
}

/// What a queue has through SQS: the rules that the core keeps, and what its clients stored with it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct SqsQueue {
    /// A FIFO queue: ordered by group, with the locks and late settles of the service.
    #[n(0)]
    pub fifo: Option<Fifo>,
    /// So long after it was enqueued an unfinished job expires. Such a queue has neither `maxAttempts` nor
    /// `maxDeliveries` unless they are set.
    #[n(1)]
    pub retention_ms: Option<u64>,
    /// Where a job goes that was received too often.
    #[n(2)]
    pub redrive: Option<Redrive>,
    /// Attributes and tags as the edge keeps them; the core does not look into them.
    #[n(3)]
    #[cbor(with = "minicbor::bytes")]
    pub edge: Vec<u8>,
}

/// See [`SqsQueue::fifo`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Fifo {
    /// Deduplication keys are unique in a group, not in the queue.
    #[n(0)]
    pub dedup_in_group: bool,
}

/// Hand-off of what keeps failing to another queue.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Redrive {
    /// Name of the queue that takes it; while there is none of that name, jobs stay.
    #[n(0)]
    pub target: Box<str>,
    /// So many receives without success.
    #[n(1)]
    pub max_receives: u32,
}

impl QueueOptions {
    /// Upper bound of them in the log, in bytes.
    #[must_use]
    pub fn bytes_max(&self) -> usize {
        const FIXED_BYTES_MAX: usize = 400;
        let owner = self.owner.as_deref().map_or(0, str::len);
        let dead_letter = self.dead_letter.as_ref().map_or(0, DeadLetterOptions::text_bytes);
        let sqs = self.sqs.as_ref().map_or(0, |sqs| {
            sqs.edge.len() + sqs.redrive.as_ref().map_or(0, |redrive| redrive.target.len()) + 4 * NUMBER_BYTES_MAX
        });
        let allow = self.payload.as_ref().map_or(0, PayloadOptions::text_bytes);
        let limits = self.limit_bytes();
        FIXED_BYTES_MAX
            + owner
            + dead_letter
            + allow
            + limits
            + sqs
            + self.backoff.as_ref().map_or(0, Backoff::bytes_max)
    }
}

impl QueueOptions {
    /// The bytes of the names of its limits.
    pub(crate) fn limit_bytes(&self) -> usize {
        const TEXT_BYTES: usize = 3;
        let limits = self.pace.iter().filter_map(|pace| pace.limits.as_ref()).flatten();
        limits.map(|name| name.len() + TEXT_BYTES).sum()
    }
}

/// What holds for a queue: its own options over the server's defaults over the product's.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the same words as in `QueueOptions`
pub struct Settings {
    pub owner: Option<Box<str>>,
    pub visibility: Visibility,
    pub timeout_ms: Option<u64>,
    pub max_attempts: u32,
    pub max_deliveries: u32,
    pub backoff: Backoff,
    pub max_in_flight: Option<u32>,
    pub max_depth: u64,
    pub ordered: bool,
    pub fair: bool,
    pub group_max_in_flight: Option<u32>,
    pub on_dead: OnDead,
    pub group_rate: Option<RateLimit>,
    pub rate: Option<RateLimit>,
    pub limits: Vec<Box<str>>,
    pub breaker: Option<BreakerOptions>,
    pub keep_for_ms: u64,
    pub keep_max: u64,
    pub key_keep_ms: u64,
    pub key_max: u64,
    pub dead_owner: Option<Box<str>>,
    pub max_replays: u32,
    pub dead_max: u64,
    pub runbook: Option<Runbook>,
    pub payload_max_bytes: u64,
    pub fifo: Option<Fifo>,
    pub retention_ms: Option<u64>,
    pub redrive: Option<Redrive>,
    pub secrets: OnFinding,
    pub personal_data: OnFinding,
    pub allow: Vec<Box<str>>,
    pub require_schema: bool,
    pub require_business_id: bool,
    pub require_key: bool,
}

impl Settings {
    /// Finished jobs that are kept at most.
    pub(crate) fn kept_max(&self) -> u64 {
        if self.keep_for_ms == 0 { 0 } else { self.keep_max }
    }
}

/// `maxAttempts` and `maxDeliveries` of a queue whose retention ends its jobs.
pub const UNLIMITED: u32 = u32::MAX;

/// The longest body of SQS as a JSON string, every byte of it escaped. How long it may be in itself is looked at by the
/// edge, which knows it before it is one.
const BODY_BYTES_MAX: u64 = 2 * (1 << 20) + 2;

/// Largest value of `maxDeliveries`.
pub const MAX_DELIVERIES_MAX: u32 = 10_000;

impl QueueOptions {
    /// Resolves these options over `defaults` (`[defaults]` of the configuration file).
    #[must_use]
    pub fn settings(&self, defaults: &Self) -> Settings {
        macro_rules! pick {
            ($field:ident) => {
                self.$field.clone().or_else(|| defaults.$field.clone())
            };
            ($outer:ident . $field:ident) => {{
                let own = self.$outer.as_ref().and_then(|o| o.$field.clone());
                own.or_else(|| defaults.$outer.as_ref().and_then(|o| o.$field.clone()))
            }};
        }
        let sqs = self.sqs.as_deref();
        let retention_ms = sqs.and_then(|sqs| sqs.retention_ms);
        let max_attempts = match retention_ms {
            Some(_) => self.max_attempts.unwrap_or(UNLIMITED),
            None => pick!(max_attempts).unwrap_or(5),
        };
        let owner = pick!(owner);
        Settings {
            visibility: pick!(visibility).unwrap_or(Visibility::Auto),
            timeout_ms: pick!(timeout_ms),
            max_attempts,
            max_deliveries: self.max_deliveries_set(defaults).unwrap_or_else(|| deliveries_for(max_attempts)),
            backoff: pick!(backoff).unwrap_or_default(),
            max_in_flight: pick!(max_in_flight),
            max_depth: pick!(max_depth).unwrap_or(1_000_000),
            ordered: sqs.is_some_and(|sqs| sqs.fifo.is_some()) || pick!(groups.ordered).unwrap_or(false),
            fair: pick!(groups.fair).unwrap_or(true),
            group_max_in_flight: pick!(groups.max_in_flight),
            on_dead: pick!(groups.on_dead).unwrap_or(OnDead::Continue),
            group_rate: pick!(pace.group_rate),
            rate: pick!(pace.rate),
            limits: pick!(pace.limits).unwrap_or_default(),
            breaker: pick!(pace.breaker),
            keep_for_ms: pick!(keep_completed.for_ms).unwrap_or(3_600_000),
            keep_max: pick!(keep_completed.max).unwrap_or(10_000),
            key_keep_ms: pick!(idempotency.keep_ms).unwrap_or(24 * 3_600_000),
            key_max: pick!(idempotency.max).unwrap_or(1_000_000),
            dead_owner: pick!(dead_letter.owner).or_else(|| owner.clone()),
            max_replays: pick!(dead_letter.max_replays).unwrap_or(3),
            dead_max: pick!(dead_letter.max).unwrap_or(1_000_000),
            runbook: pick!(dead_letter.runbook),
            payload_max_bytes: match retention_ms {
                Some(_) => self.payload.as_ref().and_then(|payload| payload.max_size_bytes).unwrap_or(BODY_BYTES_MAX),
                None => pick!(payload.max_size_bytes).unwrap_or(64 * 1024),
            },
            fifo: sqs.and_then(|sqs| sqs.fifo),
            retention_ms,
            redrive: sqs.and_then(|sqs| sqs.redrive.clone()),
            secrets: pick!(payload.secrets).unwrap_or(match retention_ms {
                Some(_) => OnFinding::Warn,
                None => OnFinding::Reject,
            }),
            personal_data: pick!(payload.personal_data).unwrap_or(OnFinding::Warn),
            allow: pick!(payload.allow).unwrap_or_default(),
            require_schema: pick!(payload.require_schema).unwrap_or(false),
            require_business_id: pick!(payload.require_business_id).unwrap_or(false),
            require_key: pick!(idempotency.required).unwrap_or(false),
            owner,
        }
    }

    /// `maxDeliveries` where it is set.
    pub(crate) fn max_deliveries_set(&self, defaults: &Self) -> Option<u32> {
        let retains = self.sqs.as_ref().is_some_and(|sqs| sqs.retention_ms.is_some());
        self.max_deliveries.or_else(|| defaults.max_deliveries.filter(|_| !retains))
    }
}

/// Ten hand-outs an attempt, where nothing is set.
pub(crate) fn deliveries_for(max_attempts: u32) -> u32 {
    if max_attempts == UNLIMITED { UNLIMITED } else { max_attempts.saturating_mul(10).min(MAX_DELIVERIES_MAX) }
}

/// What a job sets for itself over its queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Overrides {
    /// Attempts without success before the job is dead.
    #[n(0)]
    pub max_attempts: Option<u32>,
    /// Wait between attempts.
    #[n(1)]
    pub backoff: Option<Backoff>,
    /// How long it stays hidden.
    #[n(2)]
    pub visibility: Option<Visibility>,
    /// Longest run of one attempt.
    #[n(3)]
    pub timeout_ms: Option<u64>,
}

/// Who made a queue's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Source {
    /// The first enqueue or receive.
    #[n(0)]
    Auto,
    /// `PUT /v1/queues/{q}`.
    #[n(1)]
    Api,
    /// A section of the configuration file.
    #[n(2)]
    File,
}
