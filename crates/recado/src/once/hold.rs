//! A step that is held while its work runs.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use super::store::{Step, Store, StoreError};

/// So many times within its time a hold is extended.
const BEATS: u32 = 3;

/// A held step. While this is there a task extends it, on a runtime with several threads also while the work keeps
/// its own busy.
pub(super) struct Hold {
    store: Arc<dyn Store>,
    step: Arc<Step>,
    token: Arc<str>,
    /// Ends by itself when another holder took the step over.
    beat: JoinHandle<()>,
}

impl Hold {
    pub(super) fn keep(store: Arc<dyn Store>, step: Step, token: Box<str>) -> Self {
        let (step, token) = (Arc::new(step), Arc::<str>::from(token));
        let beat = tokio::spawn(beat(Arc::clone(&store), Arc::clone(&step), Arc::clone(&token)));
        Self { store, step, token, beat }
    }

    /// Resolves when another holder took the step over.
    pub(super) async fn lost(&mut self) {
        if (&mut self.beat).await.is_err() {
            // The runtime ends, and this with it.
            std::future::pending::<()>().await;
        }
    }

    pub(super) async fn complete(&self, result: &[u8]) -> Result<(), StoreError> {
        self.store.complete(&self.step, &self.token, result).await
    }

    /// The next caller need not wait for the deadline.
    pub(super) async fn give_up(self) {
        self.beat.abort();
        if let Err(error) = self.store.abort(&self.step, &self.token).await {
            tracing::warn!(%error, queue = %self.step.queue, key = %self.step.key, "a step is free only at its deadline");
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.beat.abort();
    }
}

async fn beat(store: Arc<dyn Store>, step: Arc<Step>, token: Arc<str>) {
    let pause: Duration = step.hold_for / BEATS;
    loop {
        tokio::time::sleep(pause).await;
        match store.extend(&step, &token).await {
            Ok(()) => {}
            Err(StoreError::Overtaken) => return,
            Err(StoreError::Failed(error)) => {
                tracing::warn!(%error, queue = %step.queue, key = %step.key, "a step could not be extended");
            }
        }
    }
}
