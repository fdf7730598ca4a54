//! The fields of a queue's options, and how they are written.

use recado_core::{
    Backoff, BackoffCurve, BreakerOptions, Jitter, LimitOptions, OnDead, OnFinding, QueueOptions, RateLimit, Runbook,
    Settings, Visibility,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{duration, size};

/// Options of a queue; what is left out has its default.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = QueueOptions)]
pub(crate) struct OptionsBody {
    /// E-mail or name of who answers for the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<String>,
    /// `"auto"` (default) or 100ms to 12h.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) visibility_timeout: Option<String>,
    /// 1s to 7d: longest run of one attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timeout: Option<String>,
    /// 1 to 1000; 5 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_attempts: Option<u64>,
    /// 1 to 10000; 10 x maxAttempts by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_deliveries: Option<u64>,
    /// Wait between attempts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) backoff: Option<BackoffBody>,
    /// Jobs in flight across all workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_in_flight: Option<u64>,
    /// Deliveries: a token bucket, refilled evenly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rate_limit: Option<RateBody>,
    /// Names of shared limits that hold for this queue too, at most 8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) limits: Option<Vec<String>>,
    /// Circuit breaker; off by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) breaker: Option<BreakerBody>,
    /// Waiting and in-flight jobs at which producers are refused; 1,000,000 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_depth: Option<u64>,
    /// Groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) groups: Option<GroupsBody>,
    /// Finished jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) keep_completed: Option<KeepField>,
    /// Idempotency keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) idempotency: Option<IdempotencyBody>,
    /// Dead-letter queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) dead_letter: Option<DeadLetterBody>,
    /// Payloads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) payload: Option<PayloadBody>,
}

/// Deliveries in a time: a bucket of tokens, refilled evenly.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = RateLimit)]
pub(crate) struct RateBody {
    /// 1 to 1,000,000 deliveries ..
    pub(crate) jobs: u64,
    /// .. in 1ms to 31d.
    pub(crate) per: String,
    /// So many at once after a pause; `jobs` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) burst: Option<u64>,
}

/// Nothing is handed out while too many attempts fail, then one job at a time as a probe.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = BreakerOptions)]
pub(crate) struct BreakerBody {
    /// Share of failures from which on it opens, 0.001 to 1; 0.5 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failure_rate: Option<f64>,
    /// Attempts that ended within it count, 1s to 1h; `30s` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) window: Option<String>,
    /// It takes so many to open; 20 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) min_jobs: Option<u64>,
    /// How long it stays open, 100ms to 1d; `30s` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cool_down: Option<String>,
}

/// What queues that name a shared limit may do together.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = LimitOptions)]
pub(crate) struct LimitBody {
    /// Jobs of all its queues in flight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_in_flight: Option<u64>,
    /// Deliveries of all its queues.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rate_limit: Option<RateBody>,
    /// Circuit breaker over all its queues.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) breaker: Option<BreakerBody>,
}

/// Wait between attempts.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Backoff)]
pub(crate) struct BackoffBody {
    /// `exponential` (default), `fixed` or `list`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<BackoffKind>,
    /// First wait (exponential, `10s` by default) or every wait (fixed).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) base: Option<String>,
    /// How much longer each next wait is (exponential), 1 to 100; 4 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) factor: Option<f64>,
    /// Longest wait (exponential); `1h` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max: Option<String>,
    /// One wait an attempt, the last one repeats (list).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) delays: Option<Vec<String>>,
    /// How much of a wait is random; `equal` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) jitter: Option<JitterWord>,
}

/// How a wait grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum BackoffKind {
    /// Always the same.
    Fixed,
    /// Times `factor` each time.
    Exponential,
    /// As listed.
    List,
}

/// How much of a wait is random.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Jitter)]
pub(crate) enum JitterWord {
    /// Nothing.
    None,
    /// All of it.
    Full,
    /// Half of it.
    Equal,
}

/// Groups.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = GroupOptions)]
pub(crate) struct GroupsBody {
    /// Strict order within a group; false by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ordered: Option<bool>,
    /// Groups with ready jobs take turns; true by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fair: Option<bool>,
    /// Jobs in flight of one group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_in_flight: Option<u64>,
    /// Deliveries of one group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rate_limit: Option<RateBody>,
    /// What an ordered group does when its head dies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) on_dead: Option<OnDeadWord>,
}

