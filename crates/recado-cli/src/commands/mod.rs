//! A file a command.

pub(crate) mod backup;
pub(crate) mod completions;
pub(crate) mod deliver;
pub(crate) mod dlq;
pub(crate) mod doctor;
pub(crate) mod enqueue;
pub(crate) mod enqueue_file;
pub(crate) mod hooks;
pub(crate) mod init;
pub(crate) mod jobs;
pub(crate) mod log;
pub(crate) mod queues;
pub(crate) mod receive;
pub(crate) mod schedules;
pub(crate) mod serve;
pub(crate) mod settle;
pub(crate) mod types;
pub(crate) mod version;
pub(crate) mod work;
