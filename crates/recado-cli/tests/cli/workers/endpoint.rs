//! A web server that behaves as it is told, also badly.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// What came.
#[derive(Clone, Debug, Default)]
pub(super) struct Request {
    pub(super) target: String,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: String,
}

impl Request {
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

/// What goes back; the connection is closed after it.
pub(super) enum Answer {
    /// These bytes.
    Bytes(String),
    /// These, and then more without end.
    Endless(String),
    /// Nothing, for as long as the other side likes.
    Hang,
}

/// An answer with a status line, header lines and a body.
pub(super) fn answer(status: u16, headers: &str, body: &str) -> Answer {
    let length = body.len();
    Answer::Bytes(format!(
        "HTTP/1.1 {status} Said\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    ))
}

pub(super) struct Endpoint {
    pub(super) port: u16,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Endpoint {
    pub(super) fn start(answer: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Endpoint {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (all, answer) = (Arc::clone(&requests), Arc::new(answer));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (all, answer) = (Arc::clone(&all), Arc::clone(&answer));
                thread::spawn(move || {
                    let Some(request) = read(&stream) else { return };
                    all.lock().unwrap().push(request.clone());
                    write(&stream, answer(&request));
                });
            }
        });
        Endpoint { port, requests }
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/hook?of=recado", self.port)
    }

    pub(super) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

fn read(stream: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let mut line = || {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        Some(line.trim_end().to_owned())
    };
    let mut request = Request { target: line()?.split(' ').nth(1)?.to_owned(), ..Request::default() };
    while let Some((name, value)) = line()?.split_once(": ") {
        request.headers.insert(name.to_lowercase(), value.to_owned());
    }
    let length = request.header("content-length").parse().ok()?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    request.body = String::from_utf8(body).ok()?;
    Some(request)
}

fn write(mut stream: &TcpStream, answer: Answer) {
    // The other side may leave whenever it likes.
    match answer {
        Answer::Bytes(bytes) => drop(stream.write_all(bytes.as_bytes())),
        Answer::Endless(bytes) => {
            let _ = stream.write_all(bytes.as_bytes());
            while stream.write_all(&[b' '; 4096]).is_ok() {}
        }
        Answer::Hang => drop(stream.read(&mut [0])),
    }
}
