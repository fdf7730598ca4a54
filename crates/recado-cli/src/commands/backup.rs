//! `recado backup TO`: a copy of a data directory from which a server can start.
//!
//! A stopped server's directory is copied directly, under its lock. A running server is asked to make the
//! copy itself: only it can pin the segments that it would otherwise reuse while they are read.

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
    /// Data directory to copy
    #[arg(long, value_name = "DIR", default_value = "./recado-data", env = "RECADO_DATA")]
    data: PathBuf,
    #[command(flatten)]
    remote: Remote,
}

/// Copies.
pub(crate) fn run(args: &Args, ui: Ui) -> Outcome {
    let to = empty_target(&args.to)?;
    match offline(&args.data, &to) {
        Ok(backup) if ui.json => ui.line(
            json!({
                "to": to, "bytes": backup.bytes, "batches": backup.batches,
                "first": backup.first.0, "last": backup.last.0,
            })
            .to_string(),
        )?,
        Ok(backup) => ui.line(format!(
            "{} batches ({} bytes) copied to {} and read back",
            backup.batches,
            backup.bytes,
            to.display()
        ))?,
        Err(Offline::InUse) => online(args, &to, ui)?,
        Err(Offline::Failed(failure)) => return Err(failure),
    }
    Ok(Exit::Ok)
}

enum Offline {
    InUse,
    Failed(Failure),
}

impl From<Failure> for Offline {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<recado_log::Error> for Offline {
    fn from(error: recado_log::Error) -> Self {
        match error {
            recado_log::Error::InUse { .. } => Self::InUse,
            other => Self::Failed(other.into()),
        }
    }
}

/// The log is opened as a server would open it, which recovers it first: a copy must open without.
fn offline(data: &FilePath, to: &FilePath) -> Result<Backup, Offline> {
    let disk = Arc::new(super::log::open(data)?);
    let (log, _) = FileLog::open(disk, &Options::default(), Arc::new(|| {}))?;
    let target = RealDisk::new(to).map_err(|error| Failure::io(format!("cannot make {}", to.display()), &error))?;
    let backup = log.file_reader().backup_to(&target)?;
    Box::new(log).close()?;
    Ok(backup)
}

/// The server writes the copy, so the path is one on its machine; the directory is in use here, so that is
/// this machine.
fn online(args: &Args, to: &FilePath, ui: Ui) -> Result<(), Failure> {
    let client = Client::new(&args.remote)?;
    let answer = client.post(&Path::v1(&["backup"]), &json!({ "to": to }))?;
    ui.answer(&answer.text, |value| {
        format!("{} bytes copied by the running server to {}", cell(value, "bytes"), to.display())
    })
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
