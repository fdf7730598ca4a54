//! A server behind a bad network: a proxy that loses answers, holds them, gives its own, counts requests, falls
//! silent, and goes away.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use recado::Recado;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

use crate::support::World;

#[derive(Default)]
pub(crate) struct Weather {
    /// What becomes of the next requests with this in their first line, one after the other.
    fates: Mutex<VecDeque<(&'static str, Fate)>>,
    lost: AtomicUsize,
    /// Answers stay in the proxy.
    pub(crate) holds: AtomicBool,
    pub(crate) held: AtomicUsize,
    pub(crate) requests: AtomicUsize,
    /// Connections so far.
    connections: AtomicUsize,
    /// Of the connections that were made before this one, not a byte comes through any more.
    silent_before: AtomicUsize,
}

#[derive(Clone, Copy)]
pub(crate) enum Fate {
    /// The server does it; its answer is lost, and the connection with it.
    Lost,
    /// The server does it; the proxy answers with this status and a page of its own.
    Hidden(&'static str),
    /// The server never sees it; the proxy answers.
    Refused(&'static str),
}

impl Weather {
    /// Never ends for a connection that has fallen silent.
    async fn silence(&self, number: usize) {
        if number < self.silent_before.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
    }
}

fn page(status: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-type: text/html\r\ncontent-length: 6\r\nconnection: close\r\n\r\n<html>")
}

pub(crate) struct Proxy {
    pub(crate) weather: Arc<Weather>,
    pub(crate) address: SocketAddr,
    pub(crate) task: tokio::task::JoinHandle<()>,
}

impl Proxy {
    pub(crate) async fn start(listen: SocketAddr, server: SocketAddr) -> Self {
        let listener = TcpListener::bind(listen).await.unwrap();
        let weather = Arc::new(Weather::default());
        let (address, shared) = (listener.local_addr().unwrap(), Arc::clone(&weather));
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(carry(client, server, Arc::clone(&shared)));
            }
        });
        Self { weather, address, task }
    }

    pub(crate) async fn before(world: &World) -> (Self, Recado) {
        let proxy = Self::start(SocketAddr::from(([127, 0, 0, 1], 0)), world.address().unwrap()).await;
        let recado = Recado::connect(&format!("http://{}", proxy.address)).await.unwrap();
        (proxy, recado)
    }

    pub(crate) fn meet(&self, path: &'static str, fates: impl IntoIterator<Item = Fate>) {
        self.weather.fates.lock().unwrap().extend(fates.into_iter().map(|fate| (path, fate)));
    }

    pub(crate) fn lose(&self, path: &'static str) {
        self.meet(path, [Fate::Lost]);
    }

    /// From now on nothing comes through the connections that there are, and nobody is told.
    pub(crate) fn fall_silent(&self) {
        let made = self.weather.connections.load(Ordering::SeqCst);
        self.weather.silent_before.store(made, Ordering::SeqCst);
    }

    pub(crate) fn lost(&self) -> usize {
        self.weather.lost.load(Ordering::SeqCst)
    }
}

async fn carry(client: TcpStream, server: SocketAddr, weather: Arc<Weather>) {
    let number = weather.connections.fetch_add(1, Ordering::SeqCst);
    let Ok(server) = TcpStream::connect(server).await else { return };
    let ((from_client, mut to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let fate = OnceLock::new();
    tokio::select! {
        () = requests(from_client, to_server, &weather, &fate, number) => {}
        () = answers(from_server, &mut to_client, &weather, &fate, number) => {}
    }
    if let Some(Fate::Hidden(status) | Fate::Refused(status)) = fate.get() {
        drop(to_client.write_all(page(status).as_bytes()).await);
    }
}

/// Ends when a request is not to reach the server.
async fn requests(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    weather: &Weather,
    fate: &OnceLock<Fate>,
    number: usize,
) {
    let mut bytes = vec![0; 64 << 10];
    while let Ok(read @ 1..) = from.read(&mut bytes).await {
        weather.silence(number).await;
        let text = String::from_utf8_lossy(&bytes[..read]);
        if text.starts_with("POST ") || text.starts_with("GET ") {
            weather.requests.fetch_add(1, Ordering::SeqCst);
            let mut fates = weather.fates.lock().unwrap();
            let is_met = |(path, _): &mut (&str, _)| text.lines().next().is_some_and(|line| line.contains(*path));
            if let Some((_, met)) = fates.pop_front_if(is_met) {
                fate.set(met).ok().unwrap();
                if matches!(met, Fate::Refused(_)) {
                    return;
                }
            }
        }
        if to.write_all(&bytes[..read]).await.is_err() {
            return;
        }
    }
}

/// Ends when an answer is not to reach the client.
async fn answers(
    mut from: OwnedReadHalf,
    to: &mut OwnedWriteHalf,
    weather: &Weather,
    fate: &OnceLock<Fate>,
    number: usize,
) {
    let mut bytes = vec![0; 64 << 10];
    while let Ok(read @ 1..) = from.read(&mut bytes).await {
        weather.silence(number).await;
        if fate.get().is_some() {
            weather.lost.fetch_add(1, Ordering::SeqCst);
            return;
        }
        if weather.holds.load(Ordering::SeqCst) {
            weather.held.fetch_add(1, Ordering::SeqCst);
            std::future::pending::<()>().await;
        }
        if to.write_all(&bytes[..read]).await.is_err() {
            return;
        }
    }
}
