//! Who has a job, and who has lost it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use recado::{BoxError, Cancelled, Ctx, JobId, Recado, Summary, Worker};
use tokio::sync::oneshot;

use crate::support::{AtWork, Mail, World, mail, reaches, until};

over_both! {
    heartbeats_keep_a_job_that_takes_longer_than_its_timeout
    progress_is_seen_while_the_handler_runs
    a_cancelled_job_tells_its_handler
    an_overtaken_run_is_told_and_changes_nothing
    a_late_ack_that_nobody_overtook_counts
}

const SHORT: Duration = Duration::from_millis(300);

async fn heartbeats_keep_a_job_that_takes_longer_than_its_timeout(world: World) {
    let recado = &world.recado;
    let id = recado.enqueue(mail(1)).await.unwrap().id.unwrap();
    let run = |ctx: Ctx, _: Mail| async move {
        tokio::time::sleep(4 * SHORT).await;
        assert_eq!(ctx.is_cancelled(), None);
        Ok::<_, BoxError>(String::new())
    };
    let builder = || Worker::builder(recado).visibility(SHORT).handle(run);
    let (one, two) = (AtWork::start(builder()), AtWork::start(builder()));
    let job = reaches(recado, id, "completed").await;
    assert_eq!((job.attempts(), job.deliveries()), (1, 1));
    assert_eq!(one.stop().await.completed + two.stop().await.completed, 1);
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
    fn start(recado: Recado, waits: bool) -> Self {
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
        let worker = Worker::builder(&recado).visibility(SHORT).handle(run).build().unwrap();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(worker.run_until(async move { drop(stopped.await) })).unwrap()
        });
        Self { thaw, told, thread }
    }
}

async fn frozen(world: &World, waits: bool) -> (Frozen, JobId) {
    let id = world.recado.enqueue(mail(1)).await.unwrap().id.unwrap();
    (Frozen::start(world.another().await, waits), id)
}

async fn an_overtaken_run_is_told_and_changes_nothing(world: World) {
    let recado = &world.recado;
    let (frozen, id) = frozen(&world, true).await;
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
    let (frozen, id) = frozen(&world, false).await;
    until("it lapsed", async || recado.job(id).await.unwrap().errors().len() == 1).await;
    assert_eq!(recado.job(id).await.unwrap().state(), "ready");
    frozen.thaw.send(()).unwrap();
    let summary = tokio::task::spawn_blocking(move || frozen.thread.join().unwrap()).await.unwrap();
    assert_eq!((summary.completed, summary.overtaken), (1, 0));
    let job = recado.job(id).await.unwrap();
    assert_eq!((job.state(), job.result::<Mail>().unwrap().as_deref()), ("completed", Some("late")));
}
