//! `GET /metrics`: committed figures as text, gathered when they are asked for.
//!
//! Labels are queue names and closed lists of words, so a producer cannot grow them. Rows of one
//! metric stand together, as the format wants.

use std::collections::HashSet;
use std::fmt::Write;
use std::sync::Arc;

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;
use recado_core::{Answer, BreakerState, BreakerView, HistogramView, LimitView, Page, Query, QueueEntry, ScheduleView};
use recado_shard::{COMMIT_BOUNDS_US, Status};

use crate::http::{self, App, unexpected};
use crate::limits::PAGE_MAX;
use crate::problem::Problem;
use crate::schedules;

/// A metric's name and help, and where its value is.
type Row<'q, T> = (&'static str, &'static str, fn(&'q QueueEntry) -> T);

/// The same of a shared limit, with its kind before its help; one without a value has no row.
type LimitRow = (&'static str, &'static str, &'static str, fn(&LimitView) -> Option<u64>);

/// All metrics.
pub(crate) async fn text(app: &App) -> Result<String, Problem> {
    let queues = queues(app).await?;
    let status = app.shard.status();
    let mut text = String::with_capacity(4_096 + queues.len() * 4_096);
    depth(&mut text, &queues);
    ages(&mut text, &queues);
    totals(&mut text, &queues);
    rejected(&mut text, app, &queues);
    let histograms: [Row<&HistogramView>; 2] = [
        ("recado_job_wait_seconds", "Time from ready to received.", |queue| &queue.stats.wait_histogram),
        ("recado_job_processing_seconds", "Time from received to settled.", |queue| &queue.stats.processing_histogram),
    ];
    for (name, help, of) in histograms {
        head(&mut text, name, "histogram", help);
        for queue in &queues {
            histogram(&mut text, name, &queue.name, of(queue));
        }
    }
    held_back(&mut text, &queues);
    let limits = http::limits::all(app).await?;
    shared_limits(&mut text, &limits);
    breakers(&mut text, &queues, &limits);
    scheduled(&mut text, &schedules::all(&app.shard).await?);
    log(&mut text, &status);
    head(&mut text, "recado_consumers", "gauge", "Workers seen within the last minute.");
    for queue in &queues {
        line(&mut text, format_args!("recado_consumers{{queue=\"{}\"}} {}", queue.name, queue.stats.consumers.len()));
    }
    Ok(text)
}

/// The asker likes OpenMetrics at least as much as the plain text.
pub(crate) fn wants_open(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(ACCEPT).iter().filter_map(|line| line.to_str().ok());
    let accepted: Vec<&str> = lines.flat_map(|line| line.split(',')).collect();
    let quality = |wanted: &str| {
        let of = |item: &str| {
            let mut parts = item.split(';').map(str::trim);
            let is_it = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case(wanted));
            let quality = parts.find_map(|part| part.strip_prefix("q=")).map_or(Some(1.0), |text| text.parse().ok());
            quality.filter(|_| is_it)
        };
        accepted.iter().filter_map(|item| of(item)).fold(0.0, f64::max)
    };
    let open = quality("application/openmetrics-text");
    open > 0.0 && open >= quality("text/plain")
}

/// The same as OpenMetrics: a counter is named without `_total`, and the end is marked.
pub(crate) fn open(text: &str) -> String {
    let counters: HashSet<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter")).collect();
    let mut open = String::with_capacity(text.len() + 8);
    for row in text.lines() {
        let named = ["# HELP ", "# TYPE "].iter().find_map(|start| Some((*start, row.strip_prefix(start)?)));
        match named.and_then(|(start, rest)| Some((start, rest.split_once(' ')?))) {
            Some((start, (name, rest))) if counters.contains(name) => {
                line(&mut open, format_args!("{start}{} {rest}", name.trim_end_matches("_total")));
            }
            _ => line(&mut open, format_args!("{row}")),
        }
    }
    line(&mut open, format_args!("# EOF"));
    open
}

async fn queues(app: &App) -> Result<Vec<QueueEntry>, Problem> {
    let mut all = Vec::new();
    let mut cursor = None;
    loop {
        let page = Page { cursor, limit: PAGE_MAX as usize };
        match app.shard.query(Query::Queues(page)).await? {
            Answer::Queues { queues, cursor: next } => {
                all.extend(queues);
                cursor = next;
            }
            other => return Err(unexpected(&other)),
        }
        if cursor.is_none() {
            return Ok(all);
        }
    }
}

