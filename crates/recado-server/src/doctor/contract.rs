//! What is configured.

use recado_core::{Jitter, OnFinding, Runbook, Settings, UNLIMITED, Visibility};

use super::Sheet;
use crate::duration;

/// What `recado init` writes where only the team knows what belongs there.
const PLACEHOLDER: &str = "CHANGE-ME";

/// What a runbook says, by a heading each.
const RUNBOOK_PARTS: [&str; 4] = ["review", "correct", "replay", "discard"];

pub(super) fn judge(settings: &Settings, sheet: &mut Sheet) {
    match &settings.dead_owner {
        Some(owner) if owner.contains(PLACEHOLDER) => {
            sheet.fail("owner", &**owner, "set owner to an address that somebody reads");
        }
        Some(owner) => sheet.pass("owner", &**owner),
        None => sheet.fail("owner", "nobody", "set owner, or deadLetter.owner: who answers for dead jobs"),
    }
    runbook(settings.runbook.as_ref(), sheet);
    retries(settings, sheet);
    match settings.visibility {
        Visibility::Auto => sheet.pass("visibility", "auto"),
        Visibility::Fixed(ms) => sheet.pass("visibility", duration::text(ms)),
    }
    match settings.timeout_ms {
        Some(ms) => sheet.pass("timeout", duration::text(ms)),
        None => sheet.warn(
            "timeout",
            "none",
            "set timeout: a handler that hangs keeps its job for as long as its worker lives",
        ),
    }
    payloads(settings, sheet);
}

fn runbook(runbook: Option<&Runbook>, sheet: &mut Sheet) {
    const FIX: &str = "set deadLetter.runbook to a page, or to a file beside recado.toml, with a heading each for review, \
                       correct, replay and discard";
    match runbook {
        None => sheet.warn("runbook", "none", FIX),
        Some(Runbook::Link(link)) => sheet.pass("runbook", &**link),
        Some(Runbook::Markdown(text)) => {
            let headings: Vec<String> =
                text.lines().filter(|line| line.starts_with('#')).map(str::to_lowercase).collect();
            let is_missing = |part: &&str| !headings.iter().any(|heading| heading.contains(*part));
            let missing: Vec<&str> = RUNBOOK_PARTS.into_iter().filter(|part| is_missing(part)).collect();
            if missing.is_empty() {
                sheet.pass("runbook", "all four parts");
            } else {
                sheet.warn("runbook", format!("no heading for {}", missing.join(", ")), FIX);
            }
        }
    }
}

fn retries(settings: &Settings, sheet: &mut Sheet) {
    match (settings.max_attempts, &settings.redrive) {
        (UNLIMITED, Some(redrive)) => {
            sheet.pass("retries", format!("{} receives, then to {}", redrive.max_receives, redrive.target));
        }
        (UNLIMITED, None) => sheet.warn(
            "retries",
            "until retention ends the message",
            "give the queue a redrive policy, or set maxAttempts: a message that always fails runs for days",
        ),
        (attempts, _) => sheet.pass("retries", format!("{attempts} attempts")),
    }
    match settings.backoff.jitter {
        Jitter::None => sheet.warn(
            "backoff",
            "without jitter",
            "set backoff.jitter to equal or full: jobs that failed together come back together",
        ),
        Jitter::Full | Jitter::Equal => sheet.pass("backoff", "with jitter"),
    }
}

fn payloads(settings: &Settings, sheet: &mut Sheet) {
    match settings.secrets {
        OnFinding::Reject => sheet.pass("secrets", "reject"),
        OnFinding::Warn => sheet.warn(
            "secrets",
            "warn",
            "set payload.secrets to reject: what is in a queue is in its backups and in every worker",
        ),
        OnFinding::Off => {
            sheet.fail("secrets", "off", "set payload.secrets to reject, and name what may pass in payload.allow");
        }
    }
    let required = [
        ("schema", settings.require_schema, "payload.requireSchema", "a producer's mistake is found by a worker"),
        ("idempotency", settings.require_key, "idempotency.required", "a request sent twice makes two jobs"),
        (
            "business-id",
            settings.require_business_id,
            "payload.requireBusinessId",
            "jobs cannot be found by their object",
        ),
    ];
    for (check, is_required, option, otherwise) in required {
        if is_required {
            sheet.pass(check, "required");
        } else {
            sheet.warn(check, "not required", format!("set {option} = true: without it {otherwise}"));
        }
    }
}
