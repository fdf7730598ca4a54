//! The HTTP surface through a real server on a real port, spoken to in raw HTTP/1.1.

// What a test expects and does not find is its failure.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "http/bodies.rs"]
mod bodies;
#[path = "http/children.rs"]
mod children;
#[path = "http/client.rs"]
mod client;
#[path = "http/conformance.rs"]
mod conformance;
#[path = "http/connections.rs"]
mod connections;
#[path = "http/dead.rs"]
mod dead;
#[path = "http/documents.rs"]
mod documents;
#[path = "http/enqueue.rs"]
mod enqueue;
#[path = "http/events.rs"]
mod events;
#[path = "http/guards.rs"]
mod guards;
#[path = "http/invalid.rs"]
mod invalid;
#[path = "http/jobs.rs"]
mod jobs;
#[path = "http/limits.rs"]
mod limits;
#[path = "http/payloads.rs"]
mod payloads;
#[path = "http/queues.rs"]
mod queues;
#[path = "http/server.rs"]
mod server;
#[path = "http/sqs.rs"]
mod sqs;
#[path = "http/sqs_wire.rs"]
mod sqs_wire;
#[path = "http/starting.rs"]
mod starting;
#[path = "http/stream.rs"]
mod stream;
#[path = "http/types.rs"]
mod types;
#[path = "http/work.rs"]
mod work;
