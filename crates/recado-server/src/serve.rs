//! Connections: accepting, their number, and what every request goes through before its route.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use recado_sqs::Protocol;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tower::ServiceExt;

use crate::connection::{Outbox, Wire, whole_answer};
use crate::http::App;
use crate::limits::{
    HEAD_BYTES_MAX, HEAD_LINES_MAX, HEAD_TIME_MAX, REFUSAL_ASK_TIME_MAX, REFUSAL_TIME_MAX, REFUSALS_MAX, STOP_TIME_MAX,
};
use crate::origin;
use crate::problem::{Code, Problem};
use crate::{sqs, unread};

/// The request came from this machine.
#[derive(Clone, Copy)]
pub(crate) struct OverLoopback(pub(crate) bool);

/// A pause after a failed accept (no file descriptor left, for example), so that it is not a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Accepts until `stop`, then waits for what is in flight.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    app: App,
    stop: watch::Receiver<bool>,
    connections_max: usize,
) {
    let places = Arc::new(Semaphore::new(connections_max));
    let refusals = Arc::new(Semaphore::new(REFUSALS_MAX));
    let mut connections = JoinSet::new();
    let mut stopping = stop.clone();
    loop {
        let stream = tokio::select! {
            biased;
            () = stopped(&mut stopping) => break,
            // Ended connections are taken out, or the set would grow for ever.
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            },
        };
        // A full server says so at once: waiting in the backlog would look like a dead one.
        match Arc::clone(&places).try_acquire_owned() {
            Ok(place) => drop(connections.spawn(connection(stream, router.clone(), app.clone(), stop.clone(), place))),
            Err(_) => {
                if let Ok(refusal) = Arc::clone(&refusals).try_acquire_owned() {
                    tokio::spawn(refuse(stream, app.clone(), connections_max, refusal));
                }
            }
        }
    }
    drop(listener);
    let ended = tokio::time::timeout(STOP_TIME_MAX, async { while connections.join_next().await.is_some() {} });
    if ended.await.is_err() {
        tracing::warn!(connections = connections.len(), "closing connections that did not end by themselves");
        connections.shutdown().await;
    }
}

async fn connection(
    stream: TcpStream,
    router: Router,
    app: App,
    mut stop: watch::Receiver<bool>,
    place: OwnedSemaphorePermit,
) {
    // Answers are written whole: waiting for more to send would only add latency.
    let _ = stream.set_nodelay(true);
    let over_loopback = stream.local_addr().is_ok_and(|address| address.ip().to_canonical().is_loopback());
    let outbox = Outbox::default();
    let held = outbox.clone();
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let answer = answer(router.clone(), app.clone(), held.clone(), over_loopback, request);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .max_headers(HEAD_LINES_MAX)
        .max_header_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(Wire::new(stream, outbox)), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stopped(&mut stop) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
    drop(place);
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    // An error means that the sender is gone: that is a stop too.
    drop(stop.wait_for(|stops| *stops).await);
}

fn answer(
    router: Router,
    app: App,
    outbox: Outbox,
    over_loopback: bool,
    request: hyper::Request<Incoming>,
) -> impl Future<Output = Response> + Send {
    let (mut parts, body) = request.into_parts();
    let checked = match head_bytes(&parts) {
        bytes if bytes > HEAD_BYTES_MAX => {
            let detail = "the request line and headers have at most 16 KiB";
            Err(Problem::new(Code::HeadersTooLarge, detail).sized(HEAD_BYTES_MAX as u64, Some(bytes as u64)))
        }
        _ => origin::check(&parts, over_loopback, app.public.as_ref()),
    };
    parts.extensions.insert(outbox);
    parts.extensions.insert(OverLoopback(over_loopback));
    let (body, rest) = unread::watch(body);
    async move {
        let response = match (checked, sqs::protocol(&parts)) {
            (Ok(()), Some(protocol)) => sqs::serve(&app, protocol, Request::from_parts(parts, body)).await,
            (Ok(()), None) => match router.oneshot(Request::from_parts(parts, body)).await {
                Ok(response) => response,
                Err(never) => match never {},
            },
            (Err(problem), protocol) => {
                drop(body);
                refusal(&app, &parts, protocol, problem)
            }
        };
        rest.settle(response).await
    }
}

/// In the words of whoever asks.
fn refusal(app: &App, parts: &Parts, protocol: Option<Protocol>, problem: Problem) -> Response {
    match protocol {
        Some(protocol) => sqs::refuse(app, protocol, parts, &problem),
        None => problem.into_response(),
    }
}

/// Size of a head as it is usually written: hyper's own limit counts whole reads, not bytes.
fn head_bytes(parts: &Parts) -> usize {
    let target = parts.uri.path_and_query().map_or(0, |target| target.as_str().len());
    let line = parts.method.as_str().len() + target + " ".len() + " HTTP/1.1\r\n".len();
    let lines = parts.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len());
    line + lines.sum::<usize>() + "\r\n".len()
}

/// Tells a surplus connection that it is one, in the words of what it asks; it need not ask.
async fn refuse(stream: TcpStream, app: App, connections_max: usize, _refusal: OwnedSemaphorePermit) {
    let problem = Problem::new(Code::Overloaded, format!("{connections_max} connections are open; come back later"));
    let told = async {
        match tokio::time::timeout(REFUSAL_ASK_TIME_MAX, stream.peek(&mut [0])).await {
            Ok(_) => refuse_request(stream, &app, &problem).await,
            Err(_) => drop(refuse_unasked(stream, &problem).await),
        }
    };
    let _ = tokio::time::timeout(REFUSAL_TIME_MAX, told).await;
}

async fn refuse_request(stream: TcpStream, app: &App, problem: &Problem) {
    let service = service_fn(|request: hyper::Request<Incoming>| async {
        let (parts, body) = request.into_parts();
        let (body, rest) = unread::watch(body);
        drop(body);
        let response = || refusal(app, &parts, sqs::protocol(&parts), problem.clone());
        // A body that does not come holds the answer back no longer than this.
        let settled = tokio::time::timeout(REFUSAL_ASK_TIME_MAX, rest.settle(response())).await;
        Ok::<_, Infallible>(settled.unwrap_or_else(|_| response()))
    });
    let connection = http1::Builder::new()
        .keep_alive(false)
        .max_headers(HEAD_LINES_MAX)
        .max_header_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(Wire::new(stream, Outbox::default())), service);
    if let Err(error) = connection.await {
        tracing::debug!(%error, "surplus connection ended");
    }
}

async fn refuse_unasked(mut stream: TcpStream, problem: &Problem) -> std::io::Result<()> {
    stream.write_all(&whole_answer(problem)).await?;
    stream.shutdown().await?;
    // What the client sends is read, or the close would be a reset that takes the answer with it.
    let mut waste = [0; 1_024];
    while stream.read(&mut waste).await? > 0 {}
    Ok(())
}
