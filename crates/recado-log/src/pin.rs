//! A hold on the log, given back when dropped.

use std::fmt;

use crate::Position;

/// Keeps everything from its position on, until it is dropped.
pub struct Pin {
    position: Position,
    release: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl Pin {
    /// A pin that calls `release` when it is dropped; for those who implement [`crate::Reader`].
    pub fn new(position: Position, release: impl FnOnce() + Send + Sync + 'static) -> Pin {
        Pin { position, release: Some(Box::new(release)) }
    }

    /// What it keeps starts here.
    pub fn position(&self) -> Position {
        self.position
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        if let Some(release) = self.release.take() {
            release();
        }
    }
}

impl fmt::Debug for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pin").field("position", &self.position).finish_non_exhaustive()
    }
}
