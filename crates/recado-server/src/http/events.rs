//! `GET /v1/events`: what happens, as server-sent events.
//!
//! What happened comes from the shard, which tells only what is committed; figures of queues are asked for once a
//! second while somebody wants them. A reader takes things out of the shard's ring as fast as its connection takes
//! them; one that cannot keep up is cut off, and goes on from `Last-Event-ID` if that is still there.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body::Frame;
use recado_core::{Answer, JobId, JobNews, JobState, JobWord, News, Page, Query, QueueEntry, Rejection};
use recado_shard::{Heard, Listener, Told};
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, MissedTickBehavior, interval};
use utoipa::ToSchema;

use super::job::fingerprint;
use super::limits::state_word;
use super::stats::StatsBody;
use super::{App, job_id, unexpected};
use crate::limits::{EVENT_QUEUES_MAX, EVENT_READERS_MAX, PAGE_MAX};
use crate::openapi::OnQueue;
use crate::problem::{Code, Problem};
use crate::query::{Params, wrong};
use crate::time;

/// Pieces that wait for a slow connection before no more is taken out of the ring.
const PIECES_AHEAD: usize = 4;
/// A client that has lost its connection should come back after this, in milliseconds.
const COME_BACK_MS: u64 = 2_000;
/// Figures are told so often.
const STATS_EVERY: Duration = Duration::from_secs(1);
/// Figures of all queues are gathered once for all who want them at the same time.
const STATS_FRESH: Duration = Duration::from_millis(500);
/// A connection on which nothing happens is written to so often: a reader that has left is noticed by it, and a
/// proxy does not think it dead.
const QUIET_MAX: Duration = Duration::from_secs(15);

const BREAKER: &str = "breaker";
const STATS: &str = "stats";
const ALERT: &str = "alert";

/// What readers have in common.
pub(crate) struct Shared {
    places: Arc<Semaphore>,
    /// Tells ids of this process from those of any other.
    process: u64,
    /// The figures of all queues, and when they were gathered.
    stats: tokio::sync::Mutex<Option<(Instant, Arc<[Bytes]>)>>,
}

impl Shared {
    /// `process` is another one after each start.
    pub(crate) fn new(process: u64) -> Self {
        Self { places: Arc::new(Semaphore::new(EVENT_READERS_MAX)), process, stats: tokio::sync::Mutex::default() }
    }
}

/// Something that happened to a job: `received`, `extended`, `released`, `failed`, `retried`, `dead`, `replayed`,
/// `completed`, `skipped`, `cancel-requested`, `cancelled`, `expired`, `unblocked`, `changed`, `forwarded`, `forgotten`, `purged`,
/// `discarded`, `deleted`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = JobEvent)]
pub(crate) struct JobEvent<'a> {
    at: String,
    job_id: String,
    queue: &'a str,
    #[serde(rename = "type")]
    kind: &'a str,
    /// The attempt that this is about, or the last one.
    attempt: u32,
    /// retried, released, changed: when it can be received again; left out: at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    run_at: Option<String>,
    /// received, extended: when others may receive it.
    #[serde(skip_serializing_if = "Option::is_none")]
    visible_at: Option<String>,
    /// received: by whom, if the worker has a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    worker: Option<&'a str>,
    /// dead: the kind of its last error.
    #[serde(skip_serializing_if = "Option::is_none")]
    error_kind: Option<&'a str>,
    /// dead: its group of alike failures.
    #[serde(skip_serializing_if = "Option::is_none")]
    fingerprint: Option<String>,
}

/// `breaker`: a circuit breaker opened, closed, or lets probes out.
#[derive(Serialize, ToSchema)]
#[schema(as = BreakerEvent)]
pub(crate) struct BreakerEvent<'a> {
    at: String,
    /// The queue whose breaker it is; null: a shared limit's.
    queue: Option<&'a str>,
    /// The shared limit whose breaker it is; null: a queue's.
    limit: Option<&'a str>,
    /// `open`, `halfOpen` or `closed`.
    state: &'static str,
    /// The queues whose jobs it stops.
    queues: Vec<&'a str>,
}

