//! What the shard promises, over a file log on a simulated disk (stepped by hand, so that every
//! interleaving is chosen) and, with all its threads, on a real one. One binary, a module a subject.

// The lints know test functions, not what they share.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "shard/chaos.rs"]
mod chaos;
#[path = "shard/clock.rs"]
mod clock;
#[path = "shard/commit.rs"]
mod commit;
#[path = "shard/damage.rs"]
mod damage;
#[path = "shard/delivery.rs"]
mod delivery;
#[path = "shard/guards.rs"]
mod guards;
#[path = "shard/listening.rs"]
mod listening;
#[path = "shard/overload.rs"]
mod overload;
#[path = "shard/poison.rs"]
mod poison;
#[path = "shard/restart.rs"]
mod restart;
#[path = "shard/space.rs"]
mod space;
#[path = "shard/tasks.rs"]
mod tasks;
#[path = "shard/threads.rs"]
mod threads;
#[path = "shard/trim.rs"]
mod trim;
#[path = "shard/waiting.rs"]
mod waiting;
#[path = "shard/world.rs"]
mod world;
