//! Guards, on either side.

use recado_contract::faults::Faults;
use recado_contract::{gate, guard};
use recado_core::{Command, GuardBegin, GuardUse};
use recado_shard::Once;

use super::Backend;
use crate::error::Error;

impl Backend {
    /// Begins work under a key, or answers what it ended with. Its caller has checked it.
    pub(crate) async fn begin_guard(&self, begin: GuardBegin) -> Result<Once, Error> {
        match self {
            Self::Embedded(embedded) => Ok(embedded.handle.begin(begin).await?),
            Self::Remote(remote) => remote.begin_guard(&begin).await,
        }
    }

    /// Ends or extends work under a key.
    pub(crate) async fn use_guard(&self, mut wanted: GuardUse) -> Result<(), Error> {
        let mut faults = Faults::default();
        guard::check_use(&wanted, &mut faults);
        faults.finish().map_err(Error::Refused)?;
        gate::mask_guard(&mut wanted);
        match self {
            Self::Embedded(embedded) => {
                embedded.handle.call(Command::GuardUse(wanted)).await?;
                Ok(())
            }
            Self::Remote(remote) => remote.use_guard(&wanted).await,
        }
    }
}
