//! A server, over its HTTP API.

mod guard;
mod http;
mod lanes;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use recado_core::{JobId, JobState, NewJob, Receive, Settle};
use reqwest::Method;
use tokio::time::Instant;

use super::{ANSWER_TIME_MAX, JobNow, Placed, Received, SettleAnswer, Times};
use crate::delivery::Delivery;
use crate::error::Error;

use http::{Http, Patience};
use lanes::Lanes;

/// How a server is talked to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConnectOptions {
    /// The key, as in `rk_...`; none by default.
    pub key: Option<String>,
    /// How long a call is repeated while the server cannot be reached or is busy; 30 s by default. A worker's
    /// own calls have no deadline: it goes on when the server is back. `Duration::MAX`: as long as it takes.
    pub deadline: Duration,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self { key: None, deadline: Duration::from_secs(30) }
    }
}

pub(crate) struct Remote {
    http: Arc<Http>,
    lanes: Lanes,
    deadline: Duration,
}

/// For the answer to a stopping worker that asks what it was handed: it must not hold up the stop.
const RECLAIM_TIME_MAX: Duration = Duration::from_secs(2);

/// A call that waits for nothing.
const AT_ONCE: Times = Times { wait: Duration::ZERO, answer: ANSWER_TIME_MAX };

impl Remote {
    pub(crate) fn new(url: &str, options: ConnectOptions) -> Result<Self, Error> {
        let http = Arc::new(Http::new(url, options.key.as_deref())?);
        let lanes = Lanes::new(Arc::clone(&http), options.deadline);
        Ok(Self { http, lanes, deadline: options.deadline })
    }

    pub(crate) async fn enqueue(&self, queue: &str, jobs: Vec<NewJob>) -> Result<Vec<Option<Placed>>, Error> {
        self.lanes.enqueue(queue, jobs).await
    }

    pub(crate) async fn receive(
        &self,
        receive: &Receive,
        settle: Vec<Settle>,
        times: Times,
    ) -> Result<Received, Error> {
        let body = wire::receive(receive, &settle, times.wait)?;
        let answer = self.http.call(Method::POST, "/v1/receive", Some(body), times.answer).await?;
        wire::received(&answer).map_err(|what| self.http.protocol(what))
    }

    /// The same `attemptId` again answers with the same jobs. If there were none it may take one: it is
    /// given back like the others.
    pub(crate) async fn reclaim(&self, receive: &Receive) -> Result<Vec<Delivery>, Error> {
        let again = Receive { max: 1, ..receive.clone() };
        let times = Times { wait: Duration::ZERO, answer: RECLAIM_TIME_MAX };
        Ok(self.receive(&again, Vec::new(), times).await?.jobs)
    }

    pub(crate) async fn settle(&self, settle: Vec<Settle>, answer: Duration) -> Result<SettleAnswer, Error> {
        let body = wire::settle(&settle)?;
        let answer = self.http.call(Method::POST, "/v1/settle", Some(body), answer).await?;
        wire::settled(&answer).map_err(|what| self.http.protocol(what))
    }

    pub(crate) async fn job(&self, id: JobId, wait: Duration) -> Result<JobNow, Error> {
        let path = format!("/v1/jobs/{id}?wait={}ms", wait.as_millis());
        let times = Times { wait, answer: wait + ANSWER_TIME_MAX };
        let answer = self.ask(Method::GET, &path, None, times).await?;
        wire::job(&answer).map_err(|what| self.http.protocol(what))
    }

    pub(crate) async fn jobs(&self, queue: &str, kind: &str, states: &[JobState]) -> Result<Vec<JobNow>, Error> {
        let states: Vec<&str> = states.iter().map(|state| state.word()).collect();
        let path = format!("/v1/queues/{queue}/jobs?type={kind}&state={}&limit=1000", states.join(","));
        let answer = self.ask(Method::GET, &path, None, AT_ONCE).await?;
        wire::jobs(&answer).map_err(|what| self.http.protocol(what))
    }

    pub(crate) async fn cancel(&self, id: JobId, reason: Option<&str>) -> Result<(), Error> {
        let body = reason.map(wire::reason).transpose()?;
        self.ask(Method::DELETE, &format!("/v1/jobs/{id}"), body, AT_ONCE).await.map(drop)
    }

    /// A call that changes nothing more when it is made twice, repeated until the deadline.
    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
        times: Times,
    ) -> Result<bytes::Bytes, Error> {
        let mut patience = Patience::until(Instant::now().checked_add(self.deadline.saturating_add(times.wait)));
        loop {
            match self.http.call(method.clone(), path, body.clone(), times.answer).await {
                // A read changes nothing: what its last attempt met is all there is to know.
                Err(error) if method == Method::GET && !error.is_transient() => return Err(error),
                Err(error) => patience.wait_after(error).await?,
                answered => return answered,
            }
        }
    }
}
