//! The rules of the queue, on its pure core. One binary, a module a subject.

// The lint knows test functions, not what they share.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, unreachable_pub)]

#[path = "core/model.rs"]
mod model;
#[path = "core/ops.rs"]
mod ops;
#[path = "core/pair.rs"]
mod pair;
#[path = "core/pair_family.rs"]
mod pair_family;
#[path = "core/pair_guard.rs"]
mod pair_guard;
#[path = "core/pair_operate.rs"]
mod pair_operate;
#[path = "core/script.rs"]
mod script;
#[path = "core/show.rs"]
mod show;
#[path = "core/words.rs"]
mod words;
#[path = "core/world.rs"]
mod world;

#[path = "core/bounds.rs"]
mod bounds;
#[path = "core/breakers.rs"]
mod breakers;
#[path = "core/children.rs"]
mod children;
#[path = "core/clock.rs"]
mod clock;
#[path = "core/guards.rs"]
mod guards;
#[path = "core/hooks.rs"]
mod hooks;
#[path = "core/keys.rs"]
mod keys;
#[path = "core/leases.rs"]
mod leases;
#[path = "core/limits.rs"]
mod limits;
#[path = "core/operate.rs"]
mod operate;
#[path = "core/order.rs"]
mod order;
#[path = "core/promises.rs"]
mod promises;
#[path = "core/property.rs"]
mod property;
#[path = "core/queries.rs"]
mod queries;
#[path = "core/replay.rs"]
mod replay;
#[path = "core/schedules.rs"]
mod schedules;
#[path = "core/schemas.rs"]
mod schemas;
#[path = "core/sqs.rs"]
mod sqs;
#[path = "core/timings.rs"]
mod timings;
#[path = "core/work.rs"]
mod work;
