//! A delivery that is not confirmed is undone.

use std::sync::Arc;

use recado_core::{Delivered, JobId};

use crate::inbox::Internal;
use crate::shared::Shared;

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

    /// Gives one job back now.
    pub(crate) fn give_back(&mut self, job: JobId) {
        let returned = self.jobs.extract_if(.., |(held, _)| *held == job);
        self.shared.inbox.push_internal(returned.map(|(job, nonce)| Internal::GiveBack { job, nonce }));
    }
}

impl Drop for DeliveryGuard {
    fn drop(&mut self) {
        if !self.jobs.is_empty() {
            let returned = self.jobs.drain(..);
            self.shared.inbox.push_internal(returned.map(|(job, nonce)| Internal::GiveBack { job, nonce }));
        }
    }
}
