//! What the layers of this crate show of a run.

use std::fmt::Write;
use std::sync::{Arc, Mutex};

use prometheus_client::registry::Registry;
use recado::layer::{Metrics, Trace};
use recado::{BoxError, Ctx, Recado, TraceContext, Worker};
use tracing::field::{Field, Visit};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};

use crate::support::{Mail, World, mail};

over_both! {
    what_a_job_enqueues_continues_the_producers_trace
}

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

async fn what_a_job_enqueues_continues_the_producers_trace(world: World) {
    let recado = &world.recado;
    recado.enqueue(mail("first")).header("traceparent", PARENT).await.unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let traces = Arc::clone(&seen);
    let run = move |ctx: Ctx, job: Mail| {
        traces.lock().unwrap().push((ctx.parent_trace(), ctx.trace()));
        async move {
            if job.to == "first" {
                ctx.recado().enqueue(mail("second")).await?;
            }
            Ok::<_, BoxError>(String::new())
        }
    };
    Worker::builder(recado).handle(run).build().unwrap().drain().await.unwrap();
    let seen = seen.lock().unwrap();
    let [(first_parent, first), (second_parent, second)] = seen[..] else { panic!("{seen:?}") };
    assert_eq!(first_parent, TraceContext::parse(PARENT));
    assert_eq!(second_parent, Some(first));
    assert!([first, second].iter().all(|trace| trace.trace_id() == "4bf92f3577b34da6a3ce929d0e0e4736"));
    assert!(first.span_id() != second.span_id() && first.span_id() != "00f067aa0ba902b7");
}

/// Writes down the fields of spans.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<String>>);

impl<S: tracing::Subscriber> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &tracing::span::Attributes<'_>, _: &tracing::span::Id, _: Context<'_, S>) {
        struct Fields<'t>(&'t mut String);
        impl Visit for Fields<'_> {
            fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
                write!(self.0, " {}={value:?}", field.name()).unwrap();
            }
        }
        let mut text = self.0.lock().unwrap();
        text.push_str(attributes.metadata().name());
        attributes.record(&mut Fields(&mut text));
    }
}

// One thread: what is the default of the test is that of the runs.
#[tokio::test]
async fn each_run_has_a_span_in_the_producers_trace() {
    let (recado, _clock) = Recado::in_memory().await.unwrap();
    let id = recado.enqueue(mail(1)).header("traceparent", PARENT).await.unwrap().id.unwrap();
    let spans = Spans::default();
    let _default = tracing::subscriber::set_default(tracing_subscriber::registry().with(spans.clone()));
    let run = |ctx: Ctx, _: Mail| async move { Ok::<_, BoxError>(ctx.trace().span_id()) };
    Worker::builder(&recado).layer(Trace).handle(run).build().unwrap().drain().await.unwrap();
    let span = recado.job(id).await.unwrap().result::<Mail>().unwrap().unwrap();
    let seen = spans.0.lock().unwrap();
    let expected = format!(
        "job id={id} type=\"mail.send\" queue=\"mail\" attempt=1 trace_id=\"4bf92f3577b34da6a3ce929d0e0e4736\" \
         span_id=\"{span}\" parent_id=\"00f067aa0ba902b7\""
    );
    assert_eq!(*seen, expected);
}

#[tokio::test]
async fn runs_are_counted_by_how_they_ended() {
    let (recado, _clock) = Recado::in_memory().await.unwrap();
    let mut registry = Registry::default();
    for to in ["fine", "wrong", "panics"] {
        recado.enqueue(mail(to)).await.unwrap();
    }
    let run = |_, job: Mail| async move {
        match job.to.as_str() {
            "wrong" => Err(recado::JobError::permanent("no")),
            "panics" => panic!("on purpose"),
            _ => Ok(String::new()),
        }
    };
    let worker = Worker::builder(&recado).layer(Metrics::new(&mut registry)).handle(run).build().unwrap();
    worker.drain().await.unwrap();
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    for (outcome, count) in [("done", 1), ("failed", 1), ("broken_off", 3)] {
        let line =
            format!("recado_worker_runs_total{{queue=\"mail\",type=\"mail.send\",outcome=\"{outcome}\"}} {count}\n");
        assert!(text.contains(&line), "{line} is not in\n{text}");
    }
    assert!(text.contains("recado_worker_running{queue=\"mail\",type=\"mail.send\"} 0\n"), "{text}");
}
