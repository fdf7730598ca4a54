//! A stream of jobs, one a line: taken in chunks, each atomic, answered while the rest arrives.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use http_body::Frame;
use http_body_util::BodyExt;
use recado_contract::gate::{Policies, Warned};
use recado_core::{Command, Enqueue, NewJob, Reply};
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::App;
use super::enqueue::{EnqueuedBody, entries, results};
use super::new_job::NewJobBody;
use crate::faults::Faults;
use crate::json;
use crate::limits::{CHUNK_BYTES_MAX, CHUNK_LINES_MAX, CHUNK_TIME_MAX, LINE_BYTES_MAX, LINE_GAP_MAX};
use crate::problem::{Code, Problem};
use crate::{size, time};

/// Answer lines that wait for a slow reader before no more is read from it.
const LINES_AHEAD: usize = 16;

/// A durable chunk.
#[derive(Serialize)]
struct ChunkLine<'a> {
    from: usize,
    #[serde(flatten)]
    chunk: EnqueuedBody<'a>,
}

/// The last line of a stream that went well.
#[derive(Serialize)]
struct DoneLine {
    done: bool,
    accepted: usize,
}

/// The last line of a stream that did not.
#[derive(Serialize)]
struct ProblemLine {
    problem: Problem,
    accepted: usize,
}

/// Starts to read; the answer begins at once.
pub(super) fn stream(app: App, queue: Box<str>, body: Body) -> Response {
    let (lines, receiver) = mpsc::channel(LINES_AHEAD);
    let stream =
        Stream { app, queue, lines, accepted: 0, seen: 0, chunk: Vec::new(), chunk_bytes: 0, chunk_until: None };
    tokio::spawn(stream.run(body));
    (StatusCode::OK, [(CONTENT_TYPE, "application/x-ndjson")], Body::new(Lines(receiver))).into_response()
}

/// The answer's lines.
struct Lines(mpsc::Receiver<Bytes>);

impl http_body::Body for Lines {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(cx).map(|line| line.map(|line| Ok(Frame::data(line))))
    }
}

/// Why a stream ends early.
enum End {
    /// The client is told.
    Refused(Problem),
    /// Nobody is there to be told.
    Gone,
}

impl From<Problem> for End {
    fn from(problem: Problem) -> Self {
        Self::Refused(problem)
    }
}

struct Stream {
    app: App,
    queue: Box<str>,
    lines: mpsc::Sender<Bytes>,
    /// Jobs that are durable.
    accepted: usize,
    /// Lines before the chunk, blank ones included: for messages.
    seen: usize,
    /// Lines that were read and not committed, each with its number from 1.
    chunk: Vec<(usize, Bytes)>,
    chunk_bytes: usize,
    /// When the chunk must go, full or not.
    chunk_until: Option<Instant>,
}

impl Stream {
    async fn run(mut self, body: Body) {
        let accepted = |stream: &Self| stream.accepted;
        match self.read(body).await {
            Ok(()) => {
                let line = DoneLine { done: true, accepted: accepted(&self) };
                let _ = self.say(&line).await;
            }
            Err(End::Refused(problem)) => {
                let line = ProblemLine { problem, accepted: accepted(&self) };
                let _ = self.say(&line).await;
            }
            Err(End::Gone) => {}
        }
    }

    async fn read(&mut self, mut body: Body) -> Result<(), End> {
        let mut rest = BytesMut::new();
        let mut gap_until = Instant::now() + LINE_GAP_MAX;
        let app = self.app.clone();
        loop {
            let chunk_until = self.chunk_until;
            tokio::select! {
                frame = body.frame() => match frame {
                    None => break,
                    Some(Err(_)) => return Err(End::Gone),
                    Some(Ok(frame)) => {
                        let Ok(data) = frame.into_data() else { continue };
                        rest.extend_from_slice(&data);
                        self.take_lines(&mut rest, data.len()).await?;
                        gap_until = Instant::now() + LINE_GAP_MAX;
                    }
                },
                () = sleep_until(chunk_until.unwrap_or(gap_until)), if chunk_until.is_some() => self.commit().await?,
                () = sleep_until(gap_until) => {
                    self.commit().await?;
                    return Err(Problem::new(Code::RequestTimeout, "nothing arrived for 30 s; go on behind `accepted`").into());
                }
                () = app.stopping() => {
                    self.commit().await?;
                    return Err(Problem::new(Code::Stopping, "the server is stopping; go on behind `accepted`").into());
                }
            }
        }
        let last = rest.split().freeze();
        self.add(last).await?;
        self.commit().await
    }

