//! Dead jobs: groups of alike failures, and what a replay would do.

use alloc::boxed::Box;
use core::cmp::Reverse;
use core::ops::Bound;

use super::cursor::{Mark, Walk};
use super::{Answer, Answered, FingerprintView, Page};
use crate::command::Replay;
use crate::decide::find_queue;
use crate::state::standing::note_key;
use crate::state::{Presence, Queue, State};

/// Largest first; groups of one size by their number.
pub(super) fn fingerprints(state: &State, name: &str, page: &Page) -> Answered {
    let queue = find_queue(state, name)?;
    let last = page.mark()?.map(|mark| (Reverse((mark.spot >> 64) as usize), mark.spot as u64));
    let mut walk = Walk::new(page);
    let start = last.map_or(Bound::Unbounded, Bound::Excluded);
    let _ = queue.fingerprints_by_size.range((start, Bound::Unbounded)).all(|(Reverse(size), fingerprint)| {
        let mark = Mark::at((*size as u128) << 64 | u128::from(*fingerprint));
        walk.look(mark, || view(state, queue, *fingerprint))
    });
    let (groups, cursor) = walk.end();
    Ok(Answer::Fingerprints { groups, cursor })
}

fn view(state: &State, queue: &Queue, fingerprint: u64) -> Option<FingerprintView> {
    let group = queue.fingerprints.get(&fingerprint)?;
    let (first_at, _) = *group.jobs.first()?;
    let (last_at, newest) = *group.jobs.last()?;
    let newest = &state.jobs[newest];
    let note = state.notes.get_by(note_key(queue.record.number, fingerprint));
    Some(FingerprintView {
        fingerprint,
        kind: group.kind.clone(),
        error: newest.errors().last().copied(),
        count: group.jobs.len() as u64,
        first_at,
        last_at,
        example: newest.id,
        note: note.map(|note| note.text.clone()),
    })
}

/// What a replay would do now. A selection by filter looks at the dead of the queue, newest first, up to a
/// limit; how many were beyond it is told as skipped, `not-looked-at`.
pub(super) fn preview(state: &State, presence: &Presence, now: u64, name: &str, replay: &Replay) -> Answered {
    let queue = find_queue(state, name)?;
    let preview = state.preview(queue, replay);
    let example = preview.example.map(|slot| Box::new(state.view(slot, Some(presence), now)));
    let skipped = preview.skipped.into_iter().filter(|(_, jobs)| *jobs > 0);
    let skipped = skipped.map(|(word, jobs)| (word.into(), jobs)).collect();
    Ok(Answer::Preview { matched: preview.matched, skipped, example })
}
