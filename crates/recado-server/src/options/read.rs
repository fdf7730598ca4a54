//! How options are read: ranges of the contract, every fault named.

use recado_contract::gate::check_allow;
use recado_core::{
    Backoff, BackoffCurve, BreakerOptions, DeadLetterOptions, GroupOptions, IdempotencyOptions, Jitter, KeepOptions,
    LimitOptions, OnDead, PaceOptions, PayloadOptions, QUEUE_LIMITS_MAX, QueueOptions, RateLimit, Runbook, Visibility,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::FieldError;
use super::body::{
    BackoffBody, BackoffKind, BreakerBody, JitterWord, KeepBody, KeepField, LimitBody, OnDeadWord, OptionsBody,
    RateBody, RunbookBody, RunbookField,
};
use crate::faults::Faults;
use crate::json;
use crate::limits::{
    ATTEMPTS_MAX, BACKOFF_DELAYS_MAX, BACKOFF_FACTOR, BREAKER_JOBS_MAX, BREAKER_WINDOW_MS, COOL_DOWN_MS, DELAY_MS_MAX,
    KEY_BYTES_MAX, PAYLOAD_BYTES_MAX, RATE_JOBS_MAX, RATE_PER_MS, TIMEOUT_MS, VISIBILITY_MS,
};
use crate::{duration, size};

const DELIVERIES_MAX: u64 = recado_core::MAX_DELIVERIES_MAX as u64;
const IN_FLIGHT_MAX: u64 = 1_000_000;
/// Jobs, keys or dead jobs of one queue.
const COUNT_MAX: u64 = 1_000_000_000;
const REPLAYS_MAX: u64 = 1_000;
/// A web address, in bytes.
const LINK_BYTES_MAX: usize = 2 << 10;
/// The text of a runbook, in bytes.
const RUNBOOK_BYTES_MAX: usize = 32 << 10;

/// Reads the options of a queue.
pub(super) fn options(value: &Value) -> Result<QueueOptions, Vec<FieldError>> {
    fields(value, convert)
}

/// Reads the options of a shared limit.
pub(super) fn limit(value: &Value) -> Result<LimitOptions, Vec<FieldError>> {
    fields(value, |body: LimitBody, faults| {
        if body.max_in_flight.is_none() && body.rate_limit.is_none() && body.breaker.is_none() {
            faults.at("", "a limit that limits nothing: set maxInFlight, rateLimit or breaker");
        }
        LimitOptions {
            max_in_flight: small(body.max_in_flight, "/maxInFlight", 1, IN_FLIGHT_MAX, faults),
            rate: body.rate_limit.and_then(|limit| rate(&limit, "/rateLimit", faults)),
            breaker: body.breaker.map(|body| breaker(&body, faults)),
        }
    })
}

/// Reads field by field, so that one bad field does not hide another.
fn fields<B: DeserializeOwned + Default, T>(
    value: &Value,
    convert: impl FnOnce(B, &mut Faults) -> T,
) -> Result<T, Vec<FieldError>> {
    let Value::Object(fields) = value else {
        let message = "expected an object of options".to_owned();
        return Err(vec![FieldError { message, ..FieldError::default() }]);
    };
    let mut faults = Faults::default();
    let mut good = Map::new();
    for (name, field) in fields {
        let alone = Value::Object(Map::from_iter([(name.clone(), field.clone())]));
        match json::from_value::<B>(&alone) {
            Ok(_) => drop(good.insert(name.clone(), field.clone())),
            Err(error) => faults.add(error),
        }
    }
    let body: B = json::from_value(&Value::Object(good)).unwrap_or_default();
    let options = convert(body, &mut faults);
    let errors = faults.into_errors();
    if errors.is_empty() { Ok(options) } else { Err(errors) }
}

fn convert(body: OptionsBody, faults: &mut Faults) -> QueueOptions {
    let group_rate = body.groups.as_ref().and_then(|groups| groups.rate_limit.as_ref());
    QueueOptions {
        owner: owner(body.owner, "/owner", faults),
        visibility: visibility(body.visibility_timeout.as_deref(), faults),
        timeout_ms: timeout(body.timeout.as_deref(), faults),
        max_attempts: small(body.max_attempts, "/maxAttempts", 1, ATTEMPTS_MAX, faults),
        max_deliveries: small(body.max_deliveries, "/maxDeliveries", 1, DELIVERIES_MAX, faults),
        backoff: body.backoff.map(|body| backoff(body, faults)),
        max_in_flight: small(body.max_in_flight, "/maxInFlight", 1, IN_FLIGHT_MAX, faults),
        pace: PaceOptions {
            rate: body.rate_limit.and_then(|limit| rate(&limit, "/rateLimit", faults)),
            group_rate: group_rate.and_then(|limit| rate(limit, "/groups/rateLimit", faults)),
            limits: body.limits.map(|names| limits(names, faults)),
            breaker: body.breaker.map(|body| breaker(&body, faults)),
        }
        .boxed(),
        max_depth: count(body.max_depth, "/maxDepth", 1, faults),
        groups: body.groups.map(|groups| GroupOptions {
            ordered: groups.ordered,
            fair: groups.fair,
            max_in_flight: small(groups.max_in_flight, "/groups/maxInFlight", 1, IN_FLIGHT_MAX, faults),
            on_dead: groups.on_dead.map(|word| match word {
                OnDeadWord::Continue => OnDead::Continue,
                OnDeadWord::Block => OnDead::Block,
            }),
        }),
        keep_completed: body.keep_completed.map(|keep| keep_completed(keep, faults)),
        idempotency: body.idempotency.map(|keys| IdempotencyOptions {
            keep_ms: time(keys.keep.as_deref(), "/idempotency/keep", (0, DELAY_MS_MAX), faults),
            max: count(keys.max, "/idempotency/max", 1, faults),
            required: keys.required,
        }),
        dead_letter: body.dead_letter.map(|dead| DeadLetterOptions {
            owner: owner(dead.owner, "/deadLetter/owner", faults),
            max_replays: small(dead.max_replays, "/deadLetter/maxReplays", 0, REPLAYS_MAX, faults),
            max: count(dead.max, "/deadLetter/max", 1, faults),
            runbook: dead.runbook.map(|field| runbook(field, faults)),
        }),
        // It is set through SQS; what is there stays.
        sqs: None,
        payload: body.payload.map(|payload| PayloadOptions {
            max_size_bytes: max_size(payload.max_size.as_deref(), faults),
            secrets: payload.secrets.map(Into::into),
            personal_data: payload.personal_data.map(Into::into),
            allow: payload.allow.map(|allow| {
                check_allow(&allow, "/payload/allow", faults);
                allow.into_iter().map(Into::into).collect()
            }),
            require_schema: payload.require_schema,
            require_business_id: payload.require_business_id,
        }),
    }
}

/// Reads `visibilityTimeout`, of a queue or of a job.
pub(crate) fn visibility(text: Option<&str>, faults: &mut Faults) -> Option<Visibility> {
    if text == Some("auto") {
        return Some(Visibility::Auto);
    }
    time(text, "/visibilityTimeout", VISIBILITY_MS, faults).map(Visibility::Fixed)
}

/// Reads a visibility timeout that cannot be `auto`, in milliseconds.
pub(crate) fn visibility_ms(text: Option<&str>, pointer: &str, faults: &mut Faults) -> Option<u64> {
    time(text, pointer, VISIBILITY_MS, faults)
}

/// Reads `timeout`, of a queue or of a job.
pub(crate) fn timeout(text: Option<&str>, faults: &mut Faults) -> Option<u64> {
    time(text, "/timeout", TIMEOUT_MS, faults)
}

/// Reads `maxAttempts` of a job.
pub(crate) fn max_attempts(value: Option<u64>, faults: &mut Faults) -> Option<u32> {
    small(value, "/maxAttempts", 1, ATTEMPTS_MAX, faults)
}

/// Reads `backoff`, of a queue or of a job.
pub(crate) fn backoff(body: BackoffBody, faults: &mut Faults) -> Backoff {
    let kind = body.kind.unwrap_or(BackoffKind::Exponential);
    let (exponential, list) = (kind == BackoffKind::Exponential, kind == BackoffKind::List);
    for (set, fits, pointer) in [
        (body.base.is_some(), !list, "/backoff/base"),
        (body.factor.is_some(), exponential, "/backoff/factor"),
        (body.max.is_some(), exponential, "/backoff/max"),
        (body.delays.is_some(), list, "/backoff/delays"),
    ] {
        if set && !fits {
            faults.at(
                pointer,
                "does not go with this kind: fixed has base; exponential has base, factor, max; list has delays",
            );
        }
    }
    let range = (0, DELAY_MS_MAX);
    let curve = match kind {
        BackoffKind::Fixed => {
            if body.base.is_none() {
                faults.at("/backoff/base", "a fixed backoff needs its base, as in \"10s\"");
            }
            BackoffCurve::Fixed {
                base_ms: time(body.base.as_deref(), "/backoff/base", range, faults).unwrap_or_default(),
            }
        }
        BackoffKind::Exponential => {
            let factor = body.factor.unwrap_or(4.0);
            if !(BACKOFF_FACTOR.0..=BACKOFF_FACTOR.1).contains(&factor) {
                faults.at("/backoff/factor", format!("must be from {} to {}", BACKOFF_FACTOR.0, BACKOFF_FACTOR.1));
            }
            BackoffCurve::Exponential {
                base_ms: time(body.base.as_deref(), "/backoff/base", range, faults).unwrap_or(10_000),
                factor_milli: (factor * 1_000.0).round() as u64,
                max_ms: time(body.max.as_deref(), "/backoff/max", range, faults).unwrap_or(3_600_000),
            }
        }
        BackoffKind::List => BackoffCurve::List { delays_ms: delays(&body.delays.unwrap_or_default(), faults) },
    };
    let jitter = match body.jitter.unwrap_or(JitterWord::Equal) {
        JitterWord::None => Jitter::None,
        JitterWord::Full => Jitter::Full,
        JitterWord::Equal => Jitter::Equal,
    };
    Backoff { curve, jitter }
}

/// Reads a rate limit; without `burst` it is as large as `jobs`.
fn rate(body: &RateBody, pointer: &str, faults: &mut Faults) -> Option<RateLimit> {
    let at = |field: &str| format!("{pointer}/{field}");
    let jobs = small(Some(body.jobs), &at("jobs"), 1, RATE_JOBS_MAX, faults)?;
    let burst = small(body.burst, &at("burst"), 1, RATE_JOBS_MAX, faults).unwrap_or(jobs);
    let per_ms = time(Some(&body.per), &at("per"), RATE_PER_MS, faults)?;
    Some(RateLimit { jobs, per_ms, burst })
}

/// Reads a circuit breaker.
fn breaker(body: &BreakerBody, faults: &mut Faults) -> BreakerOptions {
    let rate = body.failure_rate.unwrap_or(0.5);
    if !(0.001..=1.0).contains(&rate) {
        faults.at("/breaker/failureRate", "must be from 0.001 to 1");
    }
    BreakerOptions {
        failure_milli: (rate * 1_000.0).round() as u32,
        window_ms: time(body.window.as_deref(), "/breaker/window", BREAKER_WINDOW_MS, faults).unwrap_or(30_000),
        min_jobs: small(body.min_jobs, "/breaker/minJobs", 1, BREAKER_JOBS_MAX, faults).unwrap_or(20),
        cool_down_ms: time(body.cool_down.as_deref(), "/breaker/coolDown", COOL_DOWN_MS, faults).unwrap_or(30_000),
    }
}

fn limits(names: Vec<String>, faults: &mut Faults) -> Vec<Box<str>> {
    if names.len() > QUEUE_LIMITS_MAX {
        faults.at("/limits", format!("a queue names at most {QUEUE_LIMITS_MAX} shared limits"));
    }
    for (index, name) in names.iter().enumerate() {
        let pointer = format!("/limits/{index}");
        faults.check_name(&pointer, name);
        if names[..index].contains(name) {
            faults.at(&pointer, "the limit stands twice");
        }
    }
    names.into_iter().map(Into::into).collect()
}

fn delays(texts: &[String], faults: &mut Faults) -> Vec<u64> {
    if texts.is_empty() || texts.len() > BACKOFF_DELAYS_MAX {
        faults.at("/backoff/delays", format!("a list has 1 to {BACKOFF_DELAYS_MAX} delays"));
        return vec![0];
    }
    let read = |(i, text): (usize, &String)| {
        time(Some(text), &format!("/backoff/delays/{i}"), (0, DELAY_MS_MAX), faults).unwrap_or_default()
    };
    texts.iter().enumerate().map(read).collect()
}

fn keep_completed(keep: KeepField, faults: &mut Faults) -> KeepOptions {
    let (body, pointer) = match keep {
        KeepField::For(text) => (KeepBody { for_: Some(text), max: None }, "/keepCompleted"),
        KeepField::Both(body) => (body, "/keepCompleted/for"),
    };
    KeepOptions {
        for_ms: time(body.for_.as_deref(), pointer, (0, DELAY_MS_MAX), faults),
        max: count(body.max, "/keepCompleted/max", 0, faults),
    }
}

fn max_size(text: Option<&str>, faults: &mut Faults) -> Option<u64> {
    let pointer = "/payload/maxSize";
    let limit = PAYLOAD_BYTES_MAX as u64;
    match size::parse(text?) {
        Ok(bytes) if (1..=limit).contains(&bytes) => return Some(bytes),
        Ok(_) => faults.at(pointer, format!("must be from 1B to {}", size::text(limit))),
        Err(message) => faults.at(pointer, message),
    }
    None
}

fn runbook(field: RunbookField, faults: &mut Faults) -> Runbook {
    let (pointer, is_good, runbook) = match field {
        RunbookField::Link(link) => {
            let rest = link.strip_prefix("https://").or_else(|| link.strip_prefix("http://"));
            let is_address = rest.is_some_and(|rest| !rest.is_empty() && !rest.contains(char::is_whitespace));
            ("", is_address && link.len() <= LINK_BYTES_MAX, Runbook::Link(link.into()))
        }
        RunbookField::Text(RunbookBody { markdown }) => {
            let is_good = !markdown.trim().is_empty() && markdown.len() <= RUNBOOK_BYTES_MAX;
            ("/markdown", is_good, Runbook::Markdown(markdown.into()))
        }
    };
    if !is_good {
        let why = format!(
            "a runbook is an http or https address of up to {LINK_BYTES_MAX} bytes, or {{\"markdown\": \"...\"}} of up \
             to {RUNBOOK_BYTES_MAX} bytes"
        );
        faults.at(&format!("/deadLetter/runbook{pointer}"), why);
    }
    runbook
}

fn owner(text: Option<String>, pointer: &str, faults: &mut Faults) -> Option<Box<str>> {
    let text = text?;
    if text.trim().is_empty() || text.len() > KEY_BYTES_MAX || text.chars().any(char::is_control) {
        faults.at(pointer, format!("an owner is an e-mail address or a name of 1 to {KEY_BYTES_MAX} bytes"));
    }
    Some(text.into())
}

fn time(text: Option<&str>, pointer: &str, (low, high): (u64, u64), faults: &mut Faults) -> Option<u64> {
    match duration::parse(text?) {
        Ok(ms) => {
            faults.time_range(pointer, Some(ms), low, high);
            Some(ms)
        }
        Err(message) => {
            faults.at(pointer, message);
            None
        }
    }
}

fn small(value: Option<u64>, pointer: &str, low: u64, high: u64, faults: &mut Faults) -> Option<u32> {
    faults.range(pointer, value, low, high);
    value.map(|value| u32::try_from(value).unwrap_or(u32::MAX))
}

fn count(value: Option<u64>, pointer: &str, low: u64, faults: &mut Faults) -> Option<u64> {
    faults.range(pointer, value, low, COUNT_MAX);
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{effective_json, parse, to_json};
    use serde_json::json;

    #[test]
    fn what_was_set_comes_back() {
        for value in [
            json!({}),
            json!({"owner": "ops@example.org", "visibilityTimeout": "auto", "timeout": "1s", "maxAttempts": 1000}),
            json!({"visibilityTimeout": "100ms", "maxDeliveries": 10000, "maxInFlight": 2, "maxDepth": 10}),
            json!({"backoff": {"kind": "fixed", "base": "50ms", "jitter": "none"}}),
            json!({"backoff": {"kind": "exponential", "base": "10s", "factor": 1.5, "max": "1h", "jitter": "full"}}),
            json!({"backoff": {"kind": "list", "delays": ["1s", "5m"], "jitter": "equal"}}),
            json!({"groups": {"ordered": true, "fair": false, "maxInFlight": 3, "onDead": "block"}}),
            json!({"keepCompleted": {"for": "1h", "max": 0}, "idempotency": {"keep": "7d", "max": 5}}),
            json!({"payload": {"secrets": "warn", "personalData": "off", "allow": ["/payload/a"], "requireSchema": true, "requireBusinessId": false}}),
            json!({"idempotency": {"required": true}}),
            json!({"rateLimit": {"jobs": 10, "per": "1s"}, "limits": ["a", "b"]}),
            json!({"breaker": {"failureRate": 0.25, "window": "1m", "minJobs": 5, "coolDown": "10s"}}),
            json!({"rateLimit": {"jobs": 10, "per": "1s", "burst": 1}, "groups": {"rateLimit": {"jobs": 1, "per": "1h"}}}),
            json!({"deadLetter": {"owner": "x", "maxReplays": 0, "max": 1}, "payload": {"maxSize": "1MiB"}}),
            json!({"deadLetter": {"runbook": "https://example.org/runbooks/email"}}),
            json!({"deadLetter": {"runbook": {"markdown": "# Review"}}}),
        ] {
            let options = parse(&value).unwrap();
            assert_eq!(to_json(&options), value);
        }
        let short = parse(&json!({"keepCompleted": "2h"})).unwrap();
        assert_eq!(to_json(&short), json!({"keepCompleted": {"for": "2h"}}));
    }

    #[test]
    fn every_bad_field_is_named() {
        for (value, pointer) in [
            (json!({"maxAttempt": 3}), "/maxAttempt"),
            (json!({"maxAttempts": 0}), "/maxAttempts"),
            (json!({"maxAttempts": 1001}), "/maxAttempts"),
            (json!({"maxAttempts": "3"}), "/maxAttempts"),
            (json!({"maxAttempts": -1}), "/maxAttempts"),
            (json!({"maxDeliveries": 10001}), "/maxDeliveries"),
            (json!({"visibilityTimeout": "99ms"}), "/visibilityTimeout"),
            (json!({"visibilityTimeout": "13h"}), "/visibilityTimeout"),
            (json!({"visibilityTimeout": "1h30m"}), "/visibilityTimeout"),
            (json!({"timeout": "8d"}), "/timeout"),
            (json!({"backoff": {"kind": "fixed"}}), "/backoff/base"),
            (json!({"backoff": {"kind": "list", "delays": []}}), "/backoff/delays"),
            (json!({"backoff": {"kind": "list", "delays": ["x"]}}), "/backoff/delays/0"),
            (json!({"backoff": {"factor": 0.5}}), "/backoff/factor"),
            (json!({"backoff": {"kind": "linear"}}), "/backoff/kind"),
            (json!({"groups": {"onDead": "stop"}}), "/groups/onDead"),
            (json!({"keepCompleted": 3}), "/keepCompleted"),
            (json!({"keepCompleted": {"fro": "1h"}}), "/keepCompleted/fro"),
            (json!({"payload": {"maxSize": "2MiB"}}), "/payload/maxSize"),
            (json!({"deadLetter": {"runbook": "runbook.md"}}), "/deadLetter/runbook"),
            (json!({"deadLetter": {"runbook": {"markdown": " "}}}), "/deadLetter/runbook/markdown"),
            (json!({"deadLetter": {"runbook": {"text": "x"}}}), "/deadLetter/runbook/text"),
            (json!({"payload": {"secrets": "refuse"}}), "/payload/secrets"),
            (json!({"payload": {"allow": ["/payload/a", "b"]}}), "/payload/allow/1"),
            (json!({"rateLimit": {"jobs": 0, "per": "1s"}}), "/rateLimit/jobs"),
            (json!({"rateLimit": {"jobs": 1, "per": "0s"}}), "/rateLimit/per"),
            (json!({"rateLimit": {"jobs": 1, "per": "32d"}}), "/rateLimit/per"),
            (json!({"rateLimit": {"jobs": 1, "per": "1s", "burst": 1000001}}), "/rateLimit/burst"),
            (json!({"rateLimit": {"jobs": 1}}), "/rateLimit/per"),
            (json!({"groups": {"rateLimit": {"jobs": 1000001, "per": "1s"}}}), "/groups/rateLimit/jobs"),
            (json!({"limits": ["a", "a"]}), "/limits/1"),
            (json!({"breaker": {"failureRate": 1.1}}), "/breaker/failureRate"),
            (json!({"breaker": {"window": "999ms"}}), "/breaker/window"),
            (json!({"breaker": {"minJobs": 0}}), "/breaker/minJobs"),
            (json!({"breaker": {"coolDown": "25h"}}), "/breaker/coolDown"),
            (json!({"limits": ["a", "b c"]}), "/limits/1"),
            (json!({"limits": ["1", "2", "3", "4", "5", "6", "7", "8", "9"]}), "/limits"),
            (json!([]), ""),
        ] {
            let errors = parse(&value).unwrap_err();
            assert_eq!(errors[0].pointer, pointer, "{value}: {errors:?}");
        }
        let errors = parse(&json!({"maxAttempt": 3, "timeout": "x", "owner": 5})).unwrap_err();
        assert_eq!(errors.len(), 3, "{errors:?}");
        let near = errors.iter().find(|error| error.pointer == "/maxAttempt").unwrap();
        assert_eq!(near.nearest.as_deref(), Some("maxAttempts"));
    }

    #[test]
    fn defaults_hold_where_nothing_is_set() {
        let effective = effective_json(&QueueOptions::default().settings(&QueueOptions::default()));
        assert_eq!(effective["visibilityTimeout"], "auto");
        assert_eq!(effective["maxAttempts"], 5);
        assert_eq!(effective["maxDeliveries"], 50);
        assert_eq!(effective["backoff"]["base"], "10s");
        assert_eq!(
            effective["payload"],
            json!({"maxSize": "64KiB", "secrets": "reject", "personalData": "warn", "allow": [],
                "requireSchema": false, "requireBusinessId": false})
        );
        assert_eq!(effective["keepCompleted"], json!({"for": "1h", "max": 10000}));
    }
}
