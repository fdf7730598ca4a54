//! The queue itself as a store: a step of a job is known as long as the job.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use recado_core::{GuardAction, GuardUse};
use recado_shard::Once;

use super::store::{Begun, Step, Store, StoreError};
use crate::backend::Backend;
use crate::error::Error;

/// See the module.
pub(crate) struct QueueStore(pub(crate) Arc<Backend>);

impl QueueStore {
    async fn act(&self, step: &Step, token: &str, action: GuardAction) -> Result<(), StoreError> {
        let (queue, key, token) = (step.queue.clone(), step.key.clone(), token.into());
        self.0.use_guard(GuardUse { queue, key, token, action }).await.map_err(|error| match &error {
            Error::Refused(problem) if problem.code() == "stale-receipt" => StoreError::Overtaken,
            _ => StoreError::failed(error),
        })
    }
}

impl Store for QueueStore {
    fn begin<'a>(&'a self, step: &'a Step) -> BoxFuture<'a, Result<Begun, StoreError>> {
        async move {
            Ok(match self.0.begin_guard(step.as_begin()).await.map_err(StoreError::failed)? {
                Once::New(token) => Begun::New { token },
                Once::Done(result) => Begun::Done { result: result.unwrap_or(Bytes::from_static(b"null")) },
                Once::Processing(until) => Begun::Processing { until: UNIX_EPOCH + Duration::from_millis(until) },
            })
        }
        .boxed()
    }

    fn extend<'a>(&'a self, step: &'a Step, token: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        let hold_ms = crate::job::millis(step.hold_for);
        self.act(step, token, GuardAction::Extend { hold_ms }).boxed()
    }

    fn complete<'a>(
        &'a self,
        step: &'a Step,
        token: &'a str,
        result: &'a [u8],
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.act(step, token, GuardAction::Complete { result: Some(result.to_vec()) }).boxed()
    }

    fn abort<'a>(&'a self, step: &'a Step, token: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        self.act(step, token, GuardAction::Abort).boxed()
    }
}