/// `stats`: a queue's figures, without an id.
#[derive(Serialize, ToSchema)]
#[schema(as = StatsEvent)]
pub(crate) struct StatsEvent<'a> {
    at: String,
    queue: &'a str,
    stats: StatsBody,
}

/// `job`: where the job of `jobId` is as this begins.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = JobNowEvent)]
pub(crate) struct JobNowEvent<'a> {
    at: String,
    job_id: String,
    queue: &'a str,
    #[serde(rename = "type")]
    kind: &'a str,
    state: &'static str,
    attempt: u32,
}

/// `reset`: something may have happened that was not told. Look at what you show anew.
#[derive(Serialize, ToSchema)]
#[schema(as = ResetEvent)]
pub(crate) struct ResetEvent {
    /// `restarted`: the id is of another process; `too-old`: what came behind it is not there any more;
    /// `too-slow`: this reader did not keep up, and the connection ends.
    reason: &'static str,
}

/// What can be the data of an event.
#[derive(ToSchema)]
#[serde(untagged)]
#[schema(as = EventData)]
#[allow(dead_code, clippy::large_enum_variant)] // only described
pub(crate) enum EventData<'a> {
    Job(JobEvent<'a>),
    Breaker(BreakerEvent<'a>),
    Stats(StatsEvent<'a>),
    JobNow(JobNowEvent<'a>),
    Reset(ResetEvent),
}

/// Hear what happens, as server-sent events.
///
/// Of every job `failed`, `retried`, `dead` and `replayed`, of circuit breakers `breaker`, each with an id; and of each
/// queue `stats`, once a second. With `jobId` everything of this job, and no `stats`. A `Last-Event-ID` among the last
/// 10,000 goes on behind it; any other is told `reset`.
#[utoipa::path(
    get, path = "/v1/events", operation_id = "listenToEvents", tag = "operate",
    params(
        ("queue" = Option<String>, Query, description = "of one queue or several, separated by commas; all by default"),
        ("event" = Option<String>, Query, description = "one or several of the words, separated by commas; all by default"),
        ("jobId" = Option<String>, Query, description = "everything of this job"),
        ("Last-Event-ID" = Option<String>, Header, description = "go on behind this event"),
    ),
    responses(
        (status = 200, description = "events until you leave; the data of each is JSON", body = EventData<'_>, content_type = "text/event-stream"),
        (status = 410, description = "gone: no such job", body = crate::problem::Body, content_type = "application/problem+json"),
        OnQueue,
    ),
)]
pub(crate) async fn events(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let params = Params::parse(request.uri().query(), &["queue", "event", "jobId"])?;
    let wanted = Wanted::read(&params)?;
    let last = last_event_id(request.headers(), app.events.process)?;
    let place = Arc::clone(&app.events.places).try_acquire_owned().map_err(|_| {
        Problem::new(Code::Overloaded, format!("{EVENT_READERS_MAX} readers of events are there; come back later"))
    })?;
    for queue in &wanted.queues {
        app.shard.query(Query::Queue(queue.clone())).await?;
    }
    let mut listener = app.shard.listen(wanted.job).await?;
    let mut begin = format!("retry: {COME_BACK_MS}\n").into_bytes();
    match last {
        Last::None => begin.extend(format!("id: {}\n\n", app.event_id(listener.last())).into_bytes()),
        Last::Of(id) if listener.resume(id) => begin.push(b'\n'),
        Last::Of(_) => begin.extend(app.reset(&listener, "too-old")?),
        Last::OfAnother => begin.extend(app.reset(&listener, "restarted")?),
    }
    begin.extend(now(&listener)?);
    let (pieces, receiver) = mpsc::channel(PIECES_AHEAD);
    let reader = Reader { app, wanted, pieces, _place: place };
    tokio::spawn(reader.run(listener, begin.into()));
    let headers = [
        (CONTENT_TYPE, "text/event-stream"),
        (CACHE_CONTROL, "no-store"),
        // What reverse proxies heed that would otherwise wait for more.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((StatusCode::OK, headers, Body::new(Pieces(receiver))).into_response())
}

impl App {
    /// Opaque for clients: this process, and a number in it.
    fn event_id(&self, number: u64) -> String {
        format!("{:016x}-{number}", self.events.process)
    }

    /// Tells a listener to look anew, and from where it goes on.
    fn reset(&self, listener: &Listener, reason: &'static str) -> Result<Vec<u8>, Problem> {
        let reset = event("reset", Some(&self.event_id(listener.last())), &ResetEvent { reason })?;
        Ok([b"\n", reset.as_slice()].concat())
    }
}

/// What a client says that it heard last.
enum Last {
    None,
    Of(u64),
    /// Of a process that is gone, or of another server.
    OfAnother,
}

fn last_event_id(headers: &HeaderMap, process: u64) -> Result<Last, Problem> {
    let Some(given) = headers.get("last-event-id").filter(|id| !id.is_empty()) else { return Ok(Last::None) };
    let parts = given.to_str().ok().and_then(|id| id.split_once('-'));
    let parts = parts.filter(|(of, _)| of.len() == 16);
    let parts = parts.and_then(|(of, number)| Some((u64::from_str_radix(of, 16).ok()?, number.parse().ok()?)));
    match parts {
        Some((of, number)) if of == process => Ok(Last::Of(number)),
        Some(_) => Ok(Last::OfAnother),
        None => Err(Problem::new(Code::InvalidRequest, "Last-Event-ID: this is not the id of an event; leave it out")),
    }
}

/// Where the job is as this begins, for who follows one.
fn now(listener: &Listener) -> Result<Vec<u8>, Problem> {
    let Some(job) = listener.job() else { return Ok(Vec::new()) };
    let body = JobNowEvent {
        at: time::text(time::now()),
        job_id: job.id.to_string(),
        queue: &job.queue,
        kind: &job.kind,
        state: JobState::word(job.state),
        attempt: job.attempts,
    };
    event("job", None, &body)
}

/// One event as it is sent.
fn event(name: &str, id: Option<&str>, data: &impl Serialize) -> Result<Vec<u8>, Problem> {
    let mut bytes = format!("event: {name}\n").into_bytes();
    if let Some(id) = id {
        bytes.extend(format!("id: {id}\n").into_bytes());
    }
    bytes.extend(b"data: ");
    // JSON has no line ends of its own here.
    serde_json::to_writer(&mut bytes, data).map_err(|error| unexpected(&error))?;
    bytes.extend(b"\n\n");
    Ok(bytes)
}

/// What a reader asked for.
struct Wanted {
    job: Option<JobId>,
    /// Empty is all.
    queues: BTreeSet<Box<str>>,
    /// None is all.
    words: Option<BTreeSet<&'static str>>,
}

impl Wanted {
    fn read(params: &Params<'_>) -> Result<Self, Problem> {
        let job = params.text("jobId").map(job_id).transpose()?;
        if job.is_some() && params.text("queue").is_some() {
            return Err(wrong("queue", "does not go with jobId: a job is told of wherever it is"));
        }
        let mut queues = BTreeSet::new();
        for name in params.text("queue").into_iter().flat_map(|names| names.split(',')) {
            crate::name::check_name(name).map_err(Problem::name)?;
            queues.insert(name.into());
        }
        if queues.len() > EVENT_QUEUES_MAX {
            return Err(wrong("queue", &format!("at most {EVENT_QUEUES_MAX} queues; leave it out to hear of all")));
        }
        let words = params.text("event").map(|words| words.split(',').map(|word| known(word, job.is_some())).collect());
        Ok(Self { job, queues, words: words.transpose()? })
    }

    fn has_word(&self, word: &str) -> bool {
        self.words.as_ref().is_none_or(|words| words.contains(word))
    }

    fn has_queue(&self, queue: &str) -> bool {
        self.queues.is_empty() || self.queues.contains(queue)
    }

    fn wants_stats(&self) -> bool {
        self.job.is_none() && self.has_word(STATS)
    }

    /// The job of this reader is not there any more.
    fn is_over(&self, news: &News) -> bool {
        matches!(news, News::Job(news) if news.word.is_last() && self.job == Some(news.id))
    }

    fn wants(&self, news: &News) -> bool {
        match (news, self.job) {
            (News::Job(news), Some(job)) => news.id == job && self.has_word(news.word.word()),
            (News::Job(news), None) => {
                news.word.is_of_every_job() && self.has_word(news.word.word()) && self.has_queue(&news.queue)
            }
            (News::Breaker(_), Some(_)) => false,
            (News::Breaker(news), None) => {
                self.has_word(BREAKER)
                    && (self.queues.is_empty() || news.queues.iter().any(|queue| self.has_queue(queue)))
            }
        }
    }
}

/// A word that can be asked for: of a job that is followed others than of all.
fn known(word: &str, is_of_job: bool) -> Result<&'static str, Problem> {
    let words = JobWord::ALL.into_iter().filter(|word| is_of_job || word.is_of_every_job()).map(JobWord::word);
    let others = [BREAKER, STATS].into_iter().filter(|_| !is_of_job);
    let mut words: Vec<&'static str> = words.chain(others).collect();
    if let Some(known) = words.iter().find(|known| **known == word) {
        return Ok(*known);
    }
    words.sort_unstable();
    let there_are = format!("there are {}", words.join(", "));
    Err(wrong(
        "event",
        &match word {
            // Who waits for it would wait in vain.
            ALERT => format!("this version sends no alerts; {there_are}"),
            _ => format!("there is no event `{}`; {there_are}", word.chars().take(100).collect::<String>()),
        },
    ))
}

/// The answer, as it is made.
struct Pieces(mpsc::Receiver<Bytes>);

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(cx).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

/// Why a reader's stream ends.
enum End {
    /// It has left, or nothing more will happen: there is nothing to say.
    Silent,
    /// It did not keep up.
    Behind,
}

impl From<Problem> for End {
    fn from(_: Problem) -> Self {
        Self::Silent
    }
}

struct Reader {
    app: App,
    wanted: Wanted,
    pieces: mpsc::Sender<Bytes>,
    _place: OwnedSemaphorePermit,
}

impl Reader {
    async fn run(self, mut listener: Listener, begin: Bytes) {
        if self.say(begin).await.is_ok()
            && let Err(End::Behind) = self.read(&mut listener).await
            && let Ok(reset) = event("reset", None, &ResetEvent { reason: "too-slow" })
        {
            // Without an id: it comes back with the last that it has heard, and is told the same then.
            let _ = self.say(reset.into()).await;
        }
        // Its own place is the last one to be given back.
        drop(listener);
        if self.app.events.places.available_permits() + 1 >= EVENT_READERS_MAX {
            *self.app.events.stats.lock().await = None;
        }
    }

    async fn read(&self, listener: &mut Listener) -> Result<(), End> {
        let app = self.app.clone();
        let mut figures = interval(STATS_EVERY);
        figures.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut quiet_until = Instant::now() + QUIET_MAX;
        loop {
            tokio::select! {
                biased;
                () = app.stopping() => return Ok(()),
                () = self.pieces.closed() => return Ok(()),
                heard = listener.next() => match heard {
                    Heard::Told(told) => if !self.tell(&told).await? { continue },
                    Heard::Behind => return Err(End::Behind),
                    Heard::Ended => return Ok(()),
                },
                _ = figures.tick(), if self.wanted.wants_stats() => self.tell_stats().await?,
                () = tokio::time::sleep_until(quiet_until) => self.say(Bytes::from_static(b":\n\n")).await?,
            }
            quiet_until = Instant::now() + QUIET_MAX;
        }
    }

    /// Tells what of it is wanted; false when nothing is.
    async fn tell(&self, told: &[Arc<Told>]) -> Result<bool, End> {
        let mut piece = Vec::new();
        for told in told.iter().filter(|told| self.wanted.wants(&told.news)) {
            let (id, at) = (self.app.event_id(told.id), time::text(told.at));
            piece.extend(match &told.news {
                News::Job(news) => event(news.word.word(), Some(&id), &JobEvent::new(at, news))?,
                News::Breaker(news) => {
                    let body = BreakerEvent {
                        at,
                        queue: (!news.is_limit).then_some(&*news.name),
                        limit: news.is_limit.then_some(&*news.name),
                        state: state_word(news.state),
                        queues: news.queues.iter().map(|queue| &**queue).collect(),
                    };
                    event(BREAKER, Some(&id), &body)?
                }
            });
        }
        let is_any = !piece.is_empty();
        if is_any {
            self.say(piece.into()).await?;
        }
        // Nothing can happen any more to a job that is not there.
        if told.iter().any(|told| self.wanted.is_over(&told.news)) { Err(End::Silent) } else { Ok(is_any) }
    }

    async fn tell_stats(&self) -> Result<(), End> {
        if self.wanted.queues.is_empty() {
            for stats in gathered(&self.app).await?.iter() {
                self.say(stats.clone()).await?;
            }
            return Ok(());
        }
        for queue in &self.wanted.queues {
            match self.app.shard.query(Query::Stats(queue.clone())).await {
                Ok(Answer::Stats(stats)) => {
                    let stats = StatsBody::new(&self.app, queue, &stats);
                    self.say(stats_event(queue, stats)?).await?;
                }
                // It was deleted, and may come back.
                Err(recado_shard::Error::Rejected(Rejection::QueueNotFound { .. })) => {}
                _ => return Err(End::Silent),
            }
        }
        Ok(())
    }

    async fn say(&self, piece: Bytes) -> Result<(), End> {
        self.pieces.send(piece).await.map_err(|_| End::Silent)
    }
}

impl<'a> JobEvent<'a> {
    fn new(at: String, news: &'a JobNews) -> Self {
        let until = news.until.map(time::text);
        let is_visibility = matches!(news.word, JobWord::Received | JobWord::Extended);
        let (visible_at, run_at) = if is_visibility { (until, None) } else { (None, until) };
        Self {
            at,
            job_id: news.id.to_string(),
            queue: &news.queue,
            kind: &news.kind,
            attempt: news.attempt,
            run_at,
            visible_at,
            worker: news.worker.as_deref(),
            error_kind: news.death.as_ref().map(|death| &*death.error_kind),
            fingerprint: news.death.as_ref().map(|death| fingerprint(death.fingerprint)),
        }
    }
}

fn stats_event(queue: &str, stats: StatsBody) -> Result<Bytes, Problem> {
    event(STATS, None, &StatsEvent { at: time::text(time::now()), queue, stats }).map(Bytes::from)
}

/// The figures of all queues, gathered once for all readers that ask at the same time.
async fn gathered(app: &App) -> Result<Arc<[Bytes]>, Problem> {
    let mut kept = app.events.stats.lock().await;
    if let Some((_, stats)) = kept.as_ref().filter(|(at, _)| at.elapsed() < STATS_FRESH) {
        return Ok(Arc::clone(stats));
    }
    let mut all = Vec::new();
    let mut cursor = None;
    loop {
        let page = Page { cursor, limit: PAGE_MAX as usize };
        let (entries, next) = match app.shard.query(Query::Queues(page)).await? {
            Answer::Queues { queues, cursor } => (queues, cursor),
            other => return Err(unexpected(&other)),
        };
        for QueueEntry { name, stats, .. } in entries {
            all.push(stats_event(&name, StatsBody::new(app, &name, &stats))?);
        }
        cursor = next;
        if cursor.is_none() {
            break;
        }
    }
    let all: Arc<[Bytes]> = all.into();
    *kept = Some((Instant::now(), Arc::clone(&all)));
    Ok(all)
}
