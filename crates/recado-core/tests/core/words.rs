//! The words of scripts: `name=value` options, durations, and the options of queues and jobs they stand for.

use std::collections::BTreeMap;

use recado_core::{
    Backoff, BackoffCurve, BreakerOptions, DeadLetterOptions, Dedup, Failure, Fifo, Filter, GroupOptions,
    IdempotencyOptions, Jitter, KeepOptions, LimitOptions, NewBatch, NewJob, NewRelative, NewTies, OnChildDead, OnDead,
    OnDuplicate, Overrides, PaceOptions, PayloadOptions, QueueOptions, Rate, RateLimit, Redrive, SqsQueue, TypeRange,
    Visibility, When,
};

use crate::world::EPOCH;

/// A line of a script: words in order, and options by name.
#[derive(Debug, Default, Clone)]
pub struct Line {
    pub words: Vec<String>,
    options: BTreeMap<String, String>,
}

impl Line {
    pub fn parse(text: &str) -> Self {
        let mut line = Self::default();
        for word in split(text) {
            match word.split_once('=') {
                Some((name, value)) if !word.starts_with('"') => {
                    line.options.insert(name.into(), value.trim_matches('"').into());
                }
                _ => line.words.push(word.trim_matches('"').into()),
            }
        }
        line
    }

    /// Takes an option; what is left at the end is a mistake of the script.
    pub fn take(&mut self, name: &str) -> Option<String> {
        self.options.remove(name)
    }

    pub fn take_as<T>(&mut self, name: &str, parse: impl Fn(&str) -> T) -> Option<T> {
        self.take(name).map(|text| parse(&text))
    }

    pub fn boxed(&mut self, name: &str) -> Option<Box<str>> {
        self.take(name).map(String::into_boxed_str)
    }

    /// A word without value, anywhere in the line.
    pub fn flag(&mut self, name: &str) -> bool {
        let before = self.words.len();
        self.words.retain(|word| word != name);
        self.words.len() < before
    }

    pub fn word(&self, at: usize) -> &str {
        self.words.get(at).unwrap_or_else(|| panic!("word {at} is missing in {self:?}"))
    }

    pub fn end(&self, text: &str) {
        assert!(self.options.is_empty(), "unknown options {:?} in `{text}`", self.options.keys());
    }
}

