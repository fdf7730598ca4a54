//! Inbound webhooks. The core keeps what was said of each; what it means is known at the edge that takes them.

use alloc::sync::Arc;

use crate::event::HookRecord;
use crate::items::Link;
use crate::state::State;

/// Inbound webhooks of a server.
pub const HOOKS_MAX: usize = 1_000;

/// One inbound webhook.
#[derive(Debug)]
pub(crate) struct Hook {
    pub(crate) record: HookRecord,
    /// Its text again, for the edge.
    pub(crate) text: Arc<str>,
    pub(crate) link: Link,
}

impl State {
    pub(crate) fn hook(&self, name: &str) -> Option<&Hook> {
        self.hook_names.get(name).map(|number| &self.hooks[number])
    }
}
