//! How a command ends when it does not succeed: a message for people and an exit code for scripts.

use std::fmt::Display;
use std::io;

use serde_json::Value;

use crate::problem::Problem;

/// Exit codes, from sysexits(3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Ok = 0,
    /// A check failed: the command ran, and what it looked at is not as it should be.
    CheckFailed = 1,
    /// The command line or the environment is wrong.
    Usage = 64,
    /// The data is wrong: a payload, a file, an id.
    BadData = 65,
    /// The server, or what it needs, is not there.
    Unavailable = 69,
    /// Reading or writing failed.
    Io = 74,
    /// It may work later.
    TryAgain = 75,
    /// Not allowed: key, permission.
    NotAllowed = 77,
}

/// What a command answers.
pub(crate) type Outcome = Result<Exit, Failure>;

/// Why a command stopped.
#[derive(Debug)]
pub(crate) struct Failure {
    /// What the process exits with.
    pub(crate) exit: Exit,
    /// What is printed; nothing when empty.
    pub(crate) message: String,
    /// The server's problem, printed as it came with `--json`.
    pub(crate) problem: Option<Value>,
}

impl Failure {
    /// A failure with an exit code and a message.
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), problem: None }
    }

    /// The command line or the environment is wrong.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// What was given to work on is wrong.
    pub(crate) fn bad_data(message: impl Into<String>) -> Self {
        Self::new(Exit::BadData, message)
    }

    /// Something cannot be read or written.
    pub(crate) fn io(what: impl Display, error: &io::Error) -> Self {
        let exit = match error.kind() {
            io::ErrorKind::NotFound => Exit::BadData,
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Exit::NotAllowed,
            _ => Exit::Io,
        };
        Self::new(exit, format!("{what}: {error}"))
    }
}

impl From<recado_log::Error> for Failure {
    fn from(error: recado_log::Error) -> Self {
        use recado_log::Error;
        let exit = match &error {
            Error::InUse { .. } | Error::Full { .. } => Exit::TryAgain,
            Error::ReadOnly { .. } => Exit::NotAllowed,
            Error::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => Exit::NotAllowed,
            Error::Corrupt { .. } | Error::NewerFormat { .. } | Error::NotEmpty { .. } => Exit::BadData,
            _ => Exit::Io,
        };
        Self::new(exit, error.to_string())
    }
}

impl From<io::Error> for Failure {
    /// Only writes to standard output are converted without a word of what was written. A reader that
    /// went away (`recado jobs email | head`) has what it wanted: nothing is said.
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::new(Exit::Ok, "");
        }
        Self::io("cannot write to standard output", &error)
    }
}

impl From<recado::Error> for Failure {
    fn from(error: recado::Error) -> Self {
        use recado::Error;
        match &error {
            Error::Refused(problem) | Error::Unavailable(problem) => {
                Problem::read(problem.status(), &String::from_utf8_lossy(&problem.bytes())).into()
            }
            Error::Url { .. } => Self::usage(error.to_string()),
            _ => Self::new(Exit::Unavailable, error.to_string()),
        }
    }
}
