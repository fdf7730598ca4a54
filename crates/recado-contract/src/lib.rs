//! What every edge of Recado holds to, whether it speaks HTTP or is called in the process: names, limits,
//! durations and times as text, strict JSON, what a job may be, and the refusals that say why not.
//!
//! It knows no HTTP; with the feature `http` a [`problem::Problem`] can be an answer of that edge.

pub mod duration;
pub mod faults;
pub mod gate;
pub mod guard;
#[cfg(feature = "http")]
mod http;
pub mod job;
pub mod json;
pub mod limits;
mod merge_patch;
pub mod name;
pub mod nearest;
mod objects;
pub mod problem;
pub mod scan;
pub mod schedule;
pub mod schema;
pub mod size;
pub mod time;
pub mod types;

pub use merge_patch::merge_patch;
