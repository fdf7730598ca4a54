//! `recado version`.

use crate::failure::{Exit, Outcome};
use crate::ui::Ui;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Prints the version of this binary; no server is asked.
pub(crate) fn run(ui: Ui) -> Outcome {
    if ui.json {
        ui.line(serde_json::json!({ "name": "recado", "version": VERSION }).to_string())?;
    } else {
        ui.line(format!("recado {VERSION}"))?;
    }
    Ok(Exit::Ok)
}
