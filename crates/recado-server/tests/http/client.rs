//! A small HTTP/1.1 client that shows every byte and hides no mistake.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// A test never waits longer for an answer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(60);

/// One connection.
pub(crate) struct Conn {
    pub(crate) stream: TcpStream,
    /// Read and not yet taken.
    buffer: Vec<u8>,
}

/// One answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Conn {
    pub(crate) fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(ANSWER_TIME_MAX)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, buffer: Vec::new() }
    }

    /// A request with a JSON body, or none.
    pub(crate) fn json(&mut self, method: &str, path: &str, body: &str) -> Answer {
        let content_type = if body.is_empty() { "" } else { "content-type: application/json\r\n" };
        self.request(method, path, content_type, body.as_bytes())
    }

    /// A request with these header lines, each ended by CRLF.
    pub(crate) fn request(&mut self, method: &str, path: &str, headers: &str, body: &[u8]) -> Answer {
        let host = if headers.to_ascii_lowercase().contains("host:") { "" } else { "host: localhost\r\n" };
        let length = if body.is_empty() && method == "GET" {
            String::new()
        } else {
            format!("content-length: {}\r\n", body.len())
        };
        let head = format!("{method} {path} HTTP/1.1\r\n{host}{headers}{length}\r\n");
        self.send(head.as_bytes());
        self.send(body);
        if method == "HEAD" { self.head_only() } else { self.answer() }
    }

    /// Bytes as they are. A server that has refused may have closed: the answer tells.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// One chunk of a chunked body.
    pub(crate) fn send_chunk(&mut self, bytes: &[u8]) {
        self.send(format!("{:x}\r\n", bytes.len()).as_bytes());
        self.send(bytes);
        self.send(b"\r\n");
    }

    /// Reads one answer.
    pub(crate) fn answer(&mut self) -> Answer {
        let mut answer = self.head_only();
        if let Some(length) = answer.header("content-length") {
            let length = length.parse().unwrap();
            while self.buffer.len() < length {
                assert!(self.fill(), "the body ended early: {answer:?}");
            }
            answer.body = self.buffer.drain(..length).collect();
        } else if answer.header("transfer-encoding").as_deref() == Some("chunked") {
            while let Some(chunk) = self.chunk() {
                answer.body.extend(chunk);
            }
        }
        answer
    }

    /// Reads the head of an answer.
    pub(crate) fn head_only(&mut self) -> Answer {
        let end = loop {
            if let Some(at) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            assert!(self.fill(), "no answer: {:?}", String::from_utf8_lossy(&self.buffer));
        };
        let head: Vec<u8> = self.buffer.drain(..end).collect();
        let head = String::from_utf8(head).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        if status == 100 {
            return self.head_only();
        }
        Answer { status, head, body: Vec::new() }
    }

    /// Reads one chunk of a chunked answer; none at its end.
    pub(crate) fn chunk(&mut self) -> Option<Vec<u8>> {
        let line_end = loop {
            if let Some(at) = self.buffer.windows(2).position(|two| two == b"\r\n") {
                break at;
            }
            assert!(self.fill(), "the chunk ended early");
        };
        let size = usize::from_str_radix(std::str::from_utf8(&self.buffer[..line_end]).unwrap(), 16).unwrap();
        while self.buffer.len() < line_end + 2 + size + 2 {
            assert!(self.fill(), "the chunk ended early");
        }
        let chunk = self.buffer[line_end + 2..line_end + 2 + size].to_vec();
        self.buffer.drain(..line_end + 2 + size + 2);
        (size > 0).then_some(chunk)
    }

    /// True when the server has closed the connection and sent nothing more.
    pub(crate) fn is_closed(&mut self) -> bool {
        self.buffer.is_empty() && !self.fill()
    }

    fn fill(&mut self) -> bool {
        let mut part = [0; 16 * 1_024];
        match self.stream.read(&mut part) {
            Ok(0) => false,
            Ok(read) => {
                self.buffer.extend_from_slice(&part[..read]);
                true
            }
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => false,
            Err(error) => panic!("no answer: {error}"),
        }
    }
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let lines = self.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        let mut values =
            lines.filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim().to_owned());
        values.next()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    /// The body, after the status is as expected.
    pub(crate) fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}{}", self.head, self.text());
        assert_eq!(self.header("content-type").as_deref(), Some("application/json"), "{}", self.head);
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The problem, after status, code and all that every problem has are as expected.
    pub(crate) fn problem(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.status, status, "{}{}", self.head, self.text());
        assert_eq!(self.header("content-type").as_deref(), Some("application/problem+json"), "{}", self.head);
        let problem: Value = serde_json::from_slice(&self.body).unwrap();
        assert_eq!(problem["code"], code, "{problem}");
        assert_eq!(problem["status"], status, "{problem}");
        assert_eq!(problem["type"], format!("/problems/{code}"), "{problem}");
        assert!(problem["title"].is_string() && problem["detail"].is_string(), "{problem}");
        if matches!(status, 429 | 503 | 507) {
            let seconds: u64 = self.header("retry-after").expect("a Retry-After").parse().unwrap();
            assert!(seconds >= 1, "{}", self.head);
            assert!(problem["retryAfter"].is_string(), "{problem}");
        }
        problem
    }
}
