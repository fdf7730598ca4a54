//! Who has a job, and who has lost it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use recado::{BoxError, Cancelled, Ctx, Job, JobId, JobOptions, Recado, Summary, Worker};
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, oneshot, watch};

use crate::support::{AtWork, Mail, World, mail, reaches, until};

over_both! {
    heartbeats_keep_a_job_that_takes_longer_than_its_timeout
    progress_is_seen_while_the_handler_runs
    a_cancelled_job_tells_its_handler
    an_overtaken_run_is_told_and_changes_nothing
    a_late_ack_that_nobody_overtook_counts
    a_late_ack_of_a_job_that_its_timeout_made_dead_counts
}

const SHORT: Duration = Duration::from_millis(300);
/// Long enough that a machine which stands still for a second loses none.
const LEASE: Duration = Duration::from_secs(2);

async fn heartbeats_keep_a_job_that_takes_longer_than_its_timeout(world: World) {
    let recado = &world.recado;
    let (finish, finished) = watch::channel(false);
    let run = move |ctx: Ctx, _: Mail| {
        let mut finished = finished.clone();
        async move {
            finished.wait_for(|is| *is).await?;
            assert_eq!(ctx.is_cancelled(), None);
            Ok::<_, BoxError>(String::new())
        }
    };
    let id = recado.enqueue(mail(1)).await.unwrap().id.unwrap();
    let worker = AtWork::start(Worker::builder(recado).visibility(LEASE).handle(run));
    reaches(recado, id, "inFlight").await;
    // Taken later, for as long, by a worker without a heartbeat: when it lapses, so would the other have.
    let (frozen, witness) = frozen(&world, LEASE, false).await;
    until("it lapsed", async || recado.job(witness).await.unwrap().errors().len() == 1).await;
    assert_eq!(recado.job(id).await.unwrap().state(), "inFlight");
    finish.send(true).unwrap();
    let job = reaches(recado, id, "completed").await;
    assert_eq!((job.attempts(), job.deliveries()), (1, 1));
    worker.stop().await;
    frozen.thaw.send(()).unwrap();
    tokio::task::spawn_blocking(move || frozen.thread.join().unwrap()).await.unwrap();
}

async fn progress_is_seen_while_the_handler_runs(world: World) {
    let recado = &world.recado;
    let id = recado.enqueue(mail(1)).await.unwrap().id.unwrap();
    let (finish, finished) = oneshot::channel::<()>();
    let finished = Arc::new(Mutex::new(Some(finished)));
    let run = move |ctx: Ctx, _: Mail| {
        let finished = finished.lock().unwrap().take();
        async move {
            ctx.progress(0.4);
            finished.unwrap().await?;
            Ok::<_, BoxError>(String::new())
        }
    };
    let worker = AtWork::start(Worker::builder(recado).handle(run));
    let progress = async || recado.job(id).await.unwrap().progress().map(|json| json.get().to_owned());
    until("its progress", async || progress().await.as_deref() == Some("0.4")).await;
    finish.send(()).unwrap();
    reaches(recado, id, "completed").await;
    worker.stop().await;
}

async fn a_cancelled_job_tells_its_handler(world: World) {
    let recado = &world.recado;
    let id = recado.enqueue(mail(1)).await.unwrap().id.unwrap();
    let run = |ctx: Ctx, _: Mail| async move {
        assert_eq!(ctx.cancelled().await, Cancelled::Requested);
        Err::<String, BoxError>("stopped on the way".into())
    };
    // Heartbeats carry the news to an embedded worker whose places are all taken.
    let worker = AtWork::start(Worker::builder(recado).visibility(Duration::from_secs(1)).handle(run));
    reaches(recado, id, "inFlight").await;
    recado.cancel(id).await.unwrap();
    reaches(recado, id, "cancelled").await;
    worker.stop().await;
}

/// A worker whose whole process seems to stand still in mid-job: its thread is blocked until it is let go.
struct Frozen {
    thaw: std::sync::mpsc::Sender<()>,
    told: std::sync::mpsc::Receiver<Option<Cancelled>>,
    thread: std::thread::JoinHandle<Summary>,
}

impl Frozen {
    /// After it thawed its handler waits to be told, if `waits`, and then succeeds. Then the worker stops.
    fn start(recado: Recado, visibility: Duration, waits: bool) -> Self {
        let (thaw, thawed) = std::sync::mpsc::channel();
        let (tell, told) = std::sync::mpsc::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let once = Arc::new(Mutex::new(Some((thawed, stop))));
        let run = move |ctx: Ctx, _: Mail| {
            let (once, tell) = (once.lock().unwrap().take(), tell.clone());
            async move {
                let (thawed, stop) = once.ok_or("it runs a second time")?;
                thawed.recv()?;
                let why = if waits { Some(ctx.cancelled().await) } else { ctx.is_cancelled() };
                tell.send(why)?;
                drop(stop);
                Ok::<_, BoxError>("late".to_owned())
            }
        };
        let worker = Worker::builder(&recado).visibility(visibility).handle(run).build().unwrap();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(worker.run_until(async move { drop(stopped.await) })).unwrap()
        });
        Self { thaw, told, thread }
    }
}

