//! The edge: HTTP in, commands out.
//!
//! It parses, checks, translates to commands of the shard, and writes answers. It never touches state and
//! decides nothing that the core decides; core types are converted by hand, never serialised. There is
//! no route that is not described in `/openapi.json`, and no refusal that is not a problem (RFC 9457).

mod connection;
mod duration;
mod http;
mod json;
mod limits;
mod merge_patch;
mod metrics;
mod name;
mod nearest;
mod objects;
mod openapi;
pub mod options;
mod origin;
mod problem;
mod query;
mod rejected;
mod running;
mod serve;
mod size;
mod time;

pub use merge_patch::merge_patch;
pub use name::check_name;
pub use running::{Config, Running, StartError, start};