fn split(text: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for c in text.chars() {
        match c {
            '"' => {
                quoted = !quoted;
                word.push(c);
            }
            c if c.is_whitespace() && !quoted => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            c => word.push(c),
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// `1500ms`, `5s`, `1h`.
pub fn ms(text: &str) -> u64 {
    if text == "0" {
        return 0;
    }
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = UNITS.iter().find(|(name, _)| *name == unit);
    let Some((_, factor)) = unit else { panic!("`{text}` is no duration") };
    number.parse::<u64>().unwrap_or_else(|_| panic!("`{text}` is no duration")) * factor
}

/// The largest exact unit.
pub fn show_ms(ms: u64) -> String {
    let exact = UNITS.iter().find(|(_, factor)| ms.is_multiple_of(*factor) && ms >= *factor);
    exact.map_or_else(|| "0s".into(), |(unit, factor)| format!("{}{unit}", ms / factor))
}

/// An instant as scripts write it.
pub fn show_at(at: u64) -> String {
    if at < EPOCH { format!("-{}", show_ms(EPOCH - at)) } else { show_ms(at - EPOCH) }
}

fn number<T: std::str::FromStr>(text: &str) -> T {
    text.parse().unwrap_or_else(|_| panic!("`{text}` is no number"))
}

/// `fixed:1s`, `exp:1s:2:10s`, `list:1s,2s`, with `:full` or `:equal` for jitter.
pub fn backoff(text: &str) -> Backoff {
    let (text, jitter) = match text.rsplit_once(':') {
        Some((rest, "full")) => (rest, Jitter::Full),
        Some((rest, "equal")) => (rest, Jitter::Equal),
        _ => (text, Jitter::None),
    };
    let mut parts = text.split(':');
    let kind = parts.next().unwrap_or_default();
    let parts: Vec<&str> = parts.collect();
    let curve = match kind {
        "fixed" => BackoffCurve::Fixed { base_ms: ms(parts[0]) },
        "exp" => BackoffCurve::Exponential {
            base_ms: ms(parts[0]),
            factor_milli: number::<u64>(parts[1]) * 1_000,
            max_ms: ms(parts[2]),
        },
        "list" => BackoffCurve::List { delays_ms: parts[0].split(',').map(ms).collect() },
        other => panic!("unknown backoff `{other}`"),
    };
    Backoff { curve, jitter }
}

fn pair(text: &str) -> (Option<&str>, Option<&str>) {
    let (first, second) = text.split_once(':').unwrap_or((text, ""));
    (Some(first).filter(|t| !t.is_empty()), Some(second).filter(|t| !t.is_empty()))
}

/// Options of a queue; scripts run without jitter unless they say so.
pub fn queue_options(line: &mut Line) -> QueueOptions {
    let groups = GroupOptions {
        ordered: line.flag("ordered").then_some(true),
        fair: line.flag("unfair").then_some(false),
        max_in_flight: line.take_as("groupmax", number),
        on_dead: line.flag("ondead-block").then_some(OnDead::Block),
    };
    let pace = PaceOptions {
        rate: line.take_as("rate", rate_limit),
        group_rate: line.take_as("grouprate", rate_limit),
        limits: line.take_as("limits", |text| text.split(',').map(Into::into).collect()),
        breaker: line.take_as("breaker", breaker),
    };
    let keep = line.take("keep");
    let keep = keep.as_deref().map(pair).map(|(age, max)| KeepOptions { for_ms: age.map(ms), max: max.map(number) });
    let idem = line.take("idem");
    let idem = idem.as_deref().map(pair);
    let idem =
        idem.map(|(age, max)| IdempotencyOptions { keep_ms: age.map(ms), max: max.map(number), ..Default::default() });
    QueueOptions {
        owner: line.boxed("owner"),
        visibility: line.take_as("visibility", |text| Visibility::Fixed(ms(text))),
        timeout_ms: line.take_as("timeout", ms),
        max_attempts: line.take_as("attempts", number),
        max_deliveries: line.take_as("deliveries", number),
        backoff: Some(line.take_as("backoff", backoff).unwrap_or_else(|| backoff("fixed:10s"))),
        max_in_flight: line.take_as("inflight", number),
        max_depth: line.take_as("depth", number),
        groups: Some(groups),
        keep_completed: keep,
        idempotency: idem,
        dead_letter: Some(DeadLetterOptions {
            max_replays: line.take_as("maxreplays", number),
            max: line.take_as("deadmax", number),
            ..Default::default()
        }),
        sqs: sqs(line),
        pace: pace.boxed(),
        payload: line
            .take_as("maxsize", number)
            .map(|size| PayloadOptions { max_size_bytes: Some(size), ..Default::default() }),
    }
}

/// A shared limit.
pub fn limit_options(line: &mut Line) -> LimitOptions {
    LimitOptions {
        max_in_flight: line.take_as("inflight", number),
        rate: line.take_as("rate", rate_limit),
        breaker: line.take_as("breaker", breaker),
    }
}

/// `50%:10s:4:30s`: failure rate, window, jobs, cool-down.
fn breaker(text: &str) -> BreakerOptions {
    let parts: Vec<&str> = text.split(':').collect();
    BreakerOptions {
        failure_milli: number::<u32>(parts[0].trim_end_matches('%')) * 10,
        window_ms: ms(parts[1]),
        min_jobs: number(parts[2]),
        cool_down_ms: ms(parts[3]),
    }
}

/// `10/1s`, or `10/1s:3` with its burst.
fn rate_limit(text: &str) -> RateLimit {
    let (text, burst) = pair(text);
    let rate = rate(text.unwrap_or_default());
    RateLimit { jobs: rate.jobs, per_ms: rate.per_ms, burst: burst.map_or(rate.jobs, number) }
}

/// `retention=1m`, `redrive=dlq:2`, `fifo`, `fifo-by-group`.
fn sqs(line: &mut Line) -> Option<Box<SqsQueue>> {
    let (fifo, by_group) = (line.flag("fifo"), line.flag("fifo-by-group"));
    let redrive = line.take_as("redrive", |text| {
        let (target, max) = text.split_once(':').expect("redrive=queue:receives");
        Redrive { target: target.into(), max_receives: number(max) }
    });
    let retention_ms = line.take_as("retention", ms);
    let fifo = (fifo || by_group).then_some(Fifo { dedup_in_group: by_group });
    let is_set = fifo.is_some() || retention_ms.is_some() || redrive.is_some();
    is_set.then(|| Box::new(SqsQueue { fifo, retention_ms, redrive, edge: Vec::new() }))
}

/// A job with its children, by name.
pub struct Named {
    pub label: String,
    pub queue: Option<Box<str>>,
    pub job: NewJob,
    pub children: Vec<Named>,
    /// What the job is called that ends its batch.
    pub last: Option<String>,
}

/// `p > c1 queue=r >> grandchild > c2`.
pub fn new_family(text: &str) -> Named {
    let mut parts = text.split(" > ");
    family(Line::parse(parts.next().unwrap_or_default()), parts)
}

/// The same, of a line and its children.
pub fn family<'a>(mut line: Line, children: impl Iterator<Item = &'a str>) -> Named {
    let child = |text: &str| {
        let mut parts = text.split(" >> ");
        let line = Line::parse(parts.next().unwrap_or_default());
        // Only these have no children.
        let deeper: Vec<&str> = parts.collect();
        if deeper.is_empty() { leaf(line) } else { family(line, deeper.into_iter()) }
    };
    let children: Vec<Named> = children.map(child).collect();
    let on_child_dead = if line.flag("continue") { OnChildDead::Continue } else { OnChildDead::Fail };
    let (batch, last) = line.take_as("batch", batch).unzip();
    let mut named = leaf(line);
    let relative = |child: &Named| NewRelative { queue: child.queue.clone(), job: child.job.clone() };
    if batch.is_some() || !children.is_empty() {
        let children = children.iter().map(relative).collect();
        named.job.ties = Some(Box::new(NewTies { children, on_child_dead, batch }));
    }
    Named { children, last: last.flatten(), ..named }
}

fn leaf(mut line: Line) -> Named {
    let (label, queue) = (line.word(0).to_owned(), line.boxed("queue"));
    Named { label, queue, job: new_job(line), children: Vec::new(), last: None }
}

/// `b`, `b:last` or `b:last@queue`: the job that ends it is called so.
fn batch(text: &str) -> (NewBatch, Option<String>) {
    let (id, last) = pair(text);
    let (name, queue) = last.map_or((None, None), |last| match last.split_once('@') {
        Some((name, queue)) => (Some(name), Some(queue.into())),
        None => (Some(last), None),
    });
    let on_complete = name.map(|name| NewRelative { queue, job: new_job(Line::parse(name)) });
    (NewBatch { id: id.unwrap_or_default().into(), on_complete }, name.map(Into::into))
}

/// A job: its name first, then options. The payload is its name unless given.
pub fn new_job(mut line: Line) -> NewJob {
    let payload = line.take("payload").unwrap_or_else(|| format!("\"{}\"", line.word(0)));
    let delay = line.take_as("delay", |text| When::After(ms(text)));
    let at = line.take_as("at", |text| When::At(EPOCH + ms(text)));
    let job = NewJob {
        kind: line.boxed("type").unwrap_or_else(|| "mail.send".into()),
        schema_version: line.take_as("v", number).unwrap_or(1),
        payload: payload.into_bytes(),
        headers: line.take("headers").map(String::into_bytes),
        business_id: line.boxed("biz"),
        priority: line.take_as("p", number).unwrap_or(0),
        when: delay.or(at).unwrap_or_default(),
        group: line.boxed("group"),
        dedup: line.take_as("dedup", dedup),
        idempotency_key: line.boxed("key"),
        overrides: Overrides {
            max_attempts: line.take_as("attempts", number),
            backoff: line.take_as("backoff", backoff),
            visibility: line.take_as("visibility", |text| Visibility::Fixed(ms(text))),
            timeout_ms: line.take_as("timeout", ms),
        },
        expires_after_ms: line.take_as("expires", ms),
        ties: None,
    };
    line.end("job");
    job
}

/// `k:5m`, `k:unfinished`, `k:5m:replace`.
fn dedup(text: &str) -> Dedup {
    let parts: Vec<&str> = text.split(':').collect();
    Dedup {
        key: parts[0].into(),
        for_ms: (parts[1] != "unfinished").then(|| ms(parts[1])),
        on_duplicate: match parts.get(2) {
            None | Some(&"keep") => OnDuplicate::Keep,
            Some(&"replace") => OnDuplicate::Replace,
            Some(&"conflict") => OnDuplicate::Conflict,
            Some(other) => panic!("unknown mode `{other}`"),
        },
    }
}

/// `mail.send`, `mail.send@2`, `mail.send@1-3`, several by commas.
pub fn types(text: &str) -> Vec<TypeRange> {
    let range = |text: &str| {
        let (kind, versions) = text.split_once('@').unwrap_or((text, "0-4294967295"));
        let (from, to) = versions.split_once('-').unwrap_or((versions, versions));
        TypeRange { kind: kind.into(), from: number(from), to: number(to) }
    };
    text.split(',').map(range).collect()
}

/// A failure; retryable unless `permanent`.
pub fn failure(line: &mut Line) -> Failure {
    Failure {
        kind: line.boxed("kind").unwrap_or_else(|| "error".into()),
        message: line.boxed("msg").unwrap_or_default(),
        retryable: !line.flag("permanent"),
        retry_after_ms: line.take_as("after", ms),
    }
}

/// Conditions on dead jobs.
pub fn filter(line: &mut Line) -> Filter {
    Filter {
        kind: line.boxed("type"),
        error_kind: line.boxed("kind"),
        fingerprint: None,
        group: line.boxed("group"),
        business_id: line.boxed("biz"),
        died_before: line.take_as("before", |text| EPOCH + ms(text)),
        died_after: line.take_as("after", |text| EPOCH + ms(text)),
    }
}

/// `10/1s`.
pub fn rate(text: &str) -> Rate {
    let Some((jobs, per)) = text.split_once('/') else { panic!("`{text}` is no rate") };
    Rate { jobs: number(jobs), per_ms: ms(per) }
}