fn depth(text: &mut String, queues: &[QueueEntry]) {
    head(text, "recado_queue_depth", "gauge", "Jobs by state.");
    for QueueEntry { name, stats, .. } in queues {
        for (state, count) in [
            ("ready", stats.ready),
            ("delayed", stats.delayed),
            ("blocked", stats.blocked),
            ("inFlight", stats.in_flight),
            ("dead", stats.dead),
            ("completed", stats.completed),
            ("cancelled", stats.cancelled),
            ("expired", stats.expired),
        ] {
            line(text, format_args!("recado_queue_depth{{queue=\"{name}\",state=\"{state}\"}} {count}"));
        }
    }
}

fn ages(text: &mut String, queues: &[QueueEntry]) {
    let ages: [Row<Option<u64>>; 2] = [
        (
            "recado_queue_oldest_job_age_seconds",
            "Since the oldest receivable job became ready; 0 when none.",
            |queue| queue.stats.oldest_job_age_ms,
        ),
        ("recado_queue_oldest_dead_age_seconds", "Since the oldest dead job died; 0 when none.", |queue| {
            queue.stats.oldest_dead_age_ms
        }),
    ];
    for (name, help, of) in ages {
        head(text, name, "gauge", help);
        for queue in queues {
            let seconds = of(queue).unwrap_or(0) as f64 / 1_000.0;
            line(text, format_args!("{name}{{queue=\"{}\"}} {seconds}", queue.name));
        }
    }
}

fn totals(text: &mut String, queues: &[QueueEntry]) {
    head(text, "recado_jobs_total", "counter", "Events in the life of jobs since this process began.");
    for QueueEntry { name, stats, .. } in queues {
        for (event, count) in &stats.totals {
            line(text, format_args!("recado_jobs_total{{queue=\"{name}\",event=\"{event}\"}} {count}"));
        }
    }
}

fn rejected(text: &mut String, app: &App, queues: &[QueueEntry]) {
    let counters = [
        ("recado_rejected_total", "Refused enqueues since this process began.", &app.rejected),
        ("recado_warned_total", "Jobs taken with what should not be in them since this process began.", &app.warned),
    ];
    for (metric, help, reasons) in counters {
        head(text, metric, "counter", help);
        for QueueEntry { name, .. } in queues {
            for (reason, count) in reasons.of(name) {
                line(text, format_args!("{metric}{{queue=\"{name}\",reason=\"{reason}\"}} {count}"));
            }
        }
    }
}

fn held_back(text: &mut String, queues: &[QueueEntry]) {
    let name = "recado_queue_held_back";
    head(text, name, "gauge", "Waiting jobs that are not handed out, by reason.");
    for QueueEntry { name: queue, stats, .. } in queues {
        for (reason, jobs) in &stats.held_back {
            line(text, format_args!("{name}{{queue=\"{queue}\",reason=\"{}\"}} {jobs}", reason.word()));
        }
    }
}

fn shared_limits(text: &mut String, limits: &[LimitView]) {
    let rows: [LimitRow; 4] = [
        ("recado_limit_in_flight", "gauge", "Jobs in flight under a shared limit.", |it| Some(it.figures.in_flight)),
        ("recado_limit_max_in_flight", "gauge", "How many may be.", |it| it.figures.max_in_flight.map(u64::from)),
        ("recado_limit_tokens", "gauge", "Deliveries that its rate limit lets pass now.", |it| {
            it.figures.rate.map(|(_, available)| u64::from(available))
        }),
        ("recado_limit_deliveries_total", "counter", "Deliveries under it since this process began.", |it| {
            Some(it.figures.deliveries)
        }),
    ];
    for (name, kind, help, of) in rows {
        head(text, name, kind, help);
        for (limit, value) in limits.iter().filter_map(|it| Some((&it.figures.name, of(it)?))) {
            line(text, format_args!("{name}{{limit=\"{limit}\"}} {value}"));
        }
    }
}

