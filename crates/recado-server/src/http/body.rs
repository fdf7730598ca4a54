//! Bodies: content type, size, time.

use axum::body::Body;
use axum::extract::Request;
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use http_body_util::BodyExt;

use crate::limits::{BODY_BYTES_MAX, BODY_TIME_MAX, REFUSED_BODY_BYTES_MAX, REFUSED_BODY_TIME_MAX};
use crate::problem::{Code, Problem};
use crate::size;

/// What a body says it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `application/json`
    Json,
    /// `application/x-ndjson`
    Lines,
}

/// Reads the content type.
pub(crate) fn kind(headers: &HeaderMap) -> Result<Kind, Problem> {
    let unsupported = |what: String| Problem::new(Code::UnsupportedMediaType, what);
    if let Some(encoding) = headers.get(CONTENT_ENCODING).filter(|encoding| *encoding != "identity") {
        let shown = String::from_utf8_lossy(encoding.as_bytes()).into_owned();
        return Err(unsupported(format!("content encoding `{shown}` is not supported; send the body as it is")));
    }
    let hint = "send Content-Type: application/json (curl: --json instead of -d)";
    let Some(given) = headers.get(CONTENT_TYPE) else {
        return Err(unsupported(format!("the body has no content type; {hint}")));
    };
    let given = String::from_utf8_lossy(given.as_bytes()).into_owned();
    match given.split(';').next().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
        "application/json" => Ok(Kind::Json),
        "application/x-ndjson" => Ok(Kind::Lines),
        _ => Err(unsupported(format!("content type `{given}` is not supported; {hint}"))),
    }
}

/// A JSON body of at most the general limit.
pub(crate) async fn json(request: Request) -> Result<Bytes, Problem> {
    expect_json(request.headers())?;
    read(request.into_body(), BODY_BYTES_MAX).await
}

/// A JSON body, or `{}` when there is none.
pub(crate) async fn json_or_empty(request: Request) -> Result<Bytes, Problem> {
    if request.body().size_hint().exact() == Some(0) {
        return Ok(Bytes::from_static(b"{}"));
    }
    json(request).await
}

/// Refuses a stream of lines where one body is expected.
pub(crate) fn expect_json(headers: &HeaderMap) -> Result<(), Problem> {
    match kind(headers)? {
        Kind::Json => Ok(()),
        Kind::Lines => Err(Problem::new(Code::UnsupportedMediaType, "only an enqueue takes application/x-ndjson")),
    }
}

/// Reads a whole body.
pub(crate) async fn read(body: Body, limit: usize) -> Result<Bytes, Problem> {
    match tokio::time::timeout(BODY_TIME_MAX, collect(body, limit)).await {
        Ok(read) => read,
        Err(_) => Err(Problem::new(Code::RequestTimeout, "the body did not arrive within 30 s")),
    }
}

async fn collect(mut body: Body, limit: usize) -> Result<Bytes, Problem> {
    let announced = body.size_hint().exact();
    if announced.is_some_and(|size| size > limit as u64) {
        return Err(refuse(body, limit, announced).await);
    }
    let mut whole = BytesMut::with_capacity(announced.unwrap_or_default() as usize);
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| broken())?.into_data() else { continue };
        if whole.len() + data.len() > limit {
            return Err(refuse(body, limit, None).await);
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole.freeze())
}

/// The connection broke within the body; nobody reads this, but it must be an answer.
pub(crate) fn broken() -> Problem {
    Problem::new(Code::InvalidRequest, "the body ended early or its encoding is broken")
}

/// Reads on for a moment: a sender that is still writing would otherwise see a reset, not the answer.
async fn refuse(mut body: Body, limit: usize, actual: Option<u64>) -> Problem {
    let mut left = REFUSED_BODY_BYTES_MAX;
    let drain = async {
        while let Some(Ok(frame)) = body.frame().await {
            left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
            if left == 0 {
                break;
            }
        }
    };
    let _ = tokio::time::timeout(REFUSED_BODY_TIME_MAX, drain).await;
    let detail = format!(
        "the body has more than {}; send smaller batches, or a stream (application/x-ndjson)",
        size::text(limit as u64)
    );
    Problem::new(Code::RequestTooLarge, detail).sized(limit as u64, actual)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::Pin;
    use std::task::{Context, Poll};
    use std::time::Duration;

    /// A body that begins and never goes on.
    struct Stalled(Option<Bytes>);

    impl http_body::Body for Stalled {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
            match self.0.take() {
                Some(bytes) => Poll::Ready(Some(Ok(http_body::Frame::data(bytes)))),
                None => Poll::Pending,
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stops_coming_is_given_up_after_30_s() {
        let begun = tokio::time::Instant::now();
        let body = Body::new(Stalled(Some(Bytes::from_static(b"{"))));
        let problem = read(body, 10).await.expect_err("it never ends");
        assert_eq!((problem.status(), problem.code()), (408, "request-timeout"));
        assert_eq!(begun.elapsed().as_secs(), BODY_TIME_MAX.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_over_its_limit_is_waited_for_only_a_moment() {
        let begun = tokio::time::Instant::now();
        let body = Body::new(Stalled(Some(Bytes::from_static(b"12345678901"))));
        let problem = read(body, 10).await.expect_err("it is too large");
        assert_eq!((problem.status(), problem.code()), (413, "request-too-large"));
        assert!(begun.elapsed() <= REFUSED_BODY_TIME_MAX + Duration::from_millis(10));
    }
}
