//! `recado backup TO`: a copy of a data directory from which a server can start.
//!
//! With `--data` a stopped server's directory is copied directly, under its lock. Otherwise the running server
//! is asked to make the copy itself: only it can pin the segments that it would otherwise reuse while they are
//! read. Neither stands in for the other, so that what is copied is never another server's data.

use std::io::ErrorKind;
use std::path::{Path as FilePath, PathBuf, absolute};
use std::sync::Arc;

use recado_log::{Backup, FileLog, Log, Options, RealDisk};
use serde_json::json;

use crate::client::{Client, Path, Remote};
use crate::failure::{Exit, Failure, Outcome};
use crate::ui::{Ui, cell};

/// From where to where.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Directory for the copy; it must be empty or not exist
    to: PathBuf,
    /// Data directory of a stopped server to copy; without it the running server at --url is copied
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    #[command(flatten)]
    remote: Remote,
}

/// Copies. A copy with payloads that cannot be read is made, said, and fails like a check.
pub(crate) fn run(args: &Args, ui: Ui) -> Outcome {
    let to = empty_target(&args.to)?;
    let damaged = match &args.data {
        Some(data) => report(&offline(data, &to)?, &to, ui)?,
        None => online(args, &to, ui)?,
    };
    if damaged > 0 {
        eprintln!("recado: the copy opens, but it has damaged payloads, as the log has: `recado log check` names them");
        return Ok(Exit::CheckFailed);
    }
    Ok(Exit::Ok)
}

/// Tells; the answer is how many records have damaged payloads.
fn report(backup: &Backup, to: &FilePath, ui: Ui) -> Result<u64, Failure> {
    let Backup { bytes, batches, first, last, damaged_tails } = backup;
    let damaged = damaged_tails.len() as u64;
    if ui.json {
        let report = json!({
            "to": to, "bytes": bytes, "batches": batches, "first": first.0, "last": last.0, "damagedPayloads": damaged,
        });
        ui.line(report.to_string())?;
    } else {
        ui.line(format!("{batches} batches ({bytes} bytes) copied to {} and read back", to.display()))?;
    }
    Ok(damaged)
}

/// The log is opened as a server would open it, which recovers it first: a copy must open without.
fn offline(data: &FilePath, to: &FilePath) -> Result<Backup, Failure> {
    let disk = Arc::new(super::log::open(data)?);
    let (log, _) = FileLog::open(disk, &Options::default(), Arc::new(|| {}))?;
    let target = RealDisk::new(to).map_err(|error| Failure::io(format!("cannot make {}", to.display()), &error))?;
    let backup = log.file_reader().backup_to(&target)?;
    Box::new(log).close()?;
    Ok(backup)
}

/// The server writes the copy, so the path is one on its machine.
fn online(args: &Args, to: &FilePath, ui: Ui) -> Result<u64, Failure> {
    let client = Client::new(&args.remote)?;
    let answer = client.post(&Path::v1(&["backup"]), &json!({ "to": to }))?;
    ui.answer(&answer.text, |value| {
        format!("{} bytes copied by the running server to {}", cell(value, "bytes"), to.display())
    })?;
    Ok(answer.value()?["damagedPayloads"].as_u64().unwrap_or(0))
}

fn empty_target(to: &FilePath) -> Result<PathBuf, Failure> {
    let what = || format!("cannot back up to {}", to.display());
    let to_absolute = absolute(to).map_err(|error| Failure::io(what(), &error))?;
    let taken = match std::fs::read_dir(&to_absolute) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) if error.kind() == ErrorKind::NotFound => false,
        Err(error) => return Err(Failure::io(what(), &error)),
    };
    if taken {
        return Err(Failure::bad_data(format!(
            "{} is not empty: name a directory that is empty or does not exist",
            to.display()
        )));
    }
    Ok(to_absolute)
}
