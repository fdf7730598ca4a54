//! Act a: the states of a job, and a limit on what is in flight.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde_json::{Value, json};

use super::worker::{Crew, Event, Orders, Verdict, Work};
use super::{PATIENCE, Play, ensure, left, number, owner, short, text};
use crate::client::Path;
use crate::failure::{Exit, Failure};
use crate::ui::list;

pub(super) fn play(play: &Play<'_>) -> Result<(), Failure> {
    let stage = play.stage;
    stage.act(
        'a',
        "ready, in flight, done",
        "a job goes to one worker, never more than maxInFlight at once, and is gone only when acked",
    )?;
    let queue = play.queue("work");
    play.configure(&queue, &json!({ "owner": owner(), "maxInFlight": 2, "visibilityTimeout": "500ms" }))?;
    let ids = play.enqueue(
        &queue,
        &json!([
            { "type": "email.send", "payload": { "deliveryId": "mail-1001" } },
            { "type": "image.resize", "payload": { "imageId": "img-7", "width": 640 } },
            { "type": "report.generate", "payload": { "reportId": "rep-2026-11" } },
        ]),
    )?;
    let stats = play.stats(&queue)?;
    stage.say(&format!("3 jobs enqueued in one request: {}", counts(&stats)))?;
    ensure(ids.len() == 3 && number(&stats, "ready") == 3, || format!("3 jobs should be ready: {stats}"))?;

    let (go, gate) = channel();
    let (events, news) = channel();
    let gate = Arc::new(Mutex::new(gate));
    let orders = Orders {
        url: play.server.url().to_owned(),
        queue: queue.clone(),
        max: 1,
        events,
        handler: Arc::new(move |work: &Work| hold(work, &gate)),
    };
    let crew = Crew::start(2, &orders);
    received(play, &news, 2)?;
    let stats = play.stats(&queue)?;
    stage.say(&counts(&stats))?;
    ensure(number(&stats, "inFlight") == 2 && number(&stats, "ready") == 1, || {
        format!("2 jobs should be in flight and 1 ready: {stats}")
    })?;
    let reason = empty(play, &queue)?;
    ensure(!reason.is_empty(), || "a third receive should be held back and was not".to_owned())?;
    stage.held(&format!(
        "a third worker asks and gets nothing: backpressure, a job is there but held back by {reason}"
    ))?;

    for _ in 0..ids.len() {
        // A worker that went away is reported as an event.
        let _ = go.send(());
    }
    finished(play, &news, ids.len())?;
    let reason = empty(play, &queue)?;
    ensure(reason.is_empty(), || format!("the queue should be empty, not held back by {reason}"))?;
    stage.say("a worker asks again and gets nothing: no job, and nothing holds one back")?;
    drop(crew);
    let stats = play.stats(&queue)?;
    for member in ["depth", "ready", "delayed", "inFlight", "dead"] {
        ensure(number(&stats, member) == 0, || format!("{member} should be 0 at the end: {stats}"))?;
    }
    stage.kept(&format!("3 jobs done by 2 workers, 2 at a time; at the end {}", counts(&stats)))
}

/// The work of this act: to hold the job until the director says go.
fn hold(work: &Work, gate: &Mutex<Receiver<()>>) -> Verdict {
    let gate = gate.lock().unwrap_or_else(PoisonError::into_inner);
    match gate.recv_timeout(PATIENCE) {
        Ok(()) => Verdict::Done(json!({ "handled": work.job_type })),
        Err(_) => Verdict::Failed("demo", "nobody said go".to_owned()),
    }
}

/// Asks for a job as one more worker; answers what holds jobs back, or nothing.
fn empty(play: &Play<'_>, queue: &str) -> Result<String, Failure> {
    let path = Path::v1(&["queues", queue, "receive"]);
    let answer = play.client.post(&path, &json!({ "worker": "visitor" }))?.value()?;
    ensure(list(&answer, "jobs").is_empty(), || format!("a receive should be empty: {answer}"))?;
    Ok(text(&answer, "emptyBecause").to_owned())
}

fn received(play: &Play<'_>, news: &Receiver<Event>, wanted: usize) -> Result<(), Failure> {
    let deadline = Instant::now() + PATIENCE;
    for _ in 0..wanted {
        match next(news, deadline)? {
            Event::Received { worker, work } => tell_received(play, &worker, &work)?,
            other => return Err(unexpected(&other)),
        }
    }
    Ok(())
}

fn finished(play: &Play<'_>, news: &Receiver<Event>, wanted: usize) -> Result<(), Failure> {
    let deadline = Instant::now() + PATIENCE;
    let mut done = 0;
    while done < wanted {
        match next(news, deadline)? {
            Event::Received { worker, work } => tell_received(play, &worker, &work)?,
            Event::Settled { worker, work, answer, .. } if answer.get("ok") == Some(&Value::Bool(true)) => {
                done += 1;
                play.stage.good(&format!("{worker} acked {} ({})", work.job_type, short(&work.id)))?;
            }
            other => return Err(unexpected(&other)),
        }
    }
    Ok(())
}

fn tell_received(play: &Play<'_>, worker: &str, work: &Work) -> Result<(), Failure> {
    play.stage.say(&format!(
        "{worker} received {} ({}), hidden from others for 500 ms: in flight",
        work.job_type,
        short(&work.id)
    ))
}

/// The next event of the workers; none in time, or a worker that broke, ends the act.
pub(super) fn next(news: &Receiver<Event>, deadline: Instant) -> Result<Event, Failure> {
    match news.recv_timeout(left(deadline)) {
        Ok(Event::Broken(failure)) => Err(failure),
        Ok(event) => Ok(event),
        Err(_) => {
            Err(Failure::new(Exit::CheckFailed, format!("the workers did not get on within {} s", PATIENCE.as_secs())))
        }
    }
}

pub(super) fn unexpected(event: &Event) -> Failure {
    Failure::new(Exit::CheckFailed, format!("a worker had something unexpected: {event:?}"))
}

/// The states of a queue on one line.
pub(super) fn counts(stats: &Value) -> String {
    let one = |(member, word): &(&str, &str)| format!("{} {word}", number(stats, member));
    let states = [("ready", "ready"), ("inFlight", "in flight"), ("completed", "completed"), ("dead", "dead")];
    states.iter().map(one).collect::<Vec<_>>().join(", ")
}
