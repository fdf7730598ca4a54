//! Puts payloads and other bytes into answers, off the writer: from memory where they are still there,
//! else by reader threads, which read ahead for those who drain a backlog.

use std::sync::Arc;

use bytes::Bytes;
use recado_core::{ChildView, DecodeError, ErrorEntry, JobView, Meta, Place};
use recado_log::Position;
use tokio::sync::oneshot;

use crate::error::{Error, Unread};
use crate::shared::{Shared, kept};

/// Tails read beyond what was asked for, in bytes.
const READ_AHEAD_BYTES: usize = 1024 * 1024;

/// A job with its bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct FilledJob {
    /// What the state knows of it.
    pub view: JobView,
    /// JSON text; empty when it was not asked for.
    pub payload: Bytes,
    /// Headers and keys.
    pub meta: Meta,
    /// The first and the last ten errors.
    pub errors: Vec<ErrorEntry>,
    /// JSON text.
    pub result: Option<Bytes>,
    /// JSON text.
    pub progress: Option<Bytes>,
    /// Results of its children, JSON text, in the order of [`recado_core::ChildrenView::jobs`].
    pub children: Vec<Option<Bytes>>,
    /// What is left out above because its bytes cannot be read.
    pub unreadable: Vec<Unreadable>,
}

impl FilledJob {
    /// Its payload could be read.
    #[must_use]
    pub fn has_payload(&self) -> bool {
        self.unreadable.iter().all(|bad| bad.part != Part::Payload)
    }
}

/// A part of a job that cannot be read.
#[derive(Clone, Debug, PartialEq)]
pub struct Unreadable {
    /// Which.
    pub part: Part,
    /// Where it stands.
    pub place: Place,
    /// What is wrong.
    pub reason: Arc<str>,
}

/// What a job has in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The payload.
    Payload,
    /// Headers, business id, group and keys.
    Meta,
    /// One of its errors.
    Error,
    /// The result.
    Result,
    /// The progress.
    Progress,
    /// The result of one of its children.
    Child,
}

/// Who asks, and so whether it is worth reading ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    /// Jobs in the order in which they were enqueued: what follows will be asked for next.
    Drain,
    /// Any.
    Random,
}

type Bytewise = Result<Bytes, Unread>;

/// The job has moved in the log since it was looked at, or is gone.
pub(crate) struct Moved;

/// The bytes at all places, in their order.
pub(crate) async fn fetch_all(
    shared: &Arc<Shared>,
    places: Vec<Place>,
    pattern: Pattern,
) -> Result<Vec<Bytewise>, Error> {
    let mut slots = vec![None; places.len()];
    if !shared.cache.fill(&places, &mut slots) {
        let (promise, promised) = oneshot::channel();
        let reading = Arc::clone(shared);
        shared.workers.run(Box::new(move || read_missing(&reading, &places, slots, pattern, promise)));
        return promised.await.map_err(|_| shared.gone());
    }
    Ok(slots.into_iter().map(|slot| kept(slot.unwrap_or_default())).collect())
}

fn read_missing(
    shared: &Shared,
    places: &[Place],
    mut slots: Vec<Option<Bytes>>,
    pattern: Pattern,
    promise: oneshot::Sender<Vec<Bytewise>>,
) {
    // Someone else may have read them meanwhile.
    shared.cache.fill(places, &mut slots);
    let mut next = None;
    let read = |(slot, place): (Option<Bytes>, &Place)| match slot {
        Some(bytes) => kept(bytes),
        None => read_one(shared, *place, pattern, &mut next),
    };
    let bytes = slots.into_iter().zip(places).map(read).collect();
    drop(promise.send(bytes));
    if let Some(next) = next {
        read_ahead(shared, next);
    }
}

fn read_one(shared: &Shared, place: Place, pattern: Pattern, next: &mut Option<Position>) -> Bytewise {
    if pattern == Pattern::Drain && !shared.cache.has(place.position) {
        *next = read_whole(shared, Position(place.position));
    }
    shared.read(place)
}

