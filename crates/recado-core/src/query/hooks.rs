//! Inbound webhooks.

use super::{Answer, HookView};
use crate::state::State;

pub(super) fn all(state: &State) -> Answer {
    let view = |number: &u32| {
        let hook = &state.hooks[number];
        HookView { name: hook.record.name.clone(), source: hook.record.source, text: hook.text.clone() }
    };
    Answer::Hooks(state.hook_names.values().map(view).collect())
}
