//! A delivery that is not confirmed is undone.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use recado_core::{Delivered, JobId};

use crate::inbox::Internal;
use crate::shared::Shared;

/// A job whose bytes cannot be read is tried again after so many milliseconds.
const UNREADABLE_DELAY_MS: u64 = 60_000;

/// Deliveries of which is remembered that they were answered again.
const REPEATS_MAX: usize = 65_536;

/// Deliveries that were answered again under their `attemptId`. A worker asks again because the first
/// answer failed it; when that one is found lost, often much later, the jobs are with the worker by the
/// second. So from then on only a settle or the visibility timeout ends them.
#[derive(Default)]
pub(crate) struct Repeats {
    nonces: BTreeSet<u64>,
    /// Oldest first. Forgetting one risks a second delivery, never a loss.
    order: VecDeque<u64>,
}

impl Repeats {
    pub(crate) fn add(&mut self, nonces: impl IntoIterator<Item = u64>) {
        for nonce in nonces {
            if self.nonces.insert(nonce) {
                self.order.push_back(nonce);
            }
        }
        while self.order.len() > REPEATS_MAX {
            if let Some(oldest) = self.order.pop_front() {
                self.nonces.remove(&oldest);
            }
        }
    }

    pub(crate) fn has(&self, nonce: u64) -> bool {
        self.nonces.contains(&nonce)
    }
}

/// Holds the jobs of one receive until their answer has been written to the worker. Dropped without
/// [`DeliveryGuard::confirm`] it gives them all back, uncounted, also while the command queue is full.
#[must_use = "dropping it gives the jobs back"]
pub struct DeliveryGuard {
    shared: Arc<Shared>,
    jobs: Vec<(JobId, u64)>,
}

impl DeliveryGuard {
    pub(crate) fn new(shared: &Arc<Shared>, jobs: &[Delivered]) -> Self {
        let jobs = jobs.iter().map(|delivered| (delivered.receipt.job, delivered.receipt.nonce)).collect();
        Self { shared: Arc::clone(shared), jobs }
    }

    /// The worker has its jobs.
    pub fn confirm(mut self) {
        self.jobs.clear();
    }

    /// Gives one job back now. One whose bytes cannot be read is hidden for a while: at the head of its
    /// queue it would come again with every receive and let no other pass.
    pub(crate) fn give_back(&mut self, job: JobId, is_unreadable: bool) {
        let returned = self.jobs.extract_if(.., |(held, _)| *held == job);
        let delay_ms = is_unreadable.then_some(UNREADABLE_DELAY_MS);
        self.shared.inbox.push_internal(returned.map(|(job, nonce)| Internal::GiveBack { job, nonce, delay_ms }));
    }
}

impl Drop for DeliveryGuard {
    fn drop(&mut self) {
        if !self.jobs.is_empty() {
            let returned = self.jobs.drain(..);
            let given = returned.map(|(job, nonce)| Internal::GiveBack { job, nonce, delay_ms: None });
            self.shared.inbox.push_internal(given);
        }
    }
}
