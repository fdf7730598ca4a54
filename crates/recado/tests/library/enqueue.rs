//! What producers can say.

use std::time::{Duration, SystemTime};

use recado::{Job, OnDuplicate, Worker};
use serde::{Deserialize, Serialize};

use crate::support::{LONG, Mail, World, mail, reaches};

over_both! {
    a_job_is_there_as_it_was_enqueued
    options_arrive
    a_batch_is_in_whole_or_names_each_bad_job
    a_bad_job_is_refused_alike
    what_a_queue_does_not_take_is_refused_and_nothing_else
    what_a_worker_says_is_masked
    jobs_of_many_callers_stand_each_for_themselves
    equal_keys_make_one_job_and_one_effect
    a_cancelled_job_does_not_run
    jobs_are_listed_by_state
}

async fn jobs_are_listed_by_state(world: World) {
    let recado = &world.recado;
    recado.enqueue(mail(1)).await.unwrap();
    let later = recado.enqueue(mail(2)).delay(Duration::from_secs(3600)).await.unwrap().id.unwrap();
    let listed = async |states: &[&str]| recado.jobs::<Mail>("mail", states).await;
    assert_eq!(listed(&["delayed"]).await.unwrap()[0].id(), later);
    assert_eq!((listed(&["ready", "delayed"]).await.unwrap().len(), listed(&[]).await.unwrap().len()), (2, 2));
    let error = listed(&["delayd"]).await.unwrap_err();
    assert_eq!(error.code(), Some("invalid-request"));
    assert!(error.to_string().contains("did you mean `delayed`?"), "{error}");
}

async fn a_job_is_there_as_it_was_enqueued(world: World) {
    let enqueued = world.recado.enqueue(mail("a@example.org")).await.unwrap();
    let job = world.recado.job(enqueued.id.unwrap()).await.unwrap();
    assert_eq!(job.payload::<Mail>().unwrap(), mail("a@example.org"));
    assert_eq!((job.queue(), job.kind(), job.schema_version(), job.state()), ("mail", "mail.send", 1, "ready"));
    assert_eq!(job.held_back(), Some("no-worker"));
}

async fn options_arrive(world: World) {
    let recado = &world.recado;
    let later = recado.enqueue(mail(1)).delay(Duration::from_secs(3600)).await.unwrap().id.unwrap();
    assert_eq!(recado.job(later).await.unwrap().state(), "delayed");
    let at = SystemTime::now() + Duration::from_secs(3600);
    let then = recado.enqueue(mail(2)).run_at(at).await.unwrap().id.unwrap();
    assert_eq!(recado.job(then).await.unwrap().state(), "delayed");
    recado.enqueue(mail("low")).await.unwrap();
    recado.enqueue(mail("high")).priority(9).group("g").business_id("order-1").header("trace", "t1").await.unwrap();
    let (seen, mut saw) = tokio::sync::mpsc::unbounded_channel();
    let worker = Worker::builder(recado).handle(move |ctx, job: Mail| {
        let said = (job.to, ctx.group().map(str::to_owned), ctx.business_id().map(str::to_owned), ctx.header("trace"));
        seen.send(said).unwrap();
        async { Ok::<_, recado::BoxError>(String::new()) }
    });
    let summary = worker.build().unwrap().drain().await.unwrap();
    assert_eq!((summary.completed, summary.failed), (2, 0));
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(saw.recv().await, Some(("high".to_owned(), text("g"), text("order-1"), text("t1"))));
    assert_eq!(saw.recv().await, Some(("low".to_owned(), None, None, None)));
}

/// A payload of any size.
#[derive(Debug, Serialize, Deserialize)]
struct Blob(String);

impl Job for Blob {
    const NAME: &'static str = "blob";
    const QUEUE: &'static str = "mail";
    type Output = ();
}

