//! Guards from outside: work that is done once.

use bytes::Bytes;
use recado_core::{Begun, Command, GuardBegin, Reply};

use crate::error::Error;
use crate::handle::Handle;

/// What a begin found; see [`Begun`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Once {
    /// The work is the asker's; the token proves it.
    New(Box<str>),
    /// The work is done; JSON text.
    Done(Option<Bytes>),
    /// Somebody is at it until then.
    Processing(u64),
}

impl Handle {
    /// Begins work under a key, or answers what it ended with.
    ///
    /// # Errors
    /// As [`Handle::fetch`].
    pub async fn begin(&self, begin: GuardBegin) -> Result<Once, Error> {
        loop {
            match self.call(Command::GuardBegin(begin.clone())).await? {
                Reply::Begun(Begun::New { token }) => return Ok(Once::New(token)),
                Reply::Begun(Begun::Processing { until }) => return Ok(Once::Processing(until)),
                Reply::Begun(Begun::Done { result: None }) => return Ok(Once::Done(None)),
                Reply::Begun(Begun::Done { result: Some(place) }) => {
                    if let Some(bytes) = self.fetch_if_there(place).await? {
                        return Ok(Once::Done(Some(bytes)));
                    }
                    // The result has moved in the log since it was found: a begin that found it changed
                    // nothing, so ask again.
                }
                other => unreachable!("a begin answers begun, not {other:?}"),
            }
        }
    }
}
