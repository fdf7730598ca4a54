//! `recado backup TO`: a copy of a data directory from which a server can start.
//!
//! A stopped server's directory is copied directly, under its lock. A running server is asked to make the
//! copy itself: only it can pin the segments that it would otherwise reuse while they are read.

use std::io::ErrorKind;
use std::path::{Path as FilePath, PathBuf, absolute};

use serde_json::json;

use crate::client::{Client, Path, Remote};
use crate::failure::{Exit, Failure, Outcome};
use crate::server::{self, Backup};
use crate::ui::{Ui, cell};

/// From where to where.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Directory for the copy; it must be empty or not exist
    to: PathBuf,
    /// Data directory to copy
    #[arg(
        long,
        value_name = "DIR",
        default_value = "./recado-data",
        env = "RECADO_DATA"
    )]
    data: PathBuf,
    #[command(flatten)]
    remote: Remote,
}

/// Copies.
pub(crate) fn run(args: &Args, ui: Ui) -> Outcome {
    let to = empty_target(&args.to)?;
    match server::backup(&args.data, &to)? {
        Backup::Done { bytes } if ui.json => {
            ui.line(json!({ "to": to, "bytes": bytes, "online": false }).to_string())?;
        }
        Backup::Done { bytes } => ui.line(format!("{bytes} bytes copied to {}", to.display()))?,
        Backup::InUse => online(args, &to, ui)?,
    }
    Ok(Exit::Ok)
}

/// The server writes the copy, so the path is one on its machine; the directory is in use here, so that is
/// this machine.
fn online(args: &Args, to: &FilePath, ui: Ui) -> Result<(), Failure> {
    let client = Client::new(&args.remote)?;
    let answer = client.post(&Path::v1(&["backup"]), &json!({ "to": to }))?;
    ui.answer(&answer.text, |value| {
        format!(
            "{} bytes copied by the running server to {}",
            cell(value, "bytes"),
            to.display()
        )
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
