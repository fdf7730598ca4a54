//! How workers stop.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use recado::{BoxError, Ctx, Worker};

use crate::support::{AtWork, Mail, World, mail, until};

over_both! {
    a_stop_under_load_burns_no_attempt_and_does_no_job_twice
    what_does_not_finish_within_the_grace_is_given_back
    an_idle_worker_stops_at_once
    times_beyond_all_bounds_are_no_limit
}

async fn a_stop_under_load_burns_no_attempt_and_does_no_job_twice(world: World) {
    const JOBS: usize = 400;
    let recado = &world.recado;
    let ids = recado.enqueue_all((0..JOBS).map(mail)).await.unwrap();
    let runs: Arc<Mutex<HashMap<String, u32>>> = Arc::default();
    let seen = Arc::clone(&runs);
    let run = move |_, job: Mail| {
        *seen.lock().unwrap().entry(job.to).or_default() += 1;
        async {
            tokio::time::sleep(Duration::from_millis(5)).await;
            Ok::<_, BoxError>(String::new())
        }
    };
    let mut completed = 0;
    // Several workers, one after the other, each stopped in mid-work.
    for stopped_after in [50, 150, 250, JOBS] {
        let worker = AtWork::start(Worker::builder(recado).concurrency(16).handle(run.clone()));
        until("enough are begun", async || runs.lock().unwrap().len() >= stopped_after).await;
        let summary = worker.stop().await;
        completed += summary.completed;
        assert_eq!((summary.failed, summary.overtaken), (0, 0));
    }
    assert_eq!(completed, JOBS as u64);
    assert!(runs.lock().unwrap().values().all(|runs| *runs == 1), "each ran once");
    for enqueued in ids {
        let job = recado.job(enqueued.id.unwrap()).await.unwrap();
        assert_eq!((job.state(), job.attempts()), ("completed", 1), "{}", job.id());
    }
}

async fn what_does_not_finish_within_the_grace_is_given_back(world: World) {
    let recado = &world.recado;
    let id = recado.enqueue(mail(1)).await.unwrap().id.unwrap();
    let (begun, mut begins) = tokio::sync::mpsc::unbounded_channel();
    let run = move |ctx: Ctx, _: Mail| {
        begun.send(ctx.id()).unwrap();
        std::future::pending::<Result<String, BoxError>>()
    };
    let worker = AtWork::start(Worker::builder(recado).grace(Duration::ZERO).handle(run));
    assert_eq!(begins.recv().await, Some(id));
    let summary = worker.stop().await;
    assert_eq!((summary.released, summary.failed), (1, 0));
    let job = recado.job(id).await.unwrap();
    assert_eq!((job.state(), job.attempts(), job.deliveries()), ("ready", 0, 1));
}

async fn an_idle_worker_stops_at_once(world: World) {
    let recado = &world.recado;
    recado.enqueue(mail(1)).await.unwrap();
    let builder = || Worker::builder(recado).handle(|_, _: Mail| async { Ok::<_, BoxError>(String::new()) });
    let worker = AtWork::start(builder());
    until("it has worked", async || recado.jobs::<Mail>("mail", &["completed"]).await.unwrap().len() == 1).await;
    worker.stop().await;
    // What comes after it is not handed to the receive that it left behind.
    let id = recado.enqueue(mail(2)).await.unwrap().id.unwrap();
    assert_eq!(builder().build().unwrap().drain().await.unwrap().completed, 1);
    assert_eq!(recado.job(id).await.unwrap().deliveries(), 1);
}

async fn times_beyond_all_bounds_are_no_limit(world: World) {
    let recado = &world.recado;
    let id = recado.enqueue(mail(1)).await.unwrap().id.unwrap();
    let (begun, mut begins) = tokio::sync::mpsc::unbounded_channel();
    let (finish, finished) = tokio::sync::watch::channel(false);
    let run = move |ctx: Ctx, _: Mail| {
        begun.send(ctx.id()).unwrap();
        let mut finished = finished.clone();
        async move {
            let work = async { finished.wait_for(|is| *is).await.map(|_| String::new()) };
            Ok::<_, BoxError>(ctx.once("wait", work).wait(Duration::MAX).await?)
        }
    };
    let builder = Worker::builder(recado).timeout(Duration::MAX).grace(Duration::MAX).handle(run);
    let worker = AtWork::start(builder);
    // In flight is not enough: what is handed out and not begun is given back by the stop.
    assert_eq!(begins.recv().await, Some(id));
    let (waiting, stopping) = (recado.wait(id, Duration::MAX), worker.stop());
    let finishing = async { finish.send(true).unwrap() };
    let (job, summary, ()) = tokio::join!(waiting, stopping, finishing);
    assert_eq!((job.unwrap().state(), summary.completed), ("completed", 1));
}

/// A server comes back, and its workers wait for it; an embedded queue does not.
#[tokio::test(flavor = "multi_thread")]
async fn a_closed_queue_ends_its_worker() {
    let world = World::embedded().await;
    let builder = Worker::builder(&world.recado).handle(|_, _: Mail| async { Ok::<_, BoxError>(String::new()) });
    let worker = builder.build().unwrap();
    let working = tokio::spawn(async move { worker.run_until(std::future::pending()).await });
    world.recado.close().await.unwrap();
    assert_eq!(working.await.unwrap().unwrap_err().code(), Some("stopping"));
}
