//! Operators' actions.

use core::ops::Bound;

use super::cursor::{Mark, Walk};
use super::{Answer, Answered, AuditView, Page};
use crate::event::AuditRecord;
use crate::state::State;

/// Conditions that must all hold. The queue may be one that is gone: its history is not.
pub(super) struct Wanted<'a> {
    pub(super) queue: Option<&'a str>,
    pub(super) actor: Option<&'a str>,
    pub(super) action: Option<&'a str>,
}

impl Wanted<'_> {
    fn has(&self, record: &AuditRecord) -> bool {
        self.queue.is_none_or(|queue| record.queue.as_deref() == Some(queue))
            && self.actor.is_none_or(|actor| record.actor.as_deref() == Some(actor))
            && self.action.is_none_or(|action| *record.action == *action)
    }
}

/// Newest first.
pub(super) fn list(state: &State, wanted: &Wanted<'_>, page: &Page) -> Answered {
    let before = page.mark()?.map_or(Bound::Unbounded, |mark| Bound::Excluded(mark.spot as u64));
    let mut walk = Walk::new(page);
    let _ = state.audit.range((Bound::Unbounded, before)).rev().all(|(id, entry)| {
        walk.look(Mark::at(u128::from(*id)), || wanted.has(&entry.record).then(|| view(&entry.record)))
    });
    let (entries, cursor) = walk.end();
    Ok(Answer::Audit { entries, cursor })
}

fn view(record: &AuditRecord) -> AuditView {
    AuditView {
        id: record.id,
        at: record.at,
        actor: record.actor.clone(),
        action: record.action.clone(),
        queue: record.queue.clone(),
        detail: record.detail.clone(),
    }
}
