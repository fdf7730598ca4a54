//! A problem as an answer of the HTTP edge.

use axum::http::header::{CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};

use crate::problem::Problem;

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, self.bytes()).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(ms) = self.retry_after_ms() {
            headers.insert(RETRY_AFTER, HeaderValue::from(ms.div_ceil(1_000).max(1)));
        }
        // The rest of the body was not read: the connection cannot be used again.
        if matches!(self.status(), 408 | 413 | 431) {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::problem::Code;

    #[test]
    fn refusals_that_pass_say_when_to_come_back() {
        for code in Code::ALL.iter().filter(|code| matches!(code.status(), 429 | 503 | 507)) {
            let response = Problem::new(*code, "x").into_response();
            assert_eq!(response.headers()[RETRY_AFTER], "1", "{code:?}");
        }
        let late = Problem::new(Code::Overloaded, "x").retry_after(Duration::from_millis(1_001)).into_response();
        assert_eq!(late.headers()[RETRY_AFTER], "2");
    }
}
