//! What the HTTP stack can do without a queue behind it: axum sends back what it gets.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use axum::Router;
use axum::routing::post;
use bytes::Bytes;

/// An echo server on threads of its own, as many as the real server has.
pub(crate) struct Echo {
    /// Where it listens.
    pub(crate) addr: SocketAddr,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Echo {
    /// Starts it.
    pub(crate) fn start() -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).context("cannot listen")?;
        let addr = listener.local_addr()?;
        let router = Router::new().route("/echo", post(|body: Bytes| async move { body }));
        runtime.spawn(async move { axum::serve(listener, router).await });
        Ok(Self { addr, runtime: Some(runtime) })
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
