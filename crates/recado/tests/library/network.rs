//! A server behind a bad network: a proxy that loses answers, holds them, gives its own, counts requests, and
//! goes away.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use recado::{BoxError, ConnectOptions, Recado, Worker};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{AtWork, LONG, Mail, World, mail, reaches, until};

#[derive(Default)]
struct Weather {
    /// What becomes of the next requests with this in their first line, one after the other.
    fates: Mutex<VecDeque<(&'static str, Fate)>>,
    lost: AtomicUsize,
    /// Answers stay in the proxy.
    holds: AtomicBool,
    held: AtomicUsize,
    requests: AtomicUsize,
}

#[derive(Clone, Copy)]
enum Fate {
    /// The server does it; its answer is lost, and the connection with it.
    Lost,
    /// The server does it; the proxy answers with this status and a page of its own.
    Hidden(&'static str),
    /// The server never sees it; the proxy answers.
    Refused(&'static str),
}

fn page(status: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-type: text/html\r\ncontent-length: 6\r\nconnection: close\r\n\r\n<html>")
}

struct Proxy {
    weather: Arc<Weather>,
    address: SocketAddr,
    task: tokio::task::JoinHandle<()>,
}

impl Proxy {
    async fn start(listen: SocketAddr, server: SocketAddr) -> Self {
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

    async fn before(world: &World) -> (Self, Recado) {
        let proxy = Self::start(SocketAddr::from(([127, 0, 0, 1], 0)), world.address().unwrap()).await;
        let recado = Recado::connect(&format!("http://{}", proxy.address)).await.unwrap();
        (proxy, recado)
    }

    fn meet(&self, path: &'static str, fates: impl IntoIterator<Item = Fate>) {
        self.weather.fates.lock().unwrap().extend(fates.into_iter().map(|fate| (path, fate)));
    }

    fn lose(&self, path: &'static str) {
        self.meet(path, [Fate::Lost]);
    }

    fn lost(&self) -> usize {
        self.weather.lost.load(Ordering::SeqCst)
    }
}

async fn carry(client: TcpStream, server: SocketAddr, weather: Arc<Weather>) {
    let Ok(server) = TcpStream::connect(server).await else { return };
    let ((from_client, mut to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let fate = OnceLock::new();
    tokio::select! {
        () = requests(from_client, to_server, &weather, &fate) => {}
        () = answers(from_server, &mut to_client, &weather, &fate) => {}
    }
    if let Some(Fate::Hidden(status) | Fate::Refused(status)) = fate.get() {
        drop(to_client.write_all(page(status).as_bytes()).await);
    }
}

/// Ends when a request is not to reach the server.
async fn requests(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, weather: &Weather, fate: &OnceLock<Fate>) {
    let mut bytes = vec![0; 64 << 10];
    while let Ok(read @ 1..) = from.read(&mut bytes).await {
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
async fn answers(mut from: OwnedReadHalf, to: &mut OwnedWriteHalf, weather: &Weather, fate: &OnceLock<Fate>) {
    let mut bytes = vec![0; 64 << 10];
    while let Ok(read @ 1..) = from.read(&mut bytes).await {
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

fn done(recado: &Recado) -> recado::WorkerBuilder {
    Worker::builder(recado).handle(|_, _: Mail| async { Ok::<_, BoxError>(String::new()) })
}

async fn completed(recado: &Recado) -> usize {
    recado.jobs::<Mail>("mail", &["completed"]).await.unwrap().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_enqueue_whose_answer_was_lost_makes_one_job() {
    let world = World::remote().await;
    let (proxy, recado) = Proxy::before(&world).await;
    recado.enqueue(mail(0)).await.unwrap();
    proxy.lose("/jobs");
    let enqueued = recado.enqueue(mail(1)).await.unwrap();
    assert_eq!((enqueued.id, enqueued.deduplicated, proxy.lost()), (None, false, 1));
    proxy.lose("/jobs");
    assert_eq!(recado.enqueue_all((2..5).map(mail)).await.unwrap().len(), 3);
    assert_eq!(proxy.lost(), 2);
    assert!(recado.enqueue(mail(5)).await.unwrap().id.is_some());
    assert_eq!(there(&recado).await, ["0", "1", "2", "3", "4", "5"]);
}

async fn there(recado: &Recado) -> Vec<String> {
    let jobs = recado.jobs::<Mail>("mail", &["ready"]).await.unwrap();
    let mut there: Vec<String> = jobs.iter().map(|job| job.payload::<Mail>().unwrap().to).collect();
    there.sort_unstable();
    there
}

#[tokio::test(flavor = "multi_thread")]
async fn an_enqueue_that_is_refused_after_its_answer_was_lost_is_unknown_and_the_next_is_a_job() {
    let world = World::remote().await;
    let (proxy, recado) = Proxy::before(&world).await;
    recado.enqueue(mail(0)).await.unwrap();
    for (to, status) in [(1, "404 Not Found"), (3, "403 Forbidden")] {
        proxy.meet("/jobs", [Fate::Lost, Fate::Refused(status)]);
        let error = recado.enqueue(mail(to)).await.unwrap_err();
        assert!(error.is_outcome_unknown(), "{status}: {error}");
        assert!(recado.enqueue(mail(to + 1)).await.unwrap().id.is_some());
    }
    // An answer that cannot be read may be of a batch that was taken as well.
    proxy.meet("/jobs", [Fate::Hidden("200 OK")]);
    let error = recado.enqueue(mail(5)).await.unwrap_err();
    assert!(error.is_outcome_unknown(), "{error}");
    assert!(recado.enqueue(mail(6)).await.unwrap().id.is_some());
    assert_eq!(there(&world.recado).await, ["0", "1", "2", "3", "4", "5", "6"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_gives_up_leaves_the_outcome_unknown() {
    let world = World::remote().await;
    let (proxy, _) = Proxy::before(&world).await;
    let mut options = ConnectOptions::default();
    // One attempt, as the first pause is longer.
    options.deadline = Duration::ZERO;
    let recado = Recado::connect_with(&format!("http://{}", proxy.address), options).await.unwrap();
    for (to, status) in ["502 Bad Gateway", "503 Service Unavailable", "504 Gateway Timeout"].into_iter().enumerate() {
        proxy.meet("/jobs", [Fate::Hidden(status)]);
        let error = recado.enqueue(mail(to)).await.unwrap_err();
        assert!(error.is_outcome_unknown() && error.is_transient(), "{status}: {error}");
    }
    assert!(recado.enqueue(mail(3)).await.unwrap().id.is_some());
    assert_eq!(there(&world.recado).await, ["0", "1", "2", "3"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_without_a_deadline_goes_on() {
    let world = World::remote().await;
    let (proxy, _) = Proxy::before(&world).await;
    let mut options = ConnectOptions::default();
    options.deadline = Duration::MAX;
    let recado = Recado::connect_with(&format!("http://{}", proxy.address), options).await.unwrap();
    proxy.lose("/jobs");
    recado.enqueue(mail(0)).await.unwrap();
    proxy.lose("/jobs");
    assert_eq!(there(&recado).await, ["0"]);
    assert_eq!(proxy.lost(), 2);
}

#[test]
fn enqueues_go_on_after_the_runtime_of_others_has_ended() {
    /// As many as are under way at the same time.
    const UNDER_WAY: usize = 4;
    let (here, other) = (tokio::runtime::Runtime::new().unwrap(), tokio::runtime::Runtime::new().unwrap());
    let world = here.block_on(World::remote());
    let (proxy, recado) = here.block_on(Proxy::before(&world));
    proxy.weather.holds.store(true, Ordering::SeqCst);
    for to in 0..UNDER_WAY {
        let recado = recado.clone();
        other.spawn(async move { recado.enqueue(mail(to)).await });
        let is_held = async || proxy.weather.held.load(Ordering::SeqCst) > to;
        here.block_on(until("it is under way", is_held));
    }
    here.block_on(async {
        // It waits behind those.
        let mut waiting = recado.enqueue(mail(UNDER_WAY)).into_future();
        assert!(tokio::time::timeout(Duration::ZERO, &mut waiting).await.is_err());
        other.shutdown_background();
        let error = tokio::time::timeout(LONG, waiting).await.expect("it is told").unwrap_err();
        assert!(matches!(error, recado::Error::RuntimeEnded), "{error}");
        proxy.weather.holds.store(false, Ordering::SeqCst);
        let next = recado.enqueue(mail(UNDER_WAY + 1)).into_future();
        assert!(tokio::time::timeout(LONG, next).await.expect("it is sent").unwrap().id.is_some());
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receive_whose_answer_was_lost_is_answered_again() {
    let world = World::remote().await;
    let (proxy, recado) = Proxy::before(&world).await;
    let ids = recado.enqueue_all((0..5).map(mail)).await.unwrap();
    proxy.lose("/receive");
    let worker = AtWork::start(done(&recado).concurrency(5));
    for enqueued in ids {
        let job = reaches(&world.recado, enqueued.id.unwrap(), "completed").await;
        assert_eq!((job.attempts(), job.deliveries()), (1, 1));
    }
    assert_eq!((worker.stop().await.completed, proxy.lost()), (5, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settle_whose_answer_was_lost_is_sent_again() {
    let world = World::remote().await;
    let (proxy, recado) = Proxy::before(&world).await;
    proxy.lose("/settle");
    let worker = AtWork::start(done(&recado).concurrency(2));
    recado.enqueue(mail(1)).await.unwrap();
    until("it is lost", async || proxy.lost() == 1).await;
    let summary = worker.stop().await;
    assert_eq!((summary.completed, summary.overtaken), (1, 0));
    assert_eq!(completed(&recado).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_in_an_answer_that_a_stopped_worker_never_saw_are_given_back() {
    let world = World::remote().await;
    let (proxy, recado) = Proxy::before(&world).await;
    let worker = AtWork::start(done(&recado));
    until("it waits", async || proxy.weather.requests.load(Ordering::SeqCst) > 0).await;
    proxy.weather.holds.store(true, Ordering::SeqCst);
    let id = world.recado.enqueue(mail(1)).await.unwrap().id.unwrap();
    until("its answer is under way", async || proxy.weather.held.load(Ordering::SeqCst) > 0).await;
    proxy.weather.holds.store(false, Ordering::SeqCst);
    let summary = worker.stop().await;
    assert_eq!((summary.completed, summary.released), (0, 1));
    let job = world.recado.job(id).await.unwrap();
    assert_eq!((job.state(), job.attempts()), ("ready", 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_away_is_waited_for_until_the_deadline() {
    let world = World::remote().await;
    let (proxy, recado) = Proxy::before(&world).await;
    let worker = AtWork::start(done(&recado));
    recado.enqueue(mail(1)).await.unwrap();
    until("it works", async || completed(&world.recado).await == 1).await;
    let address = proxy.address;
    proxy.task.abort();
    drop(proxy.task.await);
    let mut options = ConnectOptions::default();
    options.deadline = Duration::from_millis(200);
    let hasty = Recado::connect_with(&format!("http://{address}"), options).await.unwrap();
    let error = hasty.enqueue(mail(2)).await.unwrap_err();
    assert!(matches!(error, recado::Error::Unreachable { .. }), "{error}");
    assert!(error.is_transient() && !error.is_outcome_unknown());
    let patient = tokio::spawn(async move { recado.enqueue(mail(3)).await });
    // The server was away for a while, and is back at the same address.
    let _proxy = Proxy::start(address, world.address().unwrap()).await;
    assert!(patient.await.unwrap().unwrap().id.is_some());
    until("the worker is back", async || completed(&world.recado).await == 2).await;
    assert_eq!(worker.stop().await.completed, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_needs_far_fewer_requests_than_jobs() {
    const JOBS: usize = 2_000;
    let world = World::remote().await;
    let (proxy, recado) = Proxy::before(&world).await;
    world.recado.enqueue_all((0..JOBS).map(mail)).await.unwrap();
    let worker = AtWork::start(done(&recado).concurrency(16));
    // A list has at most 1000 entries.
    until("all are done", async || world.recado.jobs::<Mail>("mail", &["ready", "inFlight"]).await.unwrap().is_empty())
        .await;
    let summary = worker.stop().await;
    let requests = proxy.weather.requests.load(Ordering::SeqCst);
    assert_eq!((summary.completed, summary.calls), (JOBS as u64, requests as u64));
    assert!(requests * 5 < JOBS, "{requests} requests for {JOBS} jobs");
}