/// What an ordered group does when its head dies.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = OnDead)]
pub(crate) enum OnDeadWord {
    /// The next job goes on.
    Continue,
    /// It waits for a replay or discard.
    Block,
}

/// How long finished jobs are kept: `{for, max}`, or a plain duration.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = KeepCompleted)]
pub(crate) enum KeepField {
    /// Short for `for`.
    For(String),
    /// Both.
    Both(KeepBody),
}

/// How long finished jobs are kept, and how many.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = KeepCompletedBoth)]
pub(crate) struct KeepBody {
    /// How long; `1h` by default.
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    pub(crate) for_: Option<String>,
    /// How many; 10,000 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max: Option<u64>,
}

impl<'de> Deserialize<'de> for KeepField {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text_or(deserializer, "a duration or {for, max}", Self::For, Self::Both)
    }
}

/// Reads a text or an object. Serde's own way of doing so would not say which field of the object is wrong.
fn text_or<'de, D: serde::Deserializer<'de>, B: Deserialize<'de>, F>(
    deserializer: D,
    expected: &'static str,
    short: fn(String) -> F,
    long: fn(B) -> F,
) -> Result<F, D::Error> {
    struct Either<B, F> {
        expected: &'static str,
        short: fn(String) -> F,
        long: fn(B) -> F,
    }
    impl<'de, B: Deserialize<'de>, F> serde::de::Visitor<'de> for Either<B, F> {
        type Value = F;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(self.expected)
        }

        fn visit_str<E>(self, text: &str) -> Result<F, E> {
            Ok((self.short)(text.to_owned()))
        }

        fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<F, A::Error> {
            B::deserialize(serde::de::value::MapAccessDeserializer::new(map)).map(self.long)
        }
    }
    deserializer.deserialize_any(Either { expected, short, long })
}

/// Idempotency keys.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = IdempotencyOptions)]
pub(crate) struct IdempotencyBody {
    /// How long a result is kept after completion; `24h` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) keep: Option<String>,
    /// Keys the queue may hold; 1,000,000 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max: Option<u64>,
    /// Jobs without an idempotency key are refused; false by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) required: Option<bool>,
}

/// Dead-letter queue.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = DeadLetterOptions)]
pub(crate) struct DeadLetterBody {
    /// Who answers for dead jobs; the queue's owner by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<String>,
    /// How often one job may be replayed; 3 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_replays: Option<u64>,
    /// Dead jobs at which producers are refused; 1,000,000 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max: Option<u64>,
    /// What people do about them: review, correct, replay, discard.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) runbook: Option<RunbookField>,
}

/// What people do about dead jobs: the address of a page, or `{markdown}`.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = Runbook)]
pub(crate) enum RunbookField {
    /// http or https.
    Link(String),
    /// The text itself.
    Text(RunbookBody),
}

/// The text of a runbook.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = RunbookText)]
pub(crate) struct RunbookBody {
    /// Up to 32 KiB.
    pub(crate) markdown: String,
}

impl<'de> Deserialize<'de> for RunbookField {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text_or(deserializer, "an address or {markdown}", Self::Link, Self::Text)
    }
}

impl From<&Runbook> for RunbookField {
    fn from(runbook: &Runbook) -> Self {
        match runbook {
            Runbook::Link(link) => Self::Link(link.to_string()),
            Runbook::Markdown(text) => Self::Text(RunbookBody { markdown: text.to_string() }),
        }
    }
}

/// Payloads.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = PayloadOptions)]
pub(crate) struct PayloadBody {
    /// Largest payload, at most `1MiB`; `64KiB` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_size: Option<String>,
    /// What becomes of a job with a secret in it; `reject` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) secrets: Option<OnFindingWord>,
    /// What becomes of a job with data about people in it; `warn` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) personal_data: Option<OnFindingWord>,
    /// Fields that may hold anything: JSON pointers from the job, `*` for any one part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) allow: Option<Vec<String>>,
    /// Only types and versions with a schema are taken; false by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) require_schema: Option<bool>,
    /// Jobs without a business id are refused; false by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) require_business_id: Option<bool>,
}

