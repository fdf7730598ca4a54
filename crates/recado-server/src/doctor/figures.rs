//! What a queue has done.

use recado_core::{HeldBack, QueueView, Stats};

use super::Sheet;
use crate::duration;
use crate::http::visibility_warning;

/// Dead jobs are looked at within this time, in milliseconds.
const DEAD_AGE_MS_MAX: u64 = 86_400_000;
/// A job that is ready for so long while nobody asks is not waiting for a turn, in milliseconds.
const UNASKED_MS_MAX: u64 = 60_000;
/// Share of failed attempts that a circuit breaker would stop.
const FAILURE_RATE_MAX: f64 = 0.5;
/// Share of `maxDepth` that leaves no time to act.
const DEPTH_SHARE_MAX: f64 = 0.8;
/// Attempts that say how long they take.
const SAMPLES_MIN: u64 = 20;

pub(super) fn judge(view: &QueueView, stats: &Stats, sheet: &mut Sheet) {
    for warning in stats.timings.iter().filter_map(|timing| visibility_warning(stats.visibility, timing)) {
        let (value, fix) = warning.split_once(": ").unwrap_or((&warning, "set visibilityTimeout to \"auto\""));
        sheet.warn("visibility-fits", value, fix);
    }
    dead(stats, sheet);
    consumers(view, stats, sheet);
    capacity(view, stats, sheet);
    if let Some(rate) = stats.failure_rate {
        let value = format!("{:.0} % of attempts in 5 min", rate * 100.0);
        if rate >= FAILURE_RATE_MAX && stats.breaker.is_none() {
            sheet.warn("failures", value, "set breaker: attempts against what is down are burnt for nothing");
        } else {
            sheet.pass("failures", value);
        }
    }
    if view.paused {
        sheet.warn("paused", "nothing is handed out", format!("recado queues resume {}", view.name));
    }
}

fn dead(stats: &Stats, sheet: &mut Sheet) {
    let Some(age_ms) = stats.oldest_dead_age_ms.filter(|_| stats.dead > 0) else {
        return sheet.pass("dead-letters", "none");
    };
    let value = format!("{}, the oldest for {}", stats.dead, duration::text(age_ms));
    let fix = "look at them (recado dlq), then replay or discard them with a reason";
    if age_ms > DEAD_AGE_MS_MAX {
        sheet.fail("dead-letters", value, fix);
    } else {
        sheet.warn("dead-letters", value, fix);
    }
}

fn consumers(view: &QueueView, stats: &Stats, sheet: &mut Sheet) {
    let seen = stats.consumers.len();
    if seen == 0 && stats.oldest_job_age_ms.is_some_and(|age_ms| age_ms >= UNASKED_MS_MAX) && !view.paused {
        sheet.fail("consumers", format!("none for {} ready jobs", stats.ready), "start a worker that receives from it");
    } else if seen == 0 {
        sheet.pass("consumers", "none, and no job waits for one");
    } else {
        sheet.pass("consumers", format!("{seen} in the last minute"));
    }
    let incapable = stats.held_back.iter().find(|(why, _)| *why == HeldBack::NoCapableWorker).map_or(0, |(_, n)| *n);
    if incapable > 0 {
        let fix = "start a worker that declares their types and versions (recado jobs list shows them)";
        sheet.fail("capable-workers", format!("none for {incapable} jobs"), fix);
    }
}

/// Whether as much as comes in can be done (Little's law), and whether there is room.
fn capacity(view: &QueueView, stats: &Stats, sheet: &mut Sheet) {
    let took = &stats.processing_histogram;
    let mean_s = took.sum_ms as f64 / took.count.max(1) as f64 / 1_000.0;
    let needed = (stats.enqueue_rate * mean_s).ceil() as u64;
    match view.settings.max_in_flight {
        None => sheet.warn(
            "max-in-flight",
            "none",
            "set maxInFlight to what the database or provider behind the workers can take at once",
        ),
        Some(max) if took.count >= SAMPLES_MIN && needed > u64::from(max) => sheet.fail(
            "max-in-flight",
            format!("{max}, while {needed} are needed for what comes in"),
            "raise it, make jobs faster, or slow producers down with maxDepth",
        ),
        Some(max) => sheet.pass("max-in-flight", max.to_string()),
    }
    let (depth, max) = (stats.ready + stats.delayed + stats.blocked + stats.in_flight, view.settings.max_depth);
    let value = format!("{depth} of {max}");
    if depth as f64 > max as f64 * DEPTH_SHARE_MAX {
        sheet.warn("depth", value, "add workers: at maxDepth producers are refused");
    } else {
        sheet.pass("depth", value);
    }
}
