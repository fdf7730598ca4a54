//! PostgreSQL as a store: a table with one row a step. All times are those of the database's clock.

use std::fmt::Display;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Mutex;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, NoTls, Row, Transaction};

use super::error::OnceError;
use super::store::{Begun, Step, Store, StoreError, new_token};

/// Makes the table, if it is not there. [`PostgresStore::create_table`] runs it; who keeps a schema by migrations
/// puts it there.
pub const CREATE_TABLE: &str = "
CREATE TABLE IF NOT EXISTS recado_once (
    queue text NOT NULL,
    key text NOT NULL,
    token text NOT NULL,
    held_until timestamptz NOT NULL,
    result text,
    forget_at timestamptz NOT NULL,
    PRIMARY KEY (queue, key)
);
CREATE INDEX IF NOT EXISTS recado_once_forget_at ON recado_once (forget_at);
";

/// Takes the row if there is none, its holder is late, or its time is over.
const BEGIN: &str = "
INSERT INTO recado_once AS o (queue, key, token, held_until, forget_at)
VALUES ($1, $2, $3, clock_timestamp() + $4 * interval '1 ms', clock_timestamp() + greatest($4, $5) * interval '1 ms')
ON CONFLICT (queue, key) DO UPDATE
SET token = excluded.token, held_until = excluded.held_until, forget_at = excluded.forget_at, result = NULL
WHERE o.forget_at <= clock_timestamp() OR o.result IS NULL AND o.held_until <= clock_timestamp()
RETURNING 1";

const LOOK: &str = "
SELECT result, greatest(0, ceil(extract(epoch FROM held_until - clock_timestamp()) * 1000))::bigint
FROM recado_once WHERE queue = $1 AND key = $2";

const EXTEND: &str = "
UPDATE recado_once
SET held_until = clock_timestamp() + $4 * interval '1 ms',
    forget_at = greatest(forget_at, clock_timestamp() + $4 * interval '1 ms')
WHERE queue = $1 AND key = $2 AND token = $3 AND result IS NULL";

const COMPLETE: &str = "
UPDATE recado_once SET result = $4, forget_at = clock_timestamp() + $5 * interval '1 ms'
WHERE queue = $1 AND key = $2 AND token = $3 AND (result IS NULL OR result = $4)";

const ABORT: &str = "DELETE FROM recado_once WHERE queue = $1 AND key = $2 AND token = $3 AND result IS NULL";

/// A few rows whose time is over go with each new one, so that the table stays near what is kept.
const FORGET: &str = "
DELETE FROM recado_once WHERE (queue, key) IN (
    SELECT queue, key FROM recado_once WHERE forget_at <= clock_timestamp() LIMIT 10 FOR UPDATE SKIP LOCKED)";

/// Makes a connection and drives it on a task of its own.
pub type Connect = Box<dyn Fn() -> BoxFuture<'static, Result<Client, tokio_postgres::Error>> + Send + Sync>;

/// See the module. One connection, made when it is needed and again when it broke.
pub struct PostgresStore {
    connect: Connect,
    client: Mutex<Option<Arc<Client>>>,
}

type Answer<T> = Result<T, StoreError>;

impl PostgresStore {
    /// Over a connection without TLS, as on one machine or through a Unix socket.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self::over(Box::new(move || {
            let config = config.clone();
            async move {
                let (client, connection) = config.connect(NoTls).await?;
                tokio::spawn(async move {
                    if let Err(error) = connection.await {
                        tracing::warn!(%error, "the connection to PostgreSQL broke");
                    }
                });
                Ok(client)
            }
            .boxed()
        }))
    }

    /// Over connections that the program makes itself, as with TLS.
    #[must_use]
    pub fn over(connect: Connect) -> Self {
        Self { connect, client: Mutex::new(None) }
    }

    /// Makes the table, if it is not there.
    ///
    /// # Errors
    /// [`StoreError::Failed`].
    pub async fn create_table(&self) -> Result<(), StoreError> {
        let client = self.client().await?;
        client.batch_execute(CREATE_TABLE).await.map_err(StoreError::failed)
    }

    async fn client(&self) -> Answer<Arc<Client>> {
        let mut kept = self.client.lock().await;
        if let Some(client) = kept.as_ref().filter(|client| !client.is_closed()) {
            return Ok(Arc::clone(client));
        }
        let client = Arc::new((self.connect)().await.map_err(StoreError::failed)?);
        *kept = Some(Arc::clone(&client));
        Ok(client)
    }

    /// A change that must meet the token's row.
    async fn change(&self, statement: &str, step: &Step, token: &str, more: &[&(dyn ToSql + Sync)]) -> Answer<()> {
        let client = self.client().await?;
        let (queue, key) = (&*step.queue, &*step.key);
        let params = [&[&queue as &(dyn ToSql + Sync), &key, &token], more].concat();
        match client.execute(statement, &params).await {
            Ok(0) => Err(StoreError::Overtaken),
            Ok(_) => Ok(()),
            Err(error) => Err(StoreError::failed(error)),
        }
    }

    async fn begin_now(&self, step: &Step) -> Answer<Begun> {
        let client = self.client().await?;
        let (queue, key, token) = (&*step.queue, &*step.key, new_token());
        let (hold_ms, ttl_ms) = (ms(step.hold_for), ms(step.ttl));
        loop {
            let taken = client.query_opt(BEGIN, &[&queue, &key, &&*token, &hold_ms, &ttl_ms]).await;
            if taken.map_err(StoreError::failed)?.is_some() {
                // The step is this caller's by now, and would stay held if that were not told.
                if let Err(error) = client.execute(FORGET, &[]).await {
                    tracing::warn!(%error, "rows of steps whose time is over stay");
                }
                return Ok(Begun::New { token });
            }
            let there = client.query_opt(LOOK, &[&queue, &key]).await.map_err(StoreError::failed)?;
            // Without a row it was given up in between.
            if let Some(row) = there {
                return found(&row);
            }
        }
    }

    async fn abort_now(&self, step: &Step, token: &str) -> Answer<()> {
        match self.change(ABORT, step, token, &[]).await {
            Err(StoreError::Overtaken) => {
                let client = self.client().await?;
                let there = client.query_opt(LOOK, &[&&*step.queue, &&*step.key]).await.map_err(StoreError::failed)?;
                if there.is_some() { Err(StoreError::Overtaken) } else { Ok(()) }
            }
            done => done,
        }
    }
}

