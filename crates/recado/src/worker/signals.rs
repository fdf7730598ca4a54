//! The signals that end a worker's process.

use tokio::signal::unix::{Signal, SignalKind, signal};

const KINDS: [(SignalKind, i32); 2] = [(SignalKind::interrupt(), 2), (SignalKind::terminate(), 15)];

pub(super) struct Signals([Option<Signal>; 2]);

impl Signals {
    pub(super) fn new() -> Self {
        Self(KINDS.map(|(kind, number)| {
            let listening = signal(kind);
            listening.inspect_err(|error| tracing::error!(%error, number, "cannot listen for a signal")).ok()
        }))
    }

    /// Comes with the signal's number.
    pub(super) async fn next(&mut self) -> i32 {
        let [int, term] = &mut self.0;
        tokio::select! {
            () = received(int) => KINDS[0].1,
            () = received(term) => KINDS[1].1,
        }
    }
}

async fn received(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}
