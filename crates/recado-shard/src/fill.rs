//! Puts payloads and other bytes into answers, off the writer: from memory where they are still there,
//! else by reader threads, which read ahead for those who drain a backlog.

use std::sync::Arc;

use bytes::Bytes;
use recado_core::{DecodeError, ErrorEntry, JobId, JobView, Meta, Place};
use recado_log::Position;
use tokio::sync::oneshot;

use crate::error::Error;
use crate::shared::{Shared, log_place};

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
}

/// Who asks, and so whether it is worth reading ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    /// Jobs in the order in which they were enqueued: what follows will be asked for next.
    Drain,
    /// Any.
    Random,
}

type Bytewise = Result<Bytes, recado_log::Error>;

/// What could not be read, and why.
pub(crate) struct Missing {
    pub(crate) job: Option<JobId>,
    pub(crate) place: Place,
    pub(crate) error: recado_log::Error,
}

impl Missing {
    /// The place was freed meanwhile: the job has moved or is gone.
    pub(crate) fn is_trimmed(&self) -> bool {
        matches!(self.error, recado_log::Error::Trimmed { .. })
    }
}

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
    Ok(slots.into_iter().map(|slot| Ok(slot.unwrap_or_default())).collect())
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
        Some(bytes) => Ok(bytes),
        None => read_one(shared, *place, pattern, &mut next),
    };
    let bytes = slots.into_iter().zip(places).map(read).collect();
    drop(promise.send(bytes));
    if let Some(next) = next {
        read_ahead(shared, next);
    }
}

fn read_one(shared: &Shared, place: Place, pattern: Pattern, next: &mut Option<Position>) -> Bytewise {
    if let Some(bytes) = shared.cache.get(place) {
        return Ok(bytes);
    }
    if pattern == Pattern::Drain && shared.cache.ahead_budget() >= READ_AHEAD_BYTES {
        let at = Position(place.position);
        if let Some(entry) = shared.reader.read(at, true)?.filter(|entry| entry.position == at) {
            *next = Some(entry.next);
            shared.cache.put_ahead(place.position, entry.batch.tail);
            if let Some(bytes) = shared.cache.get(place) {
                return Ok(bytes);
            }
        }
    }
    shared.reader.get(log_place(place))
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
) -> Result<Vec<Result<FilledJob, Box<Missing>>>, Error> {
    let mut places = Vec::with_capacity(jobs.len() * 2);
    for job in &jobs {
        places.extend(with_payload.then_some(job.payload));
        places.push(job.meta);
        places.extend(job.errors.iter().chain(&job.result).chain(&job.progress));
    }
    let bytes = fetch_all(shared, places.clone(), pattern).await?;
    let mut bytes = places.into_iter().zip(bytes);
    Ok(jobs.into_iter().map(|job| assemble(job, with_payload, &mut bytes)).collect())
}

fn assemble(
    view: JobView,
    with_payload: bool,
    bytes: &mut impl Iterator<Item = (Place, Bytewise)>,
) -> Result<FilledJob, Box<Missing>> {
    let count = usize::from(with_payload) + 1 + view.errors.len();
    let count = count + usize::from(view.result.is_some()) + usize::from(view.progress.is_some());
    // All of this job's bytes are taken, whether or not one fails: the next job's follow.
    let mut own = Vec::with_capacity(count);
    let mut missing = None;
    for (place, read) in bytes.take(count) {
        match read {
            Ok(bytes) => own.push((place, bytes)),
            Err(error) => missing = missing.or(Some(Missing { job: Some(view.id), place, error })),
        }
    }
    if let Some(missing) = missing {
        return Err(Box::new(missing));
    }
    let mut own = own.into_iter();
    let mut take = || own.next().unwrap_or_default();
    let payload = if with_payload { take().1 } else { Bytes::new() };
    let meta = decode(take(), |bytes| if bytes.is_empty() { Ok(Meta::default()) } else { Meta::from_bytes(bytes) })?;
    let errors = view.errors.iter().map(|_| decode(take(), ErrorEntry::from_bytes)).collect::<Result<_, _>>()?;
    let result = view.result.is_some().then(|| take().1);
    let progress = view.progress.is_some().then(|| take().1);
    Ok(FilledJob { view, payload, meta, errors, result, progress })
}

fn decode<T>(
    (place, bytes): (Place, Bytes),
    decode: impl FnOnce(&[u8]) -> Result<T, DecodeError>,
) -> Result<T, Box<Missing>> {
    // What the log gives back is proven by its checksum; not to understand it is as bad as damage.
    decode(&bytes).map_err(|_| {
        let error = recado_log::Error::NoSuchPlace { place: log_place(place) };
        Box::new(Missing { job: None, place, error })
    })
}
