//! A server behind a bad network.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use recado::{BoxError, ConnectOptions, Ctx, Recado, Worker};
use tokio::sync::Notify;

use crate::proxy::{Fate, Proxy};
use crate::support::{AtWork, LONG, Mail, World, mail, reaches, until};

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
async fn a_begin_whose_answer_was_lost_does_not_wait_for_itself() {
    let world = World::remote().await;
    let (proxy, recado) = Proxy::before(&world).await;
    recado.enqueue(mail(1)).await.unwrap();
    proxy.lose("/begin");
    let work = async { Ok::<_, String>(42) };
    let once = recado.once("mail", "k", Duration::from_secs(60), work).wait(Duration::ZERO);
    assert_eq!((once.await.unwrap(), proxy.lost()), (42, 1));
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

/// A worker that takes a job and is never heard of again.
async fn take_and_leave(world: &World, queue: &str, lease: Duration) {
    let url = format!("http://{}/v1/queues/{queue}/receive", world.address().unwrap());
    let body = format!("{{\"visibilityTimeout\":\"{}s\"}}", lease.as_secs());
    let request = reqwest::Client::new().post(url).header("content-type", "application/json").body(body);
    let answer = request.send().await.unwrap().text().await.unwrap();
    assert!(answer.contains("receipt"), "{answer}");
}

/// Long enough that a machine which stands still for a second loses none.
const LEASE: Duration = Duration::from_secs(6);

#[tokio::test(flavor = "multi_thread")]
async fn heartbeats_leave_connections_that_fell_silent_and_the_worker_goes_on() {
    let world = World::remote().await;
    let (proxy, recado) = Proxy::before(&world).await;
    let go_on = Arc::new(Notify::new());
    let goes_on = Arc::clone(&go_on);
    let run = move |ctx: Ctx, job: Mail| {
        let goes_on = Arc::clone(&goes_on);
        async move {
            if job.to == "long" {
                ctx.progress(0.5);
                goes_on.notified().await;
                ctx.progress(0.75);
                goes_on.notified().await;
            }
            Ok::<_, BoxError>(String::new())
        }
    };
    let worker = AtWork::start(Worker::builder(&recado).concurrency(2).visibility(LEASE).handle(run));
    let long = world.recado.enqueue(mail("long")).await.unwrap().id.unwrap();
    let said = async || world.recado.job(long).await.unwrap().progress().map(|json| json.get().to_owned());
    // Its connection is used again for the next heartbeat.
    until("a heartbeat", async || said().await.as_deref() == Some("0.5")).await;
    // Others stand idle, as dead as that one soon.
    futures_util::future::join_all((0..8).map(|_| recado.job(long))).await;
    proxy.fall_silent();
    go_on.notify_one();
    // Taken later, for as long, without a heartbeat: when it lapses, so would the other have.
    let witness = world.recado.enqueue(mail("witness")).queue("witness").await.unwrap().id.unwrap();
    take_and_leave(&world, "witness", LEASE).await;
    // Handed to the receive that waits, over a connection on which nothing comes any more.
    let next = world.recado.enqueue(mail("next")).await.unwrap().id.unwrap();
    until("it lapsed", async || world.recado.job(witness).await.unwrap().errors().len() == 1).await;
    let job = world.recado.job(long).await.unwrap();
    assert_eq!((job.state(), job.deliveries()), ("inFlight", 1));
    assert_eq!(said().await.as_deref(), Some("0.75"), "what the lost heartbeat said is not lost");
    let job = reaches(&world.recado, next, "completed").await;
    assert_eq!((job.attempts(), job.deliveries()), (1, 1));
    go_on.notify_one();
    let job = reaches(&world.recado, long, "completed").await;
    assert_eq!((job.attempts(), job.deliveries()), (1, 1));
    assert_eq!(worker.stop().await.completed, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_a_receive_took_into_silence_is_settled_before_its_lease_is_over() {
    let world = World::remote().await;
    let (proxy, recado) = Proxy::before(&world).await;
    let proxy = Arc::new(proxy);
    let falls = Arc::clone(&proxy);
    let run = move |_, _: Mail| {
        falls.fall_silent();
        async { Ok::<_, BoxError>(String::new()) }
    };
    let worker = AtWork::start(Worker::builder(&recado).visibility(LEASE).handle(run));
    let id = world.recado.enqueue(mail(1)).await.unwrap().id.unwrap();
    let job = reaches(&world.recado, id, "completed").await;
    assert_eq!((job.attempts(), job.deliveries(), job.errors().len()), (1, 1, 0));
    let summary = worker.stop().await;
    assert_eq!((summary.completed, summary.overtaken), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_holds_nothing_stops_though_nobody_answers() {
    let world = World::remote().await;
    let (proxy, recado) = Proxy::before(&world).await;
    let stops = async |worker: AtWork| {
        let stopped = tokio::time::timeout(LONG, worker.stop()).await;
        assert_eq!(stopped.expect("it does not wait for its grace period").completed, 0);
    };
    let builder = |recado| done(recado).grace(Duration::MAX);
    let worker = AtWork::start(builder(&recado));
    until("it waits", async || proxy.weather.requests.load(Ordering::SeqCst) > 0).await;
    proxy.weather.holds.store(true, Ordering::SeqCst);
    stops(worker).await;
    let address = proxy.address;
    proxy.task.abort();
    drop(proxy.task.await);
    let worker = AtWork::start(builder(&recado));
    let hasty = Recado::connect(&format!("http://{address}")).await.unwrap();
    let another = AtWork::start(builder(&hasty));
    tokio::task::yield_now().await;
    stops(worker).await;
    stops(another).await;
}
