//! Handlers that fail, each in its way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use recado::{BoxError, Classify, Ctx, Disposition, JobError, Worker};
use serde_json::value::RawValue;

use crate::support::{AtWork, LONG, Mail, World, mail, reaches};

over_both! {
    any_error_is_tried_again_until_the_attempts_are_used_up
    a_permanent_failure_is_dead_at_once
    a_worker_says_when_to_come_back
    an_error_type_is_classified_once
    an_error_of_another_library_keeps_what_it_says
    a_panic_is_a_failure_with_its_message
    a_handler_that_hangs_is_cut_off
    a_huge_result_is_kept_by_nobody_and_seen_by_someone
    a_result_that_no_reader_would_take_is_the_failure_of_its_job_alone
    a_wait_beyond_all_bounds_is_the_longest_there_is
    a_payload_of_another_shape_is_dead_at_once
}

#[derive(Debug, thiserror::Error)]
enum SendError {
    #[error("no answer in 5 s")]
    Timeout,
    #[error("the mailbox does not exist")]
    NoSuchMailbox,
}

impl Classify for SendError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Timeout => Disposition::Retry,
            Self::NoSuchMailbox => Disposition::Permanent,
        }
    }
}

async fn any_error_is_tried_again_until_the_attempts_are_used_up(world: World) {
    let recado = &world.recado;
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let attempts = Arc::clone(&seen);
    let run = move |ctx: Ctx, _: Mail| {
        let last = ctx.last_error().map(|error| error.message.to_string());
        attempts.lock().unwrap().push((ctx.attempt(), ctx.max_attempts(), last, ctx.provider_key("send")));
        async { Err(SendError::Timeout) }
    };
    let id = recado.enqueue(mail(1)).await.unwrap().id.unwrap();
    let summary = Worker::builder(recado).handle(run).build().unwrap().drain().await.unwrap();
    assert_eq!((summary.completed, summary.failed), (0, 3));
    let job = recado.job(id).await.unwrap();
    assert_eq!((job.state(), job.attempts()), ("dead", 3));
    let kinds: Vec<_> = job.errors().iter().map(|error| (&*error.kind, &*error.message, error.retryable)).collect();
    assert_eq!(kinds, [("SendError", "no answer in 5 s", true); 3]);
    let seen = seen.lock().unwrap();
    let key = &seen[0].3;
    let last = || Some("no answer in 5 s".to_owned());
    assert_eq!(*seen, [(1, 3, None, key.clone()), (2, 3, last(), key.clone()), (3, 3, last(), key.clone())]);
}

async fn a_permanent_failure_is_dead_at_once(world: World) {
    let recado = &world.recado;
    let id = recado.enqueue(mail(1)).await.unwrap().id.unwrap();
    let run = |_, _: Mail| async { Err::<String, _>(JobError::permanent("unsubscribed").kind("Unsubscribed")) };
    Worker::builder(recado).handle(run).build().unwrap().drain().await.unwrap();
    let job = recado.job(id).await.unwrap();
    assert_eq!((job.state(), job.attempts()), ("dead", 1));
    let error = &job.errors()[0];
    assert_eq!((&*error.kind, &*error.message, error.retryable), ("Unsubscribed", "unsubscribed", false));
}

async fn a_worker_says_when_to_come_back(world: World) {
    let recado = &world.recado;
    let hour = Duration::from_secs(3600);
    for (error, attempts) in [(JobError::retry_after(hour), 1), (JobError::snooze(hour).because("not yet"), 0)] {
        let id = recado.enqueue(mail(1)).await.unwrap().id.unwrap();
        let error = Arc::new(std::sync::Mutex::new(Some(error)));
        let run = move |_, _: Mail| {
            let error = error.lock().unwrap().take();
            async move { Err::<String, BoxError>(error.map_or("again".into(), Into::into)) }
        };
        Worker::builder(recado).handle(run).build().unwrap().drain().await.unwrap();
        let job = recado.job(id).await.unwrap();
        assert_eq!((job.state(), job.attempts()), ("delayed", attempts));
    }
}

async fn an_error_type_is_classified_once(world: World) {
    let recado = &world.recado;
    let id = recado.enqueue(mail(1)).await.unwrap().id.unwrap();
    let run = |_, _: Mail| async { Err::<String, BoxError>(SendError::NoSuchMailbox.into()) };
    let worker = Worker::builder(recado).classify::<SendError>().handle(run).build().unwrap();
    worker.drain().await.unwrap();
    assert_eq!(recado.job(id).await.unwrap().state(), "dead");
}

async fn an_error_of_another_library_keeps_what_it_says(world: World) {
    let recado = &world.recado;
    let id = recado.enqueue(mail(1)).await.unwrap().id.unwrap();
    let run = |_, _: Mail| async {
        let sent: Result<String, anyhow::Error> = Err(JobError::permanent("bounced").kind("Bounced").into());
        sent.map_err(|error| error.context("sending failed"))
    };
    Worker::builder(recado).handle(run).build().unwrap().drain().await.unwrap();
    let job = recado.job(id).await.unwrap();
    let error = &job.errors()[0];
    assert_eq!((job.state(), &*error.kind, &*error.message), ("dead", "Bounced", "sending failed: bounced"));
}