async fn a_batch_is_in_whole_or_names_each_bad_job(world: World) {
    let recado = &world.recado;
    let all = recado.enqueue_all((0..50).map(mail)).await.unwrap();
    assert_eq!(all.len(), 50);
    assert!(all.iter().all(|enqueued| enqueued.id.is_some() && !enqueued.deduplicated));
    let sizes = [10, (1 << 20) + 1, 10, (1 << 20) + 1];
    let refused = recado.enqueue_all(sizes.map(|size| Blob("x".repeat(size)))).await.unwrap_err();
    let recado::Error::Refused(problem) = &refused else { panic!("{refused}") };
    assert_eq!(problem.code(), "payload-too-large");
    let named: Vec<_> = problem.errors().iter().map(|error| (error.index, error.pointer.as_str())).collect();
    assert_eq!(named, [(Some(1), "/payload"), (Some(3), "/payload")]);
    // The queue's own limit is 64 KiB, and only the queue knows.
    let refused = recado.enqueue_all([10, 100_000].map(|size| Blob("x".repeat(size)))).await.unwrap_err();
    assert_eq!(refused.code(), Some("payload-too-large"));
    assert_eq!(recado.jobs::<Blob>("mail", &["ready"]).await.unwrap().len(), 0, "nothing of it is in");
    assert_eq!(recado.enqueue_all::<Mail>([]).await.unwrap(), []);
}

async fn a_bad_job_is_refused_alike(world: World) {
    let recado = &world.recado;
    for (enqueue, code, pointer) in [
        (recado.enqueue(mail(1)).queue("no such name"), "invalid-name", None),
        (recado.enqueue(mail(1)).group(""), "invalid-request", Some("/group")),
        (recado.enqueue(mail(1)).delay(Duration::from_secs(400 * 86_400)), "invalid-request", Some("/delay")),
        (recado.enqueue(mail(1)).header("big", &"x".repeat(9_000)), "payload-too-large", Some("/headers")),
    ] {
        let error = enqueue.await.unwrap_err();
        let recado::Error::Refused(problem) = &error else { panic!("{error}") };
        let named = problem.errors().first().map(|error| (error.index, error.pointer.as_str()));
        assert_eq!((problem.code(), named), (code, pointer.map(|pointer| (None, pointer))), "{error}");
    }
}

/// Made up, and in parts: nothing that looks like a key stands in this file.
fn secret() -> String {
    ["sk", "_live_"].concat() + &"a1B2".repeat(6)
}

async fn what_a_queue_does_not_take_is_refused_and_nothing_else(world: World) {
    let send = |number: usize| {
        let recado = world.recado.clone();
        let to = if number.is_multiple_of(10) { secret() } else { number.to_string() };
        tokio::spawn(async move { recado.enqueue(mail(to)).await })
    };
    let sent: Vec<_> = (0..100).map(send).collect();
    for (number, sent) in sent.into_iter().enumerate() {
        match sent.await.unwrap() {
            Ok(_) => assert_ne!(number % 10, 0, "a secret came in"),
            Err(error) => {
                assert_eq!((number % 10, error.code()), (0, Some("secret-in-payload")), "{error}");
                assert!(!error.to_string().contains(&secret()) && error.to_string().contains("/payload/to"), "{error}");
            }
        }
    }
    let error = world.recado.enqueue_all([mail("a"), mail(secret())]).await.unwrap_err();
    let recado::Error::Refused(problem) = &error else { panic!("{error}") };
    assert_eq!((problem.code(), problem.errors()[0].index), ("secret-in-payload", Some(1)));
}

async fn what_a_worker_says_is_masked(world: World) {
    let recado = &world.recado;
    let fail = async |_: recado::Ctx, _: Mail| {
        Err::<String, _>(recado::JobError::permanent(std::io::Error::other(format!("401 for {}", secret()))))
    };
    let id = recado.enqueue(mail(1)).await.unwrap().id.unwrap();
    Worker::builder(recado).handle(fail).build().unwrap().drain().await.unwrap();
    let job = reaches(recado, id, "dead").await;
    let told: Vec<_> = job.errors().iter().map(|error| error.message.to_string()).collect();
    assert_eq!(told, ["401 for ***"]);
}

