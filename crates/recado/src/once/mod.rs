//! One effect: a step that is done at most once successfully, across redeliveries and crashes.
//!
//! A step has a name in a [`Store`]. Who begins it first holds it while the work runs, with a deadline that is
//! extended in the background; its result is saved and given to everyone who comes later. A holder that has
//! crashed frees the step at its deadline, and a token keeps what is late from counting.
//!
//! No store can make an effect outside of itself happen exactly once: a process that ends between the effect and
//! the saved result leaves a step to be done again. `in_transaction` (feature `postgres`) commits both together,
//! where the effect is in the same database.

mod error;
mod hold;
mod memory;
#[cfg(feature = "postgres")]
mod postgres;
mod queue;
#[cfg(feature = "redis")]
mod redis;
mod store;

use std::future::IntoFuture;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use hold::Hold;

#[cfg(feature = "redis")]
pub use self::redis::RedisStore;
pub use error::OnceError;
pub use memory::MemoryStore;
#[cfg(feature = "postgres")]
pub use postgres::{CREATE_TABLE, Connect, PostgresStore, in_transaction};
pub(crate) use queue::QueueStore;
pub use store::{Begun, JobStep, Step, Store, StoreError};

/// How long a caller waits for another holder unless it says otherwise: longer than a crashed one holds on.
const WAIT_DEFAULT: Duration = Duration::from_secs(120);

/// Pauses between two looks at a step that somebody else is at.
const LOOK_MIN: Duration = Duration::from_millis(20);
const LOOK_MAX: Duration = Duration::from_secs(1);

/// How often it is tried to save a result, with pauses in between.
const SAVE_TRIES: u32 = 5;
const SAVE_PAUSE: Duration = Duration::from_millis(100);

/// A step to be done once: set what differs from the defaults, and await.
#[must_use = "nothing happens until it is awaited"]
pub struct Once<'a, F> {
    store: Arc<dyn Store>,
    step: Step,
    wait: Duration,
    work: F,
    /// What the work may borrow.
    borrows: PhantomData<&'a ()>,
}

impl<F> Once<'_, F> {
    pub(crate) fn new(store: Arc<dyn Store>, step: Step, work: F) -> Self {
        Self { store, step, wait: WAIT_DEFAULT, work, borrows: PhantomData }
    }

    /// A step in a store of one's own; [`crate::Recado::once`] uses the queue.
    pub fn in_store(store: Arc<dyn Store>, step: Step, work: F) -> Self {
        Self::new(store, step, work)
    }

    /// Keeps what is known of the step there instead of in the queue.
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = store;
        self
    }

    /// Others wait for so long for a holder that is not heard of, 100 ms to 12 h; 1 min by default. While the work
    /// runs this is extended.
    pub fn hold_for(mut self, time: Duration) -> Self {
        self.step.hold_for = time;
        self
    }

    /// The result is kept for so long after the success, up to 365 d. In the queue a job's steps are kept as long
    /// as the job.
    pub fn keep_for(mut self, time: Duration) -> Self {
        self.step.ttl = time;
        self
    }

    /// Waits at most so long for another holder; 2 min by default. [`Duration::ZERO`] does not wait.
    pub fn wait(mut self, at_most: Duration) -> Self {
        self.wait = at_most;
        self
    }
}

impl<'a, T, E, F> IntoFuture for Once<'a, F>
where
    F: Future<Output = Result<T, E>> + Send + 'a,
    T: Serialize + DeserializeOwned + Send + 'a,
    E: Send + 'a,
{
    type Output = Result<T, OnceError<E>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(run(self.store, self.step, self.wait, self.work))
    }
}

async fn run<T, E>(
    store: Arc<dyn Store>,
    step: Step,
    wait: Duration,
    work: impl Future<Output = Result<T, E>> + Send,
) -> Result<T, OnceError<E>>
where
    T: Serialize + DeserializeOwned + Send,
    E: Send,
{
    step.check().map_err(|error| OnceError::NotBegun(error.into()))?;
    let token = match begin(&*store, &step, wait).await? {
        Found::Token(token) => token,
        Found::Result(bytes) => return serde_json::from_slice(&bytes).map_err(OnceError::Unreadable),
    };
    let mut hold = Hold::keep(store, step, token);
    let done = tokio::select! {
        biased;
        done = work => done,
        () = hold.lost() => return Err(OnceError::Overtaken),
    };
    match done {
        Ok(value) => {
            let result = serde_json::to_vec(&value).map_err(|error| OnceError::NotSaved(error.into()))?;
            save(&hold, &result).await.map(|()| value)
        }
        Err(error) => {
            hold.give_up().await;
            Err(OnceError::Failed(error))
        }
    }
}

enum Found {
    Token(Box<str>),
    Result(Bytes),
}

/// Begins, waiting while somebody else is at it.
async fn begin<E>(store: &dyn Store, step: &Step, wait: Duration) -> Result<Found, OnceError<E>> {
    let give_up = Instant::now().checked_add(wait);
    let mut pause = LOOK_MIN;
    loop {
        let until = match store.begin(step).await {
            Ok(Begun::New { token }) => return Ok(Found::Token(token)),
            Ok(Begun::Done { result }) => return Ok(Found::Result(result)),
            Ok(Begun::Processing { until }) => until,
            Err(error) => return Err(OnceError::NotBegun(error.into_source())),
        };
        let left = give_up.map_or(LOOK_MAX, |at| at.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            return Err(OnceError::Processing { until });
        }
        // It may be done, or given up, at any time before its deadline.
        let to_deadline = until.duration_since(SystemTime::now()).unwrap_or(LOOK_MIN).max(LOOK_MIN);
        tokio::time::sleep(pause.min(to_deadline).min(left)).await;
        pause = (pause * 2).min(LOOK_MAX);
    }
}

/// The effect has happened: all is tried to make that known.
async fn save<E>(hold: &Hold, result: &[u8]) -> Result<(), OnceError<E>> {
    let mut tries = 0;
    loop {
        match hold.complete(result).await {
            Ok(()) => return Ok(()),
            Err(StoreError::Overtaken) => return Err(OnceError::Overtaken),
            Err(StoreError::Failed(error)) => {
                tries += 1;
                if tries == SAVE_TRIES {
                    return Err(OnceError::NotSaved(error));
                }
                tokio::time::sleep(SAVE_PAUSE * 2_u32.pow(tries)).await;
            }
        }
    }
}
