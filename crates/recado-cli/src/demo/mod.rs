//! `recado demo`.

use crate::failure::{Exit, Failure, Outcome};
use crate::ui::Ui;

/// How to play.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {}

/// Plays.
pub(crate) fn run(_args: &Args, _ui: Ui) -> Outcome {
    Err(Failure::new(Exit::Unavailable, "not yet"))
}
