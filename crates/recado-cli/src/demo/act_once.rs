//! Act b: one business effect under one idempotency key.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde_json::{Value, json};

use super::act_flight::{next, unexpected};
use super::worker::{Crew, Event, Orders, Verdict, Work};
use super::{PATIENCE, Play, ensure, number, owner, short, text};
use crate::client::Path;
use crate::failure::Failure;

const KEY: &str = "email:welcome:user-42";

pub(super) fn play(play: &Play<'_>) -> Result<(), Failure> {
    let stage = play.stage;
    stage.act(
        'b',
        "one effect",
        "two jobs with one idempotency key make one business effect; the second gets the first one's result",
    )?;
    let queue = play.queue("mail");
    play.configure(&queue, &json!({ "owner": owner(), "visibilityTimeout": "5s" }))?;
    let mail = json!({
        "type": "email.send", "payload": { "userId": "user-42", "templateId": "welcome" },
        "idempotencyKey": KEY,
    });
    let first = enqueue(play, &queue, &mail)?;
    let second = enqueue(play, &queue, &mail)?;
    stage.say(&format!("the same mail enqueued twice under key {KEY}: {} and {}", short(&first), short(&second)))?;
    ensure(first != second, || "two enqueues should make two jobs".to_owned())?;

    let sent = Arc::new(AtomicUsize::new(0));
    let (events, news) = channel();
    let (told, tell) = channel::<()>();
    let tell = Mutex::new(tell);
    let outbox = Arc::clone(&sent);
    let orders = Orders {
        url: play.server.url().to_owned(),
        queue: queue.clone(),
        max: 1,
        events,
        handler: Arc::new(move |_| {
            let number = outbox.fetch_add(1, Ordering::SeqCst) + 1;
            // The mail is on its way until the director has looked at the other job.
            if let Ok(tell) = tell.lock() {
                let _ = tell.recv_timeout(PATIENCE);
            }
            Verdict::Done(json!({ "messageId": format!("<mail-{number}@example.org>") }))
        }),
    };
    let crew = Crew::start(2, &orders);
    received(play, &news)?;
    let waiting = play.client.get(&Path::v1(&["jobs", &second]))?.value()?;
    ensure(text(&waiting, "state") != "inFlight", || format!("both jobs of one key are in flight: {waiting}"))?;
    stage.held(&format!(
        "one is being sent; the other is {}, held back by {}",
        text(&waiting, "state"),
        text(&waiting, "heldBack")
    ))?;
    // Twice, so that a second sending could not hide behind a closed door.
    let _ = told.send(());
    let _ = told.send(());
    sent_once(play, &news)?;
    let ended = (play.ended(&first)?, play.ended(&second)?);
    drop(crew);
    check(play, &queue, &ended, sent.load(Ordering::SeqCst))
}

fn check(play: &Play<'_>, queue: &str, (one, two): &(Value, Value), mails: usize) -> Result<(), Failure> {
    let stage = play.stage;
    let result = one.get("result").cloned().unwrap_or(Value::Null);
    stage.good(&format!("{} completed, result {result}", short(text(one, "id"))))?;
    stage.good(&format!(
        "{} completed with the saved result {}, without a worker",
        short(text(two, "id")),
        two.get("result").unwrap_or(&Value::Null)
    ))?;
    let stats = play.stats(queue)?;
    ensure(mails == 1, || format!("{mails} mails were sent, not 1"))?;
    ensure(text(one, "state") == "completed" && text(two, "state") == "completed", || {
        format!("both jobs should be completed: {one} {two}")
    })?;
    ensure(!result.is_null() && two.get("result") == Some(&result), || {
        format!("the results should be the same: {one} {two}")
    })?;
    ensure(number(&stats, "skipped") == 1, || format!("1 job should count as skipped: {stats}"))?;
    stage.kept("2 jobs, 1 mail, 1 result; the second is counted as skipped")
}

fn enqueue(play: &Play<'_>, queue: &str, mail: &Value) -> Result<String, Failure> {
    let ids = play.enqueue(queue, mail)?;
    ids.into_iter().next().ok_or_else(|| Failure::bad_data("an enqueue answered without an id"))
}

fn received(play: &Play<'_>, news: &Receiver<Event>) -> Result<(), Failure> {
    match next(news, Instant::now() + PATIENCE)? {
        Event::Received { worker, work } => tell(play, &worker, &work),
        other => Err(unexpected(&other)),
    }
}

fn tell(play: &Play<'_>, worker: &str, work: &Work) -> Result<(), Failure> {
    play.stage.say(&format!("{worker} received {} and sends it", short(&work.id)))
}

fn sent_once(play: &Play<'_>, news: &Receiver<Event>) -> Result<(), Failure> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match next(news, deadline)? {
            Event::Received { worker, work } => tell(play, &worker, &work)?,
            Event::Settled { answer, .. } if answer.get("ok") == Some(&Value::Bool(true)) => {
                return Ok(());
            }
            other => return Err(unexpected(&other)),
        }
    }
}
