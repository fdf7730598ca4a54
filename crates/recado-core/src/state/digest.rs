//! The durable state as text, for tests: what events determine, in one order, so that two states can be
//! compared whatever way they came about.

use alloc::string::String;
use core::fmt::Write;

use crate::state::State;

impl State {
    /// See the module.
    #[doc(hidden)]
    #[must_use]
    pub fn digest(&self) -> String {
        let mut out = String::new();
        let _ = writeln!(out, "seq {} fence {}", self.seq, self.fence);
        out
    }
}