fn breakers(text: &mut String, queues: &[QueueEntry], limits: &[LimitView]) {
    let of_queues = queues.iter().filter_map(|it| Some(("queue", &it.name, it.stats.breaker.as_ref()?)));
    let of_limits = limits.iter().filter_map(|it| Some(("limit", &it.figures.name, it.figures.breaker.as_ref()?)));
    let all: Vec<(&str, &Arc<str>, &BreakerView)> = of_queues.chain(of_limits).collect();
    let name = "recado_breaker_open";
    head(text, name, "gauge", "1 while a circuit breaker is open, 0.5 while it lets probes out.");
    for (kind, owner, breaker) in &all {
        let open = match breaker.state {
            BreakerState::Closed => 0.0,
            BreakerState::HalfOpen => 0.5,
            BreakerState::Open => 1.0,
        };
        line(text, format_args!("{name}{{{kind}=\"{owner}\"}} {open}"));
    }
    let name = "recado_breaker_moves_total";
    head(text, name, "counter", "How often a circuit breaker opened or closed since this process began.");
    for (kind, owner, breaker) in &all {
        for (to, count) in [("open", breaker.opened), ("closed", breaker.closed)] {
            line(text, format_args!("{name}{{{kind}=\"{owner}\",to=\"{to}\"}} {count}"));
        }
    }
}

fn scheduled(text: &mut String, schedules: &[ScheduleView]) {
    let name = "recado_schedule_occurrences_total";
    head(text, name, "counter", "Occurrences of a schedule by what became of them.");
    for ScheduleView { name: schedule, fired, skipped, .. } in schedules {
        for (outcome, count) in [("fired", fired), ("skipped", skipped)] {
            line(text, format_args!("{name}{{schedule=\"{schedule}\",outcome=\"{outcome}\"}} {count}"));
        }
    }
    let name = "recado_schedule_next_seconds";
    head(text, name, "gauge", "When a schedule is due next, in seconds since 1970; long past: it does not fire.");
    for (schedule, next) in schedules.iter().filter_map(|it| Some((&it.name, it.next?))) {
        line(text, format_args!("{name}{{schedule=\"{schedule}\"}} {}", next as f64 / 1_000.0));
    }
    let name = "recado_schedule_paused";
    head(text, name, "gauge", "1 while a schedule is paused.");
    for ScheduleView { name: schedule, paused, .. } in schedules {
        line(text, format_args!("{name}{{schedule=\"{schedule}\"}} {}", u8::from(*paused)));
    }
}

fn histogram(text: &mut String, name: &str, queue: &str, view: &HistogramView) {
    for (bound_ms, count) in &view.buckets {
        let bound = *bound_ms as f64 / 1_000.0;
        line(text, format_args!("{name}_bucket{{queue=\"{queue}\",le=\"{bound}\"}} {count}"));
    }
    line(text, format_args!("{name}_bucket{{queue=\"{queue}\",le=\"+Inf\"}} {}", view.count));
    line(text, format_args!("{name}_sum{{queue=\"{queue}\"}} {}", view.sum_ms as f64 / 1_000.0));
    line(text, format_args!("{name}_count{{queue=\"{queue}\"}} {}", view.count));
}

fn log(text: &mut String, status: &Status) {
    let name = "recado_log_commit_seconds";
    head(text, name, "histogram", "Time from submit to commit.");
    let mut below = 0;
    for (bound_us, count) in COMMIT_BOUNDS_US.iter().zip(&status.commit.buckets) {
        below += count;
        line(text, format_args!("{name}_bucket{{le=\"{}\"}} {below}", *bound_us as f64 / 1_000_000.0));
    }
    line(text, format_args!("{name}_bucket{{le=\"+Inf\"}} {}", status.commit.count));
    line(text, format_args!("{name}_sum {}", status.commit.sum_us as f64 / 1_000_000.0));
    line(text, format_args!("{name}_count {}", status.commit.count));
    for (name, help, value) in [
        ("recado_log_bytes", "Size of the log.", status.log.log_bytes),
        ("recado_log_pinned_bytes", "Bytes held only for readers.", status.log.pinned_bytes),
    ] {
        head(text, name, "gauge", help);
        line(text, format_args!("{name} {value}"));
    }
    let name = "recado_log_unreadable_total";
    head(text, name, "counter", "Reads of stored bytes that failed because they are damaged.");
    line(text, format_args!("{name} {}", status.unreadable));
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    line(text, format_args!("# HELP {name} {help}\n# TYPE {name} {kind}"));
}

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = text.write_fmt(line);
    text.push('\n');
}
