//! What can go wrong, as one closed enum: where it happened and what to do about it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::{Place, Position};

/// A failure of the log. It can be cloned, because one failure may have to be told to many callers.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// No room for the batch; nothing of it was written.
    #[error("no room for {needed} bytes, {room} are left: trim the log or free disk space")]
    Full {
        /// Head plus tail of the refused batch, in bytes.
        needed: u64,
        /// What would have been taken, in bytes.
        room: u64,
    },
    /// The batch is larger than any batch may be.
    #[error("batch of {actual} bytes is larger than {limit}: split it")]
    TooLarge {
        /// Largest head plus tail, in bytes.
        limit: usize,
        /// Head plus tail of the refused batch, in bytes.
        actual: usize,
    },
    /// A write or sync failed earlier; what was not committed then has an unknown outcome.
    #[error("log stopped: {reason}: restart the process, it recovers what is durable")]
    Poisoned {
        /// The first failure.
        reason: Arc<str>,
    },
    /// The position was trimmed away.
    #[error("trimmed: the log starts at position {first} now, read on from there")]
    Trimmed {
        /// First position that is still there.
        first: Position,
    },
    /// Bytes that were durable are damaged or missing.
    #[error(
        "{}: {what} at offset {offset} (position {position}): run `recado log check`, then `recado log repair` or restore a backup",
        file.display()
    )]
    Corrupt {
        /// The damaged file.
        file: PathBuf,
        /// Where in the file, in bytes.
        offset: u64,
        /// Which position that is.
        position: Position,
        /// What is wrong with it.
        what: &'static str,
    },
    /// Another process has the data directory.
    #[error("{}: in use by another process: stop it, or choose another data directory", path.display())]
    InUse {
        /// The lock file.
        path: PathBuf,
    },
    /// The file was written by a newer version.
    #[error("{}: has format {found}, this version knows up to {known}: use a newer version", path.display())]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// Its format version.
        found: u32,
        /// The newest format version known here.
        known: u32,
    },
    /// The data directory cannot be written.
    #[error("{}: read-only: make the data directory writable for this user", path.display())]
    ReadOnly {
        /// The file that could not be made.
        path: PathBuf,
    },
    /// A directory that has to be empty is not.
    #[error("{}: not empty: choose an empty directory", path.display())]
    NotEmpty {
        /// The directory.
        path: PathBuf,
    },
    /// No batch stands there, or its tail is shorter.
    #[error(
        "no tail bytes {}+{} at position {}: the place is not from this log",
        place.offset, place.length, place.position
    )]
    NoSuchPlace {
        /// What was asked for.
        place: Place,
    },
    /// This kind of log cannot do it.
    #[error("not supported by this log: {what}")]
    Unsupported {
        /// What was asked for.
        what: &'static str,
    },
    /// An option is out of range.
    #[error("invalid option: {what}")]
    Options {
        /// Which one, and its range.
        what: &'static str,
    },
    /// The operating system refused something.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        source: Arc<io::Error>,
    },
}

impl Error {
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Error {
        Error::Io { action, path: path.to_path_buf(), source: Arc::new(source) }
    }

    /// True when the cause is a full disk or a spent quota.
    pub fn is_out_of_space(&self) -> bool {
        match self {
            Error::Full { .. } => true,
            Error::Io { source, .. } => is_out_of_space(source),
            _ => false,
        }
    }

    /// True when stored bytes are damaged or gone: reading them again gives nothing else.
    pub fn is_damage(&self) -> bool {
        match self {
            Error::Corrupt { .. } | Error::NoSuchPlace { .. } => true,
            Error::Io { source, .. } => {
                source.kind() == io::ErrorKind::UnexpectedEof
                    || source.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
            }
            _ => false,
        }
    }
}

fn is_out_of_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

pub(crate) fn is_read_only(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied)
}
