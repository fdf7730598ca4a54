//! In the memory of this process, for tests: what it knows ends with it, and no other process sees it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use tokio::time::Instant;

use super::store::{Begun, Step, Store, StoreError, new_token};

/// A store for tests.
#[derive(Debug, Default)]
pub struct MemoryStore(Mutex<Entries>);

/// By queue and key.
type Entries = HashMap<(Box<str>, Box<str>), Entry>;

#[derive(Debug)]
struct Entry {
    token: Box<str>,
    held_until: Instant,
    done: Option<(Bytes, Instant)>,
}

impl MemoryStore {
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin_now(&self, step: &Step) -> Begun {
        let now = Instant::now();
        let mut entries = self.entries();
        match entries.get(&name(step)) {
            Some(Entry { done: Some((result, until)), .. }) if *until > now => {
                return Begun::Done { result: result.clone() };
            }
            Some(Entry { done: None, held_until, .. }) if *held_until > now => {
                return Begun::Processing { until: SystemTime::now() + held_until.duration_since(now) };
            }
            _ => {}
        }
        let token = new_token();
        entries.insert(name(step), Entry { token: token.clone(), held_until: now + step.hold_for, done: None });
        Begun::New { token }
    }

    /// Changes the entry that the token holds.
    fn with(
        &self,
        step: &Step,
        token: &str,
        change: impl FnOnce(&mut Entry) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        match self.entries().get_mut(&name(step)) {
            Some(entry) if *entry.token == *token => change(entry),
            _ => Err(StoreError::Overtaken),
        }
    }
}

fn name(step: &Step) -> (Box<str>, Box<str>) {
    (step.queue.clone(), step.key.clone())
}

impl Store for MemoryStore {
    fn begin<'a>(&'a self, step: &'a Step) -> BoxFuture<'a, Result<Begun, StoreError>> {
        ready(Ok(self.begin_now(step))).boxed()
    }

    fn extend<'a>(&'a self, step: &'a Step, token: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        let extend = |entry: &mut Entry| {
            if entry.done.is_some() {
                return Err(StoreError::Overtaken);
            }
            entry.held_until = Instant::now() + step.hold_for;
            Ok(())
        };
        ready(self.with(step, token, extend)).boxed()
    }

    fn complete<'a>(
        &'a self,
        step: &'a Step,
        token: &'a str,
        result: &'a [u8],
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        let until = Instant::now() + step.ttl;
        let save = |entry: &mut Entry| {
            let (saved, _) = entry.done.get_or_insert_with(|| (Bytes::copy_from_slice(result), until));
            if *saved == *result { Ok(()) } else { Err(StoreError::Overtaken) }
        };
        ready(self.with(step, token, save)).boxed()
    }

    fn abort<'a>(&'a self, step: &'a Step, token: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        let mut entries = self.entries();
        let held = entries.get(&name(step)).map(|entry| *entry.token == *token && entry.done.is_none());
        if held == Some(true) {
            entries.remove(&name(step));
        }
        ready(if held == Some(false) { Err(StoreError::Overtaken) } else { Ok(()) }).boxed()
    }
}