/// What becomes of a job that holds what it should not.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = OnFinding)]
pub(crate) enum OnFindingWord {
    /// It is refused.
    Reject,
    /// It is taken and counted.
    Warn,
    /// Nobody looks.
    Off,
}

impl From<OnFinding> for OnFindingWord {
    fn from(on: OnFinding) -> Self {
        match on {
            OnFinding::Reject => Self::Reject,
            OnFinding::Warn => Self::Warn,
            OnFinding::Off => Self::Off,
        }
    }
}

impl From<OnFindingWord> for OnFinding {
    fn from(word: OnFindingWord) -> Self {
        match word {
            OnFindingWord::Reject => Self::Reject,
            OnFindingWord::Warn => Self::Warn,
            OnFindingWord::Off => Self::Off,
        }
    }
}

fn texts(texts: &[Box<str>]) -> Vec<String> {
    texts.iter().map(|text| text.to_string()).collect()
}

fn visibility_text(visibility: Visibility) -> String {
    match visibility {
        Visibility::Auto => "auto".to_owned(),
        Visibility::Fixed(ms) => duration::text(ms),
    }
}

impl From<RateLimit> for RateBody {
    fn from(rate: RateLimit) -> Self {
        let burst = (rate.burst != rate.jobs).then_some(u64::from(rate.burst));
        Self { jobs: u64::from(rate.jobs), per: duration::text(rate.per_ms), burst }
    }
}

impl From<BreakerOptions> for BreakerBody {
    fn from(breaker: BreakerOptions) -> Self {
        Self {
            failure_rate: Some(f64::from(breaker.failure_milli) / 1_000.0),
            window: Some(duration::text(breaker.window_ms)),
            min_jobs: Some(u64::from(breaker.min_jobs)),
            cool_down: Some(duration::text(breaker.cool_down_ms)),
        }
    }
}

impl From<&LimitOptions> for LimitBody {
    fn from(options: &LimitOptions) -> Self {
        Self {
            max_in_flight: options.max_in_flight.map(u64::from),
            rate_limit: options.rate.map(RateBody::from),
            breaker: options.breaker.map(BreakerBody::from),
        }
    }
}

fn on_dead_word(on_dead: OnDead) -> OnDeadWord {
    match on_dead {
        OnDead::Continue => OnDeadWord::Continue,
        OnDead::Block => OnDeadWord::Block,
    }
}

impl From<&Backoff> for BackoffBody {
    fn from(backoff: &Backoff) -> Self {
        let jitter = Some(match backoff.jitter {
            Jitter::None => JitterWord::None,
            Jitter::Full => JitterWord::Full,
            Jitter::Equal => JitterWord::Equal,
        });
        match &backoff.curve {
            BackoffCurve::Fixed { base_ms } => {
                Self { kind: Some(BackoffKind::Fixed), base: Some(duration::text(*base_ms)), jitter, ..Self::default() }
            }
            BackoffCurve::Exponential { base_ms, factor_milli, max_ms } => Self {
                kind: Some(BackoffKind::Exponential),
                base: Some(duration::text(*base_ms)),
                factor: Some(*factor_milli as f64 / 1_000.0),
                max: Some(duration::text(*max_ms)),
                delays: None,
                jitter,
            },
            BackoffCurve::List { delays_ms } => Self {
                kind: Some(BackoffKind::List),
                delays: Some(delays_ms.iter().map(|ms| duration::text(*ms)).collect()),
                jitter,
                ..Self::default()
            },
        }
    }
}

