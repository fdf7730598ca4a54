//! One delivery: the request, and what its answer means.

use std::error::Error;
use std::iter::successors;
use std::time::{Duration, SystemTime};

use recado::Ctx;
use recado_contract::time;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION, RETRY_AFTER};
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url};
use tokio::time::{Instant, timeout_at};

use super::sign::{Secret, signatures};
use super::target::LookUpError;
use crate::worker::{Capture, Handler, Retry, Verdict};

/// Nobody may put a job off for longer.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 3_600);
/// As much of a refusal's body is told, in characters.
const EXCERPT_CHARS_MAX: usize = 300;

/// Where jobs go.
pub(super) struct Endpoint {
    pub(super) url: Url,
    pub(super) client: Client,
    pub(super) secrets: Vec<Secret>,
    pub(super) timeout: Duration,
}

impl Endpoint {
    fn request(&self, ctx: &Ctx) -> RequestBuilder {
        let (id, timestamp, body) = (ctx.id().to_string(), time::now() / 1_000, ctx.payload().get());
        let mut request = self
            .client
            .post(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header("webhook-timestamp", timestamp)
            .header("recado-job-type", ctx.kind())
            .header("recado-attempt", ctx.attempt())
            .header("traceparent", ctx.trace().to_string());
        if !self.secrets.is_empty() {
            request = request.header("webhook-signature", signatures(&self.secrets, &id, timestamp, body.as_bytes()));
        }
        if let Some(key) = ctx.idempotency_key() {
            // A key is any UTF-8 without control characters, which a header can carry.
            request = request.header("recado-idempotency-key", key.as_bytes());
        }
        request.header("webhook-id", id).body(body.to_owned())
    }
}

impl Handler for Endpoint {
    async fn run(&self, ctx: &Ctx) -> Verdict {
        let began = Instant::now();
        let deadline = began + self.timeout;
        match timeout_at(deadline, self.request(ctx).send()).await {
            Ok(Ok(answer)) => judge(answer, deadline).await,
            Ok(Err(error)) => unanswered(&error.without_url()),
            Err(_) => Verdict::timed_out(began.elapsed()),
        }
    }
}

async fn judge(mut answer: Response, deadline: Instant) -> Verdict {
    let status = answer.status();
    if status.is_success() {
        return done(answer, deadline).await;
    }
    let body = timeout_at(deadline, answer.chunk()).await;
    let body = body.ok().and_then(Result::ok).flatten().unwrap_or_default();
    let said = match answer.headers().get(LOCATION) {
        Some(to) if status.is_redirection() => {
            format!("it moved to {}: give the new address to --to", String::from_utf8_lossy(to.as_bytes()))
        }
        _ => String::from_utf8_lossy(&body).trim().chars().take(EXCERPT_CHARS_MAX).collect(),
    };
    let message = format!("answered {status}: {said}");
    let retry = retry(status, answer.headers(), SystemTime::now());
    Verdict::failed(format!("http-{}", status.as_u16()), message.trim_end_matches(": "), retry)
}

/// The receiver took it. What it says beside that is welcome, as far as it comes in time.
async fn done(mut answer: Response, deadline: Instant) -> Verdict {
    let mut capture = Capture::default();
    let reading = async {
        loop {
            match answer.chunk().await {
                Ok(Some(piece)) if capture.push(&piece) => {}
                Ok(Some(_) | None) => return true,
                Err(_) => return false,
            }
        }
    };
    if timeout_at(deadline, reading).await == Ok(true) {
        return capture.done();
    }
    Verdict::Done { result: None, note: Some("its answer broke off: no result is kept") }
}

/// A redirect is retried, since the address is at fault and not the job.
fn retry(status: StatusCode, headers: &HeaderMap, now: SystemTime) -> Retry {
    if status.is_client_error() && !matches!(status.as_u16(), 408 | 425 | 429) {
        return Retry::Never;
    }
    let after = headers.get(RETRY_AFTER).and_then(|value| retry_after(value, now));
    // A time that has come says nothing of when to come back: without a wait all attempts would be used up at once.
    let after = after.filter(|after| !after.is_zero());
    after.map_or(Retry::Backoff, |after| Retry::After(after.min(RETRY_AFTER_MAX)))
}

/// Seconds, or a date.
fn retry_after(value: &HeaderValue, now: SystemTime) -> Option<Duration> {
    let text = value.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let at = httpdate::parse_http_date(text).ok()?;
    Some(at.duration_since(now).unwrap_or_default())
}

fn unanswered(error: &reqwest::Error) -> Verdict {
    let first: &(dyn Error + 'static) = error;
    let causes = || successors(Some(first), |error| (*error).source());
    let is_not_public = |error: &(dyn Error + 'static)| matches!(error.downcast_ref(), Some(LookUpError::NotPublic(_)));
    let kind = match error {
        _ if causes().any(is_not_public) => "not-public",
        error if error.is_timeout() => "timeout",
        error if error.is_connect() => "no-connection",
        _ => "no-answer",
    };
    let mut message = String::new();
    for part in causes().map(|error| error.to_string()) {
        if !message.contains(&part) {
            message += if message.is_empty() { "" } else { ": " };
            message += &part;
        }
    }
    Verdict::failed(kind, message, Retry::Backoff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_tried_again_and_when() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        let after = |seconds| Retry::After(Duration::from_secs(seconds));
        for (status, retry_after, expected) in [
            (400, "", Retry::Never),
            (401, "5", Retry::Never),
            (404, "", Retry::Never),
            (410, "", Retry::Never),
            (422, "", Retry::Never),
            (408, "", Retry::Backoff),
            (425, "1", after(1)),
            (429, "120", after(120)),
            (429, "0", Retry::Backoff),
            (429, "99999999999999999999", after(86_400)),
            (500, "", Retry::Backoff),
            (503, "Sun, 06 Nov 1994 08:50:37 GMT", after(60)),
            (503, "Sun, 06 Nov 1994 08:49:00 GMT", Retry::Backoff),
            (503, "Fri, 31 Dec 9999 23:59:59 GMT", after(86_400)),
            (503, "soon", Retry::Backoff),
            (503, "-1", Retry::Backoff),
            (301, "", Retry::Backoff),
            (307, "3", after(3)),
        ] {
            let mut headers = HeaderMap::new();
            if !retry_after.is_empty() {
                headers.insert(RETRY_AFTER, HeaderValue::from_static(retry_after));
            }
            assert_eq!(retry(StatusCode::from_u16(status).unwrap(), &headers, now), expected, "{status} {retry_after}");
        }
    }
}
