//! Redis as a store: one string a step, `h` and the token while it is held; `d`, the token, a colon and the result once it is
//! done, so that of two holders with equal results only one is told that its own was saved.
//!
//! `SET NX PX` begins; scripts that compare the token do the rest, so that what was overtaken changes nothing. A
//! key that Redis loses (an eviction, a restart without persistence, a failover to a replica that was behind) is
//! a step that was never done: use a `noeviction` instance with `appendonly yes`, or another store.

use std::time::{Duration, SystemTime};

use ::redis::aio::ConnectionManager;
use ::redis::{AsyncCommands, ExistenceCheck, Script, ScriptInvocation, SetExpiry, SetOptions};
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::store::{Begun, Step, Store, StoreError, new_token};

/// See the module.
pub struct RedisStore {
    connection: ConnectionManager,
    prefix: Box<str>,
    extend: Script,
    complete: Script,
    abort: Script,
}

/// A key that is gone was not overtaken: nobody else has begun since.
const EXTEND: &str = r"
    local now = redis.call('GET', KEYS[1])
    if now and now ~= ARGV[1] then return 0 end
    redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
    return 1";

const COMPLETE: &str = r"
    local now = redis.call('GET', KEYS[1])
    if now and now ~= ARGV[1] then
        if now == ARGV[3] then return 1 else return 0 end
    end
    redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[2])
    return 1";

const ABORT: &str = r"
    local now = redis.call('GET', KEYS[1])
    if now and now ~= ARGV[1] then return 0 end
    redis.call('DEL', KEYS[1])
    return 1";

impl RedisStore {
    /// Over a connection that is made again by itself. Keys begin with `recado:once:`.
    #[must_use]
    pub fn new(connection: ConnectionManager) -> Self {
        let [extend, complete, abort] = [EXTEND, COMPLETE, ABORT].map(Script::new);
        Self { connection, prefix: "recado:once:".into(), extend, complete, abort }
    }

    /// With other first letters of all keys, as where several programs share an instance.
    #[must_use]
    pub fn prefix(self, prefix: &str) -> Self {
        Self { prefix: prefix.into(), ..self }
    }

    /// A queue's name has no slash.
    fn name(&self, step: &Step) -> String {
        format!("{}{}/{}", self.prefix, step.queue, step.key)
    }

    async fn begin_now(&self, step: &Step) -> Result<Begun, StoreError> {
        let mut connection = self.connection.clone();
        let (name, token) = (self.name(step), new_token());
        let options = SetOptions::default()
            .conditional_set(ExistenceCheck::NX)
            .with_expiration(SetExpiry::PX(crate::job::millis(step.hold_for)));
        loop {
            let set: Option<String> = connection
                .set_options(&name, format!("h{token}"), options.clone())
                .await
                .map_err(StoreError::failed)?;
            if set.is_some() {
                return Ok(Begun::New { token });
            }
            let there: (Option<Vec<u8>>, i64) = ::redis::pipe()
                .atomic()
                .get(&name)
                .pttl(&name)
                .query_async(&mut connection)
                .await
                .map_err(StoreError::failed)?;
            match there {
                (Some(value), _) if value.first() == Some(&b'd') => {
                    return result_of(value).map(|result| Begun::Done { result });
                }
                (Some(_), left_ms) => {
                    let left = Duration::from_millis(u64::try_from(left_ms).unwrap_or(0));
                    return Ok(Begun::Processing { until: SystemTime::now() + left });
                }
                // It ended in between.
                (None, _) => {}
            }
        }
    }

    async fn compare(&self, invocation: &ScriptInvocation<'_>) -> Result<(), StoreError> {
        let mut connection = self.connection.clone();
        match invocation.invoke_async(&mut connection).await {
            Ok(1) => Ok(()),
            Ok(_) => Err(StoreError::Overtaken),
            Err(error) => Err(StoreError::failed(error)),
        }
    }
}

/// What [`COMPLETE`] saved, behind its holder's token.
fn result_of(value: Vec<u8>) -> Result<Bytes, StoreError> {
    let colon = value.iter().position(|byte| *byte == b':');
    let colon = colon.ok_or_else(|| StoreError::failed("Redis holds something else under the step's key"))?;
    Ok(Bytes::from(value).slice(colon + 1..))
}

impl Store for RedisStore {
    fn begin<'a>(&'a self, step: &'a Step) -> BoxFuture<'a, Result<Begun, StoreError>> {
        self.begin_now(step).boxed()
    }

    fn extend<'a>(&'a self, step: &'a Step, token: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            let mut call = self.extend.key(self.name(step));
            self.compare(call.arg(format!("h{token}")).arg(crate::job::millis(step.hold_for))).await
        }
        .boxed()
    }

    fn complete<'a>(
        &'a self,
        step: &'a Step,
        token: &'a str,
        result: &'a [u8],
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            let done = [b"d", token.as_bytes(), b":", result].concat();
            let mut call = self.complete.key(self.name(step));
            self.compare(call.arg(format!("h{token}")).arg(crate::job::millis(step.ttl)).arg(done)).await
        }
        .boxed()
    }

    fn abort<'a>(&'a self, step: &'a Step, token: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            let mut call = self.abort.key(self.name(step));
            self.compare(call.arg(format!("h{token}"))).await
        }
        .boxed()
    }
}
