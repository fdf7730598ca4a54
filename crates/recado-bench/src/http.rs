//! As little of an HTTP/1.1 client as measuring needs: one connection, kept alive, one request at a time.
//!
//! It shares the server's cores, so it must be cheap. It knows only answers with a `Content-Length`.

use std::io::Write;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A connection.
pub(crate) struct Client {
    stream: TcpStream,
    host: String,
    /// Header lines that say what the bodies are.
    speaks: String,
    out: Vec<u8>,
    input: Vec<u8>,
}

/// An answer, as long as the next request is not sent.
pub(crate) struct Answer<'a> {
    /// The status code.
    pub(crate) status: u16,
    /// The body, which is text.
    pub(crate) body: &'a str,
}

/// What the head of an answer says.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    status: u16,
    /// Where the body begins.
    head_bytes: usize,
    body_bytes: usize,
}

/// How long a refusal is taken for a passing one.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);
const READ_BYTES: usize = 64 * 1024;
const HEAD_BYTES_MAX: usize = 16 * 1024;

impl Client {
    /// Connects.
    pub(crate) async fn connect(addr: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(addr).await.with_context(|| format!("cannot connect to {addr}"))?;
        stream.set_nodelay(true)?;
        let input = Vec::with_capacity(READ_BYTES);
        let speaks = "content-type: application/json\r\n".to_owned();
        Ok(Self { stream, host: addr.to_string(), speaks, out: Vec::new(), input })
    }

    /// From now on requests are this action of Amazon SQS.
    pub(crate) fn speak_sqs(&mut self, action: &str) {
        self.speaks = format!("content-type: application/x-amz-json-1.0\r\nx-amz-target: AmazonSQS.{action}\r\n");
    }

    /// Sends a POST and waits for its answer, which must be a success.
    pub(crate) async fn post(&mut self, path: &str, body: &[u8]) -> Result<&str> {
        self.send("POST", path, body).await
    }

    /// As [`Client::post`], but a server that is short of room for a moment (its disk cannot follow) is asked
    /// again, for a while: how often it refused.
    pub(crate) async fn post_patiently(&mut self, path: &str, body: &[u8]) -> Result<u64> {
        let deadline = Instant::now() + PATIENCE;
        let mut refused = 0;
        loop {
            let Answer { status, body: said } = self.ask("POST", path, body).await?;
            match status {
                200..300 => return Ok(refused),
                429 | 503 | 507 if Instant::now() < deadline => refused += 1,
                _ => bail!("POST {path} was answered {status}: {said}"),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// The same with another method.
    pub(crate) async fn send(&mut self, method: &str, path: &str, body: &[u8]) -> Result<&str> {
        let Answer { status, body } = self.ask(method, path, body).await?;
        ensure!((200..300).contains(&status), "{method} {path} was answered {status}: {body}");
        Ok(body)
    }

    /// Sends a request and waits for its answer.
    pub(crate) async fn ask(&mut self, method: &str, path: &str, body: &[u8]) -> Result<Answer<'_>> {
        self.out.clear();
        write!(
            self.out,
            "{method} {path} HTTP/1.1\r\nhost: {}\r\n{}content-length: {}\r\n\r\n",
            self.host,
            self.speaks,
            body.len()
        )?;
        self.out.extend_from_slice(body);
        self.stream.write_all(&self.out).await.context("cannot send")?;
        self.input.clear();
        let head = loop {
            if let Some(head) = parse_head(&self.input)? {
                break head;
            }
            ensure!(self.input.len() < HEAD_BYTES_MAX, "the head of an answer does not end");
            self.read().await?;
        };
        let end = head.head_bytes + head.body_bytes;
        while self.input.len() < end {
            self.read().await?;
        }
        ensure!(self.input.len() == end, "the server sent more than one answer");
        let body = self.input.get(head.head_bytes..end).unwrap_or_default();
        Ok(Answer { status: head.status, body: std::str::from_utf8(body)? })
    }

    async fn read(&mut self) -> Result<()> {
        self.input.reserve(READ_BYTES);
        let count = self.stream.read_buf(&mut self.input).await.context("cannot receive")?;
        ensure!(count > 0, "the server closed the connection");
        Ok(())
    }
}

fn parse_head(input: &[u8]) -> Result<Option<Head>> {
    let Some(end) = input.windows(4).position(|window| window == b"\r\n\r\n") else { return Ok(None) };
    let head = std::str::from_utf8(input.get(..end).unwrap_or_default())?;
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok());
    let Some(status) = status else { bail!("not an HTTP/1.1 answer: {head}") };
    let length =
        lines.filter_map(|line| line.split_once(':')).find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let Some((_, length)) = length else { bail!("an answer without Content-Length: {head}") };
    let body_bytes = length.trim().parse().with_context(|| format!("Content-Length: {length}"))?;
    Ok(Some(Head { status, head_bytes: end + 4, body_bytes }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads() {
        let whole = b"HTTP/1.1 201 Created\r\nContent-Length: 12\r\nx: y\r\n\r\n{\"jobs\":[]}\n";
        assert_eq!(
            parse_head(whole).unwrap(),
            Some(Head { status: 201, head_bytes: whole.len() - 12, body_bytes: 12 })
        );
        for end in 0..whole.len() - 12 {
            assert_eq!(parse_head(&whole[..end]).unwrap(), None, "{end}");
        }
        assert!(parse_head(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").is_err());
        assert!(parse_head(b"SMTP\r\n\r\n").is_err());
    }
}