/// Schemas are in the directory, whoever opens it.
#[tokio::test]
async fn an_embedded_queue_holds_jobs_to_their_schema() {
    let dir = tempfile::tempdir().unwrap();
    let server = crate::support::serve(dir.path()).await;
    let schema = r#"{"properties":{"to":{"maxLength":3}}}"#;
    let url = format!("http://{}/v1/types/mail.send/versions/1", server.local_addr());
    let put = reqwest::Client::new().put(url).header("content-type", "application/json").body(schema);
    assert_eq!(put.send().await.unwrap().status(), 201);
    server.stop().await.unwrap();
    let recado = recado::Recado::open_with(dir.path(), crate::support::options()).await.unwrap();
    let error = recado.enqueue(mail("long")).await.unwrap_err();
    let recado::Error::Refused(problem) = &error else { panic!("{error}") };
    let fault = &problem.errors()[0];
    assert_eq!(
        (problem.code(), &*fault.pointer, fault.rule.as_deref()),
        ("schema-violation", "/payload/to", Some("maxLength"))
    );
    recado.enqueue(mail("abc")).await.unwrap();
    recado.close().await.unwrap();
}

async fn jobs_of_many_callers_stand_each_for_themselves(world: World) {
    let producers: Vec<_> = (0..200)
        .map(|number| {
            let recado = world.recado.clone();
            // Every tenth is over the queue's limit, which only the queue knows.
            let size = if number % 10 == 0 { 70_000 } else { 10 };
            tokio::spawn(async move { recado.enqueue(Blob("x".repeat(size))).await })
        })
        .collect();
    let (mut taken, mut refused) = (Vec::new(), 0);
    for producer in producers {
        match producer.await.unwrap() {
            Ok(enqueued) => taken.push(enqueued.id.unwrap()),
            Err(error) => {
                assert_eq!(error.code(), Some("payload-too-large"));
                refused += 1;
            }
        }
    }
    taken.sort_unstable();
    taken.dedup();
    assert_eq!((taken.len(), refused), (180, 20));
    assert_eq!(world.recado.jobs::<Blob>("mail", &["ready"]).await.unwrap().len(), 180);
}

async fn equal_keys_make_one_job_and_one_effect(world: World) {
    let recado = &world.recado;
    let first = recado.enqueue(mail(1)).dedup("order-1").await.unwrap();
    let second = recado.enqueue(mail(1)).dedup("order-1").await.unwrap();
    assert_eq!((second.id, second.deduplicated), (first.id, true));
    let conflict = recado.enqueue(mail(2)).dedup_with("order-1", None, OnDuplicate::Conflict).await.unwrap_err();
    assert_eq!(conflict.code(), Some("duplicate-conflict"));
    let one = recado.enqueue(mail("x")).queue("effects").idempotency_key("charge-1").await.unwrap().id.unwrap();
    let two = recado.enqueue(mail("y")).queue("effects").idempotency_key("charge-1").await.unwrap().id.unwrap();
    let run = |_, job: Mail| async move { Ok::<_, recado::BoxError>(format!("to {}", job.to)) };
    let worker = Worker::builder(recado).queue("effects").handle(run).build().unwrap();
    assert_eq!(worker.drain().await.unwrap().completed, 1);
    for id in [one, two] {
        let job = recado.wait(id, LONG).await.unwrap();
        assert_eq!(job.result::<Mail>().unwrap().as_deref(), Some("to x"));
    }
}

async fn a_cancelled_job_does_not_run(world: World) {
    let recado = &world.recado;
    let id = recado.enqueue(mail(1)).await.unwrap().id.unwrap();
    recado.cancel(id).await.unwrap();
    recado.cancel(id).await.unwrap();
    assert_eq!(reaches(recado, id, "cancelled").await.attempts(), 0);
    let gone = recado::JobId::parse("job_019aaaaaaaaa7000800000000000ffff").unwrap();
    assert_eq!(recado.cancel(gone).await.unwrap_err().code(), Some("gone"));
}