async fn a_panic_is_a_failure_with_its_message(world: World) {
    let recado = &world.recado;
    let id = recado.enqueue(mail("nobody")).await.unwrap().id.unwrap();
    let runs = Arc::new(AtomicU32::new(0));
    let run = move |_, job: Mail| {
        let first = runs.fetch_add(1, Ordering::Relaxed) == 0;
        async move {
            assert!(!first, "cannot send to {}", job.to);
            Ok::<_, BoxError>("sent".to_owned())
        }
    };
    let worker = AtWork::start(Worker::builder(recado).handle(run));
    let job = reaches(recado, id, "completed").await;
    let error = &job.errors()[0];
    assert_eq!((&*error.kind, &*error.message, job.attempts()), ("panic", "cannot send to nobody", 2));
    worker.stop().await;
}

async fn a_handler_that_hangs_is_cut_off(world: World) {
    let recado = &world.recado;
    let id = recado.enqueue(mail(1)).await.unwrap().id.unwrap();
    let runs = Arc::new(AtomicU32::new(0));
    let run = move |ctx: Ctx, _: Mail| {
        let first = runs.fetch_add(1, Ordering::Relaxed) == 0;
        async move {
            assert!(ctx.deadline().is_some() && ctx.time_left() <= Some(Duration::from_secs(1)));
            if first {
                std::future::pending::<()>().await;
            }
            Ok::<_, BoxError>("sent".to_owned())
        }
    };
    let worker = AtWork::start(Worker::builder(recado).timeout(Duration::from_secs(1)).handle(run));
    let job = reaches(recado, id, "completed").await;
    assert_eq!((&*job.errors()[0].kind, job.attempts()), ("timeout", 2));
    worker.stop().await;
}

async fn a_huge_result_is_kept_by_nobody_and_seen_by_someone(world: World) {
    let recado = &world.recado;
    let (fits, huge) = (mail((64 << 10) - 2), mail((64 << 10) - 1));
    let run = |_, job: Mail| async move { Ok::<_, BoxError>("x".repeat(job.to.parse()?)) };
    let fits = recado.enqueue(fits).await.unwrap().id.unwrap();
    let huge = recado.enqueue(huge).await.unwrap().id.unwrap();
    Worker::builder(recado).handle(run).build().unwrap().drain().await.unwrap();
    let kept = recado.job(fits).await.unwrap().result::<Mail>().unwrap().unwrap();
    assert_eq!(kept.len(), (64 << 10) - 2);
    let job = recado.job(huge).await.unwrap();
    assert_eq!((job.state(), job.attempts(), &*job.errors()[0].kind), ("dead", 1, "result-too-large"));
}

async fn a_result_that_no_reader_would_take_is_the_failure_of_its_job_alone(world: World) {
    let recado = &world.recado;
    let deep = "[".repeat(130) + &"]".repeat(130);
    let results = [r#"{"a":1,"a":2}"#, "1e400", &deep, "12"];
    let ids = recado.enqueue_all(results.map(mail)).await.unwrap();
    let run = |ctx: Ctx| async move {
        let job: Mail = serde_json::from_str(ctx.payload().get())?;
        Ok::<_, BoxError>(RawValue::from_string(job.to)?)
    };
    let worker = AtWork::start(Worker::builder(recado).queue("mail").concurrency(4).handle_raw(run));
    for (index, (enqueued, result)) in ids.into_iter().zip(results).enumerate() {
        let state = if index == 3 { "completed" } else { "dead" };
        let job = reaches(recado, enqueued.id.unwrap(), state).await;
        let kinds: Vec<_> = job.errors().iter().map(|error| &*error.kind).collect();
        let expected: &[&str] = if index == 3 { &[] } else { &["invalid-result"] };
        assert_eq!((&*kinds, job.attempts()), (expected, 1), "{result}");
    }
    let summary = worker.stop().await;
    assert_eq!((summary.completed, summary.failed), (1, 3));
}

async fn a_wait_beyond_all_bounds_is_the_longest_there_is(world: World) {
    let recado = &world.recado;
    let ids = recado.enqueue_all([mail("retry"), mail("snooze")]).await.unwrap();
    let run = |_, job: Mail| async move {
        let wait = if job.to == "retry" { JobError::retry_after } else { JobError::snooze };
        Err::<String, _>(wait(Duration::MAX))
    };
    let summary = Worker::builder(recado).handle(run).build().unwrap().drain().await.unwrap();
    assert_eq!((summary.failed, summary.released), (1, 1));
    for enqueued in ids {
        assert_eq!(recado.job(enqueued.id.unwrap()).await.unwrap().state(), "delayed");
    }
}

async fn a_payload_of_another_shape_is_dead_at_once(world: World) {
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Other {
        recipient: String,
    }
    impl recado::Job for Other {
        const NAME: &'static str = <Mail as recado::Job>::NAME;
        const QUEUE: &'static str = "mail";
        type Output = ();
    }
    let recado = &world.recado;
    let id = recado.enqueue(Other { recipient: "x".into() }).await.unwrap().id.unwrap();
    let run = |_, _: Mail| async { Ok::<_, BoxError>(String::new()) };
    Worker::builder(recado).handle(run).build().unwrap().drain().await.unwrap();
    let job = recado.wait(id, LONG).await.unwrap();
    assert_eq!((job.state(), &*job.errors()[0].kind), ("dead", "invalid-payload"));
}