impl From<&QueueOptions> for OptionsBody {
    fn from(options: &QueueOptions) -> Self {
        let pace = options.pace.as_deref();
        Self {
            owner: options.owner.as_deref().map(str::to_owned),
            visibility_timeout: options.visibility.map(visibility_text),
            timeout: options.timeout_ms.map(duration::text),
            max_attempts: options.max_attempts.map(u64::from),
            max_deliveries: options.max_deliveries.map(u64::from),
            backoff: options.backoff.as_ref().map(BackoffBody::from),
            max_in_flight: options.max_in_flight.map(u64::from),
            rate_limit: pace.and_then(|pace| pace.rate).map(RateBody::from),
            limits: pace.and_then(|pace| pace.limits.as_deref()).map(texts),
            breaker: pace.and_then(|pace| pace.breaker).map(BreakerBody::from),
            max_depth: options.max_depth,
            groups: options.groups.as_ref().map(|groups| GroupsBody {
                ordered: groups.ordered,
                fair: groups.fair,
                max_in_flight: groups.max_in_flight.map(u64::from),
                rate_limit: pace.and_then(|pace| pace.group_rate).map(RateBody::from),
                on_dead: groups.on_dead.map(on_dead_word),
            }),
            keep_completed: options
                .keep_completed
                .as_ref()
                .map(|keep| KeepField::Both(KeepBody { for_: keep.for_ms.map(duration::text), max: keep.max })),
            idempotency: options.idempotency.as_ref().map(|keys| IdempotencyBody {
                keep: keys.keep_ms.map(duration::text),
                max: keys.max,
                required: keys.required,
            }),
            dead_letter: options.dead_letter.as_ref().map(|dead| DeadLetterBody {
                owner: dead.owner.as_deref().map(str::to_owned),
                max_replays: dead.max_replays.map(u64::from),
                max: dead.max,
                runbook: dead.runbook.as_ref().map(RunbookField::from),
            }),
            payload: options.payload.as_ref().map(|payload| PayloadBody {
                max_size: payload.max_size_bytes.map(size::text),
                secrets: payload.secrets.map(Into::into),
                personal_data: payload.personal_data.map(Into::into),
                allow: payload.allow.as_deref().map(texts),
                require_schema: payload.require_schema,
                require_business_id: payload.require_business_id,
            }),
        }
    }
}

/// A queue whose retention ends its jobs has no such limit.
fn limited(count: u32) -> Option<u64> {
    (count != recado_core::UNLIMITED).then_some(count.into())
}

impl From<&Settings> for OptionsBody {
    fn from(settings: &Settings) -> Self {
        Self {
            owner: settings.owner.as_deref().map(str::to_owned),
            visibility_timeout: Some(visibility_text(settings.visibility)),
            timeout: settings.timeout_ms.map(duration::text),
            max_attempts: limited(settings.max_attempts),
            max_deliveries: limited(settings.max_deliveries),
            backoff: Some(BackoffBody::from(&settings.backoff)),
            max_in_flight: settings.max_in_flight.map(u64::from),
            rate_limit: settings.rate.map(RateBody::from),
            limits: Some(texts(&settings.limits)),
            breaker: settings.breaker.map(BreakerBody::from),
            max_depth: Some(settings.max_depth),
            groups: Some(GroupsBody {
                ordered: Some(settings.ordered),
                fair: Some(settings.fair),
                max_in_flight: settings.group_max_in_flight.map(u64::from),
                rate_limit: settings.group_rate.map(RateBody::from),
                on_dead: Some(on_dead_word(settings.on_dead)),
            }),
            keep_completed: Some(KeepField::Both(KeepBody {
                for_: Some(duration::text(settings.keep_for_ms)),
                max: Some(settings.keep_max),
            })),
            idempotency: Some(IdempotencyBody {
                keep: Some(duration::text(settings.key_keep_ms)),
                max: Some(settings.key_max),
                required: Some(settings.require_key),
            }),
            dead_letter: Some(DeadLetterBody {
                owner: settings.dead_owner.as_deref().map(str::to_owned),
                max_replays: Some(settings.max_replays.into()),
                max: Some(settings.dead_max),
                runbook: settings.runbook.as_ref().map(RunbookField::from),
            }),
            payload: Some(PayloadBody {
                max_size: Some(size::text(settings.payload_max_bytes)),
                secrets: Some(settings.secrets.into()),
                personal_data: Some(settings.personal_data.into()),
                allow: Some(texts(&settings.allow)),
                require_schema: Some(settings.require_schema),
                require_business_id: Some(settings.require_business_id),
            }),
        }
    }
}
