//! The wire of Amazon SQS, pure: bytes become a [`Request`], an [`Answer`] or an [`SqsError`] becomes bytes, in
//! both protocols (AWS JSON 1.0 and Query/XML).
//!
//! What it knows is what a message, an attribute, a name, a limit and a signature are, and what the service says
//! when one is wrong. It knows no queue: no I/O, no clock (the time is an argument), no server, no engine. Rules
//! that need the queue are methods that take its [`attributes::QueueAttributes`].
//!
//! A call is answered so: [`Protocol::of`] says whether it is SQS at all, [`signature::Signed::parse`] who says to
//! send it, [`decode`] what is asked, [`encode`] makes the answer.

pub mod action;
pub mod answer;
pub mod arn;
pub mod attributes;
pub mod call;
mod decode;
mod encode;
pub mod error;
pub mod message;
pub mod page;
pub mod policy;
pub mod request;
pub mod signature;
pub mod tags;
pub mod task_handle;
pub mod url;

pub use action::Action;
pub use answer::Answer;
pub use call::{Call, Protocol};
pub use decode::{action_in_head, decode};
pub use encode::{Form, encode};
pub use error::{Code, SqsError};
pub use request::Request;
