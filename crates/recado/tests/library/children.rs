//! Jobs that wait for others.

use std::sync::{Arc, Mutex};

use recado::{BoxError, Ctx, Job, JobError, OnChildDead, Recado, Worker};
use serde::{Deserialize, Serialize};

use crate::support::World;

over_both! {
    a_parent_reads_what_its_children_answered
    a_child_that_does_not_complete_is_told_or_is_the_end
    a_batch_ends_once
    what_cannot_be_a_family_is_refused
}

#[derive(Debug, Serialize, Deserialize)]
struct Page(u32);

impl Job for Page {
    const NAME: &'static str = "page";
    const QUEUE: &'static str = "pages";
    type Output = String;
}

#[derive(Debug, Serialize, Deserialize)]
struct Report;

impl Job for Report {
    const NAME: &'static str = "report";
    const QUEUE: &'static str = "reports";
    type Output = Vec<String>;
}

/// Works until nothing is left; page 0 cannot be made.
async fn drain(recado: &Recado, seen: &Arc<Mutex<Vec<String>>>) {
    let page = |_: Ctx, Page(number)| async move {
        if number == 0 { Err(JobError::permanent("no such page")) } else { Ok(format!("page {number}")) }
    };
    let seen = Arc::clone(seen);
    let report = move |ctx: Ctx, Report| {
        let seen = Arc::clone(&seen);
        async move {
            let mut pages = Vec::new();
            for child in ctx.children() {
                pages.extend(child.result::<Page>()?);
                seen.lock().unwrap().push(child.state().to_owned());
            }
            Ok::<_, BoxError>(pages)
        }
    };
    let worker = Worker::builder(recado).queue("pages").queue("reports").handle(page).handle(report);
    worker.build().unwrap().drain().await.unwrap();
}

async fn a_parent_reads_what_its_children_answered(world: World) {
    let recado = &world.recado;
    let chapter = recado.enqueue(Report).child(recado.enqueue(Page(2))).child(recado.enqueue(Page(3)));
    let enqueued = recado.enqueue(Report).child(recado.enqueue(Page(1))).child(chapter).await.unwrap();
    let ids: Vec<_> = enqueued.children.iter().map(|child| child.id.unwrap()).collect();
    assert_eq!((ids.len(), enqueued.children[1].children.len()), (2, 2));
    let report = enqueued.id.unwrap();
    let job = recado.job(report).await.unwrap();
    assert_eq!((job.state(), job.held_back()), ("blocked", Some("children-pending")));
    assert_eq!(recado.job(ids[0]).await.unwrap().queue(), "pages");
    let seen = Arc::default();
    drain(recado, &seen).await;
    let job = recado.job(report).await.unwrap();
    let counts = job.children().unwrap();
    assert_eq!((counts.total, counts.pending, counts.completed, counts.failed), (2, 0, 2, 0));
    let chapter = recado.job(ids[1]).await.unwrap();
    assert_eq!(chapter.result::<Report>().unwrap().unwrap(), ["page 2", "page 3"]);
}

async fn a_child_that_does_not_complete_is_told_or_is_the_end(world: World) {
    let recado = &world.recado;
    let of_both = || recado.enqueue(Report).child(recado.enqueue(Page(0))).child(recado.enqueue(Page(1)));
    let first = of_both().await.unwrap().id.unwrap();
    let second = of_both().on_child_dead(OnChildDead::Continue).await.unwrap().id.unwrap();
    let seen = Arc::default();
    drain(recado, &seen).await;
    let dead = recado.job(first).await.unwrap();
    assert_eq!((dead.state(), &*dead.errors()[0].kind), ("dead", "child-dead"));
    let done = recado.job(second).await.unwrap();
    assert_eq!(done.result::<Report>().unwrap().unwrap(), ["page 1"]);
    assert_eq!(*seen.lock().unwrap(), ["dead", "completed"]);
}

async fn a_batch_ends_once(world: World) {
    let recado = &world.recado;
    let pages = (0..4).map(Page);
    recado.enqueue_all(pages).batch("book", recado.enqueue(Report)).await.unwrap();
    recado.enqueue(Page(5)).in_batch("book").await.unwrap();
    let error = recado.enqueue(Page(5)).in_batch("another").await.unwrap_err();
    assert_eq!(error.code(), Some("invalid-request"), "{error}");
    let blocked = recado.jobs::<Report>("reports", &["blocked"]).await.unwrap();
    assert_eq!(blocked.len(), 1);
    drain(recado, &Arc::default()).await;
    let ended = recado.jobs::<Report>("reports", &[]).await.unwrap();
    assert_eq!((ended.len(), ended[0].state()), (1, "completed"));
    let counts = recado.job(ended[0].id()).await.unwrap().children().unwrap();
    assert_eq!((counts.total, counts.completed, counts.failed), (5, 4, 1));
}

async fn what_cannot_be_a_family_is_refused(world: World) {
    let recado = &world.recado;
    for refused in [
        recado.enqueue(Report).child(recado.enqueue(Page(1)).dedup("k")).await,
        recado.enqueue(Report).child(recado.enqueue(Page(1)).header("password", "hunter2-Zk4!vQ9x")).await,
        recado.enqueue(Report).child(recado.enqueue(Page(1)).queue("recado.own")).await,
    ] {
        let error = refused.unwrap_err();
        let recado::Error::Refused(problem) = &error else { panic!("{error}") };
        let pointers: Vec<_> = problem.errors().iter().map(|error| error.pointer.as_str()).collect();
        assert!(pointers[0].starts_with("/children/0/"), "{error}: {pointers:?}");
    }
    assert!(recado.jobs::<Page>("pages", &[]).await.is_err(), "nothing is there");
}
