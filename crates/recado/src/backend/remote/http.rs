//! One request and its answer, and how long to go on asking.

use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use recado_contract::problem::Problem;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, Url};
use tokio::time::Instant;

use crate::error::Error;
use crate::pause::Pauses;

pub(super) struct Http {
    /// With its connections. Another one takes its place when an answer did not come in time.
    client: RwLock<Pool>,
    headers: HeaderMap,
    base: Url,
    url: Arc<str>,
}

#[derive(Clone)]
struct Pool {
    client: reqwest::Client,
    /// Which one it is.
    number: u64,
}

const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);
const IDLE_TIME_MAX: Duration = Duration::from_secs(60);

impl Http {
    pub(super) fn new(text: &str, key: Option<&str>) -> Result<Self, Error> {
        let wrong = |why: &str| Error::Url { url: text.into(), why: why.into() };
        let mut base = Url::parse(text).map_err(|error| wrong(&error.to_string()))?;
        if !matches!(base.scheme(), "http" | "https") || base.host().is_none() {
            return Err(wrong("it needs http or https and a host"));
        }
        if base.scheme() == "https" && !cfg!(feature = "tls") {
            return Err(wrong("this program was built without the feature `tls`"));
        }
        // What it asks for stands below the path of the address.
        base.set_path(&format!("{}/", base.path().trim_end_matches('/')));
        let mut headers = HeaderMap::new();
        if let Some(key) = key {
            let mut value = HeaderValue::try_from(format!("Bearer {key}")).map_err(|_| wrong("the key is none"))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let client = client(&base, &headers).map_err(|error| wrong(&cause(&error)))?;
        Ok(Self { client: RwLock::new(Pool { client, number: 0 }), headers, base, url: text.into() })
    }

    fn pool(&self) -> Pool {
        self.client.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A network that has dropped one connection without a word has dropped its neighbours too: nothing more is sent
    /// over those that are open. What is under way on them may still be answered.
    fn leave(&self, number: u64) {
        let mut pool = self.client.write().unwrap_or_else(PoisonError::into_inner);
        if pool.number != number {
            return;
        }
        match client(&self.base, &self.headers) {
            Ok(client) => *pool = Pool { client, number: number + 1 },
            Err(error) => tracing::warn!(error = cause(&error), "no new connections can be made: the old ones stay"),
        }
    }

    /// One request, one answer: its body, if it was a success.
    pub(super) async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
        timeout: Duration,
    ) -> Result<Bytes, Error> {
        let url = self.base.join(path.trim_start_matches('/')).map_err(|error| self.protocol(error.to_string()))?;
        let pool = self.pool();
        let mut request = pool.client.request(method, url).timeout(timeout);
        if let Some(body) = body {
            request = request.header(CONTENT_TYPE, HeaderValue::from_static("application/json")).body(body);
        }
        let broken = |error: reqwest::Error| {
            if error.is_timeout() && !error.is_connect() {
                self.leave(pool.number);
            }
            self.broken(error)
        };
        let answer = request.send().await.map_err(broken)?;
        let (status, failed) = (answer.status(), answer.error_for_status_ref().err());
        let body = answer.bytes().await.map_err(broken)?;
        if status.is_success() {
            return Ok(body);
        }
        match (serde_json::from_slice::<Problem>(&body), failed) {
            (Ok(problem), _) => Err(Error::from_problem(problem)),
            // Something before the server, which may have passed the request on and not the answer.
            (Err(_), Some(source)) if status.is_server_error() => Err(self.broken(source)),
            (Err(_), _) => Err(self.protocol(format!("status {status} without a problem"))),
        }
    }

    fn broken(&self, source: reqwest::Error) -> Error {
        let (url, never_sent) = (Arc::clone(&self.url), source.is_connect());
        let source = Arc::new(source);
        if never_sent { Error::Unreachable { url, source } } else { Error::AnswerLost { url, source } }
    }

    pub(super) fn protocol(&self, what: String) -> Error {
        Error::Protocol { url: Arc::clone(&self.url), what: what.into() }
    }
}

fn client(base: &Url, headers: &HeaderMap) -> reqwest::Result<reqwest::Client> {
    let mut client = reqwest::Client::builder()
        .default_headers(headers.clone())
        .connect_timeout(CONNECT_TIME_MAX)
        .tcp_nodelay(true)
        // The server leaves an idle connection after 75 s.
        .pool_idle_timeout(IDLE_TIME_MAX)
        .redirect(reqwest::redirect::Policy::none());
    if is_loopback(base) {
        // A proxy for the outside world is never the way to this machine.
        client = client.no_proxy();
    }
    #[cfg(feature = "tls")]
    if base.scheme() == "http" {
        // A machine may have no root certificates, and then needs none.
        client = client.tls_certs_only([]);
    }
    client.build()
}

/// Of a client that cannot be built the error itself says only that.
fn cause(error: &reqwest::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Waits between attempts, twice as long each time, until a deadline.
pub(super) struct Patience {
    /// None: as long as it takes.
    deadline: Option<Instant>,
    pauses: Pauses,
    /// An attempt before may have been taken, whatever became of the last.
    lost: Option<Error>,
}

impl Patience {
    pub(super) fn until(deadline: Option<Instant>) -> Self {
        Self { deadline, pauses: Pauses::new(PAUSE_MIN, PAUSE_MAX), lost: None }
    }

    /// Waits, or gives the error back when it will not pass or the time is over. It says that the outcome is
    /// unknown if any attempt's is: who refuses the last one may know nothing of those before.
    pub(super) async fn wait_after(&mut self, error: Error) -> Result<(), Error> {
        let pause = self.pauses.next();
        let is_too_late = self.deadline.is_some_and(|deadline| Instant::now() + pause > deadline);
        if is_too_late || !error.is_transient() {
            return Err(self.lost.take().unwrap_or(error));
        }
        if error.is_outcome_unknown() {
            self.lost = Some(error);
        }
        tokio::time::sleep(pause).await;
        Ok(())
    }
}
