//! `recado log check|repair DIR`: looks at the log of a stopped server, byte by byte.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use recado_log::{Damage, RealDisk, Repair, Report, Verdict};
use serde_json::{Value, json};

use crate::failure::{Exit, Failure, Outcome};
use crate::ui::Ui;

/// What to do with the log.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Log,
}

#[derive(Debug, Subcommand)]
enum Log {
    /// Read every record and report; nothing is changed
    Check {
        /// Data directory
        dir: PathBuf,
    },
    /// Make a damaged log open again: what can be kept is kept, what is cut is kept in files beside it
    Repair {
        /// Data directory
        dir: PathBuf,
    },
}

/// Runs one of them. A log that would not open, or has payloads that cannot be read, fails the check.
pub(crate) fn run(args: &Args, ui: Ui) -> Outcome {
    match &args.command {
        Log::Check { dir } => {
            let report = recado_log::check(&open(dir)?)?;
            let opens = matches!(report.verdict, Verdict::Whole | Verdict::TornTail(_));
            let is_sound = opens && report.damaged_tails.is_empty();
            ui.line(if ui.json { report_json(&report).to_string() } else { report_text(dir, &report) })?;
            Ok(if is_sound { Exit::Ok } else { Exit::CheckFailed })
        }
        Log::Repair { dir } => {
            let repair = recado_log::repair(&open(dir)?)?;
            ui.line(if ui.json { repair_json(&repair).to_string() } else { repair_text(dir, &repair) })?;
            Ok(Exit::Ok)
        }
    }
}

/// The directory of a log that is there: looking at one must not make it.
pub(crate) fn open(dir: &Path) -> Result<RealDisk, Failure> {
    let what = || format!("cannot open {}", dir.display());
    let entries = std::fs::read_dir(dir).map_err(|error| Failure::io(what(), &error))?;
    let is_log = |name: &std::ffi::OsStr| name == "LOCK" || name.as_encoded_bytes().ends_with(b".log");
    if !entries.flatten().any(|entry| is_log(&entry.file_name())) {
        return Err(Failure::bad_data(format!("{} is not a data directory: it has no log", dir.display())));
    }
    RealDisk::new(dir).map_err(|error| Failure::io(what(), &error))
}

fn report_text(dir: &Path, report: &Report) -> String {
    let mut lines = vec![
        format!("{}: {} segments, {} batches", dir.display(), report.segments, report.batches),
        format!("  positions  {} to {}", report.first, report.tip),
        format!("  epoch      {}", report.epoch),
        format!("  events     {} bytes", report.head_bytes),
        format!("  payloads   {} bytes", report.tail_bytes),
    ];
    lines.push(match &report.verdict {
        Verdict::Whole => "whole: it opens, nothing is lost".to_owned(),
        Verdict::DamagedTails => "payloads damaged: it opens, and these bytes cannot be read".to_owned(),
        Verdict::TornTail(bad) => {
            format!("torn tail: it opens and cuts what was never committed\n  {}", place(bad))
        }
        Verdict::Corrupt(bad) => format!(
            "corrupt: it does not open, something durable is damaged\n  {}\n\
             restore a backup, or cut the log there with `recado log repair {}`",
            place(bad),
            dir.display()
        ),
    });
    lines.extend(damaged_text(&report.damaged_tails));
    lines.join("\n")
}

fn report_json(report: &Report) -> Value {
    let (verdict, bad) = match &report.verdict {
        Verdict::Whole => ("whole", None),
        Verdict::DamagedTails => ("payloads-damaged", None),
        Verdict::TornTail(bad) => ("torn-tail", Some(bad)),
        Verdict::Corrupt(bad) => ("corrupt", Some(bad)),
    };
    json!({
        "verdict": verdict,
        "damage": bad.map(damage_json),
        "damagedPayloads": damaged_json(&report.damaged_tails),
        "segments": report.segments, "batches": report.batches, "epoch": report.epoch,
        "first": report.first.0, "tip": report.tip.0,
        "eventBytes": report.head_bytes, "payloadBytes": report.tail_bytes,
    })
}

fn repair_text(dir: &Path, repair: &Repair) -> String {
    let mut lines = Vec::new();
    if repair.headers_rewritten > 0 {
        lines.push(format!("{} segment headers written anew, nothing lost by that", repair.headers_rewritten));
    }
    for file in &repair.filled {
        lines.push(format!("{}: was too short, filled up with zeros", file.display()));
    }
    if let Some(file) = &repair.start {
        lines.push(format!("the log starts with {} now: whatever stood before it is lost", file.display()));
    }
    match &repair.cut {
        Some(cut) => lines.push(format!(
            "cut at {} offset {}: {} bytes, with {} records that could still be recognised",
            cut.file.display(),
            cut.offset,
            cut.bytes,
            repair.records_lost
        )),
        None if lines.is_empty() && repair.damaged_tails.is_empty() => {
            lines.push(format!("{}: nothing to repair", dir.display()))
        }
        None => {}
    }
    for file in &repair.kept_in {
        lines.push(format!("  kept in {}", file.display()));
    }
    lines.extend(damaged_text(&repair.damaged_tails));
    if !repair.damaged_tails.is_empty() {
        lines.push(NO_REPAIR.to_owned());
    }
    lines.join("\n")
}

fn repair_json(repair: &Repair) -> Value {
    let cut = repair.cut.as_ref();
    json!({
        "headersRewritten": repair.headers_rewritten, "filled": repair.filled, "start": repair.start,
        "cut": cut.map(|cut| json!({ "file": cut.file, "offset": cut.offset, "bytes": cut.bytes })),
        "recordsLost": repair.records_lost, "tip": repair.tip.0, "keptIn": repair.kept_in,
        "damagedPayloads": damaged_json(&repair.damaged_tails),
    })
}

/// What stands below damaged payloads after a repair.
const NO_REPAIR: &str = "no repair brings these bytes back, and the log opens with them: start the server, where \
    jobs that need them say `unreadable` and can be cancelled, purged or discarded, or restore a backup";

fn damaged_text(damaged: &[Damage]) -> impl Iterator<Item = String> {
    damaged.iter().map(|bad| format!("payload damaged: {}", place(bad)))
}

fn damaged_json(damaged: &[Damage]) -> Vec<Value> {
    damaged.iter().map(damage_json).collect()
}

fn place(bad: &Damage) -> String {
    let file = bad.file.display();
    format!("{file}: {} at offset {} (position {})", bad.what, bad.offset, bad.position)
}

fn damage_json(bad: &Damage) -> Value {
    json!({ "file": bad.file, "offset": bad.offset, "position": bad.position.0, "what": bad.what })
}
