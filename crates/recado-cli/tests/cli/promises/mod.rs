//! The ten promises of the README, shown from outside: each test bears the name of its promise.

mod batches;
mod bounded;
mod dead;
mod delivered;
mod durable;
mod effects;
mod fenced;
mod finite;
mod order;
