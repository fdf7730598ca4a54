//! Workers in processes of their own, which are killed and told to stop.

use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};

use recado::{BoxError, Job, JobOptions, Recado, Worker};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::support::{AtWork, Place, World, options, reaches};

over_both! {
    a_worker_killed_in_mid_job_is_replaced_after_the_timeout
    a_signal_lets_the_running_job_finish
    a_second_signal_ends_the_process_at_once
}

/// A job that takes as long as its worker's process lives, or until a signal comes.
#[derive(Debug, Serialize, Deserialize)]
struct Work {
    until_signal: bool,
}

impl Job for Work {
    const NAME: &'static str = "work";
    const QUEUE: &'static str = "work";
    type Output = String;

    fn options() -> JobOptions {
        JobOptions::default().visibility(std::time::Duration::from_secs(1))
    }
}

const PLACE: &str = "RECADO_TEST_PLACE";

/// Not a test: what the processes that are started here run.
#[tokio::test]
#[ignore = "started by the others"]
async fn child() {
    let place = std::env::var(PLACE).unwrap();
    let recado = match place.starts_with("http") {
        true => Recado::connect(&place).await.unwrap(),
        false => Recado::open_with(&place, options()).await.unwrap(),
    };
    let run = |_, job: Work| async move {
        let mut signal = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        println!("\nbegun");
        if job.until_signal {
            signal.recv().await;
        } else {
            std::future::pending::<()>().await;
        }
        Ok::<_, BoxError>("finished".to_owned())
    };
    Worker::builder(&recado).handle(run).build().unwrap().run().await.unwrap();
    recado.close().await.unwrap();
}

/// Starts a worker's process and waits until its handler has begun.
async fn start(place: Place) -> Child {
    let place = match place {
        Place::Dir(dir) => dir.into_os_string(),
        Place::Url(url) => url.into(),
    };
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "process::child", "--nocapture"])
        .env(PLACE, place)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    while lines.next_line().await.unwrap().expect("the worker ended") != "begun" {}
    // The pipe stays open: the worker may say more.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    child
}

fn send(child: &Child, signal: Signal) {
    let id = i32::try_from(child.id().unwrap()).unwrap();
    kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
}

async fn ended(mut child: Child) -> ExitStatus {
    child.wait().await.unwrap()
}

async fn a_worker_killed_in_mid_job_is_replaced_after_the_timeout(world: World) {
    let id = world.recado.enqueue(Work { until_signal: false }).await.unwrap().id.unwrap();
    let child = start(world.place().await).await;
    send(&child, Signal::KILL);
    assert_eq!(ended(child).await.signal(), Some(9));
    let world = world.reopen().await;
    assert_eq!(world.recado.job(id).await.unwrap().state(), "inFlight", "it is hidden until its timeout");
    let run = |_, _: Work| async { Ok::<_, BoxError>("by another".to_owned()) };
    let worker = AtWork::start(Worker::builder(&world.recado).handle(run));
    let job = reaches(&world.recado, id, "completed").await;
    assert_eq!((job.result::<Work>().unwrap().as_deref(), job.deliveries()), (Some("by another"), 2));
    worker.stop().await;
}

async fn a_signal_lets_the_running_job_finish(world: World) {
    let id = world.recado.enqueue(Work { until_signal: true }).await.unwrap().id.unwrap();
    let child = start(world.place().await).await;
    send(&child, Signal::TERM);
    assert!(ended(child).await.success());
    let world = world.reopen().await;
    let job = world.recado.job(id).await.unwrap();
    assert_eq!((job.state(), job.result::<Work>().unwrap().as_deref()), ("completed", Some("finished")));
    assert_eq!((job.attempts(), job.deliveries()), (1, 1));
}

async fn a_second_signal_ends_the_process_at_once(world: World) {
    world.recado.enqueue(Work { until_signal: false }).await.unwrap();
    let mut child = start(world.place().await).await;
    // The second may come while the first is still being taken for one: again until it has ended.
    let status = loop {
        send(&child, Signal::TERM);
        tokio::select! {
            status = child.wait() => break status.unwrap(),
            () = tokio::time::sleep(std::time::Duration::from_millis(20)) => {}
        }
    };
    assert_eq!(status.code(), Some(128 + 15));
}