    /// Moves whole lines out of `rest`, of which the last `new` bytes were not looked at yet.
    async fn take_lines(&mut self, rest: &mut BytesMut, new: usize) -> Result<(), End> {
        let mut looked_at = rest.len() - new;
        while let Some(end) = rest[looked_at..].iter().position(|b| *b == b'\n') {
            let line = rest.split_to(looked_at + end + 1).freeze();
            looked_at = 0;
            self.add(line.slice(..line.len() - 1)).await?;
        }
        if rest.len() > LINE_BYTES_MAX {
            self.commit().await?;
            return Err(self.line_too_large().into());
        }
        Ok(())
    }

    fn line_too_large(&self) -> Problem {
        let detail = format!("line {} has more than {}", self.seen + 1, size::text(LINE_BYTES_MAX as u64));
        Problem::new(Code::RequestTooLarge, detail).sized(LINE_BYTES_MAX as u64, None)
    }

    async fn add(&mut self, line: Bytes) -> Result<(), End> {
        if line.len() > LINE_BYTES_MAX {
            self.commit().await?;
            return Err(self.line_too_large().into());
        }
        self.seen += 1;
        if line.iter().all(u8::is_ascii_whitespace) {
            return Ok(());
        }
        self.chunk_bytes += line.len();
        self.chunk.push((self.seen, line));
        self.chunk_until.get_or_insert_with(|| Instant::now() + CHUNK_TIME_MAX);
        if self.chunk.len() >= CHUNK_LINES_MAX || self.chunk_bytes >= CHUNK_BYTES_MAX {
            self.commit().await?;
        }
        Ok(())
    }

    async fn commit(&mut self) -> Result<(), End> {
        self.chunk_until = None;
        self.chunk_bytes = 0;
        let chunk = std::mem::take(&mut self.chunk);
        if chunk.is_empty() {
            return Ok(());
        }
        let (jobs, faults) = self.parse(&chunk)?;
        let policies = self.app.gate.policies(&self.queue, &jobs).await.map_err(Problem::from)?;
        let warned = self.admit(&policies, &jobs, faults).inspect_err(|problem| {
            if problem.status() == 422 {
                self.app.rejected.count(&self.queue, problem);
            }
        })?;
        let count = jobs.len();
        let enqueue = Enqueue { queue: self.queue.clone(), create: self.app.create_queues, jobs, ..Enqueue::default() };
        let from = self.accepted;
        let refused = |error| super::enqueue::refused(&self.app, &self.queue, error).shift_index(from);
        match self.app.shard.call(Command::Enqueue(enqueue)).await.map_err(refused)? {
            Reply::Enqueued { jobs, created, .. } => {
                self.accepted += count;
                self.app.warned.add_taken(&self.queue, warned);
                let results = results(&self.app, &jobs).await?;
                let chunk = EnqueuedBody { jobs: entries(&jobs, &results)?, created, duplicate: false };
                self.say(&ChunkLine { from, chunk }).await
            }
            other => Err(super::unexpected(&other).into()),
        }
    }

    /// The jobs of a chunk, and what is wrong with them whatever their queues ask.
    fn parse(&self, chunk: &[(usize, Bytes)]) -> Result<(Vec<NewJob>, Faults), Problem> {
        let now = time::now();
        let mut faults = Faults::default();
        let mut jobs = Vec::with_capacity(chunk.len());
        for (index, (line, bytes)) in chunk.iter().enumerate() {
            let index = self.accepted + index;
            faults.entry(Some(index));
            let job = json::parse::<NewJobBody<'_>>(bytes).map_err(|problem| problem.in_line(*line, index))?;
            let job = job.check(now, &mut faults);
            if job.ties.as_ref().is_some_and(|ties| ties.batch.is_some()) {
                faults.at("/batch", "a stream is taken in parts, and a batch might end between two: send an array");
            }
            jobs.push(job);
        }
        Ok((jobs, faults))
    }

    fn admit(&self, policies: &Policies, jobs: &[NewJob], mut faults: Faults) -> Result<Warned, Problem> {
        let mut warned = Warned::default();
        for (index, job) in jobs.iter().enumerate() {
            faults.entry(Some(self.accepted + index));
            policies.check(job, &mut faults, &mut warned);
        }
        faults.finish().map(|()| warned)
    }

    async fn say(&self, line: &impl Serialize) -> Result<(), End> {
        let mut bytes = serde_json::to_vec(line).map_err(|_| End::Gone)?;
        bytes.push(b'\n');
        self.lines.send(bytes.into()).await.map_err(|_| End::Gone)
    }
}
