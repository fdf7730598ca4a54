//! One connection, between the socket and hyper.
//!
//! Two things hyper does not do stand here. A receive's [`DeliveryGuard`] is confirmed only once the
//! bytes of its answer have been flushed to the socket; if the connection ends first the guard is
//! dropped, which gives the jobs back. And the answers that hyper makes by itself (400, 414, 431 for a
//! head it cannot take) get a problem as their body, like every other refusal.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use recado_shard::DeliveryGuard;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

use crate::limits::WRITE_STALL_MAX;
use crate::problem::{Code, Problem};

/// Guards of answers that were given to hyper and not yet flushed.
#[derive(Clone, Default)]
pub(crate) struct Outbox(Arc<Mutex<Held>>);

#[derive(Default)]
struct Held {
    guards: Vec<DeliveryGuard>,
    /// The connection ended: what comes now is given back.
    closed: bool,
}

impl Outbox {
    /// A body that hands `guard` over with its last byte.
    pub(crate) fn body(&self, bytes: Vec<u8>, guard: DeliveryGuard) -> Body {
        Body::new(Guarded { bytes: Some(bytes.into()), guard: Some(guard), outbox: self.clone() })
    }

    fn hold(&self, guard: DeliveryGuard) {
        let mut held = self.lock();
        if !held.closed {
            held.guards.push(guard);
        }
    }

    fn is_empty(&self) -> bool {
        self.lock().guards.is_empty()
    }

    fn confirm(&self) {
        let guards = std::mem::take(&mut self.lock().guards);
        guards.into_iter().for_each(DeliveryGuard::confirm);
    }

    fn close(&self) {
        let mut held = self.lock();
        held.closed = true;
        let guards = std::mem::take(&mut held.guards);
        drop(held);
        drop(guards);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One chunk with a guard.
struct Guarded {
    bytes: Option<Bytes>,
    guard: Option<DeliveryGuard>,
    outbox: Outbox,
}

impl http_body::Body for Guarded {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let bytes = self.bytes.take();
        if let (Some(_), Some(guard)) = (&bytes, self.guard.take()) {
            // hyper buffers the chunk right after this, and flushes the socket only when its buffer
            // is empty: the next flush that succeeds is behind the chunk.
            self.outbox.hold(guard);
        }
        Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}

/// The socket as hyper sees it.
pub(crate) struct Wire {
    stream: TcpStream,
    outbox: Outbox,
    /// What replaces an answer of hyper's own, as far as it is not written.
    replaced: Bytes,
    /// Runs while the peer takes nothing of what is written.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Wire {
    /// Wraps an accepted socket.
    pub(crate) fn new(stream: TcpStream, outbox: Outbox) -> Self {
        Self { stream, outbox, replaced: Bytes::new(), stalled: None }
    }

    /// The system takes bytes for a peer that has left already: jobs in them would wait for their timeout.
    /// Asked before each write and not after the last, when a quick peer may have read all and left.
    fn refuse_if_left(&self) -> io::Result<()> {
        if !self.outbox.is_empty() && has_left(&self.stream) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Ok(())
    }

    /// A peer that reads nothing must not hold its answer in memory, and the jobs in it, for ever.
    fn unless_stalled<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(WRITE_STALL_MAX)));
        stalled.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }

    fn poll_replaced(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.replaced.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, &self.replaced))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            bytes::Buf::advance(&mut self.replaced, written);
        }
        Poll::Ready(Ok(()))
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.outbox.close();
    }
}

impl AsyncRead for Wire {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_replaced(cx))?;
        if let Some(replacement) = replacement(bytes) {
            self.replaced = replacement;
            return Poll::Ready(Ok(bytes.len()));
        }
        self.refuse_if_left()?;
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.unless_stalled(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let Some(first) = parts.first().filter(|first| replacement(first).is_some()) {
            return self.poll_write(cx, first);
        }
        ready!(self.poll_replaced(cx))?;
        self.refuse_if_left()?;
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.unless_stalled(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_replaced(cx))?;
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        self.outbox.confirm();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_replaced(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// True when the peer has closed its side and sent nothing more.
fn has_left(stream: &TcpStream) -> bool {
    use rustix::io::Errno;
    use rustix::net::{RecvFlags, recv};
    let mut byte = [0; 1];
    match recv(stream, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Ok((read, _)) => read == 0,
        Err(error) => !matches!(error, Errno::AGAIN | Errno::INTR),
    }
}

const EMPTY: &[u8] = b"content-length: 0\r\n";

/// An answer that hyper made by itself: a 4xx without a body, which ours always have.
fn replacement(bytes: &[u8]) -> Option<Bytes> {
    let rest = bytes.strip_prefix(b"HTTP/1.1 4")?;
    let head_end = rest.windows(4).position(|four| four == b"\r\n\r\n")?;
    rest.get(..head_end + 2)?.windows(EMPTY.len()).find(|window| window.eq_ignore_ascii_case(EMPTY))?;
    let problem = match rest.get(..2)? {
        b"31" | b"14" => {
            Problem::new(Code::HeadersTooLarge, "the request line and headers have at most 16 KiB and 128 lines")
        }
        b"00" => Problem::new(Code::InvalidRequest, "this is not an HTTP/1.1 request"),
        _ => return None,
    };
    Some(whole_answer(&problem).into())
}

/// A refusal as bytes, for where there is no hyper to write it.
pub(crate) fn whole_answer(problem: &Problem) -> Vec<u8> {
    let body = problem.bytes();
    let retry = if problem.status() == 503 { "retry-after: 1\r\n" } else { "" };
    let mut answer = format!(
        "HTTP/1.1 {} {}\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\nconnection: close\r\n{retry}\r\n",
        problem.status(),
        problem.code(),
        body.len(),
    )
    .into_bytes();
    answer.extend_from_slice(&body);
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Time is paused, so it runs on to the limit as soon as nothing else can go on.
    #[tokio::test(start_paused = true)]
    async fn a_peer_that_reads_nothing_is_left() {
        use tokio::io::AsyncWriteExt;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (peer, accepted) = tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        let mut wire = Wire::new(accepted.unwrap().0, Outbox::default());
        let began = tokio::time::Instant::now();
        let error = wire.write_all(&vec![0; 64 << 20]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(began.elapsed() >= WRITE_STALL_MAX, "{:?}", began.elapsed());
        drop(peer);
    }

    #[test]
    fn only_hypers_own_refusals_are_replaced() {
        let own = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\ndate: x\r\n\r\n";
        let text = String::from_utf8(replacement(own).unwrap().to_vec()).unwrap();
        assert!(text.contains("headers-too-large") && text.contains("application/problem+json"), "{text}");
        for other in [
            b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".as_slice(),
            b"HTTP/1.1 404 Not Found\r\ncontent-length: 10\r\n\r\n0123456789",
            b"{\"payload\":\"HTTP/1.1 431\"}",
        ] {
            assert_eq!(replacement(other), None);
        }
    }
}
