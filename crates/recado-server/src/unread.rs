//! Bodies that a handler did not read to their end, because it knew its answer before.
//!
//! hyper closes such a connection without a word, and the next request that the client sends on it is lost. So what
//! is left of the body is read before the answer leaves, or the answer says that the connection closes.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::CONNECTION;
use axum::response::Response;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use crate::limits::{REFUSED_BODY_BYTES_MAX, REFUSED_BODY_TIME_MAX};

/// What is left of a body.
pub(crate) struct Rest(Arc<Mutex<Incoming>>);

/// The body as its handler reads it.
struct Reading(Arc<Mutex<Incoming>>);

impl Reading {
    fn with<T>(&self, look: impl FnOnce(&mut Incoming) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl http_body::Body for Reading {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.with(|body| Pin::new(body).poll_frame(cx))
    }

    fn is_end_stream(&self) -> bool {
        self.with(|body| http_body::Body::is_end_stream(body))
    }

    fn size_hint(&self) -> SizeHint {
        self.with(|body| http_body::Body::size_hint(body))
    }
}

/// Gives a body to a handler and keeps a hand on it.
pub(crate) fn watch(body: Incoming) -> (Body, Rest) {
    let shared = Arc::new(Mutex::new(body));
    (Body::new(Reading(Arc::clone(&shared))), Rest(shared))
}

impl Rest {
    /// Makes an answer that is ready one that leaves the connection in a state that the client knows of.
    pub(crate) async fn settle(self, mut response: Response) -> Response {
        // A stream that answers while it reads still has it.
        if let Some(body) = Arc::into_inner(self.0) {
            let body = body.into_inner().unwrap_or_else(PoisonError::into_inner);
            if !is_read_to_the_end(body).await {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
        }
        response
    }
}

async fn is_read_to_the_end(mut body: Incoming) -> bool {
    let drain = async {
        let mut left = REFUSED_BODY_BYTES_MAX;
        while !http_body::Body::is_end_stream(&body) {
            match body.frame().await {
                None => return true,
                Some(Err(_)) => return false,
                Some(Ok(frame)) => left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len)),
            }
            if left == 0 {
                return false;
            }
        }
        true
    };
    tokio::time::timeout(REFUSED_BODY_TIME_MAX, drain).await.unwrap_or(false)
}
