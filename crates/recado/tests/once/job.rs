//! Steps of a job, across its deliveries.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use recado::once::MemoryStore;
use recado::{Backoff, BoxError, Ctx, Job, JobError, JobOptions, JobStatus, Recado, Worker};
use serde::{Deserialize, Serialize};

use super::child;

#[derive(Serialize, Deserialize)]
struct Receipt;

impl Job for Receipt {
    const NAME: &'static str = "receipt.send";
    const QUEUE: &'static str = "receipts";
    type Output = String;

    fn options() -> JobOptions {
        JobOptions::default().backoff(Backoff::Fixed(Duration::from_millis(1)))
    }
}

/// Works until the job has ended.
async fn work(recado: &Recado, worker: Worker, job: recado::JobId) -> JobStatus {
    let ended = async { recado.wait(job, Duration::from_secs(60)).await.unwrap() };
    let (mut status, waited) = (None, Arc::new(tokio::sync::Notify::new()));
    let stop = Arc::clone(&waited);
    let (_, summary) = tokio::join!(
        async {
            status = Some(ended.await);
            waited.notify_one();
        },
        worker.run_until(async move { stop.notified().await })
    );
    summary.unwrap();
    status.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_is_done_once_however_often_the_job_fails_behind_it() {
    let dir = tempfile::tempdir().unwrap();
    let recado = super::queue::embedded(dir.path()).await;
    let id = recado.enqueue(Receipt).await.unwrap().id.unwrap();
    let (sent, local) = (Arc::new(AtomicUsize::new(0)), Arc::new(MemoryStore::default()));
    let counted = Arc::clone(&sent);
    let run = move |ctx: Ctx, _: Receipt| {
        let (sent, local) = (Arc::clone(&counted), Arc::clone(&local));
        async move {
            let send = async { Ok::<_, BoxError>(format!("sent {}", sent.fetch_add(1, Ordering::SeqCst) + 1)) };
            let answer = ctx.once("send", send).await?;
            let other = async { Ok::<_, BoxError>(sent.fetch_add(10, Ordering::SeqCst)) };
            ctx.once("other", other).store(local).await?;
            match ctx.attempt() {
                1 | 2 => Err(JobError::new("no paper")),
                _ => Ok(answer),
            }
        }
    };
    let worker = Worker::builder(&recado).handle::<Receipt, _, _, _>(run).build().unwrap();
    let job = work(&recado, worker, id).await;
    assert_eq!((job.state(), job.attempts()), ("completed", 3));
    assert_eq!(job.result::<Receipt>().unwrap().as_deref(), Some("sent 1"));
    assert_eq!(sent.load(Ordering::SeqCst), 11, "each step once");
    recado.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_step_another_is_at_comes_back_without_a_used_attempt() {
    let dir = tempfile::tempdir().unwrap();
    let recado = super::queue::embedded(dir.path()).await;
    let id = recado.enqueue(Receipt).await.unwrap().id.unwrap();
    let busy = recado::once::Step::new(Receipt::QUEUE, &format!("{id}:send")).hold_for(Duration::from_secs(2));
    recado.once_store().begin(&busy).await.unwrap();
    let run = |ctx: Ctx, _: Receipt| async move {
        let send = async { Ok::<_, BoxError>("sent".to_owned()) };
        Ok::<_, JobError>(ctx.once("send", send).wait(Duration::ZERO).await?)
    };
    let worker = Worker::builder(&recado).handle::<Receipt, _, _, _>(run).build().unwrap();
    let job = work(&recado, worker, id).await;
    assert_eq!((job.state(), job.attempts()), ("completed", 1));
    assert!(job.deliveries() > 1, "it was snoozed");
    recado.close().await.unwrap();
}

/// Tells the child where the server is and at which point it stays.
const WORK: &str = "RECADO_TEST_WORK_AT";

/// The child: a worker that stays in a step, or behind it. Nothing in a run of its own.
#[test]
fn works_until_it_is_killed() {
    let Ok(at) = std::env::var(WORK) else { return };
    let (point, url) = at.split_once(' ').unwrap();
    let stays_within = point == "within";
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let recado = Recado::connect(url).await.unwrap();
        let run = move |ctx: Ctx, _: Receipt| async move {
            let send = async {
                if stays_within {
                    println!("is within");
                    std::future::pending::<()>().await;
                }
                Ok::<_, BoxError>("the child's".to_owned())
            };
            let sent = ctx.once("send", send).hold_for(Duration::from_secs(2)).await?;
            println!("is behind");
            std::future::pending::<()>().await;
            Ok::<_, JobError>(sent)
        };
        let worker = Worker::builder(&recado).visibility(Duration::from_secs(2));
        worker.handle::<Receipt, _, _, _>(run).build().unwrap().run().await.unwrap();
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_killed_behind_a_step_leaves_it_done_and_one_killed_within_leaves_it_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let running = crate::support::serve(dir.path()).await;
    let url = format!("http://{}", running.local_addr());
    let recado = Recado::connect(&url).await.unwrap();
    for (point, expected, by_us) in [("behind", "the child's", 0), ("within", "ours", 1)] {
        let id = recado.enqueue(Receipt).await.unwrap().id.unwrap();
        let (at, says) = (format!("{point} {url}"), format!("is {point}"));
        let mut child = child::start("once::job::works_until_it_is_killed", WORK, &at, &says);
        child.kill().unwrap();
        child.wait().unwrap();
        let sent = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&sent);
        let run = move |ctx: Ctx, _: Receipt| {
            let sent = Arc::clone(&counted);
            async move {
                let send = async {
                    sent.fetch_add(1, Ordering::SeqCst);
                    Ok::<_, BoxError>("ours".to_owned())
                };
                Ok::<_, JobError>(ctx.once("send", send).await?)
            }
        };
        let worker = Worker::builder(&recado).handle::<Receipt, _, _, _>(run).build().unwrap();
        let job = work(&recado, worker, id).await;
        assert_eq!(job.result::<Receipt>().unwrap().as_deref(), Some(expected), "{point}");
        assert_eq!(sent.load(Ordering::SeqCst), by_us, "{point}");
    }
    running.stop().await.unwrap();
}
