//! A holder in a process of its own, which is killed.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use recado::once::{Begun, Once, Step, Store};

use super::suite::QUEUE;

/// Tells the child which store to hold the step in: a kind and an address.
const STORE: &str = "RECADO_TEST_HOLD_IN";

const SAYS: &str = "holds the step";

fn step() -> Step {
    Step::new(QUEUE, "killed").hold_for(Duration::from_secs(2))
}

/// The child: nothing in a run of its own.
#[test]
fn holds_a_step_until_it_is_killed() {
    let Ok(store) = std::env::var(STORE) else { return };
    let (kind, address) = store.split_once(' ').unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store: Arc<dyn Store> = match kind {
            "queue" => super::queue::connect(address).await,
            #[cfg(feature = "postgres")]
            "postgres" => super::postgres::connect(address),
            #[cfg(feature = "redis")]
            "redis" => super::redis::connect(address).await,
            other => panic!("no store is called {other}"),
        };
        let work = async {
            println!("{SAYS}");
            std::future::pending::<()>().await;
            Ok::<_, String>("the child's")
        };
        let work = async { work.await.map(str::to_owned) };
        let _ = Once::in_store(store, step(), work).await;
    });
}

/// Starts a test of this binary as a process of its own, with a variable by which it knows, and waits until it
/// says something.
pub(crate) fn start(test: &str, variable: &str, value: &str, says: &str) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(variable, value)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let said = lines.map_while(Result::ok).any(|line| line.contains(says));
    assert!(said, "{test} never said `{says}`");
    child
}

/// A child begins a step and is killed with SIGKILL at it; who waits does it then.
pub(crate) async fn is_killed(kind: &str, address: &str, store: &Arc<dyn Store>) {
    let test = "once::child::holds_a_step_until_it_is_killed";
    let mut child = start(test, STORE, &format!("{kind} {address}"), SAYS);
    // As long as it lives it extends its hold.
    assert!(matches!(store.begin(&step()).await.unwrap(), Begun::Processing { .. }));
    child.kill().unwrap();
    child.wait().unwrap();
    let work = async { Ok::<_, String>("the other's".to_owned()) };
    let done = Once::in_store(Arc::clone(store), step(), work).await;
    assert_eq!(done.unwrap(), "the other's");
}
