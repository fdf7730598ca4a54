//! Shared limits.

use alloc::boxed::Box;
use alloc::format;

use super::{audit, nearest};
use crate::command::{Actor, Moment, PutLimit};
use crate::draft::Draft;
use crate::event::{Event, LimitRecord};
use crate::options::{QueueOptions, Source};
use crate::rejection::Rejection;
use crate::reply::Reply;
use crate::state::{LIMITS_MAX, Limit, State};

pub(super) fn put(state: &State, moment: Moment, put: &PutLimit, draft: &mut Draft) -> Result<Reply, Rejection> {
    let there = state.limit_names.get(&put.limit).map(|number| &state.limits[number]);
    if let Some(there) = there {
        check_source(there, put.source)?;
        if there.record.options == put.options && there.record.source == put.source {
            return Ok(Reply::LimitPut { created: false });
        }
    } else if state.limits.len() >= LIMITS_MAX {
        return Err(Rejection::TooManyLimits { limit: LIMITS_MAX as u64 });
    }
    let next = || state.limits.last_key_value().map_or(1, |(number, _)| number + 1);
    draft.push(Event::LimitSet(Box::new(LimitRecord {
        number: there.map_or_else(next, |there| there.record.number),
        name: put.limit.clone(),
        source: put.source,
        options: put.options.clone(),
        breaker: there.and_then(|there| there.record.breaker),
    })));
    let what = if there.is_none() { "created" } else { "changed" };
    audit(state, moment, &put.actor, "limit-put", None, &format!("{} {what}", put.limit), draft);
    Ok(Reply::LimitPut { created: there.is_none() })
}

pub(super) fn remove(
    state: &State,
    moment: Moment,
    name: &str,
    source: Source,
    actor: &Actor,
    draft: &mut Draft,
) -> Result<Reply, Rejection> {
    let there = find(state, name)?;
    check_source(there, source)?;
    if !there.queues.is_empty() {
        return Err(Rejection::LimitInUse { name: name.into(), queues: there.queues.len() as u64 });
    }
    draft.push(Event::LimitRemoved { number: there.record.number });
    audit(state, moment, actor, "limit-removed", None, name, draft);
    Ok(Reply::Done)
}

/// The limit with this name.
fn find<'a>(state: &'a State, name: &str) -> Result<&'a Limit, Rejection> {
    match state.limit_names.get(name) {
        Some(number) => Ok(&state.limits[number]),
        None => Err(Rejection::LimitNotFound { name: name.into(), nearest: nearest(state.limit_names.keys(), name) }),
    }
}

/// A queue names only limits that are there: a misspelt one would hold nothing back.
pub(super) fn check(state: &State, options: &QueueOptions) -> Result<(), Rejection> {
    let unknown =
        options.pace.iter().filter_map(|pace| pace.limits.as_ref()).flatten().find_map(|name| find(state, name).err());
    let Some(Rejection::LimitNotFound { name, nearest }) = unknown else { return Ok(()) };
    let hint = nearest.map_or_else(|| "put it first".into(), |nearest| format!("did you mean `{nearest}`?"));
    let message = format!("there is no limit `{name}`; {hint}");
    Err(Rejection::Invalid { index: 0, pointer: "/limits".into(), message })
}

fn check_source(there: &Limit, source: Source) -> Result<(), Rejection> {
    if there.record.source == Source::File && source == Source::Api {
        return Err(Rejection::ManagedByFile(there.record.name.clone()));
    }
    Ok(())
}
