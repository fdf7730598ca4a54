//! Service begins.

use alloc::boxed::Box;

use crate::command::Moment;
use crate::draft::Draft;
use crate::event::{Event, Globals};
use crate::id::Secret;
use crate::reply::Reply;
use crate::state::State;

/// Fencing tokens skipped at a start: more than the receives that a power loss can make forgotten, so that
/// no token is given twice. 2^53 tokens, which JSON can hold, last for 500 million starts.
const FENCE_GAP: u64 = 1 << 24;

pub(super) fn start(state: &State, moment: Moment, secret: (u64, u64), served_until: u64, draft: &mut Draft) -> Reply {
    let mut globals = state.globals();
    if globals.secret == Secret::default() {
        globals.secret = Secret(secret.0, secret.1);
    }
    globals.fence += FENCE_GAP;
    draft.push(Event::GlobalsSet(Box::new(globals)));
    // A clock that was set back meanwhile was stepped by that before.
    let served_elapsed_at = state.elapsed(served_until.min(moment.at));
    draft.push(Event::Started { at: moment.at, served_elapsed_at });
    Reply::Done
}

impl State {
    pub(crate) fn globals(&self) -> Globals {
        Globals {
            secret: self.secret,
            seq: self.seq,
            queue: self.last_queue,
            number: self.last_number,
            fence: self.fence,
            skew_ms: self.skew_ms,
            defaults: self.defaults.clone(),
            line_at: self.line_at,
        }
    }
}
