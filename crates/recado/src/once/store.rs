//! Where it is known which steps are done. Four stores: the queue itself, PostgreSQL, Redis, and one in memory.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use recado_contract::faults::Faults;
use recado_contract::guard;
use recado_contract::name::check_name;
use recado_contract::problem::Problem;
use recado_core::{GuardBegin, JobId};

use crate::error::{BoxError, Error};

/// The result of a step outside of any job is kept for so long unless it says otherwise.
const TTL_DEFAULT: Duration = Duration::from_secs(86_400);

/// .. and one of a job, where the store does not know how long the job lives.
const JOB_TTL_DEFAULT: Duration = Duration::from_secs(30 * 86_400);

const HOLD_DEFAULT: Duration = Duration::from_secs(60);

/// A step, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Step {
    /// The queue it belongs to: its keys are apart from those of other queues.
    pub queue: Box<str>,
    /// 1 to 256 bytes; for a step of a job the job's id is in it.
    pub key: Box<str>,
    /// The job it is a step of.
    pub job: Option<JobStep>,
    /// Its result is kept for so long after the success; a store that knows the job keeps it as long as the job.
    pub ttl: Duration,
    /// Others wait for so long for a holder that is not heard of.
    pub hold_for: Duration,
}

/// The delivery that a step is a part of.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobStep {
    /// The job.
    pub id: JobId,
    /// Proof that this worker has it.
    pub receipt: Box<str>,
}

impl Step {
    /// A step outside of any job, kept for 24 h, held for 1 min.
    #[must_use]
    pub fn new(queue: &str, key: &str) -> Self {
        Self { queue: queue.into(), key: key.into(), job: None, ttl: TTL_DEFAULT, hold_for: HOLD_DEFAULT }
    }

    /// A step of a job, kept as long as the job (30 d where the store cannot know), held for 1 min.
    pub(crate) fn of_job(queue: &str, id: JobId, receipt: &str, name: &str) -> Self {
        let job = Some(JobStep { id, receipt: receipt.into() });
        Self { job, ttl: JOB_TTL_DEFAULT, ..Self::new(queue, &format!("{id}:{name}")) }
    }

    /// With a time for which the result is kept, up to 365 d.
    #[must_use]
    pub fn keep_for(self, ttl: Duration) -> Self {
        Self { ttl, ..self }
    }

    /// With a time for which others wait, 100 ms to 12 h.
    #[must_use]
    pub fn hold_for(self, hold_for: Duration) -> Self {
        Self { hold_for, ..self }
    }

    /// Checks it as every edge does.
    pub(crate) fn check(&self) -> Result<(), Error> {
        check_name(&self.queue).map_err(|message| Error::Refused(Problem::name(message)))?;
        let mut faults = Faults::default();
        guard::check_begin(&self.as_begin(), &mut faults);
        faults.finish().map_err(Error::Refused)
    }

    pub(crate) fn as_begin(&self) -> GuardBegin {
        GuardBegin {
            queue: self.queue.clone(),
            key: self.key.clone(),
            ttl_ms: crate::job::millis(self.ttl),
            hold_ms: crate::job::millis(self.hold_for),
            job: self.job.as_ref().map(|job| job.id),
            receipt: self.job.as_ref().map(|job| job.receipt.clone()),
            attempt_id: None,
        }
    }
}

/// What a begin found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begun {
    /// Nobody was at it: it is the asker's.
    New {
        /// Proves it.
        token: Box<str>,
    },
    /// It is done.
    Done {
        /// JSON text, byte for byte as it was saved.
        result: Bytes,
    },
    /// Somebody is at it.
    Processing {
        /// When it may be taken over, on this machine's clock.
        until: SystemTime,
    },
}

/// Why a store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The token is not that of the step's last begin any more.
    #[error("another holder took the step over, or it was forgotten")]
    Overtaken,
    /// The store cannot be asked, or refused.
    #[error(transparent)]
    Failed(BoxError),
}

impl StoreError {
    /// What happened, without saying again that it was a store's error.
    pub(crate) fn into_source(self) -> BoxError {
        match self {
            Self::Failed(error) => error,
            overtaken @ Self::Overtaken => overtaken.into(),
        }
    }

    /// Whatever the store's client says.
    pub fn failed(error: impl Into<BoxError>) -> Self {
        Self::Failed(error.into())
    }
}

/// What a store promises.
///
/// - Of any number of begins at one time one is [`Begun::New`]; the next one is after `hold_for` since the begin or
///   last extend, after an abort, or `ttl` after the success.
/// - A token counts until another begin took the key, also past its deadline. Then every call with it is
///   [`StoreError::Overtaken`] and changes nothing. A store that forgets an overtaken token (Redis) may let it count
///   again once the other holder has given up or lapsed too, never while that one is at the step or has done it.
/// - Once [`Store::complete`] was answered, begins are [`Begun::Done`] with that result, byte for byte; the same
///   complete again is answered alike.
/// - What an error leaves behind is unknown; the same call may be made again.
pub trait Store: Send + Sync + 'static {
    /// Begins a step, or says what became of it.
    fn begin<'a>(&'a self, step: &'a Step) -> BoxFuture<'a, Result<Begun, StoreError>>;

    /// The holder is still at it: others wait for `hold_for` from now.
    fn extend<'a>(&'a self, step: &'a Step, token: &'a str) -> BoxFuture<'a, Result<(), StoreError>>;

    /// It is done, with this JSON text.
    fn complete<'a>(
        &'a self,
        step: &'a Step,
        token: &'a str,
        result: &'a [u8],
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// It was not done: the next begin is new.
    fn abort<'a>(&'a self, step: &'a Step, token: &'a str) -> BoxFuture<'a, Result<(), StoreError>>;
}

/// 128 random bits as text.
pub(crate) fn new_token() -> Box<str> {
    format!("{:032x}", rand::random::<u128>()).into()
}
