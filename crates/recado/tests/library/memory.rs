//! What programs test themselves with.

use std::time::Duration;

use recado::testing::{assert_enqueued, refute_enqueued};
use recado::{BoxError, JobError, Recado, Worker};

use crate::support::{Mail, mail};

#[tokio::test]
async fn time_moves_by_hand_and_what_is_due_runs() {
    let (recado, clock) = Recado::in_memory().await.unwrap();
    let day = Duration::from_secs(86_400);
    let id = recado.enqueue(mail("later")).delay(day).await.unwrap().id.unwrap();
    assert_eq!(assert_enqueued::<Mail>(&recado, |mail| mail.to == "later").await, mail("later"));
    refute_enqueued::<Mail>(&recado, |mail| mail.to == "never").await;
    let run = |_, _: Mail| async { Ok::<_, BoxError>("sent".to_owned()) };
    let worker = Worker::builder(&recado).handle(run).build().unwrap();
    assert_eq!(worker.drain().await.unwrap().completed, 0);
    clock.advance(day - Duration::from_millis(1)).await.unwrap();
    assert_eq!(worker.drain().await.unwrap().completed, 0);
    clock.advance(Duration::from_millis(1)).await.unwrap();
    assert_eq!(worker.drain().await.unwrap().completed, 1);
    refute_enqueued::<Mail>(&recado, |_| true).await;
    assert_eq!(recado.job(id).await.unwrap().result::<Mail>().unwrap().as_deref(), Some("sent"));
}

#[tokio::test]
async fn a_retry_comes_when_its_time_has_come() {
    let (recado, clock) = Recado::in_memory().await.unwrap();
    let hour = Duration::from_secs(3_600);
    recado.enqueue(mail(1)).await.unwrap();
    let run = move |ctx: recado::Ctx, _: Mail| async move {
        if ctx.attempt() == 1 { Err(JobError::retry_after(hour)) } else { Ok("sent".to_owned()) }
    };
    let worker = Worker::builder(&recado).handle(run).build().unwrap();
    let summary = worker.drain().await.unwrap();
    assert_eq!((summary.completed, summary.failed), (0, 1));
    clock.advance(hour).await.unwrap();
    assert_eq!(worker.drain().await.unwrap().completed, 1);
}

#[tokio::test]
#[should_panic(expected = "no such `mail.send` waits in `mail`")]
async fn a_job_that_was_not_enqueued_is_missed() {
    let (recado, _clock) = Recado::in_memory().await.unwrap();
    recado.enqueue(mail("someone")).await.unwrap();
    assert_enqueued::<Mail>(&recado, |mail| mail.to == "someone else").await;
}
