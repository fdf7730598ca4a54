//! Inbound webhooks.

use alloc::boxed::Box;
use alloc::format;

use super::{audit, nearest};
use crate::command::{Actor, Moment, PutHook};
use crate::draft::Draft;
use crate::event::{Event, HookRecord};
use crate::options::Source;
use crate::rejection::Rejection;
use crate::reply::Reply;
use crate::state::{HOOKS_MAX, Hook, State};

pub(super) fn put(state: &State, moment: Moment, put: &PutHook, draft: &mut Draft) -> Result<Reply, Rejection> {
    let there = state.hook(&put.hook);
    if let Some(there) = there {
        check_source(there, put.source)?;
        if there.record.text == put.text && there.record.source == put.source {
            return Ok(Reply::HookPut { created: false });
        }
    } else if state.hooks.len() >= HOOKS_MAX {
        return Err(Rejection::TooManyHooks { limit: HOOKS_MAX as u64 });
    }
    let next = || state.hooks.last_key_value().map_or(1, |(number, _)| number + 1);
    draft.push(Event::HookSet(Box::new(HookRecord {
        number: there.map_or_else(next, |there| there.record.number),
        name: put.hook.clone(),
        source: put.source,
        text: put.text.clone(),
    })));
    let what = if there.is_none() { "created" } else { "changed" };
    audit(state, moment, &put.actor, "hook-put", None, &format!("{} {what}", put.hook), draft);
    Ok(Reply::HookPut { created: there.is_none() })
}

pub(super) fn remove(
    state: &State,
    moment: Moment,
    name: &str,
    source: Source,
    actor: &Actor,
    draft: &mut Draft,
) -> Result<Reply, Rejection> {
    let not_found = || Rejection::HookNotFound { name: name.into(), nearest: nearest(state.hook_names.keys(), name) };
    let there = state.hook(name).ok_or_else(not_found)?;
    check_source(there, source)?;
    draft.push(Event::HookRemoved { number: there.record.number });
    audit(state, moment, actor, "hook-removed", None, name, draft);
    Ok(Reply::Done)
}

fn check_source(there: &Hook, source: Source) -> Result<(), Rejection> {
    if there.record.source == Source::File && source == Source::Api {
        return Err(Rejection::ManagedByFile(there.record.name.clone()));
    }
    Ok(())
}
