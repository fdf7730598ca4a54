//! `deadLetter.runbook`: an address, or a file beside this one.

use serde_json::{Value, json};

use super::file::File;
use crate::failure::Failure;

/// The options with the text of the file that they name as their runbook.
pub(super) fn read(file: &File, pointer: &str, options: &Value) -> Result<Value, Failure> {
    const POINTER: &str = "/deadLetter/runbook";
    let mut options = options.clone();
    let Some(runbook) = options.pointer_mut(POINTER) else { return Ok(options) };
    if let Some(name) = runbook.as_str().filter(|name| !name.contains("://")) {
        let path = file.path.parent().unwrap_or(&file.path).join(name);
        let text = std::fs::read_to_string(&path).map_err(|error| {
            let why = format!("deadLetter.runbook: cannot read {}: {error}", path.display());
            file.wrong(&format!("{pointer}{POINTER}"), why)
        })?;
        *runbook = json!({ "markdown": text });
    }
    Ok(options)
}
