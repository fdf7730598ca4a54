//! `recado init`: what a repository needs so that its queues are operated and not only used.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::failure::{Exit, Failure, Outcome};
use crate::ui::Ui;

const CONFIG: &str = include_str!("../templates/recado.toml");
const RUNBOOK: &str = include_str!("../templates/runbook.md");
const SECTION: &str = include_str!("../templates/contributing.md");
const GUIDE: &str = "CONTRIBUTING.md";

/// Where.
#[derive(clap::Args, Debug)]
#[command(after_help = "Writes recado.toml, runbook.md, and a section in CONTRIBUTING.md. What is there is kept.")]
pub(crate) struct Args {
    /// Directory of the repository
    #[arg(default_value = ".", value_name = "DIR")]
    dir: PathBuf,
}

/// Writes what is missing.
pub(crate) fn run(args: &Args, ui: Ui) -> Outcome {
    let mut done = Vec::new();
    for (name, text) in [("recado.toml", CONFIG), ("runbook.md", RUNBOOK)] {
        let is_new = create(&args.dir.join(name), text)?;
        done.push((name, if is_new { "written" } else { "kept" }));
    }
    done.push((GUIDE, add_section(&args.dir.join(GUIDE))?));
    if ui.json {
        let files: Vec<_> = done.iter().map(|(file, what)| json!({ "file": file, "outcome": what })).collect();
        ui.line(json!({ "files": files }).to_string())?;
    } else {
        for (file, what) in done {
            ui.line(format!("{what:<8} {file}"))?;
        }
        ui.line("next: set the owner in recado.toml, then recado doctor --config recado.toml")?;
    }
    Ok(Exit::Ok)
}

/// False when the file is there already.
fn create(path: &Path, text: &str) -> Result<bool, Failure> {
    match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(mut file) => file.write_all(text.as_bytes()).map(|()| true).map_err(|error| cannot_write(path, &error)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(cannot_write(path, &error)),
    }
}

/// The contributor guide gets the section once.
fn add_section(path: &Path) -> Result<&'static str, Failure> {
    if create(path, &format!("# Contributing\n\n{SECTION}"))? {
        return Ok("written");
    }
    let cannot_read = |error| Failure::io(format!("cannot read {}", path.display()), &error);
    let guide = std::fs::read_to_string(path).map_err(cannot_read)?;
    let heading = SECTION.lines().next().unwrap_or(SECTION);
    if guide.lines().any(|line| line == heading) {
        return Ok("kept");
    }
    let gap = if guide.ends_with('\n') || guide.is_empty() { "" } else { "\n" };
    let file = OpenOptions::new().append(true).open(path);
    let added = file.and_then(|mut file| file.write_all(format!("{gap}\n{SECTION}").as_bytes()));
    added.map(|()| "extended").map_err(|error| cannot_write(path, &error))
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::io(format!("cannot write {}", path.display()), error)
}
