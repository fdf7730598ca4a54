//! What happens to the server, and when.

use std::time::Duration;

use rustix::process::Signal;

use super::VISIBILITY;
use super::world::{Luck, World};
use crate::support::stage::Stage;
use crate::support::{pass, until};

#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// SIGKILL.
    Kill,
    /// SIGKILL, and again while it starts.
    KillStarting,
    /// SIGSTOP until some or all leases have ended, then SIGCONT.
    Freeze,
    /// SIGSTOP, then SIGKILL.
    KillFrozen,
    /// SIGTERM.
    Stop,
}

/// Each in turn, so that a short run has them all.
const FAULTS: [Fault; 8] = [
    Fault::Kill,
    Fault::Freeze,
    Fault::KillStarting,
    Fault::Kill,
    Fault::Stop,
    Fault::KillFrozen,
    Fault::Freeze,
    Fault::KillStarting,
];

/// Lets one happen some answers and a moment later, and starts the server again if it ended.
pub(super) fn strike(round: u64, stage: &mut Stage, world: &World, luck: &mut Luck) -> Fault {
    let answers = world.answers() + 100 + luck.below(300);
    until("the load goes on", || {
        world.check();
        (world.answers() >= answers).then_some(())
    });
    pass(Duration::from_micros(luck.below(10_000)));
    let fault = FAULTS[usize::try_from(round).unwrap() % FAULTS.len()];
    let frozen = Duration::from_millis(luck.below(2 * u64::try_from(VISIBILITY.as_millis()).unwrap()));
    match fault {
        Fault::Kill => stage.kill(),
        Fault::KillStarting => {
            stage.kill();
            stage.start_in_vain(Duration::from_micros(luck.below(100_000)));
        }
        Fault::Freeze => {
            stage.signal(Signal::STOP);
            pass(frozen);
            stage.signal(Signal::CONT);
            return fault;
        }
        Fault::KillFrozen => {
            stage.signal(Signal::STOP);
            pass(frozen);
            stage.kill();
        }
        Fault::Stop => stage.stop(),
    }
    stage.start();
    world.moved((**stage).clone());
    fault
}