/// Reads a whole tail into memory; the answer is where to go on. A failure, which may be another place's, is
/// met again, and told, by who asks for these bytes.
fn read_whole(shared: &Shared, at: Position) -> Option<Position> {
    if shared.cache.ahead_budget() < READ_AHEAD_BYTES {
        return None;
    }
    let entry = shared.reader.read(at, true).ok()?.filter(|entry| entry.position == at)?;
    shared.cache.put_ahead(at.0, entry.batch.tail);
    Some(entry.next)
}

fn read_ahead(shared: &Shared, mut next: Position) {
    let mut bytes = 0;
    while bytes < READ_AHEAD_BYTES && !shared.cache.has(next.0) {
        // A failure here is met again, and told, by who asks for these bytes.
        let Ok(Some(entry)) = shared.reader.read(next, true) else { return };
        bytes += entry.batch.tail.len().max(1);
        next = entry.next;
        shared.cache.put_ahead(entry.position.0, entry.batch.tail);
    }
}

/// Fills in jobs; each succeeds or fails by itself.
pub(crate) async fn fill_jobs(
    shared: &Arc<Shared>,
    jobs: Vec<JobView>,
    with_payload: bool,
    pattern: Pattern,
) -> Result<Vec<Result<FilledJob, Moved>>, Error> {
    let mut places = Vec::with_capacity(jobs.len() * 2);
    for job in &jobs {
        places.extend(with_payload.then_some(job.payload));
        places.push(job.meta);
        places.extend(job.errors.iter().chain(&job.result).chain(&job.progress));
        places.extend(children(job).iter().filter_map(|child| child.result));
    }
    let bytes = fetch_all(shared, places.clone(), pattern).await?;
    let mut bytes = places.into_iter().zip(bytes);
    Ok(jobs.into_iter().map(|job| assemble(job, with_payload, &mut bytes)).collect())
}

fn assemble(
    view: JobView,
    with_payload: bool,
    bytes: &mut impl Iterator<Item = (Place, Bytewise)>,
) -> Result<FilledJob, Moved> {
    let count = usize::from(with_payload) + 1 + view.errors.len();
    let count = count + usize::from(view.result.is_some()) + usize::from(view.progress.is_some());
    let count = count + children(&view).iter().filter(|child| child.result.is_some()).count();
    // All of this job's bytes are taken, whether or not one fails: the next job's follow.
    let own: Vec<_> = bytes.take(count).collect();
    if own.iter().any(|(_, read)| read.as_ref().is_err_and(Unread::is_trimmed)) {
        return Err(Moved);
    }
    let mut parts = Parts { bytes: own.into_iter(), unreadable: Vec::new() };
    let payload = if with_payload { parts.take(Part::Payload, Ok) } else { None };
    let meta = parts.take(Part::Meta, |bytes| match bytes.is_empty() {
        true => Ok(Meta::default()),
        false => Meta::from_bytes(&bytes),
    });
    let errors = (0..view.errors.len())
        .filter_map(|_| parts.take(Part::Error, |bytes| ErrorEntry::from_bytes(&bytes)))
        .collect();
    let result = view.result.and_then(|_| parts.take(Part::Result, Ok));
    let progress = view.progress.and_then(|_| parts.take(Part::Progress, Ok));
    let children = children(&view).iter().map(|child| child.result.and_then(|_| parts.take(Part::Child, Ok))).collect();
    let unreadable = parts.unreadable;
    let (payload, meta) = (payload.unwrap_or_default(), meta.unwrap_or_default());
    Ok(FilledJob { view, payload, meta, errors, result, progress, children, unreadable })
}

fn children(view: &JobView) -> &[ChildView] {
    view.children.as_ref().map_or(&[], |children| &children.jobs)
}

/// The parts of one job, in the order in which they were asked for.
struct Parts {
    bytes: std::vec::IntoIter<(Place, Bytewise)>,
    unreadable: Vec<Unreadable>,
}

impl Parts {
    fn take<T>(&mut self, part: Part, decode: impl FnOnce(Bytes) -> Result<T, DecodeError>) -> Option<T> {
        let (place, read) = self.bytes.next()?;
        // What the log gives back is proven by its checksum; not to understand it is as bad as damage.
        let done = read.map_err(|unread| unread.to_string()).and_then(|bytes| decode(bytes).map_err(|e| e.to_string()));
        done.map_err(|reason| self.unreadable.push(Unreadable { part, place, reason: reason.into() })).ok()
    }
}