/// Milliseconds as the statements take them.
fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

fn found(row: &Row) -> Answer<Begun> {
    let result: Option<String> = row.try_get(0).map_err(StoreError::failed)?;
    let left_ms: i64 = row.try_get(1).map_err(StoreError::failed)?;
    Ok(match result {
        Some(result) => Begun::Done { result: Bytes::from(result) },
        None => {
            let left = Duration::from_millis(u64::try_from(left_ms).unwrap_or(0));
            Begun::Processing { until: SystemTime::now() + left }
        }
    })
}

impl Store for PostgresStore {
    fn begin<'a>(&'a self, step: &'a Step) -> BoxFuture<'a, Answer<Begun>> {
        self.begin_now(step).boxed()
    }

    fn extend<'a>(&'a self, step: &'a Step, token: &'a str) -> BoxFuture<'a, Answer<()>> {
        async move { self.change(EXTEND, step, token, &[&ms(step.hold_for)]).await }.boxed()
    }

    fn complete<'a>(&'a self, step: &'a Step, token: &'a str, result: &'a [u8]) -> BoxFuture<'a, Answer<()>> {
        async move {
            let result = std::str::from_utf8(result).map_err(StoreError::failed)?;
            self.change(COMPLETE, step, token, &[&result, &ms(step.ttl)]).await
        }
        .boxed()
    }

    fn abort<'a>(&'a self, step: &'a Step, token: &'a str) -> BoxFuture<'a, Answer<()>> {
        self.abort_now(step, token).boxed()
    }
}

/// Does a step within the caller's own transaction: the effect and the mark that it is done commit together, or
/// neither does. Whoever comes second waits in the database until the first transaction has ended; there is no
/// deadline and no token, since a connection that breaks ends its transaction.
///
/// The caller commits. On an error it rolls back. The isolation level must be `READ COMMITTED`, the default of
/// PostgreSQL: in a stricter one the second transaction fails with a serialization error and is made again.
///
/// # Errors
/// [`OnceError::Failed`] with what the work said; [`OnceError::NotBegun`] and [`OnceError::NotSaved`] with what the
/// database said; [`OnceError::Processing`] when a holder outside of any transaction is at the step.
pub async fn in_transaction<T, E>(
    transaction: &Transaction<'_>,
    step: &Step,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, OnceError<E>>
where
    T: Serialize + DeserializeOwned,
    E: Display,
{
    step.check().map_err(|error| OnceError::NotBegun(error.into()))?;
    let not_begun = |error: tokio_postgres::Error| OnceError::NotBegun(error.into());
    let (queue, key, token) = (&*step.queue, &*step.key, new_token());
    let begin: [&(dyn ToSql + Sync); 5] = [&queue, &key, &&*token, &ms(step.hold_for), &ms(step.ttl)];
    if transaction.query_opt(BEGIN, &begin).await.map_err(not_begun)?.is_none() {
        let row = transaction.query_one(LOOK, &[&queue, &key]).await.map_err(not_begun)?;
        return match found(&row).map_err(|error| OnceError::NotBegun(error.into_source()))? {
            Begun::Done { result } => serde_json::from_slice(&result).map_err(OnceError::Unreadable),
            Begun::Processing { until } => Err(OnceError::Processing { until }),
            Begun::New { .. } => unreachable!("a row is held or done"),
        };
    }
    match work.await {
        Ok(value) => {
            let result = serde_json::to_string(&value).map_err(|error| OnceError::NotSaved(error.into()))?;
            let complete: [&(dyn ToSql + Sync); 5] = [&queue, &key, &&*token, &result, &ms(step.ttl)];
            let not_saved = |error: tokio_postgres::Error| OnceError::NotSaved(error.into());
            transaction.execute(COMPLETE, &complete).await.map_err(not_saved)?;
            // Last, because whoever begins one of these steps anew waits for this transaction.
            transaction.execute(FORGET, &[]).await.map_err(not_saved)?;
            Ok(value)
        }
        Err(error) => {
            // Should the caller commit all the same, the step is free. A statement of the work that failed has
            // ended the transaction, and this with it.
            if let Err(error) = transaction.execute(ABORT, &[&queue, &key, &&*token]).await {
                tracing::debug!(%error, "the step goes with its transaction");
            }
            Err(OnceError::Failed(error))
        }
    }
}
