//! What workers do.

use std::sync::{Arc, Mutex};

use recado::{BoxError, Job, Worker};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use crate::support::{AtWork, LONG, Mail, World, mail, reaches, until};

over_both! {
    results_come_back_typed
    many_jobs_are_each_done_once
    what_nobody_can_handle_waits_untouched
    several_types_and_queues_in_strict_order
    weights_let_no_queue_starve
    any_type_can_be_handled_as_json
    layers_go_around_every_handler
}

async fn results_come_back_typed(world: World) {
    let run = |_, job: Mail| async move { Ok::<_, BoxError>(format!("sent to {}", job.to)) };
    let worker = AtWork::start(Worker::builder(&world.recado).handle(run));
    let id = world.recado.enqueue(mail("b")).await.unwrap().id.unwrap();
    let job = world.recado.wait(id, LONG).await.unwrap();
    assert_eq!((job.state(), job.attempts()), ("completed", 1));
    assert_eq!(job.result::<Mail>().unwrap().as_deref(), Some("sent to b"));
    assert_eq!(worker.stop().await.completed, 1);
}

async fn many_jobs_are_each_done_once(world: World) {
    const JOBS: usize = 1_000;
    let done = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&done);
    let run = move |_, job: Mail| {
        seen.lock().unwrap().push(job.to.parse::<usize>().unwrap());
        async { Ok::<_, BoxError>(String::new()) }
    };
    world.recado.enqueue_all((0..JOBS).map(mail)).await.unwrap();
    let worker = AtWork::start(Worker::builder(&world.recado).concurrency(16).handle(run));
    until("all are done", async || done.lock().unwrap().len() == JOBS).await;
    assert_eq!(worker.stop().await.completed, JOBS as u64);
    done.lock().unwrap().sort_unstable();
    assert!(done.lock().unwrap().iter().copied().eq(0..JOBS));
}

/// The same mail in a form that the old worker cannot read.
#[derive(Debug, Serialize, Deserialize)]
struct MailTwo {
    recipient: String,
}

impl Job for MailTwo {
    const NAME: &'static str = Mail::NAME;
    const SCHEMA_VERSION: u32 = 2;
    const QUEUE: &'static str = Mail::QUEUE;
    type Output = String;
}

async fn what_nobody_can_handle_waits_untouched(world: World) {
    let recado = &world.recado;
    let id = recado.enqueue(MailTwo { recipient: "c".into() }).await.unwrap().id.unwrap();
    let old = AtWork::start(Worker::builder(recado).handle(|_, _: Mail| async { Ok::<_, BoxError>(String::new()) }));
    let other = recado.enqueue(mail("d")).await.unwrap().id.unwrap();
    reaches(recado, other, "completed").await;
    let job = recado.job(id).await.unwrap();
    assert_eq!((job.state(), job.attempts(), job.deliveries()), ("ready", 0, 0));
    assert_eq!(job.held_back(), Some("no-capable-worker"));
    let run = |_, job: MailTwo| async move { Ok::<_, BoxError>(job.recipient) };
    let both = Worker::builder(recado).handle(run).handle(|_, job: Mail| async move { Ok::<_, BoxError>(job.to) });
    let new = AtWork::start(both);
    let job = reaches(recado, id, "completed").await;
    assert_eq!((job.attempts(), job.result::<MailTwo>().unwrap().as_deref()), (1, Some("c")));
    let twice = Worker::builder(recado).handle(run).handle(run).build();
    assert_eq!(twice.err().unwrap().code(), Some("invalid-request"));
    old.stop().await;
    new.stop().await;
}

#[derive(Debug, Serialize, Deserialize)]
struct Charge(u32);

impl Job for Charge {
    const NAME: &'static str = "charge";
    const QUEUE: &'static str = "critical";
    type Output = u32;
}

async fn several_types_and_queues_in_strict_order(world: World) {
    let recado = &world.recado;
    recado.enqueue_all((0..3).map(mail)).await.unwrap();
    recado.enqueue_all((0..3).map(Charge)).await.unwrap();
    let order = Arc::new(Mutex::new(String::new()));
    let (one, two) = (Arc::clone(&order), Arc::clone(&order));
    let worker = Worker::builder(recado)
        .queue("critical")
        .queue("mail")
        .handle(move |_, _: Mail| {
            one.lock().unwrap().push('m');
            async { Ok::<_, BoxError>(String::new()) }
        })
        .handle(move |_, job: Charge| {
            two.lock().unwrap().push('c');
            async move { Ok::<_, BoxError>(job.0) }
        });
    assert_eq!(worker.build().unwrap().drain().await.unwrap().completed, 6);
    assert_eq!(*order.lock().unwrap(), "cccmmm");
}

async fn weights_let_no_queue_starve(world: World) {
    let recado = &world.recado;
    recado.enqueue_all((0..300).map(mail)).queue("many").await.unwrap();
    recado.enqueue_all((0..300).map(mail)).queue("few").await.unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&order);
    let run = move |ctx: recado::Ctx, _: Mail| {
        seen.lock().unwrap().push(ctx.queue().to_owned());
        async { Ok::<_, BoxError>(String::new()) }
    };
    let worker = Worker::builder(recado).weighted([("many", 5), ("few", 1)]).handle(run);
    worker.build().unwrap().drain().await.unwrap();
    let few = order.lock().unwrap().iter().take(300).filter(|queue| *queue == "few").count();
    // One in six is 50; luck is wide, but none of this width.
    assert!((10..150).contains(&few), "{few} of the first 300");
}

async fn any_type_can_be_handled_as_json(world: World) {
    let recado = &world.recado;
    let id = recado.enqueue(Charge(7)).await.unwrap().id.unwrap();
    let run = |ctx: recado::Ctx| async move {
        assert_eq!(ctx.kind(), "charge");
        let number: u32 = serde_json::from_str(ctx.payload().get())?;
        Ok::<Box<RawValue>, BoxError>(to_raw_value(&(number + 1))?)
    };
    let worker = Worker::builder(recado).queue("critical").handle_raw(run).build().unwrap();
    assert_eq!(worker.drain().await.unwrap().completed, 1);
    assert_eq!(recado.job(id).await.unwrap().result::<Charge>().unwrap(), Some(8));
}

async fn layers_go_around_every_handler(world: World) {
    let recado = &world.recado;
    let order = Arc::new(Mutex::new(Vec::new()));
    let note = |word: &'static str| {
        let order = Arc::clone(&order);
        tower::layer::layer_fn(move |inner: recado::Handler| {
            let order = Arc::clone(&order);
            tower::ServiceBuilder::new()
                .map_request(move |ctx: recado::Ctx| {
                    order.lock().unwrap().push(word);
                    ctx
                })
                .service(inner)
        })
    };
    recado.enqueue(mail(1)).await.unwrap();
    let worker = Worker::builder(recado)
        .layer(note("outer"))
        .layer(note("inner"))
        .handle(|_, _: Mail| async { Ok::<_, BoxError>(String::new()) });
    worker.build().unwrap().drain().await.unwrap();
    assert_eq!(*order.lock().unwrap(), ["outer", "inner"]);
}
