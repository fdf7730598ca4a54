//! The ten promises of the README, shown from outside: each test bears the name of its promise.

mod bounded;
mod durable;
mod effects;
mod fenced;
mod finite;
mod order;
mod rest;