async fn frozen(world: &World, visibility: Duration, waits: bool) -> (Frozen, JobId) {
    let id = world.recado.enqueue(mail(1)).await.unwrap().id.unwrap();
    (Frozen::start(world.another().await, visibility, waits), id)
}

async fn an_overtaken_run_is_told_and_changes_nothing(world: World) {
    let recado = &world.recado;
    let (frozen, id) = frozen(&world, SHORT, true).await;
    until("it lapsed", async || recado.job(id).await.unwrap().errors().len() == 1).await;
    let run = |_, _: Mail| async { Ok::<_, BoxError>("in time".to_owned()) };
    let other = AtWork::start(Worker::builder(recado).handle(run));
    reaches(recado, id, "completed").await;
    frozen.thaw.send(()).unwrap();
    let told = tokio::task::spawn_blocking(move || (frozen.told.recv().unwrap(), frozen.thread.join().unwrap()));
    let (told, summary) = told.await.unwrap();
    assert_eq!(told, Some(Cancelled::LeaseLost));
    assert_eq!((summary.completed, summary.overtaken), (0, 1));
    let job = recado.job(id).await.unwrap();
    assert_eq!(job.result::<Mail>().unwrap().as_deref(), Some("in time"));
    assert_eq!(&*job.errors()[0].kind, "visibility-timeout");
    other.stop().await;
}

async fn a_late_ack_that_nobody_overtook_counts(world: World) {
    let recado = &world.recado;
    let (frozen, id) = frozen(&world, SHORT, false).await;
    until("it lapsed", async || recado.job(id).await.unwrap().errors().len() == 1).await;
    assert_eq!(recado.job(id).await.unwrap().state(), "ready");
    frozen.thaw.send(()).unwrap();
    let summary = tokio::task::spawn_blocking(move || frozen.thread.join().unwrap()).await.unwrap();
    assert_eq!((summary.completed, summary.overtaken), (1, 0));
    let job = recado.job(id).await.unwrap();
    assert_eq!((job.state(), job.result::<Mail>().unwrap().as_deref()), ("completed", Some("late")));
}

/// A job with one attempt.
#[derive(Serialize, Deserialize)]
struct Only(u32);

impl Job for Only {
    const NAME: &'static str = "only";
    const QUEUE: &'static str = "mail";
    type Output = String;

    fn options() -> JobOptions {
        JobOptions::default().max_attempts(1)
    }
}

async fn a_late_ack_of_a_job_that_its_timeout_made_dead_counts(world: World) {
    let recado = &world.recado;
    let only = recado.enqueue(Only(1)).await.unwrap().id.unwrap();
    let marker = recado.enqueue(mail(1)).await.unwrap().id.unwrap();
    let (thaw, thawed) = std::sync::mpsc::channel::<()>();
    // Heartbeats of both go together: when the marker's run is told, the other's was answered too.
    let (begun, told) = (Arc::new(Mutex::new((0, thawed))), Arc::new(Notify::new()));
    let freeze = move || {
        let mut begun = begun.lock().unwrap();
        begun.0 += 1;
        if begun.0 == 2 {
            begun.1.recv().unwrap();
        }
    };
    let (freezes, tells) = (freeze.clone(), Arc::clone(&told));
    let mark = move |ctx: Ctx, _: Mail| {
        let (freeze, told) = (freezes.clone(), Arc::clone(&tells));
        async move {
            freeze();
            assert_eq!(ctx.cancelled().await, Cancelled::LeaseLost);
            told.notify_one();
            Ok::<_, BoxError>("overtaken".to_owned())
        }
    };
    let work = move |ctx: Ctx, _: Only| {
        let (freeze, told) = (freeze.clone(), Arc::clone(&told));
        async move {
            freeze();
            told.notified().await;
            assert_eq!(ctx.is_cancelled(), None);
            Ok::<_, BoxError>("late".to_owned())
        }
    };
    let builder = Worker::builder(&world.another().await).concurrency(2).visibility(SHORT);
    let worker = builder.handle(mark).handle(work).build().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(worker.run_until(async move { drop(stopped.await) })).unwrap()
    });
    reaches(recado, only, "dead").await;
    let other =
        AtWork::start(Worker::builder(recado).handle(|_, _: Mail| async { Ok::<_, BoxError>("in time".to_owned()) }));
    reaches(recado, marker, "completed").await;
    thaw.send(()).unwrap();
    let job = reaches(recado, only, "completed").await;
    assert_eq!(job.result::<Only>().unwrap().as_deref(), Some("late"));
    drop(stop);
    let summary = tokio::task::spawn_blocking(move || thread.join().unwrap()).await.unwrap();
    assert_eq!((summary.completed, summary.overtaken), (1, 1));
    other.stop().await;
}
