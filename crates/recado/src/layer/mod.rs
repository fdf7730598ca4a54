//! What goes around every handler: layers as `tower` has them, over a `Service` that takes a [`Ctx`](crate::Ctx) and
//! answers the result as JSON.

#[cfg(feature = "metrics")]
mod metrics;
mod trace;

#[cfg(feature = "metrics")]
pub use metrics::{Measured, Metrics};
pub use trace::{Trace, Traced};
